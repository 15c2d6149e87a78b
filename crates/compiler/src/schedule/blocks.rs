//! Which thread block of its rank runs each instruction.
//!
//! An instruction with messages belongs to the thread block that owns the link ends they use. A
//! local instruction joins the block that last wrote what it needs, if that block only receives, so
//! that it need not wait; otherwise the block for local work. Half of a block's steps is left for
//! what must stand in it, no-op steps among them; then another block is opened. A hint overrides
//! all of this.

use std::collections::BTreeSet;

use msccl_collective::{Channel, TbIndex};
use msccl_ir::Target;
use msccl_syntax::Diagnostic;
use rustc_hash::FxHashMap;

use super::channels::{ChannelAssignments, EndId};
use super::memory::RankSlots;
use crate::chunk;
use crate::instruction::{self, Instruction, InstructionId, Phase};

/// The thread blocks of one rank, as far as they are known.
#[derive(Debug)]
pub struct Blocks<'a> {
    program: &'a chunk::ChunkDag,
    assignments: &'a ChannelAssignments,
    blocks: Vec<BlockState>,
    /// The block of each group of link ends, by its lowest end.
    by_owner: FxHashMap<EndId, TbIndex>,
    /// The block of each number that the author requested.
    by_hint: FxHashMap<u32, TbIndex>,
    /// The block for local work of each instance.
    local: FxHashMap<u32, TbIndex>,
    /// Local instructions go to blocks with fewer steps than this.
    local_steps_max: u32,
}

#[derive(Clone, Copy, Debug)]
struct BlockState {
    /// Known as soon as the block owns a link.
    channel: Option<Channel>,
    sends: bool,
    /// Instructions so far.
    steps: u32,
}

impl<'a> Blocks<'a> {
    /// The blocks of the rank whose instructions are `ids`, with those that hints ask for first, in
    /// the order of their numbers.
    ///
    /// # Errors
    ///
    /// Hints that put two channels into one block, or one link end into two.
    pub fn new(
        program: &'a chunk::ChunkDag,
        assignments: &'a ChannelAssignments,
        dag: &instruction::InstructionDag,
        ids: &[InstructionId],
        target: &Target,
    ) -> Result<Self, Vec<Diagnostic>> {
        let mut blocks = Self {
            program,
            assignments,
            blocks: Vec::new(),
            by_owner: FxHashMap::default(),
            by_hint: FxHashMap::default(),
            local: FxHashMap::default(),
            local_steps_max: target.limits.steps_per_tb / 2,
        };
        let instructions = || ids.iter().map(|&id| dag.instruction(id));
        let requested: BTreeSet<u32> =
            instructions().filter_map(|instruction| blocks.requested(instruction)).collect();
        for number in requested {
            let block = blocks.open(None);
            blocks.by_hint.insert(number, block);
        }
        for instruction in instructions() {
            blocks.bind_hint(instruction)?;
        }
        Ok(blocks)
    }

    /// The block that runs `instruction`; every earlier instruction of the rank has one.
    pub fn of(&mut self, instruction: &Instruction, memory: &RankSlots<'_>) -> TbIndex {
        let tb = self.hinted(instruction).unwrap_or_else(|| match self.owner(instruction) {
            Some((owner, channel)) => self.owned(owner, channel),
            None => self.for_local(instruction, memory),
        });
        let block = &mut self.blocks[tb.index()];
        block.sends |= instruction.sends().next().is_some();
        block.steps += 1;
        tb
    }

    /// The channel of every block.
    pub fn channels(&self) -> impl Iterator<Item = Channel> {
        self.blocks.iter().map(|block| block.channel.unwrap_or(Channel(0)))
    }

    fn requested(&self, instruction: &Instruction) -> Option<u32> {
        let hints = &self.program.hints[instruction.hints.0 as usize];
        match instruction.phase {
            Phase::Send => hints.send_tb,
            Phase::Local | Phase::Receive | Phase::Pass => hints.receive_tb,
        }
    }

    fn hinted(&self, instruction: &Instruction) -> Option<TbIndex> {
        self.by_hint.get(&self.requested(instruction)?).copied()
    }

    fn open(&mut self, channel: Option<Channel>) -> TbIndex {
        self.blocks.push(BlockState { channel, sends: false, steps: 0 });
        TbIndex::from(self.blocks.len() - 1)
    }

    /// The group of link ends that `instruction` uses, and their channel.
    fn owner(&self, instruction: &Instruction) -> Option<(EndId, Channel)> {
        let assignment =
            |message: instruction::MessageId| self.assignments.assignments[message.0 as usize];
        let received = instruction.receives().map(|message| (assignment(message), true));
        let mut ends =
            received.chain(instruction.sends().map(|message| (assignment(message), false)));
        let (assignment, receives) = ends.next()?;
        let end = if receives { assignment.receiver } else { assignment.sender };
        Some((self.assignments.owners[end.0 as usize], Channel(assignment.channel)))
    }

    fn owned(&mut self, owner: EndId, channel: Channel) -> TbIndex {
        if let Some(&block) = self.by_owner.get(&owner) {
            return block;
        }
        let block = self.open(Some(channel));
        self.by_owner.insert(owner, block);
        block
    }

    fn for_local(&mut self, instruction: &Instruction, memory: &RankSlots<'_>) -> TbIndex {
        let touched = instruction.reads().chain(instruction.writes());
        let writers = touched.filter_map(|slot| memory.writer(slot));
        let receiving = writers.map(|write| write.tb).filter(|&tb| !self.blocks[tb.index()].sends);
        let roomy = |tb: &TbIndex| self.blocks[tb.index()].steps < self.local_steps_max;
        let instance = self.program.hints[instruction.hints.0 as usize].instance;
        let known = receiving.last().filter(roomy).or_else(|| {
            let local = self.local.get(&instance).copied();
            local.filter(roomy)
        });
        known.unwrap_or_else(|| {
            let block = self.open(None);
            self.local.insert(instance, block);
            block
        })
    }

    /// Gives the ends of a hinted instruction to the block that the hint names.
    fn bind_hint(&mut self, instruction: &Instruction) -> Result<(), Vec<Diagnostic>> {
        let (Some(block), Some((owner, channel))) =
            (self.hinted(instruction), self.owner(instruction))
        else {
            return Ok(());
        };
        let known = self.blocks[block.index()].channel.get_or_insert(channel);
        if *known != channel {
            let known = *known;
            return Err(vec![self.refuse(
                instruction,
                format!("this asks for {channel}, but its thread block is already on {known}"),
            )]);
        }
        let bound = *self.by_owner.entry(owner).or_insert(block);
        if bound != block {
            return Err(vec![self.refuse(
                instruction,
                format!(
                    "this link already belongs to another thread block of {}",
                    instruction.rank
                ),
            )]);
        }
        Ok(())
    }

    fn refuse(&self, instruction: &Instruction, message: String) -> Diagnostic {
        let origin = &self.program.statements[instruction.statement.0 as usize];
        Diagnostic::error(origin.span, message).hint(
            "a thread block has one channel, and each end of a link belongs to one thread block; \
             use another channel or thread block, or leave the choice to the compiler",
        )
    }
}
