//! Opens the driver's library and finds functions in it. A door for `unsafe`.
//!
//! The library is `libcuda.so.1`, the name a driver installs, and never `libcuda.so`, the name
//! under which toolkits ship a stub. It is opened once and never closed: the driver has threads.

use std::ffi::{CStr, OsStr};
use std::mem;

/// An open library that stays open until the process ends.
pub(crate) struct Library(&'static libloading::Library);

impl Library {
    /// Opens `name`, a path or a name for the loader to find.
    ///
    /// # Safety
    ///
    /// The library's initialisers may be run.
    pub(crate) unsafe fn open(name: &OsStr) -> Result<Self, String> {
        // SAFETY: promised by the caller.
        let library = unsafe { libloading::Library::new(name) }.map_err(|error| {
            let cause = std::error::Error::source(&error).map(ToString::to_string);
            cause.unwrap_or_else(|| error.to_string())
        })?;
        Ok(Self(Box::leak(Box::new(library))))
    }

    /// The function `name`, if the library has it.
    ///
    /// # Safety
    ///
    /// `F` must be the type of a function pointer with the signature that `name` has.
    pub(crate) unsafe fn function<F: Copy>(&self, name: &CStr) -> Option<F> {
        const { assert!(mem::size_of::<F>() == mem::size_of::<usize>()) };
        // SAFETY: the caller vouches for the type.
        let symbol = unsafe { self.0.get::<F>(name.to_bytes_with_nul()) };
        symbol.ok().map(|symbol| *symbol)
    }
}
