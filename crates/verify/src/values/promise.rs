//! Does every slot hold what the collective promises?
//!
//! A value is compared with a promise contribution by contribution, once for every pair of the two
//! that occurs. Only values with the promised number of contributions are looked into, so one
//! comparison costs no more than the promise is long.

use msccl_collective::{Buffer, Collective, Contribution, Kind, Promise, Rank, Slot};
use msccl_ir::Algorithm;
use rustc_hash::FxHashMap;

use super::expression::{Expressions, ValueId};
use super::symbols::{End, Held};
use crate::memory::{Call, Memory};
use crate::refusal::MOST_FAULTS;

/// What the end of the run says about the promises.
pub(super) struct Verdict {
    /// Slots that do not hold what they should, up to a bound.
    pub(super) wrong: Vec<Wrong>,
    /// How many output slots have a promise.
    pub(super) promises: usize,
    pub(super) same_on_every_rank: bool,
    pub(super) overwrites_input: bool,
    /// Whether every slot that must hold something got it through no higher column than its own.
    pub(super) columns_kept: bool,
    /// The distinct values of promised sums of at least two contributions.
    pub(super) completed: Vec<ValueId>,
}

/// A slot that does not hold what it should.
pub(super) struct Wrong {
    pub(super) rank: Rank,
    pub(super) slot: Slot,
    pub(super) found: ValueId,
    pub(super) expected: Expected,
}

/// What a slot should hold.
#[derive(Clone)]
pub(super) enum Expected {
    /// What the collective promises of an output slot.
    Promise(Promise),
    /// What the caller's input held before the call.
    Unchanged,
}

/// The sizes of the promised sums of at least two contributions, each once.
pub(super) fn sum_sizes(collective: &Collective) -> Vec<u32> {
    let mut sizes: Vec<_> = match &collective.kind {
        Kind::AllReduce | Kind::ReduceScatter | Kind::Reduce { .. } => vec![collective.ranks],
        Kind::AllGather
        | Kind::AllToAll
        | Kind::Broadcast { .. }
        | Kind::Gather { .. }
        | Kind::Scatter { .. } => Vec::new(),
        Kind::Custom(custom) => {
            let sums = custom.contract.iter().flat_map(|contract| contract.promised.values());
            sums.map(|sum| sum.len() as u32).collect()
        }
    };
    sizes.sort_unstable();
    sizes.dedup();
    sizes.retain(|&size| size > 1);
    sizes
}

/// Compares the end of the run with all promises.
pub(super) fn check(algorithm: &Algorithm, memory: &Memory<'_>, end: &End) -> Verdict {
    let collective = &algorithm.collective;
    let mut check = Check {
        comparison: Comparison::new(collective, &end.expressions),
        columns: collective.chunks,
        columns_kept: true,
        wrong: Vec::new(),
        promises: 0,
    };
    let says_nothing =
        matches!(&collective.kind, Kind::Custom(custom) if custom.contract.is_none());
    for rank in collective.all_ranks() {
        for index in 0..collective.output_chunks(rank) {
            let slot = Slot::new(Buffer::Output, index);
            let found = end.cells[memory.cell(rank, slot)];
            match collective.promised(rank, index) {
                Some(promise) => check.output(rank, slot, found, promise),
                // Nobody says which outputs are needed.
                None if says_nothing => check.column(slot, found),
                None => {}
            }
        }
    }
    let overwrites_input = match memory.call() {
        Call::InPlace => overwrites(collective, memory, end),
        Call::OutOfPlace => {
            check.inputs(collective, memory, end);
            false
        }
    };
    let Check { comparison, columns: _, columns_kept, wrong, promises } = check;
    let (same_on_every_rank, completed) = comparison.into_summary();
    Verdict { wrong, promises, same_on_every_rank, overwrites_input, columns_kept, completed }
}

struct Check<'a> {
    comparison: Comparison<'a>,
    /// Columns in a block.
    columns: u32,
    columns_kept: bool,
    wrong: Vec<Wrong>,
    promises: usize,
}

impl Check<'_> {
    fn output(&mut self, rank: Rank, slot: Slot, found: Held, promise: Promise) {
        self.promises += 1;
        self.column(slot, found);
        if !self.comparison.holds(found.value, &promise) {
            self.add(Wrong {
                rank,
                slot,
                found: found.value,
                expected: Expected::Promise(promise),
            });
        }
    }

    /// Out of place, every input slot must hold its first value.
    fn inputs(&mut self, collective: &Collective, memory: &Memory<'_>, end: &End) {
        for rank in collective.all_ranks() {
            for index in 0..collective.input_chunks(rank) {
                let slot = Slot::new(Buffer::Input, index);
                let before = first_value(collective, end, rank, index);
                self.input(rank, slot, end.cells[memory.cell(rank, slot)], before);
            }
        }
    }

    fn input(&mut self, rank: Rank, slot: Slot, found: Held, before: ValueId) {
        self.column(slot, found);
        if found.value != before {
            self.add(Wrong { rank, slot, found: found.value, expected: Expected::Unchanged });
        }
    }

    fn column(&mut self, slot: Slot, found: Held) {
        self.columns_kept &= found.column <= slot.index % self.columns;
    }

    fn add(&mut self, wrong: Wrong) {
        if self.wrong.len() < MOST_FAULTS {
            self.wrong.push(wrong);
        }
    }
}

/// What an input slot holds at the start.
fn first_value(collective: &Collective, end: &End, rank: Rank, index: u32) -> ValueId {
    let given = collective.given(rank, index);
    given.map_or(ValueId::UNWRITTEN, |given| end.expressions.contribution(given))
}

/// Whether a call in place changes input slots that are no output slots.
fn overwrites(collective: &Collective, memory: &Memory<'_>, end: &End) -> bool {
    collective.all_ranks().any(|rank| {
        let outputs = 0..collective.output_chunks(rank);
        let mut outputs: Vec<_> =
            outputs.map(|index| memory.cell(rank, Slot::new(Buffer::Output, index))).collect();
        outputs.sort_unstable();
        (0..collective.input_chunks(rank)).any(|index| {
            let cell = memory.cell(rank, Slot::new(Buffer::Input, index));
            let before = first_value(collective, end, rank, index);
            end.cells[cell].value != before && outputs.binary_search(&cell).is_err()
        })
    })
}

/// Compares values with promises, each pair once.
struct Comparison<'a> {
    expressions: &'a Expressions,
    ranks: u32,
    /// Values that are the sum of one input chunk over all ranks, by that chunk.
    every_rank: FxHashMap<u32, Vec<ValueId>>,
    /// Values that are the sum of a written list.
    listed: FxHashMap<Vec<Contribution>, Vec<ValueId>>,
    /// For every rank: the last comparison that has met its contribution.
    met: Vec<u32>,
    comparisons: u32,
}

impl<'a> Comparison<'a> {
    fn new(collective: &Collective, expressions: &'a Expressions) -> Self {
        Self {
            expressions,
            ranks: collective.ranks,
            every_rank: FxHashMap::default(),
            listed: FxHashMap::default(),
            met: vec![0; collective.ranks as usize],
            comparisons: 0,
        }
    }

    fn holds(&mut self, value: ValueId, promise: &Promise) -> bool {
        match promise {
            Promise::One(contribution) => value == self.expressions.contribution(*contribution),
            Promise::EveryRank { index } => {
                let known = self.every_rank.get(index);
                if known.is_some_and(|values| values.contains(&value)) {
                    return true;
                }
                let holds = self.is_every_rank(value, *index);
                if holds {
                    self.every_rank.entry(*index).or_default().push(value);
                }
                holds
            }
            Promise::Sum(list) => {
                let holds = self.is_listed(value, list);
                if holds {
                    let values = self.listed.entry(list.clone()).or_default();
                    if !values.contains(&value) {
                        values.push(value);
                    }
                }
                holds
            }
        }
    }

    /// Whether the value is chunk `index` of every rank, each exactly once.
    fn is_every_rank(&mut self, value: ValueId, index: u32) -> bool {
        if value == ValueId::UNWRITTEN || self.expressions.leaves(value) != self.ranks {
            return false;
        }
        self.comparisons += 1;
        let (leaves, _) = self.expressions.expand(value, self.ranks as usize);
        leaves.len() == self.ranks as usize
            && leaves.iter().all(|leaf| {
                let before = std::mem::replace(&mut self.met[leaf.rank.index()], self.comparisons);
                leaf.index == index && before != self.comparisons
            })
    }

    /// Whether the value is exactly the multiset `list`, which is ascending.
    fn is_listed(&self, value: ValueId, list: &[Contribution]) -> bool {
        if value == ValueId::UNWRITTEN || self.expressions.leaves(value) as usize != list.len() {
            return false;
        }
        let (mut leaves, _) = self.expressions.expand(value, list.len());
        leaves.sort_unstable();
        leaves == list
    }

    /// Whether every promise was kept by one and the same expression, and the sums that kept one.
    fn into_summary(self) -> (bool, Vec<ValueId>) {
        let every_rank = self.every_rank.into_values();
        let kept: Vec<_> = every_rank.chain(self.listed.into_values()).collect();
        let same = kept.iter().all(|values| values.len() == 1);
        let mut sums: Vec<_> = kept.into_iter().flatten().collect();
        sums.retain(|&sum| self.expressions.leaves(sum) > 1);
        sums.sort_unstable();
        sums.dedup();
        (same, sums)
    }
}
