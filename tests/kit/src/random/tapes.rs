//! Random algorithms for the tests of several formats, well formed or not.
//!
//! An algorithm is decoded from a tape of numbers, so that proptest shrinks it by shrinking the
//! tape; an exhausted tape yields zeros.

use std::sync::Arc;

use msccl_collective::{
    Buffer, Channel, Collective, CollectiveKind, Contract, Contribution, Custom, Kind, Placement,
    Protocol, Rank, SizeRange, Slot, StepIndex, TbIndex,
};
use msccl_interchange::xml::Dialect;
use msccl_ir::{Algorithm, Place, RankProgram, Step, ThreadBlock, Wait};
use proptest::prelude::*;

/// Enough cases to matter; a failing one is printed, not kept in a file.
pub fn config() -> ProptestConfig {
    ProptestConfig { cases: 512, failure_persistence: None, ..ProptestConfig::default() }
}

/// Tapes of numbers.
pub fn tapes() -> impl Strategy<Value = Tape> {
    prop::collection::vec(any::<u32>(), 0..600).prop_map(|numbers| Tape { numbers, at: 0 })
}

/// Numbers that decide what an algorithm is.
#[derive(Clone, Debug)]
pub struct Tape {
    numbers: Vec<u32>,
    at: usize,
}

impl Tape {
    fn next(&mut self) -> u32 {
        self.at += 1;
        self.numbers.get(self.at - 1).copied().unwrap_or(0)
    }

    fn below(&mut self, bound: u32) -> u32 {
        self.next() % bound.max(1)
    }

    fn pick<T: Clone>(&mut self, choices: &[T]) -> T {
        choices[self.below(choices.len() as u32) as usize].clone()
    }

    fn maybe<T>(&mut self, value: impl FnOnce(&mut Self) -> T) -> Option<T> {
        (self.below(2) == 1).then(|| value(self))
    }

    fn some<T>(&mut self, bound: u32, mut value: impl FnMut(&mut Self) -> T) -> Vec<T> {
        (0..self.below(bound)).map(|_| value(self)).collect()
    }

    fn name(&mut self) -> String {
        let letters = ['a', 'Z', '0', ' ', '_', '-', 'é', '漢', '/', '('];
        self.some(12, |tape| tape.pick(&letters)).into_iter().collect()
    }
}

/// Any value of the type, well formed or not: text form and JSON must hold them all.
pub fn anything(tape: &mut Tape) -> Algorithm {
    let mut name = tape.name();
    name.extend(tape.some(4, |tape| tape.pick(&['"', '\\', '\n', '\t', '\0', '\u{2028}', '<'])));
    Algorithm {
        name,
        collective: any_collective(tape),
        placement: tape.pick(&Placement::ALL),
        protocol: tape.pick(&Protocol::ALL),
        sizes: SizeRange {
            min_bytes: u64::from(tape.next()) << tape.below(33),
            max_bytes: tape.maybe(|tape| u64::from(tape.next()) << tape.below(33)),
        },
        threads: tape.maybe(Tape::next),
        ranks: tape.some(4, |tape| RankProgram {
            scratch_chunks: tape.next(),
            thread_blocks: tape.some(4, |tape| ThreadBlock {
                channel: Channel(tape.next()),
                sends: tape.some(4, |tape| Rank(tape.next())),
                receives: tape.some(4, |tape| Rank(tape.next())),
                steps: tape.some(6, any_step),
            }),
        }),
    }
}

fn any_collective(tape: &mut Tape) -> Collective {
    let root = Rank(tape.below(9));
    let mut kinds = CollectiveKind::all(root).map(Kind::from).to_vec();
    kinds.push(Kind::Custom(Arc::new(Custom {
        name: tape.name(),
        input_chunks: tape.next(),
        output_chunks: tape.next(),
        contract: tape.maybe(|tape| contract(tape, u32::MAX, u32::MAX)),
    })));
    Collective { kind: tape.pick(&kinds), ranks: tape.next(), chunks: tape.next() }
}

fn contract(tape: &mut Tape, ranks: u32, chunks: u32) -> Contract {
    let slot =
        |tape: &mut Tape| Contribution { rank: Rank(tape.below(ranks)), index: tape.below(chunks) };
    let given = tape.some(5, slot).into_iter().collect();
    let promised = tape.some(5, |tape| {
        let Contribution { rank, index } = slot(tape);
        let mut sum = vec![slot(tape)];
        sum.extend(tape.some(3, slot));
        sum.sort();
        ((rank, index), sum)
    });
    Contract { given, promised: promised.into_iter().collect() }
}

fn any_step(tape: &mut Tape) -> Step {
    let place = |tape: &mut Tape| match tape.below(4) {
        0 => Place::Link(Rank(tape.next())),
        buffer => Place::Local(Slot::new(Buffer::ALL[buffer as usize - 1], tape.next())),
    };
    let wait = |tape: &mut Tape| Wait { tb: TbIndex(tape.next()), step: StepIndex(tape.next()) };
    Step {
        waits: tape.some(4, wait).into_iter().collect(),
        sources: tape.some(4, place).into_iter().collect(),
        destinations: tape.some(4, place).into_iter().collect(),
        count: tape.pick(&[0, 1, 2, u32::MAX]),
    }
}

/// An algorithm that the dialect can say: its steps are of MSCCL's types, within their buffers.
pub fn expressible(tape: &mut Tape, dialect: Dialect) -> Algorithm {
    let collective = named_collective(tape, dialect);
    let max_bytes = match dialect {
        Dialect::Msccl => Some(1 + u64::from(tape.next())),
        Dialect::Executor => tape.maybe(|tape| 1 + u64::from(tape.next())),
    };
    let placements = match dialect {
        Dialect::Msccl => &[Placement::InPlace, Placement::OutOfPlace][..],
        Dialect::Executor => &Placement::ALL[..],
    };
    let msccl = dialect == Dialect::Msccl;
    // A range that ends within a block is written as the one that ends before it.
    let blocks = match collective.kind {
        Kind::Gather { .. } | Kind::Scatter { .. } => u64::from(collective.ranks),
        _ => 1,
    };
    Algorithm {
        name: tape.name(),
        placement: tape.pick(placements),
        protocol: tape.pick(&Protocol::ALL),
        sizes: SizeRange {
            min_bytes: u64::from(tape.next()) % max_bytes.unwrap_or(u64::MAX) * blocks,
            max_bytes: max_bytes.map(|bytes| bytes * blocks),
        },
        threads: tape.maybe(|tape| 32 * (1 + tape.below(32))).filter(|_| msccl),
        ranks: collective.all_ranks().map(|rank| program(tape, rank, &collective)).collect(),
        collective,
    }
}

fn named_collective(tape: &mut Tape, dialect: Dialect) -> Collective {
    let ranks = 1 + tape.below(5);
    let root = Rank(tape.below(ranks));
    let mut kinds = vec![
        Kind::AllReduce,
        Kind::AllGather,
        Kind::ReduceScatter,
        Kind::AllToAll,
        Kind::Broadcast { root },
        Kind::Reduce { root },
    ];
    let chunks = 1 + tape.below(4);
    match dialect {
        Dialect::Executor => kinds.extend([Kind::Gather { root }, Kind::Scatter { root }]),
        Dialect::Msccl => kinds.push(Kind::Custom(Arc::new(Custom {
            name: tape.pick(&["custom", "next", ""]).to_owned(),
            input_chunks: tape.pick(&[chunks, chunks, 0]),
            output_chunks: chunks,
            contract: tape.maybe(|tape| contract(tape, ranks, chunks)),
        }))),
    }
    let kind = tape.pick(&kinds);
    let chunks = if matches!(kind, Kind::Custom(_)) { tape.pick(&[1, chunks]) } else { chunks };
    Collective { kind, ranks, chunks }
}

fn program(tape: &mut Tape, rank: Rank, collective: &Collective) -> RankProgram {
    let room = Room { rank, collective, scratch_chunks: 1 + tape.below(8) };
    let mut thread_blocks = tape.some(5, |tape| {
        let others = (0..collective.ranks).map(Rank).filter(|&other| other != rank);
        let others: Vec<_> = others.collect();
        let peer = |tape: &mut Tape| {
            let peer = if others.is_empty() { None } else { Some(tape.pick(&others)) };
            peer.filter(|_| tape.below(3) > 0)
        };
        let (send, receive) = (peer(tape), peer(tape));
        ThreadBlock {
            channel: Channel(tape.below(4)),
            sends: send.into_iter().collect(),
            receives: receive.into_iter().collect(),
            steps: tape.some(8, |tape| room.step(tape, send, receive)),
        }
    });
    add_waits(tape, &mut thread_blocks);
    RankProgram { scratch_chunks: room.scratch_chunks, thread_blocks }
}

struct Room<'a> {
    rank: Rank,
    collective: &'a Collective,
    scratch_chunks: u32,
}

impl Room<'_> {
    fn chunks(&self, buffer: Buffer) -> u32 {
        match buffer {
            Buffer::Scratch => self.scratch_chunks,
            _ => self.collective.buffer_chunks(self.rank, buffer),
        }
    }

    fn slot(&self, tape: &mut Tape, buffers: &[Buffer]) -> Slot {
        let buffers: Vec<_> =
            buffers.iter().copied().filter(|&buffer| self.chunks(buffer) > 0).collect();
        let buffer = if buffers.is_empty() { Buffer::Scratch } else { tape.pick(&buffers) };
        Slot::new(buffer, tape.below(self.chunks(buffer)))
    }

    fn step(&self, tape: &mut Tape, send: Option<Rank>, receive: Option<Rank>) -> Step {
        let [src, dst] = [(); 2].map(|()| self.slot(tape, &Buffer::ALL));
        let (from, to) = (receive.map(Place::Link), send.map(Place::Link));
        let (local_src, local_dst) = (Place::Local(src), Place::Local(dst));
        let mut shapes = vec![(vec![local_src], vec![local_dst])];
        if let Some(to) = to {
            shapes.push((vec![local_src], vec![to]));
        }
        if let Some(from) = from {
            shapes.push((vec![from], vec![local_dst]));
            shapes.push((vec![from, local_src], vec![local_dst]));
        }
        if let (Some(from), Some(to)) = (from, to) {
            shapes.push((vec![from], vec![local_dst, to]));
            shapes.push((vec![from, local_src], vec![to]));
            shapes.push((vec![from, local_src], vec![local_dst, to]));
        }
        if src.buffer != dst.buffer {
            shapes.push((vec![local_dst, local_src], vec![local_dst]));
        }
        let (sources, destinations) = tape.pick(&shapes);
        let fits = |slot: Slot| self.chunks(slot.buffer) - slot.index;
        // Merged reductions must have one count, so it depends on the destination.
        let reduces = sources.len() == 2 && sources[0] == local_dst;
        let count = if reduces { 1 } else { 1 + tape.below(fits(src).min(fits(dst))) };
        Step {
            waits: Default::default(),
            sources: sources.into_iter().collect(),
            destinations: destinations.into_iter().collect(),
            count,
        }
    }
}

/// Adds waits for steps of other thread blocks, the second and later ones in no-ops.
fn add_waits(tape: &mut Tape, blocks: &mut [ThreadBlock]) {
    // No-ops shift the positions of later steps, so plan the positions first.
    let busy = blocks.iter().filter(|block| !block.steps.is_empty()).count();
    let plan: Vec<Vec<u32>> = blocks
        .iter()
        .map(|block| block.steps.iter().map(|_| tape.below(6).saturating_sub(3)).collect())
        .map(|waits: Vec<u32>| if busy > 1 { waits } else { vec![0; waits.len()] })
        .collect();
    let mut targets = Vec::new();
    for (tb, waits) in plan.iter().enumerate() {
        let mut position = 0;
        for &waits in waits {
            position += waits.max(1);
            targets.push(Wait { tb: TbIndex::from(tb), step: StepIndex(position - 1) });
        }
    }
    for (tb, block) in blocks.iter_mut().enumerate() {
        let others: Vec<_> = targets.iter().filter(|wait| wait.tb.index() != tb).copied().collect();
        let steps = std::mem::take(&mut block.steps);
        for (mut step, &waits) in steps.into_iter().zip(&plan[tb]) {
            for last in (0..waits).rev() {
                let wait = tape.pick(&others);
                match last {
                    0 => step.waits.push(wait),
                    _ => {
                        let waits = [wait].into_iter().collect();
                        block.steps.push(Step { waits, ..Step::default() });
                    }
                }
            }
            block.steps.push(step);
        }
    }
}
