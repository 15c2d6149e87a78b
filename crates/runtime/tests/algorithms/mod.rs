//! Algorithms written out by hand, small enough to be seen to be right.

#![allow(dead_code)] // Not every test that shares this file uses all of it.

use std::sync::Arc;

use msccl_collective::{
    Buffer, Channel, Collective, Contract, Contribution, Custom, Kind, Placement, Protocol, Rank,
    SizeRange, Slot, StepIndex, TbIndex,
};
use msccl_ir::{Algorithm, Place, RankProgram, Step, ThreadBlock, Wait};

pub fn input(index: u32) -> Place {
    Place::Local(Slot::new(Buffer::Input, index))
}

pub fn output(index: u32) -> Place {
    Place::Local(Slot::new(Buffer::Output, index))
}

pub fn scratch(index: u32) -> Place {
    Place::Local(Slot::new(Buffer::Scratch, index))
}

pub fn link(rank: u32) -> Place {
    Place::Link(Rank(rank))
}

pub fn step(count: u32, sources: &[Place], destinations: &[Place]) -> Step {
    Step {
        waits: Default::default(),
        sources: sources.iter().copied().collect(),
        destinations: destinations.iter().copied().collect(),
        count,
    }
}

/// `step` after the end of step `of` of thread block `tb`.
pub fn after(tb: u32, of: u32, step: Step) -> Step {
    let wait = Wait { tb: TbIndex(tb), step: StepIndex(of) };
    Step { waits: [wait].into_iter().collect(), ..step }
}

/// A thread block that owns the links which its steps use.
pub fn block(channel: u32, steps: Vec<Step>) -> ThreadBlock {
    let peers = |of: fn(&Step) -> Vec<Rank>| {
        let mut peers: Vec<_> = steps.iter().flat_map(of).collect();
        peers.sort();
        peers.dedup();
        peers
    };
    let sends = peers(|step| step.sends().collect());
    let receives = peers(|step| step.receives().collect());
    ThreadBlock { channel: Channel(channel), sends, receives, steps }
}

/// An algorithm in which rank `r` runs the thread blocks `program(r)`.
pub fn algorithm(
    kind: Kind,
    ranks: u32,
    chunks: u32,
    scratch_chunks: u32,
    program: impl Fn(u32) -> Vec<ThreadBlock>,
) -> Algorithm {
    let rank = |rank| RankProgram { scratch_chunks, thread_blocks: program(rank) };
    Algorithm {
        name: "by hand".to_owned(),
        collective: Collective { kind, ranks, chunks },
        placement: Placement::Both,
        protocol: Protocol::Simple,
        sizes: SizeRange::ALL,
        threads: None,
        ranks: (0..ranks).map(rank).collect(),
    }
}

fn others(ranks: u32, rank: u32) -> impl Iterator<Item = u32> {
    (0..ranks).filter(move |&other| other != rank)
}

/// Sums travel once round the ring, results once more; `count` chunks a step.
pub fn ring(ranks: u32, count: u32) -> Algorithm {
    algorithm(Kind::AllReduce, ranks, ranks * count, 0, |rank| {
        let (next, previous) = (link((rank + 1) % ranks), link((rank + ranks - 1) % ranks));
        let chunk = |back: u32| (rank + 2 * ranks - back) % ranks * count;
        let mut steps = vec![step(count, &[input(chunk(0))], &[next])];
        for back in 1..ranks - 1 {
            steps.push(step(count, &[previous, input(chunk(back))], &[next]));
        }
        let own = chunk(ranks - 1);
        steps.push(step(count, &[previous, input(own)], &[output(own), next]));
        for back in ranks..2 * ranks - 2 {
            steps.push(step(count, &[previous], &[output(chunk(back)), next]));
        }
        steps.push(step(count, &[previous], &[output(chunk(2 * ranks - 2))]));
        vec![block(0, steps)]
    })
}

/// Everyone sends everything to everyone.
pub fn one_shot(ranks: u32, chunks: u32) -> Algorithm {
    algorithm(Kind::AllReduce, ranks, chunks, 0, |rank| {
        let peers: Vec<_> = others(ranks, rank).map(link).collect();
        let sources: Vec<_> = [input(0)].into_iter().chain(peers.iter().copied()).collect();
        let send = step(chunks, &[input(0)], &peers);
        vec![block(0, vec![send, step(chunks, &sources, &[output(0)])])]
    })
}

/// Two thread blocks: one receives into scratch, the other reduces from there.
pub fn through_scratch(chunks: u32) -> Algorithm {
    algorithm(Kind::AllReduce, 2, chunks, chunks, |rank| {
        let peer = link(1 - rank);
        let exchange =
            vec![step(chunks, &[input(0)], &[peer]), step(chunks, &[peer], &[scratch(0)])];
        let reduce = step(chunks, &[input(0), scratch(0)], &[output(0)]);
        vec![block(0, exchange), block(1, vec![after(0, 1, reduce)])]
    })
}

pub fn all_gather(ranks: u32, chunks: u32) -> Algorithm {
    algorithm(Kind::AllGather, ranks, chunks, 0, |rank| {
        let mut all = vec![output(rank * chunks)];
        all.extend(others(ranks, rank).map(link));
        let mut steps = vec![step(chunks, &[input(0)], &all)];
        let receive = |peer| step(chunks, &[link(peer)], &[output(peer * chunks)]);
        steps.extend(others(ranks, rank).map(receive));
        vec![block(0, steps)]
    })
}

pub fn reduce_scatter(ranks: u32, chunks: u32) -> Algorithm {
    algorithm(Kind::ReduceScatter, ranks, chunks, 0, |rank| {
        let send = |peer| step(chunks, &[input(peer * chunks)], &[link(peer)]);
        let mut steps: Vec<_> = others(ranks, rank).map(send).collect();
        let mut sources = vec![input(rank * chunks)];
        sources.extend(others(ranks, rank).map(link));
        steps.push(step(chunks, &sources, &[output(0)]));
        vec![block(0, steps)]
    })
}

pub fn all_to_all(ranks: u32, chunks: u32) -> Algorithm {
    algorithm(Kind::AllToAll, ranks, chunks, 0, |rank| {
        let own = rank * chunks;
        let mut steps = vec![step(chunks, &[input(own)], &[output(own)])];
        let send = |peer| step(chunks, &[input(peer * chunks)], &[link(peer)]);
        steps.extend(others(ranks, rank).map(send));
        let receive = |peer| step(chunks, &[link(peer)], &[output(peer * chunks)]);
        steps.extend(others(ranks, rank).map(receive));
        vec![block(0, steps)]
    })
}

/// A chain that starts at the root.
pub fn broadcast(ranks: u32, chunks: u32, root: u32) -> Algorithm {
    algorithm(Kind::Broadcast { root: Rank(root) }, ranks, chunks, 0, |rank| {
        let place = (rank + ranks - root) % ranks;
        let from = match place {
            0 => input(0),
            _ => link((rank + ranks - 1) % ranks),
        };
        let mut to = vec![output(0)];
        to.extend((place + 1 < ranks).then(|| link((rank + 1) % ranks)));
        vec![block(0, vec![step(chunks, &[from], &to)])]
    })
}

/// A chain that ends at the root.
pub fn reduce(ranks: u32, chunks: u32, root: u32) -> Algorithm {
    algorithm(Kind::Reduce { root: Rank(root) }, ranks, chunks, 0, |rank| {
        let mut from = Vec::new();
        let first = rank == (root + 1) % ranks;
        from.extend((!first).then(|| link((rank + ranks - 1) % ranks)));
        from.push(input(0));
        let to = if rank == root { output(0) } else { link((rank + 1) % ranks) };
        vec![block(0, vec![step(chunks, &from, &[to])])]
    })
}

pub fn gather(ranks: u32, chunks: u32, root: u32) -> Algorithm {
    algorithm(Kind::Gather { root: Rank(root) }, ranks, chunks, 0, |rank| {
        if rank != root {
            return vec![block(0, vec![step(chunks, &[input(0)], &[link(root)])])];
        }
        let mut steps = vec![step(chunks, &[input(0)], &[output(root * chunks)])];
        let receive = |peer| step(chunks, &[link(peer)], &[output(peer * chunks)]);
        steps.extend(others(ranks, rank).map(receive));
        vec![block(0, steps)]
    })
}

pub fn scatter(ranks: u32, chunks: u32, root: u32) -> Algorithm {
    algorithm(Kind::Scatter { root: Rank(root) }, ranks, chunks, 0, |rank| {
        if rank != root {
            return vec![block(0, vec![step(chunks, &[link(root)], &[output(0)])])];
        }
        let send = |peer| step(chunks, &[input(peer * chunks)], &[link(peer)]);
        let mut steps: Vec<_> = others(ranks, rank).map(send).collect();
        steps.push(step(chunks, &[input(root * chunks)], &[output(0)]));
        vec![block(0, steps)]
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
    algorithm(Kind::Custom(Arc::new(custom)), ranks, 1, 0, |rank| {
        let send = step(chunks, &[input(0)], &[link((rank + 1) % ranks)]);
        let left = link((rank + ranks - 1) % ranks);
        vec![block(0, vec![send, step(chunks, &[left, input(0)], &[output(0)])])]
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
