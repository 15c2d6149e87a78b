//! One collective under way on this rank.

use std::ops::Range;

use msccl_collective::{Buffer, Channel, Rank};
use msccl_fabric::{Receiver, Sender};
use msccl_ir::Wait;

use super::backoff::{AttemptOutcome, Resumable};
use super::bound::{HostBoundPlan, HostThreadBlock};
use super::memory::Span;
use super::recording::{BlockRecording, CallRecording};
use super::wires::HostWires;
use crate::engine::Waiting;
use crate::error::{Error, ErrorKind};
use crate::recording::RankRecording;
use crate::walk::{Advance, BoundStep, CallContext, Cursor, Missing, Staging, ThreadBlockMemory};

/// The buffers of a call on this rank.
pub(super) struct HostBuffers {
    pub input: Span,
    pub output: Span,
    pub scratch: Span,
}

impl HostBuffers {
    fn of(&self, buffer: Buffer) -> &Span {
        match buffer {
            Buffer::Input => &self.input,
            Buffer::Output => &self.output,
            Buffer::Scratch => &self.scratch,
        }
    }
}

/// What a running collective needs.
pub(super) struct CollectiveContext<'a> {
    pub bound: &'a HostBoundPlan,
    pub buffers: HostBuffers,
    pub wires: &'a mut HostWires,
    pub staging: &'a mut Staging,
    /// What is recorded, if calls are.
    pub recording: Option<&'a mut RankRecording>,
}

/// Which of the calls of its rank a collective is.
#[derive(Clone, Copy, Debug)]
pub(super) struct CallNumbers {
    /// Among all.
    pub call: u64,
    /// Among collectives that move data, from 1.
    pub number: u64,
}

/// A collective under way.
pub(super) struct RunningCollective<'a> {
    call: u64,
    /// Which collective of its rank it is.
    number: u64,
    terms: CallContext,
    instances: u32,
    bound: &'a HostBoundPlan,
    buffers: HostBuffers,
    wires: &'a mut HostWires,
    staging: &'a mut Staging,
    recording: Option<CallRecording<'a>>,
    /// By instance, then by thread block.
    cursors: Vec<Cursor>,
}

impl<'a> RunningCollective<'a> {
    /// At its start.
    pub fn new(
        place: CallNumbers,
        terms: CallContext,
        instances: u32,
        context: CollectiveContext<'a>,
    ) -> Self {
        let CallNumbers { call, number } = place;
        let CollectiveContext { bound, buffers, wires, staging, recording } = context;
        let blocks = bound.blocks.len();
        let cursors: Vec<_> = (0..instances).flat_map(|of| vec![Cursor::new(of); blocks]).collect();
        let recording = recording.map(|of| CallRecording::new(of, cursors.len(), call));
        Self { call, number, terms, instances, bound, buffers, wires, staging, recording, cursors }
    }

    /// At its end, done or failed: what was recorded is written.
    pub fn end(self) {
        self.recording.into_iter().for_each(CallRecording::finish);
    }

    /// Where thread block number `index`, counted through all instances, stands; what it reaches
    /// from there, and what else it works with.
    fn at(&mut self, index: usize) -> (Cursor, BlockContext<'_>, &CallContext, &mut Staging) {
        let Self {
            call: _,
            number: _,
            terms,
            instances,
            bound,
            buffers,
            wires,
            staging,
            recording,
            cursors,
        } = self;
        let tb = index % bound.blocks.len();
        let first = index - tb;
        let block = BlockContext {
            wires,
            buffers,
            block: &bound.blocks[tb],
            siblings: &cursors[first..first + bound.blocks.len()],
            instance: cursors[index].pass.instance,
            instances: *instances,
            mismatch: None,
            recording: recording.as_mut().and_then(|recording| recording.block(index)),
        };
        (cursors[index], block, terms, staging)
    }

    /// Lets thread block number `index` go on as far as it can.
    fn advance(&mut self, index: usize) -> Result<Advance, Error> {
        let (mut cursor, mut context, terms, staging) = self.at(index);
        let block = context.block;
        let advance = cursor.advance(&block.steps, terms, &mut context, staging);
        if let (Advance::Finished, Some(recording)) = (advance, &mut context.recording) {
            recording.ended();
        }
        let mismatch = context.mismatch;
        self.cursors[index] = cursor;
        if let Some(recording) = &mut self.recording {
            recording.write_many(index);
        }
        mismatch.map_or(Ok(advance), |mismatch| Err(mismatch.into_error()))
    }

    /// What thread block number `index` waits for, if it does.
    fn waiting(&mut self, index: usize) -> Option<Waiting> {
        let (call, tb) = (self.call, index % self.bound.blocks.len());
        let (cursor, mut context, terms, _) = self.at(index);
        let block = context.block;
        let missing = cursor.missing(&block.steps, terms, &mut context)?;
        let (peer, what) = context.describe(missing);
        let instance = match self.instances {
            0 | 1 => String::new(),
            _ => format!(" instance {}", cursor.pass.instance),
        };
        let (step, round) = (cursor.step, cursor.pass.round);
        let text = format!("tb{tb}{instance} s{step} waits for {what} (round {round})");
        Some(Waiting { call, peer, text })
    }
}

impl Resumable for RunningCollective<'_> {
    fn go_on(&mut self) -> Result<AttemptOutcome, Error> {
        let (mut done, mut moved) = (true, false);
        for index in 0..self.cursors.len() {
            let before = self.cursors[index];
            done &= self.advance(index)? == Advance::Finished;
            moved |= self.cursors[index] != before;
        }
        Ok(match (done, moved) {
            (true, _) => AttemptOutcome::Done,
            (false, true) => AttemptOutcome::Moved,
            (false, false) => AttemptOutcome::Stuck,
        })
    }

    fn waits(&mut self) -> Vec<Waiting> {
        (0..self.cursors.len()).filter_map(|index| self.waiting(index)).collect()
    }

    fn collective(&self) -> Option<u64> {
        Some(self.number)
    }
}

/// What one thread block of one instance reaches.
struct BlockContext<'a> {
    wires: &'a mut HostWires,
    buffers: &'a HostBuffers,
    block: &'a HostThreadBlock,
    /// Where the thread blocks of the instance stand; of its own, where its turn began.
    siblings: &'a [Cursor],
    instance: u32,
    instances: u32,
    /// The first message that is not what it should be.
    mismatch: Option<LengthMismatch>,
    /// What is recorded of it, if calls are.
    recording: Option<&'a mut BlockRecording>,
}

/// A message of an unexpected length.
struct LengthMismatch {
    from: Rank,
    channel: Channel,
    expected: usize,
    found: usize,
}

impl LengthMismatch {
    fn into_error(self) -> Error {
        let LengthMismatch { from, channel, expected, found } = self;
        let text = format!(
            "expected a message of {expected} bytes from {from} on {channel}, found one of \
             {found}: ranks must call with the same count and type"
        );
        Error::new(ErrorKind::Remote, text)
    }
}

impl BlockContext<'_> {
    fn receiver(&mut self, from: Rank) -> Option<&mut Receiver> {
        let wire = self.block.wire_from(from, self.instance, self.instances)?;
        self.wires.incoming(from, wire)
    }

    fn sender(&mut self, to: Rank) -> Option<&mut Sender> {
        let wire = self.block.wire_to(to, self.instance, self.instances)?;
        self.wires.outgoing(to, wire)
    }

    /// Which peer could help, and what is missing in words.
    fn describe(&mut self, missing: Missing) -> (Option<Rank>, String) {
        let channel = self.block.channel;
        match missing {
            Missing::Step(Wait { tb, step }) => (None, format!("{tb} {step}")),
            Missing::Message(from) => {
                let number = self.receiver(from).map_or(0, |end| end.taken());
                (Some(from), format!("message {number} from {from} on {channel}"))
            }
            Missing::Room(to) => {
                let number = self.sender(to).map_or(0, |end| end.sent());
                (Some(to), format!("room for message {number} to {to} on {channel}"))
            }
        }
    }
}

impl ThreadBlockMemory for BlockContext<'_> {
    fn has_ended(&self, wait: Wait, round: u32) -> bool {
        let other = self.siblings.get(wait.tb.index());
        other.is_none_or(|other| (other.pass.round, other.step) > (round, wait.step.index()))
    }

    fn has_message(&mut self, from: Rank) -> bool {
        self.receiver(from).is_some_and(|end| end.try_peek().is_some())
    }

    fn has_room(&mut self, to: Rank) -> bool {
        self.sender(to).is_some_and(|end| end.try_reserve().is_some())
    }

    fn load(&mut self, buffer: Buffer, range: Range<usize>, into: &mut [u8]) {
        self.buffers.of(buffer).read(range.start, into);
    }

    fn store(&mut self, buffer: Buffer, start: usize, bytes: &[u8]) {
        self.buffers.of(buffer).write(start, bytes);
    }

    fn take(&mut self, from: Rank, offset: usize, into: &mut [u8]) {
        let Some(message) = self.receiver(from).and_then(Receiver::try_peek) else { return };
        // Too short a message is reported when it is released.
        let bytes = message.bytes().get(offset..).unwrap_or_default();
        let length = bytes.len().min(into.len());
        let (present, absent) = into.split_at_mut(length);
        present.copy_from_slice(&bytes[..length]);
        absent.fill(0);
    }

    fn put(&mut self, to: Rank, offset: usize, bytes: &[u8]) {
        let Some(mut slot) = self.sender(to).and_then(Sender::try_reserve) else { return };
        if let Some(into) = slot.bytes().get_mut(offset..offset + bytes.len()) {
            into.copy_from_slice(bytes);
        }
    }

    fn release(&mut self, from: Rank, bytes: usize) {
        let Some(message) = self.receiver(from).and_then(Receiver::try_peek) else { return };
        let found = message.bytes().len();
        message.release();
        if found != bytes && self.mismatch.is_none() {
            let channel = self.block.channel;
            self.mismatch = Some(LengthMismatch { from, channel, expected: bytes, found });
        }
    }

    fn publish(&mut self, to: Rank, bytes: usize) {
        if let Some(slot) = self.sender(to).and_then(Sender::try_reserve) {
            slot.commit(bytes);
        }
    }

    /// Nobody need be notified: siblings look at one another's cursors.
    fn signal(&mut self, _step: usize, _round: u32) {}

    fn waits(&mut self, step: usize, missing: Missing) {
        if self.recording.as_ref().is_none_or(|recording| recording.knows(missing)) {
            return;
        }
        let message = match missing {
            Missing::Step(_) => 0,
            Missing::Message(from) => self.receiver(from).map_or(0, |end| end.taken() + 1),
            Missing::Room(to) => self.sender(to).map_or(0, |end| end.sent() + 1),
        };
        if let Some(recording) = &mut self.recording {
            recording.waits(step, missing, message);
        }
    }

    fn begins(&mut self, step: usize) {
        if let Some(recording) = &mut self.recording {
            recording.end_wait(step);
        }
    }

    fn moved(&mut self, step: usize, bound: &BoundStep, round: u32) {
        if self.recording.is_none() {
            return;
        }
        let (to, from) = (bound.step.sends().next(), bound.step.receives().next());
        let sent = to.and_then(|to| Some(self.sender(to)?.sent()));
        let taken = || from.and_then(|from| Some(self.receiver(from)?.taken()));
        let message = sent.or_else(taken).unwrap_or_else(|| u64::from(round));
        if let Some(recording) = &mut self.recording {
            recording.moved(step, message);
        }
    }
}
