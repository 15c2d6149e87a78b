//! The machine whose values are bytes: one window of one chunk of one step at a time.
//!
//! What a step does is [`msccl_machine::execute`]; this file says what it does it to. The window
//! keeps operands in the nearest cache however large a slice is: a step works element by element,
//! so cutting a chunk into windows changes nothing.

use std::convert::Infallible;
use std::num::NonZeroU32;
use std::ops::Range;

use msccl_collective::{Buffer, Slot};
use msccl_ir::Place;
use msccl_machine::{Machine, execute};

use super::average::{Average, Factor};
use super::{BoundStep, CallContext, Round, ThreadBlockMemory};

/// Bytes of a chunk that are worked on at a time; a multiple of every element size.
const WINDOW_BYTES: usize = 16 << 10;

/// Where operands of a step wait to be combined: one after another, each as long as the window.
#[derive(Default)]
pub(crate) struct Staging {
    operands: Vec<u8>,
    result: Vec<u8>,
}

/// One step of one thread block, at one window of one chunk.
pub(super) struct StepWindow<'a, R> {
    bound: &'a BoundStep,
    terms: &'a CallContext,
    pass: Round,
    divisor: Option<NonZeroU32>,
    /// Of raw contributions.
    factor: Option<&'a Factor>,
    memory: &'a mut R,
    staging: &'a mut Staging,
    /// Where the window starts in the slice, and in the current message.
    in_slice: usize,
    in_message: usize,
    length: usize,
}

impl<'a, R: ThreadBlockMemory> StepWindow<'a, R> {
    /// The step `bound` in `pass`.
    pub(super) fn new(
        bound: &'a BoundStep,
        terms: &'a CallContext,
        pass: Round,
        memory: &'a mut R,
        staging: &'a mut Staging,
    ) -> Self {
        let (divisor, factor) = match &terms.average {
            Some(Average::Divides(of)) if bound.completes => (Some(*of), None),
            Some(Average::Scales(factor)) => (None, Some(factor)),
            Some(Average::Divides(_)) | None => (None, None),
        };
        let (in_slice, in_message, length) = (0, 0, 0);
        Self { bound, terms, pass, divisor, factor, memory, staging, in_slice, in_message, length }
    }

    /// Executes the chunks `chunks` of the step.
    pub(super) fn run(&mut self, chunks: Range<u32>) {
        let slice_bytes = self.terms.slicing.slice_bytes(self.pass);
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
        match from {
            Place::Local(slot) => {
                let window = self.window(slot);
                let operand = &mut self.staging.operands[start..end];
                let (present, absent) = operand.split_at_mut(window.len());
                self.memory.load(slot.buffer, window, present);
                absent.fill(0);
            }
            Place::Link(peer) => {
                self.memory.take(peer, self.in_message, &mut self.staging.operands[start..end]);
            }
        }
        if let Some(factor) = self.factor
            && self.bound.raw.get(position) == Some(&true)
        {
            factor.scale(&mut self.staging.operands[start..end]);
        }
    }

    /// The window's bytes in the buffer of `slot`, as far as they exist.
    fn window(&self, slot: Slot) -> Range<usize> {
        let slicing = &self.terms.slicing;
        let slice = match slot.buffer {
            Buffer::Input | Buffer::Output => slicing.user_slice(slot.index, self.pass),
            Buffer::Scratch => slicing.scratch_slice(slot.index, self.pass),
        };
        let first = (slice.start + self.in_slice).min(slice.end);
        first..(first + self.length).min(slice.end)
    }
}

impl<R: ThreadBlockMemory> Machine for StepWindow<'_, R> {
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
        self.terms.arithmetic.combine(operands, self.divisor, result);
        Rounded::Result
    }

    fn write(&mut self, to: Place, value: &Rounded) -> Result<(), Infallible> {
        let bytes = match value {
            Rounded::Operand => &self.staging.operands[..self.length],
            Rounded::Result => &self.staging.result[..self.length],
        };
        match to {
            Place::Local(slot) => {
                let window = self.window(slot);
                self.memory.store(slot.buffer, window.start, &bytes[..window.len()]);
            }
            Place::Link(peer) => self.memory.put(peer, self.in_message, bytes),
        }
        Ok(())
    }
}

/// Where the finished value of the window stands.
pub(super) enum Rounded {
    /// It is the only operand.
    Operand,
    /// It was computed.
    Result,
}
