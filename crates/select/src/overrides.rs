//! What a user wants to be used instead of what would be chosen.

use msccl_collective::{CollectiveKind, Protocol};

use super::allowed::{Allowed, Family};
use super::cta_policy::CtaPolicy;
use super::links::Links;
use super::required_order::RequiredOrder;

/// Of smaller reductions kernels make less of a delay than copies and flags.
pub(crate) const REDUCED_BYTES: u64 = 8 << 20;

/// So few thread blocks move less than copy engines do: on two H200s 16 of them 117 GB/s of an
/// all-gather and 268 of an all-reduce, and copy engines 385 and 300 and more
/// (`docs/decisions/015-copy-engines-into-windows.md`).
const FEW_BLOCKS: u32 = 16;
/// Of smaller calls their flags take more time than the thread blocks, few as they are.
const FEW_COPIED_BYTES: u64 = 16 << 20;
const FEW_REDUCED_BYTES: u64 = 64 << 20;
/// A root has one copy engine's bandwidth for all ranks; thread blocks hand on what they have.
const FEW_BROADCAST_RANKS: u32 = 3;

/// Thread blocks that combine where multiprocessors are to be left alone, and where they are not.
const COMBINING_BLOCKS_ZERO: u32 = 8;
const COMBINING_BLOCKS: u32 = 16;

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
    /// From how many bytes on copy engines carry what they can of a collective of `kind`, by how
    /// many thread blocks calls may have; nothing, if tables decide.
    pub(crate) fn carried_from_bytes(&self, kind: CollectiveKind, ranks: u32) -> Option<u64> {
        let is_reduced = kind.reduces();
        if self.cta_policy == CtaPolicy::Zero {
            return Some(if is_reduced { REDUCED_BYTES } else { 0 });
        }
        let is_sent_to_many =
            matches!(kind, CollectiveKind::Broadcast(_)) && ranks > FEW_BROADCAST_RANKS;
        let from = if is_reduced { FEW_REDUCED_BYTES } else { FEW_COPIED_BYTES };
        (self.leave_few_blocks() && !is_sent_to_many).then_some(from)
    }

    /// How many thread blocks combine what copy engines have brought.
    pub(crate) fn combining_blocks(&self) -> u32 {
        let usual = match self.cta_policy {
            CtaPolicy::Default => COMBINING_BLOCKS,
            CtaPolicy::Zero => COMBINING_BLOCKS_ZERO,
        };
        usual.min(self.blocks_max.unwrap_or(usual)).max(1)
    }

    /// Whether some call may be carried by copy engines, whatever tables say.
    pub(crate) fn ask_for_copy_engines(&self) -> bool {
        self.cta_policy == CtaPolicy::Zero || self.leave_few_blocks()
    }

    /// Whether calls may have so few thread blocks that copy engines move more.
    fn leave_few_blocks(&self) -> bool {
        self.blocks_max.is_some_and(|most| most <= FEW_BLOCKS)
    }

    /// Whether they say how kernels are to run, beyond which algorithm.
    pub(crate) fn say_how_kernels_run(&self) -> bool {
        let Self { protocol, links, instances, threads, .. } = self;
        protocol.is_some() || links.is_some() || instances.is_some() || threads.is_some()
    }
}
