//! What might serve calls, by what is known of it before anybody proves it.

use msccl_registry::Entry;

/// An algorithm that might serve a call. One that is built in is compiled and proved when more than its name is asked for
/// ([`Selector::proved`](super::Selector::proved)).
#[derive(Clone, Copy)]
pub(super) enum AtHand<'a> {
    /// It was loaded.
    Loaded(&'a Entry),
    /// The built-in one of this name.
    BuiltIn(&'static str),
}

impl AtHand<'_> {
    /// What messages call it.
    pub fn name(&self) -> &str {
        match self {
            AtHand::Loaded(entry) => &entry.name,
            AtHand::BuiltIn(name) => name,
        }
    }

    /// Whether it was loaded.
    pub fn is_loaded(&self) -> bool {
        match self {
            AtHand::Loaded(_) => true,
            AtHand::BuiltIn(_) => false,
        }
    }
}

impl<'a> From<&'a Entry> for AtHand<'a> {
    /// A loaded algorithm.
    fn from(entry: &'a Entry) -> Self {
        AtHand::Loaded(entry)
    }
}
