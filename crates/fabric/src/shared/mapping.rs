//! A file's pages in this process: an unsafe boundary.
//!
//! Other processes write to the same pages at any time, so no plain reference into them may exist
//! unless a protocol keeps the others out. This file hands out atomics, which need no protocol, and
//! raw pointers, whose users state theirs.

#![expect(unsafe_code, reason = "maps memory that other processes write to")]

use std::os::fd::AsFd;
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicU32, AtomicU64};

use rustix::io::Errno;
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

/// A shared, writable mapping of a whole file; unmapped on drop.
pub(crate) struct Mapping {
    start: NonNull<u8>,
    bytes: usize,
}

// SAFETY: the mapping belongs to the process and not to a thread; atomics aside, it is accessed
// through raw pointers only, whose users answer for the order of their accesses.
unsafe impl Send for Mapping {}
// SAFETY: as above.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Maps the first `bytes` bytes of `file`, which must have as many.
    pub(crate) fn new(file: impl AsFd, bytes: usize) -> Result<Self, Errno> {
        let (access, kind) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED);
        // SAFETY: the system chooses an address where nothing is mapped yet.
        let start = unsafe { mmap(ptr::null_mut(), bytes, access, kind, file, 0)? };
        let start = NonNull::new(start.cast()).ok_or(Errno::NOMEM)?;
        Ok(Self { start, bytes })
    }

    pub(crate) fn len(&self) -> usize {
        self.bytes
    }

    pub(crate) fn as_ptr(&self) -> *mut u8 {
        self.start.as_ptr()
    }

    /// The atomic word at `offset`, if it lies inside and is aligned.
    #[inline]
    pub(crate) fn word(&self, offset: usize) -> Option<&AtomicU64> {
        let pointer = self.place(offset, size_of::<AtomicU64>())?;
        // SAFETY: the place is inside, aligned, initialised by the system, and mapped as long as
        // `self`; whoever else accesses it in an orderly way does so atomically.
        Some(unsafe { AtomicU64::from_ptr(pointer.cast()) })
    }

    /// The atomic half word at `offset`, if it lies inside and is aligned.
    pub(crate) fn half_word(&self, offset: usize) -> Option<&AtomicU32> {
        let pointer = self.place(offset, size_of::<AtomicU32>())?;
        // SAFETY: as in `word`.
        Some(unsafe { AtomicU32::from_ptr(pointer.cast()) })
    }

    /// `size` bytes at `offset`, if they lie inside and `offset` is a multiple of `size`.
    #[inline]
    fn place(&self, offset: usize, size: usize) -> Option<*mut u8> {
        let inside = offset.checked_add(size)? <= self.bytes && offset.is_multiple_of(size);
        inside.then(|| self.start.as_ptr().wrapping_add(offset))
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: `new` mapped exactly these pages, and whatever points to them borrows `self`.
        // It cannot fail for a mapping that exists.
        let _ = unsafe { munmap(self.start.as_ptr().cast(), self.bytes) };
    }
}
