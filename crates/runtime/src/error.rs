//! What can go wrong in a communicator, in words for people and in kinds for programs.

use std::fmt;

use msccl_fabric as fabric;
use msccl_gpu as gpu;
use msccl_proxy as proxy;
use msccl_select as select;

/// A failure. Its text says what was expected, what was found, where, and what to do.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Error {
    kind: ErrorKind,
    text: String,
}

/// What a program may have to distinguish.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ErrorKind {
    /// An argument is wrong.
    InvalidArgument,
    /// The call is legal, but not now or not here.
    InvalidUsage,
    /// The GPU, its driver, or its memory.
    Cuda,
    /// The operating system, or the network.
    System,
    /// Another rank died, left, aborted or disagrees.
    Remote,
    /// The caller aborted.
    Aborted,
    /// A rank did not get on within the time set.
    TimedOut,
    /// A fault of this library.
    Internal,
}

impl Error {
    /// An error of `kind`.
    pub fn new(kind: ErrorKind, text: impl Into<String>) -> Self {
        Self { kind, text: text.into() }
    }

    pub(crate) fn invalid_argument(text: impl Into<String>) -> Self {
        Self::new(ErrorKind::InvalidArgument, text)
    }

    pub(crate) fn invalid_usage(text: impl Into<String>) -> Self {
        Self::new(ErrorKind::InvalidUsage, text)
    }

    pub(crate) fn internal(text: impl Into<String>) -> Self {
        Self::new(ErrorKind::Internal, text)
    }

    /// What a program may have to distinguish.
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }

    /// The same error, seen while `doing` something, such as "binding allreduce/ring".
    #[must_use]
    pub(crate) fn while_doing(self, doing: impl fmt::Display) -> Self {
        Self { kind: self.kind, text: format!("{doing}: {}", self.text) }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl std::error::Error for Error {}

impl From<fabric::Error> for Error {
    fn from(error: fabric::Error) -> Self {
        Self::new(error.kind().into(), error.to_string())
    }
}

impl From<proxy::Error> for Error {
    fn from(error: proxy::Error) -> Self {
        Self::new(error.kind().into(), error.to_string())
    }
}

impl From<fabric::ErrorKind> for ErrorKind {
    fn from(kind: fabric::ErrorKind) -> Self {
        match kind {
            fabric::ErrorKind::Aborted => ErrorKind::Aborted,
            fabric::ErrorKind::TimedOut => ErrorKind::TimedOut,
            fabric::ErrorKind::RankLost => ErrorKind::Remote,
            fabric::ErrorKind::Mismatch => ErrorKind::InvalidUsage,
            fabric::ErrorKind::InvalidArgument => ErrorKind::InvalidArgument,
            fabric::ErrorKind::Network | fabric::ErrorKind::System => ErrorKind::System,
        }
    }
}

impl From<select::Error> for Error {
    fn from(error: select::Error) -> Self {
        Self::new(ErrorKind::InvalidUsage, error.to_string())
    }
}

impl From<gpu::Error> for Error {
    fn from(error: gpu::Error) -> Self {
        Self::new(ErrorKind::Cuda, error.to_string())
    }
}
