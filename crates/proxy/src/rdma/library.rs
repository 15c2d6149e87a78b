//! Finds the library for verbs: an unsafe boundary, for loading it and for asking where our own
//! code lies.

#![expect(unsafe_code, reason = "loads the library for verbs")]

use std::ffi::{CStr, OsStr, c_void};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::fs::{Access, access, readlink};

use super::abi::{Api, ENTRY, Entry, VERSION};

/// The library's file name.
const NAME: &str = "libmsccl-rdma.so";

/// The table of the library at `path`, or of the one that is found; the text says where it was
/// looked for. The library stays loaded until the process ends.
pub(super) fn load(path: Option<&Path>) -> Result<&'static Api, String> {
    if let Some(path) = path {
        return open(path.as_os_str());
    }
    let beside: Vec<_> = own_folders().into_iter().map(|folder| folder.join(NAME)).collect();
    match beside.iter().find(|path| access(*path, Access::EXISTS).is_ok()) {
        Some(path) => open(path.as_os_str()),
        None => open(NAME.as_ref()).map_err(|why| {
            let beside: Vec<_> = beside.iter().map(|path| path.display().to_string()).collect();
            format!("{why} (and there is no {})", beside.join(" nor "))
        }),
    }
}

fn open(name: &OsStr) -> Result<&'static Api, String> {
    let path = Path::new(name).display();
    // SAFETY: the user has named or installed this library, whose initialisers may run.
    let library = unsafe { libloading::Library::new(name) };
    let library = library.map_err(|error| {
        let cause = std::error::Error::source(&error).map(ToString::to_string);
        format!("{path} cannot be loaded: {}", cause.unwrap_or_else(|| error.to_string()))
    })?;
    // Devices have threads, and tables must stay valid.
    let library = Box::leak(Box::new(library));
    // SAFETY: a library that exports this symbol promises this signature (`abi::ENTRY`).
    let entry = unsafe { library.get::<Entry>(ENTRY.as_bytes()) };
    let entry = entry.map_err(|_| format!("{path} does not export {ENTRY}"))?;
    // SAFETY: the entry may be called with any version; it answers a table or null.
    let table = unsafe { entry(VERSION) };
    check(table).map_err(|why| format!("{path} {why}"))
}

/// The table behind `table`, if it is of the right version.
pub(super) fn check(table: *const Api) -> Result<&'static Api, String> {
    // SAFETY: a library answers null or a table that stays valid and never changes; it is not
    // closed.
    let table = unsafe { table.as_ref() };
    let table = table.ok_or_else(|| format!("does not offer version {VERSION} of its table"))?;
    match table.version {
        VERSION => Ok(table),
        other => Err(format!("answers a table of version {other}, {VERSION} was requested")),
    }
}

/// The folders of the library or executable that holds this code, and of the executable.
fn own_folders() -> Vec<PathBuf> {
    let executable = readlink("/proc/self/exe", Vec::new()).ok();
    let executable = executable.map(|path| PathBuf::from(OsStr::from_bytes(path.as_bytes())));
    let mut folders: Vec<PathBuf> = Vec::new();
    for file in [own_file(), executable].into_iter().flatten() {
        let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty());
        if let Some(folder) = folder
            && !folders.iter().any(|known| known == folder)
        {
            folders.push(folder.to_owned());
        }
    }
    folders
}

fn own_file() -> Option<PathBuf> {
    let mut info = libc::Dl_info {
        dli_fname: std::ptr::null(),
        dli_fbase: std::ptr::null_mut(),
        dli_sname: std::ptr::null(),
        dli_saddr: std::ptr::null_mut(),
    };
    let here = own_file as fn() -> Option<PathBuf> as *const c_void;
    // SAFETY: any address may be asked for, and `info` is a place for the answer.
    let found = unsafe { libc::dladdr(here, &mut info) };
    if found == 0 || info.dli_fname.is_null() {
        return None;
    }
    // SAFETY: the loader keeps this name, which ends with a zero, as long as the file is loaded.
    let name = unsafe { CStr::from_ptr(info.dli_fname) };
    Some(PathBuf::from(OsStr::from_bytes(name.to_bytes())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_library_is_named() {
        let why = load(Some(Path::new("/nowhere/libmsccl-rdma.so"))).err().unwrap();
        assert!(why.starts_with("/nowhere/libmsccl-rdma.so cannot be loaded: "), "{why}");
    }

    #[test]
    fn another_library_is_refused() {
        let why = load(Some(Path::new("libc.so.6"))).err().unwrap();
        assert_eq!(why, "libc.so.6 does not export msccl_rdma_api");
    }

    #[test]
    fn this_code_lies_somewhere() {
        let folders = own_folders();
        assert!(folders.iter().any(|folder| folder.ends_with("deps")), "{folders:?}");
    }
}
