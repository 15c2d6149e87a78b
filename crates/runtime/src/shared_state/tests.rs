//! The shared state among ranks on threads, each with a group of its own.

use std::sync::OnceLock;
use std::thread;
use std::time::Duration;

use msccl_collective::{CallPlacement, DataType, Rank, Reduction};
use msccl_fabric::{self as fabric, Group, JoinRequest, UniqueId};

use super::check::check_arguments;
use super::compare::{compare, first_difference};
use super::*;
use crate::call::{Admitted, AdmittedCall, Buffers, Call, Combine, Operation};
use crate::error::ErrorKind;

pub(crate) const SUM: Combine = Combine::Plain(Reduction::Sum);

/// A call of `count` elements of `f32`.
pub(crate) fn call(operation: Operation, count: u64) -> Call {
    Call { operation, data_type: DataType::F32, count, buffers: Buffers::default() }
}

impl SharedState {
    /// This rank has issued `call` as its call `sequence`; its number, if it is a collective.
    pub(crate) fn post_call(&self, sequence: u64, call: &Call, in_place: bool) -> Option<u64> {
        let placement = CallPlacement::from_in_place(in_place);
        match AdmittedCall::unchecked(call, placement).0 {
            Admitted::Collective(call) => Some(self.post(sequence, &call)),
            Admitted::Transfer(call) => {
                self.post_transfers(sequence, &[call]);
                None
            }
        }
    }

    /// This rank has issued sends and receives that go together.
    pub(crate) fn post_messages_of(&self, sequence: u64, calls: &[Call]) {
        let admitted =
            calls.iter().map(|call| AdmittedCall::unchecked(call, CallPlacement::OutOfPlace));
        let transfers: Vec<_> = admitted.map(|call| *call.transfer().unwrap()).collect();
        self.post_transfers(sequence, &transfers);
    }
}

/// Who joins for a test.
pub(crate) fn join_request(rank: u32, ranks: u32) -> JoinRequest {
    JoinRequest { rank: Rank(rank), ranks, facts: Vec::new(), description: Vec::new() }
}

/// Generous limits, so that only what should fail fails even on a busy machine.
pub(crate) fn settings() -> fabric::Settings {
    let operation_timeout = Some(Duration::from_secs(20));
    fabric::Settings { operation_timeout, ..fabric::Settings::default() }
}

/// Runs `rank` on as many threads as there are ranks, each with its group; answers by rank.
pub(crate) fn run<T: Send>(ranks: u32, rank: impl Fn(Group) -> T + Sync) -> Vec<T> {
    run_on(ranks, |_| None, rank)
}

/// The same, on the hosts that `host` names.
pub(crate) fn run_on<T: Send>(
    ranks: u32,
    host: impl Fn(u32) -> Option<String> + Sync,
    rank: impl Fn(Group) -> T + Sync,
) -> Vec<T> {
    let id = UniqueId::create(&settings()).unwrap();
    let live = |index| {
        let settings = fabric::Settings { host: host(index), ..settings() };
        rank(Group::join(&[id], &join_request(index, ranks), &settings).unwrap())
    };
    thread::scope(|scope| {
        let live = &live;
        let threads: Vec<_> = (0..ranks).map(|index| scope.spawn(move || live(index))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    })
}

/// Both ranks of a shared state of two.
fn two() -> (SharedState, SharedState) {
    let first = SharedState::alone(Rank(0), 2);
    let second = first.seen_by(Rank(1));
    (first, second)
}

#[test]
fn ranks_of_a_group_see_one_another() {
    run(4, |group| {
        let shared_state = SharedState::join(&group, Arc::new(Nodes::of(&group)), false).unwrap();
        let me = group.rank();
        assert_eq!(
            shared_state.post_call(1, &call(Operation::AllGather, u64::from(me.0)), false),
            Some(1)
        );
        shared_state.mark(RankState::Aborted, &format!("{me} had enough").as_str().into());
        group.barrier().unwrap();
        for rank in shared_state.ranks() {
            assert_eq!(shared_state.collective(rank, 1).unwrap().call.count, u64::from(rank.0));
            assert_eq!(shared_state.state(rank), RankState::Aborted);
            assert_eq!(shared_state.reason(rank).words, format!("{rank} had enough"));
        }
        group.barrier().unwrap();
    });
}

#[test]
fn calls_of_both_kinds_are_found_in_order() {
    let (first, second) = two();
    assert_eq!((second.last(Rank(0)), second.first_from(Rank(0), 1)), (None, None));
    first.post_call(1, &call(Operation::AllGather, 8), false);
    let transfers = [Operation::Send(Rank(1)), Operation::Receive(Rank(1))];
    first.post_messages_of(2, &transfers.map(|operation| call(operation, 4)));
    assert_eq!(first.post_call(3, &call(Operation::AllReduce(SUM), 2), true), Some(2));
    assert_eq!(first.post_call(4, &call(Operation::Send(Rank(1)), 1), false), None);
    let from = |sequence| second.first_from(Rank(0), sequence).unwrap().to_string();
    assert_eq!(from(1), "call 1, allgather of 8 f32");
    assert_eq!(from(2), "send of 4 f32 to r1 and one more transfer");
    assert_eq!(from(3), "call 2, allreduce of 2 f32 sum");
    assert_eq!(from(4), "send of 1 f32 to r1");
    assert_eq!(second.last(Rank(0)).unwrap().sequence, 4);
    assert_eq!((second.issued(Rank(0)), second.collectives(Rank(0))), (4, 2));
    assert_eq!(second.last(Rank(1)), None);
}

#[test]
fn old_records_make_room_for_new_ones() {
    let (first, second) = two();
    let last = layout::COLLECTIVES + 10;
    (1..=last).for_each(|number| {
        first.post_call(number, &call(Operation::AllGather, number), false);
    });
    assert_eq!(second.collective(Rank(0), 10), None);
    assert_eq!(second.collective(Rank(0), 11).unwrap().call.count, 11);
    assert_eq!(second.first_from(Rank(0), 1).unwrap().sequence, 11);
    assert_eq!(second.collective(Rank(0), last + 1), None);
}

/// While one rank posts as fast as it can, another never sees parts of two records as one.
#[test]
fn records_are_seen_whole() {
    let (first, second) = two();
    thread::scope(|scope| {
        scope.spawn(|| {
            for number in 1..=100_000 {
                first.post_call(number, &call(Operation::AllGather, number), number % 2 == 0);
            }
        });
        while second.collectives(Rank(0)) < 100_000 {
            let oldest = second.collectives(Rank(0)).saturating_sub(layout::COLLECTIVES - 1);
            let Some(posted) = second.collective(Rank(0), oldest) else { continue };
            let placement = CallPlacement::from_in_place(posted.sequence % 2 == 0);
            assert_eq!(posted.kind, PostedKind::Collective { number: oldest, placement });
            assert_eq!((posted.sequence, posted.call.count), (oldest, oldest));
        }
    });
}

#[test]
fn settled_calls_only_grow() {
    let (first, _) = two();
    [3, 2].into_iter().for_each(|sequence| first.settle(sequence));
    assert_eq!(first.settled(), 3);
}

#[test]
fn ranks_agree_on_what_must_be_alike() {
    let check = |one: (Operation, bool), two: (Operation, bool), expected: Option<&str>| {
        let (first, second) = self::two();
        first.post_call(1, &call(one.0, 8), one.1);
        first.post_messages_of(2, &[call(Operation::Send(Rank(1)), 4)]);
        second.post_call(1, &call(two.0, 8), two.1);
        let difference = compare(&first, 1).map(|difference| difference.to_string());
        assert_eq!(difference.as_deref(), expected);
        assert_eq!(first_difference(&second), compare(&first, 1));
        let failure = OnceLock::new();
        let (mine, theirs) =
            (check_arguments(&first, 1, &failure), check_arguments(&second, 1, &failure));
        assert_eq!(mine, theirs);
        assert_eq!(mine.is_err(), expected.is_some());
    };
    let sum = Operation::AllReduce(SUM);
    let scaled = Operation::AllReduce(Combine::Scaled(crate::call::Scalar::At(64)));
    check((sum, true), (sum, true), None);
    let (gather, reduce) = (Operation::Gather(Rank(0)), Operation::Reduce(Rank(1), SUM));
    check((gather, true), (gather, false), None);
    check((sum, true), (sum, false), None);
    let text = "r0 and r1 call different things: call 1 is allreduce of 8 f32 sum on r0, \
                allreduce of 8 f32 scaled sum on r1";
    check((sum, false), (scaled, false), Some(text));
    let text = "r0 and r1 call different things: call 1 is gather of 8 f32 root r0 on r0, \
                reduce of 8 f32 sum root r1 on r1";
    check((gather, false), (reduce, false), Some(text));
}

#[test]
fn differences_group_those_who_say_the_same() {
    let shared_state = SharedState::alone(Rank(0), 12);
    for rank in shared_state.ranks() {
        let count = if rank == Rank(3) { 512 } else { 1024 };
        shared_state.seen_by(rank).post_call(1, &call(Operation::AllReduce(SUM), count), false);
        let count = if rank.0 < 2 { 0 } else { u64::from(rank.0) };
        shared_state.seen_by(rank).post_call(2, &call(Operation::AllGather, count), false);
    }
    let difference = |number| compare(&shared_state, number).unwrap().to_string();
    assert_eq!(
        difference(1),
        "r0-r2, r4-r11 and r3 call different things: call 1 is allreduce of 1024 f32 sum on \
         r0-r2, r4-r11, allreduce of 512 f32 sum on r3"
    );
    let start = "ranks call different things: call 2 is allgather of 0 f32 on r0, r1, allgather \
                 of 2 f32 on r2, ";
    assert!(difference(2).starts_with(start), "{}", difference(2));
    assert!(difference(2).ends_with(", and 5 more"), "{}", difference(2));
}

#[test]
fn agreeing_waits_for_the_slowest_and_ends_with_a_failure() {
    let (first, second) = two();
    first.post_call(1, &call(Operation::AllGather, 8), false);
    let failure = OnceLock::new();
    thread::scope(|scope| {
        let waiting = scope.spawn(|| check_arguments(&first, 1, &failure));
        thread::sleep(Duration::from_millis(50));
        assert!(!waiting.is_finished());
        second.post_call(1, &call(Operation::AllGather, 8), false);
        assert_eq!(waiting.join().unwrap(), Ok(()));
        first.post_call(2, &call(Operation::AllGather, 8), false);
        let waiting = scope.spawn(|| check_arguments(&first, 2, &failure));
        thread::sleep(Duration::from_millis(50));
        let error = Error::new(ErrorKind::TimedOut, "r1 has not entered call 2");
        failure.set(error.clone()).unwrap();
        assert_eq!(waiting.join().unwrap(), Err(error));
    });
}
