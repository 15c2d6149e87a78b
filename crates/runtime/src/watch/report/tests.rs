//! Hang reports as users see them.

use insta::assert_snapshot;
use msccl_collective::CallPlacement;

use super::*;
use crate::call::Operation;
use crate::shared_state::PostedKind;
use crate::shared_state::tests::{SUM, call};

const GATHER: Operation = Operation::AllGather;

/// Collective `number`, of which every rank has issued all before it.
fn posted(number: u64) -> PostedCall {
    let kind = PostedKind::Collective { number, placement: CallPlacement::OutOfPlace };
    PostedCall { sequence: number, call: call(GATHER, 1024), kind, settings: 0 }
}

/// A rank that has finished all calls up to `number`.
fn idle(number: u64) -> RankSnapshot {
    let answer =
        Answer { state: RankState::Running, finished: number, waits: Vec::new(), omitted: 0 };
    let (process, state, reason) = ("pid 1234".to_owned(), RankState::Running, String::new());
    let (answer, last) = (Some(answer), (number > 0).then(|| posted(number)));
    RankSnapshot {
        process,
        is_intra_node: true,
        state,
        reason,
        departed: None,
        answer,
        collectives: number,
        last,
        current: None,
    }
}

/// A rank in call `number`, which waits for those peers.
fn waiting(number: u64, peers: &[u32]) -> RankSnapshot {
    let wait = |(block, peer): (usize, &u32)| Wait {
        number: Some(number),
        peer: Some(Rank(*peer)),
        text: format!("tb{block} s17 waits for message 41 from r{peer} on ch0"),
    };
    let mut rank_snapshot = RankSnapshot { current: Some(posted(number)), ..idle(number) };
    if let Some(answer) = &mut rank_snapshot.answer {
        answer.finished = number - 1;
        answer.waits = peers.iter().enumerate().map(wait).collect();
    }
    rank_snapshot
}

fn silent(rank_snapshot: RankSnapshot) -> RankSnapshot {
    RankSnapshot { answer: None, current: None, ..rank_snapshot }
}

fn snapshot(ranks: impl IntoIterator<Item = RankSnapshot>) -> Snapshot {
    Snapshot { ranks: ranks.into_iter().collect(), difference: None }
}

fn formatted(ranks: impl IntoIterator<Item = RankSnapshot>) -> String {
    snapshot(ranks).format("who waits for whom", None)
}

#[test]
fn a_rank_that_has_not_come() {
    let report = formatted([
        waiting(41, &[1]),
        waiting(41, &[2]),
        waiting(41, &[3]),
        waiting(41, &[5, 5, 5]),
        waiting(41, &[3]),
        idle(40),
    ]);
    assert_snapshot!(report, @r"
    => r5 holds up r3, and through them r0-r2, r4: it has not entered call 41 (its last call was #40, allgather of 1024 f32)
    who waits for whom
      r0-r4: in call 41, allgather of 1024 f32
      r5: idle after call 40, allgather of 1024 f32
      r3 tb0 s17 waits for message 41 from r5 on ch0 (and 2 more thread blocks); r5 has not entered this collective (its last call was #40, allgather of 1024 f32)
      r0 tb0 s17 waits for message 41 from r1 on ch0; r1 waits itself
      r1 tb0 s17 waits for message 41 from r2 on ch0; r2 waits itself
      r2, r4: tb0 s17 waits for message 41 from r3 on ch0; r3 waits itself
    ");
}

#[test]
fn every_peer_status() {
    let gave_up =
        |state| RankSnapshot { state, reason: "out of memory".to_owned(), ..waiting(41, &[0]) };
    let departed = Some("has died: its connection ended".to_owned());
    let report = formatted([
        waiting(41, &[1, 2, 3, 4, 5, 6, 7, 8]),
        gave_up(RankState::Failed),
        gave_up(RankState::Aborted),
        RankSnapshot { state: RankState::Closed, ..idle(40) },
        silent(RankSnapshot { departed, ..idle(41) }),
        silent(idle(41)),
        idle(0),
        waiting(41, &[]),
        idle(41),
    ]);
    assert_snapshot!(report, @r"
    => r1 holds up r0, and through them r1, r2: it has failed: out of memory
    => r2 holds up r0, and through them r1, r2: it has aborted: out of memory
    => r3 holds up r0, and through them r1, r2: it has left the communicator (its last call was #40, allgather of 1024 f32)
    => r4 holds up r0, and through them r1, r2: it has died: its connection ended (its last call was #41, allgather of 1024 f32)
    => 4 more ranks hold up others
    who waits for whom
      r0, r7: in call 41, allgather of 1024 f32
      r1: failed (out of memory), in call 41, allgather of 1024 f32
      r2: aborted (out of memory), in call 41, allgather of 1024 f32
      r3: left, idle after call 40, allgather of 1024 f32
      r4: has died: its connection ended, last issued call 41, allgather of 1024 f32
      r5: did not answer (pid 1234), last issued call 41, allgather of 1024 f32
      r6: has made no call
      r8: idle after call 41, allgather of 1024 f32
      r0 tb0 s17 waits for message 41 from r1 on ch0; r1 has failed: out of memory
      r0 tb1 s17 waits for message 41 from r2 on ch0; r2 has aborted: out of memory
      r0 tb2 s17 waits for message 41 from r3 on ch0; r3 has left the communicator (its last call was #40, allgather of 1024 f32)
      r0 tb3 s17 waits for message 41 from r4 on ch0; r4 has died: its connection ended (its last call was #41, allgather of 1024 f32)
      r0 tb4 s17 waits for message 41 from r5 on ch0; r5 did not answer (pid 1234): its process is stopped or gone (its last call was #41, allgather of 1024 f32)
      r0 tb5 s17 waits for message 41 from r6 on ch0; r6 has not entered this collective (it has made no call)
      r0 tb6 s17 waits for message 41 from r7 on ch0; r7 has issued this collective, but none of its thread blocks waits: its stream has not come to it, or it computes
      r0 tb7 s17 waits for message 41 from r8 on ch0; r8 waits for nobody: its calls are over, or have not begun on its GPU (its last call was #41, allgather of 1024 f32)
      r1, r2: tb0 s17 waits for message 41 from r0 on ch0; r0 waits itself
    ");
}

#[test]
fn transfers_have_no_number() {
    let kind = PostedKind::Transfers { calls: 3 };
    let send =
        PostedCall { sequence: 8, call: call(Operation::Send(Rank(1)), 4), kind, settings: 0 };
    let text = "transfer 1 waits for room at r1".to_owned();
    let wait = Wait { number: None, peer: Some(Rank(1)), text };
    let mut sender = RankSnapshot { last: Some(send), current: Some(send), ..idle(7) };
    sender.answer.iter_mut().for_each(|answer| answer.waits = vec![wait.clone()]);
    assert_snapshot!(formatted([sender.clone(), idle(7)]), @r"
    => r1 holds up r0: it waits for nobody: its calls are over, or have not begun on its GPU (its last call was #7, allgather of 1024 f32)
    who waits for whom
      r0: in send of 4 f32 to r1 and 2 more transfers
      r1: idle after call 7, allgather of 1024 f32
      r0 transfer 1 waits for room at r1; r1 waits for nobody: its calls are over, or have not begun on its GPU (its last call was #7, allgather of 1024 f32)
    ");
    let busy = RankSnapshot { last: Some(posted(9)), ..waiting(8, &[]) };
    assert_snapshot!(formatted([sender, busy]), @r"
    => r1 holds up r0: it is in call 8, allgather of 1024 f32, but none of its thread blocks waits: its stream has not come to it, or it computes
    who waits for whom
      r0: in send of 4 f32 to r1 and 2 more transfers
      r1: in call 8, allgather of 1024 f32; 1 more call issued, the last: call 9, allgather of 1024 f32
      r0 transfer 1 waits for room at r1; r1 is in call 8, allgather of 1024 f32, but none of its thread blocks waits: its stream has not come to it, or it computes
    ");
}

#[test]
fn waits_within_a_rank_count_only_alone() {
    let inner = Wait { number: Some(41), peer: None, text: "tb1 s2 waits for tb0 s3".to_owned() };
    let with_inner = |mut rank_snapshot: RankSnapshot| {
        rank_snapshot.answer.iter_mut().for_each(|answer| answer.waits.push(inner.clone()));
        rank_snapshot
    };
    let report = formatted([with_inner(waiting(41, &[])), with_inner(waiting(41, &[0]))]);
    assert_snapshot!(report, @r"
    => no rank waits for another one
    who waits for whom
      r0, r1: in call 41, allgather of 1024 f32
      r0 tb1 s2 waits for tb0 s3
      r1 tb0 s17 waits for message 41 from r0 on ch0; r0 waits itself
    ");
}

#[test]
fn ranks_in_different_calls() {
    assert_snapshot!(formatted([waiting(41, &[1]), waiting(42, &[0]), idle(42)]), @r"
    => r0 waits for r1, r1 waits for r0: a circle; do all ranks make their calls in the same order?
    who waits for whom
      r0: in call 41, allgather of 1024 f32
      r1: in call 42, allgather of 1024 f32
      r2: idle after call 42, allgather of 1024 f32
      r0 tb0 s17 waits for message 41 from r1 on ch0; r1 waits itself, in call 42, allgather of 1024 f32
      r1 tb0 s17 waits for message 41 from r0 on ch0; r0 waits itself, in call 41, allgather of 1024 f32
    ");
    assert_snapshot!(formatted([idle(3), idle(3)]), @r"
    => no rank waits for another one
    who waits for whom
      r0, r1: idle after call 3, allgather of 1024 f32
    ");
    assert_snapshot!(formatted([waiting(5, &[]), idle(4), idle(4), idle(0)]), @r"
    => r1, r2: each has not entered call 5 (its last call was #4, allgather of 1024 f32)
    => r3 has not entered call 5 (it has made no call)
    who waits for whom
      r0: in call 5, allgather of 1024 f32
      r1, r2: idle after call 4, allgather of 1024 f32
      r3: has made no call
    ");
}

/// Sixty-four ranks of thirty-two thread blocks each.
fn big(peer: impl Fn(u32, u32) -> u32, rest: impl Fn(u32) -> Option<RankSnapshot>) -> Snapshot {
    snapshot((0..64).map(|rank| {
        let peers: Vec<_> = (0..32).map(|block| peer(rank, block)).collect();
        rest(rank).unwrap_or_else(|| waiting(41, &peers))
    }))
}

fn check_size(snapshot: &Snapshot, conclusion: &str) {
    let report = snapshot.format("who waits for whom", None);
    assert!(report.lines().count() <= 60, "{report}");
    assert!(snapshot.conclusion().contains(conclusion), "{}", snapshot.conclusion());
}

#[test]
fn big_reports_stay_short() {
    let missing = |rank| (rank == 5).then(|| idle(40));
    let ring = big(|rank, _| (rank + 1) % 64, missing);
    check_size(&ring, "r5 holds up r4, and through them r0-r3, r6-r63: it has not entered call 41");
    assert_snapshot!(ring.format("who waits for whom", None), @r"
    => r5 holds up r4, and through them r0-r3, r6-r63: it has not entered call 41 (its last call was #40, allgather of 1024 f32)
    who waits for whom
      r0-r4, r6-r63: in call 41, allgather of 1024 f32
      r5: idle after call 40, allgather of 1024 f32
      r4 tb0 s17 waits for message 41 from r5 on ch0 (and 31 more thread blocks); r5 has not entered this collective (its last call was #40, allgather of 1024 f32)
      r0 tb0 s17 waits for message 41 from r1 on ch0 (and 31 more thread blocks); r1 waits itself
      r1 tb0 s17 waits for message 41 from r2 on ch0 (and 31 more thread blocks); r2 waits itself
      r2 tb0 s17 waits for message 41 from r3 on ch0 (and 31 more thread blocks); r3 waits itself
      r3 tb0 s17 waits for message 41 from r4 on ch0 (and 31 more thread blocks); r4 waits itself
      r6 tb0 s17 waits for message 41 from r7 on ch0 (and 31 more thread blocks); r7 waits itself
      r7 tb0 s17 waits for message 41 from r8 on ch0 (and 31 more thread blocks); r8 waits itself
      r8 tb0 s17 waits for message 41 from r9 on ch0 (and 31 more thread blocks); r9 waits itself
      r9 tb0 s17 waits for message 41 from r10 on ch0 (and 31 more thread blocks); r10 waits itself
      r10 tb0 s17 waits for message 41 from r11 on ch0 (and 31 more thread blocks); r11 waits itself
      r11 tb0 s17 waits for message 41 from r12 on ch0 (and 31 more thread blocks); r12 waits itself
      r12 tb0 s17 waits for message 41 from r13 on ch0 (and 31 more thread blocks); r13 waits itself
      r13 tb0 s17 waits for message 41 from r14 on ch0 (and 31 more thread blocks); r14 waits itself
      r14 tb0 s17 waits for message 41 from r15 on ch0 (and 31 more thread blocks); r15 waits itself
      r15 tb0 s17 waits for message 41 from r16 on ch0 (and 31 more thread blocks); r16 waits itself
      r16 tb0 s17 waits for message 41 from r17 on ch0 (and 31 more thread blocks); r17 waits itself
      r17 tb0 s17 waits for message 41 from r18 on ch0 (and 31 more thread blocks); r18 waits itself
      r18-r63 wait for ranks that wait themselves
    ");
    let all_pairs = big(|rank, block| (rank + 1 + block) % 64, missing);
    check_size(&all_pairs, "r5 holds up r0-r4, r37-r63, and through them r6-r36: it has not");
    let half_missing =
        big(|rank, block| (rank + block) % 64, |rank| (rank % 2 == 1).then(|| idle(40)));
    check_size(&half_missing, "r63 hold up r0, r2, r4, ");
    let circle = big(|rank, _| (rank + 1) % 64, |_| None);
    check_size(&circle, "r7 waits for r8, and so on over 56 more ranks: a circle");
    let scattered =
        big(|rank, _| (rank + 1) % 64, |rank| (rank > 20).then(|| idle(u64::from(rank))));
    check_size(&scattered, "r21 holds up r20, and through them r0-r19: ");
    let alone =
        big(|rank, _| (rank + 1) % 64, |rank| (rank % 2 == 1).then(|| idle(u64::from(rank) / 2)));
    check_size(&alone, "28 more ranks hold up others");
}

#[test]
fn what_differs_comes_first() {
    let shared_state = SharedState::alone(Rank(0), 3);
    for rank in shared_state.ranks() {
        let count = if rank == Rank(2) { 512 } else { 1024 };
        shared_state.seen_by(rank).post_call(1, &call(Operation::AllReduce(SUM), count), false);
    }
    let ranks: Vec<_> = (0..3).map(|rank| waiting(1, &[(rank + 1) % 3])).collect();
    let snapshot = Snapshot { ranks, difference: first_difference(&shared_state) };
    assert_snapshot!(snapshot.format("who waits for whom", None), @r"
    => r0, r1 and r2 call different things: call 1 is allreduce of 1024 f32 sum on r0, r1, allreduce of 512 f32 sum on r2; make the same call on all ranks
    who waits for whom
      r0-r2: in call 1, allgather of 1024 f32
      r0 tb0 s17 waits for message 41 from r1 on ch0; r1 waits itself
      r1 tb0 s17 waits for message 41 from r2 on ch0; r2 waits itself
      r2 tb0 s17 waits for message 41 from r0 on ch0; r0 waits itself
    ");
    assert_snapshot!(snapshot.conclusion(), @r"r0, r1 and r2 call different things: call 1 is allreduce of 1024 f32 sum on r0, r1, allreduce of 512 f32 sum on r2; make the same call on all ranks");
}

#[test]
fn the_host_of_an_inter_node_rank_may_be_unreachable() {
    let snapshot =
        snapshot([waiting(41, &[1]), RankSnapshot { is_intra_node: false, ..silent(idle(40)) }]);
    assert_eq!(
        snapshot.conclusion(),
        "r1 holds up r0: it did not answer (pid 1234): its process is stopped or gone, or its host \
         cannot be reached (its last call was #40, allgather of 1024 f32)"
    );
}
