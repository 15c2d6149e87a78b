//! Why a communicator fails, and whether that must be reported.
//!
//! A failure is reported once: of all ranks of a communicator by one ([`super::requests`]), and of
//! a death, which may fail many communicators of a process, by one of these. Whose own device or
//! system failed learns it from the call, and its peers report that it gave up.

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};

use crate::error::{Error, ErrorKind};
use crate::shared_state::RankState;

/// A failure and what is behind it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct CommunicatorFailure {
    pub error: Error,
    pub cause: Cause,
}

/// What is behind a failure.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Cause {
    /// A process that died.
    Death {
        /// Which one, on all hosts.
        process: String,
    },
    /// Ranks call different things.
    CallMismatch,
    /// A call that stood still on this rank or on another one, which has been reported.
    Timeout,
    /// Anything else.
    Other,
}

impl Cause {
    /// Behind the failure of a rank whose peer gave up in `state`.
    pub fn of_peer(state: RankState) -> Self {
        match state {
            RankState::TimedOut => Cause::Timeout,
            RankState::Running
            | RankState::Aborted
            | RankState::Failed
            | RankState::Mismatched
            | RankState::Closed => Cause::Other,
        }
    }
}

impl CommunicatorFailure {
    /// Ranks call different things, as `text` says.
    pub fn mismatch(text: String) -> Self {
        Self { error: Error::invalid_usage(text), cause: Cause::CallMismatch }
    }

    /// An error of which no more is known.
    pub fn other(error: Error) -> Self {
        Self { error, cause: Cause::Other }
    }

    /// Whether this process has to report it. A second answer for the same death is no.
    pub fn must_be_reported(&self) -> bool {
        match &self.cause {
            Cause::Death { process } => is_first_report(process),
            Cause::CallMismatch => true,
            Cause::Timeout => false,
            Cause::Other => self.error.kind() == ErrorKind::Remote,
        }
    }
}

/// Whether the death of `process` is new to this process.
fn is_first_report(process: &str) -> bool {
    static DEAD: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());
    DEAD.lock().unwrap_or_else(PoisonError::into_inner).insert(process.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_death_is_reported_once() {
        let death = |process: &str| CommunicatorFailure {
            error: Error::new(ErrorKind::Remote, "r1 is dead"),
            cause: Cause::Death { process: process.to_owned() },
        };
        assert!(death("pid 1 on moon").must_be_reported());
        assert!(!death("pid 1 on moon").must_be_reported());
        assert!(death("pid 2 on moon").must_be_reported());
    }
}
