//! Orders of additions that have names.

use std::fmt;
use std::str::FromStr;

use crate::data_type::by_name;

/// An order in which the contributions of all ranks are added.
///
/// ```
/// use msccl_collective::NamedOrder;
///
/// assert_eq!("flat".parse(), Ok(NamedOrder::Flat));
/// assert_eq!(NamedOrder::Tree.to_string(), "tree");
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum NamedOrder {
    /// One rank after the other, from the lowest to the highest, rounded once.
    Flat,
    /// A balanced binary tree; every sum of two is rounded.
    Tree,
}

impl NamedOrder {
    /// All of them.
    pub const ALL: [NamedOrder; 2] = [NamedOrder::Flat, NamedOrder::Tree];

    /// The name used in the language.
    pub fn name(self) -> &'static str {
        match self {
            NamedOrder::Flat => "flat",
            NamedOrder::Tree => "tree",
        }
    }
}

impl fmt::Display for NamedOrder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for NamedOrder {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        by_name(&Self::ALL, Self::name, "order", text)
    }
}
