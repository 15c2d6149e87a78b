//! What a realisation may leave out on a link: by hand, and against a second method.

#![deny(unsafe_code)]

mod definition;

use std::convert::Infallible;
use std::sync::Arc;

use definition::{Message, Order, messages};
use msccl_collective::{Custom, Kind, Placement, Rank, StepIndex};
use msccl_ir::{Algorithm, Place, StepRef, Target, ThreadBlock};
use msccl_machine::{Messages, Outcome, Wiring, latest_ready, run};
use msccl_testkit::Numbers;
use msccl_testkit::by_hand;
use msccl_testkit::by_hand::{StepExt, algorithm, i, o, r, step, t, tb};
use msccl_testkit::families;
use msccl_verify::{DirectRead, DirectWrite, LinkFacts, verify};

#[track_caller]
fn facts(algorithm: &Algorithm) -> Vec<LinkFacts> {
    match verify(algorithm.clone(), &Target::native()) {
        Ok(proved) => proved.link_facts(),
        Err(refusal) => panic!("{refusal}"),
    }
}

/// The facts of the links from `from`, in order.
#[track_caller]
fn of_rank(algorithm: &Algorithm, from: u32) -> Vec<LinkFacts> {
    facts(algorithm).into_iter().filter(|link| link.from == Rank(from)).collect()
}

fn broadcast_chain(ranks: u32) -> Algorithm {
    let block = |rank: u32| match rank {
        0 => tb(0, vec![step(&[i(0)], &[r(1)]), step(&[i(0)], &[o(0)])]),
        _ if rank + 1 < ranks => tb(0, vec![step(&[r(rank - 1)], &[o(0), r(rank + 1)])]),
        _ => tb(0, vec![step(&[r(rank - 1)], &[o(0)])]),
    };
    let root = Rank(0);
    let chain =
        algorithm(Kind::Broadcast { root }, 1, (0..ranks).map(|k| vec![block(k)]).collect());
    Algorithm { placement: Placement::OutOfPlace, ..chain }
}

/// Two ranks exchange their only chunk; the sums are formed by `last`.
fn exchange(steps: impl Fn(u32) -> Vec<ThreadBlock>) -> Algorithm {
    let exchange = algorithm(Kind::AllReduce, 1, vec![steps(1), steps(0)]);
    Algorithm { placement: Placement::OutOfPlace, ..exchange }
}

#[test]
fn a_ring_holds_its_senders_back() {
    for ranks in [2, 3, 4, 8] {
        for link in facts(&families::ring(ranks, 1)) {
            assert_eq!(link.messages, 2 * ranks - 2);
            assert_eq!(link.messages_ahead_max, Some(ranks), "{link:?}");
        }
    }
}

#[test]
fn nothing_holds_the_root_of_a_chain_back() {
    for link in facts(&broadcast_chain(4)) {
        assert_eq!((link.messages, link.messages_ahead_max), (1, None), "{link:?}");
    }
}

#[test]
fn an_answer_in_another_block_holds_nobody_back() {
    // One block sends and another receives: nothing but the end of a call joins them.
    let apart = exchange(|peer| {
        vec![tb(0, vec![step(&[i(0)], &[r(peer)])]), tb(0, vec![step(&[r(peer), i(0)], &[o(0)])])]
    });
    assert!(facts(&apart).iter().all(|link| link.messages_ahead_max.is_none()));
    let joined = exchange(|peer| {
        vec![
            tb(0, vec![step(&[i(0)], &[r(peer)]), by_hand::nop(1, 0)]),
            tb(0, vec![step(&[r(peer), i(0)], &[o(0)])]),
        ]
    });
    assert!(facts(&joined).iter().all(|link| link.messages_ahead_max == Some(2)));
}

#[test]
fn a_chain_writes_straight_to_the_output() {
    for link in facts(&broadcast_chain(3)) {
        let free = DirectWrite { untouched: true, ordered: true, credits: u32::MAX };
        assert_eq!(link.direct_write, Some(free));
    }
}

#[test]
fn sums_have_no_place_of_their_own() {
    let summed = exchange(|peer| {
        vec![tb(0, vec![step(&[i(0)], &[r(peer)]), step(&[r(peer), i(0)], &[o(0)])])]
    });
    for link in facts(&summed) {
        assert_eq!(link.direct_write, None);
        assert_eq!(link.direct_read, Some(DirectRead { kept: true, taken_by_end: false }));
    }
}

#[test]
fn a_place_used_before_is_free_when_the_algorithm_says_so() {
    // Scratch holds the first message until it is used; the second comes to the same place.
    let twice = |acknowledged: bool| {
        let rank = |rank: u32| {
            let steps = match (rank, acknowledged) {
                (0, false) => vec![step(&[i(0)], &[r(1)]), step(&[i(1)], &[r(1)])],
                (0, true) => {
                    let wait = step(&[r(1)], &[t(0)]);
                    vec![step(&[i(0)], &[r(1)]), wait, step(&[i(1)], &[r(1)])]
                }
                _ => {
                    let mut steps = vec![step(&[r(0)], &[t(0)]), step(&[t(0)], &[o(0)])];
                    steps.extend(acknowledged.then(|| step(&[o(0)], &[r(0)])));
                    steps.extend([step(&[r(0)], &[t(0)]), step(&[t(0)], &[o(1)])]);
                    steps
                }
            };
            let copy = step(&[i(0)], &[o(0)]).times(2);
            vec![tb(0, steps.into_iter().chain((rank == 0).then_some(copy)).collect())]
        };
        let root = Rank(0);
        let twice = algorithm(Kind::Broadcast { root }, 2, (0..2).map(rank).collect());
        of_rank(&Algorithm { placement: Placement::OutOfPlace, ..twice }, 0)[0].direct_write
    };
    let used = DirectWrite { untouched: false, ordered: false, credits: 0 };
    assert_eq!(twice(false), Some(used), "the first is used after its acknowledgement");
    assert_eq!(twice(true), Some(DirectWrite { ordered: true, ..used }));
}

#[test]
fn credits_free_what_was_used_before_an_earlier_message() {
    // Places 0, 1, 0, 1: what touches a place has ended before the last acknowledgement but one.
    let root = Rank(0);
    let send = |chunk| step(&[i(chunk)], &[r(1)]);
    let take = |chunk: u32| step(&[r(0)], &[t(chunk % 2)]);
    let copy = |chunk: u32| step(&[t(chunk % 2)], &[o(chunk)]);
    let sender = (0..4).map(send).chain([step(&[i(0)], &[o(0)]).times(4)]);
    let receiver = (0..4).flat_map(|chunk| [take(chunk), copy(chunk)]);
    let ranks = vec![vec![tb(0, sender.collect())], vec![tb(0, receiver.collect())]];
    let alternating = algorithm(Kind::Broadcast { root }, 4, ranks);
    let alternating = Algorithm { placement: Placement::OutOfPlace, ..alternating };
    let found = of_rank(&alternating, 0)[0].direct_write;
    assert_eq!(found, Some(DirectWrite { untouched: false, ordered: false, credits: 1 }));
}

#[test]
fn a_ring_writes_straight_in_its_second_half_only() {
    // The first half adds, so the link as a whole cannot; an all-gather can.
    assert!(facts(&families::ring(4, 1)).iter().all(|link| link.direct_write.is_none()));
}

#[test]
fn what_is_overwritten_must_have_been_taken() {
    // Rank 0 sends its chunk and puts the sum there. The sum comes after the answer, or before.
    let answer_first = |answered: bool| {
        let rank = |own: u32| {
            let steps = match (own, answered) {
                (0, true) => {
                    let send = step(&[i(0)], &[r(1)]);
                    vec![send, step(&[r(1)], &[t(0)]), step(&[t(0), i(0)], &[i(0)])]
                }
                (0, false) => {
                    let send = step(&[i(0)], &[r(1)]);
                    vec![step(&[r(1)], &[t(0)]), send, step(&[t(0), i(0)], &[i(0)])]
                }
                (_, true) => {
                    let take = step(&[r(0)], &[t(0)]);
                    vec![take, step(&[i(0)], &[r(0)]), step(&[t(0), i(0)], &[i(0)])]
                }
                (_, false) => {
                    let take = step(&[r(0)], &[t(0)]);
                    vec![step(&[i(0)], &[r(0)]), take, step(&[t(0), i(0)], &[i(0)])]
                }
            };
            vec![tb(0, steps)]
        };
        of_rank(&algorithm(Kind::AllReduce, 1, vec![rank(0), rank(1)]), 0)[0].direct_read
    };
    assert_eq!(answer_first(true), Some(DirectRead { kept: true, taken_by_end: true }));
    assert_eq!(answer_first(false), Some(DirectRead { kept: false, taken_by_end: false }));
}

/// `rounds` executions, one after the other.
fn unrolled(algorithm: &Algorithm, rounds: u32) -> Algorithm {
    let mut unrolled = algorithm.clone();
    for (program, once) in unrolled.ranks.iter_mut().zip(&algorithm.ranks) {
        for (block, once_block) in program.thread_blocks.iter_mut().zip(&once.thread_blocks) {
            block.steps.clear();
            for round in 0..rounds {
                block.steps.extend(once_block.steps.iter().map(|step| {
                    let mut step = step.clone();
                    for wait in &mut step.waits {
                        let steps = once.thread_blocks[wait.tb.index()].steps.len() as u32;
                        wait.step = StepIndex(wait.step.0 + round * steps);
                    }
                    step
                }));
            }
        }
    }
    unrolled
}

/// Messages that `link` carries in all when its receiver stops before acknowledgement number
/// `acknowledgement` and nothing limits links.
fn sent_when_stopped(algorithm: &Algorithm, link: usize, acknowledgement: usize) -> usize {
    let wiring = Wiring::new(algorithm).expect("validated");
    let ends = wiring.links()[link];
    let (from, to) = (wiring.rank(ends.sender), wiring.rank(ends.receiver));
    let receiver = wiring.tb_index(ends.receiver);
    let steps = &wiring.block(ends.receiver).steps;
    let receives = |at: &u32| steps[*at as usize].receives().any(|peer| peer == from);
    let at =
        (0..steps.len() as u32).filter(receives).nth(acknowledgement).expect("a acknowledgement");

    // The step waits for a new block, and that block for the step.
    let mut stopped = algorithm.clone();
    let blocks = &mut stopped.ranks[to.index()].thread_blocks;
    let never = blocks.len() as u32;
    let step = &mut blocks[receiver.index()].steps[at as usize];
    *step = step.clone().after(never, 0);
    blocks.push(tb(0, vec![by_hand::nop(receiver.0, at)]));

    let wiring = Wiring::new(&stopped).expect("validated");
    let sender =
        wiring.tb_id(from, Wiring::new(algorithm).expect("validated").tb_index(ends.sender));
    let messages = Messages { chunks_per_message: u32::MAX, depth: u32::MAX };
    let mut sent = 0;
    let outcome = run(&wiring, messages, latest_ready, |piece| {
        let step = &wiring.block(piece.tb).steps[piece.step as usize];
        sent += usize::from(piece.tb == sender && step.sends().any(|peer| peer == to));
        Ok::<_, Infallible>(())
    });
    assert!(matches!(outcome, Ok(Outcome::Stalled(_))));
    sent
}

/// Holds `messages_ahead_max` of every link against runs in which receivers stop.
fn check_ahead(algorithm: &Algorithm) {
    const ROUNDS: u32 = 7;
    let many = unrolled(algorithm, ROUNDS);
    for (index, link) in facts(algorithm).into_iter().enumerate() {
        let a_round = link.messages as usize;
        let ahead =
            |acknowledgement| sent_when_stopped(&many, index, acknowledgement) - acknowledgement;
        let most = (0..3 * a_round).map(ahead).max().unwrap_or(0);
        match link.messages_ahead_max {
            Some(bound) => assert_eq!(most, bound as usize, "{link:?} of {algorithm:#?}"),
            None => assert!(most > 2 * a_round, "{most} ahead: {link:?} of {algorithm:#?}"),
        }
    }
}

#[test]
fn senders_come_as_far_ahead_as_stated() {
    for ranks in [2, 3, 4, 5] {
        check_ahead(&families::ring(ranks, 1));
        check_ahead(&families::ring(ranks, 2));
        check_ahead(&families::split_ring(ranks));
        check_ahead(&families::trusting_ring(ranks));
        check_ahead(&families::all_pairs(ranks));
        check_ahead(&broadcast_chain(ranks));
    }
    for ranks in [2, 4, 8] {
        check_ahead(&families::halving_doubling(ranks));
    }
    check_ahead(&families::out_of_place(families::ring(4, 1)));
}

/// Three ranks of two thread blocks each that exchange messages in one order of all, so that they
/// end; chunks lie in a little scratch, so that some race.
fn scattered(seed: u64) -> Algorithm {
    let mut numbers = Numbers(seed);
    let mut ranks = vec![vec![Vec::new(), Vec::new()]; 3];
    // A block owns the links from and to every second rank.
    let owner = |rank: u32, peer: u32| ((rank + peer + seed as u32 % 2) % 2) as usize;
    for _ in 0..4 + numbers.below_u32(12) {
        let from = numbers.below_u32(3);
        let to = (from + 1 + numbers.below_u32(2)) % 3;
        let source = if numbers.below_u32(2) == 0 { i(0) } else { o(numbers.below_u32(2)) };
        let place = if numbers.below_u32(2) == 0 {
            t(numbers.below_u32(2))
        } else {
            o(numbers.below_u32(2))
        };
        for (rank, peer, code) in
            [(from, to, step(&[source], &[r(to)])), (to, from, step(&[r(from)], &[place]))]
        {
            let blocks: &mut Vec<Vec<_>> = &mut ranks[rank as usize];
            let block = owner(rank, peer);
            let others = blocks[1 - block].len() as u32;
            let waits = others > 0 && numbers.below_u32(4) > 0;
            let code = if waits { code.after(1 - block as u32, others - 1) } else { code };
            blocks[block].push(code);
        }
    }
    let fill = step(&[i(0)], &[o(0)]).times(2);
    let ranks = ranks.into_iter().map(|blocks| {
        let [mut first, mut second] = <[Vec<_>; 2]>::try_from(blocks).expect("two blocks");
        for step in &mut second {
            step.waits.iter_mut().for_each(|wait| wait.step.0 += 1);
        }
        first.insert(0, fill.clone());
        second.insert(0, by_hand::nop(0, 0));
        first[1..].iter_mut().flat_map(|it| &mut it.waits).for_each(|wait| wait.step.0 += 1);
        vec![tb(0, first), tb(0, second)]
    });
    let name = "scattered".to_owned();
    let custom = Custom { name, input_chunks: 2, output_chunks: 2, contract: None };
    let scattered = algorithm(Kind::Custom(Arc::new(custom)), 1, ranks.collect());
    Algorithm { placement: Placement::OutOfPlace, ..scattered }
}

/// The facts on memory of every link, by definition, for steps of one chunk out of place.
fn direct_by_definition(algorithm: &Algorithm) -> Vec<(Option<DirectWrite>, Option<DirectRead>)> {
    let messages = messages(algorithm);
    let order = Order::of(algorithm, &messages);
    let links = Wiring::new(algorithm).expect("validated").links().len();
    let facts = |link: usize| {
        let carried: Vec<_> = messages.iter().filter(|it| it.link == link).copied().collect();
        let write = direct_write(algorithm, &order, &carried);
        (Some(write), Some(direct_read(algorithm, &order, &carried)))
    };
    (0..links).map(facts).collect()
}

/// What a sender may write straight into the places of the messages that a link has `carried`.
fn direct_write(algorithm: &Algorithm, order: &Order, carried: &[Message]) -> DirectWrite {
    let mut write = DirectWrite { untouched: true, ordered: true, credits: u32::MAX };
    for (k, &Message { link: _, send, receive }) in carried.iter().enumerate() {
        let Place::Local(to) = algorithm.step(receive).destinations[0] else { panic!() };
        let touches = |x: &StepRef| {
            let step = algorithm.step(*x);
            step.writes().chain(step.reads()).any(|region| region.overlaps(to.run(1)))
        };
        let earlier_users = order.of_rank(receive.rank).filter(touches);
        for x in earlier_users.filter(|x| order.is_before(*x, receive)) {
            write.untouched = false;
            write.ordered &= order.is_before(x, send);
            let ends_it = |it: &Message| it.receive == x || order.is_before(x, it.receive);
            let first = carried[..k].iter().position(ends_it).unwrap_or(k);
            let lag = (k - first) as u32;
            let lag = if x.tb == receive.tb { lag } else { lag.min(1) };
            write.credits = write.credits.min(lag);
        }
    }
    write
}

/// What a receiver may read straight from the places of the messages that a link has `carried`.
fn direct_read(algorithm: &Algorithm, order: &Order, carried: &[Message]) -> DirectRead {
    let mut read = DirectRead { kept: true, taken_by_end: true };
    for &Message { link: _, send, receive } in carried {
        let Place::Local(from) = algorithm.step(send).sources[0] else { panic!() };
        let overwrites = |x: &StepRef| {
            algorithm.step(*x).writes().any(|region| region.overlaps(from.run(1)))
                && order.is_before(send, *x)
        };
        let mut of_sender = order.of_rank(send.rank);
        read.taken_by_end &= of_sender.any(|x| order.is_before(receive, x));
        let mut later_writers = order.of_rank(send.rank).filter(overwrites);
        read.kept &= later_writers.all(|x| order.is_before(receive, x));
    }
    read
}

#[test]
fn the_facts_of_scattered_messages_are_those_of_the_definitions() {
    let (mut proved, mut kinds) = (0, std::collections::BTreeMap::new());
    for seed in 0..6000 {
        let scattered = scattered(seed);
        let Ok(verified) = verify(scattered.clone(), &Target::native()) else { continue };
        proved += 1;
        let expected = direct_by_definition(&scattered);
        for (link, expected) in verified.link_facts().into_iter().zip(expected) {
            let found = (link.direct_write, link.direct_read);
            assert_eq!(
                found,
                expected,
                "{seed}: {link:?} of {}",
                msccl_ir::text::print(&scattered)
            );
            let (write, read) = (link.direct_write.unwrap(), link.direct_read.unwrap());
            let kind = (write.untouched, write.ordered, write.credits.min(2), read.kept);
            *kinds
                .entry((kind, read.taken_by_end, link.messages_ahead_max.is_some()))
                .or_insert(0) += 1;
        }
        check_ahead(&scattered);
    }
    assert!(proved > 200 && kinds.len() > 12, "{proved} proved: {kinds:#?}");
}
