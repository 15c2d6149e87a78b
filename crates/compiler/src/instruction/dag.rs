//! The instruction DAG: instructions of single ranks, joined by messages.

use std::fmt;

use msccl_collective::{Buffer, Rank, Slot};
use smallvec::SmallVec;

use crate::chunk::{HintsId, StatementId};

/// What every rank executes, without places and order beyond waves.
#[derive(Clone, Debug, Default)]
pub struct InstructionDag {
    /// By [`InstructionId`].
    pub instructions: Vec<Instruction>,
    /// By [`MessageId`].
    pub messages: Vec<Message>,
    /// Scratch chunks of every rank: as many as the instructions touch.
    pub scratch_chunks: Vec<u32>,
}

/// `destinations = Σ sources` on one rank.
#[derive(Clone, Debug)]
pub struct Instruction {
    /// Whose.
    pub rank: Rank,
    /// The wave in which its sources are ready.
    pub wave: u32,
    /// Its place within the wave.
    pub phase: Phase,
    /// What is read, in the order in which it is combined.
    pub sources: SmallVec<[Operand; 2]>,
    /// Where the result goes.
    pub destinations: SmallVec<[Operand; 2]>,
    /// Chunks in every operand.
    pub count: u32,
    /// Placement hints of the op it came from.
    pub hints: HintsId,
    /// The statement of the op it came from.
    pub statement: StatementId,
}

/// The order of instructions within a wave on one rank. Sends stand before receives, so that two
/// ranks that exchange messages in one wave both send first; an instruction that passes its result
/// on stands last, since it belongs to the next wave with its other end.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Phase {
    /// Local region → messages.
    Send = 0,
    /// Local regions → local region.
    Local = 1,
    /// Messages, and perhaps local regions → local region.
    Receive = 2,
    /// Anything → messages of the next wave, and perhaps a local region.
    Pass = 3,
}

/// A local slot (the first of `count`) or a message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Operand {
    /// Slots of the instruction's own rank.
    Local(Slot),
    /// A message from or to another rank.
    Message(MessageId),
}

/// One message from one instruction to another.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Message {
    /// The instruction that sends it.
    pub sender: InstructionId,
    /// The instruction that takes it.
    pub receiver: InstructionId,
    /// Rank of the sender.
    pub from: Rank,
    /// Rank of the receiver.
    pub to: Rank,
}

/// Index into [`InstructionDag::instructions`].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct InstructionId(pub u32);

/// Index into [`InstructionDag::messages`].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MessageId(pub u32);

impl Instruction {
    /// Sort key: waves in order, phases in order within a wave.
    pub fn key(&self) -> u64 {
        u64::from(self.wave) * 4 + self.phase as u64
    }

    /// The first slots of the local regions it reads.
    pub fn reads(&self) -> impl Iterator<Item = Slot> {
        locals(&self.sources)
    }

    /// The first slots of the local regions it writes.
    pub fn writes(&self) -> impl Iterator<Item = Slot> {
        locals(&self.destinations)
    }

    /// The messages it takes.
    pub fn receives(&self) -> impl Iterator<Item = MessageId> {
        messages(&self.sources)
    }

    /// The messages it sends.
    pub fn sends(&self) -> impl Iterator<Item = MessageId> {
        messages(&self.destinations)
    }
}

fn locals(operands: &[Operand]) -> impl Iterator<Item = Slot> {
    operands.iter().filter_map(|operand| match operand {
        Operand::Local(slot) => Some(*slot),
        Operand::Message(_) => None,
    })
}

fn messages(operands: &[Operand]) -> impl Iterator<Item = MessageId> {
    operands.iter().filter_map(|operand| match operand {
        Operand::Local(_) => None,
        Operand::Message(message) => Some(*message),
    })
}

impl InstructionDag {
    /// The instruction of that index.
    pub fn instruction(&self, id: InstructionId) -> &Instruction {
        &self.instructions[id.0 as usize]
    }

    /// The message of that index.
    pub fn message(&self, id: MessageId) -> &Message {
        &self.messages[id.0 as usize]
    }

    /// Takes out the instructions marked in `gone`, by [`InstructionId`]; no message may be theirs.
    pub(super) fn remove(&mut self, gone: &[bool]) {
        let mut kept = 0;
        let mut numbers = Vec::with_capacity(gone.len());
        for &gone in gone {
            numbers.push(InstructionId(kept));
            kept += u32::from(!gone);
        }
        let mut marks = gone.iter();
        self.instructions.retain(|_| !marks.next().copied().unwrap_or(false));
        for message in &mut self.messages {
            message.sender = numbers[message.sender.0 as usize];
            message.receiver = numbers[message.receiver.0 as usize];
        }
    }

    /// Ends the scratch of each of `ranks` ranks behind the last slot that an instruction touches.
    pub(super) fn close_scratch(&mut self, ranks: usize) {
        self.scratch_chunks = vec![0; ranks];
        for instruction in &self.instructions {
            let chunks = &mut self.scratch_chunks[instruction.rank.index()];
            let touched = instruction.reads().chain(instruction.writes());
            for slot in touched.filter(|slot| slot.buffer == Buffer::Scratch) {
                *chunks = (*chunks).max(slot.index + instruction.count);
            }
        }
    }
}

impl fmt::Debug for InstructionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "n{}", self.0)
    }
}

impl fmt::Debug for MessageId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "m{}", self.0)
    }
}
