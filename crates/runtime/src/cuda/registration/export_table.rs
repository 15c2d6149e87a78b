//! A rank's export table: which of its allocations peers may map, and at which addresses they have.
//!
//! It lies in host memory that this rank and its peers map. An entry has a *generation*, odd while
//! the allocation is live; it only grows. The owner writes the rest of an entry while its
//! generation is even. Peers answer with the generation that they speak of, so an answer that comes
//! late is no answer. Every word is atomic, and no word that a peer could write makes anybody fail.

use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicU64, Ordering, fence};

use msccl_collective::Rank;
use msccl_fabric::SharedMemory;
use msccl_gpu::IpcHandle;

use crate::error::Error;

/// Allocations that a rank can export at once.
pub(super) const EXPORTS_MAX: u32 = 256;

const GENERATION: u32 = 0;
const BASE: u32 = 1;
const LENGTH: u32 = 2;
const KIND: u32 = 3;
const HANDLE: u32 = 4;
const HANDLE_WORDS: u32 = 8;
const ANSWERS: u32 = HANDLE + HANDLE_WORDS;
/// An answer: its generation, and the address.
const ANSWER_WORDS: u32 = 2;

/// What an answer says instead of an address: the peer cannot map it.
const CANNOT: u64 = 1;

/// Kinds of handles.
const PLAIN: u64 = 0;
const SEGMENT: u64 = 1;

/// An allocation as its owner describes it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Allocation {
    /// Where it begins, in the owner's process.
    pub base: u64,
    pub length_bytes: u64,
    pub handle: Handle,
}

/// By what peers map an allocation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Handle {
    /// A plain allocation, with what other processes open; zeros if there are none.
    Plain(IpcHandle),
    /// A segment of virtual memory. Ranks of the owner's process on its GPU use it where it lies,
    /// others are sent a descriptor.
    Segment,
}

/// The export table of one rank.
pub(super) struct ExportTable {
    memory: SharedMemory,
    ranks: u32,
}

impl ExportTable {
    /// An empty one.
    pub fn create(ranks: u32) -> Result<Self, Error> {
        Ok(Self { memory: SharedMemory::create(bytes(ranks))?, ranks })
    }

    /// A peer's, behind a descriptor that it has sent.
    pub fn open(descriptor: OwnedFd, ranks: u32) -> Result<Self, Error> {
        Ok(Self { memory: SharedMemory::open(descriptor, bytes(ranks))?, ranks })
    }

    /// What to pass on, of whoever has made it.
    pub fn descriptor(&self) -> Result<BorrowedFd<'_>, Error> {
        Ok(self.memory.descriptor()?)
    }

    /// Owner: fills `entry`, which is not live. The generation it has now.
    pub fn publish(&self, entry: u32, allocation: &Allocation) -> u64 {
        let Allocation { base, length_bytes, handle } = allocation;
        self.store(entry, BASE, *base, Ordering::Relaxed);
        self.store(entry, LENGTH, *length_bytes, Ordering::Relaxed);
        match handle {
            Handle::Plain(IpcHandle(bytes)) => {
                self.store(entry, KIND, PLAIN, Ordering::Relaxed);
                for (at, word) in (HANDLE..).zip(bytes.as_chunks().0) {
                    self.store(entry, at, u64::from_ne_bytes(*word), Ordering::Relaxed);
                }
            }
            Handle::Segment => self.store(entry, KIND, SEGMENT, Ordering::Relaxed),
        }
        let generation = self.next_generation(entry);
        self.store(entry, GENERATION, generation, Ordering::Release);
        generation
    }

    /// Owner: the generation that `entry`, which is not live, is going to have.
    pub fn next_generation(&self, entry: u32) -> u64 {
        self.load(entry, GENERATION, Ordering::Relaxed) | 1
    }

    /// Owner: `entry` is live no more.
    pub fn retire(&self, entry: u32) {
        let generation = self.load(entry, GENERATION, Ordering::Relaxed);
        self.store(entry, GENERATION, (generation | 1) + 1, Ordering::Release);
        // What is written next must not be seen before that.
        fence(Ordering::SeqCst);
    }

    /// Owner: where `peer` has mapped the allocation of that generation. `None` if it has not
    /// answered; 0 if it cannot.
    pub fn answer(&self, entry: u32, peer: Rank, generation: u64) -> Option<u64> {
        let at = ANSWERS + ANSWER_WORDS * peer.0;
        if self.load(entry, at, Ordering::Acquire) != generation {
            return None;
        }
        let address = self.load(entry, at + 1, Ordering::Relaxed);
        Some(if address == CANNOT { 0 } else { address })
    }

    /// Peer: the generation of `entry`, odd while it is live.
    pub fn generation(&self, entry: u32) -> u64 {
        self.load(entry, GENERATION, Ordering::Relaxed)
    }

    /// Peer: what is live in `entry`, with its generation.
    pub fn read(&self, entry: u32) -> Option<(u64, Allocation)> {
        let generation = self.load(entry, GENERATION, Ordering::Acquire);
        if generation.is_multiple_of(2) {
            return None;
        }
        let mut bytes = [0; 64];
        for (at, word) in (HANDLE..).zip(bytes.as_chunks_mut().0) {
            *word = self.load(entry, at, Ordering::Relaxed).to_ne_bytes();
        }
        let handle = match self.load(entry, KIND, Ordering::Relaxed) {
            SEGMENT => Handle::Segment,
            _ => Handle::Plain(IpcHandle(bytes)),
        };
        let allocation = Allocation {
            base: self.load(entry, BASE, Ordering::Relaxed),
            length_bytes: self.load(entry, LENGTH, Ordering::Relaxed),
            handle,
        };
        // All of one generation, or nothing.
        fence(Ordering::Acquire);
        let same = self.load(entry, GENERATION, Ordering::Relaxed) == generation;
        same.then_some((generation, allocation))
    }

    /// Peer `me`: where it has mapped what is in `entry`, if it can.
    pub fn set_answer(&self, entry: u32, me: Rank, generation: u64, address: Option<u64>) {
        let at = ANSWERS + ANSWER_WORDS * me.0;
        self.store(entry, at + 1, address.unwrap_or(CANNOT), Ordering::Relaxed);
        self.store(entry, at, generation, Ordering::Release);
    }

    fn load(&self, entry: u32, at: u32, order: Ordering) -> u64 {
        self.word(entry, at).map_or(0, |word| word.load(order))
    }

    fn store(&self, entry: u32, at: u32, value: u64, order: Ordering) {
        if let Some(word) = self.word(entry, at) {
            word.store(value, order);
        }
    }

    /// Word `at` of an entry; there is none beyond the last.
    fn word(&self, entry: u32, at: u32) -> Option<&AtomicU64> {
        self.memory.word(8 * (entry * entry_words(self.ranks) + at) as usize)
    }
}

fn entry_words(ranks: u32) -> u32 {
    ANSWERS + ANSWER_WORDS * ranks
}

fn bytes(ranks: u32) -> usize {
    8 * (EXPORTS_MAX * entry_words(ranks)) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    fn allocation(base: u64) -> Allocation {
        let handle = match base.is_multiple_of(2) {
            true => Handle::Segment,
            false => Handle::Plain(IpcHandle([base as u8; 64])),
        };
        Allocation { base, length_bytes: 4096, handle }
    }

    #[test]
    fn an_answer_counts_for_its_generation_only() {
        let export_table = ExportTable::create(4).unwrap();
        assert_eq!(export_table.read(5), None);
        let first = export_table.publish(5, &allocation(7));
        assert_eq!(export_table.read(5), Some((first, allocation(7))));
        assert_eq!(export_table.answer(5, Rank(2), first), None);
        export_table.set_answer(5, Rank(2), first, Some(0x1000));
        export_table.set_answer(5, Rank(3), first, None);
        assert_eq!(export_table.answer(5, Rank(2), first), Some(0x1000));
        assert_eq!(export_table.answer(5, Rank(3), first), Some(0));

        export_table.retire(5);
        assert_eq!(export_table.read(5), None);
        let second = export_table.publish(5, &allocation(9));
        assert!(second > first);
        assert_eq!(export_table.read(5), Some((second, allocation(9))));
        assert_eq!(export_table.answer(5, Rank(2), second), None);
        // It comes late, from somebody who has not noticed.
        export_table.set_answer(5, Rank(2), first, Some(0x2000));
        assert_eq!(export_table.answer(5, Rank(2), second), None);
    }

    #[test]
    fn entries_lie_apart() {
        let export_table = ExportTable::create(16).unwrap();
        let generations: Vec<_> = (0..EXPORTS_MAX)
            .map(|at| export_table.publish(at, &allocation(u64::from(at))))
            .collect();
        for (entry, generation) in (0..).zip(&generations) {
            for peer in (0..16).map(Rank) {
                export_table.set_answer(
                    entry,
                    peer,
                    *generation,
                    Some(u64::from(entry * 16 + peer.0) + 16),
                );
            }
        }
        for (entry, generation) in (0..).zip(generations) {
            assert_eq!(export_table.read(entry), Some((generation, allocation(u64::from(entry)))));
            for peer in (0..16).map(Rank) {
                let address = u64::from(entry * 16 + peer.0) + 16;
                assert_eq!(export_table.answer(entry, peer, generation), Some(address));
            }
        }
    }
}
