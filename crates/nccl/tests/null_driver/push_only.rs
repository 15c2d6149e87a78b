//! Ranks in place, beside others whose links deliver directly, have a kernel of their own.

use super::null_driver::{self, Call, World};
use super::stream;

#[test]
fn ranks_that_offer_nothing_have_a_kernel_of_their_own() {
    if let Some(expected) = null_driver::expected() {
        return call(expected);
    }
    let test = "push_only::ranks_that_offer_nothing_have_a_kernel_of_their_own";
    for (direct, expected) in [("2", 1), ("0", 0)] {
        let variables = [("MSCCL_PROTO", "Simple"), ("MSCCL_DIRECT", direct)];
        null_driver::check_again(test, &variables, expected);
    }
}

/// Of three all-to-alls one is in place and has aligned operands: `expected` launches are of that
/// kernel.
fn call(expected: u64) {
    let world = World::new(2);
    let (rank, stream) = (world.rank(0), stream(world.rank(0)));
    let before = null_driver::calls("push-only launches");
    let count = 1 << 12;
    for (from, to) in [(0, 1 << 17), (0, 0), (4, 4)] {
        rank.call(Call::AllToAll { count, from, to }, &stream);
    }
    assert_eq!(null_driver::calls("push-only launches") - before, expected);
}
