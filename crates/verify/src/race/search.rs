//! Order through few steps, found by going back from the later one.
//!
//! Where many thread blocks are in question and each answer is near, as in exchanges between all
//! pairs whose order comes from messages, it is cheaper to go back from every later step than to
//! carry clocks through the whole run. The search visits what leads to the beginning of the later
//! step, nearest first, until it has met the ends of all earlier ones in question. It gives up when
//! it has cost as much as clocks would, and clocks decide what is left.

use msccl_machine::TbId;

use super::Conflict;
use super::global::streams;
use crate::program::{At, Program, StepId};

/// Cost of one visit, in steps of a pass with clocks.
const VISIT_COST: usize = 2;

/// A moment of a step: its end, or, of a step that streams, its beginning. Twice the step, and one
/// more for its end.
type Moment = u32;

fn end(id: StepId) -> Moment {
    2 * id.0 + 1
}

/// The conflicts that a search does not show to be ordered. There are `blocks` thread blocks in
/// question, of which a pass with clocks follows `columns`.
pub(super) fn not_found(
    program: &Program<'_>,
    order: &[At],
    mut conflicts: Vec<Conflict>,
    [blocks, columns]: [usize; 2],
) -> Vec<Conflict> {
    let budget = blocks.div_ceil(columns) * program.step_count() / VISIT_COST;
    conflicts.sort_by_key(|conflict| program.id(conflict.later.at));
    let mut search = RaceSearch::new(program, order, budget);
    let mut left = Vec::new();
    for questions in conflicts.chunk_by(|a, b| a.later.at == b.later.at) {
        if search.budget > 0 {
            search.go_back(program, questions);
        }
        let is_unknown =
            |conflict: &&Conflict| search.budget == 0 || !search.has_met(program, conflict);
        left.extend(questions.iter().filter(is_unknown).copied());
    }
    left
}

/// How many thread blocks the earlier accesses belong to.
pub(super) fn blocks_in_question(conflicts: &[Conflict]) -> usize {
    let mut blocks: Vec<TbId> = conflicts.iter().map(|conflict| conflict.earlier.at.tb).collect();
    blocks.sort_unstable();
    blocks.dedup();
    blocks.len()
}

struct RaceSearch {
    /// What leads to every moment at once: moment `m` has those from `first[m]` to `first[m + 1]`.
    first: Vec<u32>,
    before: Vec<Moment>,
    /// By step: whether it streams.
    streaming: Vec<bool>,
    /// By step: its place in the run, which extends the order that is looked for.
    place: Vec<u32>,
    /// Visits that are left.
    budget: usize,
    /// The number of the search under way, and by moment the last one that has visited it.
    number: u32,
    visited: Vec<u32>,
    open: Vec<Moment>,
}

impl RaceSearch {
    fn new(program: &Program<'_>, order: &[At], budget: usize) -> Self {
        let mut place = vec![0; program.step_count()];
        for (at, number) in order.iter().zip(0..) {
            place[program.id(*at).index()] = number;
        }
        let mut search = Self {
            first: vec![0],
            before: Vec::new(),
            streaming: program.ats().map(|at| streams(program, at)).collect(),
            place,
            budget,
            number: 0,
            visited: vec![0; 2 * program.step_count()],
            open: Vec::new(),
        };
        program.ats().for_each(|at| search.note(program, at));
        search
    }

    /// Notes what leads to the beginning and to the end of a step. A step that does not stream has
    /// an end alone, to which all leads that leads to its beginning.
    fn note(&mut self, program: &Program<'_>, at: At) {
        let id = program.id(at);
        if self.streaming[id.index()] {
            self.lead_to_beginning(program, at);
            self.first.push(self.before.len() as u32);
            self.before.push(2 * id.0);
            self.before.extend(program.senders(id).iter().map(|&sender| end(sender)));
        } else {
            self.first.push(self.before.len() as u32);
            self.lead_to_beginning(program, at);
        }
        self.first.push(self.before.len() as u32);
    }

    fn lead_to_beginning(&mut self, program: &Program<'_>, at: At) {
        let streaming = &self.streaming;
        let id = program.id(at);
        // A sender streams if and only if its receiver does.
        let moment = |sender: StepId| end(sender) - u32::from(streaming[sender.index()]);
        self.before.extend(program.senders(id).iter().map(|&sender| moment(sender)));
        self.before.extend(program.waits(at).map(|wait| end(program.id(wait))));
        self.before.extend((at.step > 0).then(|| end(StepId(id.0 - 1))));
    }

    /// Visits what leads to the later step, until all earlier ones are met or nothing is left.
    fn go_back(&mut self, program: &Program<'_>, questions: &[Conflict]) {
        let Some(later) = questions.first().map(|conflict| program.id(conflict.later.at)) else {
            return;
        };
        self.number += 1;
        self.open.clear();
        let earlier = || questions.iter().map(|conflict| program.id(conflict.earlier.at));
        // What comes before all of them in the run does not come after any.
        let horizon = earlier().map(|id| self.place[id.index()]).min().unwrap_or(0);
        let streams = self.streaming[later.index()];
        self.leave(2 * later.0 + u32::from(!streams), horizon);
        let mut missing: Vec<_> = earlier().map(end).collect();
        missing.retain(|&moment| self.visited[moment as usize] != self.number);
        let mut next = 0;
        while let Some(&moment) = self.open.get(next) {
            if self.budget == 0 || missing.is_empty() {
                return;
            }
            (next, self.budget) = (next + 1, self.budget - 1);
            self.leave(moment, horizon);
            let visited = &self.visited;
            missing.retain(|&moment| visited[moment as usize] != self.number);
        }
    }

    /// Opens all that leads to a moment at once.
    fn leave(&mut self, moment: Moment, horizon: u32) {
        let range = self.first[moment as usize] as usize..self.first[moment as usize + 1] as usize;
        for &before in &self.before[range] {
            let visited = &mut self.visited[before as usize];
            if *visited != self.number && self.place[before as usize / 2] >= horizon {
                *visited = self.number;
                self.open.push(before);
            }
        }
    }

    /// Whether the search that has just ended met the end of the earlier step.
    fn has_met(&self, program: &Program<'_>, conflict: &Conflict) -> bool {
        self.visited[end(program.id(conflict.earlier.at)) as usize] == self.number
    }
}
