//! Two nodes with a shared state each, in one process.

use std::sync::Barrier;
use std::sync::atomic::AtomicU32;
use std::time::{Duration, Instant};

use super::super::RankState;
use super::super::check::check_arguments;
use super::super::tests::{SUM, call, run_on};
use super::*;
use crate::call::Operation;
use crate::nodes::Nodes;

/// One rank of examples, on nodes of two.
struct ReplicatedRank {
    group: Arc<Group>,
    shared_state: Arc<SharedState>,
    replicator: Option<Replicator>,
}

fn places<T: Send>(
    ranks: u32,
    compares: bool,
    live: impl Fn(&mut ReplicatedRank) -> T + Sync,
) -> Vec<T> {
    run_on(
        ranks,
        |rank| Some(format!("node{}", rank / 2)),
        |group| {
            let group = Arc::new(group);
            let nodes = Arc::new(Nodes::of(&group));
            let shared_state = Arc::new(SharedState::join(&group, nodes, compares).unwrap());
            let replicator = Replicator::start(&group, &shared_state).unwrap();
            assert!(replicator.is_some());
            let mut place = ReplicatedRank { group, shared_state, replicator };
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
        let (shared_state, me) = (&place.shared_state, place.shared_state.me());
        shared_state.post_call(1, &call(Operation::AllGather, u64::from(me.0)), false);
        shared_state.post_messages_of(2, &[call(Operation::Send(Rank(0)), 7)]);
        shared_state.mark(RankState::Failed, &format!("{me} had enough").as_str().into());
        for rank in shared_state.ranks() {
            eventually("the state of every rank", || shared_state.state(rank) == RankState::Failed);
            assert_eq!(shared_state.collective(rank, 1).unwrap().call.count, u64::from(rank.0));
            assert_eq!(shared_state.reason(rank).words, format!("{rank} had enough"));
            eventually("its last call", || {
                shared_state.last(rank).is_some_and(|of| of.sequence == 2)
            });
        }
    });
}

#[test]
fn arguments_are_compared_across_nodes() {
    let outcomes = places(4, true, |place| {
        let (shared_state, failure) = (&place.shared_state, Default::default());
        let mut outcome = Ok(());
        for number in 1..=50 {
            let count = if (number, shared_state.me()) == (50, Rank(3)) { 2 } else { 1 };
            shared_state.post_call(number, &call(Operation::AllReduce(SUM), count), false);
            outcome = check_arguments(shared_state, number, &failure);
            assert_eq!(outcome.is_err(), number == 50);
        }
        outcome.unwrap_err().to_string()
    });
    let expected = "r0-r2 and r3 call different things: call 50 is allreduce of 1 f32 sum on \
                    r0-r2, allreduce of 2 f32 sum on r3; make the same call on all ranks";
    assert_eq!(outcomes, [expected; 4]);
}

#[test]
fn a_busy_rank_publishes_its_last_calls() {
    places(4, false, |place| {
        let shared_state = &place.shared_state;
        let last = 1000;
        for number in 1..=last {
            shared_state.post_call(number, &call(Operation::AllGather, number), false);
        }
        for rank in shared_state.ranks() {
            eventually("all calls", || shared_state.collectives(rank) == last);
            assert_eq!(shared_state.collective(rank, last).unwrap().call.count, last);
        }
        place.group.barrier().unwrap();
        // Who asks for a report needs what is still there.
        if shared_state.me() == Rank(1) {
            shared_state.make_request(0);
        }
        eventually("the request", || shared_state.request() == 1);
        shared_state.answer(1, "here");
        for rank in shared_state.ranks() {
            eventually("answers", || shared_state.answer_of(rank, 1).as_deref() == Some("here"));
            eventually("records", || shared_state.collective(rank, last - 200).is_some());
        }
    });
}

#[test]
fn another_rank_takes_over_from_a_leader_that_departs() {
    let seen = Barrier::new(3);
    run_on(
        4,
        |rank| Some(format!("node{}", rank / 2)),
        |group| {
            let group = Arc::new(group);
            let nodes = Arc::new(Nodes::of(&group));
            let shared_state = Arc::new(SharedState::join(&group, nodes, false).unwrap());
            let _replicator = Replicator::start(&group, &shared_state).unwrap();
            // Whoever leaves must not be missed by one who is still opening its shared state.
            group.barrier().unwrap();
            // The rank that speaks for its node.
            let last = Rank(2);
            if shared_state.me() == last {
                (1..=9).for_each(|number| {
                    shared_state.post_call(number, &call(Operation::AllGather, number), false);
                });
                return;
            }
            // On its own node it always is.
            eventually("its end", || group.departed().iter().any(|of| of.rank == last));
            eventually("all it posted", || shared_state.is_complete(last));
            assert_eq!(shared_state.collectives(last), 9);
            // The other one sends and receives.
            shared_state.mark(RankState::Failed, &"enough".into());
            let others = [Rank(0), Rank(1), Rank(3)];
            let failed = |rank: Rank| shared_state.state(rank) == RankState::Failed;
            eventually("their failures", || others.into_iter().all(failed));
            seen.wait();
        },
    );
}

#[test]
fn what_a_leader_has_not_received_is_sent_to_its_successor() {
    let (deaf, published, seen) = (Barrier::new(2), Barrier::new(2), AtomicU32::new(0));
    let on_two_nodes = |rank: u32| Some(format!("node{}", rank / 2));
    run_on(4, on_two_nodes, |group| {
        let group = Arc::new(group);
        let shared_state =
            Arc::new(SharedState::join(&group, Arc::new(Nodes::of(&group)), false).unwrap());
        let replicator = Replicator::start(&group, &shared_state).unwrap();
        group.barrier().unwrap();
        if shared_state.me() == Rank(2) {
            // It is still there, but listens no more.
            drop(replicator);
            deaf.wait();
            published.wait();
            return;
        }
        if shared_state.me() == Rank(0) {
            deaf.wait();
            shared_state.post_call(1, &call(Operation::AllGather, 1), false);
            thread::sleep(10 * PERIOD);
            published.wait();
        }
        eventually("the call of r0", || shared_state.collectives(Rank(0)) == 1);
        seen.fetch_add(1, Ordering::AcqRel);
        eventually("all others", || seen.load(Ordering::Acquire) == 3);
    });
}

#[test]
fn the_last_updates_of_a_leader_arrive() {
    places(4, false, |place| {
        if place.shared_state.me() == Rank(2) {
            place.shared_state.mark(RankState::Aborted, &"enough".into());
            place.replicator.take();
        }
        place.group.barrier().unwrap();
        eventually("the abort", || place.shared_state.state(Rank(2)) == RankState::Aborted);
    });
}
