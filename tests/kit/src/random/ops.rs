//! Random programs: ops that read only what is written, and the contract that they fulfil.
//!
//! A program is grown from *recipes*, rows of numbers, so that a failing one shrinks by dropping
//! rows. The contract is found by running the ops in program order over multisets of contributions:
//! the plainest reading of what a program means.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use msccl_collective::{
    Buffer, Collective, Contract, Contribution, Custom, Kind, Placement, Protocol, Rank, SizeRange,
    Slot,
};
use msccl_compiler::chunk::{At, ChunkDag, Hints, HintsId, Op, Origin, StatementId};
use msccl_syntax::{FileId, Span};
use proptest::prelude::*;

/// Chunks in each of input, output and scratch of every rank.
const CHUNKS: u32 = 6;

/// Contributions in one value at most, so that sums cannot grow without bound.
const TERMS_MAX: usize = 40;

/// One op, before it is known what may be read.
type Recipe = [u16; 8];

/// Programs of two to five ranks and up to `ops` ops.
pub fn programs(ops: usize) -> impl Strategy<Value = ChunkDag> {
    let recipes = prop::collection::vec(any::<Recipe>(), 1..ops);
    let protocols = prop::sample::select(Protocol::ALL.as_slice());
    (2u32..6, protocols, any::<bool>(), recipes).prop_map(|(ranks, protocol, hinted, recipes)| {
        let mut grower = Grower::new(ranks, hinted);
        recipes.iter().for_each(|recipe| grower.grow(recipe));
        grower.finish(protocol)
    })
}

type Value = Vec<Contribution>;

struct Grower {
    ranks: u32,
    hinted: bool,
    memory: BTreeMap<At, Value>,
    ops: Vec<Op>,
    hints: Vec<Hints>,
}

impl Grower {
    fn new(ranks: u32, hinted: bool) -> Self {
        let inputs = (0..ranks).flat_map(|rank| (0..CHUNKS).map(move |index| (Rank(rank), index)));
        let memory = inputs.map(|(rank, index)| {
            let at = At { rank, slot: Slot::new(Buffer::Input, index) };
            (at, vec![Contribution { rank, index }])
        });
        Self {
            ranks,
            hinted,
            memory: memory.collect(),
            ops: Vec::new(),
            hints: vec![Hints::default()],
        }
    }

    /// Adds the op that `recipe` describes, if there is one that reads only what is written.
    fn grow(&mut self, recipe: &Recipe) {
        let [rank, place, count, sources, .., channel, one] = recipe.map(u32::from);
        let count = 1 + [0, 0, 0, 1, 2][(count % 5) as usize];
        let buffer = if place % 3 == 0 { Buffer::Scratch } else { Buffer::Output };
        let to = At {
            rank: Rank(rank % self.ranks),
            slot: Slot::new(buffer, (place / 3) % (CHUNKS - count + 1)),
        };
        let source_count = 1 + sources % 4;
        let mut chosen: Vec<At> = Vec::new();
        for source in 0..source_count {
            let pick = one.wrapping_mul(31).wrapping_add(u32::from(recipe[4]) + source * 7919);
            chosen.extend(self.readable(pick, to, count, &chosen));
        }
        if !chosen.is_empty() && self.terms(&chosen, count) <= TERMS_MAX {
            self.push(to, chosen, count, channel);
        }
    }

    /// A region of `count` written slots that is `to` or disjoint from it and not yet chosen.
    fn readable(&self, pick: u32, to: At, count: u32, chosen: &[At]) -> Option<At> {
        let target = to.slot.run(count);
        let fits = |at: &&At| {
            let run = at.slot.run(count);
            let apart = at.rank != to.rank || *at == &to || !run.overlaps(target);
            let slots = run.slots().map(|slot| At { rank: at.rank, slot });
            apart && !chosen.contains(at) && slots.into_iter().all(|s| self.memory.contains_key(&s))
        };
        let all: Vec<&At> = self.memory.keys().filter(fits).collect();
        all.get(pick as usize % all.len().max(1)).map(|at| **at)
    }

    fn terms(&self, sources: &[At], count: u32) -> usize {
        let chunk = |offset| sources.iter().map(|at| self.value(*at, offset).len()).sum();
        (0..count).map(chunk).max().unwrap_or(0)
    }

    fn value(&self, at: At, offset: u32) -> &Value {
        &self.memory[&At { rank: at.rank, slot: at.slot.offset(offset) }]
    }

    fn push(&mut self, to: At, sources: Vec<At>, count: u32, channel: u32) {
        let sum = |offset| {
            let parts = sources.iter().flat_map(|at| self.value(*at, offset).iter().copied());
            let mut sum: Value = parts.collect();
            sum.sort_unstable();
            sum
        };
        let results: Vec<Value> = (0..count).map(sum).collect();
        for (offset, result) in results.into_iter().enumerate() {
            let slot = to.slot.offset(offset as u32);
            self.memory.insert(At { rank: to.rank, slot }, result);
        }
        let hints = self.hints(channel);
        let statement = StatementId(self.ops.len() as u32);
        self.ops.push(Op { to, sources: sources.into(), count, hints, statement });
    }

    fn hints(&mut self, channel: u32) -> HintsId {
        if !self.hinted || channel.is_multiple_of(2) {
            return HintsId(0);
        }
        self.hints.push(Hints { channel: Some(channel / 2 % 3), ..Hints::default() });
        HintsId(self.hints.len() as u32 - 1)
    }

    fn finish(self, protocol: Protocol) -> ChunkDag {
        let given: BTreeSet<_> = (0..self.ranks)
            .flat_map(|rank| (0..CHUNKS).map(move |index| Contribution { rank: Rank(rank), index }))
            .collect();
        let outputs = self.memory.into_iter().filter(|(at, _)| at.slot.buffer == Buffer::Output);
        let promised = outputs.map(|(at, value)| ((at.rank, at.slot.index), value)).collect();
        let custom = Custom {
            name: "random".into(),
            input_chunks: CHUNKS,
            output_chunks: CHUNKS,
            contract: Some(Contract { given, promised }),
        };
        let span = |line: usize| Span { file: FileId(0), start: line as u32, end: line as u32 };
        let statements =
            (0..=self.ops.len()).map(|line| Origin { span: span(line), called_from: Vec::new() });
        ChunkDag {
            name: "random".into(),
            collective: Collective {
                kind: Kind::Custom(Arc::new(custom)),
                ranks: self.ranks,
                chunks: 1,
            },
            per_node: self.ranks,
            placement: Placement::OutOfPlace,
            protocol,
            sizes: SizeRange::ALL,
            threads: None,
            instances: 1,
            engine_instances: 1,
            interleaved: 1,
            order_claim: None,
            scratch_chunks: vec![CHUNKS; self.ranks as usize],
            ops: self.ops,
            hints: self.hints,
            statements: statements.collect(),
            warnings: Vec::new(),
        }
    }
}
