//! Our own library, as a file beside the command.

use std::path::{Path, PathBuf};

use msccl_doctor::library::HOW_TO_GET;

use crate::failure::{Failure, Result};

/// Folders of the library, from that of the command: as cargo builds, in archives and wheels, in
/// packages of a distribution.
const FOLDERS: [&str; 3] = ["", "../lib", "../lib/msccl"];
/// Its names: for programs, and as cargo builds it.
const NAMES: [&str; 2] = ["libnccl.so.2", "libnccl.so"];

/// Where `MSCCL_LIBRARY` says, or near this program.
///
/// # Errors
///
/// There is no such file.
pub fn own_library() -> Result<PathBuf> {
    if let Some(path) = msccl_environment::lookup(msccl_environment::variable::LIBRARY.name) {
        return Ok(path.into());
    }
    let program = std::env::current_exe().unwrap_or_default();
    let folder = program.parent().unwrap_or(Path::new("."));
    beside(folder).ok_or_else(|| {
        Failure::new(format!(
            "there is no libnccl.so.2 in {}, in ../lib or in ../lib/msccl: {HOW_TO_GET}",
            folder.display()
        ))
    })
}

/// The library near a command in `folder`, if there is one.
pub fn beside(folder: &Path) -> Option<PathBuf> {
    let places = FOLDERS.iter().flat_map(|it| NAMES.map(|name| folder.join(it).join(name)));
    places.into_iter().find(|place| place.is_file())
}
