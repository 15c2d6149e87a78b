//! Every built-in algorithm gives what the host executor gives, bit for bit.

use std::sync::Arc;

use msccl_collective::{CallPlacement, CollectiveKind, DataType, Rank, Reduction};
use msccl_registry::{Entry, Registry, Shape as Ranks};
use msccl_select::Prepared;

use super::world::{RankBuffers, Shape, TestRank, collective, prepare, run};
use crate::engine::Engine;
use crate::oracle::{Executor, OracleCall, Workers};
use crate::reference;

const COUNTS: [usize; 4] = [0, 1, 13, 1000];
const TYPES: [DataType; 3] = [DataType::F32, DataType::F16, DataType::I8];

/// A call, with what it must give.
struct CollectiveCase {
    prepared: Arc<[Arc<Prepared>]>,
    shape: Shape,
    in_place: bool,
    inputs: Vec<Vec<u8>>,
    outputs: Vec<Vec<u8>>,
    /// The bytes of each rank's output about which the collective promises something.
    promised: Vec<Vec<std::ops::Range<usize>>>,
}

fn kind(ranks: u32) -> Vec<CollectiveKind> {
    let rooted = [Rank(0), Rank(ranks - 1)].into_iter().flat_map(CollectiveKind::with_root);
    CollectiveKind::WITHOUT_ROOT.into_iter().chain(rooted).collect()
}

/// Inputs whose sums round, so that the order of combination shows.
fn uneven(mut inputs: Vec<Vec<u8>>, data_type: DataType) -> Vec<Vec<u8>> {
    for (rank, input) in inputs.iter_mut().enumerate() {
        for (at, element) in input.chunks_exact_mut(data_type.size_bytes()).enumerate() {
            let value = 1.0 + ((rank * 7 + at * 13) % 101) as f32 / 37.0;
            match data_type {
                DataType::F32 => element.copy_from_slice(&value.to_ne_bytes()),
                DataType::F16 => {
                    element.copy_from_slice(&half::f16::from_f32(value).to_ne_bytes());
                }
                _ => {}
            }
        }
    }
    inputs
}

impl CollectiveCase {
    fn new(
        executor: &Executor,
        prepared: &Arc<[Arc<Prepared>]>,
        shape: Shape,
        in_place: bool,
    ) -> Self {
        let Shape { data_type, reduction, count, .. } = shape;
        let of = executor.collective();
        let inputs = reference::inputs(of, data_type, reduction, count, 7);
        let inputs = uneven(inputs, data_type);
        let (workers, timeout) = (Workers::Exactly(1), None);
        let job = OracleCall {
            data_type,
            reduction,
            count,
            in_place,
            inputs: inputs.clone(),
            workers,
            timeout,
        };
        let outputs = executor.run(&job).unwrap().outputs;
        let mut promised = vec![Vec::new(); inputs.len()];
        for part in reference::expected(of, data_type, reduction, count, &inputs) {
            let start = part.start * data_type.size_bytes();
            promised[part.rank.index()].push(start..start + part.bytes.len());
        }
        Self { prepared: prepared.clone(), shape, in_place, inputs, outputs, promised }
    }

    fn check(&self, place: &TestRank) {
        let Self { prepared, shape, in_place, inputs, outputs, promised } = self;
        let me = place.me.index();
        let program = prepared[me].plan.program();
        let block_bytes = shape.count * shape.data_type.size_bytes();
        let memory = RankBuffers::new(program, &inputs[me], block_bytes, *in_place);
        let what = || format!("{} on r{me}: {shape:?}, in place: {in_place}", prepared[me].name);
        collective(place, &prepared[me], *shape, &memory)
            .unwrap_or_else(|error| panic!("{}: {error}", what()));
        for range in &promised[me] {
            let (found, expected) = (&memory.output()[range.clone()], &outputs[me][range.clone()]);
            assert!(found == expected, "{}: {range:?}", what());
        }
        assert!(place.rank.has_finished(shape.number));
    }
}

/// The calls of one algorithm.
fn cases(entry: &Entry, in_place: bool, instances: u32, cases: &mut Vec<CollectiveCase>) {
    let executor = Executor::new(&entry.verified).unwrap();
    let prepared = prepare(entry).into();
    let reductions = match executor.collective().reduces() {
        true => &Reduction::ALL[..],
        false => &[Reduction::Sum],
    };
    for (&reduction, count) in reductions.iter().flat_map(|of| COUNTS.map(|count| (of, count))) {
        for data_type in TYPES {
            let number = cases.len() as u64 + 1;
            let shape = Shape { data_type, reduction, count, instances, number };
            cases.push(CollectiveCase::new(&executor, &prepared, shape, in_place));
        }
    }
}

fn check(ranks: u32, instances: u32) {
    let registry = Registry::new(Ranks { ranks, per_node: ranks }, &[]);
    let mut all = Vec::new();
    for kind in kind(ranks) {
        for in_place in [false, true] {
            for entry in registry.built_in(kind, CallPlacement::from_in_place(in_place)).iter() {
                cases(entry, in_place, instances, &mut all);
            }
        }
    }
    assert!(all.len() > 500, "{}", all.len());
    run(ranks, |place| all.iter().for_each(|case| case.check(&place)));
}

#[test]
fn two_ranks_give_what_the_executor_gives() {
    check(2, 1);
}

#[test]
fn three_ranks_with_instances_give_what_the_executor_gives() {
    check(3, 3);
}

#[test]
fn five_ranks_give_what_the_executor_gives() {
    check(5, 1);
}

#[test]
fn eight_ranks_with_instances_give_what_the_executor_gives() {
    check(8, 2);
}

/// Every rank of four calls this: all-reduces of long buffers.
pub fn long_chunks() -> impl Fn(&TestRank) + Sync {
    let ranks = 4;
    let registry = Registry::new(Ranks { ranks, per_node: ranks }, &[]);
    let mut all = Vec::new();
    for entry in registry.built_in(CollectiveKind::AllReduce, CallPlacement::InPlace).iter() {
        let executor = Executor::new(&entry.verified).unwrap();
        let prepared = prepare(entry).into();
        for (number, instances) in [(1, 1), (2, 2)] {
            let (data_type, reduction, count) = (DataType::F32, Reduction::Sum, 300_001);
            let shape = Shape { data_type, reduction, count, instances, number };
            all.push(CollectiveCase::new(&executor, &prepared, shape, true));
        }
    }
    move |place| all.iter().for_each(|case| case.check(place))
}

#[test]
fn long_chunks_take_many_rounds() {
    let check = long_chunks();
    run(4, |place| check(&place));
}
