//! Exact happens-before over all ranks, for the conflicts that waits on one rank do not order.
//!
//! A step of several chunks streams: it may pass its first chunk on before it takes its last. So a
//! step has two moments, its beginning and its end. Program order and waits lead from an end to a
//! beginning; a message leads from beginning to beginning and from end to end. One step wholly
//! precedes another if a path leads from its end to the other's beginning. A path of messages alone
//! leads from end to end only: then chunk `i` of the one precedes chunk `j` of the other exactly if
//! `i` is at most `j`.
//!
//! Clocks answer many questions in one pass: a column for each thread block that an earlier access
//! belongs to, [`COLUMNS`] at a time, and for every step how far each of those is known to have come.

use msccl_machine::TbId;
use rustc_hash::{FxHashMap, FxHashSet};

use super::Conflict;
use crate::program::{At, Program, StepId};

/// How many thread blocks one pass follows.
const COLUMNS: usize = 32;

/// For each followed thread block, how many of its steps have ended.
type Clock = [u32; COLUMNS];

/// The conflicts that nothing orders.
pub(super) fn not_ordered(
    program: &Program<'_>,
    order: &[At],
    conflicts: &[Conflict],
) -> Vec<Conflict> {
    if conflicts.is_empty() {
        return Vec::new();
    }
    let mut followed: Vec<_> = conflicts.iter().map(|conflict| conflict.earlier.at.tb).collect();
    followed.sort_unstable();
    followed.dedup();
    let mut ordered = FxHashSet::default();
    for columns in followed.chunks(COLUMNS) {
        Pass::new(program, columns, conflicts).run(order, &mut ordered);
    }
    let mut streams = Streams { program, reached: FxHashMap::default() };
    let unordered = conflicts
        .iter()
        .filter(|conflict| !ordered.contains(&pair(program, conflict)) && !streams.order(conflict));
    unordered.copied().collect()
}

/// The steps of a conflict.
fn pair(program: &Program<'_>, conflict: &Conflict) -> (StepId, StepId) {
    (program.id(conflict.earlier.at), program.id(conflict.later.at))
}

/// Whether the step exchanges several chunks on a link.
fn streams(program: &Program<'_>, at: At) -> bool {
    let step = program.step(at);
    step.count > 1 && step.receives().chain(step.sends()).next().is_some()
}

/// One pass over the run with the clocks of some thread blocks.
struct Pass<'a> {
    program: &'a Program<'a>,
    columns: FxHashMap<TbId, usize>,
    /// What is asked of each later step: the earlier ones in these columns.
    questions: FxHashMap<StepId, Vec<At>>,
    /// At the end of every step.
    ends: Vec<Clock>,
    /// At the beginning of every step that streams.
    beginnings: FxHashMap<StepId, Clock>,
}

impl<'a> Pass<'a> {
    fn new(program: &'a Program<'a>, columns: &[TbId], conflicts: &[Conflict]) -> Self {
        let columns: FxHashMap<_, _> =
            columns.iter().enumerate().map(|(column, &tb)| (tb, column)).collect();
        let mut questions: FxHashMap<_, Vec<At>> = FxHashMap::default();
        for Conflict { earlier, later } in conflicts {
            if columns.contains_key(&earlier.at.tb) {
                let asked = questions.entry(program.id(later.at)).or_default();
                if asked.last() != Some(&earlier.at) {
                    asked.push(earlier.at);
                }
            }
        }
        let ends = vec![[0; COLUMNS]; program.step_count()];
        Self { program, columns, questions, ends, beginnings: FxHashMap::default() }
    }

    fn run(mut self, order: &[At], ordered: &mut FxHashSet<(StepId, StepId)>) {
        for &at in order {
            let id = self.program.id(at);
            let beginning = self.beginning(at, id);
            for &earlier in self.questions.get(&id).into_iter().flatten() {
                let column = self.columns[&earlier.tb];
                if beginning[column] > earlier.step {
                    ordered.insert((self.program.id(earlier), id));
                }
            }
            self.ends[id.index()] = self.end(at, id, beginning);
        }
    }

    /// What has ended before the step's first chunk.
    fn beginning(&self, at: At, id: StepId) -> Clock {
        let mut clock = [0; COLUMNS];
        if at.step > 0 {
            clock = self.ends[id.index() - 1];
        }
        for wait in self.program.waits(at) {
            join(&mut clock, &self.ends[self.program.id(wait).index()]);
        }
        for &sender in self.program.senders(id) {
            // A sender streams if and only if its receiver does: their counts are equal.
            join(&mut clock, self.beginnings.get(&sender).unwrap_or(&self.ends[sender.index()]));
        }
        clock
    }

    /// What has ended after the step's last chunk: it, too.
    fn end(&mut self, at: At, id: StepId, beginning: Clock) -> Clock {
        let mut clock = beginning;
        if streams(self.program, at) {
            self.beginnings.insert(id, beginning);
            for &sender in self.program.senders(id) {
                join(&mut clock, &self.ends[sender.index()]);
            }
        }
        if let Some(&column) = self.columns.get(&at.tb) {
            clock[column] = at.step + 1;
        }
        clock
    }
}

fn join(into: &mut Clock, from: &Clock) {
    for (into, &from) in into.iter_mut().zip(from) {
        *into = from.max(*into);
    }
}

/// Order between chunks of steps that one stream of messages runs through.
struct Streams<'a> {
    program: &'a Program<'a>,
    /// The steps that lead to a step by messages alone.
    reached: FxHashMap<StepId, FxHashSet<StepId>>,
}

impl Streams<'_> {
    fn order(&mut self, conflict: &Conflict) -> bool {
        let Conflict { earlier, later } = conflict;
        let in_order = earlier.offset <= later.offset;
        if !in_order || !streams(self.program, later.at) {
            return false;
        }
        let (from, to) = pair(self.program, conflict);
        let program = self.program;
        self.reached.entry(to).or_insert_with(|| upstream(program, to)).contains(&from)
    }
}

/// All steps from which messages lead to `step` without a detour through program order or waits.
fn upstream(program: &Program<'_>, step: StepId) -> FxHashSet<StepId> {
    let mut reached = FxHashSet::default();
    let mut open = vec![step];
    while let Some(here) = open.pop() {
        for &sender in program.senders(here) {
            if reached.insert(sender) {
                open.push(sender);
            }
        }
    }
    reached
}
