//! The machine whose values are bytes: one window of one chunk of one step at a time.
//!
//! What a step does is [`msccl_machine::execute`]; this file says what it does it to. The window
//! keeps operands in the nearest cache however large a slice is: a step works element by element,
//! so cutting a chunk into windows changes nothing.

use std::convert::Infallible;
use std::num::NonZeroU32;
use std::ops::Range;

use msccl_ir::Place;
use msccl_machine::{Machine, execute};

use super::bind::{Block, BoundStep};
use super::engine::{Cursor, Engine};

/// Bytes of a chunk that are worked on at a time; a multiple of every element size.
const WINDOW_BYTES: usize = 16 << 10;

/// Where operands of a step wait to be combined: one after another, each as long as the window.
#[derive(Default)]
pub(crate) struct Staging {
    operands: Vec<u8>,
    result: Vec<u8>,
}

/// One step of one thread block, at one window of one chunk.
pub(crate) struct Lane<'a, 'e> {
    engine: &'a Engine<'e>,
    block: &'a Block,
    bound: &'a BoundStep,
    round: usize,
    divisor: Option<NonZeroU32>,
    staging: &'a mut Staging,
    /// Where the window starts in the slice, and in the current message.
    in_slice: usize,
    in_message: usize,
    length: usize,
}

impl<'a, 'e> Lane<'a, 'e> {
    /// The step `bound` of `block` in the round of `cursor`.
    pub(crate) fn new(
        engine: &'a Engine<'e>,
        block: &'a Block,
        bound: &'a BoundStep,
        cursor: &Cursor,
        staging: &'a mut Staging,
    ) -> Self {
        let contributions = if bound.completes { engine.contributions } else { 0 };
        Self {
            engine,
            block,
            bound,
            round: cursor.round,
            divisor: NonZeroU32::new(contributions),
            staging,
            in_slice: 0,
            in_message: 0,
            length: 0,
        }
    }

    /// Executes the chunks `chunks` of the step, whose slices have `slice_bytes` bytes.
    pub(crate) fn run(&mut self, chunks: Range<u32>, slice_bytes: usize) {
        for (position, chunk) in chunks.enumerate() {
            for start in (0..slice_bytes).step_by(WINDOW_BYTES) {
                self.in_slice = start;
                self.in_message = position * slice_bytes + start;
                self.length = WINDOW_BYTES.min(slice_bytes - start);
                match execute(&self.bound.step, chunk..chunk + 1, self) {
                    Ok(()) => {}
                    Err(never) => match never {},
                }
            }
        }
    }

    /// Copies the window of `from` behind the operands at hand, as number `position`. What does not
    /// exist reads as zero.
    fn stage(&mut self, position: usize, from: Place) {
        let start = position * self.length;
        let end = start + self.length;
        if self.staging.operands.len() < end {
            self.staging.operands.resize(end, 0);
        }
        let operand = &mut self.staging.operands[start..end];
        if let Place::Local(slot) = from {
            let (memory, slice) = self.engine.slice(self.block.rank, slot, self.round);
            let window = window(slice, self.in_slice, self.length);
            let (present, absent) = operand.split_at_mut(window.len());
            memory.read(window, present);
            absent.fill(0);
        } else if let Some(link) = self.engine.incoming(self.block, from) {
            link.read(self.in_message, operand);
        }
    }
}

impl Machine for Lane<'_, '_> {
    /// How many operands are staged.
    type Sum = usize;
    type Value = Rounded;
    type Error = Infallible;

    fn read(&mut self, from: Place) -> Result<usize, Infallible> {
        self.stage(0, from);
        Ok(1)
    }

    fn add(&mut self, staged: usize, from: Place) -> Result<usize, Infallible> {
        self.stage(staged, from);
        Ok(staged + 1)
    }

    fn round(&mut self, staged: usize) -> Rounded {
        if staged == 1 && self.divisor.is_none() {
            return Rounded::Operand;
        }
        let Staging { operands, result } = &mut *self.staging;
        result.resize(self.length, 0);
        let operands = &operands[..staged * self.length];
        self.engine.arithmetic.combine(operands, self.divisor, result);
        Rounded::Result
    }

    fn write(&mut self, to: Place, value: &Rounded) -> Result<(), Infallible> {
        let bytes = match value {
            Rounded::Operand => &self.staging.operands[..self.length],
            Rounded::Result => &self.staging.result[..self.length],
        };
        if let Place::Local(slot) = to {
            let (memory, slice) = self.engine.slice(self.block.rank, slot, self.round);
            let window = window(slice, self.in_slice, self.length);
            memory.write(window.start, &bytes[..window.len()]);
        } else if let Some(link) = self.engine.outgoing(self.block, to) {
            link.write(self.in_message, bytes);
        }
        Ok(())
    }
}

/// Where the finished value of the window stands.
pub(crate) enum Rounded {
    /// It is the only operand.
    Operand,
    /// It was computed.
    Result,
}

/// The window of `length` bytes from `start` on, as far as `slice` has it.
fn window(slice: Range<usize>, start: usize, length: usize) -> Range<usize> {
    let first = (slice.start + start).min(slice.end);
    first..(first + length).min(slice.end)
}
