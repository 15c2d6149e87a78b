//! Why recordings are no timeline.

use std::fmt;

/// Why recordings cannot be joined.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum JoinError {
    /// There is none.
    Nothing,
    /// Two are of different communicators.
    Communicators {
        /// The communicator of the first.
        first: String,
        /// The other.
        other: String,
    },
    /// Two are of one rank.
    Twice {
        /// The rank.
        rank: u32,
    },
}

impl fmt::Display for JoinError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Nothing => f.write_str("expected recordings, found none"),
            Self::Communicators { first, other } => write!(
                f,
                "expected recordings of one communicator, found {first} and {other}; name those \
                 of one"
            ),
            Self::Twice { rank } => write!(
                f,
                "expected one recording of a rank, found two of rank {rank}; name those of one run"
            ),
        }
    }
}

impl std::error::Error for JoinError {}
