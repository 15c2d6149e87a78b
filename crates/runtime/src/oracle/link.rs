//! A link in memory: a ring of slots with one sender and one receiver. An unsafe boundary: it
//! makes memory that threads share.

#![expect(unsafe_code, reason = "makes memory that threads share")]

use std::sync::atomic::{AtomicU64, Ordering};

use super::memory::SharedBuffer;

/// A bounded first-in first-out path for messages. One thread at a time acts as sender and one as
/// receiver; the sender alone calls the methods of [`Link::has_room`]'s group, the receiver alone
/// those of [`Link::has_message`]'s.
pub(crate) struct Link {
    slots: SharedBuffer,
    slot_bytes: usize,
    depth: u64,
    /// Messages published so far; written by the sender.
    sent: AtomicU64,
    /// Messages released so far; written by the receiver.
    taken: AtomicU64,
}

impl Link {
    /// A link of `depth` messages of up to `slot_bytes` bytes; `None` if that exceeds the address
    /// space.
    pub(crate) fn new(depth: u32, slot_bytes: usize) -> Option<Self> {
        let length = slot_bytes.checked_mul(depth as usize)?;
        isize::try_from(length).ok()?;
        // SAFETY: the sender writes a slot only when the receiver has released it (`has_room`
        // acquires `taken`), and the receiver reads it only when the sender has published it
        // (`has_message` acquires `sent`).
        let slots = unsafe { SharedBuffer::new(length) };
        let (sent, taken) = (AtomicU64::new(0), AtomicU64::new(0));
        Some(Self { slots, slot_bytes, depth: u64::from(depth.max(1)), sent, taken })
    }

    /// Sender: whether there is room for a message.
    pub(crate) fn has_room(&self) -> bool {
        self.sent.load(Ordering::Relaxed) - self.taken.load(Ordering::Acquire) < self.depth
    }

    /// Sender: writes `bytes` at `offset` of the next message, for which there must be room.
    pub(crate) fn write(&self, offset: usize, bytes: &[u8]) {
        debug_assert!(offset + bytes.len() <= self.slot_bytes && self.has_room());
        self.slots.write(self.slot(self.sent.load(Ordering::Relaxed)) + offset, bytes);
    }

    /// Sender: hands the message over.
    pub(crate) fn publish(&self) {
        self.sent.store(self.sent.load(Ordering::Relaxed) + 1, Ordering::Release);
    }

    /// Receiver: whether there is a message.
    pub(crate) fn has_message(&self) -> bool {
        self.sent.load(Ordering::Acquire) > self.taken.load(Ordering::Relaxed)
    }

    /// Receiver: copies from `offset` of the message at hand, which must exist, to all of `into`.
    pub(crate) fn read(&self, offset: usize, into: &mut [u8]) {
        debug_assert!(offset + into.len() <= self.slot_bytes && self.has_message());
        let start = self.slot(self.taken.load(Ordering::Relaxed)) + offset;
        self.slots.read(start..start + into.len(), into);
    }

    /// Receiver: gives the slot of the message at hand back.
    pub(crate) fn release(&self) {
        self.taken.store(self.taken.load(Ordering::Relaxed) + 1, Ordering::Release);
    }

    /// Messages published so far.
    pub(crate) fn sent(&self) -> u64 {
        self.sent.load(Ordering::Relaxed)
    }

    /// Messages released so far.
    pub(crate) fn taken(&self) -> u64 {
        self.taken.load(Ordering::Relaxed)
    }

    /// Where the slot of message number `message` starts.
    fn slot(&self, message: u64) -> usize {
        (message % self.depth) as usize * self.slot_bytes
    }
}
