//! Ranks on GPUs that call different things learn it within a second.

use std::thread;
use std::time::{Duration, Instant};

use super::null_driver::{Call, F32, I32, MAX, SUM, World};
use super::stream;

/// `ncclInvalidUsage`.
const INVALID_USAGE: i32 = 5;

const USUAL: Call = Call::AllReduce { count: 64, element: F32, redop: SUM };
const GATHER: Call = Call::AllGather { count: 64 };

/// What both of two ranks fail of when each has made its calls, after calls that were alike.
fn outcome(calls: [&[Call]; 2]) -> [i32; 2] {
    let world = World::new(2);
    let ranks = [world.rank(0), world.rank(1)];
    for (rank, calls) in ranks.into_iter().zip(calls) {
        let _current = rank.context.enter().unwrap();
        let stream = stream(rank);
        [USUAL; 3].iter().chain(calls).for_each(|call| rank.call(*call, &stream));
    }
    let (since, failures) = (Instant::now(), || ranks.map(|rank| rank.failure()));
    while failures().contains(&0) && since.elapsed() < Duration::from_secs(1) {
        thread::sleep(Duration::from_millis(2));
    }
    failures()
}

#[test]
fn every_kind_of_difference_fails_both_ranks() {
    let reduce = |root| Call::Reduce { count: 64, root };
    let sent = |element| Call::Send { count: 64, element };
    let received = |count, element| Call::Receive { count, element };
    let all_reduce = |count, element, redop| Call::AllReduce { count, element, redop };
    let kinds: [[&[Call]; 2]; 9] = [
        [&[USUAL], &[all_reduce(65, F32, SUM)]],
        [&[USUAL], &[all_reduce(64, I32, SUM)]],
        [&[USUAL], &[all_reduce(64, F32, MAX)]],
        [&[USUAL], &[GATHER]],
        [&[reduce(0)], &[reduce(1)]],
        [&[USUAL, GATHER], &[GATHER, USUAL]],
        [&[USUAL, GATHER, USUAL], &[USUAL, USUAL]],
        [&[sent(F32)], &[received(32, F32)]],
        [&[sent(F32)], &[received(64, I32)]],
    ];
    for calls in kinds {
        assert_eq!(outcome(calls), [INVALID_USAGE; 2], "{calls:?}");
    }
}

#[test]
fn what_may_differ_fails_nobody() {
    let message = |send: bool| match send {
        true => Call::Send { count: 64, element: F32 },
        false => Call::Receive { count: 64, element: F32 },
    };
    // One is ahead of the other, and a message stands elsewhere among collectives.
    let calls: [&[Call]; 2] = [&[message(true), GATHER, USUAL, USUAL], &[GATHER, message(false)]];
    assert_eq!(outcome(calls), [0; 2]);
}
