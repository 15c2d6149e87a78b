//! The plan: one rank's words, as they follow from a proof.

use msccl_collective::Rank;
use msccl_verify::Verified;

use crate::encode::{TooLarge, encode};
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
