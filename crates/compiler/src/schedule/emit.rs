//! Writes the steps of one rank, in the order of waves and phases.

use msccl_collective::{Rank, StepIndex, TbIndex};
use msccl_ir::{Place, RankProgram, Step, StepForm, Target, ThreadBlock, Wait, Waits};
use msccl_syntax::Diagnostic;
use smallvec::SmallVec;

use super::blocks::Blocks;
use super::channels::ChannelAssignments;
use super::memory::RankSlots;
use super::waits::Clocks;
use crate::chunk::{self, StatementId};
use crate::instruction::{self, Instruction, InstructionId, Operand, SlotTable};

/// The steps of one rank, and the statement of each.
pub type RankSteps = (RankProgram, Vec<Vec<StatementId>>);

/// The instructions of every rank, each rank's in the order of waves and phases.
pub fn by_rank(
    program: &chunk::ChunkDag,
    dag: &instruction::InstructionDag,
) -> Vec<(Rank, Vec<InstructionId>)> {
    let mut ranks: Vec<(Rank, Vec<InstructionId>)> =
        program.collective.all_ranks().map(|rank| (rank, Vec::new())).collect();
    for (index, instruction) in dag.instructions.iter().enumerate() {
        ranks[instruction.rank.index()].1.push(InstructionId(index as u32));
    }
    for (_, ids) in &mut ranks {
        ids.sort_by_key(|&id| dag.instruction(id).key());
    }
    ranks
}

/// Schedules the instructions `ids` of `rank`.
///
/// # Errors
///
/// Hints that cannot be honoured.
pub fn rank(
    context: &Context<'_>,
    rank: Rank,
    ids: &[InstructionId],
) -> Result<RankSteps, Vec<Diagnostic>> {
    let mut emitter = Emitter {
        context,
        blocks: Blocks::new(
            context.program,
            context.assignments,
            context.dag,
            ids,
            context.target,
        )?,
        memory: RankSlots::new(context.slots, rank),
        clocks: Clocks::default(),
        built: Vec::new(),
        needed: Vec::new(),
    };
    for &id in ids {
        emitter.instruction(context.dag.instruction(id));
    }
    let channels: Vec<_> = emitter.blocks.channels().collect();
    let mut statements = Vec::with_capacity(channels.len());
    let mut thread_blocks = Vec::with_capacity(channels.len());
    for (channel, built) in channels.into_iter().zip(emitter.built) {
        let Built { sends, receives, steps, statements: sources } = built;
        thread_blocks.push(ThreadBlock {
            channel,
            sends: sorted(sends),
            receives: sorted(receives),
            steps,
        });
        statements.push(sources);
    }
    let scratch_chunks = context.dag.scratch_chunks[rank.index()];
    Ok((RankProgram { scratch_chunks, thread_blocks }, statements))
}

/// What the schedule of every rank reads.
pub struct Context<'a> {
    /// The ops.
    pub program: &'a chunk::ChunkDag,
    /// The instructions.
    pub dag: &'a instruction::InstructionDag,
    /// Channels and link ends.
    pub assignments: &'a ChannelAssignments,
    /// Numbers of memory slots.
    pub slots: &'a SlotTable,
    /// Which steps exist, and how many fit.
    pub target: &'a Target,
}

struct Emitter<'a> {
    context: &'a Context<'a>,
    blocks: Blocks<'a>,
    memory: RankSlots<'a>,
    clocks: Clocks,
    built: Vec<Built>,
    /// Reused from step to step.
    needed: Vec<Wait>,
}

/// A thread block under construction.
#[derive(Default)]
struct Built {
    sends: Vec<Rank>,
    receives: Vec<Rank>,
    steps: Vec<Step>,
    statements: Vec<StatementId>,
}

impl Emitter<'_> {
    fn instruction(&mut self, instruction: &Instruction) {
        let tb = self.blocks.of(instruction, &self.memory);
        if self.built.len() <= tb.index() {
            self.built.resize_with(tb.index() + 1, Built::default);
        }
        self.find_needed(instruction);
        let next = self.built[tb.index()].steps.len() as u32;
        let mut waits = self.clocks.wait(tb, next, &mut self.needed);
        if self.context.target.form == StepForm::Msccl {
            self.wait_in_nops(tb, &mut waits, instruction.statement);
        }
        let step = self.step(instruction, waits);
        self.push(tb, step, instruction.statement);
        self.touch(tb, instruction);
    }

    /// Collects every step that must finish before `instruction`.
    fn find_needed(&mut self, instruction: &Instruction) {
        self.needed.clear();
        let needed = &mut self.needed;
        for start in instruction.reads() {
            self.memory.before_read(start, instruction.count, |step| needed.push(step));
        }
        for start in instruction.writes() {
            self.memory.before_write(start, instruction.count, |step| needed.push(step));
        }
    }

    /// Moves all waits but the last into no-op steps: MSCCL's steps have one.
    fn wait_in_nops(&mut self, tb: TbIndex, waits: &mut Waits, statement: StatementId) {
        while waits.len() > 1 {
            let wait = waits.remove(0);
            let nop = Step { waits: SmallVec::from_slice(&[wait]), ..Step::default() };
            self.push(tb, nop, statement);
        }
    }

    fn step(&self, instruction: &Instruction, waits: Waits) -> Step {
        let dag = self.context.dag;
        let sources = instruction.sources.iter().map(|source| match *source {
            Operand::Local(slot) => Place::Local(slot),
            Operand::Message(message) => Place::Link(dag.message(message).from),
        });
        let destinations = instruction.destinations.iter().map(|destination| match *destination {
            Operand::Local(slot) => Place::Local(slot),
            Operand::Message(message) => Place::Link(dag.message(message).to),
        });
        Step {
            waits,
            sources: sources.collect(),
            destinations: destinations.collect(),
            count: instruction.count,
        }
    }

    fn push(&mut self, tb: TbIndex, step: Step, statement: StatementId) {
        let built = &mut self.built[tb.index()];
        step.sends().for_each(|peer| note(&mut built.sends, peer));
        step.receives().for_each(|peer| note(&mut built.receives, peer));
        built.steps.push(step);
        built.statements.push(statement);
    }

    /// Notes what the step just pushed reads and writes.
    fn touch(&mut self, tb: TbIndex, instruction: &Instruction) {
        let step = StepIndex::from(self.built[tb.index()].steps.len() - 1);
        let at = Wait { tb, step };
        for start in instruction.reads() {
            self.memory.read(start, instruction.count, at);
        }
        for start in instruction.writes() {
            self.memory.write(start, instruction.count, at);
        }
    }
}

/// Adds `peer` unless it is there. The last one is looked at first: blocks mostly keep one peer.
fn note(peers: &mut Vec<Rank>, peer: Rank) {
    if !peers.iter().rev().any(|&known| known == peer) {
        peers.push(peer);
    }
}

fn sorted(mut peers: Vec<Rank>) -> Vec<Rank> {
    peers.sort_unstable();
    peers
}
