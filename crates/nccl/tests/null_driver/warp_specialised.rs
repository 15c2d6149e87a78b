//! Thread blocks of many steps are warp-specialised.

use super::null_driver::{self, World};
use super::{EAGER, check, stream};

#[test]
fn calls_of_many_steps_are_warp_specialised() {
    if let Some(expected) = null_driver::expected() {
        return call(expected);
    }
    // In small calls there is one round; a ring of two ranks has three steps, or twice as many, a
    // two-shot has one.
    let ways = [
        ("allreduce/ring_interleaved", "Simple", "0", "128", 2),
        ("allreduce/ring_interleaved", "Simple", "0", "64", 0),
        ("allreduce/ring_interleaved", "LL", "0", "128", 0),
        ("allreduce/ring", "Simple", "0", "128", 1),
        ("allreduce/two_shot", "Simple", "0", "128", 1),
    ];
    for (algorithm, protocol, direct, threads, expected) in ways {
        let variables = [
            ("MSCCL_ALGO", algorithm),
            ("MSCCL_PROTO", protocol),
            ("MSCCL_DIRECT", direct),
            ("MSCCL_THREADS", threads),
            ("MSCCL_INSTANCES", "1"),
        ];
        null_driver::check_again(
            "warp_specialised::calls_of_many_steps_are_warp_specialised",
            &variables,
            expected,
        );
    }
}

/// A communicator of two ranks makes a small call and one of two rounds and more; `expected` of the
/// two are warp-specialised, as cheap as any.
fn call(expected: u64) {
    let world = World::new(2);
    let (rank, stream) = (world.rank(0), stream(world.rank(0)));
    let before = null_driver::calls("warp-specialised launches");
    rank.all_reduce(64, &stream);
    rank.all_reduce(null_driver::ELEMENTS, &stream);
    assert_eq!(null_driver::calls("warp-specialised launches") - before, expected);
    check(|| rank.all_reduce(null_driver::ELEMENTS, &stream), &EAGER);
}
