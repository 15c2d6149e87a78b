//! Which links may deliver directly: by hand, and against the definition.

#![deny(unsafe_code)]

mod definition;

use std::collections::BTreeMap;
use std::sync::Arc;

use definition::{Message, Order, messages};
use msccl_collective::{Buffer, Custom, Kind, Placement, Rank, Region, Slot};
use msccl_ir::{Algorithm, Place, StepRef, Target, ThreadBlock};
use msccl_testkit::Numbers;
use msccl_testkit::by_hand;
use msccl_testkit::by_hand::{StepExt, algorithm, i, o, r, step, t, tb};
use msccl_verify::{Delivery, DirectLink, Verified, verify};

const PULL: Delivery = Delivery::Pull { acknowledgement: false };
const ACKNOWLEDGED: Delivery = Delivery::Pull { acknowledgement: true };

#[track_caller]
fn direct(algorithm: &Algorithm) -> Vec<DirectLink> {
    match verify(algorithm.clone(), &Target::native()) {
        Ok(proved) => proved.direct_links(),
        Err(refusal) => panic!("{refusal}"),
    }
}

/// How the link between two ranks on channel 0 may deliver.
#[track_caller]
fn between(algorithm: &Algorithm, from: u32, to: u32) -> Delivery {
    let links = direct(algorithm);
    let mut found = links.iter().filter(|it| (it.from, it.to) == (Rank(from), Rank(to)));
    found.next().map_or(Delivery::Staged, |link| link.delivery)
}

fn out_of_place(algorithm: Algorithm) -> Algorithm {
    Algorithm { placement: Placement::OutOfPlace, ..algorithm }
}

/// A sum over two ranks: the steps of the only thread block of each, given its peer.
fn sum(steps: impl Fn(u32) -> Vec<msccl_ir::Step>) -> Algorithm {
    algorithm(Kind::AllReduce, 1, vec![vec![tb(0, steps(1))], vec![tb(0, steps(0))]])
}

/// The rank of each chunk adds it up and hands it out, in place, each chunk on a channel of its
/// own.
fn two_shot(ranks: u32) -> Algorithm {
    let block = |rank: u32, chunk: u32| -> ThreadBlock {
        let peers = || (0..ranks).filter(move |peer| *peer != chunk).map(r);
        let steps = if rank == chunk {
            let sources: Vec<_> = [i(chunk)].into_iter().chain(peers()).collect();
            let destinations: Vec<_> = [i(chunk)].into_iter().chain(peers()).collect();
            vec![step(&sources, &destinations)]
        } else {
            vec![step(&[i(chunk)], &[r(chunk)]), step(&[r(chunk)], &[i(chunk)])]
        };
        tb(chunk, steps)
    };
    let rank = |rank| (0..ranks).map(|chunk| block(rank, chunk)).collect();
    let two_shot = algorithm(Kind::AllReduce, ranks, (0..ranks).map(rank).collect());
    Algorithm { placement: Placement::InPlace, ..two_shot }
}

#[test]
fn the_first_shot_is_pulled_and_the_second_pushed_over_it() {
    for ranks in [2, 3, 4, 8] {
        let links = direct(&two_shot(ranks));
        assert_eq!(links.len() as u32, 2 * ranks * (ranks - 1));
        for link in links {
            let adds = link.channel.0 == link.to.0;
            assert_eq!(link.delivery, if adds { PULL } else { Delivery::Push }, "{link:?}");
            let chunk = Slot::new(Buffer::Input, link.channel.0);
            assert_eq!(link.messages.len(), 1);
            assert_eq!(link.messages[0].region, chunk.run(1));
        }
    }
}

#[test]
fn what_is_only_copied_is_pushed() {
    let block = |rank: u32| match rank {
        0 => tb(0, vec![step(&[i(0)], &[r(1)]), step(&[i(0)], &[o(0)])]),
        1 => tb(0, vec![step(&[r(0)], &[o(0), r(2)])]),
        _ => tb(0, vec![step(&[r(1)], &[o(0)])]),
    };
    let root = Rank(0);
    let chain = algorithm(Kind::Broadcast { root }, 1, (0..3).map(|k| vec![block(k)]).collect());
    let chain = out_of_place(chain);
    assert_eq!((between(&chain, 0, 1), between(&chain, 1, 2)), (Delivery::Push, Delivery::Push));
}

#[test]
fn scratch_is_staged() {
    let through_scratch = out_of_place(sum(|peer| {
        vec![
            step(&[i(0)], &[t(0)]),
            step(&[t(0)], &[r(peer)]),
            step(&[r(peer)], &[t(1)]),
            step(&[t(0), t(1)], &[o(0)]),
        ]
    }));
    assert_eq!(direct(&through_scratch), []);
}

#[test]
fn a_sender_that_learns_nothing_needs_an_ack() {
    let one_way =
        out_of_place(sum(|peer| vec![step(&[i(0)], &[r(peer)]), step(&[r(peer), i(0)], &[o(0)])]));
    assert_eq!(between(&one_way, 0, 1), ACKNOWLEDGED);
}

/// Two ranks add what they have in place; the second answers what it got before it adds, or does
/// not.
fn answered(answers: bool) -> Algorithm {
    let rank = |own: u32| {
        let (send, take) = (step(&[i(0)], &[r(1 - own)]), step(&[r(1 - own), i(0)], &[i(0)]));
        let steps = match (own, answers) {
            (0, true) => vec![send, take],
            (0, false) => vec![step(&[r(1)], &[t(0)]), send, step(&[t(0), i(0)], &[i(0)])],
            (_, true) => vec![step(&[r(0)], &[t(0)]), send, step(&[t(0), i(0)], &[i(0)])],
            (_, false) => vec![send, step(&[r(0)], &[t(0)]), step(&[t(0), i(0)], &[i(0)])],
        };
        vec![tb(0, steps)]
    };
    algorithm(Kind::AllReduce, 1, vec![rank(0), rank(1)])
}

#[test]
fn what_may_be_overwritten_too_soon_is_not_pulled() {
    assert_eq!(between(&answered(true), 0, 1), PULL);
    assert_eq!(between(&answered(false), 0, 1), Delivery::Staged);
}

#[test]
fn a_place_in_use_is_not_pushed_to() {
    // The output holds something else until the message comes; the sender may know that it is done.
    let used_before = |has_ack: bool| {
        let first = step(&[i(0)], &[o(0)]).times(2);
        let receive_ack = has_ack.then(|| step(&[r(1)], &[t(0)]));
        let sends = [step(&[i(0)], &[r(1)]), step(&[i(1)], &[r(1)])];
        let sender = [first].into_iter().chain(receive_ack).chain(sends).collect();
        let busy = vec![step(&[i(0)], &[o(0)]), step(&[o(0)], &[t(0)])];
        let send_ack = has_ack.then(|| step(&[t(0)], &[r(0)]));
        let takes = [step(&[r(0)], &[o(0)]), step(&[r(0)], &[o(1)])];
        let receiver = busy.into_iter().chain(send_ack).chain(takes).collect();
        let custom = Custom {
            name: "used_before".to_owned(),
            input_chunks: 2,
            output_chunks: 2,
            contract: None,
        };
        let ranks = vec![vec![tb(0, sender)], vec![tb(0, receiver)]];
        out_of_place(algorithm(Kind::Custom(Arc::new(custom)), 2, ranks))
    };
    assert_eq!(between(&used_before(true), 0, 1), Delivery::Push);
    // The place is busy, but the message may stay where it lies: nobody writes the input.
    assert_eq!(between(&used_before(false), 0, 1), ACKNOWLEDGED);
}

#[test]
fn a_store_does_not_overtake_a_load_of_another_link() {
    // Rank 1 loads rank 0's chunk and stores another there. In one step that is in order; where
    // rank 2 loads and rank 1 does not know, one of the two must be staged.
    let custom = |ranks: Vec<Vec<ThreadBlock>>| {
        let custom =
            Custom { name: "swap".to_owned(), input_chunks: 1, output_chunks: 1, contract: None };
        out_of_place(algorithm(Kind::Custom(Arc::new(custom)), 1, ranks))
    };
    let knows = |knows: bool| {
        let first = step(&[i(0)], &[o(0)]);
        let zero = vec![
            tb(0, vec![first.clone(), step(&[o(0)], &[r(2)])]),
            tb(1, vec![step(&[r(1)], &[o(0)]).after(0, 1)]),
        ];
        let one = if knows {
            vec![tb(1, vec![step(&[r(2)], &[o(0)]), step(&[o(0)], &[r(0)])])]
        } else {
            vec![tb(1, vec![first.clone(), step(&[o(0)], &[r(0)])])]
        };
        let has_ack = knows.then(|| tb(1, vec![step(&[o(0)], &[r(1)]).after(0, 0)]));
        let two = [tb(0, vec![step(&[r(0), i(0)], &[o(0)])])].into_iter().chain(has_ack).collect();
        custom(vec![zero, one, two])
    };
    let known = knows(true);
    assert!(matches!(between(&known, 0, 2), Delivery::Pull { .. }));
    assert_eq!(between(&known, 1, 0), Delivery::Push);
    let unknown = knows(false);
    assert!(
        !matches!(
            (between(&unknown, 0, 2), between(&unknown, 1, 0)),
            (Delivery::Pull { .. }, Delivery::Push)
        ),
        "{:?}",
        direct(&unknown)
    );
}

#[test]
fn a_short_place_does_not_stand_for_a_whole_message() {
    // The receiver keeps a message in a later chunk of the block than the one it makes of it. That
    // serves any count, since what is lost in the later chunk is in the message still.
    let copies = |kept: u32, made: u32| {
        let root = Rank(0);
        let zero = vec![tb(
            0,
            vec![step(&[i(0)], &[r(1)]), step(&[i(1)], &[r(1)]), step(&[i(0)], &[o(0)]).times(2)],
        )];
        let first = step(&[r(0)], &[o(kept), o(made)]);
        let second = step(&[r(0)], &[o(1)]);
        algorithm(Kind::Broadcast { root }, 2, vec![zero, vec![tb(0, vec![first, second])]])
    };
    let longer = out_of_place(copies(1, 0));
    let proved = verify(longer.clone(), &Target::native()).unwrap();
    assert!(proved.facts().serves_any_count);
    assert_ne!(between(&longer, 0, 1), Delivery::Push);
    // The other way round nothing is lost; but the place is written twice.
    assert_ne!(between(&out_of_place(copies(0, 1)), 0, 1), Delivery::Staged);
}

/// Three ranks of two thread blocks each that exchange messages in one order of all, so that they
/// end; some race.
fn scattered(seed: u64) -> Algorithm {
    let mut numbers = Numbers(seed);
    let mut ranks = vec![vec![vec![step(&[i(0)], &[o(0)]).times(2)], vec![by_hand::nop(0, 0)]]; 3];
    let owner = |rank: u32, peer: u32| ((rank + peer + seed as u32 % 2) % 2) as usize;
    for _ in 0..3 + numbers.below_u32(10) {
        let from = numbers.below_u32(3);
        let to = (from + 1 + numbers.below_u32(2)) % 3;
        let mut place = |most: u32| match numbers.below_u32(most) {
            0 | 1 => o(numbers.below_u32(2)),
            2 => i(0),
            _ => t(0),
        };
        let (source, place) = (place(3), place(2));
        let adds = numbers.below_u32(3) == 0;
        let take =
            if adds { step(&[r(from), place], &[place]) } else { step(&[r(from)], &[place]) };
        for (rank, peer, code) in [(from, to, step(&[source], &[r(to)])), (to, from, take)] {
            let blocks: &mut Vec<Vec<_>> = &mut ranks[rank as usize];
            let block = owner(rank, peer);
            let others = blocks[1 - block].len() as u32;
            let waits = numbers.below_u32(4) > 0;
            let code = if waits { code.after(1 - block as u32, others - 1) } else { code };
            blocks[block].push(code);
        }
    }
    let ranks =
        ranks.into_iter().map(|blocks| blocks.into_iter().map(|steps| tb(0, steps)).collect());
    let name = "scattered".to_owned();
    let custom = Custom { name, input_chunks: 2, output_chunks: 2, contract: None };
    out_of_place(algorithm(Kind::Custom(Arc::new(custom)), 1, ranks.collect()))
}

/// An access of a region of some rank: by which step as proved, by which in truth.
struct Access {
    rank: Rank,
    region: Region,
    writes: bool,
    proved: StepRef,
    actor: StepRef,
}

/// All accesses when `links` deliver directly.
fn accesses(algorithm: &Algorithm, links: &[DirectLink]) -> Vec<Access> {
    let mut all = Vec::new();
    for (rank, tb, block) in algorithm.thread_blocks() {
        for (at, step) in block.steps.iter().enumerate() {
            let proved = StepRef { rank, tb, step: at.into() };
            let local = |region, writes| Access { rank, region, writes, proved, actor: proved };
            all.extend(step.reads().map(|region| local(region, false)));
            all.extend(step.writes().map(|region| local(region, true)));
        }
    }
    for link in links {
        for message in &link.messages {
            let (send, receive, region) = (message.send, message.receive, message.region);
            match link.delivery {
                Delivery::Push => {
                    let store = all
                        .iter_mut()
                        .find(|it| it.proved == receive && it.writes)
                        .expect("a store");
                    assert_eq!((store.rank, store.region), (link.to, region));
                    store.actor = send;
                }
                // The sender may read it as well, or may not.
                Delivery::Pull { .. } => {
                    let (rank, writes) = (link.from, false);
                    all.push(Access { rank, region, writes, proved: send, actor: receive });
                }
                Delivery::Staged => panic!("{link:?}"),
            }
        }
    }
    all
}

/// Whether accesses of one cell that conflict keep their order. One step loads before it stores.
fn keeps_order(algorithm: &Algorithm, order: &Order, links: &[DirectLink]) -> bool {
    let all = accesses(algorithm, links);
    all.iter().all(|x| {
        all.iter().all(|y| {
            let conflict =
                x.rank == y.rank && (x.writes || y.writes) && x.region.overlaps(y.region);
            let was_before = order.is_before(x.proved, y.proved);
            let loads_first = x.actor == y.actor && !x.writes && y.writes;
            !conflict || !was_before || order.is_before(x.actor, y.actor) || loads_first
        })
    })
}

#[test]
fn direct_links_of_scattered_messages_keep_the_order_of_all_accesses() {
    let mut kinds = BTreeMap::new();
    for seed in 0..8000 {
        let scattered = scattered(seed);
        let Ok(verified) = verify(scattered.clone(), &Target::native()) else { continue };
        let links = verified.direct_links();
        let order = Order::of(&scattered, &messages(&scattered));
        let text = || msccl_ir::text::print(&scattered);
        assert!(keeps_order(&scattered, &order, &links), "{seed}: {links:?} of {}", text());
        for link in &links {
            *kinds.entry(format!("{:?}", link.delivery)).or_insert(0) += 1;
            let Delivery::Pull { acknowledgement } = link.delivery else { continue };
            let last = link.messages.last().unwrap().receive;
            let mut of_sender = order.of_rank(link.from);
            assert_eq!(
                acknowledgement,
                !of_sender.any(|at| order.is_before(last, at)),
                "{}",
                text()
            );
        }
        // A link that could do by itself what it does not must be in somebody's way.
        for (from, to) in [(0, 1), (0, 2), (1, 0), (1, 2), (2, 0), (2, 1)] {
            let staged = !links.iter().any(|it| (it.from, it.to) == (Rank(from), Rank(to)));
            *kinds.entry(format!("staged {staged}")).or_insert(0) += 1;
        }
    }
    assert!(kinds.len() == 5 && kinds.values().all(|&count| count > 50), "{kinds:#?}");
}

#[test]
fn the_definition_refuses_what_breaks_an_order() {
    // A check of the check: everything pushed that could be, whatever the order.
    let mut refused = 0;
    for seed in 0..3000 {
        let scattered = scattered(seed);
        if verify(scattered.clone(), &Target::native()).is_err() {
            continue;
        }
        let all = messages(&scattered);
        let order = Order::of(&scattered, &all);
        let pushed = all.iter().filter_map(|&Message { link: _, send, receive }| {
            let Place::Local(to) = scattered.step(receive).destinations[0] else { return None };
            let only = scattered.step(receive).sources.len() == 1;
            let message = msccl_verify::DirectMessage { send, receive, region: to.run(1) };
            only.then(|| DirectLink {
                from: send.rank,
                to: receive.rank,
                channel: msccl_collective::Channel(0),
                delivery: Delivery::Push,
                messages: vec![message],
            })
        });
        let pushed: Vec<_> = pushed.collect();
        refused += usize::from(!keeps_order(&scattered, &order, &pushed));
    }
    assert!(refused > 50, "{refused}");
}

/// All pairs exchange blocks: from the input to the output, or within the output, where what comes
/// waits until what was there has left. A block is a step of `chunks` chunks.
fn all_to_all(ranks: u32, chunks: u32, placement: Placement) -> Algorithm {
    let step = |sources: &[Place], destinations: &[Place]| msccl_ir::Step {
        count: chunks,
        ..step(sources, destinations)
    };
    let (i, o) = (|peer| i(peer * chunks), |peer| o(peer * chunks));
    let place = |peer| if placement == Placement::InPlace { o(peer) } else { i(peer) };
    let rank = |rank: u32| {
        let peers = || (0..ranks).filter(move |peer| *peer != rank);
        let sends = peers().map(|peer| tb(0, vec![step(&[place(peer)], &[r(peer)])]));
        let receives = (0..).zip(peers()).map(|(sender, peer)| {
            let receive = step(&[r(peer)], &[o(peer)]);
            let waits = placement == Placement::InPlace;
            tb(0, vec![if waits { receive.after(sender, 0) } else { receive }])
        });
        let own = tb(0, vec![step(&[i(rank)], &[o(rank)])]);
        let own = (placement == Placement::OutOfPlace).then_some(own);
        sends.chain(receives).chain(own).collect()
    };
    let all = algorithm(Kind::AllToAll, chunks, (0..ranks).map(rank).collect());
    Algorithm { placement, ..all }
}

fn proved(algorithm: Algorithm) -> Verified {
    verify(algorithm, &Target::native()).unwrap_or_else(|refusal| panic!("{refusal}"))
}

#[test]
fn ranks_in_place_push_to_ranks_out_of_place() {
    for ranks in [2, 3, 4] {
        let own = proved(all_to_all(ranks, 1, Placement::InPlace));
        let peers = proved(all_to_all(ranks, 1, Placement::OutOfPlace));
        assert_eq!(own.direct_links(), []);
        let links = own.direct_links_beside(&peers).unwrap();
        assert_eq!(links.len() as u32, ranks * (ranks - 1));
        for (link, alone) in links.iter().zip(peers.direct_links()) {
            let DirectLink { from, to, channel, delivery, ref messages } = *link;
            assert_eq!(
                (from, to, channel, delivery),
                (alone.from, alone.to, alone.channel, Delivery::Push)
            );
            assert_eq!(messages.len(), 1);
            assert_eq!(messages[0].region, Slot::new(Buffer::Output, from.0).run(1));
            assert_eq!((messages[0].send.rank, messages[0].receive.rank), (from, to));
            // Each sends and receives in steps of its own program.
            let own_step = |at: StepRef| {
                let block = &own.algorithm().ranks[at.rank.index()].thread_blocks[at.tb.index()];
                block.steps[at.step.index()].clone()
            };
            assert!(own_step(messages[0].send).destinations.contains(&r(to.0)));
            assert!(own_step(messages[0].receive).sources.contains(&r(from.0)));
        }
    }
}

#[test]
fn only_ranks_that_nothing_else_is_stored_to_are_pushed_to() {
    let own = proved(all_to_all(2, 1, Placement::InPlace));
    let beside = |peers: Algorithm| own.direct_links_beside(&proved(peers));
    let peers = all_to_all(2, 1, Placement::OutOfPlace);
    assert!(beside(peers.clone()).is_some());
    // In place, whoever sends reads what is stored.
    assert_eq!(beside(all_to_all(2, 1, Placement::InPlace)), None);
    // Another step touches the region: it fills it before the message comes.
    let mut touched = peers.clone();
    touched.ranks[0].thread_blocks[1].steps.insert(0, step(&[i(0)], &[o(1)]));
    assert_eq!(beside(touched), None);
    // The receiving step reads the region again.
    let mut read = peers.clone();
    read.ranks[0].thread_blocks[1].steps[0].destinations.push(t(0));
    read.ranks[0].scratch_chunks = 1;
    assert_eq!(beside(read), None);
    // Other messages.
    assert_eq!(beside(all_to_all(2, 2, Placement::OutOfPlace)), None);
}
