//! Why a communicator fails, and whether that must be reported.
//!
//! A failure is reported once: of all ranks of a communicator by one ([`super::requests`]), and of
//! a death, which may fail many communicators of a process, by one of these. Whose own device or
//! system failed learns it from the call, and its peers report that it gave up.

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};

use crate::error::{Error, ErrorKind};
use crate::shared_state::{RankState, Reason};

/// A failure and what is behind it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct CommunicatorFailure {
    pub error: Error,
    pub cause: Cause,
    /// The call of which `error` says that it cannot finish, if it says so of one.
    pub unfinished: Option<String>,
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
    /// One that speaks of no call that cannot finish.
    pub fn new(error: Error, cause: Cause) -> Self {
        Self { error, cause, unfinished: None }
    }

    /// Ranks call different things, as `text` says.
    pub fn mismatch(text: String) -> Self {
        Self::new(Error::invalid_usage(text), Cause::CallMismatch)
    }

    /// An error of which no more is known.
    pub fn other(error: Error) -> Self {
        Self::new(error, Cause::Other)
    }

    /// What other ranks read of it.
    pub fn reason(&self) -> Reason {
        Reason { unfinished: self.unfinished.clone(), words: self.error.to_string() }
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
        let death = |process: &str| {
            let error = Error::new(ErrorKind::Remote, "r1 is dead");
            CommunicatorFailure::new(error, Cause::Death { process: process.to_owned() })
        };
        assert!(death("pid 1 on moon").must_be_reported());
        assert!(!death("pid 1 on moon").must_be_reported());
        assert!(death("pid 2 on moon").must_be_reported());
    }
}
