//! Thread blocks share multiprocessors in large calls, where that is asked for.

use super::null_driver::{self, ELEMENTS, World};
use super::{EAGER, check, stream};

/// What tells a process that it is one of those that this test runs, and how many launches pack of two calls, the second
/// of which is large.
const EXPECTED: &str = "NULL_PACKED_EXPECTED";

#[test]
fn large_calls_are_packed_where_that_is_asked_for() {
    if let Some(expected) = std::env::var_os(EXPECTED) {
        return call(expected.to_str().unwrap().parse().unwrap());
    }
    let ways = [
        ("MSCCL_ALGO", "allreduce/one_block"),
        ("MSCCL_PROTO", "Simple"),
        ("MSCCL_INSTANCES", "2"),
    ];
    for (pack, threads, expected) in [("0", "128", 0), ("1", "128", 1), ("1", "512", 0)] {
        let ran = null_driver::again("packed::large_calls_are_packed_where_that_is_asked_for")
            .env(EXPECTED, expected.to_string())
            .env("MSCCL_PACK", pack)
            .env("MSCCL_THREADS", threads)
            .envs(ways)
            .output()
            .unwrap();
        null_driver::passed(&ran, (pack, threads));
    }
}

/// A communicator of two ranks makes a small call and a large one; `expected` of the two are packed, as cheap as any.
fn call(expected: u64) {
    let world = World::new(2);
    let (rank, stream) = (world.rank(0), stream(world.rank(0)));
    let before = null_driver::packed_launches();
    rank.all_reduce(64, &stream);
    assert_eq!(null_driver::packed_launches(), before, "a small call is packed");
    rank.all_reduce(ELEMENTS, &stream);
    assert_eq!(null_driver::packed_launches() - before, expected);
    check(|| rank.all_reduce(ELEMENTS, &stream), &EAGER);
}
