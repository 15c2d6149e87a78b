//! What serves calls over several nodes.

use msccl_collective::{DataType, Protocol, Reduction};
use msccl_registry::Shape;

use crate::*;

fn selector(shape: Shape, machine: Machine, overrides: Overrides, rows: Option<&str>) -> Selector {
    let registry = Arc::new(Registry::new(shape, &[]));
    let capacity = Capacity::nominal(machine, shape);
    let table = |rows| format!("msccl-tuning 1\nmachine ours\n{rows}\n");
    let tuning = rows.map(|rows| Tuning::parse("t", table(rows).as_bytes()).unwrap());
    Selector::new(registry, Rank(0), capacity, machine, overrides, tuning)
}

/// Of `bytes` bytes in the larger buffer.
fn request(kind: CollectiveKind, ranks: u32, bytes: u64) -> CallShape {
    let (data_type, reduction) = (DataType::F32, Some(Reduction::Sum));
    let one =
        CallShape { kind, placement: CallPlacement::OutOfPlace, data_type, reduction, count: 1 };
    CallShape { count: bytes.div_ceil(one.bytes(ranks)), ..one }
}

/// What serves calls of these sizes on GPUs.
fn check(kind: CollectiveKind, (ranks, per_node): (u32, u32), expected: &[(u64, &str)]) {
    let selector = selector(Shape { ranks, per_node }, Machine::Gpus, Overrides::default(), None);
    for &(bytes, name) in expected {
        let request = request(kind, ranks, bytes);
        let alternatives = selector.explain(&request, None);
        let first = alternatives.iter().find(|of| of.serves()).unwrap();
        let order: Vec<_> =
            alternatives.iter().map(|of| format!("{}: {}", of.name, of.basis)).collect();
        assert_eq!(first.name, name, "{bytes} bytes, {ranks} ranks, {per_node} a node: {order:#?}");
        // What is best in the other placement may decide.
        let mut bases = alternatives.iter().map(|of| of.basis.to_string());
        let is_modelled = |by: String| by.starts_with("estimated table ") || by == "the cost model";
        assert!(
            bases.any(is_modelled),
            "{bytes} bytes, {ranks} ranks, {per_node} a node: {order:#?}"
        );
        let (decision, _) = selector.choose(&request).unwrap();
        assert_eq!(decision.prepared.name, name);
    }
}

#[test]
fn small_calls_take_few_steps_and_large_ones_few_bytes() {
    const MIB: u64 = 1 << 20;
    let hierarchical = "allreduce/hierarchical";
    let doubling = "allreduce/hierarchical_doubling";
    check(
        CollectiveKind::AllReduce,
        (32, 8),
        &[(1024, "allreduce/multinode_allpairs"), (256 * MIB, hierarchical)],
    );
    check(CollectiveKind::AllReduce, (128, 8), &[(1024, doubling), (16 * MIB, doubling)]);
    check(
        CollectiveKind::AllReduce,
        (24, 8),
        &[(1024, "allreduce/multinode_allpairs"), (1024 * MIB, hierarchical)],
    );
    check(CollectiveKind::AllGather, (128, 8), &[(1024, "allgather/hierarchical_low_latency")]);
    check(
        CollectiveKind::ReduceScatter,
        (128, 8),
        &[(1024, "reducescatter/hierarchical_low_latency")],
    );
    check(
        CollectiveKind::AllToAll,
        (64, 8),
        &[(1024, "alltoall/rail_first"), (256 * MIB, "alltoall/rail_first")],
    );
    let rooted = CollectiveKind::Broadcast(Rank(5));
    check(rooted, (128, 8), &[(1024, "broadcast/tree"), (256 * MIB, "broadcast/hierarchical")]);
}

#[test]
fn packets_never_leave_a_node() {
    let rows = "allreduce any any/any any LL 4 512 allreduce/hierarchical";
    for (per_node, protocol) in [(4, Protocol::Simple), (8, Protocol::Ll)] {
        for forced in [None, Some(Protocol::Ll)] {
            let overrides = Overrides {
                protocol: forced,
                algorithm: Some("ring".to_owned()),
                ..Overrides::default()
            };
            let overrides = if forced.is_none() { Overrides::default() } else { overrides };
            let rows =
                if per_node == 4 { rows.to_owned() } else { rows.replace("hierarchical", "ring") };
            let shape = Shape { ranks: 8, per_node };
            let selector = selector(shape, Machine::Gpus, overrides, Some(&rows));
            let (decision, _) =
                selector.choose(&request(CollectiveKind::AllReduce, 8, 1 << 20)).unwrap();
            assert_eq!(decision.service().protocol, protocol, "{shape:?} {forced:?}");
        }
    }
}

#[test]
fn rows_for_nodes_come_before_guesses() {
    let rows = "allreduce any any   any     Simple 2 256 allreduce/ring\n\
                allreduce any any/2 ..64KiB Simple 3 128 allreduce/hierarchical";
    let of = |bytes| {
        let shape = Shape { ranks: 8, per_node: 4 };
        let selector = selector(shape, Machine::Host, Overrides::default(), Some(rows));
        let alternatives = selector.explain(&request(CollectiveKind::AllReduce, 8, bytes), None);
        let first = alternatives.iter().find(|of| of.serves()).unwrap();
        (first.name.clone(), first.basis.to_string())
    };
    assert_eq!(of(1024), ("allreduce/hierarchical".to_owned(), "t line 4".to_owned()));
    assert_eq!(of(1 << 20).1, "the cost model");
}

#[test]
fn what_is_left_out_is_listed() {
    let shape = Shape { ranks: 160, per_node: 8 };
    let selector = selector(shape, Machine::Gpus, Overrides::default(), None);
    let alternatives = selector.explain(&request(CollectiveKind::AllReduce, 160, 1024), None);
    let last = alternatives.last().unwrap();
    let reason = "it is for at most 8 nodes, each linked with each; there are 20";
    assert_eq!(
        (&*last.name, &last.verdict),
        ("allreduce/multinode_allpairs", &Err(reason.to_owned()))
    );
}

#[test]
fn everything_is_served_on_every_shape() {
    for (ranks, per_node) in [(2, 1), (3, 1), (8, 1), (6, 2), (16, 8), (20, 4), (32, 4)] {
        for machine in [Machine::Host, Machine::Gpus] {
            let selector = selector(Shape { ranks, per_node }, machine, Overrides::default(), None);
            for kind in CollectiveKind::all(Rank(ranks - 1)) {
                let [out, in_place] = CallPlacement::ALL;
                for (placement, bytes) in [(out, 8), (in_place, 100_000), (out, 1 << 28)] {
                    let request = CallShape { placement, ..request(kind, ranks, bytes) };
                    let (decision, _) = selector.choose(&request).unwrap();
                    assert_eq!(decision.service().protocol, Protocol::Simple);
                }
            }
        }
    }
}

/// The shapes that nobody measured are decided by the cost model: what is chosen is nearly the best
/// of all that could serve, by the estimates that `explain` shows.
#[test]
fn what_is_chosen_is_nearly_the_best_by_the_cost_model() {
    for (ranks, per_node) in [(16, 8), (32, 8), (8, 4), (12, 4), (6, 1), (40, 8)] {
        let shape = Shape { ranks, per_node };
        let hardware = Hardware::nominal(shape).unwrap();
        let selector = selector(shape, Machine::Gpus, Overrides::default(), None);
        for kind in [CollectiveKind::AllReduce, CollectiveKind::AllGather, CollectiveKind::AllToAll]
        {
            for power in [12, 17, 20, 25] {
                let request = request(kind, ranks, 1 << power);
                let all = selector.explain(&request, Some(&hardware));
                let mut times = all.iter().filter_map(|of| of.estimate_ns);
                let chosen = times.next().unwrap();
                let best = times.fold(chosen, u64::min);
                let limit = best + best / 2;
                assert!(chosen <= limit, "{shape:?} {kind:?} 2^{power}: {chosen} ns, {all:#?}");
            }
        }
    }
}

/// The least time of the first decision for a call of that many bytes, algorithms being compiled.
fn first_decision(shape: Shape, bytes: u64) -> std::time::Duration {
    let registry = Arc::new(Registry::new(shape, &[]));
    let kind = CollectiveKind::AllReduce;
    CallPlacement::ALL.iter().for_each(|placement| drop(registry.built_in(kind, *placement)));
    let capacity = Capacity::nominal(Machine::Gpus, shape);
    let decision = || {
        let (machine, none) = (Machine::Gpus, Overrides::default());
        let selector = Selector::new(registry.clone(), Rank(0), capacity, machine, none, None);
        let since = std::time::Instant::now();
        selector.choose(&request(kind, shape.ranks, bytes)).unwrap();
        since.elapsed()
    };
    (0..3).map(|_| decision()).min().unwrap()
}

/// A table of estimates decides at common sizes; elsewhere few ranks are simulated.
#[test]
fn the_first_decision_does_not_take_long() {
    let check = |ranks, per_node, bytes, most_ms| {
        let took = first_decision(Shape { ranks, per_node }, bytes);
        assert!(took.as_millis() < most_ms, "{ranks} ranks, {bytes} bytes: {took:?}");
    };
    for nodes in [2, 4, 8, 16] {
        for bytes in [1 << 10, 1 << 20, 256 << 20] {
            check(8 * nodes, 8, bytes, 30);
        }
    }
    check(12, 4, 1 << 20, 100);
    check(32, 4, 1 << 20, 300);
    check(32, 4, 256 << 20, 2_000);
    check(96, 4, 256 << 20, 100);
}

/// Which kernel runs depends on the rank; what is guessed does not.
#[test]
fn all_ranks_guess_alike() {
    let shape = Shape { ranks: 12, per_node: 4 };
    let registry = Arc::new(Registry::new(shape, &[]));
    for machine in [Machine::Gpus, Machine::Host] {
        let capacity = Capacity::nominal(machine, shape);
        let decided = |rank: u32| {
            let (registry, none) = (registry.clone(), Overrides::default());
            let selector = Selector::new(registry, Rank(rank), capacity, machine, none, None);
            let kinds = CollectiveKind::all(Rank(7)).into_iter();
            let calls = kinds.flat_map(|kind| [12, 18, 24].map(|power| (kind, 1 << power)));
            let choices = calls.map(|(kind, bytes)| {
                let (decision, _) = selector.choose(&request(kind, 12, bytes)).unwrap();
                (decision.choice().to_string(), decision.cut)
            });
            choices.collect::<Vec<_>>()
        };
        let first = decided(0);
        (1..12).for_each(|rank| assert_eq!(decided(rank), first, "r{rank}, {machine:?}"));
    }
}
