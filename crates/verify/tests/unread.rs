//! Which results nobody reads: algorithms that have some, and what does not count as one.

#![deny(unsafe_code)]

use msccl_collective::Kind;
use msccl_ir::{Algorithm, Target, ThreadBlock};
use msccl_testkit::by_hand::{algorithm, i, o, r, step, t, tb};
use msccl_verify::{UnreadResult, verify};

/// The unread results of `algorithm`, like `r1 tb0 s0 from r0 tb0 s0, then r1 tb0 s1`.
#[track_caller]
fn unread(algorithm: &Algorithm) -> Vec<String> {
    let proved = verify(algorithm.clone(), &Target::native());
    let proved = proved.unwrap_or_else(|refusal| panic!("{refusal}"));
    let words = |it: UnreadResult| {
        let UnreadResult { step, chunks, of_chunks, sender, overwritten_by } = it;
        let sender = sender.map_or_else(String::new, |it| format!(" from {it}"));
        let next = overwritten_by.map_or_else(String::new, |it| format!(", then {it}"));
        format!("{step}: {chunks} of {of_chunks}{sender}{next}")
    };
    proved.unread_results().into_iter().map(words).collect()
}

/// A broadcast from rank 0 to rank 1.
fn broadcast(sends: ThreadBlock, receives: ThreadBlock) -> Algorithm {
    let root = msccl_collective::Rank(0);
    algorithm(Kind::Broadcast { root }, 1, vec![vec![sends], vec![receives]])
}

#[test]
fn a_message_that_another_overwrites_is_unread() {
    let sends = tb(0, vec![step(&[i(0)], &[r(1)]), step(&[i(0)], &[r(1)])]);
    let receives = tb(0, vec![step(&[r(0)], &[o(0)]), step(&[r(0)], &[o(0)])]);
    let expected = ["r1 tb0 s0: 1 of 1 from r0 tb0 s0, then r1 tb0 s1"];
    assert_eq!(unread(&broadcast(sends, receives)), expected);
}

#[test]
fn what_stays_in_scratch_is_unread() {
    let sends = tb(0, vec![step(&[i(0)], &[r(1)]), step(&[i(0)], &[r(1)])]);
    let receives = tb(0, vec![step(&[r(0)], &[o(0)]), step(&[r(0)], &[t(0)])]);
    assert_eq!(unread(&broadcast(sends, receives)), ["r1 tb0 s1: 1 of 1 from r0 tb0 s1"]);
}

#[test]
fn results_are_read_by_steps_by_links_and_by_callers() {
    // Through scratch into the output.
    let sends = tb(0, vec![step(&[i(0)], &[r(1)])]);
    let receives = tb(0, vec![step(&[r(0)], &[t(0)]), step(&[t(0)], &[o(0)])]);
    assert!(unread(&broadcast(sends, receives)).is_empty());
    // Stored, sent on and overwritten by what comes back.
    let first = tb(0, vec![step(&[i(0)], &[r(1)]), step(&[r(1)], &[t(0)]), step(&[t(0)], &[r(1)])]);
    let second = tb(0, vec![step(&[r(0)], &[o(0), r(0)]), step(&[r(0)], &[o(0)])]);
    assert!(unread(&broadcast(first, second)).is_empty());
}
