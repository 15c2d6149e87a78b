//! Files that readers see whole or not at all.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// Puts a file with `bytes` at `path`, which others may read, whatever this process lets them do
/// with files otherwise. It is made as `beside`, which must be new, and then takes its place.
///
/// # Errors
///
/// Of the file system. Then nothing is left of it.
pub fn place_file(path: &Path, beside: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut options = OpenOptions::new();
    let made = options.write(true).create_new(true).mode(0o644).open(beside);
    let written = made.and_then(|mut file| file.write_all(bytes));
    let placed = written.and_then(|()| fs::rename(beside, path));
    // What is left of it is of no use; if it cannot be removed, there is nothing to be done.
    placed.inspect_err(|_| drop(fs::remove_file(beside)))
}
