//! That nothing serves a call, or not what must.

use std::fmt;

/// That nothing serves a call, or that what must serve it cannot. Its text names the call and, for
/// every algorithm that was tried, why it does not serve.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Error {
    text: String,
}

impl Error {
    pub(crate) fn new(text: String) -> Self {
        Self { text }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl std::error::Error for Error {}
