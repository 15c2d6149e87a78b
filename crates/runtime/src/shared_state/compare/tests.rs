//! Two ranks that call the same, or not.

use msccl_collective::{DataType, Rank};

use super::*;
use crate::call::{Call, Combine, Operation, Scalar};
use crate::shared_state::layout::{CHECKPOINTS, COLLECTIVES, MESSAGES, STRIDE};
use crate::shared_state::tests::{SUM, call};

const SUM_CALL: Operation = Operation::AllReduce(SUM);

/// Both ranks of a shared state of two.
fn two() -> [SharedState; 2] {
    let first = SharedState::alone(Rank(0), 2);
    let second = first.seen_by(Rank(1));
    [first, second]
}

fn post(shared_state: &SharedState, call: &Call) {
    shared_state.post_call(shared_state.issued(shared_state.me()) + 1, call, false);
}

fn post_many(shared_state: &SharedState, calls: u64) {
    (0..calls).for_each(|_| post(shared_state, &call(SUM_CALL, 8)));
}

/// What both ranks find, which must be the same.
#[track_caller]
fn found(shared_states: &[SharedState; 2]) -> Option<String> {
    let [one, other] =
        shared_states.each_ref().map(|shared_state| Comparison::new().look(shared_state));
    assert_eq!(one, other);
    one.map(|mismatch| mismatch.to_string())
}

#[test]
fn what_is_alike_is_left_alone() {
    let shared_states = two();
    let scaled = |bits| Operation::AllReduce(Combine::Scaled(Scalar::Immediate(bits)));
    let mut comparisons = [Comparison::new(), Comparison::new()];
    for (turn, shared_state) in
        [0, 1].into_iter().cycle().take(40).zip(shared_states.iter().cycle())
    {
        shared_state.post_call(
            shared_state.issued(shared_state.me()) + 1,
            &call(SUM_CALL, 8),
            turn == 0,
        );
        post(shared_state, &call(scaled(turn), 8));
        post(shared_state, &call(Operation::Broadcast(Rank(1)), 0));
        // One groups its messages, the other does not, and examples are empty.
        let peer = Rank(1 - turn as u32);
        let [send, receive] = [Operation::Send(peer), Operation::Receive(peer)];
        let calls =
            [call(send, 3), call(receive, 3), call(send, 0), call(send, 4), call(receive, 4)];
        match turn {
            0 => shared_state.post_messages_of(shared_state.issued(shared_state.me()) + 1, &calls),
            _ => calls[..4]
                .iter()
                .chain([&call(receive, 4)])
                .for_each(|call| post(shared_state, call)),
        }
        for (comparison, shared_state) in comparisons.iter_mut().zip(&shared_states) {
            assert_eq!(comparison.look(shared_state), None);
        }
    }
    assert_eq!(found(&shared_states), None);
}

/// One rank makes the first calls, the other one the second.
#[track_caller]
fn check(calls: [&[Call]; 2], expected: &str) {
    let shared_states = two();
    for (shared_state, calls) in shared_states.iter().zip(calls) {
        post_many(shared_state, 5);
        calls.iter().for_each(|call| post(shared_state, call));
        post_many(shared_state, 5);
    }
    assert_eq!(found(&shared_states).as_deref(), Some(expected), "{calls:?}");
}

#[test]
fn every_kind_of_difference_is_found() {
    let say = |one: &str, other: &str| {
        format!("r0 and r1 call different things: call 6 is {one} on r0, {other} on r1")
    };
    let sum = call(SUM_CALL, 4);
    let said = "allreduce of 4 f32 sum";
    let one_by_one = |operation, said_of_it: &str| {
        check([&[sum], &[call(operation, 4)]], &say(said, said_of_it));
    };
    let max = Combine::Plain(msccl_collective::Reduction::Max);
    one_by_one(Operation::AllReduce(max), "allreduce of 4 f32 max");
    let scaled = Combine::Scaled(Scalar::At(8));
    one_by_one(Operation::AllReduce(scaled), "allreduce of 4 f32 scaled sum");
    one_by_one(Operation::AllGather, "allgather of 4 f32");
    check([&[sum], &[call(SUM_CALL, 5)]], &say(said, "allreduce of 5 f32 sum"));
    let other_type = Call { data_type: DataType::I32, ..sum };
    check([&[sum], &[other_type]], &say(said, "allreduce of 4 i32 sum"));
    let [one, other] = [0, 1].map(|root| call(Operation::Broadcast(Rank(root)), 4));
    check([&[one], &[other]], &say("broadcast of 4 f32 root r0", "broadcast of 4 f32 root r1"));
    let gather = call(Operation::AllGather, 4);
    check([&[sum, gather], &[gather, sum]], &say(said, "allgather of 4 f32"));
    check([&[sum, gather], &[gather]], &say(said, "allgather of 4 f32"));
    check([&[], &[sum]], &say("allreduce of 8 f32 sum", said));
}

#[test]
fn what_serves_a_call_is_compared() {
    let shared_states = two();
    shared_states[1].set_settings(0xabc);
    shared_states.iter().for_each(|shared_state| post_many(shared_state, 1));
    let expected = "r0 and r1 call different things: call 1 is allreduce of 8 f32 sum on r0, \
                    allreduce of 8 f32 sum (pinned to choice 0000000000000abc) on r1";
    assert_eq!(found(&shared_states).as_deref(), Some(expected));
    let shared_states = two();
    shared_states.iter().for_each(|shared_state| shared_state.set_settings(0xabc));
    shared_states.iter().for_each(|shared_state| post_many(shared_state, 1));
    assert_eq!(found(&shared_states), None);
}

#[test]
fn what_all_ranks_compare_first_is_not_compared_again() {
    let shared_states = two();
    let compares = |shared_state: &SharedState| {
        shared_state.own(super::super::Field::Compares).store(1, super::super::Ordering::Relaxed)
    };
    compares(&shared_states[0]);
    post(&shared_states[0], &call(SUM_CALL, 8));
    post(&shared_states[1], &call(SUM_CALL, 9));
    assert!(found(&shared_states).is_some());
    compares(&shared_states[1]);
    assert_eq!(found(&shared_states), None);
}

/// One call differs, and then one rank makes so many more, the other one so many.
fn late(more: [u64; 2]) -> Option<String> {
    let shared_states = two();
    for (shared_state, more) in shared_states.iter().zip(more) {
        post_many(shared_state, 3);
        post(shared_state, &call(SUM_CALL, if shared_state.me() == Rank(0) { 1 } else { 2 }));
        post_many(shared_state, more);
    }
    found(&shared_states)
}

#[test]
fn a_difference_is_noticed_however_late() {
    let known = "r0 and r1 call different things: call 4 is allreduce of 1 f32 sum on r0, \
                 allreduce of 2 f32 sum on r1";
    // The call before it must be known, too.
    let kept = COLLECTIVES - 2;
    for more in [[0, 0], [100, 0], [kept, kept]] {
        assert_eq!(late(more).as_deref(), Some(known), "{more:?}");
    }
    let by = |calls: u64| {
        format!(
            "r0 and r1 call different things: their calls up to call {calls} differ; which one \
             does is known no longer"
        )
    };
    for more in [COLLECTIVES, 100_000] {
        assert_eq!(late([more, more]).as_deref(), Some(by(4 + more).as_str()));
    }
    // One rank is so far ahead that the last calls of both are other ones.
    let most = (CHECKPOINTS - 2) * STRIDE;
    for more in [[300, 300 + COLLECTIVES], [5000 + most, 5000]] {
        let checkpoint = (4 + more[0].min(more[1])) / STRIDE * STRIDE;
        assert_eq!(late(more).as_deref(), Some(by(checkpoint).as_str()), "{more:?}");
    }
}

#[test]
fn ranks_many_calls_apart_are_not_compared_until_they_come_together() {
    let shared_states = two();
    post(&shared_states[0], &call(SUM_CALL, 1));
    post_many(&shared_states[0], CHECKPOINTS * STRIDE + COLLECTIVES);
    post(&shared_states[1], &call(SUM_CALL, 2));
    assert_eq!(found(&shared_states), None);
    post_many(&shared_states[1], 2 * COLLECTIVES);
    assert!(found(&shared_states).is_some());
}

#[test]
fn a_later_difference_is_not_taken_for_the_first() {
    let shared_states = two();
    for (shared_state, count) in shared_states.iter().zip([1, 2]) {
        post(shared_state, &call(SUM_CALL, count));
        post_many(shared_state, COLLECTIVES);
        post(shared_state, &call(SUM_CALL, count));
    }
    let text = found(&shared_states).unwrap();
    let end = "on r1 (calls before it may differ, too; they are known no longer)";
    assert!(text.contains("call 258 is ") && text.ends_with(end), "{text}");
}

fn send(count: u64) -> Call {
    call(Operation::Send(Rank(1)), count)
}

fn receive(count: u64) -> Call {
    call(Operation::Receive(Rank(0)), count)
}

#[test]
fn a_message_must_be_received_as_it_is_sent() {
    let check = |sent: Call, received: Call, expected: &str| {
        let shared_states = two();
        shared_states[0].post_messages_of(1, &[send(7), send(8), send(0), sent, send(9)]);
        [7, 8].iter().for_each(|count| post(&shared_states[1], &receive(*count)));
        assert_eq!(found(&shared_states), None);
        post(&shared_states[1], &received);
        let start = "r0 and r1 call different things: message 3 from r0 to r1 is sent as ";
        assert_eq!(found(&shared_states), Some(format!("{start}{expected}")));
        post(&shared_states[1], &receive(9));
        assert!(found(&shared_states).is_some());
    };
    check(send(4), receive(5), "4 f32 and received as 5 f32");
    let other_type = Call { data_type: DataType::F64, ..receive(4) };
    check(send(4), other_type, "4 f32 and received as 4 f64");
}

#[test]
fn a_message_that_differs_is_noticed_however_late() {
    let shared_states = two();
    let mut comparisons = [Comparison::new(), Comparison::new()];
    post(&shared_states[0], &send(1));
    post(&shared_states[1], &receive(2));
    for _ in 0..MESSAGES {
        post(&shared_states[0], &send(3));
        post(&shared_states[1], &receive(3));
    }
    for (comparison, shared_state) in comparisons.iter_mut().zip(&shared_states) {
        let text = comparison.look(shared_state).unwrap().to_string();
        let expected = "r0 and r1 call different things: messages from r0 to r1 up to message 513 \
                        differ; which one does is known no longer";
        assert_eq!(text, expected);
    }
}

#[test]
fn messages_of_other_ranks_are_their_own_affair() {
    let first = SharedState::alone(Rank(0), 3);
    let [second, third] = [1, 2].map(|rank| first.seen_by(Rank(rank)));
    post(&second, &call(Operation::Send(Rank(2)), 1));
    post(&third, &call(Operation::Receive(Rank(1)), 2));
    assert_eq!(Comparison::new().look(&first), None);
    assert!(Comparison::new().look(&second).is_some() && Comparison::new().look(&third).is_some());
}
