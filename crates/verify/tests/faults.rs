//! Every kind of fault, by the smallest algorithm that has it, and its counterexample.

#![deny(unsafe_code)]

use std::collections::BTreeMap;
use std::sync::Arc;

use msccl_collective::{Contract, Contribution, Custom, Kind, Placement, Rank, SizeRange};
use msccl_ir::{Algorithm, Step, Target, ThreadBlock};
use msccl_testkit::by_hand::{StepExt, algorithm, i, nop, o, r, step, t, tb};
use msccl_verify::{Fault, FaultKind, verify};

/// The principal fault of a refused algorithm, as `kind` and as text.
#[track_caller]
fn check(algorithm: Algorithm, kind: FaultKind, expected: &str) -> Fault {
    let refusal = verify(algorithm, &Target::msccl()).expect_err("a fault");
    let fault = refusal.faults.into_iter().next().expect("at least one");
    assert_eq!(fault.kind, kind, "{fault}");
    assert_eq!(fault.to_string(), expected.trim_start());
    fault
}

fn out_of_place(algorithm: Algorithm) -> Algorithm {
    Algorithm { placement: Placement::OutOfPlace, ..algorithm }
}

/// The same for calls so small that no target runs out of rounds.
fn of_a_mebibyte(algorithm: Algorithm) -> Algorithm {
    Algorithm { sizes: SizeRange { min_bytes: 0, max_bytes: Some(1 << 20) }, ..algorithm }
}

/// An all-reduce of two ranks with one chunk, out of place, in which every rank runs
/// `blocks(peer)`.
fn pair(blocks: impl Fn(u32) -> Vec<ThreadBlock>) -> Algorithm {
    out_of_place(algorithm(Kind::AllReduce, 1, vec![blocks(1), blocks(0)]))
}

/// A right one: send, receive into scratch, add.
fn right_steps(peer: u32) -> Vec<Step> {
    vec![step(&[i(0)], &[r(peer)]), step(&[r(peer), i(0)], &[o(0)])]
}

#[test]
fn the_algorithm_without_a_fault_is_proved() {
    let proved = verify(pair(|peer| vec![tb(0, right_steps(peer))]), &Target::msccl());
    assert!(proved.is_ok(), "{proved:?}");
}

#[test]
fn structure_and_limits_come_first() {
    let bad =
        pair(|peer| vec![tb(0, vec![step(&[i(1)], &[r(peer)]), right_steps(peer)[1].clone()])]);
    let fault = check(
        bad,
        FaultKind::Structure,
        "structure: r0 tb0 s0: touches i[1], but the input of r0 has 1 chunks",
    );
    assert_eq!(fault.at.len(), 1);
    let many = vec![step(&[i(0)], &[t(0)]); 257];
    let long = pair(|peer| vec![tb(0, right_steps(peer)), tb(1, many.clone())]);
    check(
        long,
        FaultKind::Limits,
        "limits: r0 tb1 has too many steps: 257, but target msccl allows 256",
    );
}

#[test]
fn counts_of_the_two_ends_of_a_message_agree() {
    let sends = |count| vec![tb(0, vec![step(&[i(0)], &[r(1)]).times(count)])];
    let receives = |count| vec![tb(0, vec![step(&[r(0)], &[o(0)]).times(count)])];
    let fault = check(
        algorithm(Kind::Broadcast { root: Rank(0) }, 2, vec![sends(2), receives(1)]),
        FaultKind::Structure,
        "structure: r0 tb0 s0 sends 2 chunks to r1 on ch0, but r1 tb0 s0, which takes that \
         message, expects 1",
    );
    assert_eq!(fault.at.len(), 2);
}

#[test]
fn a_receive_without_send_deadlocks() {
    let receiver = |extra: bool| {
        let mut steps = vec![step(&[r(0)], &[o(0)])];
        steps.extend(extra.then(|| step(&[r(0)], &[o(0)])));
        vec![tb(0, steps)]
    };
    let sender = vec![tb(0, vec![step(&[i(0)], &[r(1)])])];
    check(
        algorithm(Kind::Broadcast { root: Rank(0) }, 1, vec![sender, receiver(true)]),
        FaultKind::Deadlock,
        "
deadlock: r1 tb0 s1 waits for message 2 from r0 on ch0, but r0 sends only 1
  r1 tb0 s1 waits for a message from r0 for ever",
    );
}

/// Both ranks send `count` chunks in one step or in `count` steps, then receive.
fn send_first(count: u32, steps: bool) -> Algorithm {
    let rank = |peer| {
        let each: Vec<_> =
            if steps { (0..count).map(|c| (c, 1)).collect() } else { vec![(0, count)] };
        let sends = each.iter().map(|&(c, n)| step(&[i(c)], &[r(peer)]).times(n));
        let sums = each.iter().map(|&(c, n)| step(&[r(peer), i(c)], &[o(c)]).times(n));
        vec![tb(0, sends.chain(sums).collect())]
    };
    out_of_place(algorithm(Kind::AllReduce, count, vec![rank(1), rank(0)]))
}

#[test]
fn both_sides_sending_first_deadlocks_beyond_the_depth() {
    let proved = verify(send_first(2, true), &Target::msccl()).expect("just fits");
    assert_eq!(proved.facts().least_link_depth, 2);
    let fault = check(
        send_first(3, true),
        FaultKind::Deadlock,
        "
deadlock: 2 thread blocks wait for one another in a circle
  r0 tb0 s2 waits for room on its link to r1 on ch0 (2 of 2 messages in flight)
  r1 tb0 s2 waits for room on its link to r0 on ch0 (2 of 2 messages in flight)
  a link is full: let its receiver take messages sooner, or send some of them on another channel",
    );
    assert_eq!(fault.sound_up_to_bytes, None);
}

#[test]
fn a_counted_step_deadlocks_where_chunks_are_large() {
    // Nine chunks in at most two messages: five each, so 2 MiB / 5 a chunk, in whole
    // elements of up to eight bytes.
    let fault = check(
        send_first(9, false),
        FaultKind::Deadlock,
        "
deadlock: in calls of more than 3774816 bytes, where a message holds fewer than 5 chunks, \
         2 thread blocks wait for one another in a circle (sound up to 3774816 bytes)
  r0 tb0 s0 waits for room on its link to r1 on ch0 (2 of 2 messages in flight)
  r1 tb0 s0 waits for room on its link to r0 on ch0 (2 of 2 messages in flight)
  a link is full: let its receiver take messages sooner, or send some of them on another channel",
    );
    assert_eq!(fault.sound_up_to_bytes, Some(9 * (((2 << 20) / 5) & !15)));
    let small = SizeRange { min_bytes: 0, max_bytes: fault.sound_up_to_bytes };
    let proved = verify(Algorithm { sizes: small, ..send_first(9, false) }, &Target::msccl());
    let proved = proved.expect("small calls are sound");
    assert_eq!(proved.facts().fewest_chunks_per_message, 5);
    assert_eq!(proved.facts().messages, 4);
    let larger = SizeRange { max_bytes: fault.sound_up_to_bytes.map(|bytes| bytes + 1), ..small };
    let larger = verify(Algorithm { sizes: larger, ..send_first(9, false) }, &Target::msccl());
    assert!(larger.is_err(), "one byte more is not");
    let native = verify(send_first(9, false), &Target::native()).expect("one message a step");
    assert_eq!(native.facts().least_link_depth, 1);
}

#[test]
fn waits_in_a_circle_deadlock() {
    let circle = |peer| {
        let other = tb(1, vec![step(&[i(0)], &[t(0)]).after(0, 0)]);
        let [send, sum] = right_steps(peer).try_into().expect("two steps");
        vec![tb(0, vec![send.after(1, 0), sum]), other]
    };
    check(
        pair(circle),
        FaultKind::Deadlock,
        "
deadlock: 2 thread blocks wait for one another in a circle
  r0 tb0 s0 waits for the end of tb1 s0
  r0 tb1 s0 waits for the end of tb0 s0",
    );
}

#[test]
fn a_message_that_nobody_receives_is_left_over() {
    let sender = vec![tb(0, vec![step(&[i(0)], &[r(1)]); 2])];
    let receiver = vec![tb(0, vec![step(&[r(0)], &[o(0)])])];
    check(
        algorithm(Kind::Broadcast { root: Rank(0) }, 1, vec![sender, receiver]),
        FaultKind::Leftover,
        "
leftover: 1 message from r0 to r1 on ch0 is never received by r1 tb0
  r0 tb0 s1 sends to r1, the last time",
    );
}

/// Receive in one block, add in another, with or without a wait between.
fn in_two_blocks(waits: bool) -> Algorithm {
    pair(|peer| {
        let sum = step(&[t(0), i(0)], &[o(0)]);
        let sum = if waits { sum.after(0, 1) } else { sum };
        let exchange = vec![step(&[i(0)], &[r(peer)]), step(&[r(peer)], &[t(0)])];
        vec![tb(0, exchange), tb(1, vec![sum])]
    })
}

#[test]
fn a_missing_wait_is_a_race() {
    let native = |waits| verify(in_two_blocks(waits), &Target::native());
    assert!(native(true).is_ok());
    let refusal = native(false).expect_err("a race");
    assert_eq!(refusal.faults.len(), 2, "one on each rank");
    assert_eq!(
        refusal.faults[0].to_string(),
        "race: r0 tb0 s1 writes s[0] of r0 and r0 tb1 s0 reads it, in no order (out of place)\n  \
         r0 tb1 s0 (*) reads s[0]\n  \
         r0 tb0 s1 (r) writes s[0]\n  \
         no wait and no chain of messages makes one end before the other begins"
    );
}

#[test]
fn aliasing_in_place_makes_races() {
    // Reading the input while another block writes the output is a race only if they are one.
    let blocks = |peer| {
        let sends = tb(0, vec![step(&[i(0)], &[r(peer)])]);
        let sums = tb(0, vec![step(&[r(peer), i(0)], &[o(0)])]);
        vec![sends, sums]
    };
    let both = |placement| Algorithm { placement, ..pair(blocks) };
    assert!(verify(both(Placement::OutOfPlace), &Target::msccl()).is_ok());
    let refusal = verify(both(Placement::Both), &Target::msccl()).expect_err("a race in place");
    let text = refusal.faults[0].to_string();
    assert!(text.starts_with("race: r0 tb"), "{text}");
    assert!(text.contains("the same memory, in no order (in place)"), "{text}");
}

#[test]
fn a_wait_for_ones_own_block_is_satisfied_or_for_ever() {
    let waiting = |step: u32| {
        pair(|peer| {
            let [send, add] = [0, 1].map(|at| right_steps(peer)[at].clone());
            vec![tb(0, vec![send, add.after(0, step)])]
        })
    };
    for target in [Target::msccl(), Target::executor(), Target::native()] {
        let proved =
            verify(of_a_mebibyte(waiting(0)), &target).expect("steps of a block run in order");
        assert_eq!(proved.facts().least_link_depth, 1);
    }
    check(
        waiting(1),
        FaultKind::Deadlock,
        "
deadlock: r0 tb0 s1 waits for the end of tb0 s1 of its own thread block, which does not run before \
it
  r0 tb0 s1 waits for the end of tb0 s1",
    );
}

#[test]
fn an_order_through_another_rank_is_an_order() {
    // r0 tb0 reads i[0] and sends it; r1 answers; r0 tb1 then overwrites i[0].
    let answer = [step(&[r(0), i(0)], &[o(0)]), step(&[o(0)], &[r(0)])];
    let first = vec![tb(0, vec![step(&[i(0)], &[r(1)])]), tb(1, vec![step(&[r(1)], &[o(0)])])];
    let mut second =
        vec![tb(0, vec![answer[0].clone()]), tb(1, vec![answer[1].clone().after(0, 0)])];
    let ordered = of_a_mebibyte(algorithm(Kind::AllReduce, 1, vec![first.clone(), second.clone()]));
    assert!(verify(ordered, &Target::msccl()).is_ok());
    second[1].steps[0].waits.clear();
    let unordered = algorithm(Kind::AllReduce, 1, vec![first, second]);
    let refusal = verify(unordered, &Target::msccl()).expect_err("nothing orders the answer");
    assert_eq!(refusal.faults[0].kind, FaultKind::Race);
    let ranks: Vec<_> = refusal.faults.iter().map(|fault| fault.at[0].rank).collect();
    assert_eq!(ranks, [Rank(0), Rank(1)], "without it, the overwriting races as well");
}

/// Rank 0 sends input `from .. from + 2` round the ring of three ranks, and another block of it
/// stores what comes back from `to` on. The others pass both chunks on, whole or as a stream.
fn round_trip(from: u32, to: u32, streams: bool) -> Algorithm {
    let first = vec![
        tb(0, vec![step(&[i(from)], &[r(1)]).times(2)]),
        tb(0, vec![step(&[r(2)], &[i(to)]).times(2)]),
    ];
    let relay = |before, next| {
        let whole = vec![step(&[r(before)], &[t(0)]).times(2), step(&[t(0)], &[r(next)]).times(2)];
        let stream = vec![step(&[r(before)], &[r(next)]).times(2)];
        vec![tb(0, if streams { stream } else { whole })]
    };
    let name = "round_trip".to_owned();
    let custom = Custom { name, input_chunks: 3, output_chunks: 3, contract: None };
    let ranks = vec![first, relay(0, 2), relay(1, 0)];
    algorithm(Kind::Custom(Arc::new(custom)), 1, ranks)
}

#[test]
fn a_stream_orders_chunk_by_chunk() {
    let verdict = |algorithm| {
        let verdict = verify(algorithm, &Target::native());
        verdict.map(|_| ()).map_err(|refusal| refusal.faults[0].kind)
    };
    for (from, to) in [(0, 0), (1, 0), (0, 1)] {
        assert_eq!(verdict(round_trip(from, to, false)), Ok(()), "whole steps are ordered");
    }
    assert_eq!(verdict(round_trip(0, 0, true)), Ok(()));
    assert_eq!(verdict(round_trip(1, 0, true)), Ok(()), "the slot in common leaves first");
    assert_eq!(
        verdict(round_trip(0, 1, true)),
        Err(FaultKind::Race),
        "chunk 0 comes back while chunk 1 may not have left"
    );
}

#[test]
fn a_read_of_an_unwritten_slot_is_uninitialised() {
    let steps = |peer| vec![step(&[t(0)], &[r(peer)]), step(&[r(peer), i(0)], &[o(0)])];
    check(
        pair(|peer| vec![tb(0, steps(peer))]),
        FaultKind::Uninitialised,
        "
uninitialised: r0 tb0 s0 reads s[0] of r0, which nothing has written (out of place)
  no step of r0 writes it",
    );
    let late = |peer| {
        let mut steps = steps(peer);
        steps.push(step(&[i(0)], &[t(0)]));
        vec![tb(0, steps)]
    };
    let fault = check(
        pair(late),
        FaultKind::Uninitialised,
        "
uninitialised: r0 tb0 s0 reads s[0] of r0, which nothing has written (out of place)
  r0 tb0 s2 (cpy) writes it, but only later",
    );
    assert_eq!(fault.at.len(), 2);
}

#[test]
fn a_contribution_that_comes_in_twice_is_a_wrong_result() {
    let twice = |peer| {
        let [send, sum] = right_steps(peer).try_into().expect("two steps");
        vec![tb(0, vec![send, sum, step(&[o(0), i(0)], &[o(0)])])]
    };
    check(
        pair(twice),
        FaultKind::WrongResult,
        "
wrong-result: o[0] of r0 should hold the sum of i[0] of every rank but holds \
         r0.i[0] + r0.i[0] + r1.i[0]: r0.i[0] too often (out of place)
  r0 tb0 s2 (re) o[0] = r0.i[0] + r0.i[0] + r1.i[0]",
    );
}

#[test]
fn a_missing_contribution_is_a_wrong_result() {
    let alone = |peer| {
        let [send, _] = right_steps(peer).try_into().expect("two steps");
        vec![tb(0, vec![send, step(&[r(peer)], &[t(0)]), step(&[i(0)], &[o(0)])])]
    };
    check(
        pair(alone),
        FaultKind::WrongResult,
        "
wrong-result: o[0] of r0 should hold the sum of i[0] of every rank but holds r0.i[0]: \
         missing r1.i[0] (out of place)
  r0 tb0 s2 (cpy) o[0] = r0.i[0]",
    );
}

#[test]
fn a_chunk_in_the_wrong_place_is_followed_to_its_source() {
    let rank = |own: u32, peer| {
        let exchange = vec![step(&[i(own)], &[r(peer)]), step(&[r(peer)], &[o(peer)])];
        vec![tb(0, exchange), tb(1, vec![step(&[i(own)], &[o(own)])])]
    };
    check(
        out_of_place(algorithm(Kind::AllToAll, 1, vec![rank(0, 1), rank(1, 0)])),
        FaultKind::WrongResult,
        "
wrong-result: o[1] of r0 should hold r1.i[0] but holds r1.i[1] (out of place)
  r0 tb0 s1 (r) o[1] = r1.i[1]
  r1 tb0 s0 (s) to r0 = r1.i[1]",
    );
}

#[test]
fn an_output_that_no_step_writes_is_refused() {
    let idle = |peer| vec![tb(0, vec![right_steps(peer)[0].clone(), step(&[r(peer)], &[t(0)])])];
    check(
        pair(idle),
        FaultKind::WrongResult,
        "
wrong-result: o[0] of r0 should hold the sum of i[0] of every rank but holds nothing: \
         missing r0.i[0], r1.i[0] (out of place)
  no step of r0 writes o[0]",
    );
}

#[test]
fn a_write_to_the_input_out_of_place_is_refused() {
    let overwriting = |peer| {
        let [send, sum] = right_steps(peer).try_into().expect("two steps");
        vec![tb(0, vec![send, sum, step(&[o(0)], &[i(0)])])]
    };
    check(
        pair(overwriting),
        FaultKind::WrongResult,
        "
wrong-result: i[0] of r0 holds r0.i[0] + r1.i[0] at the end; the call is out of place, so the \
         caller's input must stay as it was
  r0 tb0 s2 (cpy) i[0] = r0.i[0] + r1.i[0]
  r0 tb0 s1 (rrc) o[0] = r0.i[0] + r1.i[0]",
    );
}

#[test]
fn a_contract_is_what_is_promised() {
    let one = |rank| Contribution { rank: Rank(rank), index: 0 };
    let shift = |promised: Contribution| {
        let contract = Contract {
            given: [one(0), one(1)].into(),
            promised: BTreeMap::from([((Rank(1), 0), vec![promised])]),
        };
        let name = "shift".to_owned();
        let contract = Some(contract);
        let custom = Custom { name, input_chunks: 1, output_chunks: 1, contract };
        let sender = vec![tb(0, vec![step(&[i(0)], &[r(1)])])];
        let receiver = vec![tb(0, vec![step(&[r(0)], &[o(0)])])];
        out_of_place(algorithm(Kind::Custom(Arc::new(custom)), 1, vec![sender, receiver]))
    };
    assert!(verify(shift(one(0)), &Target::msccl()).is_ok());
    let refusal = verify(shift(one(1)), &Target::msccl()).expect_err("the wrong chunk");
    assert_eq!(refusal.faults[0].kind, FaultKind::WrongResult);
}

#[test]
fn faults_are_judged_in_order() {
    // A program with a race, a wrong result and a deadlock of large calls: the race comes first.
    let rank = |peer| {
        let exchange = vec![step(&[i(0)], &[r(peer)]).times(9), step(&[r(peer)], &[t(0)]).times(9)];
        vec![tb(0, exchange), tb(1, vec![step(&[t(0)], &[o(0)]).times(9)])]
    };
    let racing = out_of_place(algorithm(Kind::AllReduce, 9, vec![rank(1), rank(0)]));
    let first = |algorithm: Algorithm| {
        verify(algorithm, &Target::msccl()).expect_err("a fault").faults[0].kind
    };
    assert_eq!(first(racing.clone()), FaultKind::Race);
    let mut wrong = racing;
    for program in &mut wrong.ranks {
        let copy = &mut program.thread_blocks[1].steps;
        *copy = vec![nop(0, 0), copy[0].clone().after(0, 1)];
    }
    assert_eq!(first(wrong.clone()), FaultKind::WrongResult);
    for program in &mut wrong.ranks {
        program.thread_blocks[1].steps[1] = step(&[t(0), i(0)], &[t(0)]).times(9).after(0, 1);
        program.thread_blocks[1].steps.push(step(&[t(0)], &[o(0)]).times(9));
    }
    assert_eq!(first(wrong), FaultKind::Deadlock);
}
