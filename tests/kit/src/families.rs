//! Families of right algorithms, of any number of ranks, for tests and measurements.

use msccl_collective::{Buffer, Kind, Placement};
use msccl_ir::{Algorithm, Place, ThreadBlock};

use crate::by_hand::{StepExt, algorithm, i, o, r, step, t, tb};

/// In-place ring all-reduce: chunk `c` of `ranks` starts at rank `c` and goes round twice, on
/// channel `c % channels`.
pub fn ring(ranks: u32, channels: u32) -> Algorithm {
    let programs = (0..ranks).map(|rank| {
        let blocks = (0..channels).map(|channel| ring_block(ranks, channels, rank, channel));
        blocks.collect()
    });
    algorithm(Kind::AllReduce, ranks, programs.collect())
}

fn ring_block(ranks: u32, channels: u32, rank: u32, channel: u32) -> ThreadBlock {
    let (next, before) = (r((rank + 1) % ranks), r((rank + ranks - 1) % ranks));
    let mut steps = Vec::new();
    for round in 0..2 * ranks - 1 {
        let chunk = (rank + 2 * ranks - round) % ranks;
        if chunk % channels != channel {
            continue;
        }
        let here = i(chunk);
        steps.push(match round {
            0 => step(&[here], &[next]),
            _ if round < ranks - 1 => step(&[before, here], &[next]),
            _ if round == ranks - 1 => step(&[before, here], &[here, next]),
            _ if round < 2 * ranks - 2 => step(&[before], &[here, next]),
            _ => step(&[before], &[here]),
        });
    }
    tb(channel, steps)
}

/// Out-of-place all-pairs all-to-all: one thread block for every peer, and one for the own block.
pub fn all_pairs(ranks: u32) -> Algorithm {
    let programs = (0..ranks).map(|rank| {
        let peers = (0..ranks).filter(|&peer| peer != rank);
        let exchange =
            |peer| tb(0, vec![step(&[i(peer)], &[r(peer)]), step(&[r(peer)], &[o(peer)])]);
        let own = tb(0, vec![step(&[i(rank)], &[o(rank)])]);
        peers.map(exchange).chain([own]).collect()
    });
    let algorithm = algorithm(Kind::AllToAll, 1, programs.collect());
    Algorithm { placement: Placement::OutOfPlace, ..algorithm }
}

/// In-place two-shot all-reduce between all pairs, every link end a thread block of its own: what
/// has been sent may be overwritten by the result, since that shows that the message has been read.
pub fn trusting_pairs(ranks: u32) -> Algorithm {
    let programs = (0..ranks).map(|rank| {
        let peers: Vec<_> = (0..ranks).filter(|&peer| peer != rank).collect();
        let first_take = peers.len() as u32;
        let adder = 2 * first_take;
        let send = |&peer: &u32| tb(0, vec![step(&[i(peer)], &[r(peer)])]);
        let take = |&peer: &u32| tb(0, vec![step(&[r(peer)], &[t(peer)])]);
        let adds = (0..)
            .zip(&peers)
            .map(|(at, &peer)| step(&[i(rank), t(peer)], &[i(rank)]).after(first_take + at, 0));
        let last = first_take - 1;
        let answer = |&peer: &u32| tb(1, vec![step(&[i(rank)], &[r(peer)]).after(adder, last)]);
        let result = |&peer: &u32| tb(1, vec![step(&[r(peer)], &[i(peer)])]);
        let sends = peers.iter().map(send);
        let blocks = sends.chain(peers.iter().map(take)).chain([tb(0, adds.collect())]);
        blocks.chain(peers.iter().map(answer)).chain(peers.iter().map(result)).collect()
    });
    algorithm(Kind::AllReduce, ranks, programs.collect())
}

/// In-place recursive halving and doubling: one thread block for every distance, each waiting for
/// the one before.
pub fn halving_doubling(ranks: u32) -> Algorithm {
    let levels = ranks.ilog2();
    let programs = (0..ranks)
        .map(|rank| (0..levels).map(|level| halving_doubling_block(ranks, rank, level)).collect());
    algorithm(Kind::AllReduce, ranks, programs.collect())
}

/// The exchange with the rank at distance `ranks >> (level + 1)`, down and up.
fn halving_doubling_block(ranks: u32, rank: u32, level: u32) -> ThreadBlock {
    let half = ranks >> (level + 1);
    let peer = rank ^ half;
    let (mine, theirs) = (rank & !(half - 1), peer & !(half - 1));
    let mut down = step(&[i(theirs)], &[r(peer)]).times(half);
    let mut up = step(&[i(mine)], &[r(peer)]).times(half);
    if level > 0 {
        down = down.after(level - 1, 1);
    }
    if half > 1 {
        up = up.after(level + 1, 3);
    }
    let sum = step(&[r(peer), i(mine)], &[i(mine)]).times(half);
    let take = step(&[r(peer)], &[i(theirs)]).times(half);
    tb(0, vec![down, sum, up, take])
}

/// A ring whose sends and receives stand in different thread blocks. The sending block waits for
/// what it sends, and the receiving block waits before it overwrites what was sent.
pub fn split_ring(ranks: u32) -> Algorithm {
    split_ring_that_waits(ranks, true)
}

/// The same without the second kind of waits: a slot is overwritten only by what has gone round the
/// ring since it was sent, so messages through all other ranks order the two.
pub fn trusting_ring(ranks: u32) -> Algorithm {
    split_ring_that_waits(ranks, false)
}

fn split_ring_that_waits(ranks: u32, before_overwriting: bool) -> Algorithm {
    let programs = (0..ranks).map(|rank| {
        let (next, before) = (r((rank + 1) % ranks), r((rank + ranks - 1) % ranks));
        let chunk = |round: u32| i((rank + 2 * ranks - round) % ranks);
        let sends = (0..2 * ranks - 2).map(|round| {
            let send = step(&[chunk(round)], &[next]);
            if round == 0 { send } else { send.after(1, round - 1) }
        });
        let receives = (1..2 * ranks - 1).map(|round| {
            let here = chunk(round);
            match round {
                _ if round < ranks => step(&[before, here], &[here]),
                _ if before_overwriting => step(&[before], &[here]).after(0, round - ranks),
                _ => step(&[before], &[here]),
            }
        });
        vec![tb(0, sends.collect()), tb(0, receives.collect())]
    });
    algorithm(Kind::AllReduce, ranks, programs.collect())
}

/// The same all-reduce out of place: every rank first copies its input to its output, and works
/// there.
pub fn out_of_place(mut in_place: Algorithm) -> Algorithm {
    let chunks = in_place.collective.chunks;
    for program in &mut in_place.ranks {
        for block in &mut program.thread_blocks {
            let operands = block
                .steps
                .iter_mut()
                .flat_map(|step| step.sources.iter_mut().chain(step.destinations.iter_mut()));
            operands.for_each(to_output);
            block.steps.insert(0, step(&[i(0)], &[o(0)]).times(chunks));
        }
    }
    Algorithm { placement: Placement::OutOfPlace, ..in_place }
}

fn to_output(place: &mut Place) {
    if let Place::Local(slot) = place {
        slot.buffer = Buffer::Output;
    }
}
