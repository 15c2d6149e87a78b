//! What can go wrong between ranks, in words for people and in kinds for programs.

use std::{fmt, io};

use msccl_collective::{Rank, RankList};

use crate::abort::{Patience, Stop};
use crate::descriptors;

/// A failure. Its text says what was expected, what was found and where.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Error {
    kind: ErrorKind,
    text: String,
    ranks: Vec<Rank>,
}

/// What a program may distinguish.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ErrorKind {
    /// The caller's [`Abort`](crate::Abort) flag was raised.
    Aborted,
    /// Someone did not come in time; [`Error::ranks`] names who, where that is known.
    TimedOut,
    /// Ranks died or left; [`Error::ranks`] names them.
    RankLost,
    /// Ranks do not agree on what they must agree on.
    Mismatch,
    /// An argument is wrong on this rank alone.
    InvalidArgument,
    /// The network or the peer answers with something else than this protocol.
    Network,
    /// The operating system refuses: descriptors, memory, interfaces.
    System,
}

impl Error {
    pub(crate) fn new(kind: ErrorKind, text: impl Into<String>) -> Self {
        Self { kind, text: text.into(), ranks: Vec::new() }
    }

    pub(crate) fn invalid(text: impl Into<String>) -> Self {
        Self::new(ErrorKind::InvalidArgument, text)
    }

    pub(crate) fn network(text: impl Into<String>) -> Self {
        Self::new(ErrorKind::Network, text)
    }

    pub(crate) fn mismatch(text: impl Into<String>) -> Self {
        Self::new(ErrorKind::Mismatch, text)
    }

    /// `doing` is a phrase such as "cannot listen on 10.0.0.1".
    pub(crate) fn system(doing: impl fmt::Display, error: impl Into<io::Error>) -> Self {
        let error = error.into();
        let text = match descriptors::advice(&error) {
            Some(advice) => format!("{doing}: {error}: {advice}"),
            None => format!("{doing}: {error}"),
        };
        Self::new(ErrorKind::System, text)
    }

    /// That `doing` failed with `error`: of `kind`, with `hint`, unless this process lacks
    /// descriptors.
    pub(crate) fn io(
        kind: ErrorKind,
        doing: impl fmt::Display,
        error: io::Error,
        hint: &str,
    ) -> Self {
        match descriptors::are_used_up(&error) {
            true => Self::system(doing, error),
            false => Self::new(kind, format!("{doing}: {error}; {hint}")),
        }
    }

    /// The wait of `patience` for `what` ended with `stop`.
    pub(crate) fn stopped(stop: Stop, patience: &Patience, what: impl fmt::Display) -> Self {
        match stop {
            Stop::Aborted => {
                let reason = patience.abort().reason().unwrap_or("no reason given");
                Self::new(ErrorKind::Aborted, format!("{what}: aborted ({reason})"))
            }
            Stop::TimedOut => {
                let text = format!("{what}: not within {}", patience.limit());
                Self::new(ErrorKind::TimedOut, text)
            }
        }
    }

    /// The same, with what to do about it.
    pub(crate) fn hint(mut self, hint: impl fmt::Display) -> Self {
        self.text = format!("{}; {hint}", self.text);
        self
    }

    pub(crate) fn of_ranks(mut self, ranks: impl IntoIterator<Item = Rank>) -> Self {
        self.ranks = ranks.into_iter().collect();
        self.ranks.sort_unstable();
        self
    }

    /// What a program may distinguish.
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }

    /// The ranks at fault, as far as known, in ascending order.
    pub fn ranks(&self) -> &[Rank] {
        &self.ranks
    }

    pub(crate) fn text(&self) -> &str {
        &self.text
    }
}

/// `expected` ranks in all, of which those in `missing` did not do `verb` (such as "has not
/// connected") within the time of `patience`.
pub(crate) fn absent(missing: &[Rank], expected: u32, verb: &str, within: &str) -> Error {
    let all: Vec<_> = (0..expected).map(Rank).collect();
    absent_of(missing, &all, expected, verb, within)
}

/// The same where of the `ranks` ranks only those in `awaited` were to do it.
pub(crate) fn absent_of(
    missing: &[Rank],
    awaited: &[Rank],
    ranks: u32,
    verb: &str,
    within: &str,
) -> Error {
    let came: Vec<_> = awaited.iter().copied().filter(|rank| !missing.contains(rank)).collect();
    let came = match came.is_empty() {
        true => "no rank has".to_owned(),
        false => format!("ranks that have: {}", RankList::new(came).numbers()),
    };
    let (noun, verb) = match missing {
        [_] => ("rank", format!("has {verb}")),
        _ => ("ranks", format!("have {verb}")),
    };
    let missing_list = RankList::new(missing.iter().copied());
    let numbers = missing_list.numbers();
    let text = format!("{noun} {numbers} of {ranks} {verb} within {within}; {came}");
    Error::new(ErrorKind::TimedOut, text).of_ranks(missing.iter().copied())
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl std::error::Error for Error {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn absence_names_both_sides() {
        let check = |missing: &[u32], expected: &str| {
            let missing: Vec<_> = missing.iter().copied().map(Rank).collect();
            let error = absent(&missing, 8, "not connected", "30 s");
            assert_eq!(error.to_string(), expected);
            assert_eq!(error.ranks(), missing);
        };
        check(&[3], "rank 3 of 8 has not connected within 30 s; ranks that have: 0-2, 4-7");
        check(
            &[3, 5, 6, 7],
            "ranks 3, 5-7 of 8 have not connected within 30 s; ranks that have: 0-2, 4",
        );
    }
}
