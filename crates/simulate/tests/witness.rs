//! Witnesses on good algorithms, on spoiled ones, and against the verifier.

#![deny(unsafe_code)]
#![allow(clippy::unwrap_used)] // Clippy knows test functions, not what they call.

use msccl_ir::{Algorithm, Place, Target};
use msccl_simulate::{Ending, Setting, exhaustive, random_run};
use msccl_testkit::by_hand::{o, r, step};
use msccl_testkit::collectives;
use msccl_verify::verify;

const SETTING: Setting = Setting { depth: 4, chunks_per_message: 8, in_place: true, rounds: 2 };

/// Most states of one search in these tests.
const BOUND: usize = 20_000;

fn endings(algorithm: &Algorithm, setting: Setting) -> Vec<Ending> {
    (0..20).map(|seed| random_run(algorithm, setting, seed).unwrap()).collect()
}

#[test]
fn good_algorithms_end_right_in_every_order() {
    for algorithm in collectives::all() {
        for in_place in [true, false] {
            let setting = Setting { in_place, ..SETTING };
            let endings = endings(&algorithm, setting);
            assert!(endings.iter().all(|ending| *ending == Ending::Right), "{endings:?}");
        }
    }
}

#[test]
fn small_algorithms_are_explored_completely() {
    for algorithm in [collectives::through_scratch(1), collectives::one_shot(2, 1)] {
        let explored = exhaustive(&algorithm, SETTING, BOUND).unwrap();
        assert!(explored.is_right() && explored.states > 10, "{explored:?}");
    }
}

#[test]
fn a_dropped_wait_is_seen_by_both_witnesses() {
    let mut algorithm = collectives::through_scratch(1);
    algorithm.ranks[0].thread_blocks[1].steps[0].waits.clear();
    let setting = Setting { rounds: 1, ..SETTING };
    let explored = exhaustive(&algorithm, setting, BOUND).unwrap();
    assert!(explored.complete && !explored.stalls && !explored.wrong.is_empty(), "{explored:?}");
    let endings = endings(&algorithm, setting);
    assert!(endings.iter().any(|ending| matches!(ending, Ending::Wrong(_))), "{endings:?}");
    assert!(endings.contains(&Ending::Right), "{endings:?}");
}

#[test]
fn a_link_too_shallow_stalls_in_every_order() {
    let setting = Setting { depth: 1, chunks_per_message: 1, ..SETTING };
    let algorithm = collectives::ring(3, 2);
    let endings = endings(&algorithm, setting);
    assert!(endings.iter().all(|ending| matches!(ending, Ending::Stalled(_))), "{endings:?}");
    let explored = exhaustive(&algorithm, setting, BOUND).unwrap();
    assert!(explored.stalls && explored.wrong.is_empty(), "{explored:?}");
}

#[test]
fn messages_left_behind_are_counted() {
    let mut algorithm = collectives::all_gather(2, 1);
    let unread = algorithm.ranks[0].thread_blocks[0].steps.remove(1);
    // Somebody must own the link's end, so the receive stays, in the last place, for rank 1 alone.
    algorithm.ranks[1].thread_blocks[0].steps.push(step(&[o(1)], &[r(0)]));
    algorithm.ranks[0].thread_blocks[0].steps.push(unread);
    let setting = Setting { rounds: 1, in_place: false, ..SETTING };
    assert_eq!(random_run(&algorithm, setting, 1), Ok(Ending::Leftover(1)));
    assert!(exhaustive(&algorithm, setting, BOUND).unwrap().leaves_messages);
}

#[test]
fn malformed_algorithms_are_refused() {
    let mut algorithm = collectives::ring(3, 1);
    algorithm.ranks[1].thread_blocks[0].receives.clear();
    assert!(random_run(&algorithm, SETTING, 0).is_err());
    assert!(exhaustive(&algorithm, SETTING, BOUND).is_err());
}

/// Every algorithm that differs from `good` by one small fault.
fn spoiled(good: &Algorithm) -> Vec<Algorithm> {
    let mut all = Vec::new();
    for (rank, tb) in good.thread_blocks().map(|(rank, tb, _)| (rank.index(), tb.index())) {
        for step in 0..good.ranks[rank].thread_blocks[tb].steps.len() {
            let mut push = |spoil: &dyn Fn(&mut Vec<msccl_ir::Step>)| {
                let mut algorithm = good.clone();
                spoil(&mut algorithm.ranks[rank].thread_blocks[tb].steps);
                all.push(algorithm);
            };
            push(&|steps| steps[step].waits.clear());
            push(&|steps| drop(steps.remove(step)));
            push(&|steps| steps.rotate_left(step));
            push(&|steps| steps.insert(step, steps[step].clone()));
            push(&|steps| shift(&mut steps[step].sources));
            push(&|steps| shift(&mut steps[step].destinations));
            push(&|steps| steps[step].sources.truncate(1));
            push(&|steps| steps[step].sources.reverse());
        }
    }
    all
}

fn shift(places: &mut msccl_ir::Operands) {
    for place in places {
        if let Place::Local(slot) = place {
            slot.index = slot.index.saturating_sub(1);
        }
    }
}

#[test]
fn proved_algorithms_end_right_in_every_order() {
    let good = [
        collectives::through_scratch(1),
        collectives::one_shot(2, 2),
        collectives::ring(3, 1),
        collectives::all_gather(2, 2),
        collectives::reduce_scatter(2, 2),
        collectives::all_to_all(2, 1),
        collectives::add_neighbour(3, 1),
    ];
    let (mut proved, mut refused) = (0, 0);
    for algorithm in good.iter().flat_map(|good| [vec![good.clone()], spoiled(good)].concat()) {
        let Ok(verified) = verify(algorithm, &Target::native()) else {
            refused += 1;
            continue;
        };
        proved += 1;
        for in_place in [true, false] {
            let setting = Setting { in_place, ..SETTING };
            let explored = exhaustive(verified.algorithm(), setting, BOUND).unwrap();
            let bad = explored.stalls || !explored.wrong.is_empty() || explored.leaves_messages;
            assert!(!bad, "{:#?}\n{explored:?}", verified.algorithm());
        }
    }
    assert!(proved > 20 && refused > 100, "{proved} proved, {refused} refused");
}
