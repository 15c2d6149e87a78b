//! A plan, ready to be walked: its steps, and the wires of its thread blocks.

use std::sync::Arc;

use msccl_collective::{Channel, Rank};
use msccl_plan::exchange::WireShape;
use msccl_select::{Prepared, WireEnd};

use crate::engine::DecidedCall;
use crate::error::Error;
use crate::walk::{BoundStep, Slicing, bind_steps};

/// The thread blocks of a plan.
pub(super) struct HostBoundPlan {
    pub blocks: Vec<HostThreadBlock>,
    /// Most chunks of a step that touches a link.
    largest_count: u32,
}

/// A thread block with the wires that it owns.
pub(super) struct HostThreadBlock {
    pub channel: Channel,
    pub steps: Vec<BoundStep>,
    /// By peer, ascending.
    incoming: Vec<WireEnd>,
    outgoing: Vec<WireEnd>,
}

impl HostBoundPlan {
    fn of(prepared: &Prepared) -> Self {
        let mut ends = prepared.wiring.ends().iter().copied();
        let blocks = prepared.plan.program().thread_blocks.iter().map(|block| HostThreadBlock {
            channel: block.channel,
            steps: bind_steps(block),
            incoming: ends.by_ref().take(block.receives.len()).collect(),
            outgoing: ends.by_ref().take(block.sends.len()).collect(),
        });
        let blocks: Vec<_> = blocks.collect();
        let steps = blocks.iter().flat_map(|block| &block.steps).map(|bound| &bound.step);
        let linked = steps.filter(|step| step.receives().chain(step.sends()).next().is_some());
        let largest_count = linked.map(|step| step.count).max().unwrap_or(0);
        Self { blocks, largest_count }
    }

    /// The ranks with which it exchanges messages.
    pub fn peers(&self) -> impl Iterator<Item = Rank> {
        let ends =
            self.blocks.iter().flat_map(|block| block.incoming.iter().chain(&block.outgoing));
        ends.map(|end| end.peer)
    }

    /// Checks that `decided` fits the wires that there are; what was selected for this engine does.
    pub fn check(
        &self,
        decided: &DecidedCall<'_>,
        slicing: &Slicing,
        shape: WireShape,
    ) -> Result<(), Error> {
        let WireShape { wires, slot_bytes, depth: _ } = shape;
        let name = &decided.decision.prepared.name;
        let instances = decided.decision.cut.instances;
        let last = instances.saturating_sub(1);
        let ends =
            self.blocks.iter().flat_map(|block| block.incoming.iter().chain(&block.outgoing));
        if let Some(beyond) = ends.map(|end| end.wire(last, instances)).find(|&wire| wire >= wires)
        {
            return Err(Error::internal(format!(
                "{instances} instances of {name} need wire {beyond} of a pair; there are {wires}"
            )));
        }
        let chunks = self.largest_count.min(slicing.chunks_per_message) as usize;
        let longest = chunks.saturating_mul(slicing.slice_bytes_max());
        if longest > slot_bytes as usize {
            return Err(Error::internal(format!(
                "{name} sends messages of {longest} bytes; wires hold {slot_bytes}"
            )));
        }
        Ok(())
    }
}

impl HostThreadBlock {
    /// The wire on which messages from `peer` come in.
    pub fn wire_from(&self, peer: Rank, instance: u32, instances: u32) -> Option<u32> {
        wire(&self.incoming, peer, instance, instances)
    }

    /// The wire on which messages to `peer` go out.
    pub fn wire_to(&self, peer: Rank, instance: u32, instances: u32) -> Option<u32> {
        wire(&self.outgoing, peer, instance, instances)
    }
}

fn wire(ends: &[WireEnd], peer: Rank, instance: u32, instances: u32) -> Option<u32> {
    let position = ends.binary_search_by_key(&peer, |end| end.peer).ok()?;
    Some(ends[position].wire(instance, instances))
}

/// What was bound so far: at most as much as is prepared.
#[derive(Default)]
pub(super) struct HostBindings {
    /// Each with what it was made from, which distinguishes it from others as long as it lives.
    known: Vec<(Arc<Prepared>, Arc<HostBoundPlan>)>,
}

impl HostBindings {
    /// The binding of `prepared`.
    pub fn bind(&mut self, prepared: &Arc<Prepared>) -> Arc<HostBoundPlan> {
        let known = self.known.iter().find(|(of, _)| Arc::ptr_eq(of, prepared));
        if let Some((_, bound)) = known {
            return bound.clone();
        }
        let bound = Arc::new(HostBoundPlan::of(prepared));
        self.known.push((prepared.clone(), bound.clone()));
        bound
    }
}
