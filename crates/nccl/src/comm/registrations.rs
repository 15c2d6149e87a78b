//! Buffers and windows that a caller registered.
//!
//! Registering is legal and does nothing: links have memory of their own. Handles are real all the
//! same, so that one that was never given out, or was given back, is recognised.
//!
//! A handle is the address of a word that holds this very address. Programs that take a window for
//! a pointer to a window, as some do when they give it back, so arrive at the same window.

use std::sync::{Mutex, PoisonError};

use rustc_hash::FxHashMap;

/// What a communicator has registered.
#[derive(Default)]
pub struct Registrations(Mutex<FxHashMap<usize, Box<Word>>>);

/// What a handle leads to.
#[repr(align(16))]
struct Word(#[expect(dead_code, reason = "whoever has the handle may look at it")] usize);

impl Registrations {
    /// A handle: never zero, aligned like a pointer, of no other registration.
    pub fn create(&self) -> usize {
        let mut word = Box::new(Word(0));
        let handle = (&raw mut *word).expose_provenance();
        *word = Word(handle);
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(handle, word);
        handle
    }

    /// Whether `handle` was registered, which from now on it is not.
    pub fn remove(&self, handle: usize) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(&handle).is_some()
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
