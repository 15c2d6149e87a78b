//! An algorithm that was chosen, ready for an engine.

use std::sync::Arc;

use msccl_collective::Rank;
use msccl_plan::{Plan, Step};
use msccl_registry::{Entry, Fingerprint, SourceLines};

use super::unserved::Unserved;
use super::wiring::Wiring;

/// An algorithm of which this rank's part is ready to be bound.
pub struct Prepared {
    /// What messages call it.
    pub name: String,
    /// What it is: of the algorithm, or of it and the one that it runs beside.
    pub fingerprint: Fingerprint,
    /// This rank's part.
    pub plan: Plan,
    /// Which buffers it offers to peers over direct links.
    pub offers: Offers,
    /// How its links lie on wires.
    pub wiring: Wiring,
    /// Whether some step combines or divides; if not, the type of elements does not matter.
    pub computes: bool,
    /// Most steps of one of its thread blocks; those that run as one count as one.
    pub steps: u32,
    /// The lines of its program, if there is one.
    pub source: Option<Arc<SourceLines>>,
}

/// What a rank offers to its peers in launches with direct links.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Offers {
    /// The buffers with regions that its plan has peers store to or load from.
    Regions,
    /// Nothing: it runs beside ranks with another program ([`Plan::beside`]).
    Nothing,
}

impl Prepared {
    /// Whether the input and the output are offered to peers.
    pub fn exports_buffers(&self) -> [bool; 2] {
        match self.offers {
            Offers::Regions => self.plan.program().exports_buffers(),
            Offers::Nothing => [false, false],
        }
    }
}

/// The part that `rank` has of an algorithm, ready to be bound.
pub(crate) fn prepare(entry: &Entry, rank: Rank) -> Result<Prepared, Unserved> {
    let plan = Plan::of(&entry.verified, rank).map_err(|error| Unserved(error.to_string()))?;
    prepared(entry, plan, Offers::Regions, entry.fingerprint)
}

/// The same while other ranks run `peers`, for the other placement, over direct links; `None` if
/// the two do not go together so.
pub(crate) fn prepare_beside(entry: &Entry, peers: &Entry, rank: Rank) -> Option<Prepared> {
    let plan = Plan::beside(&entry.verified, &peers.verified, rank).ok()??;
    prepared(entry, plan, Offers::Nothing, fingerprint_beside(entry, peers)).ok()
}

/// What [`prepare_beside`] makes of them is known by.
pub(crate) fn fingerprint_beside(entry: &Entry, peers: &Entry) -> Fingerprint {
    Fingerprint::of_all([entry.fingerprint, peers.fingerprint].into_iter())
}

fn prepared(
    entry: &Entry,
    plan: Plan,
    offers: Offers,
    fingerprint: Fingerprint,
) -> Result<Prepared, Unserved> {
    msccl_plan::launch::holds(plan.program()).map_err(|error| Unserved(error.to_string()))?;
    let wiring = Wiring::of(plan.program());
    let blocks = &plan.program().thread_blocks;
    let computing = |step: &Step| step.sources.len() > 1 || step.completes;
    let computes = blocks.iter().flat_map(|block| &block.steps).any(computing);
    let steps = blocks.iter().map(|block| block.bundles().count()).max().unwrap_or(0);
    let steps = u32::try_from(steps).unwrap_or(u32::MAX);
    let (name, source) = (entry.name.clone(), entry.source.clone());
    Ok(Prepared { name, fingerprint, plan, offers, wiring, computes, steps, source })
}
