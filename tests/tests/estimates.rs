//! The cost model over the crates: no estimate is better than what is possible, and all come soon.

use std::sync::Arc;
use std::time::{Duration, Instant};

use msccl_bounds::{SwitchModel, bound};
use msccl_collective::{CallPlacement, CollectiveKind, DataType, Rank, Reduction};
use msccl_registry::{Registry, Shape};
use msccl_select::{Hardware, Machine, NamedAlgorithmShape, Overrides, Selector};
use msccl_topology::bandwidth::Bandwidth;
use msccl_topology::cluster::{Cluster, Medium, VertexKind};
use proptest::prelude::*;

const KINDS: [CollectiveKind; 4] = [
    CollectiveKind::AllReduce,
    CollectiveKind::AllGather,
    CollectiveKind::ReduceScatter,
    CollectiveKind::AllToAll,
];

fn registry(ranks: u32, per_node: u32) -> Arc<Registry> {
    Arc::new(Registry::new(Shape { ranks, per_node }, &[]))
}

fn selector(registry: &Arc<Registry>) -> Selector {
    Selector::nominal(Machine::Gpus, registry, Rank(0), &Overrides::default(), None, true)
}

/// A call of about `bytes` bytes in the larger buffer.
fn call(kind: CollectiveKind, ranks: u32, bytes: u64) -> (NamedAlgorithmShape, u64) {
    let blocks = if kind == CollectiveKind::AllReduce { 1 } else { u64::from(ranks) };
    let count = (bytes / 4).div_ceil(blocks).max(1);
    let (placement, data_type, reduction) =
        (CallPlacement::OutOfPlace, DataType::F32, Reduction::Sum);
    (NamedAlgorithmShape { placement, data_type, reduction, count }, count * 4 * blocks)
}

/// GPUs behind a switch, and links between some of them, with rates in MB/s.
fn cluster(ports: &[u32], links: &[(u32, u32, u32)]) -> Cluster {
    let mut cluster = Cluster::new("random");
    let switch = cluster.add("switch", VertexKind::Switch, Some(0));
    let named = (0..).zip(ports);
    let gpus: Vec<_> = named
        .map(|(at, rate)| {
            let gpu = cluster.add(format!("gpu{at}"), VertexKind::Gpu, Some(0));
            cluster.join(gpu, switch, Bandwidth::from_mb_per_s(*rate), 700, Medium::NvLink);
            gpu
        })
        .collect();
    for &(one, other, rate) in links {
        let [one, other] = [one, other].map(|at| gpus[at as usize % gpus.len()]);
        if one != other {
            cluster.join(one, other, Bandwidth::from_mb_per_s(rate), 300, Medium::NvLink);
        }
    }
    cluster
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn no_estimate_is_better_than_the_bound(
        ports in prop::collection::vec(500_u32..400_000, 2..6),
        links in prop::collection::vec((0_u32..6, 0_u32..6, 500_u32..200_000), 0..5),
        kind in prop::sample::select(KINDS.to_vec()),
        power in 6_u32..31,
    ) {
        let cluster = cluster(&ports, &links);
        let ranks = ports.len() as u32;
        let least = bound(&cluster, kind, SwitchModel::Forward).unwrap();
        let hardware = Hardware::of(cluster);
        let registry = registry(ranks, ranks);
        let selector = selector(&registry);
        let (call, bytes) = call(kind, ranks, 1 << power);
        let names = registry.built_in_names(kind, call.placement);
        for name in names.collect::<Vec<_>>() {
            let Some(entry) = registry.built_in_named(kind, call.placement, name) else { continue };
            let Ok((modelled, _)) = selector.model(&entry, &call) else { continue };
            let found_us = modelled.estimate(&hardware).unwrap().total_us;
            let least_us = least.seconds(bytes) * 1e6;
            prop_assert!(found_us >= least_us, "{name}: {found_us} µs, at least {least_us} µs");
        }
    }
}

#[test]
fn built_in_algorithms_of_eight_ranks_are_estimated_in_20_ms() {
    let registry = registry(8, 8);
    let selector = selector(&registry);
    let hardware = Hardware::nominal(registry.shape()).unwrap();
    let mut estimated = 0;
    for kind in KINDS {
        let names = registry.built_in_names(kind, CallPlacement::OutOfPlace);
        for name in names.collect::<Vec<_>>() {
            let entry = registry.built_in_named(kind, CallPlacement::OutOfPlace, name);
            for power in [10, 20, 30] {
                let (call, _) = call(kind, 8, 1 << power);
                let Some(Ok((modelled, _))) =
                    entry.as_ref().map(|entry| selector.model(entry, &call))
                else {
                    continue;
                };
                // A busy machine slows one attempt, not all.
                let took = (0..10).map(|_| {
                    let start = Instant::now();
                    modelled.estimate(&hardware).unwrap();
                    start.elapsed()
                });
                let took = took.min().unwrap();
                assert!(took <= Duration::from_millis(20), "{name}, 2^{power} bytes: {took:?}");
                estimated += 1;
            }
        }
    }
    assert!(estimated > 30, "{estimated}");
}

#[test]
fn a_hierarchical_call_of_1024_ranks_is_estimated_in_10_s() {
    let registry = registry(1024, 8);
    let selector = selector(&registry);
    let hardware = Hardware::nominal(registry.shape()).unwrap();
    let (kind, placement) = (CollectiveKind::AllReduce, CallPlacement::OutOfPlace);
    let entry = registry.built_in_named(kind, placement, "allreduce/hierarchical").unwrap();
    let (call, _) = call(kind, 1024, 256 << 20);
    let decision = selector.force(&entry, &call).unwrap();
    let modelled = selector.modelled(&entry, &decision).unwrap();
    let start = Instant::now();
    let found_us = modelled.estimate(&hardware).unwrap().total_us;
    let took = start.elapsed();
    println!("hierarchical, 1024 ranks, 256 MiB: {found_us:.0} µs by estimate, in {took:?}");
    assert!(took <= Duration::from_secs(10), "{took:?}");
}
