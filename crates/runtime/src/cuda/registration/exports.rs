//! The allocations that callers have passed: those that are exported, and those that cannot be.

use std::os::fd::OwnedFd;

use rustc_hash::{FxHashMap, FxHashSet};

use super::export::Export;
use super::export_table::EXPORTS_MAX;
use super::open_windows::OpenWindows;

/// Buffers that cannot be exported are remembered, so many of them.
const REFUSED_MAX: usize = 1024;

/// What a rank knows of its caller's allocations.
#[derive(Default)]
pub(super) struct KnownAllocations {
    /// By the driver's ids.
    pub exported: FxHashMap<u64, Export>,
    /// Ids of those that cannot be exported.
    pub refused: Refused,
    /// Segments of virtual memory that the thread has not published to peers yet.
    pub outgoing: Vec<OutgoingSegment>,
    /// Memory that lives for sure.
    pub windows: OpenWindows,
}

impl KnownAllocations {
    /// An entry that is not in use.
    pub fn free_entry(&self) -> Option<u32> {
        let used: FxHashSet<u32> = self.exported.values().map(|entry| entry.number).collect();
        (0..EXPORTS_MAX).find(|number| !used.contains(number))
    }

    pub fn is_full(&self) -> bool {
        self.exported.len() >= EXPORTS_MAX as usize
    }
}

/// The last of what cannot be exported, so that the driver is not queried again and again.
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

/// A segment on its way into the export table: who is to map it must have its descriptor before it
/// reads of it.
pub(super) struct OutgoingSegment {
    /// The driver's id of the segment where it is mapped.
    pub id: u64,
    pub entry: Export,
    /// For whoever maps it, if anybody does.
    pub descriptor: Option<OwnedFd>,
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::super::export::MemoryClass;
    use super::*;

    fn entry(number: u32) -> Export {
        let (generation, kind, since) = (1, MemoryClass::Plain, Instant::now());
        Export { number, generation, base: 4096, length_bytes: 1024, kind, since }
    }

    #[test]
    fn entries_are_free_until_they_are_used() {
        let mut exports = KnownAllocations::default();
        for number in 0..EXPORTS_MAX {
            assert!(!exports.is_full());
            assert_eq!(exports.free_entry(), Some(number));
            exports.exported.insert(u64::from(number) + 100, entry(number));
        }
        assert!(exports.is_full() && exports.free_entry().is_none());
        exports.exported.remove(&107);
        assert_eq!(exports.free_entry(), Some(7));
    }

    #[test]
    fn only_so_many_refusals_are_remembered() {
        let mut refused = Refused::default();
        (0..REFUSED_MAX as u64).for_each(|key| refused.insert(key));
        assert!(refused.contains(0) && !refused.contains(REFUSED_MAX as u64));
        refused.insert(REFUSED_MAX as u64);
        assert!(refused.contains(REFUSED_MAX as u64) && !refused.contains(0));
    }
}
