//! What host and kernels of a rank tell one another while kernels run: the abort word, and what
//! thread blocks wait for. In host memory that the GPU reaches.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use msccl_gpu::{Context, PinnedBuffer};
use msccl_plan::launch::{self, Control, Progress};

use crate::error::Error;

/// Bytes before the first progress entry: the control words have a line to themselves.
const PROGRESS_BYTES: usize = 128;

const ENTRY_BYTES: usize = size_of::<Progress>();
const _: () = assert!(size_of::<Control>() <= PROGRESS_BYTES);
const _: () = assert!(ENTRY_BYTES == 32);

/// The abort word and the progress entries of a rank.
pub(super) struct Watchtower {
    memory: PinnedBuffer,
    blocks: u32,
}

impl Watchtower {
    /// With entries for `blocks` thread blocks.
    pub fn new(context: &Context, blocks: u32) -> Result<Self, Error> {
        let bytes = PROGRESS_BYTES + ENTRY_BYTES * blocks as usize;
        Ok(Self { memory: PinnedBuffer::new(context, bytes)?, blocks })
    }

    /// Where kernels find the control words.
    pub fn control(&self) -> u64 {
        self.memory.ptr().0
    }

    /// Where kernels find the progress entries.
    pub fn progress(&self) -> u64 {
        self.memory.ptr().offset(PROGRESS_BYTES).0
    }

    /// Lets every wait give up, now and later.
    pub fn abort(&self) {
        if let Some(word) = self.memory.words32().first() {
            word.store(1, Ordering::SeqCst);
        }
    }

    /// Whether some thread block has been waiting for some time.
    pub fn is_anyone_waiting(&self) -> bool {
        (0..self.blocks).any(|block| self.kind(block) != launch::WAITING_NOTHING)
    }

    /// The entries of all thread blocks that have been waiting for some time, with their numbers.
    pub fn waiting(&self) -> Vec<(u32, Progress)> {
        (0..self.blocks).filter_map(|block| Some((block, self.entry(block)?))).collect()
    }

    fn kind(&self, block: u32) -> u32 {
        self.word32(block, 0).map_or(launch::WAITING_NOTHING, |kind| kind.load(Ordering::Acquire))
    }

    /// The entry of `block`, if it shows a wait and did not change while it was read.
    fn entry(&self, block: u32) -> Option<Progress> {
        let kind = self.kind(block);
        if kind == launch::WAITING_NOTHING {
            return None;
        }
        let half = |at| self.word32(block, at).map(|word| word.load(Ordering::Acquire));
        let whole = |at| self.word64(block, at).map(|word| word.load(Ordering::Acquire));
        let entry = Progress {
            kind,
            step: half(1)?,
            round: half(2)?,
            subject: half(3)?,
            number: whole(2)?,
            call: whole(3)?,
        };
        (self.kind(block) == kind).then_some(entry)
    }

    /// Word number `at` of the entry of `block`, in words of four bytes.
    fn word32(&self, block: u32, at: usize) -> Option<&AtomicU32> {
        let start = (PROGRESS_BYTES + ENTRY_BYTES * block as usize) / 4;
        self.memory.words32().get(start + at)
    }

    /// Word number `at` of the entry of `block`, in words of eight bytes.
    fn word64(&self, block: u32, at: usize) -> Option<&AtomicU64> {
        let start = (PROGRESS_BYTES + ENTRY_BYTES * block as usize) / 8;
        self.memory.words64().get(start + at)
    }
}
