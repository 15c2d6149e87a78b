//! The folder that `MSCCL_TRACE` names: a file for each rank and communicator.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use msccl_collective::Rank;
use msccl_environment::{ValueError, variable};
use msccl_runtime::Recordings;

/// Most bytes of a recording: some ten million records.
const LIMIT_BYTES: u64 = 256 << 20;

/// A folder of recordings.
pub struct RecordingFolder(PathBuf);

impl RecordingFolder {
    /// The folder at `path`, made if it does not exist.
    ///
    /// # Errors
    ///
    /// It cannot be made; in words.
    pub fn make(path: &str) -> Result<Self, ValueError> {
        let variable = variable::TRACE.name;
        fs::create_dir_all(path)
            .map_err(|error| format!("{variable}: cannot make the folder {path}: {error}"))?;
        Ok(Self(PathBuf::from(path)))
    }

    /// The file of a rank: communicators have numbers of their own, which no later run repeats.
    fn file(&self, communicator: u64, rank: Rank) -> PathBuf {
        let name = format!("{communicator:016x}-{rank}.recording");
        self.0.join(Path::new(&name))
    }
}

impl Recordings for RecordingFolder {
    fn open(&self, communicator: u64, rank: Rank) -> io::Result<Box<dyn Write + Send>> {
        let path = self.file(communicator, rank);
        let named =
            |error: io::Error| io::Error::new(error.kind(), format!("{}: {error}", path.display()));
        Ok(Box::new(File::create(&path).map_err(named)?))
    }

    fn limit_bytes(&self) -> u64 {
        LIMIT_BYTES
    }
}
