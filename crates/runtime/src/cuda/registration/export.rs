//! An allocation that a rank exports, and buffers in it.

use std::time::Instant;

use super::ExportedBuffers;

/// What an allocation is, as peers map it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum MemoryClass {
    /// Of `cuMemAlloc`: peers of other processes map it by a handle, those of this one not at all.
    Plain,
    /// Virtual memory: every peer on another GPU has a mapping of its own.
    Segment,
}

/// An allocation in this rank's export table.
#[derive(Clone, Copy)]
pub(super) struct Export {
    pub number: u32,
    pub generation: u64,
    pub base: u64,
    pub length_bytes: u64,
    pub kind: MemoryClass,
    /// When it was published to peers.
    pub since: Instant,
}

impl Export {
    /// How far into the allocation `exported` begins, if it lies inside.
    pub fn offset(&self, exported: ExportedBuffers) -> Option<u64> {
        let offset = exported.address.checked_sub(self.base)?;
        let end = offset.checked_add(exported.length_bytes)?;
        (end <= self.length_bytes).then_some(offset)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_buffer_lies_wholly_in_its_allocation() {
        let (number, generation, since) = (0, 1, Instant::now());
        let kind = MemoryClass::Plain;
        let entry = Export { number, generation, base: 4096, length_bytes: 1024, kind, since };
        let offset =
            |address, length_bytes| entry.offset(ExportedBuffers { address, length_bytes });
        assert_eq!(offset(4096, 1024), Some(0));
        assert_eq!(offset(4100, 1020), Some(4));
        assert_eq!(offset(4100, 1021), None);
        assert_eq!(offset(4095, 1), None);
        assert_eq!(offset(5120, 0), Some(1024));
        assert_eq!(offset(4100, u64::MAX), None);
    }
}
