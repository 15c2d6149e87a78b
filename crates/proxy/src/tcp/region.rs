//! Memory of a rank as slices: a door with `unsafe`.
//!
//! Slots are written by the network and read by executors, or the other way round, and belong to one of
//! them at a time ([`Memory`] says when). A write of the peer is checked against the bounds of the memory;
//! that it goes into a slot that was granted is the peer's promise, as it is on every rail.

use std::slice;
use std::sync::Arc;

use crate::port::Memory;

/// Memory whose slots a rail reads and writes.
pub(super) struct Region(Arc<dyn Memory>);

impl Region {
    pub(super) fn new(memory: Arc<dyn Memory>) -> Self {
        Self(memory)
    }

    /// The `bytes` bytes at `from` that are going out, if they lie inside.
    pub(super) fn outgoing(&self, from: u64, bytes: usize) -> Option<&[u8]> {
        let start = self.place(from, bytes)?;
        // SAFETY: the place lies inside the memory, which stays mapped as long as `self`; the port has granted
        // these bytes to the proxy until it is told that they were sent.
        Some(unsafe { slice::from_raw_parts(start, bytes) })
    }

    /// The `bytes` bytes at `to` that are coming in, if they lie inside.
    pub(super) fn incoming(&mut self, to: u64, bytes: usize) -> Option<&mut [u8]> {
        let start = self.place(to, bytes)?;
        // SAFETY: as above; the peer writes only into slots that its proxy was granted, nobody looks at one
        // before its message is committed, and this rail is borrowed mutably.
        Some(unsafe { slice::from_raw_parts_mut(start, bytes) })
    }

    fn place(&self, offset: u64, bytes: usize) -> Option<*mut u8> {
        let inside = offset.checked_add(bytes as u64)? <= self.0.bytes();
        let offset = usize::try_from(offset).ok()?;
        inside.then(|| self.0.address().wrapping_add(offset))
    }
}
