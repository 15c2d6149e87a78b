//! Plans on their way to the GPU, which may have to wait behind kernels of others.

use super::null_driver::{self, World};
use super::stream;

/// That no copy ends.
const NEVER_IDLE: [(&str, &str); 1] = [("NULL_IS_NEVER_IDLE", "1")];

/// What a call could wait with, for ever.
const WAITS: [&str; 2] = ["cuStreamSynchronize", "cuEventSynchronize"];

/// What the first call of a rank does with its plan.
fn first_call() {
    let world = World::new(2);
    let (rank, stream) = (world.rank(0), stream(world.rank(0)));
    let first = || rank.all_reduce(1 << 12, &stream);
    let [queries, kernels] = null_driver::calls_in(["cuStreamQuery", "cuLaunchKernelEx"], || {
        assert_eq!(null_driver::calls_in(WAITS, first), [0, 0]);
    });
    assert!(queries > 0, "it does not look whether its plan has arrived");
    assert_eq!(kernels, 1);
}

#[test]
fn a_call_waits_for_its_plan() {
    first_call();
}

#[test]
fn a_plan_that_does_not_arrive_holds_up_no_call() {
    if null_driver::has(&NEVER_IDLE, "uploads::a_plan_that_does_not_arrive_holds_up_no_call") {
        first_call();
    }
}
