//! Small calls have kernels of their own.

use super::null_driver::{self, World};
use super::{EAGER, check, stream};

/// What tells a process that it is one of those that this test runs, and how many of three calls are small.
const EXPECTED: &str = "NULL_SMALL_EXPECTED";

#[test]
fn small_calls_have_kernels_of_their_own() {
    if let Some(expected) = std::env::var_os(EXPECTED) {
        return call(expected.to_str().unwrap().parse().unwrap());
    }
    let ways = [
        ("allreduce/one_shot", "LL", "", 2),
        ("allreduce/one_shot", "LL128", "", 2),
        ("allreduce/one_shot", "Simple", "", 0),
        // Its thread blocks wait for one another.
        ("allreduce/two_shot", "LL", "", 0),
        ("allreduce/one_shot", "LL", "MSCCL_SMALL", 0),
        ("allreduce/one_shot", "LL", "MSCCL_AT_ONCE", 0),
    ];
    for way @ (algorithm, protocol, off, expected) in ways {
        let mut program = null_driver::again("small::small_calls_have_kernels_of_their_own");
        program
            .env(EXPECTED, expected.to_string())
            .env("MSCCL_ALGO", algorithm)
            .env("MSCCL_PROTO", protocol)
            .env("MSCCL_THREADS", "128")
            .env("MSCCL_INSTANCES", "1");
        if !off.is_empty() {
            program.env(off, "0");
        }
        null_driver::passed(&program.output().unwrap(), way);
    }
}

/// A communicator of two ranks makes two small calls, one of which ends with half a packet, and one of many packets;
/// `expected` of them have kernels for small calls, as cheap as any.
fn call(expected: u64) {
    let world = World::new(2);
    let (rank, stream) = (world.rank(0), stream(world.rank(0)));
    let before = null_driver::small_launches();
    rank.all_reduce(64, &stream);
    rank.all_reduce(63, &stream);
    rank.all_reduce(null_driver::ELEMENTS, &stream);
    assert_eq!(null_driver::small_launches() - before, expected);
    check(|| rank.all_reduce(64, &stream), &EAGER);
}

/// What tells a process that it is one of those that the next test runs, and how many of three calls begin early.
const EARLY: &str = "NULL_EARLY_EXPECTED";

#[test]
fn a_kernel_begins_early_where_it_has_room_beside_the_one_before() {
    if let Some(expected) = std::env::var_os(EARLY) {
        return begin(expected.to_str().unwrap().parse().unwrap());
    }
    // Those of the calls have 8, 16 and 16 thread blocks. Where the second has no room twice, the third need not share it.
    let ways = [("32", 3), ("24", 3), ("23", 2), ("16", 2)];
    let check = |variable: &str, value: &str, expected: u64| {
        let test = "small::a_kernel_begins_early_where_it_has_room_beside_the_one_before";
        let mut program = null_driver::again(test);
        program.env(EARLY, expected.to_string()).env(variable, value);
        null_driver::passed(&program.output().unwrap(), (variable, value));
    };
    for (blocks, expected) in ways {
        check("NCCL_MAX_CTAS", blocks, expected);
    }
    check("MSCCL_EARLY_START", "0", 0);
}

/// A communicator of two ranks makes three small calls, of which `expected` begin early.
fn begin(expected: u64) {
    let world = World::new(2);
    let (rank, stream) = (world.rank(0), stream(world.rank(0)));
    let (small, early) = (null_driver::small_launches(), null_driver::early_launches());
    for count in [1024, 4096, 4096] {
        rank.all_reduce(count, &stream);
    }
    assert_eq!(null_driver::small_launches() - small, 3);
    assert_eq!(null_driver::early_launches() - early, expected);
}
