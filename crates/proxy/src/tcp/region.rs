//! Memory of a rank as slices: an unsafe boundary.
//!
//! Slots are written by the network and read by executors, or the other way round, and belong to
//! one of them at a time ([`Memory`] says when). A write of the peer is checked against the bounds
//! of the memory; that it goes into a slot that was granted is the peer's promise, as it is on
//! every rail.
//!
//! Memory that processors do not reach is copied, message by message, by way of memory that they
//! do.

#![expect(unsafe_code, reason = "makes slices of memory of a rank")]

use std::collections::VecDeque;
use std::slice;
use std::sync::Arc;

use crate::endpoint::{Copies, Memory};
use crate::rail::Write;

/// Memory whose slots a rail reads and writes: posts go out, and messages come in one after
/// another.
pub(super) struct Region {
    memory: Arc<dyn Memory>,
    /// Copies of what is going out, if there must be any, in the order of the posts.
    outgoing: VecDeque<Box<[u8]>>,
    /// A copy of what is coming in, if there must be one.
    incoming: Box<[u8]>,
}

impl Region {
    pub(super) fn new(memory: Arc<dyn Memory>) -> Self {
        Self { memory, outgoing: VecDeque::new(), incoming: Box::default() }
    }

    /// Takes in a post, after all others.
    pub(super) fn take(&mut self, post: &Write) -> Result<(), String> {
        let Write { from, bytes, .. } = *post;
        self.place(from, bytes).ok_or_else(|| outside("a message to be sent", from, bytes))?;
        if let Some(copies) = self.copies() {
            let mut copy = vec![0; bytes as usize].into_boxed_slice();
            if bytes > 0 {
                copies.fetch(from, &mut copy)?;
            }
            self.outgoing.push_back(copy);
        }
        Ok(())
    }

    /// The bytes of `post`, with `before` others before it.
    pub(super) fn outgoing(&self, before: usize, post: &Write) -> Option<&[u8]> {
        if self.copies().is_some() {
            return self.outgoing.get(before).map(AsRef::as_ref);
        }
        let start = self.place(post.from, post.bytes)?;
        // SAFETY: the place lies inside the memory, which processors reach and which stays mapped
        // as long as `self`; the port has granted these bytes to the proxy until it learns that
        // they were sent.
        Some(unsafe { slice::from_raw_parts(start, post.bytes as usize) })
    }

    /// The first post has gone out.
    pub(super) fn sent(&mut self) {
        self.outgoing.pop_front();
    }

    /// `message` begins to come in.
    pub(super) fn expect(&mut self, message: &Write) -> Result<(), String> {
        let Write { to, bytes, .. } = *message;
        self.place(to, bytes).ok_or_else(|| outside("a message of the peer", to, bytes))?;
        if self.copies().is_some() {
            self.incoming = vec![0; bytes as usize].into_boxed_slice();
        }
        Ok(())
    }

    /// What is missing of `message`, of which `got` bytes have come in.
    pub(super) fn incoming(&mut self, message: &Write, got: usize) -> &mut [u8] {
        let bytes = message.bytes as usize;
        if self.copies().is_some() {
            return self.incoming.get_mut(got..).unwrap_or_default();
        }
        let Some(start) = self.place(message.to, message.bytes).filter(|_| got <= bytes) else {
            return &mut [];
        };
        // SAFETY: as above; the peer writes only into slots that its proxy was granted, nobody
        // looks at one before its message is committed, and this rail is borrowed mutably.
        unsafe { slice::from_raw_parts_mut(start.add(got), bytes - got) }
    }

    /// All of `message` has come in.
    pub(super) fn landed(&self, message: &Write) -> Result<(), String> {
        match self.copies() {
            Some(copies) if message.bytes > 0 => copies.put(message.to, &self.incoming),
            Some(_) | None => Ok(()),
        }
    }

    fn copies(&self) -> Option<&dyn Copies> {
        self.memory.copies()
    }

    fn place(&self, offset: u64, bytes: u32) -> Option<*mut u8> {
        let inside = offset.checked_add(u64::from(bytes))? <= self.memory.bytes();
        let offset = usize::try_from(offset).ok()?;
        inside.then(|| self.memory.address().wrapping_add(offset))
    }
}

fn outside(what: &str, offset: u64, bytes: u32) -> String {
    format!("{what}, {bytes} bytes at offset {offset}, lies outside of this rank's memory")
}
