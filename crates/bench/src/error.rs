//! What went wrong, in words: nobody here needs to distinguish failures.

use std::fmt;
use std::io;

/// A failure. Its text says what was expected, what was found, where, and what to do.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Error(String);

impl Error {
    /// A failure in these words.
    pub(crate) fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// The same failure, seen while `doing` something.
    #[must_use]
    pub(crate) fn while_doing(self, doing: impl fmt::Display) -> Self {
        Self(format!("{doing}: {}", self.0))
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Error {}

/// Failures of what is used here, in their own words.
macro_rules! in_its_words {
    ($($error:ty),*) => {$(
        impl From<$error> for Error {
            fn from(error: $error) -> Self {
                Self(error.to_string())
            }
        }
    )*};
}

in_its_words!(io::Error, serde_json::Error, msccl_fabric::Error, msccl_gpu::Error);
in_its_words!(msccl_gpu::Unavailable, rustix::io::Errno);
