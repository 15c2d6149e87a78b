//! Opens the driver's library and finds functions in it. A door for `unsafe`.
//!
//! The library is `libcuda.so.1`, the name a driver installs, and never `libcuda.so`, the name
//! under which toolkits ship a stub. It is opened once and never closed: the driver has threads.

#![expect(unsafe_code, reason = "opens the library of the driver and finds functions in it")]

use std::ffi::{CStr, OsStr, OsString};
use std::mem;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;

use libloading::os::unix::{Library as Loaded, RTLD_LAZY};

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
            let cause = cause.unwrap_or_else(|| error.to_string());
            // The loader begins with the name, and so does whoever names it.
            let name = format!("{}: ", name.to_string_lossy());
            cause.strip_prefix(&name).unwrap_or(&cause).to_owned()
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

/// The function `$name` of `$library`, or an error that names it, from a function that returns
/// errors as text. The place where it stands must want the type of a function pointer with the
/// signature that the function has in the documented interface.
macro_rules! documented_function {
    ($library:expr, $name:literal) => {{
        // SAFETY: the type is that of the function in the documented interface.
        let found = unsafe { $library.function($name) };
        found.ok_or_else(|| format!("it has no {}", $name.to_string_lossy()))?
    }};
}
pub(crate) use documented_function;

/// Where the library `name` lies, if this process has loaded it and it has the function `function`.
pub(crate) fn loaded_at(name: &str, function: &CStr) -> Option<PathBuf> {
    // SAFETY: a library that is loaded already runs no initialisers.
    let library = unsafe { Loaded::open(Some(name), RTLD_LAZY | libc::RTLD_NOLOAD) }.ok()?;
    // SAFETY: the address is not called.
    let symbol = unsafe { library.get::<*const ()>(function.to_bytes_with_nul()) }.ok()?;
    let address = symbol.into_raw().cast_const();
    // SAFETY: a record of pointers and numbers, for which all zeros are a value.
    let mut found: libc::Dl_info = unsafe { mem::zeroed() };
    // SAFETY: the address is only looked up, and the record outlives the call.
    let known = unsafe { libc::dladdr(address, &raw mut found) } != 0;
    if !known || found.dli_fname.is_null() {
        return None;
    }
    // SAFETY: the loader's name of a library that is loaded, which `library` still holds.
    let path = unsafe { CStr::from_ptr(found.dli_fname) };
    Some(PathBuf::from(OsString::from_vec(path.to_bytes().to_vec())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loaded_libraries_say_where_they_lie() {
        let found = loaded_at("libc.so.6", c"malloc").unwrap();
        assert!(found.is_absolute() && found.ends_with("libc.so.6"), "{found:?}");
        assert_eq!(loaded_at("libc.so.6", c"no_such_function"), None);
        assert_eq!(loaded_at("libnothing.so.1", c"malloc"), None);
    }
}
