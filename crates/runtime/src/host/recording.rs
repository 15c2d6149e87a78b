//! The records of a collective under way on host threads.
//!
//! One thread executes all thread blocks of a rank in turn. The time in which others have their
//! turn counts to the wait, or the piece of a step, that it interrupts.

use msccl_trace::record::{PackedRecord, Record, RecordKind};

use crate::recording::{RankRecording, now_ns};
use crate::walk::Missing;

/// Records of a thread block that are kept before they are written.
const RECORDS_KEPT: usize = 4096;

/// What is recorded of one call.
pub(super) struct CallRecording<'a> {
    recording: &'a mut RankRecording,
    /// By instance, then by thread block.
    blocks: Vec<BlockRecording>,
}

/// What is recorded of one thread block.
#[derive(Default)]
pub(super) struct BlockRecording {
    records: Vec<PackedRecord>,
    /// What its next piece waits for.
    awaited: Option<Awaited>,
    has_ended: bool,
}

/// A wait that is not over.
struct Awaited {
    missing: Missing,
    /// The number of the message on its link; 0 if it is none.
    message: u64,
}

impl<'a> CallRecording<'a> {
    /// Call number `call` of `blocks` thread blocks, all instances counted, begins.
    pub fn new(recording: &'a mut RankRecording, blocks: usize, call: u64) -> Self {
        let begun = || {
            let mut block = BlockRecording::default();
            block.record(RecordKind::Begin, 0, call);
            block
        };
        Self { recording, blocks: (0..blocks).map(|_| begun()).collect() }
    }

    /// Thread block number `index`, counted through all instances.
    pub fn block(&mut self, index: usize) -> Option<&mut BlockRecording> {
        self.blocks.get_mut(index)
    }

    /// Writes the records of thread block number `index` if there are many.
    pub fn write_many(&mut self, index: usize) {
        if self.blocks.get(index).is_some_and(|block| block.records.len() >= RECORDS_KEPT) {
            self.write(index);
        }
    }

    /// Writes all records.
    pub fn finish(mut self) {
        (0..self.blocks.len()).for_each(|index| self.write(index));
    }

    fn write(&mut self, index: usize) {
        if let Some(block) = self.blocks.get_mut(index) {
            self.recording.records(index, &block.records);
            block.records.clear();
        }
    }
}

impl BlockRecording {
    /// Whether it is known already that the next piece waits for `missing`.
    pub fn knows(&self, missing: Missing) -> bool {
        self.awaited.as_ref().is_some_and(|awaited| awaited.missing == missing)
    }

    /// From now on the next piece of `step` waits for `missing`: for `message`, if it is one.
    pub fn waits(&mut self, step: usize, missing: Missing, message: u64) {
        self.end_wait(step);
        self.awaited = Some(Awaited { missing, message });
    }

    /// The wait of the next piece of `step` is over, if there was one.
    pub fn end_wait(&mut self, step: usize) {
        let Some(Awaited { missing, message }) = self.awaited.take() else { return };
        let kind = match missing {
            Missing::Step(_) => RecordKind::WaitBlock,
            Missing::Message(_) => RecordKind::WaitData,
            Missing::Room(_) => RecordKind::WaitRoom,
        };
        self.record(kind, step, message);
    }

    /// A piece of `step` has moved, with `message`.
    pub fn moved(&mut self, step: usize, message: u64) {
        self.record(RecordKind::Move, step, message);
    }

    /// The thread block has ended; may be said again.
    pub fn ended(&mut self) {
        if !std::mem::replace(&mut self.has_ended, true) {
            self.record(RecordKind::End, 0, 0);
        }
    }

    /// Steps and messages have the low bits of their numbers.
    fn record(&mut self, kind: RecordKind, step: usize, message: u64) {
        let (step, message) = (step as u32, message as u32);
        self.records.push(Record { time_ns: now_ns(), kind, step, message }.pack());
    }
}
