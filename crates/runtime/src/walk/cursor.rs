//! Where a thread block stands, and how it goes on from there.

use msccl_collective::Rank;
use msccl_ir::Wait;

use super::step_window::{Staging, StepWindow};
use super::{BoundStep, CallContext, Round, ThreadBlockMemory};

/// Pieces that a thread block moves before others have their turn.
const SHARE: u32 = 64;

/// How far a thread block has come.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) struct Cursor {
    /// Its instance and round.
    pub(crate) pass: Round,
    /// Its step; the number of steps at the end of a round.
    pub(crate) step: usize,
    /// The first chunk of the next piece.
    chunk: u32,
}

/// How an [advance](Cursor::advance) ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Advance {
    /// All is done.
    Finished,
    /// There is nothing to do until something else happens.
    Blocked,
    /// It has had its share and can go on later.
    Yielded,
}

/// What a piece lacks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Missing {
    /// The end of a step of another thread block.
    Step(Wait),
    /// A message from that rank.
    Message(Rank),
    /// Room for a message to that rank.
    Room(Rank),
}

impl Cursor {
    /// The start of `instance`.
    pub(crate) fn new(instance: u32) -> Self {
        Self { pass: Round { instance, round: 0 }, ..Self::default() }
    }

    /// Goes on through `steps` as far as possible.
    pub(crate) fn advance(
        &mut self,
        steps: &[BoundStep],
        terms: &CallContext,
        memory: &mut impl ThreadBlockMemory,
        staging: &mut Staging,
    ) -> Advance {
        for _ in 0..SHARE {
            if self.pass.round == terms.slicing.rounds {
                return Advance::Finished;
            }
            let Some(bound) = steps.get(self.step) else {
                self.pass.round += 1;
                self.step = 0;
                continue;
            };
            if let Some(missing) = self.lacks(bound, memory) {
                memory.waits(self.step, missing);
                return Advance::Blocked;
            }
            memory.begins(self.step);
            self.fire(bound, terms, memory, staging);
            memory.moved(self.step, bound, self.pass.round);
            self.go_on(bound, terms, memory);
        }
        Advance::Yielded
    }

    /// The first thing that the next piece lacks; `None` if it can go on or is done.
    pub(crate) fn missing(
        &self,
        steps: &[BoundStep],
        terms: &CallContext,
        memory: &mut impl ThreadBlockMemory,
    ) -> Option<Missing> {
        // After the last round it stands where a next one would begin.
        let is_done = self.pass.round == terms.slicing.rounds;
        self.lacks(steps.get(self.step).filter(|_| !is_done)?, memory)
    }

    fn lacks(&self, bound: &BoundStep, memory: &mut impl ThreadBlockMemory) -> Option<Missing> {
        let step = &bound.step;
        // Waits hold for a whole step, so later pieces need not look again.
        let mut waits = step.waits.iter().copied().filter(|_| self.chunk == 0);
        if let Some(wait) = waits.find(|&wait| !memory.has_ended(wait, self.pass.round)) {
            return Some(Missing::Step(wait));
        }
        if let Some(from) = step.receives().find(|&from| !memory.has_message(from)) {
            return Some(Missing::Message(from));
        }
        step.sends().find(|&to| !memory.has_room(to)).map(Missing::Room)
    }

    /// Moves the next piece of `bound`, which lacks nothing.
    fn fire(
        &self,
        bound: &BoundStep,
        terms: &CallContext,
        memory: &mut impl ThreadBlockMemory,
        staging: &mut Staging,
    ) {
        let length = bound.piece_chunks(terms.slicing.chunks_per_message);
        let end = self.chunk.saturating_add(length).min(bound.step.count);
        let chunks = self.chunk..end;
        let message_bytes = chunks.len() * terms.slicing.slice_bytes(self.pass);
        StepWindow::new(bound, terms, self.pass, memory, staging).run(chunks);
        bound.step.receives().for_each(|from| memory.release(from, message_bytes));
        bound.step.sends().for_each(|to| memory.publish(to, message_bytes));
    }

    /// Moves past the piece that has fired, and signals the end of its step.
    fn go_on(
        &mut self,
        bound: &BoundStep,
        terms: &CallContext,
        memory: &mut impl ThreadBlockMemory,
    ) {
        let length = bound.piece_chunks(terms.slicing.chunks_per_message);
        self.chunk = self.chunk.saturating_add(length);
        if self.chunk < bound.step.count {
            return;
        }
        if bound.signals {
            memory.signal(self.step, self.pass.round);
        }
        self.step += 1;
        self.chunk = 0;
    }
}
