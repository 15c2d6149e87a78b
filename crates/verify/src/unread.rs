//! Data that is written and never read: no fault, but hardly what the author means.
//!
//! The steps are walked in the order of one run. Conflicting accesses of a proved algorithm are
//! ordered, so each read finds the same write in every run. What a caller finds at the end, in an
//! output buffer, counts as read, and so does what a step sends on.

use std::fmt;

use msccl_collective::{Buffer, Rank, Region, Slot};
use msccl_ir::StepRef;

use crate::memory::{Call, Memory};
use crate::program::{At, Program, StepId};
use crate::{Facts, Verified, deadlock};

/// A step whose result, or a part of it, nobody reads.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct UnreadResult {
    /// The step.
    pub step: StepRef,
    /// Chunks of its result that nobody reads, in any call that is served.
    pub chunks: u32,
    /// Chunks of its result.
    pub of_chunks: u32,
    /// Who sent the data, if the step takes a message.
    pub sender: Option<StepRef>,
    /// The first step that writes in their place; none if they stay to the end.
    pub overwritten_by: Option<StepRef>,
}

/// The sentence of a warning.
impl fmt::Display for UnreadResult {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { step, chunks, of_chunks, sender, overwritten_by } = *self;
        if chunks != of_chunks {
            write!(f, "{chunks} of {of_chunks} chunks of ")?;
        }
        match sender {
            Some(sender) => write!(f, "what {sender} sends to {step}")?,
            None => write!(f, "what {step} writes")?,
        }
        match overwritten_by {
            Some(next) => write!(f, " is overwritten by {next} before anybody reads it"),
            None => f.write_str(" is never read"),
        }
    }
}

/// The steps of a proved algorithm with unread results, in the order of ranks, thread blocks and
/// steps.
pub(crate) fn of(verified: &Verified) -> Vec<UnreadResult> {
    let algorithm = verified.algorithm();
    let Facts { fewest_chunks_per_message, least_link_depth, .. } = *verified.facts();
    // A proved algorithm is well formed, and ends so.
    let Ok(program) = Program::new(algorithm) else { return Vec::new() };
    let order = deadlock::order(&program, fewest_chunks_per_message, least_link_depth);
    let Some(order) = order else { return Vec::new() };
    let calls = Call::served(algorithm).map(|call| {
        let mut walk = UnreadWalk::new(&program, Memory::new(algorithm, call));
        order.iter().for_each(|at| walk.step(*at));
        walk.end()
    });
    let unread_in_all = calls.reduce(|one, other| {
        let pairs = one.into_iter().zip(other);
        pairs.map(|(one, other)| one.and_also(other)).collect()
    });
    let fates = unread_in_all.unwrap_or_default();
    let first_chunks = first_chunks(&program);
    let steps = program.ats().zip(first_chunks.windows(2));
    steps.filter_map(|(at, of)| unread_result(&program, at, fates.get(of[0]..of[1])?)).collect()
}

/// What became of one chunk of the result of a step.
#[derive(Clone, Copy)]
enum ChunkFate {
    /// Somebody reads it, or nothing stands for it in memory.
    Read,
    /// Nobody does, up to here.
    Unread {
        /// The step that wrote in its place.
        overwritten_by: Option<StepId>,
    },
}

impl ChunkFate {
    /// What holds in both calls.
    fn and_also(self, other: Self) -> Self {
        match (self, other) {
            (ChunkFate::Unread { .. }, ChunkFate::Unread { .. }) => self,
            (ChunkFate::Read, _) | (_, ChunkFate::Read) => ChunkFate::Read,
        }
    }
}

struct UnreadWalk<'a> {
    program: &'a Program<'a>,
    memory: Memory<'a>,
    /// By step, where its chunks begin in `fates`.
    first_chunks: Vec<usize>,
    fates: Vec<ChunkFate>,
    /// By cell, the chunk that it holds.
    holds: Vec<Option<usize>>,
}

impl<'a> UnreadWalk<'a> {
    fn new(program: &'a Program<'a>, memory: Memory<'a>) -> Self {
        let first_chunks = first_chunks(program);
        let chunks = first_chunks.last().copied().unwrap_or(0);
        let holds = vec![None; memory.len()];
        Self { program, memory, first_chunks, fates: vec![ChunkFate::Read; chunks], holds }
    }

    fn step(&mut self, at: At) {
        let (step, id) = (self.program.step(at), self.program.id(at));
        let rank = self.program.rank(at);
        for slot in step.reads().flat_map(Region::slots) {
            self.read(rank, slot);
        }
        let is_sent = step.sends().next().is_some();
        let first = self.first_chunks[id.index()];
        for (chunk, slot) in step.writes().flat_map(|region| region.slots().enumerate()) {
            let cell = self.memory.cell(rank, slot);
            if let Some(before) = self.holds[cell].replace(first + chunk)
                && let ChunkFate::Unread { overwritten_by } = &mut self.fates[before]
            {
                overwritten_by.get_or_insert(id);
            }
            if !is_sent {
                self.fates[first + chunk] = ChunkFate::Unread { overwritten_by: None };
            }
        }
    }

    /// Somebody reads `slot` of `rank`.
    fn read(&mut self, rank: Rank, slot: Slot) {
        if let Some(chunk) = self.holds[self.memory.cell(rank, slot)] {
            self.fates[chunk] = ChunkFate::Read;
        }
    }

    /// The fates of all chunks, when the call returns.
    fn end(mut self) -> Vec<ChunkFate> {
        let collective = &self.program.algorithm().collective;
        for rank in collective.all_ranks() {
            for index in 0..collective.output_chunks(rank) {
                self.read(rank, Slot { buffer: Buffer::Output, index });
            }
        }
        self.fates
    }
}

/// By step, where its chunks begin among those of all steps; at the end their number.
fn first_chunks(program: &Program<'_>) -> Vec<usize> {
    let mut first = vec![0];
    let mut sum = 0;
    for at in program.ats() {
        sum += program.step(at).count as usize;
        first.push(sum);
    }
    first
}

fn unread_result(program: &Program<'_>, at: At, fates: &[ChunkFate]) -> Option<UnreadResult> {
    let unread = fates.iter().filter_map(|fate| match fate {
        ChunkFate::Read => None,
        ChunkFate::Unread { overwritten_by } => Some(*overwritten_by),
    });
    let chunks = unread.clone().count() as u32;
    let located = |id| program.step_ref(program.locate(id));
    let sender = program.senders(program.id(at)).first().copied();
    (chunks > 0).then(|| UnreadResult {
        step: program.step_ref(at),
        chunks,
        of_chunks: program.step(at).count,
        sender: sender.map(located),
        overwritten_by: unread.flatten().next().map(located),
    })
}
