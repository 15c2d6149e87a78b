//! An algorithm that was chosen, ready for an engine.

use msccl_collective::Rank;
use msccl_plan::{Plan, Step};
use msccl_registry::{Entry, Fingerprint};

use super::unserved::Unserved;
use super::wiring::Wiring;

/// An algorithm of which this rank's part is ready to be bound.
pub struct Prepared {
    /// What messages call it.
    pub name: String,
    /// What it is.
    pub fingerprint: Fingerprint,
    /// This rank's part.
    pub plan: Plan,
    /// How its links lie on wires.
    pub wiring: Wiring,
    /// Whether some step combines or divides; if not, the type of elements does not matter.
    pub computes: bool,
    /// Most steps of one of its thread blocks; those that run as one count as one.
    pub steps: u32,
}

/// The part that `rank` has of an algorithm, ready to be bound.
pub(crate) fn prepare(entry: &Entry, rank: Rank) -> Result<Prepared, Unserved> {
    let plan = Plan::of(&entry.verified, rank).map_err(|error| Unserved(error.to_string()))?;
    msccl_plan::launch::holds(plan.program()).map_err(|error| Unserved(error.to_string()))?;
    let wiring = Wiring::of(plan.program());
    let blocks = &plan.program().thread_blocks;
    let computing = |step: &Step| step.sources.len() > 1 || step.completes;
    let computes = blocks.iter().flat_map(|block| &block.steps).any(computing);
    let steps = blocks.iter().map(|block| block.bundles().count()).max().unwrap_or(0);
    let steps = u32::try_from(steps).unwrap_or(u32::MAX);
    let (name, fingerprint) = (entry.name.clone(), entry.fingerprint);
    Ok(Prepared { name, fingerprint, plan, wiring, computes, steps })
}
