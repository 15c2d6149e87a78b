//! Files that the command makes: whole or not at all.

use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use crate::failure::Failure;

/// Writes `path` through a file beside it, which takes its place once it is complete: whoever
/// reads `path` sees the old content or the new. What is no regular file (a pipe, a device) is
/// written directly, and a link stays one. Returns the number of bytes.
///
/// # Errors
///
/// Of `write`, or of the file system.
pub fn write(
    path: impl AsRef<Path>,
    write: impl FnOnce(&mut Counter<BufWriter<File>>) -> Result<(), String>,
) -> Result<u64, String> {
    let path = path.as_ref();
    let path = &fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let failed = |error: io::Error| cannot(path, &error);
    let is_special = fs::metadata(path).is_ok_and(|metadata| !metadata.is_file());
    let made = if is_special { path.to_owned() } else { beside(path) };
    // What is made beside is new: a link that somebody put there would lead to another file.
    let file = if is_special { File::create(&made) } else { File::create_new(&made) };
    let file = file.map_err(|error| match error.kind() {
        io::ErrorKind::AlreadyExists => cannot(&made, &error),
        _ => failed(error),
    })?;
    let mut out = Counter { inner: BufWriter::with_capacity(1 << 20, file), bytes: 0 };
    let written = write(&mut out).and_then(|()| out.inner.flush().map_err(failed));
    let placed = written
        .and_then(|()| if is_special { Ok(()) } else { fs::rename(&made, path).map_err(failed) });
    if placed.is_err() && !is_special {
        // It is of no use to anybody; that it cannot be removed either is not worth a second error.
        let _ = fs::remove_file(&made);
    }
    placed.map(|()| out.bytes)
}

/// Writes `text` to `path`, as [`write()`] does.
///
/// # Errors
///
/// Of the file system.
pub fn write_text(path: impl AsRef<Path>, text: &str) -> Result<(), Failure> {
    let written =
        write(path, |out| out.write_all(text.as_bytes()).map_err(|error| error.to_string()));
    written.map(drop).map_err(Failure::new)
}

/// What the name of a file ends with, after the last point, in lower case; nothing if there is no
/// point.
pub fn extension(path: &str) -> Option<String> {
    Path::new(path).extension().map(|extension| extension.to_string_lossy().to_ascii_lowercase())
}

/// The name of the file at `path` does not say what to write; `expected` says how it
/// should end, and `option` which option says it otherwise.
pub fn unknown_extension(path: &str, expected: &str, option: &str) -> Failure {
    let text = format!(
        "the name {path} does not say what to write: expected {expected}; rename it, or say \
         {option}"
    );
    Failure::new(text)
}

/// Makes sure that the file at `path` is not `source`, which is read to make it.
///
/// # Errors
///
/// It is: writing it would destroy what it is made from.
pub fn expect_other_than(source: &str, path: &str) -> Result<(), Failure> {
    let is_same = match (fs::canonicalize(source), fs::canonicalize(path)) {
        (Ok(source), Ok(path)) => source == path,
        _ => false,
    };
    if is_same {
        let text = format!("{path} is the file that is read; write to another one");
        return Err(Failure::new(text));
    }
    Ok(())
}

/// Makes sure, before a long measurement, that the file at `path` can be made, as far as that is
/// known without making it.
///
/// # Errors
///
/// It is a folder, or there is none to make it in.
pub fn expect_to_write(path: impl AsRef<Path>) -> Result<(), Failure> {
    let path = path.as_ref();
    let kind = match path.is_dir() {
        true => io::ErrorKind::IsADirectory,
        false if path.as_os_str().is_empty() => io::ErrorKind::NotFound,
        false if !folder_of(path).is_dir() => io::ErrorKind::NotFound,
        false => return Ok(()),
    };
    Err(Failure::new(cannot(path, &kind.into())))
}

/// Why `path` cannot be written, and what to do.
fn cannot(path: &Path, error: &io::Error) -> String {
    let reason = match error.kind() {
        _ if path.as_os_str().is_empty() => "its name is empty".to_owned(),
        io::ErrorKind::IsADirectory => "it is a folder; name a file in it".to_owned(),
        io::ErrorKind::NotFound if !folder_of(path).is_dir() => {
            format!("there is no folder {}; make it first", folder_of(path).display())
        }
        _ => error.to_string(),
    };
    format!("cannot write {}: {reason}", path.display())
}

/// The folder of the file at `path`.
fn folder_of(path: &Path) -> &Path {
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    parent.unwrap_or(Path::new("."))
}

/// A name in the same folder that nobody else uses.
fn beside(path: &Path) -> PathBuf {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(format!(".{}.part", std::process::id()));
    path.with_file_name(name)
}

/// Counts what goes through.
pub struct Counter<W> {
    inner: W,
    bytes: u64,
}

impl<W: Write> Write for Counter<W> {
    fn write(&mut self, data: &[u8]) -> io::Result<usize> {
        let written = self.inner.write(data)?;
        self.bytes += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_beside_is_not_followed() {
        let folder = std::env::temp_dir().join(format!("msccl-artifact-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let (precious, path) = (folder.join("precious"), folder.join("made.xml"));
        fs::write(&precious, "keep me").unwrap();
        std::os::unix::fs::symlink(&precious, beside(&path)).unwrap();
        let why = write_text(&path, "new").unwrap_err().to_string();
        assert!(why.contains("File exists"), "{why}");
        assert_eq!(fs::read_to_string(&precious).unwrap(), "keep me");
        fs::remove_file(beside(&path)).unwrap();
        write_text(&path, "new").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "new");
        fs::remove_dir_all(folder).unwrap();
    }
}
