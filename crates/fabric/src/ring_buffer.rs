//! Links in shared memory: ring buffers of slots, each with one sender and one receiver.
//!
//! A [`RingBuffers`] is one piece of shared memory with any number of ring buffers; whoever
//! opens its descriptor can take the ends that are still free. A message is written and read in
//! place: the sender reserves a slot and commits it, the receiver peeks at it and releases it. Both
//! ends count messages over the ring buffer's life, so an end can be given back and taken by
//! another process, and goes on where the former one stopped.
//!
//! **Order.** What a sender wrote before `commit` is visible to the receiver that peeks the
//! message; what a receiver read before `release` is over before the sender can reserve the slot
//! again.
//!
//! **Waits** spin for a moment, then yield, then sleep until the other end wakes them; they end by
//! the caller's [`Abort`], a timeout, or [`RingBuffers::stop`], which ends the waits of all
//! processes. A process that dies holding an end leaves it taken: its peers learn of the death from
//! their group and stop the ring buffers.

mod carry;
mod doorbell;
mod layout;
mod slot;
mod wait;

use std::fmt;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::abort::{Abort, Patience};
use crate::error::{Error, ErrorKind};
use crate::shared::{self, SharedMemory};
pub use doorbell::Doorbell;
use layout::{Ends, Layout, Place};
pub use slot::{Message, Slot};
use wait::{Outcome, Waiter};

/// The size of one ring buffer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RingBufferShape {
    /// Messages that may be under way; at least one.
    pub depth: u32,
    /// Bytes of the longest message.
    pub slot_bytes: usize,
}

/// Ring buffers in one piece of shared memory.
#[derive(Clone)]
pub struct RingBuffers {
    bank: Arc<Bank>,
}

struct Bank {
    memory: SharedMemory,
    places: Vec<Place>,
}

impl RingBuffers {
    /// New, empty ring buffers of these shapes.
    pub fn create(shapes: &[RingBufferShape]) -> Result<Self, Error> {
        let layout = Layout::new(shapes).ok_or_else(|| {
            Error::invalid("the ring buffers do not fit into memory, or one has no slots")
        })?;
        let memory = SharedMemory::create(layout.bytes)?;
        layout.write(&memory);
        let bank = Bank { memory, places: layout.places };
        Ok(Self { bank: Arc::new(bank) })
    }

    /// The ring buffers behind a descriptor that another rank has sent.
    pub fn open(descriptor: OwnedFd) -> Result<Self, Error> {
        let bytes = usize::try_from(shared::sealed_size(&descriptor)?).unwrap_or_default();
        let memory = SharedMemory::open(descriptor, bytes)?;
        let places = Layout::read(&memory).map_err(|why| {
            Error::mismatch(format!("this shared memory does not hold ring buffers: {why}"))
        })?;
        Ok(Self { bank: Arc::new(Bank { memory, places }) })
    }

    /// What to pass on, as [`SharedMemory::descriptor`].
    pub fn descriptor(&self) -> Result<BorrowedFd<'_>, Error> {
        self.bank.memory.descriptor()
    }

    /// Bytes of shared memory that they take.
    pub fn bytes(&self) -> usize {
        self.bank.memory.len()
    }

    /// How many ring buffers there are.
    pub fn count(&self) -> usize {
        self.bank.places.len()
    }

    /// The shape of ring buffer `index`.
    pub fn shape(&self, index: usize) -> Option<RingBufferShape> {
        self.bank.places.get(index).map(|place| place.shape)
    }

    /// Takes the sending end of ring buffer `index`, which must be free.
    pub fn sender(&self, index: usize) -> Result<Sender, Error> {
        let end = End::take(&self.bank, index, "sending", |ends| ends.sender_taken)?;
        let sent = end.ends().sent.load(Ordering::Acquire);
        Ok(Sender { end, sent, doorbell: None })
    }

    /// Takes the receiving end of ring buffer `index`, which must be free.
    pub fn receiver(&self, index: usize) -> Result<Receiver, Error> {
        let end = End::take(&self.bank, index, "receiving", |ends| ends.receiver_taken)?;
        let taken = end.ends().taken.load(Ordering::Acquire);
        Ok(Receiver { end, taken, doorbell: None })
    }

    /// Ends all waits at these ring buffers, in all processes, from now on.
    pub fn stop(&self) {
        self.stop_after(0);
    }

    /// The same; whoever looks sees how much was `done` before. The first stop counts. What this
    /// rank has committed and released before is seen by those who see that.
    pub fn stop_after(&self, done: u64) {
        let word = done.saturating_add(1);
        let _ = self.bank.stopped().compare_exchange(0, word, Ordering::AcqRel, Ordering::Acquire);
        for place in &self.bank.places {
            let ends = place.ends(&self.bank.memory);
            wait::wake(ends.sent_bell);
            wait::wake(ends.taken_bell);
        }
    }

    /// Whether someone stopped the ring buffers.
    pub fn is_stopped(&self) -> bool {
        self.bank.is_stopped()
    }

    /// If someone stopped the ring buffers, how much was done before.
    pub fn stopped_after(&self) -> Option<u64> {
        self.bank.stopped().load(Ordering::Acquire).checked_sub(1)
    }
}

impl Bank {
    fn stopped(&self) -> &AtomicU64 {
        layout::stopped(&self.memory)
    }

    fn is_stopped(&self) -> bool {
        self.stopped().load(Ordering::Acquire) != 0
    }
}

impl fmt::Debug for RingBuffers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RingBuffers({} in {:?})", self.count(), self.bank.memory)
    }
}

/// What both kinds of end share: their claim, given back on drop.
struct End {
    bank: Arc<Bank>,
    index: usize,
    place: Place,
    claim: fn(Ends<'_>) -> &AtomicU64,
}

impl End {
    fn take(
        bank: &Arc<Bank>,
        index: usize,
        kind: &str,
        claim: fn(Ends<'_>) -> &AtomicU64,
    ) -> Result<Self, Error> {
        let place = bank.places.get(index).copied().ok_or_else(|| {
            Error::invalid(format!("there is no ring buffer {index} among {}", bank.places.len()))
        })?;
        let word = claim(place.ends(&bank.memory));
        if word.swap(1, Ordering::AcqRel) != 0 {
            let text = format!("the {kind} end of ring buffer {index} is taken already");
            return Err(Error::invalid(text));
        }
        Ok(Self { bank: bank.clone(), index, place, claim })
    }

    fn ends(&self) -> Ends<'_> {
        self.place.ends(&self.bank.memory)
    }

    /// Waits at this end until `look` finds what it looks for.
    fn wait(
        &self,
        waiter: &Waiter<'_>,
        abort: &Abort,
        timeout: Option<Duration>,
        what: &str,
        look: impl FnMut() -> bool,
    ) -> Result<(), Error> {
        let patience = Patience::new(abort, timeout);
        let ends = self.ends();
        let what = || {
            let sent = ends.sent.load(Ordering::Relaxed);
            let taken = ends.taken.load(Ordering::Relaxed);
            format!("{what} in ring buffer {} ({sent} messages sent, {taken} taken)", self.index)
        };
        match waiter.wait(&patience, || self.bank.is_stopped(), look) {
            Outcome::Found => Ok(()),
            Outcome::Stopped(stop) => Err(Error::stopped(stop, &patience, what())),
            Outcome::Halted => {
                let text = format!("{}: another rank stopped the ring buffers", what());
                Err(Error::new(ErrorKind::Aborted, text))
            }
        }
    }
}

impl Drop for End {
    fn drop(&mut self) {
        (self.claim)(self.ends()).store(0, Ordering::Release);
    }
}

/// The sending end of a ring buffer.
pub struct Sender {
    end: End,
    /// Messages committed so far; the ring buffer's own count follows it.
    sent: u64,
    /// Whom a commit wakes besides a receiver that waits.
    doorbell: Option<Arc<Doorbell>>,
}

impl Sender {
    /// The slot of the next message, if the ring buffer has room. Asking again without a commit
    /// gives the same slot with what was written.
    pub fn try_reserve(&mut self) -> Option<Slot<'_>> {
        self.has_room().then(|| Slot::new(self))
    }

    /// Waits for room.
    pub fn reserve(&mut self, abort: &Abort, timeout: Option<Duration>) -> Result<Slot<'_>, Error> {
        if !self.has_room() {
            let Ends { taken_bell, sender_sleeps, .. } = self.end.ends();
            let waiter = Waiter { bell: taken_bell, sleeps: sender_sleeps };
            self.end.wait(&waiter, abort, timeout, "no room", || self.has_room())?;
        }
        Ok(Slot::new(self))
    }

    /// Messages committed over the ring buffer's life.
    pub fn sent(&self) -> u64 {
        self.sent
    }

    /// The shape of the ring buffer.
    pub fn shape(&self) -> RingBufferShape {
        self.end.place.shape
    }

    fn has_room(&self) -> bool {
        let taken = self.end.ends().taken.load(Ordering::Acquire);
        self.sent.wrapping_sub(taken) < u64::from(self.shape().depth)
    }

    /// Hands the reserved slot over as a message of `bytes` bytes.
    fn commit(&mut self, bytes: usize) {
        let ends = self.end.ends();
        self.end
            .place
            .length(&self.end.bank.memory, self.sent)
            .store(bytes as u64, Ordering::Relaxed);
        self.sent += 1;
        ends.sent.store(self.sent, Ordering::Release);
        wait::announce(ends.sent_bell, ends.receiver_sleeps);
        if let Some(doorbell) = &self.doorbell {
            doorbell.announce();
        }
    }
}

/// The receiving end of a ring buffer.
pub struct Receiver {
    end: End,
    /// Messages released so far; the ring buffer's own count follows it.
    taken: u64,
    /// Whom a release wakes besides a sender that waits.
    doorbell: Option<Arc<Doorbell>>,
}

impl Receiver {
    /// The next message, if there is one. It stays the next one until it is released.
    pub fn try_peek(&mut self) -> Option<Message<'_>> {
        self.has_message().then(|| Message::new(self))
    }

    /// Waits for a message.
    pub fn peek(&mut self, abort: &Abort, timeout: Option<Duration>) -> Result<Message<'_>, Error> {
        if !self.has_message() {
            let Ends { sent_bell, receiver_sleeps, .. } = self.end.ends();
            let waiter = Waiter { bell: sent_bell, sleeps: receiver_sleeps };
            self.end.wait(&waiter, abort, timeout, "no message", || self.has_message())?;
        }
        Ok(Message::new(self))
    }

    /// Messages released over the ring buffer's life.
    pub fn taken(&self) -> u64 {
        self.taken
    }

    /// The shape of the ring buffer.
    pub fn shape(&self) -> RingBufferShape {
        self.end.place.shape
    }

    fn has_message(&self) -> bool {
        self.end.ends().sent.load(Ordering::Acquire) != self.taken
    }

    /// The length of the message at hand, within its slot whatever the sender says.
    fn message_bytes(&self) -> usize {
        let length = self.end.place.length(&self.end.bank.memory, self.taken);
        (length.load(Ordering::Relaxed) as usize).min(self.shape().slot_bytes)
    }

    /// Gives the slot of the message at hand back.
    fn release(&mut self) {
        self.release_to(self.taken + 1);
    }

    fn release_to(&mut self, taken: u64) {
        self.taken = taken;
        let ends = self.end.ends();
        ends.taken.store(self.taken, Ordering::Release);
        wait::announce(ends.taken_bell, ends.sender_sleeps);
        if let Some(doorbell) = &self.doorbell {
            doorbell.announce();
        }
    }
}
