//! Why the variables of a launcher cannot be used.

use std::fmt;

use super::{Launcher, Number};

/// What is wrong with the variables of a launcher.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum LaunchError {
    /// One variable is set and another, which belongs to it, is not.
    Missing {
        /// Whose variables they are.
        by: Launcher,
        /// The one that is set.
        set: &'static str,
        /// The one that is not.
        missing: &'static str,
    },
    /// Not a number.
    NotANumber {
        /// The variable.
        name: &'static str,
        /// What it is set to.
        text: String,
    },
    /// A rank that is not below the number of ranks.
    OutOfRange {
        /// The rank.
        place: Number,
        /// How many there are.
        count: Number,
    },
    /// Two variables that cannot both be right.
    Contradiction {
        /// The one.
        one: Number,
        /// The other.
        other: Number,
    },
    /// Nothing says where rank 0 is.
    NoMaster {
        /// Who started the ranks.
        by: Launcher,
    },
    /// A list of hosts without a first one.
    NoHost {
        /// The variable.
        name: &'static str,
        /// What it is set to.
        text: String,
    },
    /// A port that there is not.
    NoPort {
        /// The variable and its value.
        found: Number,
    },
}

impl fmt::Display for LaunchError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing { by, set, missing } => write!(
                f,
                "{set} is set, and {missing}, which belongs to it ({by}), is not; set both, or none"
            ),
            Self::NotANumber { name, text } => {
                write!(f, "{name} is `{text}`, expected a number from 0 on")
            }
            Self::OutOfRange { place, count } => write!(
                f,
                "{}={} does not exist where {}={}; ranks are numbered from 0 on",
                place.name, place.value, count.name, count.value
            ),
            Self::Contradiction { one, other } => write!(
                f,
                "{}={} contradicts {}={}; unset the one that is wrong",
                one.name, one.value, other.name, other.value
            ),
            Self::NoMaster { by } => write!(
                f,
                "nothing says where rank 0 is, and not all ranks are known to be on one host \
                 ({by}); set MSCCL_MASTER_ADDR to rank 0's host on all ranks"
            ),
            Self::NoHost { name, text } => {
                write!(f, "{name} is `{text}`, expected hosts such as `node[01-16]`")
            }
            Self::NoPort { found } => {
                write!(f, "{}={}, expected a port from 1 to 65535", found.name, found.value)
            }
        }
    }
}

impl std::error::Error for LaunchError {}
