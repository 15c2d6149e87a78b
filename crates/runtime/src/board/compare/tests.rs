//! Two ranks that call the same, or not.

use msccl_collective::{DataType, Rank};

use super::*;
use crate::board::layout::{CHECKPOINTS, COLLECTIVES, MESSAGES, STRIDE};
use crate::board::tests::{SUM, call};
use crate::call::{Call, Combine, Operation, Scalar};

const SUM_CALL: Operation = Operation::AllReduce(SUM);

/// Both ranks of a board of two.
fn two() -> [Board; 2] {
    let first = Board::alone(Rank(0), 2);
    let second = first.seen_by(Rank(1));
    [first, second]
}

fn post(board: &Board, call: &Call) {
    board.post(board.issued(board.me()) + 1, call, false);
}

fn post_many(board: &Board, calls: u64) {
    (0..calls).for_each(|_| post(board, &call(SUM_CALL, 8)));
}

/// What both ranks find, which must be the same.
#[track_caller]
fn found(boards: &[Board; 2]) -> Option<String> {
    let [one, other] = boards.each_ref().map(|board| Comparison::new().look(board));
    assert_eq!(one, other);
    one.map(|mismatch| mismatch.to_string())
}

#[test]
fn what_is_alike_is_left_alone() {
    let boards = two();
    let scaled = |bits| Operation::AllReduce(Combine::Scaled(Scalar::Immediate(bits)));
    let mut comparisons = [Comparison::new(), Comparison::new()];
    for (turn, board) in [0, 1].into_iter().cycle().take(40).zip(boards.iter().cycle()) {
        board.post(board.issued(board.me()) + 1, &call(SUM_CALL, 8), turn == 0);
        post(board, &call(scaled(turn), 8));
        post(board, &call(Operation::Broadcast(Rank(1)), 0));
        // One groups its messages, the other does not, and some are empty.
        let peer = Rank(1 - turn as u32);
        let [send, receive] = [Operation::Send(peer), Operation::Receive(peer)];
        let calls =
            [call(send, 3), call(receive, 3), call(send, 0), call(send, 4), call(receive, 4)];
        match turn {
            0 => board.post_transfers(board.issued(board.me()) + 1, &calls),
            _ => calls[..4].iter().chain([&call(receive, 4)]).for_each(|call| post(board, call)),
        }
        for (comparison, board) in comparisons.iter_mut().zip(&boards) {
            assert_eq!(comparison.look(board), None);
        }
    }
    assert_eq!(found(&boards), None);
}

/// One rank makes the first calls, the other one the second.
#[track_caller]
fn check(calls: [&[Call]; 2], expected: &str) {
    let boards = two();
    for (board, calls) in boards.iter().zip(calls) {
        post_many(board, 5);
        calls.iter().for_each(|call| post(board, call));
        post_many(board, 5);
    }
    assert_eq!(found(&boards).as_deref(), Some(expected), "{calls:?}");
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
    let boards = two();
    boards[1].set_settings(0xabc);
    boards.iter().for_each(|board| post_many(board, 1));
    let expected = "r0 and r1 call different things: call 1 is allreduce of 8 f32 sum on r0, allreduce of 8 f32 sum \
                    (pinned to choice 0000000000000abc) on r1";
    assert_eq!(found(&boards).as_deref(), Some(expected));
    let boards = two();
    boards.iter().for_each(|board| board.set_settings(0xabc));
    boards.iter().for_each(|board| post_many(board, 1));
    assert_eq!(found(&boards), None);
}

#[test]
fn what_all_ranks_compare_first_is_not_compared_again() {
    let boards = two();
    let compares = |board: &Board| {
        board.own(super::super::Field::Compares).store(1, super::super::Ordering::Relaxed)
    };
    compares(&boards[0]);
    post(&boards[0], &call(SUM_CALL, 8));
    post(&boards[1], &call(SUM_CALL, 9));
    assert!(found(&boards).is_some());
    compares(&boards[1]);
    assert_eq!(found(&boards), None);
}

/// One call differs, and then one rank makes so many more, the other one so many.
fn late(more: [u64; 2]) -> Option<String> {
    let boards = two();
    for (board, more) in boards.iter().zip(more) {
        post_many(board, 3);
        post(board, &call(SUM_CALL, if board.me() == Rank(0) { 1 } else { 2 }));
        post_many(board, more);
    }
    found(&boards)
}

#[test]
fn a_difference_is_noticed_however_late() {
    let known = "r0 and r1 call different things: call 4 is allreduce of 1 f32 sum on r0, allreduce of 2 f32 sum on r1";
    // The call before it must be known, too.
    let kept = COLLECTIVES - 2;
    for more in [[0, 0], [100, 0], [kept, kept]] {
        assert_eq!(late(more).as_deref(), Some(known), "{more:?}");
    }
    let by = |calls: u64| {
        format!(
            "r0 and r1 call different things: their calls up to call {calls} differ; which one does is known no longer"
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
fn ranks_that_are_far_apart_are_not_compared_until_they_come_together() {
    let boards = two();
    post(&boards[0], &call(SUM_CALL, 1));
    post_many(&boards[0], CHECKPOINTS * STRIDE + COLLECTIVES);
    post(&boards[1], &call(SUM_CALL, 2));
    assert_eq!(found(&boards), None);
    post_many(&boards[1], 2 * COLLECTIVES);
    assert!(found(&boards).is_some());
}

#[test]
fn a_later_difference_is_not_taken_for_the_first() {
    let boards = two();
    for (board, count) in boards.iter().zip([1, 2]) {
        post(board, &call(SUM_CALL, count));
        post_many(board, COLLECTIVES);
        post(board, &call(SUM_CALL, count));
    }
    let text = found(&boards).unwrap();
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
        let boards = two();
        boards[0].post_transfers(1, &[send(7), send(8), send(0), sent, send(9)]);
        [7, 8].iter().for_each(|count| post(&boards[1], &receive(*count)));
        assert_eq!(found(&boards), None);
        post(&boards[1], &received);
        let start = "r0 and r1 call different things: message 3 from r0 to r1 is sent as ";
        assert_eq!(found(&boards), Some(format!("{start}{expected}")));
        post(&boards[1], &receive(9));
        assert!(found(&boards).is_some());
    };
    check(send(4), receive(5), "4 f32 and received as 5 f32");
    let other_type = Call { data_type: DataType::F64, ..receive(4) };
    check(send(4), other_type, "4 f32 and received as 4 f64");
}

#[test]
fn a_message_that_differs_is_noticed_however_late() {
    let boards = two();
    let mut comparisons = [Comparison::new(), Comparison::new()];
    post(&boards[0], &send(1));
    post(&boards[1], &receive(2));
    for _ in 0..MESSAGES {
        post(&boards[0], &send(3));
        post(&boards[1], &receive(3));
    }
    for (comparison, board) in comparisons.iter_mut().zip(&boards) {
        let text = comparison.look(board).unwrap().to_string();
        let expected = "r0 and r1 call different things: messages from r0 to r1 up to message 513 differ; which one does \
                        is known no longer";
        assert_eq!(text, expected);
    }
}

#[test]
fn messages_of_other_ranks_are_their_own_affair() {
    let first = Board::alone(Rank(0), 3);
    let [second, third] = [1, 2].map(|rank| first.seen_by(Rank(rank)));
    post(&second, &call(Operation::Send(Rank(2)), 1));
    post(&third, &call(Operation::Receive(Rank(1)), 2));
    assert_eq!(Comparison::new().look(&first), None);
    assert!(Comparison::new().look(&second).is_some() && Comparison::new().look(&third).is_some());
}
