//! Results.

use std::ffi::CStr;

/// A `ncclResult_t`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(i32)]
pub enum Code {
    /// All is well.
    Success = 0,
    /// The GPU, its driver, or its memory.
    UnhandledCudaError = 1,
    /// The operating system, or the network.
    SystemError = 2,
    /// A fault of this library.
    InternalError = 3,
    /// An argument is wrong.
    InvalidArgument = 4,
    /// The call is legal, but not now or not here.
    InvalidUsage = 5,
    /// Another rank died, left, aborted or disagrees.
    RemoteError = 6,
    /// Not an error: the operation goes on in the background.
    InProgress = 7,
}

/// What a call that did not fail has reached.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Outcome {
    /// It is done.
    Done,
    /// It goes on in the background.
    InProgress,
}

impl From<Outcome> for Code {
    fn from(outcome: Outcome) -> Self {
        match outcome {
            Outcome::Done => Code::Success,
            Outcome::InProgress => Code::InProgress,
        }
    }
}

impl From<()> for Outcome {
    fn from((): ()) -> Self {
        Outcome::Done
    }
}

/// The text of `ncclGetErrorString` for any number that a caller may have.
pub fn text(code: i32) -> &'static CStr {
    match code {
        0 => c"no error",
        1 => c"unhandled cuda error (run with NCCL_DEBUG=INFO for details)",
        2 => c"unhandled system error (run with NCCL_DEBUG=INFO for details)",
        3 => c"internal error - please report this issue to the NCCL developers",
        4 => c"invalid argument (run with NCCL_DEBUG=WARN for details)",
        5 => c"invalid usage (run with NCCL_DEBUG=WARN for details)",
        6 => c"remote process exited or there was a network error",
        7 => c"NCCL operation in progress",
        8 => c"timeout",
        _ => c"unknown result code",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_has_a_text_of_its_own() {
        let texts: std::collections::BTreeSet<_> = (-1..9).map(text).collect();
        assert_eq!(texts.len(), 10);
        assert_eq!(text(9), text(-1));
        assert_eq!(text(Code::InProgress as i32), c"NCCL operation in progress");
    }
}
