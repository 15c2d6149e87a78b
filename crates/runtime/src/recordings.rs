//! Where recordings of calls go: what front ends open for them.

use std::io::{self, Write};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

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

/// Where recordings go now, which may change while ranks run. Clones are the same switch.
#[derive(Clone, Default)]
pub struct RecordingSwitch(Arc<SwitchState>);

#[derive(Default)]
struct SwitchState {
    /// How often it was set.
    changes: AtomicU64,
    recordings: RwLock<Option<Arc<dyn Recordings>>>,
}

impl RecordingSwitch {
    /// From its next call on, every rank writes its recording to `recordings`; nothing if there are
    /// none.
    pub fn set(&self, recordings: Option<Arc<dyn Recordings>>) {
        *self.0.recordings.write().unwrap_or_else(PoisonError::into_inner) = recordings;
        self.0.changes.fetch_add(1, Ordering::Release);
    }

    /// Where recordings go, if calls are recorded.
    pub fn recordings(&self) -> Option<Arc<dyn Recordings>> {
        self.0.recordings.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// A number that changes with every [`RecordingSwitch::set`].
    pub fn changes(&self) -> u64 {
        self.0.changes.load(Ordering::Acquire)
    }
}
