//! That an algorithm does not serve a call.

use std::fmt;

/// Why an algorithm does not serve, in a phrase.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Unserved(pub String);

impl fmt::Display for Unserved {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
