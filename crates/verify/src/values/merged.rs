//! The order of additions where a runtime merges consecutive `re` and adds the destination last.
//!
//! In calls with few elements the merged step adds one source after the other to its destination,
//! as its steps say; in larger ones it adds up the sources and then the destination. So results are
//! the same on every rank if they are so in both orders. Where a merged step has several chunks,
//! one rank may take one path and another the other, since that depends on the chunks in a message.

use std::ops::Range;

use msccl_ir::{Target, merging};
use msccl_machine::TbId;
use rustc_hash::{FxHashMap, FxHashSet};

use super::{order, promise, symbols};
use crate::memory::{Call, Memory};
use crate::order::AdditionOrders;
use crate::program::{At, Program};

/// The merged steps of an algorithm, if their order of additions is another than that of their
/// steps.
pub(super) struct Merged {
    /// By thread block and last step: all of its steps.
    chains: FxHashMap<(TbId, u32), Range<u32>>,
    /// All steps of chains but the last.
    earlier: FxHashSet<(TbId, u32)>,
    has_several_chunks: bool,
}

/// What is known of sums that are added as merged steps do.
pub(super) struct MergedValues {
    pub(super) same_on_every_rank: bool,
    pub(super) addition_orders: AdditionOrders,
}

impl Merged {
    pub(super) fn of(program: &Program<'_>, target: &Target) -> Self {
        let algorithm = program.algorithm();
        let mut merged = Self {
            chains: FxHashMap::default(),
            earlier: FxHashSet::default(),
            has_several_chunks: false,
        };
        let changes = target.rules.adds_destination_last(algorithm.protocol);
        let Some(rule) = target.rules.merging.filter(|_| changes) else { return merged };
        for (rank, ranks) in algorithm.collective.all_ranks().zip(&algorithm.ranks) {
            let awaited = merging::awaited(ranks);
            let tbs = program.wiring.tbs_of(rank).map(TbId);
            for ((tb, block), awaited) in tbs.zip(&ranks.thread_blocks).zip(&awaited) {
                for chain in merging::chains(block, awaited, rule) {
                    merged.has_several_chunks |= block.steps[chain.start].count > 1;
                    let steps = chain.start as u32..chain.end as u32;
                    merged.earlier.extend(steps.clone().map(|step| (tb, step)));
                    merged.earlier.remove(&(tb, steps.end - 1));
                    merged.chains.insert((tb, steps.end - 1), steps);
                }
            }
        }
        merged
    }

    /// Whether larger calls add in another order than their steps say.
    pub(super) fn changes_orders(&self) -> bool {
        !self.chains.is_empty()
    }

    /// What is known of the sums of larger calls.
    pub(super) fn values(&self, program: &Program<'_>, order: &[At], call: Call) -> MergedValues {
        let memory = Memory::new(program.algorithm(), call);
        let end = symbols::run_merged(program, order, &memory, self);
        let verdict = promise::check(program.algorithm(), &memory, &end);
        let addition_orders = order::of(&end, &verdict);
        if !self.has_several_chunks {
            let same_on_every_rank = verdict.same_on_every_rank;
            return MergedValues { same_on_every_rank, addition_orders };
        }
        // Which of the two orders counts depends on the rank.
        let addition_orders = match addition_orders {
            AdditionOrders::NoSums => AdditionOrders::NoSums,
            sums => sums.and(AdditionOrders::Several(2)),
        };
        MergedValues { same_on_every_rank: false, addition_orders }
    }

    /// The steps that end with step `at` as one.
    pub(super) fn ending(&self, at: At) -> Option<Range<u32>> {
        self.chains.get(&(at.tb, at.step)).cloned()
    }

    /// Whether step `at` is part of a later one.
    pub(super) fn goes_on(&self, at: At) -> bool {
        self.earlier.contains(&(at.tb, at.step))
    }
}
