//! Sends and receives.

use super::null_driver::{self, World};
use super::{EAGER, counted, stream};

#[test]
fn an_exchange_has_as_many_thread_blocks_as_a_call_may() {
    if let Some(expected) = null_driver::expected() {
        let world = World::new(2);
        let (rank, before) = (world.rank(0), null_driver::calls("thread blocks"));
        rank.exchange(1, null_driver::ELEMENTS / 2, &stream(rank));
        return assert_eq!(null_driver::calls("thread blocks") - before, expected);
    }
    let test = "exchange::an_exchange_has_as_many_thread_blocks_as_a_call_may";
    for (most, expected) in [("64", 4), ("4", 4), ("3", 2), ("1", 2)] {
        null_driver::check_again(test, &[("NCCL_MAX_CTAS", most)], expected);
    }
}

#[test]
fn an_exchange_is_one_launch() {
    let world = World::new(2);
    let rank = world.rank(0);
    let stream = stream(rank);
    rank.exchange(1, 64, &stream);
    // A group gathers its calls, and that allocates.
    let counted = counted(|| rank.exchange(1, 64, &stream));
    assert_eq!(counted.driver, EAGER.into_iter().collect());
}
