//! Which steps of a thread block must keep their order, for what they read and write.

use std::collections::BTreeMap;

use crate::recording::{SlotRange, StepDescription};
use crate::report::placed::PlacedPart;
use crate::timeline::Span;

/// By thread block and position of a step: the positions of the steps that conflict with it. It is
/// found out once, as the steps run again in each round of each launch.
#[derive(Default)]
pub(super) struct Conflicts {
    known: BTreeMap<BlockOfPlan, Vec<Vec<usize>>>,
}

/// A rank, and of what is known of it: a plan and a thread block of that.
type BlockOfPlan = (u32, Option<u32>, Option<u32>);

impl Conflicts {
    /// Those of the steps of the thread block of a part.
    pub fn of(&mut self, part: &PlacedPart<'_>) -> &[Vec<usize>] {
        let plan = part.plan.map(|plan| plan.id);
        let thread_block = part.part.place.map(|place| place.thread_block);
        let block = (part.rank, plan, thread_block);
        self.known.entry(block).or_insert_with(|| {
            let of_step = |step| {
                let others = part.steps.iter().enumerate();
                let conflicting = others.filter(move |(_, other)| conflict(other, step));
                conflicting.map(|(position, _)| position).collect()
            };
            part.steps.iter().map(of_step).collect()
        })
    }
}

/// When the steps of a round ended last.
#[derive(Default)]
pub(super) struct RoundEnds {
    /// By position of a step: in which run of moves of one round, and when.
    ends: Vec<(u64, f64)>,
    run: u64,
    round: Option<u32>,
}

impl RoundEnds {
    /// Begins a part whose thread block has so many steps.
    pub fn begin(&mut self, steps: usize) {
        self.ends.resize(self.ends.len().max(steps), (0, 0.0));
        self.round = None;
    }

    /// The move of the step at a position has ended; when the last move of the round ended that is
    /// of one of the steps `before`.
    pub fn end(&mut self, position: usize, span: &Span, before: &[usize]) -> Option<f64> {
        if self.round.replace(span.round) != Some(span.round) {
            self.run += 1;
        }
        let ends = before.iter().map(|step| self.ends[*step]);
        let of_round = ends.filter(|(run, _)| *run == self.run);
        let last_ns = of_round.map(|(_, end_ns)| end_ns).max_by(f64::total_cmp);
        self.ends[position] = (self.run, span.end_ns);
        last_ns
    }
}

/// Whether the order of two steps matters for what they read and write.
fn conflict(one: &StepDescription, other: &StepDescription) -> bool {
    // Where a call is in place, input and output may be one memory: chunks are compared as if they
    // always were.
    let is_scratch = |range: &SlotRange| range.buffer == "s";
    let overlaps = |a: &SlotRange, b: &SlotRange| {
        let ends = [a, b].map(|range| u64::from(range.first) + u64::from(range.count));
        let is_same = is_scratch(a) == is_scratch(b);
        is_same && u64::from(a.first) < ends[1] && u64::from(b.first) < ends[0]
    };
    let any = |ones: &[SlotRange], others: &[SlotRange]| {
        ones.iter().any(|one| others.iter().any(|other| overlaps(one, other)))
    };
    any(&one.writes, &other.reads)
        || any(&one.reads, &other.writes)
        || any(&one.writes, &other.writes)
}
