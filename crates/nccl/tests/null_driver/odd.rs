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
        // By a crew.
        ("allreduce/ring_interleaved", "Simple", "0", 1),
        ("allreduce/two_shot", "LL", "0", 0),
    ];
    for (algorithm, protocol, direct, expected) in ways {
        let test = "odd::operands_that_are_not_aligned_have_kernels_of_their_own";
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

/// A communicator of two ranks makes calls of which one has operands that are not aligned: `expected` launches are of kernels
/// for such.
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
