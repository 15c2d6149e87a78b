//! How the ends of many ring buffers wake one thread that serves all of their other ends.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicU32, Ordering, fence};

use rustix::event::{EventfdFlags, eventfd};

use crate::error::Error;

/// Wakes a thread that sleeps in `poll` and looks at many ring buffers, and maybe at other
/// things.
///
/// Ends of ring buffers that have the doorbell ([`Sender::attach`](super::Sender::attach),
/// [`Receiver::attach`](super::Receiver::attach)) signal it after every commit or release. That
/// costs next to nothing while the thread is awake.
/// The thread calls [`Doorbell::park`], looks at everything once more, polls the descriptor for
/// input, and calls [`Doorbell::resume`]: so no change can be missed.
#[derive(Debug)]
pub struct Doorbell {
    sleeps: AtomicU32,
    descriptor: OwnedFd,
}

impl Doorbell {
    /// A doorbell that no ring buffer has yet.
    pub fn new() -> Result<Self, Error> {
        let descriptor = eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)
            .map_err(|error| Error::system("cannot create an event descriptor", error))?;
        Ok(Self { sleeps: AtomicU32::new(0), descriptor })
    }

    /// The thread is about to sleep. A change after this call signals the doorbell.
    pub fn park(&self) {
        self.sleeps.store(1, Ordering::Relaxed);
        // Pairs with the fence of `announce`: either the thread sees the change, or the changer
        // that the thread sleeps.
        fence(Ordering::SeqCst);
    }

    /// The thread is awake, and the descriptor has no input until the next signal.
    pub fn resume(&self) {
        self.sleeps.store(0, Ordering::Relaxed);
        // Nothing to read means that there was no signal.
        let _ = rustix::io::read(&self.descriptor, &mut [0; 8]);
    }

    /// Wakes the thread, even if it is about to sleep.
    pub fn signal(&self) {
        // Fails only when the counter is full, and then the thread is about to wake anyway.
        let _ = rustix::io::write(&self.descriptor, &1_u64.to_ne_bytes());
    }

    /// Wakes the thread if it sleeps; called after the change.
    pub fn announce(&self) {
        fence(Ordering::SeqCst);
        if self.sleeps.load(Ordering::Relaxed) != 0 {
            self.signal();
        }
    }
}

impl AsFd for Doorbell {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.descriptor.as_fd()
    }
}
