//! The caller's memory, by address: the one unsafe boundary of this engine.
//!
//! Bytes are only ever copied between it and buffers of ours, never referenced, so that no
//! reference into memory exists that somebody else may write to.

#![expect(unsafe_code, reason = "copies to and from memory of callers by address")]

use std::ptr;

use crate::error::Error;

/// A piece of memory, by address.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Span {
    address: usize,
    bytes: usize,
}

impl Span {
    /// The `bytes` bytes at `address`, which `what` describes in case they cannot be.
    ///
    /// Addresses come from whoever submits a call. The calls of [`crate::call`] are those of the C
    /// API and so is what their caller promises: until the call has returned, each buffer is memory
    /// of at least the size that the call implies, and nobody else writes to it, nor reads what the
    /// call writes. Nothing in this process can find out whether that holds.
    pub fn of_caller(address: u64, bytes: u64, what: &str) -> Result<Self, Error> {
        let beyond = || {
            Error::invalid_argument(format!("{what}: {bytes} bytes at {address:#x} do not exist"))
        };
        let span = Self {
            address: usize::try_from(address).map_err(|_| beyond())?,
            bytes: usize::try_from(bytes).map_err(|_| beyond())?,
        };
        let end = span.address.checked_add(span.bytes).filter(|&end| isize::try_from(end).is_ok());
        match end {
            Some(_) if span.bytes == 0 || span.address != 0 => Ok(span),
            _ => Err(beyond()),
        }
    }

    /// How long it is.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Copies the bytes from `start` on, as many as `into` has; they must lie inside.
    pub fn read(&self, start: usize, into: &mut [u8]) {
        let from = self.at(start, into.len());
        // SAFETY: `at` has checked that the bytes lie in the span, which the caller of the call has
        // promised to be valid memory that nobody writes to; `into` is borrowed exclusively, so it
        // lies elsewhere.
        unsafe { ptr::copy_nonoverlapping(from, into.as_mut_ptr(), into.len()) }
    }

    /// Copies `from` to the bytes from `start` on, which must lie inside.
    pub fn write(&self, start: usize, from: &[u8]) {
        let into = self.at(start, from.len());
        // SAFETY: as in `read`; nobody reads or writes these bytes meanwhile, and `from`, to which
        // somebody has a reference, lies elsewhere.
        unsafe { ptr::copy_nonoverlapping(from.as_ptr(), into, from.len()) }
    }

    /// Copies all bytes to `to`, which is as long and may overlap.
    pub fn copy_to(&self, to: &Span) {
        let bytes = self.bytes.min(to.bytes);
        let (from, into) = (self.at(0, bytes), to.at(0, bytes));
        // SAFETY: as in `read` and `write`; `copy` allows for overlaps.
        unsafe { ptr::copy(from, into, bytes) }
    }

    /// Where the `bytes` bytes from `start` on lie.
    fn at(&self, start: usize, bytes: usize) -> *mut u8 {
        let inside = start.checked_add(bytes).is_some_and(|end| end <= self.bytes);
        assert!(inside, "{bytes} bytes at {start} of {} lie outside", self.bytes);
        match bytes {
            // No memory is meant, and the address may be null.
            0 => ptr::dangling_mut(),
            _ => ptr::with_exposed_provenance_mut(self.address + start),
        }
    }
}

/// The buffers of what `name` says do not fit into memory.
pub(super) fn too_large(name: &str) -> Error {
    Error::invalid_argument(format!("{name}: the buffers exceed the address space"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_go_in_and_out() {
        let mut memory = [1_u8, 2, 3, 4, 5];
        let address = memory.as_mut_ptr().expose_provenance() as u64;
        let span = Span::of_caller(address, 5, "test").unwrap();
        let (front, back) = (span, Span::of_caller(address + 1, 4, "test").unwrap());
        let mut read = [0; 2];
        span.read(3, &mut read);
        assert_eq!(read, [4, 5]);
        span.write(0, &[9]);
        Span { bytes: 4, ..front }.copy_to(&back);
        back.read(2, &mut read);
        assert_eq!((read, memory), ([3, 4], [9, 9, 2, 3, 4]));
    }

    #[test]
    fn impossible_memory_is_refused() {
        let refused = |address, bytes| Span::of_caller(address, bytes, "the input").is_err();
        assert!(refused(0, 1) && refused(8, u64::MAX) && refused(u64::MAX, 2));
        assert!(!refused(0, 0));
        let text = Span::of_caller(0, 4, "the input").unwrap_err().to_string();
        assert_eq!(text, "the input: 4 bytes at 0x0 do not exist");
    }
}
