//! Exit codes: the one thing that every caller of the command may rely on.

use std::process::ExitCode;

/// How a command ended.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Exit {
    /// Proved, correct, written, or in order: 0.
    Success,
    /// Refused, wrong, or not in order: 1.
    Refused,
    /// Bad usage or unreadable input: 2. Nothing could be said about the subject.
    Unusable,
    /// A bug of ours: 101, as for any panic of a Rust program.
    Bug,
}

impl Exit {
    /// The number.
    pub fn code(self) -> u8 {
        match self {
            Exit::Success => 0,
            Exit::Refused => 1,
            Exit::Unusable => 2,
            Exit::Bug => 101,
        }
    }

    /// The exit of a command that did two things: the worse of both.
    pub fn and(self, other: Exit) -> Exit {
        self.max(other)
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> ExitCode {
        ExitCode::from(exit.code())
    }
}
