//! Buffers and windows that a caller registered.
//!
//! Handles are real, so that one that was never given out, or was given back, is recognised.
//!
//! A handle is the address of a word that holds this very address. Programs that take a window for
//! a pointer to a window, as some do when they give it back, so arrive at the same window.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use msccl_runtime::Window;
use rustc_hash::FxHashMap;

use crate::abi::Address;

/// What a communicator has registered.
#[derive(Default)]
pub struct Registrations(Mutex<FxHashMap<usize, Registration>>);

/// What a handle leads to, and stands for.
struct Registration {
    _word: Box<Word>,
    buffer: RegisteredBuffer,
    /// The same memory of all ranks, once they have met for it.
    window: Option<Arc<Window>>,
}

/// What a handle leads to.
#[repr(align(16))]
struct Word(#[expect(dead_code, reason = "whoever has the handle may look at it")] usize);

/// Memory that a caller registered.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RegisteredBuffer {
    /// Where it begins.
    pub address: Address,
    /// How long it is, in bytes.
    pub bytes: usize,
}

impl Registrations {
    /// A handle for `buffer`: never zero, aligned like a pointer, of no other registration.
    pub fn create(&self, buffer: RegisteredBuffer) -> usize {
        let mut word = Box::new(Word(0));
        let handle = (&raw mut *word).expose_provenance();
        *word = Word(handle);
        self.all().insert(handle, Registration { _word: word, buffer, window: None });
        handle
    }

    /// What `handle` stands for.
    pub fn find(&self, handle: usize) -> Option<RegisteredBuffer> {
        self.all().get(&handle).map(|of| of.buffer)
    }

    /// All ranks have met for `handle`, and reach one another's memory by `window`.
    pub fn set_window(&self, handle: usize, window: Window) {
        if let Some(registration) = self.all().get_mut(&handle) {
            registration.window = Some(Arc::new(window));
        }
    }

    /// By what this rank reaches the memory of others under `handle`; nothing, if they have not met
    /// for it.
    pub fn window(&self, handle: usize) -> Option<Arc<Window>> {
        self.all().get(&handle)?.window.clone()
    }

    /// Whether `handle` was registered, which from now on it is not.
    pub fn remove(&self, handle: usize) -> bool {
        self.all().remove(&handle).is_some()
    }

    fn all(&self) -> MutexGuard<'_, FxHashMap<usize, Registration>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn handles_are_given_back_once() {
        let registrations = Registrations::default();
        let buffer = |address| RegisteredBuffer { address, bytes: 64 };
        let (one, two) = (registrations.create(buffer(1)), registrations.create(buffer(2)));
        assert!(one != two && one != 0 && one.is_multiple_of(16));
        assert_eq!(registrations.find(two), Some(buffer(2)));
        assert!(registrations.remove(one));
        assert!(!registrations.remove(one));
        assert_eq!(registrations.find(one), None);
        assert!(!Registrations::default().remove(two));
    }
}
