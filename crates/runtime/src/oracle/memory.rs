//! Memory that several threads copy in and out of without locks. An unsafe boundary.
//!
//! Bytes are only ever copied, never referenced, so that no reference into shared memory exists.

#![expect(unsafe_code, reason = "copies memory that threads share")]

use std::cell::UnsafeCell;
use std::ops::Range;

/// A buffer that threads share.
pub(crate) struct SharedBuffer {
    bytes: Box<[UnsafeCell<u8>]>,
}

// SAFETY: `SharedBuffer::new` makes its caller promise that conflicting accesses are ordered.
unsafe impl Sync for SharedBuffer {}

impl SharedBuffer {
    /// `length` zeros.
    ///
    /// # Safety
    ///
    /// As long as the buffer is shared, any two calls of [`SharedBuffer::read`] and
    /// [`SharedBuffer::write`] that touch a common byte, one of them a write, must be ordered by
    /// happens-before.
    pub(crate) unsafe fn new(length: usize) -> Self {
        let zeros = Box::into_raw(vec![0_u8; length].into_boxed_slice());
        // SAFETY: `UnsafeCell<u8>` has the layout of `u8`, and the allocation is owned here.
        Self { bytes: unsafe { Box::from_raw(zeros as *mut [UnsafeCell<u8>]) } }
    }

    /// Copies the bytes of `range`, which must lie inside, to the start of `into`.
    pub(crate) fn read(&self, range: Range<usize>, into: &mut [u8]) {
        let from = &self.bytes[range];
        let into = &mut into[..from.len()];
        // SAFETY: both sides have `from.len()` bytes; `into` is borrowed exclusively, so it lies
        // elsewhere; by the promise made to `new`, nobody writes these bytes meanwhile.
        unsafe { from.as_ptr().cast::<u8>().copy_to_nonoverlapping(into.as_mut_ptr(), from.len()) }
    }

    /// Copies `from` to the bytes from `start` on, which must lie inside.
    pub(crate) fn write(&self, start: usize, from: &[u8]) {
        let into = &self.bytes[start..start + from.len()];
        // SAFETY: both sides have `from.len()` bytes; no reference into `self` exists, so `from`
        // lies elsewhere; by the promise made to `new`, nobody touches these bytes meanwhile.
        unsafe {
            UnsafeCell::raw_get(into.as_ptr()).copy_from_nonoverlapping(from.as_ptr(), from.len());
        }
    }

    /// The bytes of `range`, which must lie inside.
    pub(crate) fn to_vec(&self, range: Range<usize>) -> Vec<u8> {
        let mut bytes = vec![0; range.len()];
        self.read(range, &mut bytes);
        bytes
    }
}
