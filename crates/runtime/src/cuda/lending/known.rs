//! The allocations that callers have passed: those that are lent, and those that cannot be.

use std::time::Instant;

use rustc_hash::{FxHashMap, FxHashSet};

use super::Lent;
use super::ledger::ENTRIES;
use super::pieces::{LentPiece, Outgoing};

/// Buffers that cannot be lent are remembered, so many of them.
const REFUSED_MAX: usize = 1024;

/// What a rank knows of its caller's allocations.
#[derive(Default)]
pub(super) struct Known {
    /// By the driver's ids.
    pub lent: FxHashMap<u64, Entry>,
    /// Ids of those that cannot be lent.
    pub refused: Refused,
    /// Pieces of virtual memory, by their numbers.
    pub pieces: FxHashMap<u64, LentPiece>,
    /// Those that cannot be lent. Nobody holds them: the number may be another's one day, which then is not lent.
    pub refused_pieces: Refused,
    /// Pieces that peers are yet to be told of, by the thread.
    pub outgoing: Vec<Outgoing>,
}

impl Known {
    /// An entry that is not in use.
    pub fn free_entry(&self) -> Option<u32> {
        let pieces = self.pieces.values().map(|lent| lent.entry.number);
        let used = self.lent.values().map(|entry| entry.number).chain(pieces);
        let used: FxHashSet<u32> = used.collect();
        (0..ENTRIES).find(|number| !used.contains(number))
    }

    pub fn is_full(&self) -> bool {
        self.lent.len() + self.pieces.len() >= ENTRIES as usize
    }
}

/// The last of what cannot be lent, so that it is not asked about again and again.
#[derive(Default)]
pub(super) struct Refused(FxHashSet<u64>);

impl Refused {
    pub fn contains(&self, key: u64) -> bool {
        self.0.contains(&key)
    }

    /// Takes note of `key`, forgetting all others where there are too many.
    pub fn insert(&mut self, key: u64) {
        if self.0.len() >= REFUSED_MAX {
            self.0.clear();
        }
        self.0.insert(key);
    }
}

/// An allocation in this rank's ledger.
#[derive(Clone, Copy)]
pub(super) struct Entry {
    pub number: u32,
    pub generation: u64,
    pub base: u64,
    pub length_bytes: u64,
    /// When peers were told of it.
    pub since: Instant,
}

impl Entry {
    /// How far into the allocation `lent` begins, if it lies inside.
    pub fn offset(&self, lent: Lent) -> Option<u64> {
        let offset = lent.address.checked_sub(self.base)?;
        let end = offset.checked_add(lent.length_bytes)?;
        (end <= self.length_bytes).then_some(offset)
    }
}
