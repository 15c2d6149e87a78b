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
        assert!(first.basis.to_string().starts_with("a guess: "), "{}", first.basis);
        let (decision, _) = selector.choose(&request).unwrap();
        assert_eq!(decision.prepared.name, name);
    }
}

#[test]
fn small_calls_take_few_steps_and_large_ones_few_bytes() {
    const MIB: u64 = 1 << 20;
    let hierarchical = "allreduce/hierarchical";
    let doubling = "allreduce/hierarchical_doubling";
    let halving = "allreduce/hierarchical_low_latency";
    check(
        CollectiveKind::AllReduce,
        (32, 8),
        &[(1024, "allreduce/multinode_allpairs"), (256 * MIB, hierarchical)],
    );
    check(CollectiveKind::AllReduce, (128, 8), &[(1024, doubling), (16 * MIB, halving)]);
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
        &[(1024, "alltoall/rail_first"), (256 * MIB, "alltoall/allpairs")],
    );
    let rooted = CollectiveKind::Broadcast(Rank(5));
    check(
        rooted,
        (128, 8),
        &[(1024, "broadcast/hierarchical_low_latency"), (256 * MIB, "broadcast/hierarchical")],
    );
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
    assert!(of(1 << 20).1.starts_with("a guess: "));
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
