//! The plan: one rank's words, as they follow from a proof.

use std::collections::BTreeSet;

use msccl_collective::{Collective, Kind, Rank};
use msccl_verify::Verified;

use crate::encode::{TooLarge, encode};
use crate::lower::lower;
use crate::program::{Program, Symbol};

/// One rank's part of a verified algorithm. [`Plan::of`] is the only way to one.
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
        let algorithm = verified.algorithm();
        let completion = verified.facts().completion.as_ref();
        let average_of = completion.and_then(|_| sum_size(&algorithm.collective));
        let completes = |at| completion.is_some_and(|steps| steps.contains(at));
        let program = lower(algorithm, verified.target(), completes, average_of, rank)?;
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

/// How many contributions every sum that `collective` promises has; `None` if they differ.
fn sum_size(collective: &Collective) -> Option<u32> {
    let Kind::Custom(custom) = &collective.kind else {
        return Some(collective.ranks);
    };
    let sums = custom.contract.iter().flat_map(|contract| contract.promised.values());
    let sizes: BTreeSet<_> = sums.map(Vec::len).filter(|&size| size > 1).collect();
    match sizes.len() {
        0 => Some(1),
        1 => sizes.first().and_then(|&size| u32::try_from(size).ok()),
        _ => None,
    }
}
