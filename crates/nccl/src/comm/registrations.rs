//! Buffers and windows that a caller registered.
//!
//! Registering is legal and does nothing: links have memory of their own. Handles are real all the
//! same, so that one that was never given out, or was given back, is told apart.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use rustc_hash::FxHashSet;

/// What a communicator has registered.
#[derive(Default)]
pub struct Registrations(Mutex<FxHashSet<usize>>);

/// Counts the handles of the process.
static MADE: AtomicUsize = AtomicUsize::new(1);

impl Registrations {
    /// A handle: never zero, aligned like a pointer, of no other registration.
    pub fn create(&self) -> usize {
        let handle = MADE.fetch_add(1, Ordering::Relaxed) << 4;
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(handle);
        handle
    }

    /// Whether `handle` was registered, which from now on it is not.
    pub fn remove(&self, handle: usize) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(&handle)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn handles_are_given_back_once() {
        let registrations = Registrations::default();
        let (one, two) = (registrations.create(), registrations.create());
        assert!(one != two && one != 0 && one.is_multiple_of(16));
        assert!(registrations.remove(one));
        assert!(!registrations.remove(one));
        assert!(!Registrations::default().remove(two));
    }
}
