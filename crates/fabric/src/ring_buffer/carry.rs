//! What whoever carries messages between ring buffers of different memories needs: places
//! instead of slices.
//!
//! A carrier holds the receiving end of one ring buffer and reads several messages ahead, or the
//! sending end and fills several slots ahead. Places are offsets into [`RingBuffers::memory`]; the
//! bytes there belong to the carrier from when the counters grant them until it releases or commits
//! them. Messages are counted from 1 over the ring buffer's life.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::{Doorbell, Receiver, RingBuffers, Sender};
use crate::shared::SharedMemory;

impl RingBuffers {
    /// The memory in which all slots lie. Only slots that an end grants may be touched.
    pub fn memory(&self) -> &SharedMemory {
        &self.bank.memory
    }
}

impl Receiver {
    /// Every later release signals `doorbell` as well.
    pub fn attach(&mut self, doorbell: Arc<Doorbell>) {
        self.doorbell = Some(doorbell);
    }

    /// Messages committed over the ring buffer's life.
    pub fn committed(&self) -> u64 {
        self.end.ends().sent.load(Ordering::Acquire)
    }

    /// Where message `number` begins and its length in bytes; `None` unless it was committed and
    /// not released.
    pub fn locate(&self, number: u64) -> Option<(usize, usize)> {
        let granted = number > self.taken && number <= self.committed();
        let Receiver { end, .. } = self;
        granted.then(|| {
            let length = end.place.length(&end.bank.memory, number - 1);
            let bytes = (length.load(Ordering::Relaxed) as usize).min(self.shape().slot_bytes);
            (end.place.slot(number - 1), bytes)
        })
    }

    /// Gives back the slots of all messages up to `number`; later numbers than the last committed
    /// one count as that one.
    pub fn release_through(&mut self, number: u64) {
        let number = number.min(self.committed());
        if number > self.taken {
            self.release_to(number);
        }
    }
}

impl Sender {
    /// Every later commit signals `doorbell` as well.
    pub fn attach(&mut self, doorbell: Arc<Doorbell>) {
        self.doorbell = Some(doorbell);
    }

    /// Messages released by the receiver over the ring buffer's life.
    pub fn released(&self) -> u64 {
        self.end.ends().taken.load(Ordering::Acquire)
    }

    /// Where the slot of message `number` begins, which may be filled once fewer than `depth`
    /// messages before it are not released.
    pub fn slot_offset(&self, number: u64) -> usize {
        self.end.place.slot(number.saturating_sub(1))
    }

    /// Commits the next message, of `bytes` bytes that lie in its slot already. False, and nothing
    /// done, if the ring buffer has no room.
    pub fn commit_next(&mut self, bytes: usize) -> bool {
        let room = self.has_room();
        if room {
            self.commit(bytes.min(self.shape().slot_bytes));
        }
        room
    }
}
