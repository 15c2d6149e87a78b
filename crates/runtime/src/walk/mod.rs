//! How host threads walk through the program of a thread block, and what its steps do to bytes.
//!
//! [`Cursor::advance`] takes a thread block piece by piece as far as waits and links allow; what a
//! piece does is [`msccl_machine::execute`]. Everything around it (memory, ends of links, the other
//! thread blocks) is behind [`ThreadBlockMemory`], so one walk serves all ranks in one process
//! ([`crate::oracle`]) and one rank among processes ([`crate::host`]).
//!
//! Absent from this module: threads, waiting, links, whose memory it is.

mod arithmetic;
mod average;
mod cursor;
mod element;
mod slicing;
mod step;
mod step_window;

use std::ops::Range;

use msccl_collective::{Buffer, Rank};
use msccl_ir::Wait;

pub(crate) use arithmetic::{Arithmetic, arithmetic, divider, reciprocal, scaler};
pub(crate) use average::Average;
pub(crate) use cursor::{Advance, Cursor, Missing};
pub(crate) use slicing::{Round, Slicing};
pub(crate) use step::{BoundStep, bind_steps};
pub(crate) use step_window::Staging;

/// What is the same for all thread blocks of a call.
pub(crate) struct CallContext {
    /// How buffers are cut.
    pub(crate) slicing: Slicing,
    /// How elements combine.
    pub(crate) arithmetic: &'static dyn Arithmetic,
    /// What steps do for an average, if the call is one.
    pub(crate) average: Option<Average>,
}

/// What a thread block reaches: the memory of its rank, its ends of links, and the other thread
/// blocks of its instance. A link is named by the rank at its other end.
pub(crate) trait ThreadBlockMemory {
    /// Whether the step that `wait` names has ended in `round`.
    fn has_ended(&self, wait: Wait, round: u32) -> bool;

    /// Whether there is a message from `from`. Once there is one, it stays until it is released.
    fn has_message(&mut self, from: Rank) -> bool;

    /// Whether there is room for a message to `to`. Once there is, it stays until one is published.
    fn has_room(&mut self, to: Rank) -> bool;

    /// Copies the bytes of `range` of `buffer` to `into`, which is as long.
    fn load(&mut self, buffer: Buffer, range: Range<usize>, into: &mut [u8]);

    /// Copies `bytes` to `buffer` from `start` on.
    fn store(&mut self, buffer: Buffer, start: usize, bytes: &[u8]);

    /// Copies from `offset` of the message at hand from `from` to all of `into`.
    fn take(&mut self, from: Rank, offset: usize, into: &mut [u8]);

    /// Writes `bytes` at `offset` of the next message to `to`.
    fn put(&mut self, to: Rank, offset: usize, bytes: &[u8]);

    /// Gives the slot of the message at hand from `from` back, which should have had `bytes` bytes.
    fn release(&mut self, from: Rank, bytes: usize);

    /// Hands over the next message to `to`, which has `bytes` bytes.
    fn publish(&mut self, to: Rank, bytes: usize);

    /// Notifies whoever waits for it that `step` has ended in `round`.
    fn signal(&mut self, step: usize, round: u32);

    /// Takes note that the next piece of step number `step` waits for `missing`.
    fn waits(&mut self, _step: usize, _missing: Missing) {}

    /// Takes note that the next piece of step number `step` lacks nothing.
    fn begins(&mut self, _step: usize) {}

    /// Takes note that a piece of `bound`, step number `step`, has moved in `round`.
    fn moved(&mut self, _step: usize, _bound: &BoundStep, _round: u32) {}
}
