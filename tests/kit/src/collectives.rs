//! An algorithm for every collective, small enough to be seen to be right; all serve calls in and
//! out of place.

use std::sync::Arc;

use msccl_collective::{Contract, Contribution, Custom, Kind, Placement, Rank};
use msccl_ir::{Algorithm, ThreadBlock};

use crate::by_hand::{self, StepExt, i, o, r, step, t, tb};

/// An algorithm in which rank `r` runs the thread blocks `program(r)`.
pub fn algorithm(
    kind: Kind,
    ranks: u32,
    chunks: u32,
    program: impl Fn(u32) -> Vec<ThreadBlock>,
) -> Algorithm {
    let algorithm = by_hand::algorithm(kind, chunks, (0..ranks).map(program).collect());
    Algorithm { placement: Placement::Both, ..algorithm }
}

fn others(ranks: u32, rank: u32) -> impl Iterator<Item = u32> {
    (0..ranks).filter(move |&other| other != rank)
}

/// Sums travel once round the ring, results once more; `count` chunks a step.
pub fn ring(ranks: u32, count: u32) -> Algorithm {
    algorithm(Kind::AllReduce, ranks, ranks * count, |rank| {
        let (next, previous) = (r((rank + 1) % ranks), r((rank + ranks - 1) % ranks));
        let chunk = |back: u32| (rank + 2 * ranks - back) % ranks * count;
        let mut steps = vec![step(&[i(chunk(0))], &[next]).times(count)];
        for back in 1..ranks - 1 {
            steps.push(step(&[previous, i(chunk(back))], &[next]).times(count));
        }
        let own = chunk(ranks - 1);
        steps.push(step(&[previous, i(own)], &[o(own), next]).times(count));
        for back in ranks..2 * ranks - 2 {
            steps.push(step(&[previous], &[o(chunk(back)), next]).times(count));
        }
        steps.push(step(&[previous], &[o(chunk(2 * ranks - 2))]).times(count));
        vec![tb(0, steps)]
    })
}

/// Everyone sends everything to everyone.
pub fn one_shot(ranks: u32, chunks: u32) -> Algorithm {
    algorithm(Kind::AllReduce, ranks, chunks, |rank| {
        let peers: Vec<_> = others(ranks, rank).map(r).collect();
        let sources: Vec<_> = [i(0)].into_iter().chain(peers.iter().copied()).collect();
        let send = step(&[i(0)], &peers).times(chunks);
        vec![tb(0, vec![send, step(&sources, &[o(0)]).times(chunks)])]
    })
}

/// Two thread blocks: one receives into scratch, the other reduces from there.
pub fn through_scratch(chunks: u32) -> Algorithm {
    algorithm(Kind::AllReduce, 2, chunks, |rank| {
        let peer = r(1 - rank);
        let exchange =
            vec![step(&[i(0)], &[peer]).times(chunks), step(&[peer], &[t(0)]).times(chunks)];
        let reduce = step(&[i(0), t(0)], &[o(0)]).times(chunks);
        vec![tb(0, exchange), tb(1, vec![reduce.after(0, 1)])]
    })
}

/// Everyone sends to everyone.
pub fn all_gather(ranks: u32, chunks: u32) -> Algorithm {
    algorithm(Kind::AllGather, ranks, chunks, |rank| {
        let mut all = vec![o(rank * chunks)];
        all.extend(others(ranks, rank).map(r));
        let mut steps = vec![step(&[i(0)], &all).times(chunks)];
        let receive = |peer| step(&[r(peer)], &[o(peer * chunks)]).times(chunks);
        steps.extend(others(ranks, rank).map(receive));
        vec![tb(0, steps)]
    })
}

/// Everyone sends to everyone.
pub fn reduce_scatter(ranks: u32, chunks: u32) -> Algorithm {
    algorithm(Kind::ReduceScatter, ranks, chunks, |rank| {
        let send = |peer| step(&[i(peer * chunks)], &[r(peer)]).times(chunks);
        let mut steps: Vec<_> = others(ranks, rank).map(send).collect();
        let mut sources = vec![i(rank * chunks)];
        sources.extend(others(ranks, rank).map(r));
        steps.push(step(&sources, &[o(0)]).times(chunks));
        vec![tb(0, steps)]
    })
}

/// Everyone sends to everyone.
pub fn all_to_all(ranks: u32, chunks: u32) -> Algorithm {
    algorithm(Kind::AllToAll, ranks, chunks, |rank| {
        let own = rank * chunks;
        let mut steps = vec![step(&[i(own)], &[o(own)]).times(chunks)];
        let send = |peer| step(&[i(peer * chunks)], &[r(peer)]).times(chunks);
        steps.extend(others(ranks, rank).map(send));
        let receive = |peer| step(&[r(peer)], &[o(peer * chunks)]).times(chunks);
        steps.extend(others(ranks, rank).map(receive));
        vec![tb(0, steps)]
    })
}

/// A chain that starts at the root.
pub fn broadcast(ranks: u32, chunks: u32, root: u32) -> Algorithm {
    algorithm(Kind::Broadcast { root: Rank(root) }, ranks, chunks, |rank| {
        let place = (rank + ranks - root) % ranks;
        let from = match place {
            0 => i(0),
            _ => r((rank + ranks - 1) % ranks),
        };
        let mut to = vec![o(0)];
        to.extend((place + 1 < ranks).then(|| r((rank + 1) % ranks)));
        vec![tb(0, vec![step(&[from], &to).times(chunks)])]
    })
}

/// A chain that ends at the root.
pub fn reduce(ranks: u32, chunks: u32, root: u32) -> Algorithm {
    algorithm(Kind::Reduce { root: Rank(root) }, ranks, chunks, |rank| {
        let mut from = Vec::new();
        let first = rank == (root + 1) % ranks;
        from.extend((!first).then(|| r((rank + ranks - 1) % ranks)));
        from.push(i(0));
        let to = if rank == root { o(0) } else { r((rank + 1) % ranks) };
        vec![tb(0, vec![step(&from, &[to]).times(chunks)])]
    })
}

/// Everyone sends to the root.
pub fn gather(ranks: u32, chunks: u32, root: u32) -> Algorithm {
    algorithm(Kind::Gather { root: Rank(root) }, ranks, chunks, |rank| {
        if rank != root {
            return vec![tb(0, vec![step(&[i(0)], &[r(root)]).times(chunks)])];
        }
        let mut steps = vec![step(&[i(0)], &[o(root * chunks)]).times(chunks)];
        let receive = |peer| step(&[r(peer)], &[o(peer * chunks)]).times(chunks);
        steps.extend(others(ranks, rank).map(receive));
        vec![tb(0, steps)]
    })
}

/// The root sends to everyone.
pub fn scatter(ranks: u32, chunks: u32, root: u32) -> Algorithm {
    algorithm(Kind::Scatter { root: Rank(root) }, ranks, chunks, |rank| {
        if rank != root {
            return vec![tb(0, vec![step(&[r(root)], &[o(0)]).times(chunks)])];
        }
        let send = |peer| step(&[i(peer * chunks)], &[r(peer)]).times(chunks);
        let mut steps: Vec<_> = others(ranks, rank).map(send).collect();
        steps.push(step(&[i(root * chunks)], &[o(0)]).times(chunks));
        vec![tb(0, steps)]
    })
}

/// A custom collective: every rank ends with the sum of its own and its left neighbour's chunks.
pub fn add_neighbour(ranks: u32, chunks: u32) -> Algorithm {
    let mut contract = Contract::default();
    for (rank, index) in (0..ranks).flat_map(|rank| (0..chunks).map(move |index| (rank, index))) {
        let own = Contribution { rank: Rank(rank), index };
        let left = Contribution { rank: Rank((rank + ranks - 1) % ranks), index };
        let mut sum = vec![own, left];
        sum.sort();
        contract.given.insert(own);
        contract.promised.insert((Rank(rank), index), sum);
    }
    let custom = Custom {
        name: "add_neighbour".to_owned(),
        input_chunks: chunks,
        output_chunks: chunks,
        contract: Some(contract),
    };
    algorithm(Kind::Custom(Arc::new(custom)), ranks, 1, |rank| {
        let send = step(&[i(0)], &[r((rank + 1) % ranks)]).times(chunks);
        let left = r((rank + ranks - 1) % ranks);
        vec![tb(0, vec![send, step(&[left, i(0)], &[o(0)]).times(chunks)])]
    })
}

/// One of everything.
pub fn all() -> Vec<Algorithm> {
    vec![
        ring(4, 2),
        ring(3, 1),
        one_shot(3, 2),
        through_scratch(3),
        all_gather(3, 2),
        reduce_scatter(3, 2),
        all_to_all(3, 2),
        broadcast(3, 4, 1),
        reduce(3, 4, 1),
        gather(3, 2, 1),
        scatter(3, 2, 1),
        add_neighbour(3, 2),
    ]
}
