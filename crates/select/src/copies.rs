//! What one rank has to do with an algorithm whose exchange copy engines can make.

use msccl_collective::{Kind, Placement, Rank};
use msccl_plan::launch::DIRECT_RANKS_MAX;
use msccl_verify::{BlockCopies, BlockCopy, OrderShape, Verified};

use super::cta_policy::CtaPolicy;

/// Threads of a block that combines what copy engines have brought.
pub const COMBINING_THREADS: u32 = 512;

/// What a rank does by copy engines.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum EngineWork {
    /// Nothing but copies of blocks.
    Copies(RankCopies),
    /// Every rank combines one part of the result, of what all copy to it.
    Reduction {
        /// Who has the parts in the end.
        combined: Combined,
        /// How many thread blocks combine.
        blocks: u32,
    },
}

/// Who has the parts of a result in the end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Combined {
    /// Each rank its own: a reduce-scatter.
    Own,
    /// All ranks all of them: an all-reduce.
    All,
}

/// How blocks are copied that stay on their rank.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LocalWay {
    /// Within the GPU: at its own speed, by multiprocessors.
    WithinGpu,
    /// By way of memory of a peer: by copy engines, while others have all multiprocessors.
    ByPeer,
}

impl LocalWay {
    /// In a collective of `kind`, under `policy`. A block that may be where it belongs from the
    /// start, as in an all-gather in place, is worth no detour.
    fn of(kind: &Kind, policy: CtaPolicy) -> Self {
        match (policy, kind) {
            (CtaPolicy::Zero, Kind::AllToAll) => Self::ByPeer,
            _ => Self::WithinGpu,
        }
    }
}

impl EngineWork {
    /// That of `rank` under `policy`, if there is any for `verified`, and the ranks are so few that
    /// each can map the memory of all; `blocks` thread blocks combine. Of a reduction nothing
    /// counts but its order of additions: one sum of all ranks, rounded once, is the same whoever
    /// brings the contributions.
    pub(crate) fn of(
        verified: &Verified,
        rank: Rank,
        policy: CtaPolicy,
        blocks: u32,
    ) -> Option<Self> {
        let combined = match &verified.algorithm().collective.kind {
            Kind::AllReduce => Combined::All,
            Kind::ReduceScatter => Combined::Own,
            Kind::AllGather
            | Kind::AllToAll
            | Kind::Broadcast { .. }
            | Kind::Reduce { .. }
            | Kind::Gather { .. }
            | Kind::Scatter { .. }
            | Kind::Custom(_) => return RankCopies::of(verified, rank, policy).map(Self::Copies),
        };
        if verified.algorithm().collective.ranks > DIRECT_RANKS_MAX {
            return None;
        }
        let order = verified.facts().addition_orders.one()?.shape();
        let is_flat = matches!(order, OrderShape::Flat | OrderShape::FlatAndTree);
        is_flat.then_some(Self::Reduction { combined, blocks })
    }
}

/// The copies of an algorithm that concern one rank, as `Verified::block_copies` has them. All are
/// independent of one another.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RankCopies {
    /// From its input to its own output.
    pub local: Vec<BlockCopy>,
    /// How those are made.
    pub local_way: LocalWay,
    /// From its input to the output of others, by receiver: its right-hand neighbour comes first,
    /// so that no rank is everybody's first receiver.
    pub sends: Vec<BlockCopy>,
    /// From the input of others to its output, by sender, as they come.
    pub receives: Vec<BlockCopy>,
    /// The placements of calls in which they are independent.
    pub placement: Placement,
}

impl RankCopies {
    /// Those of `rank`, if `verified` is nothing else and the ranks are so few that each can map
    /// the memory of all.
    fn of(verified: &Verified, rank: Rank, policy: CtaPolicy) -> Option<Self> {
        if verified.algorithm().collective.ranks > DIRECT_RANKS_MAX {
            return None;
        }
        let (mut local, mut sends, mut receives) = (Vec::new(), Vec::new(), Vec::new());
        let BlockCopies { copies, placement } = verified.block_copies()?;
        for copy in copies {
            match (copy.from == rank, copy.to == rank) {
                (true, true) => local.push(copy),
                (true, false) => sends.push(copy),
                (false, true) => receives.push(copy),
                (false, false) => {}
            }
        }
        let ranks = verified.algorithm().collective.ranks;
        sends.sort_by_key(|copy| hops(rank, copy.to, ranks));
        receives.sort_by_key(|copy| hops(copy.from, rank, ranks));
        let local_way = LocalWay::of(&verified.algorithm().collective.kind, policy);
        Some(Self { local, local_way, sends, receives, placement })
    }

    /// Blocks of its output.
    pub fn output_blocks(&self) -> u64 {
        let all = self.local.iter().chain(&self.receives);
        all.map(|copy| u64::from(copy.output) + 1).max().unwrap_or(0)
    }

    /// The ranks to which it sends, one after another.
    pub fn receivers(&self) -> Vec<Rank> {
        distinct(self.sends.iter().map(|copy| copy.to))
    }

    /// The ranks that send to it, one after another.
    pub fn senders(&self) -> Vec<Rank> {
        distinct(self.receives.iter().map(|copy| copy.from))
    }
}

/// How far `to` is to the right of `from`, of so many ranks in a circle.
fn hops(from: Rank, to: Rank, ranks: u32) -> u32 {
    (to.0 + ranks - from.0) % ranks
}

/// `ranks`, each once, of which equal ones stand side by side.
fn distinct(ranks: impl Iterator<Item = Rank>) -> Vec<Rank> {
    let mut ranks: Vec<_> = ranks.collect();
    ranks.dedup();
    ranks
}
