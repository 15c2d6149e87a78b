//! Ranks that have left their group or died.

use std::fmt;

use msccl_collective::Rank;

/// A rank that has left its group or died.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Departure {
    /// The rank.
    pub rank: Rank,
    /// Whether it left in order, or how it was lost.
    pub reason: DepartureReason,
}

/// How a rank departed. As text it follows the rank's name: `has left the group`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum DepartureReason {
    /// In order: it dropped the group, or sent a farewell.
    Left,
    /// Its process, its host or the network to it died. The text says what is known, such as
    /// `has died: its connection ended`.
    Lost(String),
}

impl DepartureReason {
    /// As it is sent to other ranks.
    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        match self {
            Self::Left => Vec::new(),
            Self::Lost(description) => [b"!", description.as_bytes()].concat(),
        }
    }

    /// The reason that [`DepartureReason::to_bytes`] wrote.
    pub(crate) fn read(bytes: &[u8]) -> Self {
        match bytes.split_first() {
            None => Self::Left,
            Some((_, description)) => Self::Lost(String::from_utf8_lossy(description).into_owned()),
        }
    }
}

impl fmt::Display for DepartureReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Left => f.write_str("has left the group"),
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
        // A description is not mistaken for an end in order, whatever its words.
        for reason in
            [DepartureReason::Left, lost("is lost: gone"), lost("has left the group"), lost("")]
        {
            assert_eq!(DepartureReason::read(&reason.to_bytes()), reason);
        }
    }
}
