//! The memory of the wires to and from one peer, laid out as [`layout`] says.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use msccl_gpu::{Context, PinnedBuffer};
use msccl_plan::Direction;
use msccl_plan::exchange::WireShape;

use super::fifo::FifoMemory;
use super::layout::{self, LINE_BYTES, WORD_BYTES};
use crate::error::Error;

/// The memory of the wires to and from one peer.
pub(super) struct Region {
    pub shape: WireShape,
    /// What the kernel counts in, and the lengths of messages.
    heads: PinnedBuffer,
    pub slots: Arc<FifoMemory>,
}

impl Region {
    /// With `slots`, of which there are [`layout::slots_bytes`].
    pub fn new(context: &Context, shape: WireShape, slots: Arc<FifoMemory>) -> Result<Self, Error> {
        let bytes = (layout::out_head_bytes(shape) + LINE_BYTES) * shape.wires as usize;
        let heads = PinnedBuffer::new(context, bytes.max(LINE_BYTES))?;
        Ok(Self { shape, heads, slots })
    }

    /// Where kernels find the head of an end.
    pub fn head(&self, direction: Direction, wire: u32) -> u64 {
        self.heads.ptr().0 + layout::head(self.shape, direction, wire) as u64
    }

    /// Word number `at` of the head of an end.
    pub fn head_word(&self, direction: Direction, wire: u32, at: usize) -> &AtomicU64 {
        &self.heads.words64()[layout::head(self.shape, direction, wire) / WORD_BYTES + at]
    }

    /// Where kernels find the slots of an end.
    pub fn ring(&self, direction: Direction, wire: u32) -> u64 {
        self.slots.ptr().0 + layout::ring(self.shape, direction, wire) as u64
    }

    /// Where `message` lies among all slots.
    pub fn slot(&self, direction: Direction, wire: u32, message: u64) -> u64 {
        let place = self.entry_index(message) * self.shape.slot_bytes as usize;
        (layout::ring(self.shape, direction, wire) + place) as u64
    }

    /// Which slot of its ring `message` takes.
    pub fn entry_index(&self, message: u64) -> usize {
        layout::entry_index(self.shape, message)
    }
}
