//! What each collective promises: chunk counts, initial values, final values and aliasing.
//!
//! Chunk numbering follows MSCCL. With `N` ranks and `K` chunks in a block:
//!
//! | collective | input chunks | output chunks | output chunk `c` of rank `r` holds |
//! |---|---|---|---|
//! | all-reduce | K | K | Σ over q of (q, c) |
//! | all-gather | K | N·K | (c / K, c % K) |
//! | reduce-scatter | N·K | K | Σ over q of (q, r·K + c) |
//! | all-to-all | N·K | N·K | (c / K, r·K + c % K) |
//! | broadcast | K at the root | K | (root, c) |
//! | reduce | K | K at the root | Σ over q of (q, c) |
//! | gather | K | N·K at the root | (c / K, c % K) |
//! | scatter | N·K at the root | K | (root, r·K + c) |
//! | custom | as declared | as declared | as its contract says |
//!
//! Chunk `c` of a buffer is the chunk in column `c % K` of block `c / K`. A count that K does not
//! divide makes the chunks of later columns shorter, so contributions keep their column.

use std::fmt;

use crate::kind::{CollectiveKind, Kind};
use crate::{Buffer, Contribution, Promise, Rank, Slot};

/// A collective of `ranks` ranks over blocks of `chunks` chunks.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Collective {
    /// What is computed.
    pub kind: Kind,
    /// How many ranks take part; at least one.
    pub ranks: u32,
    /// Chunks in a block: what one rank contributes to one destination. For [`Kind::Custom`] a
    /// block is a chunk of the definition, which instances cut in so many.
    pub chunks: u32,
}

impl Collective {
    /// The name used in the language and in messages: `allreduce`, `alltoall`, …
    pub fn name(&self) -> &str {
        match &self.kind {
            Kind::Custom(custom) => &custom.name,
            standard => CollectiveKind::of(standard).map_or("custom", CollectiveKind::name),
        }
    }

    /// The root, for the collectives that have one.
    pub fn root(&self) -> Option<Rank> {
        CollectiveKind::of(&self.kind).and_then(CollectiveKind::root)
    }

    /// Whether contributions of several ranks are combined.
    pub fn reduces(&self) -> bool {
        match &self.kind {
            Kind::Custom(custom) => custom
                .contract
                .as_ref()
                .is_none_or(|contract| contract.promised.values().any(|sum| sum.len() > 1)),
            standard => CollectiveKind::of(standard).is_some_and(CollectiveKind::reduces),
        }
    }

    /// All ranks, in ascending order.
    pub fn all_ranks(&self) -> impl ExactSizeIterator<Item = Rank> + use<> {
        (0..self.ranks).map(Rank)
    }

    /// Chunks in `buffer` of `rank` that the caller provides; zero for [`Buffer::Scratch`].
    pub fn buffer_chunks(&self, rank: Rank, buffer: Buffer) -> u32 {
        match buffer {
            Buffer::Input => self.input_chunks(rank),
            Buffer::Output => self.output_chunks(rank),
            Buffer::Scratch => 0,
        }
    }

    /// Chunks in the input of `rank`.
    pub fn input_chunks(&self, rank: Rank) -> u32 {
        let one = self.chunks;
        let all = self.ranks.saturating_mul(self.chunks);
        match &self.kind {
            Kind::AllReduce | Kind::AllGather | Kind::Reduce { .. } | Kind::Gather { .. } => one,
            Kind::ReduceScatter | Kind::AllToAll => all,
            Kind::Broadcast { root } => at_root(*root, rank, one),
            Kind::Scatter { root } => at_root(*root, rank, all),
            Kind::Custom(custom) => custom.input_chunks,
        }
    }

    /// Chunks in the output of `rank`.
    pub fn output_chunks(&self, rank: Rank) -> u32 {
        let one = self.chunks;
        let all = self.ranks.saturating_mul(self.chunks);
        match &self.kind {
            Kind::AllReduce
            | Kind::ReduceScatter
            | Kind::Broadcast { .. }
            | Kind::Scatter { .. } => one,
            Kind::AllGather | Kind::AllToAll => all,
            Kind::Reduce { root } => at_root(*root, rank, one),
            Kind::Gather { root } => at_root(*root, rank, all),
            Kind::Custom(custom) => custom.output_chunks,
        }
    }

    /// Chunks in the largest buffer of any rank: MSCCL's `nchunksperloop`, the divisor of a call's
    /// size.
    pub fn loop_chunks(&self) -> u32 {
        match &self.kind {
            Kind::AllReduce | Kind::Broadcast { .. } | Kind::Reduce { .. } => self.chunks,
            Kind::AllGather
            | Kind::ReduceScatter
            | Kind::AllToAll
            | Kind::Gather { .. }
            | Kind::Scatter { .. } => self.ranks.saturating_mul(self.chunks),
            Kind::Custom(custom) => custom.input_chunks.max(custom.output_chunks),
        }
    }

    /// The value that input slot `index` of `rank` holds at the start, if it is given one.
    pub fn given(&self, rank: Rank, index: u32) -> Option<Contribution> {
        let contribution = Contribution { rank, index };
        let contract = match &self.kind {
            Kind::Custom(custom) => custom.contract.as_ref(),
            _ => None,
        };
        let given = contract.map_or(index < self.input_chunks(rank), |contract| {
            contract.given.contains(&contribution)
        });
        given.then_some(contribution)
    }

    /// What output slot `index` of `rank` must hold at the end; `None` where anything will do.
    pub fn promised(&self, rank: Rank, index: u32) -> Option<Promise> {
        if index >= self.output_chunks(rank) {
            return None;
        }
        let block = self.chunks;
        let one = |rank, index| Some(Promise::One(Contribution { rank, index }));
        match &self.kind {
            Kind::AllReduce | Kind::Reduce { .. } => Some(Promise::EveryRank { index }),
            Kind::ReduceScatter => Some(Promise::EveryRank { index: rank.0 * block + index }),
            Kind::AllGather | Kind::Gather { .. } => one(Rank(index / block), index % block),
            Kind::AllToAll => one(Rank(index / block), rank.0 * block + index % block),
            Kind::Broadcast { root } => one(*root, index),
            Kind::Scatter { root } => one(*root, rank.0 * block + index),
            Kind::Custom(custom) => {
                let sum = custom.contract.as_ref()?.promised.get(&(rank, index))?;
                Some(match sum.as_slice() {
                    [only] => Promise::One(*only),
                    _ => Promise::Sum(sum.clone()),
                })
            }
        }
    }

    /// The slot that stands for `slot` of `rank` when input and output share memory: two slots of a
    /// rank are the same memory in an in-place call exactly if this maps them to the same slot.
    ///
    /// | collective | in place means |
    /// |---|---|
    /// | all-reduce, all-to-all, broadcast, reduce, custom | input `c` is output `c` |
    /// | all-gather; gather at the root | input `c` is output `r·K + c` |
    /// | reduce-scatter; scatter at the root | output `c` is input `r·K + c` |
    pub fn in_place(&self, rank: Rank, slot: Slot) -> Slot {
        let block = rank.0 * self.chunks;
        match (&self.kind, slot.buffer) {
            (_, Buffer::Scratch) => slot,
            (Kind::AllGather, Buffer::Input) => Slot::new(Buffer::Output, block + slot.index),
            (Kind::Gather { root }, Buffer::Input) if *root == rank => {
                Slot::new(Buffer::Output, block + slot.index)
            }
            (Kind::ReduceScatter, Buffer::Output) => Slot::new(Buffer::Input, block + slot.index),
            (Kind::Scatter { root }, Buffer::Output) if *root == rank => {
                Slot::new(Buffer::Input, block + slot.index)
            }
            (
                Kind::AllGather | Kind::ReduceScatter | Kind::Gather { .. } | Kind::Scatter { .. },
                _,
            ) => slot,
            (
                Kind::AllReduce
                | Kind::AllToAll
                | Kind::Broadcast { .. }
                | Kind::Reduce { .. }
                | Kind::Custom(_),
                _,
            ) => Slot::new(Buffer::Output, slot.index),
        }
    }
}

fn at_root(root: Rank, rank: Rank, chunks: u32) -> u32 {
    if root == rank { chunks } else { 0 }
}

impl fmt::Display for Collective {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Collective { kind, ranks, chunks } = self;
        write!(f, "{} over {ranks} ranks", self.name())?;
        if let Some(root) = self.root() {
            write!(f, ", root {root}")?;
        }
        if let Kind::Custom(custom) = kind {
            write!(f, ", {} → {} chunks", custom.input_chunks, custom.output_chunks)?;
            if *chunks == 1 {
                return Ok(());
            }
        }
        write!(f, ", {chunks} chunk{} a block", if *chunks == 1 { "" } else { "s" })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn collective(kind: Kind) -> Collective {
        Collective { kind, ranks: 4, chunks: 2 }
    }

    #[test]
    fn all_gather_places_blocks_by_rank() {
        let gather = collective(Kind::AllGather);
        assert_eq!(gather.output_chunks(Rank(1)), 8);
        let expected = Promise::One(Contribution { rank: Rank(2), index: 1 });
        assert_eq!(gather.promised(Rank(0), 5), Some(expected));
        let own = gather.in_place(Rank(2), Slot::new(Buffer::Input, 1));
        assert_eq!(own, Slot::new(Buffer::Output, 5));
    }

    #[test]
    fn reduce_promises_nothing_off_the_root() {
        let reduce = collective(Kind::Reduce { root: Rank(3) });
        assert_eq!(reduce.promised(Rank(0), 0), None);
        assert_eq!(reduce.promised(Rank(3), 1), Some(Promise::EveryRank { index: 1 }));
    }

    #[test]
    fn in_place_pairs_have_the_same_length() {
        let kinds = [Kind::AllReduce, Kind::AllGather, Kind::ReduceScatter, Kind::AllToAll];
        for kind in kinds {
            let collective = collective(kind);
            for rank in collective.all_ranks() {
                for index in 0..collective.output_chunks(rank) {
                    let slot = collective.in_place(rank, Slot::new(Buffer::Output, index));
                    assert!(slot.index < collective.buffer_chunks(rank, slot.buffer));
                }
            }
        }
    }
}
