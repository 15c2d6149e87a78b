//! How much of a GPU its user leaves to collectives.

use std::fmt;

use msccl_collective::CollectiveKind;

use super::overrides::Overrides;

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

/// How many thread blocks calls may have: NCCL's `CTAPolicy`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum CtaPolicy {
    /// As many as tables say.
    #[default]
    Default,
    /// None, where copy engines can carry the links.
    Zero,
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
        let has_few = self.blocks_max.is_some_and(|most| most <= FEW_BLOCKS);
        let from = if is_reduced { FEW_REDUCED_BYTES } else { FEW_COPIED_BYTES };
        (has_few && !is_sent_to_many).then_some(from)
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
        self.cta_policy == CtaPolicy::Zero || self.blocks_max.is_some_and(|most| most <= FEW_BLOCKS)
    }
}

impl fmt::Display for CtaPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            CtaPolicy::Default => "default",
            CtaPolicy::Zero => "zero",
        })
    }
}
