//! Communicators whose ranks live on several pretended hosts of this process.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod world;

use msccl_collective::{DataType, Reduction};
use msccl_runtime::Settings;

use world::{Hosts, all_reduce, check_on, world_on};

/// Hosts of `per_node` ranks each, in order.
fn runs(per_node: u32) -> impl Fn(u32) -> Option<String> + Sync {
    move |rank| Some(format!("host{}", rank / per_node))
}

#[test]
fn an_all_reduce_of_two_hosts() {
    let sums = world_on(2, &runs(1), &Settings::default(), |communicator| {
        all_reduce(&communicator, 1000).unwrap()[999]
    });
    assert_eq!(sums, [3, 3]);
}

#[test]
fn collectives_keep_their_promises_on_any_placement() {
    let uneven = |rank: u32| Some(format!("host{}", rank / 2));
    let scattered = |rank: u32| Some(format!("host{}", rank % 2));
    let places: [(u32, &Hosts); 5] =
        [(4, &runs(2)), (8, &runs(4)), (3, &uneven), (8, &runs(1)), (4, &scattered)];
    for (ranks, host) in places {
        for count in [0, 1, 1000] {
            check_on(ranks, host, DataType::F32, Reduction::Sum, count);
        }
    }
    check_on(4, &runs(2), DataType::I8, Reduction::Max, 70_001);
}
