//! Kernels of different communicators begin in the order of their launches, where that is asked
//! for.

use msccl_gpu::{CaptureMode, Event, Stream};

use super::null_driver::{self, Rank, World};
use super::{EAGER, check, counted, stream};

const TURNS: (&str, &str) = ("NCCL_LAUNCH_ORDER_IMPLICIT", "1");

/// A stream for each of `ranks`, in which it has made a call, one rank after another.
fn streams<const N: usize>(ranks: [&Rank; N]) -> [Stream; N] {
    ranks.map(|rank| {
        let stream = stream(rank);
        rank.all_reduce(64, &stream);
        stream
    })
}

fn marked() -> u64 {
    null_driver::calls("marked launches")
}

#[test]
fn a_kernel_waits_for_the_beginning_of_the_one_before_in_another_stream() {
    if !null_driver::has(
        &[TURNS],
        "launch_order::a_kernel_waits_for_the_beginning_of_the_one_before_in_another_stream",
    ) {
        return;
    }
    let worlds = [World::new(2), World::new(2), World::new(2)];
    let ranks = worlds.each_ref().map(|world| world.rank(0));
    let streams = streams(ranks);
    let all = || ranks.iter().zip(&streams);
    let turn = [&EAGER[..], &[("cuStreamWaitEvent", 1)]].concat();
    let before = marked();
    for (rank, stream) in all() {
        check(|| rank.all_reduce(64, stream), &turn);
        check(|| rank.all_reduce(64, stream), &EAGER);
    }
    assert_eq!(marked() - before, 6);
    // The launches of another device have turns of their own.
    let _peer = self::streams([worlds[0].rank(1)]);
    check(|| ranks[2].all_reduce(64, &streams[2]), &EAGER);
}

#[test]
fn captures_have_launch_orders_of_their_own() {
    if !null_driver::has(&[TURNS], "launch_order::captures_have_launch_orders_of_their_own") {
        return;
    }
    let worlds = [World::new(2), World::new(2)];
    let [one, other] = worlds.each_ref().map(|world| world.rank(0));
    let [first, second] = streams([one, other]);
    let waits = |body: &dyn Fn()| counted(body).driver.remove("cuStreamWaitEvent");
    first.borrow().begin_capture(CaptureMode::Global).unwrap();
    let outside = "for what other graphs and calls outside have marked, and no more";
    assert_eq!(waits(&|| one.all_reduce(64, &first)), Some(1), "{outside}");
    let fork = Event::ordering(one.context).unwrap();
    fork.record(first.borrow()).unwrap();
    second.borrow().wait(&fork).unwrap();
    assert_eq!(waits(&|| other.all_reduce(64, &second)), Some(2), "the second follows the first");
    fork.record(second.borrow()).unwrap();
    first.borrow().wait(&fork).unwrap();
    assert_eq!(first.borrow().end_capture().unwrap().nodes(), Ok(2 + 2 * 2));
    // The last launch outside was in the second stream; graphs may have run since.
    let waits = [&EAGER[..], &[("cuStreamWaitEvent", 1)]].concat();
    check(|| other.all_reduce(64, &second), &waits);
}

#[test]
fn a_driver_that_reports_no_beginnings_is_polled_for_ends() {
    const OLD: (&str, &str) = ("NULL_IS_OLD", "1");
    if !null_driver::has(
        &[OLD, TURNS],
        "launch_order::a_driver_that_reports_no_beginnings_is_polled_for_ends",
    ) {
        return;
    }
    let worlds = [World::new(2), World::new(2)];
    let [one, other] = worlds.each_ref().map(|world| world.rank(0));
    let [first, _second] = streams([one, other]);
    let before = marked();
    let counted = counted(|| one.all_reduce(64, &first)).driver;
    assert_eq!((counted["cuStreamWaitEvent"], counted["cuEventRecord"]), (1, 2));
    assert_eq!(marked(), before, "such a driver refuses the attribute");
}

#[test]
fn nobody_has_turns_who_does_not_ask_for_them() {
    let world = World::new(2);
    let (rank, stream) = (world.rank(0), stream(world.rank(0)));
    let before = marked();
    rank.all_reduce(64, &stream);
    assert_eq!(marked(), before);
}
