//! Two nodes with a board each, in one process.

use std::sync::Barrier;
use std::sync::atomic::AtomicU32;
use std::time::{Duration, Instant};

use super::super::State;
use super::super::check::agree;
use super::super::tests::{SUM, call, run_on};
use super::*;
use crate::call::Operation;
use crate::nodes::Nodes;

/// One rank of some, on nodes of two.
struct Place {
    group: Arc<Group>,
    board: Arc<Board>,
    mirror: Option<Mirror>,
}

fn places<T: Send>(ranks: u32, compares: bool, live: impl Fn(&mut Place) -> T + Sync) -> Vec<T> {
    run_on(
        ranks,
        |rank| Some(format!("node{}", rank / 2)),
        |group| {
            let group = Arc::new(group);
            let nodes = Arc::new(Nodes::of(&group));
            let board = Arc::new(Board::join(&group, nodes, compares).unwrap());
            let mirror = Mirror::start(&group, &board).unwrap();
            assert!(mirror.is_some());
            let mut place = Place { group, board, mirror };
            let result = live(&mut place);
            place.group.barrier().unwrap();
            result
        },
    )
}

#[track_caller]
fn eventually(what: &str, mut look: impl FnMut() -> bool) {
    let since = Instant::now();
    while !look() {
        assert!(since.elapsed() < Duration::from_secs(10), "{what}");
        thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn what_a_rank_posts_is_seen_on_all_nodes() {
    places(6, false, |place| {
        let (board, me) = (&place.board, place.board.me());
        board.post(1, &call(Operation::AllGather, u64::from(me.0)), false);
        board.post_transfers(2, &[call(Operation::Send(Rank(0)), 7)]);
        board.mark(State::Failed, &format!("{me} had enough"));
        for rank in board.ranks() {
            eventually("the state of every rank", || board.state(rank) == State::Failed);
            assert_eq!(board.collective(rank, 1).unwrap().call.count, u64::from(rank.0));
            assert_eq!(board.reason(rank), format!("{rank} had enough"));
            eventually("its last call", || board.last(rank).is_some_and(|of| of.sequence == 2));
        }
    });
}

#[test]
fn arguments_are_compared_across_nodes() {
    let outcomes = places(4, true, |place| {
        let (board, failure) = (&place.board, Default::default());
        let mut outcome = Ok(());
        for number in 1..=50 {
            let count = if (number, board.me()) == (50, Rank(3)) { 2 } else { 1 };
            board.post(number, &call(Operation::AllReduce(SUM), count), false);
            outcome = agree(board, number, &failure);
            assert_eq!(outcome.is_err(), number == 50);
        }
        outcome.unwrap_err().to_string()
    });
    let expected = "r0-r2 and r3 call different things: call 50 is allreduce of 1 f32 sum on r0-r2, allreduce \
                    of 2 f32 sum on r3; make the same call on all ranks";
    assert_eq!(outcomes, [expected; 4]);
}

#[test]
fn a_busy_rank_tells_its_last_calls() {
    places(4, false, |place| {
        let board = &place.board;
        let last = 1000;
        for number in 1..=last {
            board.post(number, &call(Operation::AllGather, number), false);
        }
        for rank in board.ranks() {
            eventually("all calls", || board.collectives(rank) == last);
            assert_eq!(board.collective(rank, last).unwrap().call.count, last);
        }
        place.group.barrier().unwrap();
        // Who asks for a report needs what is still there.
        if board.me() == Rank(1) {
            board.make_request(0);
        }
        eventually("the request", || board.request() == 1);
        board.answer(1, "here");
        for rank in board.ranks() {
            eventually("answers", || board.answer_of(rank, 1).as_deref() == Some("here"));
            eventually("records", || board.collective(rank, last - 200).is_some());
        }
    });
}

#[test]
fn another_rank_takes_over_from_a_voice_that_departs() {
    let seen = Barrier::new(3);
    run_on(
        4,
        |rank| Some(format!("node{}", rank / 2)),
        |group| {
            let group = Arc::new(group);
            let nodes = Arc::new(Nodes::of(&group));
            let board = Arc::new(Board::join(&group, nodes, false).unwrap());
            let _mirror = Mirror::start(&group, &board).unwrap();
            // Whoever leaves must not be missed by one who is still opening its board.
            group.barrier().unwrap();
            // The rank that speaks for its node.
            let last = Rank(2);
            if board.me() == last {
                (1..=9).for_each(|number| {
                    board.post(number, &call(Operation::AllGather, number), false);
                });
                return;
            }
            // On its own node it always is.
            eventually("its end", || group.departed().iter().any(|of| of.rank == last));
            eventually("all it posted", || board.is_complete(last));
            assert_eq!(board.collectives(last), 9);
            // The other one speaks and hears.
            board.mark(State::Failed, "enough");
            let others = [Rank(0), Rank(1), Rank(3)];
            let failed = |rank: Rank| board.state(rank) == State::Failed;
            eventually("their failures", || others.into_iter().all(failed));
            seen.wait();
        },
    );
}

#[test]
fn what_a_voice_has_not_heard_is_told_to_its_successor() {
    let (deaf, told, seen) = (Barrier::new(2), Barrier::new(2), AtomicU32::new(0));
    let on_two_nodes = |rank: u32| Some(format!("node{}", rank / 2));
    run_on(4, on_two_nodes, |group| {
        let group = Arc::new(group);
        let board = Arc::new(Board::join(&group, Arc::new(Nodes::of(&group)), false).unwrap());
        let mirror = Mirror::start(&group, &board).unwrap();
        group.barrier().unwrap();
        if board.me() == Rank(2) {
            // It is still there, but listens no more.
            drop(mirror);
            deaf.wait();
            told.wait();
            return;
        }
        if board.me() == Rank(0) {
            deaf.wait();
            board.post(1, &call(Operation::AllGather, 1), false);
            thread::sleep(10 * PERIOD);
            told.wait();
        }
        eventually("the call of r0", || board.collectives(Rank(0)) == 1);
        seen.fetch_add(1, Ordering::AcqRel);
        eventually("all others", || seen.load(Ordering::Acquire) == 3);
    });
}

#[test]
fn the_last_words_of_a_voice_are_heard() {
    places(4, false, |place| {
        if place.board.me() == Rank(2) {
            place.board.mark(State::Aborted, "enough");
            place.mirror.take();
        }
        place.group.barrier().unwrap();
        eventually("the abort", || place.board.state(Rank(2)) == State::Aborted);
    });
}
