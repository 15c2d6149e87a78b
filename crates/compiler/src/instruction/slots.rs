//! Dense numbers for the memory slots of all ranks.

use std::ops::Range;

use msccl_collective::{Buffer, Collective, Rank, Slot};

/// Maps every memory slot of every rank to a number below [`SlotTable::len`].
#[derive(Clone, Debug)]
pub struct SlotTable {
    /// First number of each rank's three buffers.
    bases: Vec<[u32; 3]>,
    len: u32,
}

impl SlotTable {
    /// Numbers for the buffers that `collective` gives every rank and for its scratch.
    pub fn new(collective: &Collective, scratch_chunks: &[u32]) -> Self {
        let mut len = 0;
        let bases = collective
            .all_ranks()
            .zip(scratch_chunks)
            .map(|(rank, &scratch)| {
                Buffer::ALL.map(|buffer| {
                    let base = len;
                    len += collective.buffer_chunks(rank, buffer);
                    len += if buffer == Buffer::Scratch { scratch } else { 0 };
                    base
                })
            })
            .collect();
        Self { bases, len }
    }

    /// How many slots there are.
    pub fn len(&self) -> usize {
        self.len as usize
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The numbers of all slots of `rank`.
    pub fn numbers(&self, rank: Rank) -> Range<usize> {
        let start = self.bases[rank.index()][0] as usize;
        let next = self.bases.get(rank.index() + 1);
        start..next.map_or(self.len(), |bases| bases[0] as usize)
    }

    /// The number of `slot` of `rank`.
    #[inline]
    pub fn number(&self, rank: Rank, slot: Slot) -> usize {
        (self.bases[rank.index()][slot.buffer as usize] + slot.index) as usize
    }
}
