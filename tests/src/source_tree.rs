//! The files of the project, for tests that read its own sources.

use std::fs;
use std::path::{Path, PathBuf};

/// Folders of what is built or recorded, which nobody writes.
const NOT_WRITTEN: [&str; 2] = ["target", "snapshots"];

/// The project's folder.
pub fn root() -> PathBuf {
    let package = Path::new(env!("CARGO_MANIFEST_DIR"));
    package.parent().unwrap_or(package).to_owned()
}

/// The files below `folder` whose names end in one of the `extensions`, without the dot, in order.
///
/// # Panics
///
/// A folder cannot be read.
pub fn files(folder: &Path, extensions: &[&str]) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap_or_else(|why| panic!("{}: {why}", folder.display())) {
        let path = entry.unwrap_or_else(|why| panic!("{}: {why}", folder.display())).path();
        let is_written = NOT_WRITTEN.iter().all(|name| !path.ends_with(name));
        if path.is_dir() && is_written {
            found.extend(files(&path, extensions));
        } else if extensions.iter().any(|&of| path.extension().is_some_and(|it| it == of)) {
            found.push(path);
        }
    }
    found.sort();
    found
}
