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
    for way @ (algorithm, protocol, direct, expected) in ways {
        let test = "odd::operands_that_are_not_aligned_have_kernels_of_their_own";
        let ran = null_driver::again_expecting(test, expected)
            .env("MSCCL_ALGO", algorithm)
            .env("MSCCL_PROTO", protocol)
            .env("MSCCL_DIRECT", direct)
            .env("MSCCL_THREADS", "128")
            .env("MSCCL_INSTANCES", "1")
            .output()
            .unwrap();
        null_driver::passed(&ran, way);
    }
}

/// A communicator of two ranks makes calls of which one has operands that are not aligned: `expected` launches are of kernels
/// for such.
fn call(expected: u64) {
    let world = World::new(2);
    let (rank, stream) = (world.rank(0), stream(world.rank(0)));
    let all_reduce = |offset_bytes: usize, count: usize| {
        let buffer = rank.buffer().offset(offset_bytes);
        rank.all_reduce_at(buffer, count, stream.borrow().as_raw());
    };
    let most = null_driver::ELEMENTS - 4;
    let before = null_driver::calls("odd launches");
    all_reduce(0, most);
    // Ends inside sixteen bytes.
    all_reduce(0, most - 1);
    all_reduce(16, most);
    all_reduce(4, most);
    assert_eq!(null_driver::calls("odd launches") - before, expected);
}
