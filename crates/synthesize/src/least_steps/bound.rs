//! What no messages can beat, and its check.

use super::clauses::clauses;
use super::cut::{Crossing, StepCut, most_sent};
use super::lrat::{self, Lemma};
use super::model::StepProblem;
use crate::step_fault::StepBoundFault;

/// A number of steps below which nothing is enough.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StepBound {
    /// The least number that may be enough.
    pub least: u32,
    /// Why one step fewer is not.
    pub reason: StepReason,
}

/// Why one step fewer is not enough.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum StepReason {
    /// It would be none, and something must be sent.
    NoStep,
    /// What one rank has must come to all, and so many ranks cannot have it yet: in a step, each
    /// sends it on over no more links than it has.
    Growth,
    /// A cut in time.
    Cut(StepCut),
    /// The clauses for so many steps cannot be satisfied.
    Proof(Vec<Lemma>),
}

impl StepBound {
    /// A bound that needs no search, and no more than `most`, what is known to be enough.
    pub(super) fn without_search(problem: &StepProblem, most: u32) -> Self {
        let mut bound = Self { least: 1, reason: StepReason::NoStep };
        while bound.least < most {
            let Some(reason) = reason(problem, bound.least) else { break };
            bound = Self { least: bound.least + 1, reason };
        }
        bound
    }

    /// Whether the witness shows that one step fewer than the bound is not enough.
    ///
    /// # Errors
    ///
    /// What is wrong with it.
    pub(super) fn check(&self, problem: &StepProblem) -> Result<(), StepBoundFault> {
        let steps = self.least.saturating_sub(1);
        let is_shown = match &self.reason {
            StepReason::NoStep => steps == 0,
            StepReason::Growth => grows_too_slowly(problem, steps),
            StepReason::Cut(cut) => cut.shows(problem, steps),
            StepReason::Proof(lemmas) => {
                let clauses = clauses(problem, steps).ok_or(StepBoundFault::TooLarge { steps })?;
                return lrat::check(&clauses.cnf, lemmas).map_err(StepBoundFault::Proof);
            }
        };
        if is_shown { Ok(()) } else { Err(StepBoundFault::NotShown { steps }) }
    }
}

impl StepBound {
    /// Why one step fewer is not enough, in words.
    pub(super) fn why(&self, problem: &StepProblem) -> String {
        let fewer = self.least.saturating_sub(1);
        let steps =
            |count: u32| if count == 1 { "1 step".to_owned() } else { format!("{count} steps") };
        match &self.reason {
            StepReason::NoStep => "something must be sent".to_owned(),
            StepReason::Growth => format!(
                "in {} what one rank has comes to {} of {} ranks at most",
                steps(fewer),
                reached(problem, fewer),
                problem.model.ranks
            ),
            StepReason::Cut(cut) => {
                let Crossing { blocks, carried } = cut.crossing(problem, fewer);
                format!(
                    "in {} links carry {carried} of {blocks} blocks across a cut in time",
                    steps(fewer)
                )
            }
            StepReason::Proof(lemmas) => {
                format!("a proof of {} lemmas that {} cannot do it", lemmas.len(), steps(fewer))
            }
        }
    }
}

/// Why `steps` are not enough, if no search is needed to know.
fn reason(problem: &StepProblem, steps: u32) -> Option<StepReason> {
    if grows_too_slowly(problem, steps) {
        return Some(StepReason::Growth);
    }
    StepCut::search(problem, steps).map(StepReason::Cut)
}

/// Whether a block cannot be on all ranks after `steps`, for want of links that send it on.
fn grows_too_slowly(problem: &StepProblem, steps: u32) -> bool {
    reached(problem, steps) < problem.model.ranks
}

/// How many ranks have a block after `steps` at most, or as many as there are.
fn reached(problem: &StepProblem, steps: u32) -> usize {
    let (ranks, times) = (problem.model.ranks, 1 + most_sent(&problem.model));
    let grown = |reached: usize, _| if reached < ranks { reached * times } else { reached };
    (0..steps).fold(1, grown).min(ranks)
}
