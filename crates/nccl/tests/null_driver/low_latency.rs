//! Small calls run on low-latency kernels.

use super::null_driver::{self, World};
use super::{EAGER, check, stream};

#[test]
fn small_calls_have_kernels_of_their_own() {
    if let Some(expected) = null_driver::expected() {
        return call(expected);
    }
    let ways = [
        ("allreduce/one_shot", "LL", "", 2),
        ("allreduce/one_shot", "LL128", "", 2),
        ("allreduce/one_shot", "Simple", "", 0),
        // Its thread blocks wait for one another.
        ("allreduce/two_shot", "LL", "", 0),
        ("allreduce/one_shot", "LL", "MSCCL_LOW_LATENCY", 0),
        ("allreduce/one_shot", "LL", "MSCCL_PREFETCH", 0),
    ];
    for (algorithm, protocol, off, expected) in ways {
        let mut variables = vec![
            ("MSCCL_ALGO", algorithm),
            ("MSCCL_PROTO", protocol),
            ("MSCCL_THREADS", "128"),
            ("MSCCL_INSTANCES", "1"),
        ];
        if !off.is_empty() {
            variables.push((off, "0"));
        }
        let test = "low_latency::small_calls_have_kernels_of_their_own";
        null_driver::check_again(test, &variables, expected);
    }
}

/// A communicator of two ranks makes two small calls, one of which ends with half a packet, and one
/// of many packets; `expected` of them run on low-latency kernels, as cheap as any.
fn call(expected: u64) {
    let world = World::new(2);
    let (rank, stream) = (world.rank(0), stream(world.rank(0)));
    let before = null_driver::calls("low-latency launches");
    rank.all_reduce(64, &stream);
    rank.all_reduce(63, &stream);
    rank.all_reduce(null_driver::ELEMENTS, &stream);
    assert_eq!(null_driver::calls("low-latency launches") - before, expected);
    check(|| rank.all_reduce(64, &stream), &EAGER);
}

#[test]
fn a_kernel_begins_early_where_it_has_room_beside_the_one_before() {
    if let Some(expected) = null_driver::expected() {
        return begin(expected);
    }
    // Those of the calls have 8, 16 and 16 thread blocks. Where the second has no room twice, the
    // third need not share it.
    let ways = [("32", 3), ("24", 3), ("23", 2), ("16", 2)];
    let check = |variable: &str, value: &str, expected: u64| {
        let test = "low_latency::a_kernel_begins_early_where_it_has_room_beside_the_one_before";
        null_driver::check_again(test, &[(variable, value)], expected);
    };
    for (blocks, expected) in ways {
        check("NCCL_MAX_CTAS", blocks, expected);
    }
    check("MSCCL_PDL", "0", 0);
}

/// A communicator of two ranks makes three small calls, of which `expected` begin early.
fn begin(expected: u64) {
    let world = World::new(2);
    let (rank, stream) = (world.rank(0), stream(world.rank(0)));
    let (small, early) =
        (null_driver::calls("low-latency launches"), null_driver::calls("early launches"));
    for count in [1024, 4096, 4096] {
        rank.all_reduce(count, &stream);
    }
    assert_eq!(null_driver::calls("low-latency launches") - small, 3);
    assert_eq!(null_driver::calls("early launches") - early, expected);
}
