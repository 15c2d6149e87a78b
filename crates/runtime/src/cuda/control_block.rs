//! The control block: flags that host and kernels of a rank both see while kernels run: what
//! kernels do, and what thread blocks wait for. In host memory that the GPU reaches.
//!
//! The state that kernels look at changes in one direction: from *run* to *hold* or *trap* when the
//! communicator fails, and from any of these to *release* when its owner gives it up.
//! `kernels/device/wait.cuh` says what kernels do in each.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use msccl_gpu::{Context, DeviceBuffer, DeviceSpan, PinnedBuffer};
use msccl_plan::launch::{self, Control, Notice, Progress};

use crate::error::Error;
use crate::settings::OnFailure;

/// Which word of the control words says how long a wait may last unseen.
const REPORT_AFTER: usize = 1;

/// Kernels look at the state again after `LOOK_PERIOD_US` of the GPU's clock, which may go in steps
/// of a millisecond.
const LOOK_PATIENCE: Duration = Duration::from_micros(launch::LOOK_PERIOD_US as u64 + 3000);

/// Bytes before the first progress entry: the control words have a line to themselves.
const PROGRESS_BYTES: usize = 128;

const ENTRY_BYTES: usize = size_of::<Progress>();
const _: () = assert!(size_of::<Control>() <= PROGRESS_BYTES);
const _: () = assert!(ENTRY_BYTES == 32);

/// Bytes of an entry in the table of rings.
pub(super) const RING_ENTRY_BYTES: usize = 16;

/// Thread blocks that may record, where the largest grid of collectives has `blocks`.
pub(super) fn record_tracks(blocks: u32) -> usize {
    blocks.max(launch::EXCHANGE_LANES as u32) as usize
}

/// The state and the progress entries of a rank.
pub(super) struct ControlBlock {
    memory: PinnedBuffer,
    /// The notice of a kernel to those behind it, a [`Notice`]; then, for each thread block of the
    /// largest grid, where recording kernels write and how much they have written.
    notice: DeviceBuffer,
    /// Whether a failure releases kernels at once, since the owner is ending the communicator.
    ends: AtomicBool,
    blocks: u32,
}

impl ControlBlock {
    /// With entries for `blocks` thread blocks.
    /// A wait shows when it has lasted `report_after_us`.
    pub fn new(context: &Context, blocks: u32, report_after_us: u32) -> Result<Self, Error> {
        let bytes = PROGRESS_BYTES + ENTRY_BYTES * blocks as usize;
        let memory = PinnedBuffer::new(context, bytes)?;
        if let Some(word) = memory.words32().get(REPORT_AFTER) {
            word.store(report_after_us, Ordering::SeqCst);
        }
        let notice_bytes = size_of::<Notice>() + RING_ENTRY_BYTES * record_tracks(blocks);
        let notice = DeviceBuffer::zeroed(context, notice_bytes)?;
        Ok(Self { memory, notice, ends: AtomicBool::new(false), blocks })
    }

    /// Where kernels find the control words.
    pub fn control(&self) -> u64 {
        self.memory.ptr().0
    }

    /// Where kernels find the progress entries.
    pub fn progress(&self) -> u64 {
        self.memory.ptr().offset(PROGRESS_BYTES).0
    }

    /// Where kernels find what those before them left.
    pub fn notice(&self) -> u64 {
        self.notice.ptr().0
    }

    /// Where recording kernels find their rings: two words for each of [`record_tracks`].
    pub fn ring_table(&self) -> Result<DeviceSpan<'_>, msccl_gpu::Error> {
        self.notice.span().slice(size_of::<Notice>()..self.notice.length_bytes())
    }

    /// Thread blocks of the largest grid.
    pub fn blocks(&self) -> u32 {
        self.blocks
    }

    /// The communicator has failed: kernels stay where they are, or fault, until they are released.
    pub fn fail(&self, how: OnFailure) {
        let state = match how {
            OnFailure::Hold => launch::CONTROL_HOLD,
            OnFailure::Trap => launch::CONTROL_TRAP,
        };
        let (run, order) = (launch::CONTROL_RUN, Ordering::SeqCst);
        // Whoever fails otherwise has failed, or was released.
        let _ = self.state().map(|word| word.compare_exchange(run, state, order, order));
        if self.ends.load(Ordering::SeqCst) {
            self.release();
        }
    }

    /// As [`fail`](Self::fail); when this returns, every kernel that begins from then on stays.
    pub fn hold(&self, how: OnFailure) {
        self.fail(how);
        if self.has_failed() {
            thread::sleep(LOOK_PATIENCE);
        }
    }

    /// Ends every kernel, now and later.
    pub fn release(&self) {
        self.state().inspect(|word| word.store(launch::CONTROL_RELEASE, Ordering::SeqCst));
    }

    /// From now on a failure ends kernels, one that was before included.
    pub fn release_on_failure(&self) {
        self.ends.store(true, Ordering::SeqCst);
        if self.has_failed() {
            self.release();
        }
    }

    /// Whether kernels stay until they are released.
    pub fn has_failed(&self) -> bool {
        let state = self.state().map(|word| word.load(Ordering::SeqCst));
        matches!(state, Some(launch::CONTROL_HOLD | launch::CONTROL_TRAP))
    }

    /// Whether kernels end without a result.
    pub fn is_released(&self) -> bool {
        let state = self.state().map(|word| word.load(Ordering::SeqCst));
        state == Some(launch::CONTROL_RELEASE)
    }

    fn state(&self) -> Option<&AtomicU32> {
        self.memory.words32().first()
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
