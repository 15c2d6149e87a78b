//! Structural validation: is an algorithm well formed, and within a target's limits?
//!
//! The checks stand in five rungs, each of which may rely on those before it:
//!
//! 1. `sizes`: ranks, chunk counts, byte range and contract are sane, and small enough that every
//!    later index fits 32 bits and every later pass ends;
//! 2. `links`: every link end has one owner and a partner;
//! 3. `steps`: operands, regions and waits of every step, and the step form of the target;
//! 4. `merged`: steps that the target runs as one, as they say;
//! 5. `limits`: the figures in [`crate::Limits`] and [`crate::Rules`].
//!
//! A rung with a violation ends validation, so that no message is a consequence of an earlier one.
//! Time is linear in steps and operands, up to sorting.

mod limits;
mod links;
mod merged;
mod runtime;
mod sizes;
mod steps;

use std::fmt;

use msccl_collective::{Rank, TbIndex};

use crate::{Algorithm, StepRef, Target};

/// Most violations that [`validate`] returns.
pub const MOST_VIOLATIONS: usize = 64;

/// Most slots that all buffers of all ranks may have together.
pub const MOST_SLOTS: u64 = 1 << 26;

/// Most chunks that all steps may read or write together.
pub const MOST_CHUNK_MOVES: u64 = 1 << 28;

/// Chunks that a step brings with it: an algorithm may have, and its steps may move, so many more
/// chunks for each step. So what checking an algorithm takes is bounded by what its file holds, not
/// by what it claims.
pub const CHUNKS_PER_STEP: u64 = 1 << 12;

/// Slots that any algorithm may have, whatever its steps.
pub const FREE_SLOTS: u64 = 1 << 18;

/// Chunks that the steps of any algorithm may move.
pub const FREE_CHUNK_MOVES: u64 = 1 << 20;

/// Something that keeps an algorithm from having a meaning, or from fitting a target.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Violation {
    /// Whether the algorithm is malformed, or merely too large for the target.
    pub class: ViolationClass,
    /// Where, if it concerns one step.
    pub at: Option<StepRef>,
    /// What was expected and what was found.
    pub message: String,
}

/// What a violation means.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ViolationClass {
    /// The algorithm has no meaning on any target of this form.
    Structure,
    /// It has one, but exceeds a limit of the target.
    Limits,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.at {
            Some(at) => write!(f, "{at}: {}", self.message),
            None => f.write_str(&self.message),
        }
    }
}

/// Checks structure first and, if that holds, the limits of `target`; gathers every violation of a
/// rung up to [`MOST_VIOLATIONS`].
///
/// # Errors
///
/// The violations, in the order of ranks, thread blocks and steps; never an empty list.
pub fn validate(algorithm: &Algorithm, target: &Target) -> Result<(), Vec<Violation>> {
    let rungs: [fn(&Algorithm, &Target, &mut Report); 5] =
        [sizes::check, links::check, steps::check, merged::check, limits::check];
    for rung in rungs {
        let mut report = Report::default();
        rung(algorithm, target, &mut report);
        if !report.violations.is_empty() {
            return Err(report.violations);
        }
    }
    Ok(())
}

/// The violations found so far, bounded.
#[derive(Default)]
struct Report {
    violations: Vec<Violation>,
}

impl Report {
    /// Records a violation of `class`; `message` is only made while there is room.
    fn add(
        &mut self,
        class: ViolationClass,
        at: Option<StepRef>,
        message: impl FnOnce() -> String,
    ) {
        if !self.is_full() {
            self.violations.push(Violation { class, at, message: message() });
        }
    }

    fn is_full(&self) -> bool {
        self.violations.len() >= MOST_VIOLATIONS
    }
}

/// A thread block in a message: `r3 tb2`.
struct Tb(Rank, TbIndex);

impl fmt::Display for Tb {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.0, self.1)
    }
}
