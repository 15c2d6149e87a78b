//! The plan: one rank's words, as they follow from a proof.

use msccl_collective::Rank;
use msccl_verify::Verified;

use crate::encode::{TooLarge, encode};
use crate::launch::{DIRECT_RANKS_MAX, LAUNCH_LINKS_ORDER_MEMORY, LAUNCH_SIGNALS, Launch};
use crate::layout::header;
use crate::lower::Lowering;
use crate::program::{Program, Symbol};

/// One rank's part of a verified algorithm. [`Plan::of`] and [`Plan::all`] are the only ways to
/// one.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Plan {
    program: Program,
    words: Vec<u32>,
}

impl Plan {
    /// The plan of `rank`, which must be a rank of the algorithm.
    ///
    /// # Errors
    ///
    /// A number in the algorithm that its field in the words cannot hold.
    pub fn of(verified: &Verified, rank: Rank) -> Result<Self, TooLarge> {
        Self::lowered(&Lowering::of(verified)?, rank)
    }

    /// The plan of `rank` where other ranks run `peers`, for the other placement of the same call,
    /// over direct links. The rank stores to them, and must offer nothing itself. `None` if the two
    /// do not go together so ([`Verified::direct_links_beside`]).
    ///
    /// # Errors
    ///
    /// As [`Plan::of`].
    pub fn beside(
        verified: &Verified,
        peers: &Verified,
        rank: Rank,
    ) -> Result<Option<Self>, TooLarge> {
        if verified.algorithm().collective.ranks > DIRECT_RANKS_MAX {
            return Ok(None);
        }
        let Some(links) = verified.direct_links_beside(peers) else { return Ok(None) };
        Self::lowered(&Lowering::beside(verified, links)?, rank).map(Some)
    }

    /// The plans of all ranks, in ascending order.
    ///
    /// # Errors
    ///
    /// A number in the algorithm that its field in the words cannot hold.
    pub fn all(verified: &Verified) -> Result<Vec<Self>, TooLarge> {
        let lowering = Lowering::of(verified)?;
        let ranks = verified.algorithm().collective.all_ranks();
        ranks.map(|rank| Self::lowered(&lowering, rank)).collect()
    }

    fn lowered(lowering: &Lowering<'_>, rank: Rank) -> Result<Self, TooLarge> {
        let program = lowering.program(rank);
        let words = encode(&program)?;
        Ok(Self { program, words })
    }

    /// The words, for the kernel.
    pub fn words(&self) -> &[u32] {
        &self.words
    }

    /// What the words say.
    pub fn program(&self) -> &Program {
        &self.program
    }

    /// The symbols, by ordinal: what binding must resolve.
    pub fn symbols(&self) -> impl Iterator<Item = Symbol> {
        self.program.symbols()
    }
}

impl Launch {
    /// With the fields that follow from the plan, flags among them.
    #[must_use]
    pub fn with_plan(mut self, plan: &Plan) -> Self {
        let word = |at: u32| plan.words().get(at as usize).copied().unwrap_or(0);
        self.tb_count = word(header::TB_COUNT);
        self.link_table = word(header::LINK_TABLE);
        self.signal_stride = word(header::SIGNAL_STRIDE);
        self.block_chunks = word(header::BLOCK_CHUNKS);
        self.longest_step = word(header::LONGEST_STEP);
        self.most_messages = word(header::MOST_MESSAGES);
        self.flags |= flags(plan.program());
        let words = plan.words().iter().skip(header::LENGTH);
        self.words.iter_mut().zip(words).for_each(|(to, from)| *to = *from);
        self
    }
}

/// What kernels must do for `program` that others can do without.
fn flags(program: &Program) -> u32 {
    let blocks = &program.thread_blocks;
    let signals = blocks.iter().flat_map(|block| &block.steps).any(|step| step.signals);
    // A thread block alone has nobody to share its memory with.
    let shares = blocks.len() > 1;
    let flag = |set: bool, bit: u32| if set { bit } else { 0 };
    flag(signals, LAUNCH_SIGNALS) | flag(shares, LAUNCH_LINKS_ORDER_MEMORY)
}
