//! Algorithms that are nothing but copies of blocks.

#![deny(unsafe_code)]

use msccl_collective::{Kind, Placement, Rank};
use msccl_ir::{Algorithm, Target, ThreadBlock};
use msccl_testkit::by_hand::{algorithm, i, o, r, step, tb};
use msccl_verify::{BlockCopies, verify};

#[track_caller]
fn copies(algorithm: &Algorithm) -> Option<BlockCopies> {
    match verify(algorithm.clone(), &Target::native()) {
        Ok(proved) => proved.block_copies(),
        Err(refusal) => panic!("{refusal}"),
    }
}

/// The copies as numbers, and the placements that they serve.
#[track_caller]
fn numbers(algorithm: &Algorithm) -> (Vec<[u32; 4]>, Placement) {
    let BlockCopies { copies, placement } = copies(algorithm).expect("nothing but copies");
    let numbers = copies.iter().map(|of| [of.from.0, of.input, of.to.0, of.output]);
    (numbers.collect(), placement)
}

fn out_of_place(kind: Kind, blocks: Vec<Vec<ThreadBlock>>) -> Algorithm {
    Algorithm { placement: Placement::OutOfPlace, ..algorithm(kind, 1, blocks) }
}

#[test]
fn an_all_gather_in_one_step_serves_both_placements() {
    let rank = |me: u32| {
        let peer = 1 - me;
        vec![
            tb(0, vec![step(&[i(0)], &[r(peer)])]),
            tb(0, vec![step(&[r(peer)], &[o(peer)])]),
            tb(0, vec![step(&[i(0)], &[o(me)])]),
        ]
    };
    let found = numbers(&out_of_place(Kind::AllGather, vec![rank(0), rank(1)]));
    let expected = vec![[0, 0, 0, 0], [0, 0, 1, 0], [1, 0, 0, 1], [1, 0, 1, 1]];
    assert_eq!(found, (expected, Placement::Both));
}

/// In place a block is written where the one lies that is to be sent.
#[test]
fn a_swap_is_copies_only_out_of_place() {
    let rank = |me: u32| {
        let peer = 1 - me;
        vec![
            tb(0, vec![step(&[i(peer)], &[r(peer)])]),
            tb(0, vec![step(&[r(peer)], &[o(peer)])]),
            tb(0, vec![step(&[i(me)], &[o(me)])]),
        ]
    };
    let found = numbers(&out_of_place(Kind::AllToAll, vec![rank(0), rank(1)]));
    let expected = vec![[0, 0, 0, 0], [0, 1, 1, 0], [1, 0, 0, 1], [1, 1, 1, 1]];
    assert_eq!(found, (expected, Placement::OutOfPlace));
}

#[test]
fn what_is_passed_on_is_more_than_copies() {
    let root = Rank(0);
    let blocks = vec![
        vec![tb(0, vec![step(&[i(0)], &[o(0), r(1)])])],
        vec![tb(0, vec![step(&[r(0)], &[o(0), r(2)])])],
        vec![tb(0, vec![step(&[r(1)], &[o(0)])])],
    ];
    assert_eq!(copies(&out_of_place(Kind::Broadcast { root }, blocks)), None);
    let direct = vec![
        vec![tb(0, vec![step(&[i(0)], &[o(0), r(1), r(2)])])],
        vec![tb(0, vec![step(&[r(0)], &[o(0)])])],
        vec![tb(0, vec![step(&[r(0)], &[o(0)])])],
    ];
    let (found, _) = numbers(&out_of_place(Kind::Broadcast { root }, direct));
    assert_eq!(found, [[0, 0, 0, 0], [0, 0, 1, 0], [0, 0, 2, 0]]);
}

#[test]
fn what_was_written_and_is_read_again_is_more_than_copies() {
    let rank = |me: u32| {
        let peer = 1 - me;
        vec![
            tb(0, vec![step(&[i(0)], &[o(me)]), step(&[o(me)], &[r(peer)])]),
            tb(0, vec![step(&[r(peer)], &[o(peer)])]),
        ]
    };
    assert_eq!(copies(&out_of_place(Kind::AllGather, vec![rank(0), rank(1)])), None);
}

#[test]
fn sums_are_more_than_copies() {
    let rank = |me: u32| {
        let peer = 1 - me;
        let sum = step(&[r(peer), i(0)], &[o(0)]);
        vec![tb(0, vec![step(&[i(0)], &[r(peer)])]), tb(0, vec![sum])]
    };
    assert_eq!(copies(&out_of_place(Kind::AllReduce, vec![rank(0), rank(1)])), None);
}
