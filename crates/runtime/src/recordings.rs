//! Where recordings of calls go: what front ends open for them.

use std::io::{self, Write};

use msccl_collective::Rank;

/// Where recordings go.
pub trait Recordings: Send + Sync {
    /// Opens the recording of `rank` of a communicator, at its begin. Each frame is one write, so
    /// the stream needs no buffer.
    ///
    /// # Errors
    ///
    /// It cannot be written; calls of the rank are not recorded then.
    fn open(&self, communicator: u64, rank: Rank) -> io::Result<Box<dyn Write + Send>>;

    /// Most bytes of one recording.
    fn limit_bytes(&self) -> u64;
}
