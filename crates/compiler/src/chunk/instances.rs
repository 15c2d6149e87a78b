//! Instances: every chunk cut in `k`, every op done `k` times, each time on its part.
//!
//! ```text
//! r1.i[4] = r1.i[4] + r0.i[4]                      k = 2
//!     r1.i[8] = r1.i[8] + r0.i[8]                  instance 0
//!     r1.i[9] = r1.i[9] + r0.i[9]                  instance 1
//! ```
//!
//! Chunk `c` of every buffer becomes the chunks `c*k .. c*k + k`, and part `i` of it belongs to
//! instance `i`: the parts of one instance are not neighbours, so an op over several chunks becomes
//! one op for each chunk and instance. A channel or thread block `n` requested becomes `n*k + i`.
//! Since no two instances share a slot, what each computes is what the program computes. Part `i`
//! of a chunk becomes a column of its block, so that a call still counts the elements of the same
//! blocks.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use msccl_collective::{Collective, Contract, Contribution, Custom, Kind, Slot};
use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use super::memory::MAX_CHUNKS;
use super::{At, ChunkDag, Hints, HintsId, Op};

/// Most ops after cutting.
const MAX_OPS: u64 = 1 << 26;

/// The DAG would have more chunks or ops than the compiler takes on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TooManyChunks;

impl fmt::Display for TooManyChunks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "so many instances make more than {MAX_CHUNKS} chunks or {MAX_OPS} ops")
    }
}

impl std::error::Error for TooManyChunks {}

/// `dag` in `k` instances; `k` of 0 counts as 1.
pub fn instances(dag: ChunkDag, k: u32) -> Result<ChunkDag, TooManyChunks> {
    check_size(&dag, k.max(1).saturating_mul(dag.interleaved))?;
    if k <= 1 {
        return Ok(dag);
    }
    let (hints, numbers) = split_hints(&dag.hints, k);
    let mut ops = Vec::with_capacity(dag.ops.len() * k as usize);
    for op in &dag.ops {
        for chunk in 0..op.count {
            let copies = 0..k;
            ops.extend(
                copies.map(|i| part(op, chunk, i, k, numbers[op.hints.0 as usize][i as usize])),
            );
        }
    }
    let scratch_chunks = dag.scratch_chunks.iter().map(|chunks| chunks * k).collect();
    Ok(ChunkDag {
        name: dag.name,
        collective: cut(&dag.collective, k),
        per_node: dag.per_node,
        placement: dag.placement,
        protocol: dag.protocol,
        sizes: dag.sizes,
        threads: dag.threads,
        instances: dag.instances * k,
        engine_instances: dag.engine_instances,
        interleaved: dag.interleaved,
        order_claim: dag.order_claim,
        scratch_chunks,
        ops,
        hints,
        statements: dag.statements,
        warnings: dag.warnings,
    })
}

fn check_size(dag: &ChunkDag, k: u32) -> Result<(), TooManyChunks> {
    let k = u64::from(k);
    let collective = &dag.collective;
    let caller = collective
        .all_ranks()
        .map(|rank| collective.input_chunks(rank).max(collective.output_chunks(rank)))
        .chain(dag.scratch_chunks.iter().copied())
        .map(u64::from)
        .sum::<u64>()
        .max(u64::from(collective.ranks) * u64::from(collective.chunks));
    let ops: u64 = dag.ops.iter().map(|op| u64::from(op.count)).sum();
    let chunks = caller.max(u64::from(dag.instances)).saturating_mul(k);
    if chunks > MAX_CHUNKS || ops.saturating_mul(k) > MAX_OPS { Err(TooManyChunks) } else { Ok(()) }
}

/// Copy `i` of `k` of chunk `chunk` of an op.
fn part(op: &Op, chunk: u32, i: u32, k: u32, hints: HintsId) -> Op {
    let place = |at: &At| {
        let index = (at.slot.index + chunk) * k + i;
        At { rank: at.rank, slot: Slot::new(at.slot.buffer, index) }
    };
    let sources: SmallVec<[At; 2]> = op.sources.iter().map(place).collect();
    Op { to: place(&op.to), sources, count: 1, hints, statement: op.statement }
}

/// The hints of all instances, no hints first, and the number of every one of the old hints in
/// every instance.
fn split_hints(old: &[Hints], k: u32) -> (Vec<Hints>, Vec<Vec<HintsId>>) {
    let mut new = vec![Hints::default()];
    let mut known = FxHashMap::from_iter([(Hints::default(), HintsId(0))]);
    let mut number = |hints: Hints| {
        *known.entry(hints).or_insert_with(|| {
            new.push(hints);
            HintsId(new.len() as u32 - 1)
        })
    };
    let numbers = old
        .iter()
        .map(|&hints| (0..k).map(|i| number(split_hint(hints, i, k))).collect())
        .collect();
    (new, numbers)
}

fn split_hint(hints: Hints, i: u32, k: u32) -> Hints {
    let Hints { channel, send_tb, receive_tb, instance } = hints;
    let split = |place: Option<u32>| place.map(|n| n.saturating_mul(k).saturating_add(i));
    Hints {
        channel: split(channel),
        send_tb: split(send_tb),
        receive_tb: split(receive_tb),
        instance: instance * k + i,
    }
}

/// The same collective over chunks a `k`th as long.
pub fn cut(collective: &Collective, k: u32) -> Collective {
    let Collective { kind, ranks, chunks } = collective;
    let kind = match kind {
        Kind::Custom(custom) => Kind::Custom(Arc::new(cut_custom(custom, k))),
        Kind::AllReduce
        | Kind::AllGather
        | Kind::ReduceScatter
        | Kind::AllToAll
        | Kind::Broadcast { .. }
        | Kind::Reduce { .. }
        | Kind::Gather { .. }
        | Kind::Scatter { .. } => kind.clone(),
    };
    Collective { kind, ranks: *ranks, chunks: chunks * k }
}

fn cut_custom(custom: &Custom, k: u32) -> Custom {
    let Custom { name, input_chunks, output_chunks, contract } = custom;
    Custom {
        name: name.clone(),
        input_chunks: input_chunks * k,
        output_chunks: output_chunks * k,
        contract: contract.as_ref().map(|contract| cut_contract(contract, k)),
    }
}

fn cut_contract(contract: &Contract, k: u32) -> Contract {
    let Contract { given, promised } = contract;
    let part = |c: &Contribution, i| Contribution { rank: c.rank, index: c.index * k + i };
    let mut new = Contract { given: BTreeSet::new(), promised: BTreeMap::new() };
    for i in 0..k {
        new.given.extend(given.iter().map(|c| part(c, i)));
        new.promised.extend(promised.iter().map(|(&(rank, index), sum)| {
            ((rank, index * k + i), sum.iter().map(|c| part(c, i)).collect())
        }));
    }
    new
}
