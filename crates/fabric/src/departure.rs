//! Ranks that are not there any more, and how that came about.

use std::fmt;

use msccl_collective::Rank;

/// A rank that is not there any more.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Departure {
    /// Which.
    pub rank: Rank,
    /// In order, or not.
    pub reason: DepartureReason,
}

/// How a rank departed. As text it follows the rank's name: `has left the group`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum DepartureReason {
    /// In order: it dropped the group, or said goodbye.
    Left,
    /// Its process died, or its host did; how that showed, such as `its connection ended`.
    Died(String),
    /// It cannot be reached, or makes no sense; what is known of that, such as
    /// `is lost: connection timed out`.
    Lost(String),
}

impl DepartureReason {
    /// For other ranks.
    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        match self {
            Self::Left => Vec::new(),
            Self::Died(how) => [b"+", how.as_bytes()].concat(),
            Self::Lost(description) => [b"!", description.as_bytes()].concat(),
        }
    }

    /// What [`DepartureReason::to_bytes`] wrote.
    pub(crate) fn read(bytes: &[u8]) -> Self {
        let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
        match bytes.split_first() {
            None => Self::Left,
            Some((b'+', how)) => Self::Died(text(how)),
            Some((_, description)) => Self::Lost(text(description)),
        }
    }
}

impl fmt::Display for DepartureReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Left => f.write_str("has left the group"),
            Self::Died(how) => write!(f, "has died: {how}"),
            Self::Lost(description) => f.write_str(description),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_ranks_read_what_was_written() {
        let lost = |description: &str| DepartureReason::Lost(description.to_owned());
        let died = |how: &str| DepartureReason::Died(how.to_owned());
        // A description is not mistaken for an end in order, whatever its words.
        for reason in [
            DepartureReason::Left,
            lost("is lost: gone"),
            lost("has left the group"),
            lost("+"),
            lost(""),
            died("its connection ended"),
            died(""),
        ] {
            assert_eq!(DepartureReason::read(&reason.to_bytes()), reason);
        }
    }
}
