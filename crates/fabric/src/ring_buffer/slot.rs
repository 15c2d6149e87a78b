//! A message in place: an unsafe boundary.
//!
//! The slots of a ring buffer are written and read through plain slices although another process
//! maps the same pages. What makes that sound is the ring buffer's protocol, all of whose code is
//! in this module's parent: a ring buffer has one sender and one receiver (each claims its end
//! atomically); the sender lends a slot only while the receiver has released it, and the receiver
//! only while the sender has committed it; the counters order the two. All who hold the memory's
//! descriptor must use it as ring buffers, by this code.

#![expect(unsafe_code, reason = "makes slices of memory that another process maps")]

use std::slice;

use super::{Receiver, Sender};
use crate::ring_buffer::layout::Place;
use crate::shared::SharedMemory;

/// Room for one message.
pub struct Slot<'a> {
    sender: &'a mut Sender,
}

impl<'a> Slot<'a> {
    /// The slot that the sender's `has_room` has just granted.
    pub(super) fn new(sender: &'a mut Sender) -> Self {
        Self { sender }
    }

    /// All of the slot. A new slot holds what an earlier message left.
    pub fn bytes(&mut self) -> &mut [u8] {
        let (start, length) =
            locate(&self.sender.end.place, &self.sender.end.bank.memory, self.sender.sent);
        // SAFETY: `locate` gives a range inside the mapping, which `self` keeps alive. The sender
        // is borrowed mutably, holds the ring buffer's only sending end, and there is room: the
        // receiver is done with this slot and does not look at it before the commit.
        unsafe { slice::from_raw_parts_mut(start, length) }
    }

    /// Sends the first `bytes` bytes of the slot as a message; all of it if that is shorter.
    pub fn commit(self, bytes: usize) {
        let bytes = bytes.min(self.sender.shape().slot_bytes);
        self.sender.commit(bytes);
    }
}

/// The next message.
pub struct Message<'a> {
    receiver: &'a mut Receiver,
}

impl<'a> Message<'a> {
    /// The message that the receiver's `has_message` has just found.
    pub(super) fn new(receiver: &'a mut Receiver) -> Self {
        Self { receiver }
    }

    /// The message.
    pub fn bytes(&self) -> &[u8] {
        let Receiver { end, taken, doorbell: _ } = &*self.receiver;
        let (start, _) = locate(&end.place, &end.bank.memory, *taken);
        // SAFETY: `locate` gives a range inside the mapping, which `self` keeps alive, and a
        // message is at most as long. The receiver is borrowed, holds the ring buffer's only
        // receiving end, and there is a message: the sender does not touch this slot before the
        // release.
        unsafe { slice::from_raw_parts(start, self.receiver.message_bytes()) }
    }

    /// Gives the slot back to the sender.
    pub fn release(self) {
        self.receiver.release();
    }
}

/// Where the slot of message number `message` lies, and its length; inside the memory, as the
/// layout was checked.
fn locate(place: &Place, memory: &SharedMemory, message: u64) -> (*mut u8, usize) {
    (memory.as_ptr().wrapping_add(place.slot(message)), place.shape.slot_bytes)
}
