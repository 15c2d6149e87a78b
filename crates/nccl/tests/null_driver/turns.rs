//! Kernels of different communicators begin in the order of their launches, where that is asked for.

use msccl_gpu::{CaptureMode, Event};

use super::null_driver::{self, World};
use super::{EAGER, asked, check, stream};

const VARIABLE: &str = "NCCL_LAUNCH_ORDER_IMPLICIT";

/// Whether this process has the variable. If not, runs the test `name` of this module again as a process that has it.
fn has_turns(name: &str) -> bool {
    let has = std::env::var_os(VARIABLE).is_some();
    if !has {
        let program = null_driver::again(&format!("turns::{name}")).env(VARIABLE, "1").output();
        null_driver::passed(&program.unwrap(), name);
    }
    has
}

fn marked() -> u64 {
    null_driver::calls("marked launches")
}

#[test]
fn a_kernel_waits_for_the_beginning_of_the_one_before_in_another_stream() {
    if !has_turns("a_kernel_waits_for_the_beginning_of_the_one_before_in_another_stream") {
        return;
    }
    let worlds = [World::new(2), World::new(2), World::new(2)];
    let ranks = worlds.each_ref().map(|world| world.rank(0));
    let streams = ranks.map(stream);
    let all = || ranks.iter().zip(&streams);
    all().for_each(|(rank, stream)| rank.all_reduce(64, stream));
    let turn = [&EAGER[..], &[("cuStreamWaitEvent", 1)]].concat();
    let before = marked();
    for (rank, stream) in all() {
        check(|| rank.all_reduce(64, stream), &turn);
        check(|| rank.all_reduce(64, stream), &EAGER);
    }
    assert_eq!(marked() - before, 6);
    // The launches of another device have turns of their own.
    let peer = worlds[0].rank(1);
    let peer_stream = stream(peer);
    peer.all_reduce(64, &peer_stream);
    let (rank, stream) = (ranks[2], &streams[2]);
    check(|| rank.all_reduce(64, stream), &EAGER);
}

#[test]
fn captures_have_turns_of_their_own() {
    if !has_turns("captures_have_turns_of_their_own") {
        return;
    }
    let worlds = [World::new(2), World::new(2)];
    let [one, other] = worlds.each_ref().map(|world| world.rank(0));
    let (first, second) = (stream(one), stream(other));
    one.all_reduce(64, &first);
    other.all_reduce(64, &second);
    let waits = |body: &dyn Fn()| asked(body).driver.remove("cuStreamWaitEvent");
    first.borrow().begin_capture(CaptureMode::Global).unwrap();
    assert_eq!(waits(&|| one.all_reduce(64, &first)), None, "what is outside does not matter");
    let fork = Event::ordering(one.context).unwrap();
    fork.record(first.borrow()).unwrap();
    second.borrow().wait(&fork).unwrap();
    assert_eq!(waits(&|| other.all_reduce(64, &second)), Some(1), "the second follows the first");
    fork.record(second.borrow()).unwrap();
    first.borrow().wait(&fork).unwrap();
    assert_eq!(first.borrow().end_capture().unwrap().nodes(), Ok(2));
    // The last launch outside was in the second stream.
    check(|| other.all_reduce(64, &second), &EAGER);
}

#[test]
fn a_driver_that_tells_no_beginnings_is_asked_for_ends() {
    const OLD: &str = "NULL_IS_OLD";
    if std::env::var_os(OLD).is_none() {
        let test = "turns::a_driver_that_tells_no_beginnings_is_asked_for_ends";
        let ran = null_driver::again(test).env(OLD, "1").env(VARIABLE, "1").output();
        null_driver::passed(&ran.unwrap(), OLD);
        return;
    }
    let worlds = [World::new(2), World::new(2)];
    let [one, other] = worlds.each_ref().map(|world| world.rank(0));
    let (first, second) = (stream(one), stream(other));
    one.all_reduce(64, &first);
    other.all_reduce(64, &second);
    let before = marked();
    let asked = asked(|| one.all_reduce(64, &first)).driver;
    assert_eq!((asked["cuStreamWaitEvent"], asked["cuEventRecord"]), (1, 2));
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
