//! Programs that synthesis writes are compiled and proved, and what the proved schedules put on
//! links is held against bounds and against brute force.

#![deny(unsafe_code)]
#![allow(clippy::unwrap_used)] // Clippy knows test functions, not what they call.

mod brute_force;
mod exchange;
mod forestcoll;
mod levels;
mod machines;
mod presets;
mod proved;
mod random;
mod times;

use std::collections::BTreeSet;
use std::time::Duration;

use msccl_bounds::{Theorem, Witness};
use msccl_collective::{CollectiveKind, Rank};
use msccl_synthesize::{Ending, Forest, Options, Trees, plan};
use msccl_topology::cluster::{Cluster, Medium, VertexKind};
use num_rational::Ratio;

use brute_force::gather_seconds_per_byte;
use machines::machine;
use proved::Proved;

/// As near to the bound as whole chunks come.
fn exact() -> Options {
    Options { chunks_max: 1024, slack: Ratio::from_integer(0), ..patient() }
}

/// The defaults, for machines that have much to do beside.
fn patient() -> Options {
    Options { time: Duration::from_secs(3600), ..Options::default() }
}

const BLOCKS: [CollectiveKind; 2] = [CollectiveKind::AllGather, CollectiveKind::ReduceScatter];

/// Proves the program, checks its certificate, and that its busiest link is as busy as planned and
/// as the bound says that it must be.
fn expect_optimum(cluster: &Cluster, kind: CollectiveKind) -> Proved {
    let proved = Proved::of(cluster, kind, &exact());
    let name = cluster.name();
    assert_eq!(proved.seconds_per_byte, proved.plan.seconds_per_byte(), "{kind} on {name}");
    assert_eq!(proved.times_bound(), 1.into(), "{kind} on {name}");
    proved
}

#[test]
fn blocks_are_gathered_and_scattered_at_the_bound_on_every_machine() {
    for name in machines::ALL {
        for kind in BLOCKS {
            expect_optimum(&machine(name), kind);
        }
    }
}

#[test]
fn data_of_one_root_moves_at_the_bound_on_every_machine() {
    for name in machines::ALL {
        for kind in [CollectiveKind::Broadcast(Rank(1)), CollectiveKind::Reduce(Rank(0))] {
            expect_optimum(&machine(name), kind);
        }
    }
}

/// Where both phases together are known to be the optimum, and where nobody knows.
#[test]
fn sums_on_all_ranks_take_two_phases_at_their_bounds() {
    for name in machines::ALL {
        let cluster = machine(name);
        let all = Proved::of(&cluster, CollectiveKind::AllReduce, &exact());
        let phases = BLOCKS.map(|kind| expect_optimum(&cluster, kind).seconds_per_byte);
        assert_eq!(all.seconds_per_byte, phases[0] + phases[1], "{name}");
        assert_eq!(all.times_bound() == 1.into(), *name != "pcie-pairs-4*2", "{name}");
    }
}

#[test]
fn random_graphs_are_at_the_optimum_of_all_cuts() {
    for (vertices, seed) in [(8, 1), (11, 2), (16, 3)] {
        let cluster = random::gpus(vertices, seed);
        let least = gather_seconds_per_byte(&cluster);
        for kind in BLOCKS {
            assert_eq!(expect_optimum(&cluster, kind).seconds_per_byte, least, "seed {seed}");
        }
    }
    for (vertices, seed) in [(9, 4), (12, 5), (14, 6), (16, 7)] {
        let cluster = random::at_switches(vertices, seed);
        assert!(cluster.vertices().iter().any(|it| it.kind == VertexKind::Switch));
        let proved = expect_optimum(&cluster, CollectiveKind::AllGather);
        assert_eq!(proved.seconds_per_byte, gather_seconds_per_byte(&cluster), "seed {seed}");
    }
}

/// What is fast with few chunks is within half a percent of the optimum. Only a DGX-1 has a link
/// that is of use in steps of less than a sixteenth: 6 of 972 GB/s, between its processors.
#[test]
fn few_chunks_cost_little() {
    for name in machines::ALL {
        let most = if *name == "dgx1-v100" { Ratio::new(81, 80) } else { Ratio::new(201, 200) };
        for kind in BLOCKS {
            let proved = Proved::of(&machine(name), kind, &patient());
            assert!(proved.times_bound() <= most, "{kind} on {name}");
            assert!(proved.plan.chunks <= 16, "{kind} on {name}");
        }
    }
}

/// All that gets into a GPU of a DGX-1 comes over its NVLinks of 120 GB/s, or over the link of
/// 6 GB/s that leads to its processor from the other one: between GPUs of one processor, messages
/// take NVLinks. So four GPUs, each of which needs 7/8 of the bytes, get 4 · 120 + 6 GB/s.
#[test]
fn routes_are_bounded_where_cuts_say_too_little() {
    let cluster = machine("dgx1-v100");
    for kind in BLOCKS {
        let bound = expect_optimum(&cluster, kind).plan.bound;
        assert_eq!(bound.seconds_per_byte, Ratio::new(7, 972_000_000_000), "{kind}");
        let Witness::Routes { crossings, links } = bound.witness else { panic!("{kind}") };
        assert_eq!(crossings.len(), 4, "{kind}");
        let long = cluster.links().iter().zip(links).filter(|(_, length)| *length > 0);
        let media: BTreeSet<_> = long.map(|(link, _)| link.medium).collect();
        assert_eq!(media, [Medium::NvLink, Medium::Socket].into(), "{kind}");
    }
}

/// Messages share links beside those of their own, and no cut shows how much that takes.
#[test]
fn random_routes_are_at_the_optimum_of_linear_programming() {
    let mut theorems = BTreeSet::new();
    for seed in 1..=19 {
        let cluster = random::beside_switches(6 + seed as usize % 7, seed);
        for kind in BLOCKS {
            let bound = expect_optimum(&cluster, kind).plan.bound;
            theorems.insert(bound.theorem() == Theorem::Routes);
        }
    }
    assert_eq!(theorems, [false, true].into(), "cuts suffice for some, and not for others");
}

#[test]
fn bad_input_is_refused_with_a_reason() {
    let refused =
        |cluster: &Cluster, kind| plan(cluster, kind, &Options::default()).unwrap_err().to_string();
    let mut alone = Cluster::new("alone");
    alone.add("gpu0", VertexKind::Gpu, Some(0));
    let error = refused(&alone, CollectiveKind::AllGather);
    assert_eq!(error, "expected a cluster of at least 2 GPUs, found 1");
    alone.add("gpu1", VertexKind::Gpu, Some(0));
    let error = refused(&alone, CollectiveKind::AllGather);
    assert!(error.contains("expected a path from `gpu"), "{error}");

    let ring = machine("ring");
    let error = refused(&ring, CollectiveKind::Broadcast(Rank(8)));
    assert_eq!(error, "expected a root below 8, the number of GPUs, found 8");
    let error = refused(&ring, CollectiveKind::Gather(Rank(0)));
    assert!(error.contains("found gather"), "{error}");
    let many = machine("hgx-h100-8*129");
    let error = refused(&many, CollectiveKind::AllReduce);
    assert!(error.contains("at most 1024 ranks for allreduce, found 1032"), "{error}");
    let error = refused(&many, CollectiveKind::Reduce(Rank(0)));
    assert!(error.contains("at most 512 ranks for reduce"), "{error}");
}

/// Only the trees that are found at once are there. They are proved, and not far from the bound,
/// but for those of one root, of which each link carries everything or nothing.
#[test]
fn without_time_the_first_trees_must_do() {
    let none = Options { time: Duration::ZERO, ..Options::default() };
    for name in machines::ALL {
        let cluster = machine(name);
        for kind in BLOCKS.into_iter().chain([CollectiveKind::AllReduce]) {
            let proved = Proved::of(&cluster, kind, &none);
            assert_eq!(proved.plan.ending, Ending::TimeOver, "{kind} on {name}");
            assert!(proved.times_bound() <= Ratio::new(3, 2), "{kind} on {name}");
        }
        let proved = Proved::of(&cluster, CollectiveKind::Broadcast(Rank(1)), &none);
        assert!(proved.times_bound() <= 8.into(), "{name}: {}", proved.times_bound());
    }
}

/// Of 144 GPUs in nodes, the trees of a node are nested in those of the network, and nothing is
/// lost.
#[test]
fn trees_of_many_nodes_are_nested() {
    let cluster = machine("hgx-h100-8*18");
    for kind in BLOCKS {
        let proved = expect_optimum(&cluster, kind);
        let is_nested = |forest: &Forest| matches!(forest.trees, Trees::Nested(_));
        assert!(proved.plan.forests().all(is_nested), "{kind}");
        assert_eq!(proved.plan.forests().map(|it| it.trees.height()).max(), Some(2), "{kind}");
    }
}
