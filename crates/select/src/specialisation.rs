//! What users want of specialised kernels: whether they are used, and where they are kept.
//!
//! Absent: files (a [`KernelCache`] belongs to a front end), kernels, compilers.

use std::fmt;
use std::sync::Arc;

/// Whether specialised kernels are used, and where they come from.
#[derive(Clone, Default)]
pub struct Specialisation {
    /// Whether, and how eagerly.
    pub mode: SpecialiseMode,
    /// Where they are kept.
    pub cache: Option<Arc<dyn KernelCache>>,
    /// The library of the run-time compiler, if it is not to be looked for.
    pub compiler: Option<String>,
}

/// Whether specialised kernels are used. Ranks may differ.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum SpecialiseMode {
    /// Interpreters serve everything.
    Never,
    /// Those that the cache holds are used.
    #[default]
    Cached,
    /// Those that it does not hold are compiled when a communicator is made, and put there.
    Compiled,
}

/// Keeps files of kernels, by names of letters, digits and points. Others may use what it uses at
/// the same time: whoever reads gets a file as some writer left it, or none.
pub trait KernelCache: Send + Sync {
    /// Where it is, for people.
    fn place(&self) -> String;

    /// The file of that name, if there is one.
    ///
    /// # Errors
    ///
    /// There is something that cannot be read.
    fn read(&self, name: &str) -> Result<Option<Vec<u8>>, String>;

    /// Leaves `bytes` under that name, all of them or nothing.
    ///
    /// # Errors
    ///
    /// They cannot be written.
    fn write(&self, name: &str, bytes: &[u8]) -> Result<(), String>;
}

impl fmt::Debug for Specialisation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { mode, cache, compiler } = self;
        let place = cache.as_ref().map(|cache| cache.place());
        let mut debug = f.debug_struct("Specialisation");
        debug.field("mode", mode).field("cache", &place).field("compiler", compiler).finish()
    }
}
