//! The search for the least number of steps: from what is found at once, one step fewer at a time.

use super::bound::{StepBound, StepReason};
use super::clauses::{Messages, clauses};
use super::hints;
use super::lrat::Lemma;
use super::model::{Goal, StepModel, StepProblem};
use super::solver::{Answer, solve};
use super::spread::greedy;
use super::sum::SumMessages;
use crate::time_limit::TimeLimit;

/// A proof of more literals and hints than this is not kept: it would be most of the program.
const PROOF_NUMBERS_MAX: usize = 500_000;

/// What the search found.
pub(super) struct SearchOutcome {
    /// The messages in the fewest steps.
    pub messages: Messages,
    /// What no messages can beat.
    pub bound: StepBound,
    /// Whether the search was given up for want of time or memory.
    pub is_given_up: bool,
}

/// The fewest steps that are found before the time is over.
pub(super) fn search(problem: &StepProblem, limit: TimeLimit) -> SearchOutcome {
    let mut messages = first(problem);
    let mut bound = StepBound::without_search(problem, messages.steps());
    let mut is_given_up = false;
    while messages.steps() > bound.least && !is_given_up {
        let fewer = messages.steps() - 1;
        match attempt(problem, fewer, limit) {
            Attempt::Messages(found) => messages = found,
            Attempt::Impossible(proof) => {
                bound = StepBound { least: fewer + 1, reason: StepReason::Proof(proof) };
            }
            Attempt::GivenUp => is_given_up = true,
        }
    }
    SearchOutcome { messages, bound, is_given_up }
}

/// Messages that are found at once.
fn first(problem: &StepProblem) -> Messages {
    let model = &problem.model;
    match &problem.goal {
        Goal::Spread(roots) => Messages::Spread(greedy(model, roots)),
        Goal::SumEverywhere => Messages::Sum(first_sums(model)),
    }
}

/// Everybody sends everybody what it has, or the sum goes to a root and back.
fn first_sums(model: &StepModel) -> SumMessages {
    let reversed = model.reversed();
    let ranks = model.ranks;
    let all: Vec<usize> = (0..ranks).collect();
    let gathered = SumMessages::of_spread(ranks, &greedy(model, &all));
    let over = |root: usize| {
        let (up, down) = (greedy(&reversed, &[root]), greedy(model, &[root]));
        SumMessages::over_root(root, ranks, &up, &down)
    };
    let rooted = (0..ranks).map(over);
    rooted.fold(gathered, |best, next| if next.steps() < best.steps() { next } else { best })
}

/// What became of a search for so many steps.
enum Attempt {
    Messages(Messages),
    Impossible(Vec<Lemma>),
    GivenUp,
}

fn attempt(problem: &StepProblem, steps: u32, limit: TimeLimit) -> Attempt {
    let Some(clauses) = clauses(problem, steps).filter(|_| !limit.is_over()) else {
        return Attempt::GivenUp;
    };
    match solve(&clauses.cnf, limit) {
        Answer::Solution(values) => Attempt::Messages(clauses.messages(&values)),
        Answer::None(learnt) => {
            let proof = hints::proof(&clauses.cnf, &learnt, limit);
            let short = proof.filter(|lemmas| numbers_of(lemmas) <= PROOF_NUMBERS_MAX);
            short.map_or(Attempt::GivenUp, Attempt::Impossible)
        }
        Answer::TimeOver => Attempt::GivenUp,
    }
}

fn numbers_of(lemmas: &[Lemma]) -> usize {
    lemmas.iter().map(|lemma| lemma.literals.len() + lemma.hints.len()).sum()
}
