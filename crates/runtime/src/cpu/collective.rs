//! One collective under way on this rank.

use std::ops::Range;

use msccl_collective::{Buffer, Channel, Rank};
use msccl_fabric::{Receiver, Sender};
use msccl_ir::Wait;

use super::bound::{Block, Bound};
use super::effort::{Effort, Progress};
use super::memory::Span;
use super::wires::Wires;
use crate::engine::Waiting;
use crate::error::{Error, ErrorKind};
use crate::walk::{Advance, Cursor, Missing, Reach, Staging, Terms};

/// The buffers of a call on this rank.
pub(super) struct Buffers {
    pub input: Span,
    pub output: Span,
    pub scratch: Span,
}

impl Buffers {
    fn of(&self, buffer: Buffer) -> &Span {
        match buffer {
            Buffer::Input => &self.input,
            Buffer::Output => &self.output,
            Buffer::Scratch => &self.scratch,
        }
    }
}

/// What a course needs.
pub(super) struct Means<'a> {
    pub bound: &'a Bound,
    pub buffers: Buffers,
    pub wires: &'a mut Wires,
    pub staging: &'a mut Staging,
}

/// Which of the calls of its rank a collective is.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place {
    /// Among all.
    pub call: u64,
    /// Among collectives that move data, from 1.
    pub number: u64,
}

/// A collective under way.
pub(super) struct Course<'a> {
    call: u64,
    /// Which collective of its rank it is.
    number: u64,
    terms: Terms,
    instances: u32,
    means: Means<'a>,
    /// By instance, then by thread block.
    cursors: Vec<Cursor>,
}

impl<'a> Course<'a> {
    /// At its start.
    pub fn new(place: Place, terms: Terms, instances: u32, means: Means<'a>) -> Self {
        let Place { call, number } = place;
        let blocks = means.bound.blocks.len();
        let cursors = (0..instances).flat_map(|of| vec![Cursor::new(of); blocks]).collect();
        Self { call, number, terms, instances, means, cursors }
    }

    /// Where thread block number `index`, counted through all instances, stands; what it reaches from
    /// there, and what else it works with.
    fn at(&mut self, index: usize) -> (Cursor, Seat<'_>, &Terms, &mut Staging) {
        let Self { call: _, number: _, terms, instances, means, cursors } = self;
        let Means { bound, buffers, wires, staging } = means;
        let tb = index % bound.blocks.len();
        let first = index - tb;
        let seat = Seat {
            wires,
            buffers,
            block: &bound.blocks[tb],
            siblings: &cursors[first..first + bound.blocks.len()],
            instance: cursors[index].pass.instance,
            instances: *instances,
            surprise: None,
        };
        (cursors[index], seat, terms, staging)
    }

    /// Lets thread block number `index` go on as far as it can.
    fn turn(&mut self, index: usize) -> Result<Advance, Error> {
        let (mut cursor, mut seat, terms, staging) = self.at(index);
        let block = seat.block;
        let turn = cursor.advance(&block.steps, terms, &mut seat, staging);
        let surprise = seat.surprise;
        self.cursors[index] = cursor;
        surprise.map_or(Ok(turn), |surprise| Err(surprise.into_error()))
    }

    /// What thread block number `index` waits for, if it does.
    fn waiting(&mut self, index: usize) -> Option<Waiting> {
        let (call, tb) = (self.call, index % self.means.bound.blocks.len());
        let (cursor, mut seat, terms, _) = self.at(index);
        let block = seat.block;
        let missing = cursor.missing(&block.steps, terms, &mut seat)?;
        let (peer, what) = seat.describe(missing);
        let instance = match self.instances {
            0 | 1 => String::new(),
            _ => format!(" instance {}", cursor.pass.instance),
        };
        let (step, round) = (cursor.step, cursor.pass.round);
        let text = format!("tb{tb}{instance} s{step} waits for {what} (round {round})");
        Some(Waiting { call, peer, text })
    }
}

impl Effort for Course<'_> {
    fn go_on(&mut self) -> Result<Progress, Error> {
        let (mut done, mut moved) = (true, false);
        for index in 0..self.cursors.len() {
            let before = self.cursors[index];
            done &= self.turn(index)? == Advance::Finished;
            moved |= self.cursors[index] != before;
        }
        Ok(match (done, moved) {
            (true, _) => Progress::Done,
            (false, true) => Progress::Moved,
            (false, false) => Progress::Stuck,
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
struct Seat<'a> {
    wires: &'a mut Wires,
    buffers: &'a Buffers,
    block: &'a Block,
    /// Where the thread blocks of the instance stand; of its own, where its turn began.
    siblings: &'a [Cursor],
    instance: u32,
    instances: u32,
    /// The first message that is not what it should be.
    surprise: Option<Surprise>,
}

/// A message of an unexpected length.
struct Surprise {
    from: Rank,
    channel: Channel,
    expected: usize,
    found: usize,
}

impl Surprise {
    fn into_error(self) -> Error {
        let Surprise { from, channel, expected, found } = self;
        let text = format!(
            "expected a message of {expected} bytes from {from} on {channel}, found one of {found}: \
             ranks must call with the same count and type"
        );
        Error::new(ErrorKind::Remote, text)
    }
}

impl Seat<'_> {
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

impl Reach for Seat<'_> {
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
        // Too short a message is told about when it is released.
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
        if found != bytes && self.surprise.is_none() {
            let channel = self.block.channel;
            self.surprise = Some(Surprise { from, channel, expected: bytes, found });
        }
    }

    fn publish(&mut self, to: Rank, bytes: usize) {
        if let Some(slot) = self.sender(to).and_then(Sender::try_reserve) {
            slot.commit(bytes);
        }
    }

    /// Nobody need be told: siblings look at one another's cursors.
    fn signal(&mut self, _step: usize, _round: u32) {}
}
