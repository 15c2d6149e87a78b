//! Numbers for links, the same at both ends.

use std::collections::HashMap;

use super::{LinkId, LinkName};

/// Which end of a link.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(super) enum Side {
    Send,
    Receive,
}

/// The links of a communicator.
#[derive(Debug, Default)]
pub(super) struct LinkTable {
    pub names: Vec<LinkName>,
    numbers: HashMap<LinkName, LinkId>,
}

impl LinkTable {
    /// The number of a link.
    pub fn number(&mut self, name: LinkName) -> LinkId {
        if let Some(&known) = self.numbers.get(&name) {
            return known;
        }
        let number = LinkId(self.names.len() as u32);
        self.names.push(name.clone());
        self.numbers.insert(name, number);
        number
    }
}
