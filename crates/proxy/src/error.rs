//! What can go wrong between hosts, in words for people and in kinds for programs.

use std::fmt;

use msccl_collective::Rank;
use msccl_fabric::ErrorKind;

/// Why a call of this crate failed. Its text says what was expected, what was found and where.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Error {
    kind: ErrorKind,
    text: String,
    ranks: Vec<Rank>,
}

impl Error {
    pub(crate) fn new(kind: ErrorKind, text: impl Into<String>) -> Self {
        Self { kind, text: text.into(), ranks: Vec::new() }
    }

    pub(crate) fn invalid(text: impl Into<String>) -> Self {
        Self::new(ErrorKind::InvalidArgument, text)
    }

    /// `doing` is a phrase such as "cannot listen on 10.0.0.1".
    pub(crate) fn system(doing: impl fmt::Display, error: impl fmt::Display) -> Self {
        Self::new(ErrorKind::System, format!("{doing}: {error}"))
    }

    /// What a program may want to distinguish.
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }

    /// The ranks at fault, as far as known.
    pub fn ranks(&self) -> &[Rank] {
        &self.ranks
    }
}

impl From<msccl_fabric::Error> for Error {
    fn from(error: msccl_fabric::Error) -> Self {
        Self { kind: error.kind(), text: error.to_string(), ranks: error.ranks().to_vec() }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl std::error::Error for Error {}

/// Why nothing goes to or comes from a peer any more. Links to other peers go on.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Failure {
    /// The peer.
    pub peer: Rank,
    /// The name of its host.
    pub host: String,
    /// What a program may want to distinguish: [`ErrorKind::Mismatch`] if the ends do not fit
    /// together, [`ErrorKind::RankLost`] if the peer has departed, [`ErrorKind::TimedOut`] if the
    /// links did not stand in time, [`ErrorKind::System`] if it is this rank's own fault,
    /// [`ErrorKind::Network`] for all else.
    pub kind: ErrorKind,
    /// The rail that broke last, or what was being done while there was none.
    pub rail: String,
    /// What happened to it, in the network's own words.
    pub why: String,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { peer, host, kind: _, rail, why } = self;
        write!(f, "the links to r{} on host {host} have failed: {rail}: {why}", peer.0)
    }
}

impl std::error::Error for Failure {}
