//! Which statement is responsible for a wrong slot.
//!
//! What a slot lacks was forgotten somewhere, and nobody can say where, so the statement that wrote
//! the slot last is shown. What it counts twice came in by one statement, and copies of that are
//! innocent: a sum never loses what it holds, so the first statement whose result had the
//! contribution too often, before the slot, is shown.

use std::collections::BTreeMap;

use msccl_collective::{Contribution, Placement};
use msccl_syntax::Diagnostic;
use rustc_hash::FxHashMap;

use super::fault::{SlotFault, companions};
use super::{At, ChunkDag, Slots, StatementId, after};

/// Most statements reported.
const MAX_REPORTS: usize = 20;

/// The statement of the algorithm's head.
const HEAD: StatementId = StatementId(0);

/// A statement and what it got wrong.
struct ResponsibleStatement {
    /// Where the fault came in.
    responsible: StatementId,
    /// What that did.
    did: Did,
    /// The statement that wrote the first slot last.
    last: StatementId,
    fault: SlotFault,
    /// Further wrong slots.
    others: Vec<At>,
}

/// What a statement did to a slot.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Did {
    /// It added what was there already: one contribution, or several.
    Add { several: bool },
    /// It wrote it, after all others.
    Write,
    /// No statement wrote it: the head is responsible.
    Nothing,
}

/// One diagnostic for each responsible statement, by the example of its first slot.
pub(super) fn reports(dag: &ChunkDag, slots: &Slots<'_>, wrong: &[At]) -> Vec<Diagnostic> {
    let mut reports: Vec<ResponsibleStatement> = Vec::new();
    for (last, wrong) in last_writers(dag, slots, wrong).into_iter().take(MAX_REPORTS) {
        let Some((&first, rest)) = wrong.split_first() else { continue };
        let report = ResponsibleStatement::of(dag, slots, last, first);
        let known = reports.iter_mut().find(|known| {
            matches!(known.did, Did::Add { .. })
                && (known.responsible, known.did) == (report.responsible, report.did)
        });
        match known {
            Some(known) => known.others.extend(wrong),
            None => reports.push(ResponsibleStatement { others: rest.to_vec(), ..report }),
        }
    }
    reports.iter_mut().for_each(|report| report.others.sort_unstable());
    reports.iter().map(|report| report.explain(dag)).collect()
}

/// The wrong slots by the statement that wrote them last, in program order; those that none wrote
/// come last, under the head.
fn last_writers(dag: &ChunkDag, slots: &Slots<'_>, wrong: &[At]) -> Vec<(StatementId, Vec<At>)> {
    let number = |at: &At| slots.number(slots.memory(at.rank, at.slot));
    let mut open: FxHashMap<usize, At> =
        wrong.iter().filter_map(|at| Some((number(at)?, *at))).collect();
    let mut found: BTreeMap<StatementId, Vec<At>> = BTreeMap::new();
    for op in dag.ops.iter().rev() {
        for chunk in 0..op.count {
            let written = slots.number(after(op.to, chunk));
            if let Some(at) = written.and_then(|written| open.remove(&written)) {
                found.entry(op.statement).or_default().push(at);
            }
        }
    }
    let mut untouched = found.remove(&HEAD).unwrap_or_default();
    untouched.extend(open.into_values());
    let mut found: Vec<_> = found.into_iter().collect();
    if !untouched.is_empty() {
        found.push((HEAD, untouched));
    }
    found.iter_mut().for_each(|(_, slots)| slots.sort_unstable());
    found
}

impl ResponsibleStatement {
    /// What is wrong with the slot `at`, which `last` wrote last.
    fn of(dag: &ChunkDag, slots: &Slots<'_>, last: StatementId, at: At) -> Self {
        let fault = SlotFault::of(dag, slots, at);
        let doubling = fault.doubled().and_then(|(contribution, most, several)| {
            let responsible = first_excess(dag, slots, at, contribution, most)?;
            Some((responsible, Did::Add { several }))
        });
        let (responsible, did) = match doubling {
            Some((responsible, did)) if responsible != HEAD => (responsible, did),
            _ if last == HEAD => (HEAD, Did::Nothing),
            _ => (last, Did::Write),
        };
        ResponsibleStatement { responsible, did, last, fault, others: Vec::new() }
    }

    fn explain(&self, dag: &ChunkDag) -> Diagnostic {
        let ResponsibleStatement { responsible, did, last, fault, others } = self;
        let origin = &dag.statements[responsible.0 as usize];
        let mut diagnostic = Diagnostic::error(origin.span, fault.describe(dag));
        diagnostic = diagnostic.saying(match did {
            Did::Add { several: false } => "this adds it again",
            Did::Add { several: true } => "this adds them again",
            Did::Write => "this wrote it last",
            Did::Nothing => "no statement writes it",
        });
        for caller in origin.called_from.iter().take(3) {
            diagnostic = diagnostic.label(*caller, "called from here");
        }
        if dag.placement == Placement::InPlace {
            diagnostic = diagnostic.hint("in place, input and output are one memory");
        }
        let final_span = dag.statements[last.0 as usize].span;
        if *last != HEAD && final_span != origin.span {
            diagnostic = diagnostic.label(final_span, "this wrote it last");
        }
        companions(dag, others).into_iter().fold(diagnostic, Diagnostic::hint)
    }
}

/// How often a slot holds a contribution, and by which op that became too often.
#[derive(Clone, Copy, Default)]
struct Tally {
    times: u64,
    excess: Option<StatementId>,
}

/// The statement by which what ends up in the slot `at` came to hold `contribution` more than
/// `most` times.
fn first_excess(
    dag: &ChunkDag,
    slots: &Slots<'_>,
    at: At,
    contribution: Contribution,
    most: u64,
) -> Option<StatementId> {
    let mut tallies = vec![Tally::default(); slots.len];
    for (number, _) in slots.given().filter(|(_, given)| *given == contribution) {
        tallies[number] = Tally { times: 1, excess: None };
    }
    for op in &dag.ops {
        for chunk in 0..op.count {
            let mut sum = Tally::default();
            let sources = op.sources.iter().filter_map(|&from| slots.number(after(from, chunk)));
            for Tally { times, excess } in sources.map(|number| tallies[number]) {
                sum.times = sum.times.saturating_add(times);
                sum.excess = sum.excess.or(excess);
            }
            if sum.times > most {
                sum.excess = sum.excess.or(Some(op.statement));
            }
            if let Some(number) = slots.number(after(op.to, chunk)) {
                tallies[number] = sum;
            }
        }
    }
    tallies[slots.number(slots.memory(at.rank, at.slot))?].excess
}
