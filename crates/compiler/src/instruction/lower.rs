//! From ops to instructions, in one pass over the program.

use std::convert::Infallible;

use msccl_collective::{Buffer, Rank, Slot};
use msccl_ir::{LinkShape, StepForm, Target};
use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use super::absorb::{Absorber, Staged, has_step};
use super::arity::for_each_lowered;
use super::dag::{Instruction, InstructionDag, InstructionId, Message, MessageId, Operand, Phase};
use super::fuse::{Candidate, fits_busy_link, may_drop_write, may_pass_on, stores};
use super::partners::{Joint, Partners};
use super::slots::SlotTable;
use super::waves::{LinkNumber, LinkWaves};
use crate::chunk::{self, At, Hints, LinkKey, Op};

/// Lowers every op of `program` for `target`.
///
/// Guarantees: every message has one sender and one receiver on two different ranks, and the
/// sender's key is smaller than the receiver's; instructions that touch one slot in conflict have
/// keys in program order; no link (pair of ranks and channel requested) carries a message in the
/// waves from that of another, in which it is sent, to that of its receiver.
pub fn lower(program: &chunk::ChunkDag, target: &Target) -> InstructionDag {
    let mut lowering = Lowering::new(program, target);
    for op in &program.ops {
        let Ok(()) = for_each_lowered(op, target, |op| {
            lowering.op(op);
            Ok::<(), Infallible>(())
        });
    }
    lowering.keep_promised_writes();
    lowering.drop_dead_writes();
    lowering.absorb_staged_receives();
    lowering.dag.close_scratch(program.scratch_chunks.len());
    lowering.dag
}

struct Lowering<'a> {
    program: &'a chunk::ChunkDag,
    form: StepForm,
    link: LinkShape,
    slots: SlotTable,
    states: Vec<SlotState>,
    links: LinkWaves,
    partners: Partners,
    /// Plain sends that may take a further destination (native form only).
    sends: FxHashMap<SendKey, InstructionId>,
    /// By instruction: how often a slot that it wrote is read from memory, or promised. What it
    /// passes on does not count.
    uses: Vec<u32>,
    /// Received regions that something reads, if the target can do without them.
    staged: Vec<Staged>,
    dag: InstructionDag,
}

/// What is known about a slot between two ops.
#[derive(Clone, Copy)]
struct SlotState {
    /// The instruction that wrote it last.
    writer: Option<InstructionId>,
    /// The first wave after that write.
    readable: u32,
    /// The first wave after every read since.
    writable: u32,
}

/// Sends of the same chunks in the same wave at the same place.
#[derive(PartialEq, Eq, Hash)]
struct SendKey {
    from: At,
    count: u32,
    wave: u32,
    link_key: LinkKey,
    tb: Option<u32>,
}

impl<'a> Lowering<'a> {
    fn new(program: &'a chunk::ChunkDag, target: &Target) -> Self {
        let slots = SlotTable::new(&program.collective, &program.scratch_chunks);
        let pristine = SlotState { writer: None, readable: 0, writable: 0 };
        Self {
            program,
            form: target.form,
            link: target.link(program.protocol),
            states: vec![pristine; slots.len()],
            slots,
            links: LinkWaves::default(),
            partners: Partners::default(),
            sends: FxHashMap::default(),
            uses: Vec::new(),
            staged: Vec::new(),
            dag: InstructionDag::default(),
        }
    }

    fn op(&mut self, op: &Op) {
        let hints = self.program.hints[op.hints.0 as usize];
        let wave = self.wave(op, &hints);
        let receiver = self.receive(op, wave);
        for source in &op.sources {
            if source.rank == op.to.rank {
                if has_step(self.form) {
                    self.note_staged(*source, op.count, receiver);
                }
                self.read(*source, op.count, wave);
            } else {
                self.send(*source, op, wave, &hints, receiver);
            }
        }
        self.write(op, receiver, wave);
    }

    /// The first wave in which everything that `op` touches is ready and its links are free; takes
    /// the links.
    fn wave(&mut self, op: &Op, hints: &Hints) -> u32 {
        let mut wave = self.ready(op);
        let links: SmallVec<[LinkNumber; 2]> = remotes(op)
            .map(|source| self.links.link(source.rank, op.to.rank, hints.link_key()))
            .collect();
        loop {
            let free = links.iter().fold(wave, |wave, &link| self.links.first_free(link, wave));
            if free == wave {
                break;
            }
            wave = free;
        }
        for &link in &links {
            self.links.take(link, wave);
        }
        wave
    }

    fn ready(&self, op: &Op) -> u32 {
        let read = op.sources.iter().flat_map(|source| self.states_of(*source, op.count));
        let readable = read.map(|state| state.readable).max().unwrap_or(0);
        let written = self.states_of(op.to, op.count);
        let writable = written.map(|state| state.writable.max(state.readable)).max().unwrap_or(0);
        readable.max(writable)
    }

    fn states_of(&self, at: At, count: u32) -> impl Iterator<Item = &SlotState> {
        let first = self.slots.number(at.rank, at.slot);
        self.states[first..first + count as usize].iter()
    }

    fn states_of_mut(&mut self, at: At, count: u32) -> impl Iterator<Item = &mut SlotState> {
        let first = self.slots.number(at.rank, at.slot);
        self.states[first..first + count as usize].iter_mut()
    }

    /// The instruction on the destination's rank. Its messages get the next message numbers, in the
    /// order of the sources; [`Lowering::send`] adds them in that order.
    fn receive(&mut self, op: &Op, wave: u32) -> InstructionId {
        let mut next = self.dag.messages.len() as u32;
        let mut sources: SmallVec<[Operand; 2]> = SmallVec::new();
        for source in &op.sources {
            if source.rank == op.to.rank {
                sources.push(Operand::Local(source.slot));
            } else {
                sources.push(Operand::Message(MessageId(next)));
                next += 1;
            }
        }
        let remote = next > self.dag.messages.len() as u32;
        order_pair(&mut sources, op.to.slot);
        self.push(Instruction {
            rank: op.to.rank,
            wave,
            phase: if remote { Phase::Receive } else { Phase::Local },
            sources,
            destinations: SmallVec::from_slice(&[Operand::Local(op.to.slot)]),
            count: op.count,
            hints: op.hints,
            statement: op.statement,
        })
    }

    fn push(&mut self, instruction: Instruction) -> InstructionId {
        let id = InstructionId(self.dag.instructions.len() as u32);
        self.dag.instructions.push(instruction);
        self.uses.push(0);
        id
    }

    /// Adds the message that carries `source` to `receiver`, sent by whoever may send it.
    fn send(&mut self, source: At, op: &Op, wave: u32, hints: &Hints, receiver: InstructionId) {
        let message = MessageId(self.dag.messages.len() as u32);
        let region = source.slot.run(op.count);
        let candidate = Candidate { region, wave, hints };
        let sender = match self.passer(source, op.to.rank, &candidate) {
            Some(passer) => {
                match self.joint(passer, op.to.rank) {
                    Some(joint) => self.partners.join(self.form, hints.link_key(), joint),
                    None => self.partners.start(self.form),
                }
                self.dag.instructions[passer.0 as usize].phase = Phase::Pass;
                for state in self.states_of_mut(source, op.count) {
                    state.writable = state.writable.max(wave + 1);
                }
                passer
            }
            None => {
                self.partners.start(self.form);
                self.read(source, op.count, wave);
                self.plain_send(source, op, wave, hints)
            }
        };
        self.dag.instructions[sender.0 as usize].destinations.push(Operand::Message(message));
        let (from, to) = (source.rank, op.to.rank);
        self.dag.messages.push(Message { sender, receiver, from, to });
    }

    /// The instruction that may pass the region at `source` on, by the rules of [`super::fuse`].
    fn passer(&self, source: At, to: Rank, candidate: &Candidate<'_>) -> Option<InstructionId> {
        let count = candidate.region.count;
        let passer = self.sole_writer(source, count)?;
        let k = self.dag.instruction(passer);
        let k_hints = &self.program.hints[k.hints.0 as usize];
        let fuses = fits_busy_link(self.link, count)
            && may_pass_on(self.form, k, k_hints, candidate)
            && self.joint(passer, to).is_none_or(|joint| {
                self.partners.admit(self.form, candidate.hints.link_key(), joint)
            });
        fuses.then_some(passer)
    }

    /// The instruction that last wrote every slot of the region at `at`, if one did.
    fn sole_writer(&self, at: At, count: u32) -> Option<InstructionId> {
        let mut states = self.states_of(at, count);
        let writer = states.next()?.writer?;
        states.all(|state| state.writer == Some(writer)).then_some(writer)
    }

    /// What instruction `id` would join if it sent to `to`, if it takes a message.
    fn joint(&self, id: InstructionId, to: Rank) -> Option<Joint> {
        let instruction = self.dag.instruction(id);
        let taken = instruction.receives().next()?;
        let from = self.dag.message(taken).from;
        Some(Joint { rank: instruction.rank, taken, from, to })
    }

    /// A send of its own, or one of the same chunks in the same wave if the target sends to many.
    fn plain_send(&mut self, from: At, op: &Op, wave: u32, hints: &Hints) -> InstructionId {
        let key =
            SendKey { from, count: op.count, wave, link_key: hints.link_key(), tb: hints.send_tb };
        if let Some(&send) = self.sends.get(&key) {
            return send;
        }
        let send = self.push(Instruction {
            rank: from.rank,
            wave,
            phase: Phase::Send,
            sources: SmallVec::from_slice(&[Operand::Local(from.slot)]),
            destinations: SmallVec::new(),
            count: op.count,
            hints: op.hints,
            statement: op.statement,
        });
        if self.form == StepForm::Native {
            self.sends.insert(key, send);
        }
        send
    }

    /// Notes that something in `wave` reads the region at `at` from memory.
    fn read(&mut self, at: At, count: u32, wave: u32) {
        let first = self.slots.number(at.rank, at.slot);
        for state in &mut self.states[first..first + count as usize] {
            state.writable = state.writable.max(wave + 1);
            if let Some(writer) = state.writer {
                self.uses[writer.0 as usize] += 1;
            }
        }
    }

    /// Notes that `reader` reads the region at `at`, if one instruction received just that.
    fn note_staged(&mut self, at: At, count: u32, reader: InstructionId) {
        let Some(receive) = self.sole_writer(at, count) else { return };
        let k = self.dag.instruction(receive);
        let taken = k.receives().next().filter(|_| stores(k, at.slot.run(count)));
        if let Some(taken) = taken {
            let Message { from, to, .. } = *self.dag.message(taken);
            let link_key = self.program.hints[k.hints.0 as usize].link_key();
            let link = self.links.link(from, to, link_key);
            self.staged.push(Staged { receive, reader, link });
        }
    }

    fn write(&mut self, op: &Op, writer: InstructionId, wave: u32) {
        let written = SlotState { writer: Some(writer), readable: wave + 1, writable: wave + 1 };
        for state in self.states_of_mut(op.to, op.count) {
            *state = written;
        }
    }

    /// Marks the writers of everything the collective promises something about.
    fn keep_promised_writes(&mut self) {
        let collective = &self.program.collective;
        let in_place = self.program.placement.serves_in_place();
        for rank in collective.all_ranks() {
            for index in 0..collective.output_chunks(rank) {
                if collective.promised(rank, index).is_none() {
                    continue;
                }
                let slot = Slot::new(Buffer::Output, index);
                let slot = if in_place { collective.in_place(rank, slot) } else { slot };
                let number = self.slots.number(rank, slot);
                if let Some(writer) = self.states[number].writer {
                    self.uses[writer.0 as usize] += 1;
                }
            }
        }
    }

    fn drop_dead_writes(&mut self) {
        for (instruction, &uses) in self.dag.instructions.iter_mut().zip(&self.uses) {
            if uses == 0 && may_drop_write(self.form, instruction) {
                instruction.destinations.retain(|to| matches!(to, Operand::Message(_)));
            }
        }
    }

    fn absorb_staged_receives(&mut self) {
        if self.staged.is_empty() {
            return;
        }
        let absorber = Absorber {
            shape: self.link,
            hints: &self.program.hints,
            uses: &self.uses,
            timetable: &self.links.timetable(),
        };
        absorber.absorb(&mut self.dag, &self.staged);
    }
}

fn remotes(op: &Op) -> impl Iterator<Item = &At> {
    op.sources.iter().filter(|source| source.rank != op.to.rank)
}

/// Puts a pair of sources into the order in which MSCCL's steps read them: the message before the
/// local operand, the destination before another local operand. Two operands combine to the same
/// value in either order; longer sums keep the order of the program.
fn order_pair(sources: &mut SmallVec<[Operand; 2]>, to: Slot) {
    if let [first, second] = sources.as_mut_slice() {
        let message_last = matches!((&first, &second), (Operand::Local(_), Operand::Message(_)));
        let destination_last = *second == Operand::Local(to);
        if message_last || (destination_last && matches!(first, Operand::Local(_))) {
            std::mem::swap(first, second);
        }
    }
}
