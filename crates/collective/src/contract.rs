//! Written pre- and post-conditions: what custom collectives are given, and what they promise.

use std::collections::BTreeMap;
use std::fmt;

use crate::Rank;

/// The value that one input slot holds at the start; prints as `r3.i[4]`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Contribution {
    /// Whose input.
    pub rank: Rank,
    /// Which chunk of it.
    pub index: u32,
}

impl fmt::Display for Contribution {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.i[{}]", self.rank, self.index)
    }
}

impl fmt::Debug for Contribution {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// What one output slot must hold at the end.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Promise {
    /// Exactly this contribution.
    One(Contribution),
    /// Input chunk `index` of every rank, each exactly once.
    EveryRank {
        /// The input chunk that all ranks contribute.
        index: u32,
    },
    /// Exactly this multiset of contributions, in ascending order.
    Sum(Vec<Contribution>),
}

/// The pre- and post-condition of a custom collective. Where blocks have several chunks, an output
/// slot is promised contributions of its own column only.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Contract {
    /// Input slots that hold a value at the start.
    pub given: std::collections::BTreeSet<Contribution>,
    /// What output slot `(rank, index)` must hold at the end: the multiset of contributions in
    /// ascending order, never empty. Slots that are not named may hold anything.
    pub promised: BTreeMap<(Rank, u32), Vec<Contribution>>,
}
