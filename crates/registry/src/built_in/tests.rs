//! What built-in algorithms promise: a placement, a shape, few peers.

use std::collections::BTreeSet;

use super::*;
use crate::traffic;

fn kinds(ranks: u32) -> Vec<CollectiveKind> {
    let rooted = [Rank(0), Rank(ranks - 1)].into_iter().flat_map(CollectiveKind::with_root);
    CollectiveKind::WITHOUT_ROOT.into_iter().chain(rooted).collect()
}

#[test]
fn placements_of_a_rooted_collective_agree_over_links() {
    let one_node = [2, 3, 5, 8].map(|ranks| (ranks, ranks));
    for (ranks, per_node) in one_node.into_iter().chain([(6, 2), (8, 4), (5, 1)]) {
        let shape = Shape { ranks, per_node };
        for kind in kinds(ranks).into_iter().filter(|kind| kind.root().is_some()) {
            let [within, apart] = [Placement::InPlace, Placement::OutOfPlace]
                .map(|placement| built_ins(shape, kind, placement));
            assert_eq!(within.len(), apart.len(), "{kind:?}");
            for (within, apart) in within.iter().zip(&apart) {
                assert_eq!(within.name, apart.name);
                let same_traffic = kind.root().is_some_and(|root| {
                    traffic::same_traffic(&within.verified, &apart.verified, root)
                });
                assert!(same_traffic, "{kind:?} {ranks} {}", within.name);
            }
        }
    }
}

#[test]
fn every_collective_is_served_for_every_number_of_ranks() {
    let one_node = [1, 2, 3, 4, 5, 7, 8, 13, 16, 24].map(|ranks| (ranks, ranks));
    for (ranks, per_node) in one_node {
        let shape = Shape { ranks, per_node };
        for kind in kinds(ranks) {
            for placement in [Placement::InPlace, Placement::OutOfPlace] {
                let entries = built_ins(shape, kind, placement);
                assert!(!entries.is_empty(), "{kind:?} of {ranks} ranks {placement}");
                for entry in entries {
                    let algorithm = entry.verified.algorithm();
                    assert!(kind.is(&algorithm.collective.kind), "{}", entry.name);
                    assert_eq!(algorithm.placement, placement, "{}", entry.name);
                }
            }
        }
    }
}

/// Several nodes, as ranks and ranks on each.
const NODES: [(u32, u32); 14] = [
    (2, 1),
    (3, 1),
    (5, 1),
    (8, 1),
    (4, 2),
    (6, 2),
    (8, 4),
    (8, 2),
    (10, 2),
    (16, 8),
    (12, 4),
    (20, 4),
    (32, 8),
    (128, 8),
];

/// The most ranks of other nodes that some rank has a link with.
fn peers_on_other_nodes(entry: &Entry, shape: Shape) -> u32 {
    let mut peers = vec![BTreeSet::new(); shape.ranks as usize];
    for (rank, program) in entry.verified.algorithm().ranks.iter().enumerate() {
        for &(_, peer, _) in traffic::traffic(program).keys() {
            if !shape.on_one_node(Rank::from(rank), peer) {
                peers[rank].insert(peer.0);
                peers[peer.0 as usize].insert(rank as u32);
            }
        }
    }
    peers.iter().map(|peers| peers.len() as u32).max().unwrap_or(0)
}

/// How many such peers a program may have, where nodes are a power of two exactly so many.
fn peers_at_most(name: &str, shape: Shape) -> u32 {
    let Shape { ranks, per_node } = shape;
    let nodes = shape.nodes();
    let logarithm = |of: u32| of.next_power_of_two().trailing_zeros();
    let odd = u32::from(!nodes.is_power_of_two());
    let (_, kind) = name.split_once('/').unwrap();
    match (name, kind) {
        ("gather/hierarchical" | "scatter/hierarchical", _) => nodes - 1,
        ("broadcast/hierarchical_low_latency" | "reduce/hierarchical_low_latency", _) => {
            logarithm(nodes)
        }
        (_, "hierarchical") => 2.min(nodes - 1),
        (_, "hierarchical_low_latency" | "hierarchical_doubling") => logarithm(nodes) + odd,
        (_, "multinode_allpairs" | "rail_first" | "rail_first_in_place") => nodes - 1,
        (_, "ring" | "chain") => 2.min(ranks - per_node),
        (_, "tree") => 3.min(ranks - per_node),
        (_, "double_binary_tree") => 6.min(ranks - per_node),
        (_, "bruck") => (2 * logarithm(ranks)).min(ranks - per_node),
        (_, "hierarchical_balanced") => nodes - 1,
        (_, "two_shot" | "two_shot_balanced" | "one_step") => ranks - per_node,
        (_, "allpairs" | "direct" | "direct_balanced" | "in_place") => ranks - per_node,
        _ => panic!("{name}: say how many peers on other nodes a rank has"),
    }
}

#[test]
fn ranks_have_few_peers_on_other_nodes() {
    for (ranks, per_node) in NODES {
        let shape = Shape { ranks, per_node };
        for kind in kinds(ranks) {
            for entry in built_ins(shape, kind, Placement::OutOfPlace) {
                let found = peers_on_other_nodes(&entry, shape);
                let most = peers_at_most(&entry.name, shape);
                assert!(found <= most, "{} {shape:?}: {found} peers", entry.name);
                let exact = entry.name.contains("hierarchical") && shape.nodes().is_power_of_two();
                assert!(found == most || !exact, "{} {shape:?}: {found} of {most}", entry.name);
            }
        }
    }
}

#[test]
fn hierarchical_programs_serve_all_nodes_in_both_placements() {
    for (ranks, per_node) in NODES {
        let shape = Shape { ranks, per_node };
        for kind in kinds(ranks) {
            let out_of = |in_place| match kind {
                CollectiveKind::AllToAll if in_place => "alltoall/rail_first_in_place".to_owned(),
                CollectiveKind::AllToAll => "alltoall/rail_first".to_owned(),
                _ => format!("{}/hierarchical", kind.name()),
            };
            for placement in [Placement::InPlace, Placement::OutOfPlace] {
                let entries = built_ins(shape, kind, placement);
                let expected = out_of(placement == Placement::InPlace);
                assert!(entries.iter().any(|of| of.name == expected), "{expected} {shape:?}");
                for Entry { name, verified, .. } in &entries {
                    assert!(verified.facts().serves_any_count, "{name} {shape:?}");
                }
            }
        }
    }
}

#[test]
fn what_grows_too_fast_is_unsuited() {
    let unsuited = |ranks, per_node, kind| -> Vec<_> {
        let unsuited = unsuited(Shape { ranks, per_node }, kind, Purpose::Any);
        unsuited.into_iter().map(|Unsuited { name, reason }| format!("{name}: {reason}")).collect()
    };
    assert_eq!(unsuited(128, 128, CollectiveKind::AllReduce), [""; 0]);
    assert_eq!(unsuited(64, 8, CollectiveKind::AllReduce), [""; 0]);
    let pairs = "it is for at most 128 ranks, each linked with each; there are 129";
    let names = ["allpairs", "one_sender", "one_block", "one_block_fused"];
    assert_eq!(
        unsuited(129, 129, CollectiveKind::AllGather),
        names.map(|name| format!("allgather/{name}: {pairs}"))
    );
    assert_eq!(
        unsuited(1024, 8, CollectiveKind::AllReduce),
        [
            "allreduce/multinode_allpairs: it is for at most 8 nodes, each linked with each; \
             there are 128",
            "allreduce/ring: it is for at most 256 ranks, with steps for each; there are 1024",
        ]
    );
    let entries = built_ins(
        Shape { ranks: 136, per_node: 8 },
        CollectiveKind::Gather(Rank(3)),
        Placement::InPlace,
    );
    assert_eq!(entries.iter().map(|of| &*of.name).collect::<Vec<_>>(), ["gather/hierarchical"]);
}

/// The most thread blocks that a rank has.
fn thread_blocks(entry: &Entry) -> usize {
    let ranks = entry.verified.algorithm().ranks.iter();
    ranks.map(|rank| rank.thread_blocks.len()).max().unwrap()
}

/// So many ranks on one GPU have eight thread blocks each there.
#[test]
fn eight_thread_blocks_are_enough_for_sixteen_ranks() {
    let shape = Shape { ranks: 16, per_node: 16 };
    for kind in kinds(shape.ranks) {
        for placement in [Placement::InPlace, Placement::OutOfPlace] {
            let entries = built_ins(shape, kind, placement);
            assert!(entries.iter().any(|of| thread_blocks(of) <= 8), "{kind:?} {placement:?}");
        }
    }
}

#[test]
fn many_nodes_need_few_thread_blocks() {
    let shape = Shape { ranks: 160, per_node: 2 };
    for kind in kinds(shape.ranks) {
        for placement in [Placement::InPlace, Placement::OutOfPlace] {
            for entry in built_ins(shape, kind, placement) {
                let most = thread_blocks(&entry);
                assert!(most <= 72, "{}: {most}", entry.name);
            }
        }
    }
}
