//! Names: which words are none, and numbers that a text leaves to be counted: `gpu * 4` after
//! `gpu0` is `gpu1` to `gpu4`.

use std::collections::HashMap;

use super::super::pattern::split_number;
use super::super::{Medium, VertexKind};

/// Whether the word has a meaning of its own, so that it is no name.
pub(super) fn is_keyword(word: &str) -> bool {
    let kinds = VertexKind::ALL.iter().any(|kind| kind.name() == word);
    let media = Medium::ALL.iter().any(|medium| medium.name() == word);
    kinds || media || ["cluster", "node", "pairwise"].contains(&word)
}

/// The numbers that names end in, so far.
#[derive(Default)]
pub(super) struct Numbering {
    next: HashMap<String, u32>,
}

impl Numbering {
    /// The number of the next name that is `base` and a number.
    pub fn next(&self, base: &str) -> u32 {
        self.next.get(base).copied().unwrap_or(0)
    }

    /// Takes notice of a name.
    pub fn add(&mut self, name: &str) {
        if let Some((base, number)) = split_number(name) {
            let next = self.next.entry(base.to_owned()).or_default();
            *next = (*next).max(number.saturating_add(1));
        }
    }
}
