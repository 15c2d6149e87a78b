//! A file as it stands in a package.

use std::io::{Cursor, Write};

use flate2::{Compression, GzBuilder};
use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, DateTime, ZipWriter};

/// A file in a package.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Entry {
    /// Its path, without a slash in front.
    pub path: String,
    /// What it holds.
    pub bytes: Vec<u8>,
    /// What may be done with it.
    pub mode: Mode,
}

/// What may be done with a file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mode {
    /// It is read.
    File,
    /// It is started, or loaded.
    Program,
}

impl Mode {
    /// As the system has it.
    pub fn bits(self) -> u32 {
        match self {
            Mode::File => 0o644,
            Mode::Program => 0o755,
        }
    }
}

impl Entry {
    /// A file to read.
    pub fn file(path: impl Into<String>, bytes: Vec<u8>) -> Self {
        Self { path: path.into(), bytes, mode: Mode::File }
    }

    /// A file to start, or to load.
    pub fn program(path: impl Into<String>, bytes: &[u8]) -> Self {
        Self { path: path.into(), bytes: bytes.to_vec(), mode: Mode::Program }
    }

    /// The same below `folder`.
    pub fn below(mut self, folder: &str) -> Self {
        self.path = format!("{folder}/{}", self.path);
        self
    }
}

/// `bytes`, packed without a name and a time.
pub fn gzip(bytes: &[u8], effort: Compression) -> Result<Vec<u8>, String> {
    let mut packer = GzBuilder::new().write(Vec::new(), effort);
    packer.write_all(bytes).map_err(|error| error.to_string())?;
    packer.finish().map_err(|error| error.to_string())
}

/// `entries` as a zip, in their order and all with the same time.
pub fn zipped(entries: &[Entry], effort: Compression) -> Result<Vec<u8>, String> {
    let failed = |error: &dyn std::fmt::Display| format!("cannot pack a zip: {error}");
    let mut writer = ZipWriter::new(Cursor::new(Vec::new()));
    for Entry { path, bytes, mode } in entries {
        let options = SimpleFileOptions::default()
            .compression_method(CompressionMethod::Deflated)
            .compression_level(Some(effort.level().into()))
            .last_modified_time(DateTime::default())
            .unix_permissions(mode.bits());
        writer.start_file(path, options).map_err(|error| failed(&error))?;
        writer.write_all(bytes).map_err(|error| failed(&error))?;
    }
    let packed = writer.finish().map_err(|error| failed(&error))?;
    Ok(packed.into_inner())
}
