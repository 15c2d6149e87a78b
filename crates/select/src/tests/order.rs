//! Tables are certified: where an order of additions is required, everything that serves a
//! reduction has it, and something serves every reduction.

use msccl_collective::DataType;
use msccl_registry::Shape;

use crate::*;

/// Powers of two and what lies between, from one element on.
fn counts() -> impl Iterator<Item = u64> {
    (0..26).flat_map(|power| [1_u64 << power, (1 << power) + (1 << power) * 3 / 7])
}

fn selector(shape: Shape, machine: Machine, order: RequiredOrder) -> Selector {
    selector_of(Rank(0), &Arc::new(Registry::new(shape, &[])), machine, order)
}

fn selector_of(
    rank: Rank,
    registry: &Arc<Registry>,
    machine: Machine,
    order: RequiredOrder,
) -> Selector {
    let capacity = Capacity::nominal(machine, registry.shape());
    let overrides = Overrides { order, ..Overrides::default() };
    Selector::new(registry.clone(), rank, capacity, machine, overrides, None)
}

/// What the order of whatever serves these calls is: one for each collective, both placements, all
/// types and reductions.
#[track_caller]
fn check(shape: Shape, machine: Machine, order: RequiredOrder) {
    let selector = selector(shape, machine, order);
    let required = order.required(shape.ranks).unwrap();
    let roots = [Rank(0), Rank(shape.ranks - 1)];
    let kinds = [CollectiveKind::AllReduce, CollectiveKind::ReduceScatter];
    for kind in kinds.into_iter().chain(roots.map(CollectiveKind::Reduce)) {
        for placement in CallPlacement::ALL {
            for count in counts() {
                let calls = [
                    (DataType::F32, Reduction::Sum),
                    (DataType::F8E4M3, Reduction::Avg),
                    (DataType::I32, Reduction::Avg),
                ];
                for (data_type, reduction) in calls {
                    let reduction = Some(reduction);
                    let request = CallShape { kind, placement, data_type, reduction, count };
                    let (decision, _) = selector.choose(&request).unwrap();
                    let placed = match decision.fallback {
                        PlacementFallback::None => placement,
                        PlacementFallback::InPlace => CallPlacement::InPlace,
                        PlacementFallback::OutOfPlace => CallPlacement::OutOfPlace,
                    };
                    let name = &decision.prepared.name;
                    let entry = selector.registry.built_in_named(kind, placed, name).unwrap();
                    let orders = &entry.verified.facts().addition_orders;
                    assert_eq!(orders.one(), Some(&required), "{name}: {request}, {shape:?}");
                }
            }
        }
    }
}

#[test]
fn all_that_serves_reductions_has_the_required_order() {
    for ranks in 2..=16 {
        for order in [RequiredOrder::Flat, RequiredOrder::Tree] {
            for machine in [Machine::Gpus, Machine::Host] {
                check(Shape { ranks, per_node: ranks }, machine, order);
            }
        }
    }
}

#[test]
fn orders_do_not_depend_on_how_ranks_lie_on_nodes() {
    for (ranks, per_node) in [(4, 2), (8, 4), (8, 1), (16, 8), (12, 4), (6, 3)] {
        for order in [RequiredOrder::Flat, RequiredOrder::Tree] {
            check(Shape { ranks, per_node }, Machine::Gpus, order);
        }
    }
}

#[test]
fn a_call_that_nothing_serves_in_order_says_why_on_every_rank() {
    // Pairs of more ranks than there are programs for.
    let registry = Arc::new(Registry::new(Shape { ranks: 130, per_node: 130 }, &[]));
    let (data_type, placement) = (DataType::F32, CallPlacement::OutOfPlace);
    let error = |rank, kind, count| {
        let reduction = Some(Reduction::Sum);
        let request = CallShape { kind, placement, data_type, reduction, count };
        let selector = selector_of(rank, &registry, Machine::Host, RequiredOrder::Flat);
        let Err(error) = selector.choose(&request) else { panic!("{request} is served") };
        error.to_string()
    };
    for (kind, direct) in
        [(CollectiveKind::ReduceScatter, "direct"), (CollectiveKind::AllReduce, "two_shot")]
    {
        for count in [1, 1 << 20] {
            let first = error(Rank(0), kind, count);
            let expected = "orders or more, and the order must be flat, 0+1+…+129";
            assert!(first.contains(expected), "{first}");
            let expected = format!("{direct}: it is for at most 128 ranks");
            assert!(first.contains(&expected), "{first}");
            for rank in [1, 64, 129] {
                assert_eq!(error(Rank(rank), kind, count), first);
            }
        }
    }
}

#[test]
fn what_adds_nothing_is_not_concerned() {
    let shape = Shape { ranks: 4, per_node: 4 };
    for order in RequiredOrder::ALL {
        let selector = selector(shape, Machine::Gpus, order);
        let (kind, reduction) = (CollectiveKind::AllGather, None);
        let (data_type, count) = (DataType::F32, 1 << 20);
        let request =
            CallShape { kind, placement: CallPlacement::OutOfPlace, data_type, reduction, count };
        let (decision, _) = selector.choose(&request).unwrap();
        assert_eq!(decision.prepared.name, "allgather/allpairs");
    }
}
