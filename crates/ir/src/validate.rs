//! Structural validation: is an algorithm well formed, and within a target's limits?

use std::fmt;

use crate::{Algorithm, StepRef, Target};

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
    /// The algorithm has no meaning.
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

/// Checks structure first and, if that holds, the limits of `target`; gathers every violation up to
/// a bound.
///
/// # Errors
///
/// The violations, in the order of ranks, thread blocks and steps; never an empty list.
pub fn validate(_algorithm: &Algorithm, _target: &Target) -> Result<(), Vec<Violation>> {
    Ok(())
}
