//! Which steps may run as one: an algorithm that has them, and for each condition one that fails
//! it.

#![deny(unsafe_code)]

use std::sync::Arc;

use msccl_collective::{Custom, Kind};
use msccl_ir::{Algorithm, Step, Target, ThreadBlock};
use msccl_testkit::by_hand::{StepExt, algorithm, nop, o, r, step, tb};
use msccl_verify::verify;

/// The bundles of `algorithm`, like `r0 tb0 0..2`.
#[track_caller]
fn bundles(algorithm: &Algorithm) -> Vec<String> {
    let proved = verify(algorithm.clone(), &Target::native());
    let proved = proved.unwrap_or_else(|refusal| panic!("{refusal}"));
    let bundles = proved.bundles().into_iter();
    bundles.map(|bundle| format!("{} {} {:?}", bundle.rank, bundle.tb, bundle.steps)).collect()
}

/// A two-shot all-reduce by one thread block of every rank.
fn two_shot(ranks: u32) -> Algorithm {
    let block = |rank: u32| {
        let others = || (0..ranks).filter(move |&peer| peer != rank);
        let sends = others().map(|peer| step(&[o(peer)], &[r(peer)]));
        let own = [vec![o(rank)], others().map(r).collect()].concat();
        let receives = others().map(|peer| step(&[r(peer)], &[o(peer)]));
        tb(0, sends.chain([step(&own, &own)]).chain(receives).collect())
    };
    algorithm(Kind::AllReduce, ranks, (0..ranks).map(|rank| vec![block(rank)]).collect())
}

#[test]
fn sends_run_as_one_and_so_do_receives() {
    assert!(bundles(&two_shot(2)).is_empty());
    let expected =
        ["r0 tb0 0..2", "r0 tb0 3..5", "r1 tb0 0..2", "r1 tb0 3..5", "r2 tb0 0..2", "r2 tb0 3..5"];
    assert_eq!(bundles(&two_shot(3)), expected);
    assert_eq!(bundles(&two_shot(8)).len(), 16);
}

#[test]
fn a_bundle_has_sixteen_steps_at_most() {
    let found = bundles(&two_shot(19));
    assert_eq!(found[..4], ["r0 tb0 0..16", "r0 tb0 16..18", "r0 tb0 19..35", "r0 tb0 35..37"]);
}

/// Nothing is promised: only who moves what when matters.
fn free(ranks: Vec<Vec<ThreadBlock>>) -> Algorithm {
    let custom = Custom { name: "free".into(), input_chunks: 4, output_chunks: 4, contract: None };
    algorithm(Kind::Custom(Arc::new(custom)), 4, ranks)
}

/// Rank 0 has `steps`; ranks 1 and 2 take what it sends them, by `receives`.
fn root(steps: Vec<Step>, receives: [Vec<Step>; 2]) -> Algorithm {
    let [one, two] = receives.map(|steps| vec![tb(0, steps)]);
    free(vec![vec![tb(0, steps)], one, two])
}

fn take(slot: u32) -> Vec<Step> {
    vec![step(&[r(0)], &[o(slot)])]
}

#[test]
fn copies_of_one_slot_run_as_one() {
    let steps = vec![step(&[o(0)], &[r(1)]), step(&[o(0)], &[r(2)])];
    assert_eq!(bundles(&root(steps, [take(0), take(0)])), ["r0 tb0 0..2"]);
}

#[test]
fn two_messages_of_one_link_are_no_bundle() {
    let steps = vec![step(&[o(0)], &[r(1)]), step(&[o(1)], &[r(1)]), step(&[o(1)], &[r(2)])];
    let twice = vec![step(&[r(0)], &[o(0)]), step(&[r(0)], &[o(1)])];
    assert_eq!(bundles(&root(steps, [twice, take(0)])), ["r0 tb0 1..3"]);
}

#[test]
fn what_one_writes_no_other_touches() {
    let copies = |second: Step| free(vec![vec![tb(0, vec![step(&[o(0)], &[o(1)]), second])]]);
    assert_eq!(bundles(&copies(step(&[o(2)], &[o(3)]))), ["r0 tb0 0..2"]);
    assert!(bundles(&copies(step(&[o(1)], &[o(3)]))).is_empty(), "it reads what is written");
    assert!(bundles(&copies(step(&[o(2)], &[o(0)]))).is_empty(), "it writes what is read");
    assert!(bundles(&copies(step(&[o(2)], &[o(1)]))).is_empty(), "both write");
}

#[test]
fn copies_within_a_rank_go_with_their_like() {
    // What is stored here would not be ordered before the packets of another.
    let steps = vec![step(&[o(0)], &[o(1)]), step(&[o(2)], &[r(1)]), step(&[o(2)], &[r(2)])];
    assert_eq!(bundles(&root(steps, [take(0), take(0)])), ["r0 tb0 1..3"]);
}

#[test]
fn only_the_first_waits_and_the_last_is_awaited() {
    let sends = |waiting: usize| {
        let mut steps = vec![step(&[o(0)], &[r(1)]), step(&[o(1)], &[r(2)])];
        steps[waiting] = steps[waiting].clone().after(1, 0);
        let first = tb(0, steps);
        let second = tb(1, vec![step(&[o(2)], &[o(3)])]);
        free(vec![vec![first, second], vec![tb(0, take(0))], vec![tb(0, take(0))]])
    };
    assert_eq!(bundles(&sends(0)), ["r0 tb0 0..2"]);
    assert!(bundles(&sends(1)).is_empty());

    let awaited = |step_awaited: u32| {
        let first = tb(0, vec![step(&[o(0)], &[r(1)]), step(&[o(1)], &[r(2)])]);
        let second = tb(1, vec![nop(0, step_awaited)]);
        free(vec![vec![first, second], vec![tb(0, take(0))], vec![tb(0, take(0))]])
    };
    assert!(bundles(&awaited(0)).is_empty());
    assert_eq!(bundles(&awaited(1)), ["r0 tb0 0..2"]);
}

#[test]
fn sums_and_counted_steps_are_no_bundles() {
    let sums = vec![step(&[o(0), o(1)], &[o(1)]), step(&[o(2), o(3)], &[o(3)])];
    assert!(bundles(&free(vec![vec![tb(0, sums)]])).is_empty());
    // As many messages as the size of the call says: nowhere in the algorithm is anything a bundle.
    let steps = vec![
        step(&[o(0)], &[r(1)]).times(2),
        step(&[o(0)], &[r(2)]).times(2),
        step(&[o(0)], &[o(1)]),
        step(&[o(2)], &[o(3)]),
    ];
    let take = || vec![step(&[r(0)], &[o(0)]).times(2)];
    assert!(bundles(&root(steps, [take(), take()])).is_empty());
}

#[test]
fn steps_that_would_wait_for_one_another_are_no_bundles() {
    // Rank 1 sends to rank 0, and then to rank 2, which passes it on to rank 0.
    let relayed = |again: bool| {
        let mut zero = vec![step(&[r(1)], &[o(0)]), step(&[r(2)], &[o(1)])];
        let mut one = vec![step(&[o(0)], &[r(0)]), step(&[o(2)], &[r(2)])];
        if again {
            // A second message to rank 0 comes between, which on a link of one message waits until
            // that has taken the first: it must not wait for rank 2 first.
            zero.push(step(&[r(1)], &[o(2)]));
            one.insert(1, step(&[o(1)], &[r(0)]));
        }
        let two = vec![step(&[r(1)], &[r(0)])];
        free(vec![vec![tb(0, zero)], vec![tb(0, one)], vec![tb(0, two)]])
    };
    assert_eq!(bundles(&relayed(false)), ["r0 tb0 0..2", "r1 tb0 0..2"]);
    assert!(bundles(&relayed(true)).is_empty());
}
