//! The steps at which a sum becomes complete.
//!
//! An average of integers divides once, where the last contribution arrives. That place is a
//! property of the steps if there is a set of them such that each combines its sources into
//! complete sums for all its chunks, no other step does so for any, and nothing complete is ever
//! combined again.

use msccl_ir::StepRef;
use rustc_hash::FxHashSet;

use super::expression::{Expressions, ValueId};
use super::promise::Verdict;
use super::symbols::End;
use crate::program::Program;

/// A set of steps, one bit each.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Completion {
    /// For every rank, the first step number of each of its thread blocks.
    first_step: Vec<Vec<u32>>,
    bits: Vec<u64>,
}

impl Completion {
    /// Whether the step completes a sum: this is where an average of integers divides.
    pub fn contains(&self, at: StepRef) -> bool {
        let blocks = self.first_step.get(at.rank.index());
        let first = blocks.and_then(|blocks| blocks.get(at.tb.index()));
        first.is_some_and(|first| {
            let id = (first + at.step.0) as usize;
            self.bits.get(id / 64).is_some_and(|word| word >> (id % 64) & 1 == 1)
        })
    }

    /// How many steps complete a sum.
    pub fn len(&self) -> usize {
        self.bits.iter().map(|word| word.count_ones() as usize).sum()
    }

    /// Whether no step does: the collective sums nothing.
    pub fn is_empty(&self) -> bool {
        self.bits.iter().all(|word| *word == 0)
    }

    fn none(program: &Program<'_>) -> Self {
        let words = program.step_count().div_ceil(64);
        Self { first_step: program.first_steps(), bits: vec![0; words] }
    }

    fn insert(&mut self, id: usize) {
        self.bits[id / 64] |= 1 << (id % 64);
    }
}

/// The completing steps of a run with a right result, if they are a property of the steps.
pub(super) fn of(program: &Program<'_>, end: &End, verdict: &Verdict) -> Option<Completion> {
    let complete: FxHashSet<_> = verdict.completed.iter().copied().collect();
    let mut completion = Completion::none(program);
    for chunks in end.computed.chunk_by(|a, b| a.0 == b.0) {
        let at = chunks[0].0;
        let completed = chunks.iter().filter(|(_, value)| complete.contains(value)).count();
        if completed == 0 {
            continue;
        }
        if completed != program.step(at).count as usize {
            return None;
        }
        completion.insert(program.id(at).index());
    }
    let sizes = super::promise::sum_sizes(&program.algorithm().collective);
    let nested = sizes.len() > 1 && any_nested(&end.expressions, &complete);
    (!nested).then_some(completion)
}

/// Whether a complete sum is part of another complete sum. Sums of equal size cannot be.
fn any_nested(expressions: &Expressions, complete: &FxHashSet<ValueId>) -> bool {
    complete.iter().any(|&sum| {
        let mut open = expressions.summands(sum).to_vec();
        while let Some(value) = open.pop() {
            if complete.contains(&value) {
                return true;
            }
            open.extend(expressions.summands(value));
        }
        false
    })
}
