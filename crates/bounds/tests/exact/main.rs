//! Bounds of small clusters are those of all cuts, and known ones are as known.

#![deny(unsafe_code)]

mod brute_force;
mod clusters;
mod random;
mod witnesses;

use msccl_bounds::{BoundError, SwitchModel, Theorem, bound, check, check_latency, latency};
use msccl_collective::{CollectiveKind, Rank};
use msccl_topology::cluster::{Cluster, VertexKind};
use num_rational::Ratio;

/// Every collective, those with a root once for each rank.
fn kinds(cluster: &Cluster) -> Vec<CollectiveKind> {
    let roots = (0..cluster.gpus().count() as u32).map(Rank);
    let rooted = roots.flat_map(CollectiveKind::with_root);
    CollectiveKind::WITHOUT_ROOT.into_iter().chain(rooted).collect()
}

#[test]
fn the_bounds_of_cuts_are_the_best_of_all_cuts() {
    for cluster in clusters::all() {
        for kind in kinds(&cluster) {
            let found = bound(&cluster, kind, SwitchModel::Compute).unwrap();
            let expected = brute_force::best_cut(&cluster, kind).unwrap();
            let name = cluster.name();
            if kind == CollectiveKind::AllToAll {
                // Here lengths may show more than any cut.
                assert!(found.seconds_per_byte >= expected, "{name}: {kind}: {found:?}");
            } else {
                assert_eq!(found.theorem(), Theorem::Cut);
                assert_eq!(found.seconds_per_byte, expected, "{name}: {kind}: {found:?}");
            }
            check(&cluster, &found).unwrap_or_else(|error| panic!("{name}: {kind}: {error}"));
        }
    }
}

#[test]
fn partitions_never_show_less_than_cuts() {
    for cluster in clusters::all() {
        let [cut, any] = [SwitchModel::Compute, SwitchModel::Forward]
            .map(|switches| bound(&cluster, CollectiveKind::AllReduce, switches).unwrap());
        assert!(any.seconds_per_byte >= cut.seconds_per_byte, "{}", cluster.name());
        check(&cluster, &any).unwrap();
    }
}

#[test]
fn one_switch_has_the_known_bounds() {
    for count in [2_u128, 4, 8] {
        let cluster = clusters::switch(count as usize);
        let check = |kind, blocks: u128| {
            // A link of 1 GB/s passes so many of the blocks of a call.
            let expected = Ratio::new(blocks, count * 1_000_000_000);
            let found = bound(&cluster, kind, SwitchModel::Forward).unwrap();
            assert_eq!(found.seconds_per_byte, expected, "{count} GPUs: {kind}");
        };
        check(CollectiveKind::AllReduce, 2 * (count - 1));
        check(CollectiveKind::AllGather, count - 1);
        check(CollectiveKind::ReduceScatter, count - 1);
        check(CollectiveKind::AllToAll, count - 1);
        for root in [Rank(0), Rank(count as u32 - 1)] {
            check(CollectiveKind::Broadcast(root), count);
            check(CollectiveKind::Reduce(root), count);
            check(CollectiveKind::Gather(root), count - 1);
            check(CollectiveKind::Scatter(root), count - 1);
        }
    }
}

/// By hand: what a ring, a mesh and nodes take.
#[test]
fn known_clusters_have_the_known_bounds() {
    let check = |cluster: &Cluster, kind, numerator: u128, denominator: u128| {
        let found = bound(cluster, kind, SwitchModel::Forward).unwrap().seconds_per_byte;
        let expected = Ratio::new(numerator, denominator * 1_000_000);
        assert_eq!(found, expected, "{}: {kind}", cluster.name());
    };
    // Seven of eight blocks enter a GPU over two links of 300 MB/s.
    check(&clusters::ring(8), CollectiveKind::AllGather, 7, 8 * 600);
    // Either half of the ring sends 4 · 4 blocks over two links.
    check(&clusters::ring(8), CollectiveKind::AllToAll, 16, 8 * 600);
    // The seven other GPUs are joined to each by links of 48 MB/s.
    check(&clusters::mesh(8), CollectiveKind::AllToAll, 1, 8 * 48);
    check(&clusters::mesh(8), CollectiveKind::AllReduce, 2, 8 * 48);
    // One link in the middle, whatever is done at its ends.
    check(&clusters::line(5), CollectiveKind::AllReduce, 8, 4 * 180);
    // A one-way ring sends each block on four times of five.
    check(&clusters::one_way_ring(5), CollectiveKind::AllGather, 4, 5 * 250);
    check(&clusters::one_way_ring(5), CollectiveKind::AllToAll, 50, 25 * 250);
}

#[test]
fn lengths_show_more_than_cuts_where_paths_are_long() {
    // On a one-way ring of five the mean path has 2.5 links; the best cut shows 6 blocks a link.
    let cluster = clusters::one_way_ring(5);
    let found = bound(&cluster, CollectiveKind::AllToAll, SwitchModel::Forward).unwrap();
    assert_eq!(found.theorem(), Theorem::Lengths);
    let cut = brute_force::best_cut(&cluster, CollectiveKind::AllToAll);
    assert!(found.seconds_per_byte > cut.unwrap());
}

#[test]
fn many_nodes_are_bound_by_their_nics() {
    let find = |nodes, kind| {
        let cluster = clusters::nodes(nodes, 8);
        let found = bound(&cluster, kind, SwitchModel::Forward).unwrap();
        check(&cluster, &found).unwrap();
        found.seconds_per_byte
    };
    // Each of 128 nodes receives the blocks of 127 over eight NICs of 50 GB/s.
    let node = Ratio::new(127, 128 * 400_000_000_000);
    assert_eq!(find(128, CollectiveKind::AllGather), node);
    assert_eq!(find(128, CollectiveKind::ReduceScatter), node);
    assert_eq!(find(128, CollectiveKind::Gather(Rank(700))), node);
    assert_eq!(find(128, CollectiveKind::AllReduce), node * 2);
    // Each of 16 nodes sends so much from each of its GPUs.
    let node = Ratio::new(15, 16 * 400_000_000_000);
    assert_eq!(find(16, CollectiveKind::AllToAll), node * 8);
}

/// The distances of all pairs, by trying paths of one more link again and again.
fn farthest_ns(cluster: &Cluster, is_pair: impl Fn(usize, usize) -> bool) -> u64 {
    let gpus: Vec<usize> = cluster.gpus().map(|gpu| gpu.index()).collect();
    let mut farthest = 0;
    for (from, origin) in gpus.iter().enumerate() {
        let mut distances = vec![u64::MAX / 2; cluster.vertices().len()];
        distances[*origin] = 0;
        for _ in cluster.vertices() {
            for link in cluster.links().iter().filter(|link| link.rate.gb_per_s() > 0.0) {
                let through = distances[link.from.index()] + u64::from(link.latency_ns);
                distances[link.to.index()] = distances[link.to.index()].min(through);
            }
        }
        let needed = (0..gpus.len()).filter(|to| *to != from && is_pair(from, *to));
        farthest = needed.map(|to| distances[gpus[to]]).fold(farthest, u64::max);
    }
    farthest
}

#[test]
fn latencies_are_those_of_the_farthest_pair() {
    for cluster in clusters::all() {
        for kind in kinds(&cluster) {
            let root = kind.root().map(|root| root.0 as usize);
            let expected = farthest_ns(&cluster, |from, to| match kind {
                CollectiveKind::Broadcast(_) | CollectiveKind::Scatter(_) => Some(from) == root,
                CollectiveKind::Reduce(_) | CollectiveKind::Gather(_) => Some(to) == root,
                _ => true,
            });
            let found = latency(&cluster, kind).unwrap();
            assert_eq!(found.nanoseconds, expected, "{}: {kind}", cluster.name());
            check_latency(&cluster, &found).unwrap();
        }
    }
}

#[test]
fn what_has_no_bound_says_why() {
    let find = |cluster: &Cluster, kind| {
        let [time, latency] = [
            bound(cluster, kind, SwitchModel::Forward).unwrap_err(),
            latency(cluster, kind).unwrap_err(),
        ];
        assert_eq!(time, latency);
        time
    };
    let mut alone = Cluster::new("one GPU");
    clusters::gpus(&mut alone, 0, 1);
    let error = find(&alone, CollectiveKind::AllGather);
    assert_eq!(error, BoundError::TooFewGpus { found: 1 });
    let kind = CollectiveKind::Gather(Rank(4));
    let error = find(&clusters::switch(4), kind);
    assert_eq!(error.to_string(), "expected a root below 4, the number of GPUs, found 4");

    // The first GPU only sends, so that nothing gets to it.
    let mut cluster = clusters::one_way_ring(2);
    let extra = cluster.add("gpu2", VertexKind::Gpu, None);
    let link = cluster.links()[0];
    cluster.add_link(msccl_topology::cluster::ClusterLink { from: extra, ..link });
    let no_path = |kind| {
        let error = bound(&cluster, kind, SwitchModel::Forward).unwrap_err();
        assert!(latency(&cluster, kind).is_err());
        let BoundError::NoPath { from, to } = error else { panic!("{error}") };
        assert_eq!(to, "gpu2", "{kind}");
        assert!(["gpu0", "gpu1"].contains(&&*from), "{kind}: {from}");
    };
    CollectiveKind::WITHOUT_ROOT.into_iter().for_each(no_path);
    CollectiveKind::with_root(Rank(2))[1..3].iter().copied().for_each(no_path);
    no_path(CollectiveKind::Broadcast(Rank(0)));
    let from_there = CollectiveKind::Broadcast(Rank(2));
    assert!(bound(&cluster, from_there, SwitchModel::Forward).is_ok());
}
