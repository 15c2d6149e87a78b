//! A folder of recordings: a file for each rank and communicator.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use msccl_collective::Rank;
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
    pub fn make(path: &str) -> Result<Self, String> {
        fs::create_dir_all(path)
            .map_err(|error| format!("cannot make the folder {path}: {error}"))?;
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
        let named = |error: io::Error| {
            let why = match error.kind() {
                io::ErrorKind::AlreadyExists => {
                    "this rank has recorded there before; name another folder".to_owned()
                }
                _ => error.to_string(),
            };
            io::Error::new(error.kind(), format!("{}: {why}", path.display()))
        };
        let file = OpenOptions::new().write(true).create_new(true).open(&path);
        Ok(Box::new(file.map_err(named)?))
    }

    fn limit_bytes(&self) -> u64 {
        LIMIT_BYTES
    }
}
