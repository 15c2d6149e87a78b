//! Specialised kernels: made for one plan each, they serve its calls faster than the interpreters,
//! bit for bit alike.
//!
//! [`crate::specialised_kernels`] is what there should be for a rank, [`provide()`] takes it from a
//! cache or compiles it. What a communicator on GPUs does with it, `cuda::specialised` says.
//!
//! # Guarantees
//!
//! * Without a compiler, without a cache, with a cache full of anything, everything works: whatever
//!   specialised kernel cannot be had, the interpreter serves. Every reason is an
//!   [`Event`](crate::Event), each once.
//! * Ranks need not agree about any of it: specialised kernels and interpreters leave the same
//!   behind and talk to one another.
//!
//! Absent: files (a [`KernelCache`] belongs to a front end), GPUs.

mod provide;

use std::fmt;
use std::sync::Arc;

use msccl_gpu::{Form, Nvrtc, Source};
use msccl_kernels::recipe::{Architecture, options};
use msccl_kernels::specialised::{Kernel, headers};

pub(crate) use provide::{Compiler, provide};
pub use provide::{Made, Origin};

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

/// The name of the file of `kernel` for `architecture`.
pub(crate) fn file_name(kernel: &Kernel, architecture: Architecture) -> String {
    let Kernel { protocol, data_type, .. } = kernel;
    let key = kernel.key(architecture);
    format!("{}.{protocol}.{data_type}.{key}.kernel", architecture.name())
}

/// The run-time compiler, with what specialised kernels include.
struct RuntimeCompiler {
    nvrtc: Nvrtc,
    headers: Vec<Source>,
}

/// The run-time compiler that `specialised` names, or the first that there is.
pub(crate) fn load(specialised: &Specialisation) -> Result<Box<dyn Compiler>, String> {
    let nvrtc = Nvrtc::find(specialised.compiler.as_deref())?;
    let sources = headers().iter().map(|(name, text)| Source::new(name, text.as_str()));
    Ok(Box::new(RuntimeCompiler { nvrtc, headers: sources.collect::<Result<_, _>>()? }))
}

impl Compiler for RuntimeCompiler {
    fn name(&self) -> String {
        let (major, minor) = self.nvrtc.version();
        format!("NVRTC {major}.{minor} ({})", self.nvrtc.name())
    }

    fn compile(&self, kernel: &Kernel, architecture: Architecture) -> Result<Vec<u8>, String> {
        let main = Source::new("special.cu", kernel.source())?;
        self.nvrtc.compile(&main, &self.headers, &options(architecture), Form::Machine)
    }
}
