//! The steps of a plan, as [`msccl_machine`] takes them.

use msccl_collective::Rank;
use msccl_ir::{Place, Step};
use msccl_machine::pieces;
use msccl_plan::{Operand, ThreadBlock};

/// A step with its flags.
pub(crate) struct BoundStep {
    /// The step.
    pub(crate) step: Step,
    /// Whether the result is complete.
    pub(crate) completes: bool,
    /// For each source, whether it is a raw contribution; empty if none is.
    pub(crate) raw: Vec<bool>,
    /// Whether someone waits for it.
    pub(crate) signals: bool,
}

/// The steps of `block`, with the ranks at the other ends of its links instead of their numbers.
pub(crate) fn bind_steps(block: &ThreadBlock) -> Vec<BoundStep> {
    block.steps.iter().map(|step| bind_step(step, block)).collect()
}

fn bind_step(step: &msccl_plan::Step, block: &ThreadBlock) -> BoundStep {
    // On the host every message goes through its queue.
    let msccl_plan::Step {
        kind: _,
        completes,
        signals,
        waits,
        sources,
        raw,
        destinations,
        count,
        // Here steps run one by one, which gives the same.
        bundled: _,
        far: _,
    } = step;
    let place = |operand: &Operand| match *operand {
        Operand::Local(slot) => Place::Local(slot),
        Operand::Link(link) => Place::Link(peer(block, link as usize)),
    };
    let step = Step {
        waits: waits.iter().copied().collect(),
        sources: sources.iter().map(place).collect(),
        destinations: destinations.iter().map(place).collect(),
        count: *count,
    };
    BoundStep { step, completes: *completes, raw: raw.clone(), signals: *signals }
}

/// The rank at the other end of link number `link`; decoding has checked the number.
fn peer(block: &ThreadBlock, link: usize) -> Rank {
    let incoming = block.receives.len();
    if link < incoming { block.receives[link] } else { block.sends[link - incoming] }
}

impl BoundStep {
    /// How many chunks of the step move at once when a message carries `chunks_per_message`; at
    /// least one.
    pub(crate) fn piece_chunks(&self, chunks_per_message: u32) -> u32 {
        let first = pieces(&self.step, chunks_per_message).next();
        first.map_or(1, |chunks| chunks.end - chunks.start).max(1)
    }
}
