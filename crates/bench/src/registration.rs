//! How buffers are registered before any call uses them, as nccl-tests' `-R` has it.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// How buffers are registered. Registered buffers are memory that the library allocates
/// (`ncclMemAlloc`).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Registration {
    /// Nothing: they are plain memory.
    #[default]
    None,
    /// Each rank registers its own (`ncclCommRegister`).
    Local,
    /// All ranks register theirs together, as symmetric windows (`ncclCommWindowRegister`).
    Symmetric,
}

impl Registration {
    /// All, in the order of nccl-tests' numbers.
    pub const ALL: [Self; 3] = [Self::None, Self::Local, Self::Symmetric];

    /// The buffers, in words.
    pub fn describe(self) -> &'static str {
        match self {
            Self::None => "plain buffers",
            Self::Local => "registered buffers",
            Self::Symmetric => "symmetric windows",
        }
    }
}

impl fmt::Display for Registration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.describe())
    }
}

impl FromStr for Registration {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let number: Option<usize> = text.parse().ok();
        let found = number.and_then(|number| Self::ALL.get(number).copied());
        found.ok_or_else(|| {
            format!("expected 0 (plain), 1 (registered) or 2 (symmetric windows), found `{text}`")
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_those_of_nccl_tests() {
        let parsed = ["0", "1", "2"].map(|text| text.parse());
        assert_eq!(parsed, Registration::ALL.map(Ok));
        assert!("3".parse::<Registration>().is_err() && "".parse::<Registration>().is_err());
    }
}
