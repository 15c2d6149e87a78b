//! What a user wants to be used instead of what would be chosen.

use msccl_collective::Protocol;

use super::allowed::{Allowed, Family};
use super::cta_policy::CtaPolicy;
use super::links::Links;
use super::required_order::RequiredOrder;

/// What a user wants to be used, where it serves.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Overrides {
    /// Only algorithms whose name contains this.
    pub algorithm: Option<String>,
    /// Built-in algorithms of these families, unless the user's table names others.
    pub families: Allowed<Family>,
    /// This protocol.
    pub protocol: Option<Protocol>,
    /// One of these protocols, unless `protocol` says which.
    pub protocols: Allowed<Protocol>,
    /// Links that deliver so. If [`Links::Staged`], nothing is set aside for the others.
    pub links: Option<Links>,
    /// Whether multiprocessors are to be left to others.
    pub cta_policy: CtaPolicy,
    /// Most thread blocks that a call may occupy.
    pub blocks_max: Option<u32>,
    /// That many instances.
    pub instances: Option<u32>,
    /// That many threads in a block.
    pub threads: Option<u32>,
    /// At most that many threads in a block, unless `threads` says how many.
    pub threads_max: Option<u32>,
    /// Algorithms that add in this order, or none.
    pub order: RequiredOrder,
}

impl Overrides {
    /// Whether they say how kernels are to run, beyond which algorithm.
    pub(crate) fn say_how_kernels_run(&self) -> bool {
        let Self { protocol, links, instances, threads, .. } = self;
        protocol.is_some() || links.is_some() || instances.is_some() || threads.is_some()
    }
}
