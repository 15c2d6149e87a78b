//! The clauses that say whether so many steps are enough, and the messages of their solutions.

use super::cnf::{Cnf, Literal};
use super::model::{Goal, StepModel, StepProblem};
use super::spread::{self, Message, SpreadClauses};
use super::sum::{self, SumClauses, SumMessages};

/// More literals than this are not tried: they would fill memory.
const LITERALS_MAX: usize = 40_000_000;

/// What is sent when.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Messages {
    /// Blocks go to all ranks. Against links and time, sums of blocks come from all.
    Spread(Vec<Message>),
    /// All ranks get the sum.
    Sum(SumMessages),
}

impl Messages {
    /// The last step in which something is sent.
    pub(super) fn steps(&self) -> u32 {
        match self {
            Messages::Spread(messages) => messages.iter().map(|it| it.step).max().unwrap_or(0),
            Messages::Sum(sums) => sums.steps(),
        }
    }
}

/// Clauses that can be satisfied if and only if so many steps are enough.
pub(super) struct StepClauses<'a> {
    /// The clauses.
    pub cnf: Cnf,
    meaning: Meaning,
    model: &'a StepModel,
}

/// What the variables mean.
enum Meaning {
    Spread(SpreadClauses),
    Sum(SumClauses),
}

/// The clauses for so many steps; `None` if they would be too many.
pub(super) fn clauses(problem: &StepProblem, steps: u32) -> Option<StepClauses<'_>> {
    let model = &problem.model;
    let size = match &problem.goal {
        Goal::Spread(roots) => spread::size(model, roots.len(), steps),
        Goal::SumEverywhere => sum::size(model, steps),
    };
    if size > LITERALS_MAX {
        return None;
    }
    let mut cnf = Cnf::default();
    let meaning = match &problem.goal {
        Goal::Spread(roots) => Meaning::Spread(SpreadClauses::new(&mut cnf, model, roots, steps)),
        Goal::SumEverywhere => Meaning::Sum(SumClauses::new(&mut cnf, model, steps)),
    };
    Some(StepClauses { cnf, meaning, model })
}

impl StepClauses<'_> {
    /// The messages of a solution.
    pub(super) fn messages(&self, values: &[bool]) -> Messages {
        let is_true = |literal: Literal| values[literal.variable()] == literal.is_positive();
        match &self.meaning {
            Meaning::Spread(clauses) => Messages::Spread(clauses.messages(is_true)),
            Meaning::Sum(clauses) => Messages::Sum(clauses.messages(self.model, is_true)),
        }
    }
}
