//! Algorithms written step by step.

use msccl_collective::{
    Buffer, Channel, Collective, Kind, Placement, Protocol, Rank, SizeRange, Slot, StepIndex,
    TbIndex,
};
use msccl_ir::{Algorithm, Place, RankProgram, Step, ThreadBlock, Wait};

/// Input slot `index`.
pub fn i(index: u32) -> Place {
    Place::Local(Slot::new(Buffer::Input, index))
}

/// Output slot `index`.
pub fn o(index: u32) -> Place {
    Place::Local(Slot::new(Buffer::Output, index))
}

/// Scratch slot `index`.
pub fn t(index: u32) -> Place {
    Place::Local(Slot::new(Buffer::Scratch, index))
}

/// The link from or to `rank`.
pub fn r(rank: u32) -> Place {
    Place::Link(Rank(rank))
}

/// One chunk: Σ sources → destinations.
pub fn step(sources: &[Place], destinations: &[Place]) -> Step {
    Step {
        sources: sources.iter().copied().collect(),
        destinations: destinations.iter().copied().collect(),
        count: 1,
        ..Step::default()
    }
}

/// A step that only waits.
pub fn nop(tb: u32, step: u32) -> Step {
    Step::default().after(tb, step)
}

/// Changes to a step.
pub trait StepExt {
    /// Over `count` chunks.
    fn times(self, count: u32) -> Self;
    /// After the end of that step of the same rank.
    fn after(self, tb: u32, step: u32) -> Self;
}

impl StepExt for Step {
    fn times(mut self, count: u32) -> Self {
        self.count = count;
        self
    }

    fn after(mut self, tb: u32, step: u32) -> Self {
        self.waits.push(Wait { tb: TbIndex(tb), step: StepIndex(step) });
        self
    }
}

/// A thread block that owns the links its steps use.
pub fn tb(channel: u32, steps: Vec<Step>) -> ThreadBlock {
    let sends = peers(steps.iter().flat_map(|step| step.sends().collect::<Vec<_>>()));
    let receives = peers(steps.iter().flat_map(|step| step.receives().collect::<Vec<_>>()));
    ThreadBlock { channel: Channel(channel), sends, receives, steps }
}

fn peers(ranks: impl Iterator<Item = Rank>) -> Vec<Rank> {
    let mut ranks: Vec<_> = ranks.collect();
    ranks.sort_unstable();
    ranks.dedup();
    ranks
}

/// An algorithm from the thread blocks of every rank: in place, protocol Simple, all sizes, with as
/// much scratch as the steps touch.
pub fn algorithm(kind: Kind, chunks: u32, ranks: Vec<Vec<ThreadBlock>>) -> Algorithm {
    let ranks: Vec<_> = ranks
        .into_iter()
        .map(|thread_blocks| RankProgram {
            scratch_chunks: scratch_touched(&thread_blocks),
            thread_blocks,
        })
        .collect();
    Algorithm {
        name: "by_hand".to_owned(),
        collective: Collective { kind, ranks: ranks.len() as u32, chunks },
        placement: Placement::InPlace,
        protocol: Protocol::Simple,
        sizes: SizeRange::ALL,
        threads: None,
        ranks,
    }
}

fn scratch_touched(blocks: &[ThreadBlock]) -> u32 {
    let steps = blocks.iter().flat_map(|block| &block.steps);
    let regions = steps.flat_map(|step| step.reads().chain(step.writes()).collect::<Vec<_>>());
    let scratch = regions.filter(|region| region.start.buffer == Buffer::Scratch);
    scratch.map(|region| region.start.index + region.count).max().unwrap_or(0)
}
