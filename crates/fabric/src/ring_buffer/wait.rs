//! How an end of a ring buffer waits for the other: spin, yield, sleep.

use std::hint;
use std::sync::atomic::{AtomicU32, Ordering, fence};
use std::thread;

use rustix::thread::futex;

use crate::abort::{Patience, Stop};
use crate::socket::timespec;

/// Looks before the first yield: no message between two cores takes longer.
const SPINS: u32 = 200;

/// Looks with a yield after each, before the first sleep.
const YIELDS: u32 = 20;

/// What an end sleeps on.
pub(super) struct Waiter<'a> {
    /// The other end changes it to wake this one.
    pub(super) bell: &'a AtomicU32,
    /// Says that this end sleeps, so that the other must wake it.
    pub(super) sleeps: &'a AtomicU32,
}

/// How a wait ended.
pub(super) enum Outcome {
    Found,
    Stopped(Stop),
    Halted,
}

impl Waiter<'_> {
    /// Waits until `look` or `halted` is true, or `patience` ends the wait.
    pub(super) fn wait(
        &self,
        patience: &Patience,
        halted: impl Fn() -> bool,
        mut look: impl FnMut() -> bool,
    ) -> Outcome {
        for round in 0..SPINS + YIELDS {
            if look() {
                return Outcome::Found;
            }
            if round < SPINS { hint::spin_loop() } else { thread::yield_now() }
        }
        loop {
            let bell = self.bell.load(Ordering::Acquire);
            self.sleeps.store(1, Ordering::Relaxed);
            // Pairs with the fence of `announce`: either this end sees what the other has just
            // done, or the other sees that this one sleeps.
            fence(Ordering::SeqCst);
            let found = look();
            let over = match (found, halted()) {
                (true, _) => Some(Outcome::Found),
                (false, true) => Some(Outcome::Halted),
                (false, false) => patience.check().err().map(Outcome::Stopped),
            };
            if over.is_none() {
                // Woken, interrupted or too late: in any case it looks again.
                let flags = futex::Flags::empty();
                let _ = futex::wait(self.bell, flags, bell, Some(&timespec(patience.slice())));
            }
            self.sleeps.store(0, Ordering::Relaxed);
            if let Some(outcome) = over {
                return outcome;
            }
        }
    }
}

/// Wakes the other end if it sleeps; called after the change that it waits for.
pub(super) fn announce(bell: &AtomicU32, sleeps: &AtomicU32) {
    fence(Ordering::SeqCst);
    if sleeps.load(Ordering::Relaxed) != 0 {
        wake(bell);
    }
}

/// Wakes whoever sleeps at `bell`.
pub(super) fn wake(bell: &AtomicU32) {
    bell.fetch_add(1, Ordering::Release);
    // It fails for addresses that do not exist; this one does.
    let _ = futex::wake(bell, futex::Flags::empty(), u32::MAX >> 1);
}
