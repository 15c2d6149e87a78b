//! What ranks call differently, in words.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use msccl_collective::{Rank, RankList};

/// What to do about a difference.
const ADVICE: &str = "make the same call on all ranks";

/// Sides of a difference that are spelled out.
const SIDES: usize = 6;

/// What ranks call differently.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum CallMismatch {
    /// A collective.
    Collectives {
        /// What each rank calls.
        difference: Difference,
        /// Whether it is known to be the first that differs.
        is_first: bool,
    },
    /// Some collective that is known no longer.
    Forgotten {
        /// Two ranks that differ.
        ranks: [Rank; 2],
        /// The collective by which they do.
        number: u64,
    },
    /// A message.
    Message {
        /// The sender.
        from: Rank,
        /// The receiver.
        to: Rank,
        /// Its place among the messages from the one to the other.
        index: u64,
        /// What each says of it, such as `4 f32`, if that is still known.
        said: Option<[String; 2]>,
    },
}

/// What ranks say of one collective, when they do not say the same.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Difference {
    /// Which collective.
    pub number: u64,
    /// In the order of their lowest ranks.
    pub sides: Vec<Side>,
}

/// Ranks that say the same.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Side {
    /// Who.
    pub ranks: BTreeSet<Rank>,
    /// What.
    pub says: String,
}

impl Side {
    fn list(&self) -> RankList {
        RankList::new(self.ranks.iter().copied())
    }
}

impl Difference {
    /// What ranks have `said` of collective `number`, if it is not the same.
    pub fn among(number: u64, said: impl IntoIterator<Item = (Rank, String)>) -> Option<Self> {
        let mut sides: BTreeMap<String, BTreeSet<Rank>> = BTreeMap::new();
        for (rank, says) in said {
            sides.entry(says).or_default().insert(rank);
        }
        let mut sides: Vec<_> =
            sides.into_iter().map(|(says, ranks)| Side { ranks, says }).collect();
        sides.sort_by_key(|side| side.ranks.first().copied());
        (sides.len() > 1).then_some(Self { number, sides })
    }

    /// With what to do about it.
    pub fn advised(&self) -> String {
        format!("{self}; {ADVICE}")
    }
}

impl CallMismatch {
    /// With what to do about it.
    pub fn advised(&self) -> String {
        match self {
            CallMismatch::Collectives { .. } | CallMismatch::Forgotten { .. } => {
                format!("{self}; {ADVICE}")
            }
            CallMismatch::Message { .. } => {
                format!("{self}; give a send and its receive one count and one type")
            }
        }
    }
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { number, sides } = self;
        match sides.as_slice() {
            [one, other] => write!(f, "{} and {}", one.list(), other.list())?,
            _ => f.write_str("ranks")?,
        }
        write!(f, " call different things: call {number} is ")?;
        for (position, side) in sides.iter().take(SIDES).enumerate() {
            let comma = if position == 0 { "" } else { ", " };
            write!(f, "{comma}{} on {}", side.says, side.list())?;
        }
        match sides.len().saturating_sub(SIDES) {
            0 => Ok(()),
            more => write!(f, ", and {more} more"),
        }
    }
}

impl fmt::Display for CallMismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CallMismatch::Collectives { difference, is_first: true } => write!(f, "{difference}"),
            CallMismatch::Collectives { difference, is_first: false } => {
                write!(
                    f,
                    "{difference} (calls before it may differ, too; they are known no longer)"
                )
            }
            CallMismatch::Forgotten { ranks: [one, other], number } => write!(
                f,
                "{one} and {other} call different things: their calls up to call {number} differ; \
                 which one does is known no longer"
            ),
            CallMismatch::Message { from, to, index, said: Some([sent, received]) } => write!(
                f,
                "{from} and {to} call different things: message {index} from {from} to {to} is \
                 sent as {sent} and received as {received}"
            ),
            CallMismatch::Message { from, to, index, said: None } => write!(
                f,
                "{from} and {to} call different things: messages from {from} to {to} up to \
                 message {index} differ; which one does is known no longer"
            ),
        }
    }
}
