//! Operands that are not aligned have kernels of their own under protocol Simple.

use super::null_driver::{self, World};
use super::stream;

#[test]
fn operands_that_are_not_aligned_have_kernels_of_their_own() {
    if let Some(expected) = null_driver::expected() {
        return call(expected);
    }
    let ways = [
        ("allreduce/two_shot", "Simple", "0", 1),
        ("allreduce/two_shot", "Simple", "2", 1),
        // Warp-specialised.
        ("allreduce/ring_interleaved", "Simple", "0", 1),
        ("allreduce/two_shot", "LL", "0", 0),
    ];
    for (algorithm, protocol, direct, expected) in ways {
        let test = "unaligned::operands_that_are_not_aligned_have_kernels_of_their_own";
        let variables = [
            ("MSCCL_ALGO", algorithm),
            ("MSCCL_PROTO", protocol),
            ("MSCCL_DIRECT", direct),
            ("MSCCL_THREADS", "128"),
            ("MSCCL_INSTANCES", "1"),
        ];
        null_driver::check_again(test, &variables, expected);
    }
}

/// A communicator of two ranks makes calls of which one has operands that are not aligned:
/// `expected` launches are of kernels for such.
fn call(expected: u64) {
    let world = World::new(2);
    let (rank, stream) = (world.rank(0), stream(world.rank(0)));
    let most = null_driver::ELEMENTS - 4;
    let before = null_driver::calls("odd launches");
    rank.all_reduce(most, &stream);
    // Ends inside sixteen bytes.
    rank.all_reduce(most - 1, &stream);
    rank.all_reduce_from(16, most, &stream);
    rank.all_reduce_from(4, most, &stream);
    assert_eq!(null_driver::calls("odd launches") - before, expected);
}

#[test]
fn operands_that_are_not_aligned_have_more_threads() {
    if let Some(expected) = null_driver::expected() {
        return compare_threads(expected);
    }
    let test = "unaligned::operands_that_are_not_aligned_have_more_threads";
    let way = [("MSCCL_ALGO", "allreduce/two_shot"), ("MSCCL_PROTO", "Simple")];
    null_driver::check_again(test, &way, 2);
    let [algorithm, protocol] = way;
    null_driver::check_again(test, &[algorithm, protocol, ("MSCCL_THREADS", "256")], 1);
}

/// A call whose operands are not aligned has so many times the threads of one whose operands are.
fn compare_threads(expected: u64) {
    let world = World::new(2);
    let (rank, stream) = (world.rank(0), stream(world.rank(0)));
    let most = null_driver::ELEMENTS - 4;
    let threads_from = |first| {
        let before = null_driver::calls("threads");
        rank.all_reduce_from(first, most, &stream);
        null_driver::calls("threads") - before
    };
    assert_eq!(threads_from(4), threads_from(16) * expected);
}
