//! Exact happens-before over all ranks, for the conflicts that waits on one rank do not order.
//!
//! A step of several chunks streams: it may pass its first chunk on before it takes its last. So a
//! step has two moments, its beginning and its end. Program order and waits lead from an end to a
//! beginning; a message leads from beginning to beginning and from end to end. One step wholly
//! precedes another if a path leads from its end to the other's beginning. A path of messages alone
//! leads from end to end only: then chunk `i` of the one precedes chunk `j` of the other exactly if
//! `i` is at most `j`.
//!
//! What is near is found by going back from the later step ([`search`]). Clocks answer many
//! questions in one pass: a column for each thread block that an earlier access belongs to,
//! [`COLUMNS`] at a time, and for every step how far each of those is known to have come.

use msccl_ir::MessageOrder;
use msccl_machine::TbId;
use rustc_hash::{FxHashMap, FxHashSet};

use super::{Conflict, search};
use crate::program::{At, Program, StepId};

/// How many thread blocks one pass follows.
const COLUMNS: usize = 32;

/// For each followed thread block, how many of its steps have ended.
type Clock = [u32; COLUMNS];

/// Conflicts that nothing orders; none only if there is none. Once a pass has found some, later
/// passes are spared.
pub(super) fn not_ordered(
    program: &Program<'_>,
    order: &[At],
    mut conflicts: Vec<Conflict>,
    messages: MessageOrder,
) -> Vec<Conflict> {
    if messages == MessageOrder::Loads {
        let stores = conflicts.iter().filter(|conflict| conflict.earlier.writes);
        let races: Vec<_> = stores.copied().collect();
        if !races.is_empty() {
            return races;
        }
    }
    if !conflicts.is_empty() {
        let blocks = search::blocks_in_question(&conflicts);
        conflicts = search::not_found(program, order, conflicts, [blocks, COLUMNS]);
    }
    conflicts.sort_by_key(|conflict| conflict.earlier.at.tb);
    let mut streams = Streams { program, messages, reached: FxHashMap::default() };
    let mut rest = conflicts.as_slice();
    while !rest.is_empty() {
        let (columns, followed, later) = next_columns(rest);
        let ordered = Pass::new(program, columns, followed).run(order);
        let unordered = followed.iter().filter(|conflict| {
            !ordered.contains(&pair(program, conflict)) && !streams.order(conflict)
        });
        let races: Vec<_> = unordered.copied().collect();
        if !races.is_empty() {
            return races;
        }
        rest = later;
    }
    Vec::new()
}

/// The columns of the next pass, the conflicts that it decides, and those that are left.
fn next_columns(conflicts: &[Conflict]) -> (FxHashMap<TbId, usize>, &[Conflict], &[Conflict]) {
    let mut columns = FxHashMap::default();
    let end = conflicts.iter().position(|conflict| {
        let next = columns.len();
        *columns.entry(conflict.earlier.at.tb).or_insert(next) == COLUMNS
    });
    columns.retain(|_, column| *column < COLUMNS);
    let (followed, later) = conflicts.split_at(end.unwrap_or(conflicts.len()));
    (columns, followed, later)
}

/// The steps of a conflict.
fn pair(program: &Program<'_>, conflict: &Conflict) -> (StepId, StepId) {
    (program.id(conflict.earlier.at), program.id(conflict.later.at))
}

/// Whether the step exchanges several chunks on a link.
pub(super) fn streams(program: &Program<'_>, at: At) -> bool {
    let step = program.step(at);
    step.count > 1 && step.receives().chain(step.sends()).next().is_some()
}

/// One pass over the run with the clocks of some thread blocks.
struct Pass<'a> {
    program: &'a Program<'a>,
    columns: FxHashMap<TbId, usize>,
    /// The questions of each later step: the earlier ones in these columns.
    questions: FxHashMap<StepId, Vec<At>>,
    /// At the end of every step.
    ends: Vec<Clock>,
    /// At the beginning of every step that streams.
    beginnings: FxHashMap<StepId, Clock>,
}

impl<'a> Pass<'a> {
    fn new(
        program: &'a Program<'a>,
        columns: FxHashMap<TbId, usize>,
        conflicts: &[Conflict],
    ) -> Self {
        let mut questions: FxHashMap<_, Vec<At>> = FxHashMap::default();
        for Conflict { earlier, later } in conflicts {
            questions.entry(program.id(later.at)).or_default().push(earlier.at);
        }
        let ends = vec![[0; COLUMNS]; program.step_count()];
        Self { program, columns, questions, ends, beginnings: FxHashMap::default() }
    }

    /// The pairs in question of steps of which the one wholly precedes the other.
    fn run(mut self, order: &[At]) -> FxHashSet<(StepId, StepId)> {
        let mut ordered = FxHashSet::default();
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
        ordered
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
    messages: MessageOrder,
    /// The steps that lead to a step by messages alone.
    reached: FxHashMap<StepId, FxHashSet<StepId>>,
}

impl Streams<'_> {
    fn order(&mut self, conflict: &Conflict) -> bool {
        let later = conflict.later;
        if !conflict.is_streamed(self.messages) || !streams(self.program, later.at) {
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
