//! Random algorithms of the nine step types: messages in one order of all, with the contract that
//! their order gives; exchanges whose counts decide whether they end; long chains of `re`.

use std::collections::BTreeMap;
use std::sync::Arc;

use msccl_collective::{
    Buffer, Channel, Collective, Contract, Contribution, Custom, Kind, Placement, Protocol, Rank,
    SizeRange, Slot, StepIndex, TbIndex,
};
use msccl_ir::{Algorithm, Place, RankProgram, Step, ThreadBlock, Wait};

use crate::Numbers;

const CHUNKS: u32 = 3;

/// Summands of a value at most.
const TERMS: usize = 12;

fn local(buffer: Buffer, index: u32) -> Place {
    Place::Local(Slot::new(buffer, index))
}

fn step(sources: &[Place], destinations: &[Place], count: u32) -> Step {
    Step {
        sources: sources.iter().copied().collect(),
        destinations: destinations.iter().copied().collect(),
        count,
        ..Step::default()
    }
}

/// A random one of the three kinds.
pub fn random(seed: u64) -> Algorithm {
    let mut numbers = Numbers(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
    let protocol = Protocol::ALL[numbers.below(3) as usize];
    match numbers.below(8) {
        0 | 1 => exchange(&mut numbers, protocol),
        2 => chain(&mut numbers, protocol),
        _ => GrowingProgram::new(numbers, protocol).grow(),
    }
}

fn sizes(numbers: &mut Numbers) -> SizeRange {
    let max_bytes = match numbers.below(3) {
        0 => 1 << numbers.below(16),
        1 => 1 << (16 + numbers.below(8)),
        _ => (1 << 22) + numbers.below(1 << 23),
    };
    SizeRange { min_bytes: 0, max_bytes: Some(max_bytes) }
}

/// Two ranks that send before they receive: how large a call ends depends on counts and messages.
fn exchange(numbers: &mut Numbers, protocol: Protocol) -> Algorithm {
    let chunks = 1 + numbers.below(12) as u32;
    let root = Rank(numbers.below(2) as u32);
    let kind = match numbers.below(3) {
        0 => Kind::AllReduce,
        1 => Kind::Broadcast { root },
        _ => Kind::Reduce { root },
    };
    let collective = Collective { kind, ranks: 2, chunks };
    let pieces = 1 + numbers.below(3) as u32;
    let program = |rank: u32| {
        let peer = Place::Link(Rank(1 - rank));
        let has_input = collective.input_chunks(Rank(rank)) > 0;
        let has_output = collective.output_chunks(Rank(rank)) > 0;
        let (mut sends, mut takes) = (Vec::new(), Vec::new());
        let mut start = 0;
        for piece in 0..pieces.min(chunks) {
            let count = if piece + 1 == pieces.min(chunks) { chunks - start } else { 1 };
            let from = if has_input { Buffer::Input } else { Buffer::Scratch };
            sends.push(step(&[local(from, start)], &[peer], count));
            let own = local(Buffer::Input, start);
            let to = local(Buffer::Output, start);
            let idle = local(Buffer::Scratch, start);
            let sum = collective.reduces();
            takes.push(match (has_output, sum) {
                (true, true) => step(&[peer, own], &[to], count),
                (true, false) if rank != root.0 => step(&[peer], &[to], count),
                _ => step(&[peer], &[idle], count),
            });
            start += count;
        }
        let mut steps = Vec::new();
        if !has_input {
            steps.push(step(&[local(Buffer::Output, 0)], &[local(Buffer::Scratch, 0)], chunks));
        }
        steps.extend(sends);
        steps.extend(takes);
        if !collective.reduces() && rank == root.0 {
            steps.push(step(&[local(Buffer::Input, 0)], &[local(Buffer::Output, 0)], chunks));
        }
        // Whoever has no input sends what it has been given in scratch.
        if !has_input {
            steps.remove(0);
        }
        let peers = vec![Rank(1 - rank)];
        let block =
            ThreadBlock { channel: Channel(0), sends: peers.clone(), receives: peers, steps };
        RankProgram { scratch_chunks: chunks, thread_blocks: vec![block] }
    };
    let mut ranks = vec![program(0), program(1)];
    // A broadcast's other rank answers with what it has got: it cannot send first.
    if let Kind::Broadcast { root } = collective.kind {
        let steps = &mut ranks[1 - root.index()].thread_blocks[0].steps;
        let half = steps.len() / 2;
        steps.rotate_left(half);
        for (at, step) in steps.iter_mut().skip(half).enumerate() {
            let _ = at;
            if let Some(Place::Local(slot)) = step.sources.first_mut() {
                slot.buffer = Buffer::Output;
            }
        }
    }
    Algorithm {
        name: "exchange".to_owned(),
        collective,
        placement: Placement::OutOfPlace,
        protocol,
        sizes: sizes(numbers),
        threads: None,
        ranks,
    }
}

/// Every rank collects all inputs in scratch and adds them up in one order, chains cut here and
/// there.
fn chain(numbers: &mut Numbers, protocol: Protocol) -> Algorithm {
    let ranks = 2 + numbers.below(2) as u32;
    let copies = 1 + numbers.below(9) as u32;
    let same = numbers.below(2) == 0;
    let threads = match numbers.below(3) {
        0 => Some(32 * (1 + numbers.below(3) as u32)),
        _ => None,
    };
    let threads = threads.filter(|&threads| protocol != Protocol::Simple || threads != 96);
    // Every contribution is counted `copies` times, so that chains are long.
    let mut promised = BTreeMap::new();
    for rank in 0..ranks {
        let all = (0..ranks).flat_map(|rank| {
            let one = Contribution { rank: Rank(rank), index: 0 };
            std::iter::repeat_n(one, copies as usize)
        });
        promised.insert((Rank(rank), 0), all.collect::<Vec<_>>());
    }
    let cut_at = 1 + numbers.below(u64::from(ranks * copies)) as u32;
    let programs = (0..ranks).map(|rank| {
        let peers = (0..ranks).filter(|&peer| peer != rank);
        let mut blocks: Vec<_> = peers
            .map(|peer| {
                let link = Place::Link(Rank(peer));
                ThreadBlock {
                    channel: Channel(0),
                    sends: vec![Rank(peer)],
                    receives: vec![Rank(peer)],
                    steps: vec![
                        step(&[local(Buffer::Input, 0)], &[link], 1),
                        step(&[link], &[local(Buffer::Scratch, peer)], 1),
                    ],
                }
            })
            .collect();
        let adder = blocks.len() as u32;
        let mut steps = Vec::new();
        let own = step(&[local(Buffer::Input, 0)], &[local(Buffer::Scratch, rank)], 1);
        steps.push(own);
        let order: Vec<_> = (0..ranks * copies).map(|at| at % ranks).collect();
        for (at, &source) in order.iter().enumerate() {
            let (from, to) = (local(Buffer::Scratch, source), local(Buffer::Output, 0));
            let mut code =
                if at == 0 { step(&[from], &[to], 1) } else { step(&[to, from], &[to], 1) };
            if at == 0 {
                for tb in 0..adder - 1 {
                    let wait = Wait { tb: TbIndex(tb), step: StepIndex(1) };
                    steps.push(Step { waits: [wait].into_iter().collect(), ..Step::default() });
                }
                code.waits.push(Wait { tb: TbIndex(adder - 1), step: StepIndex(1) });
            } else if at as u32 == cut_at && (same || rank == 0) {
                let before = steps.len() as u32 - 1;
                code.waits.push(Wait { tb: TbIndex(adder), step: StepIndex(before) });
            }
            steps.push(code);
        }
        blocks.push(ThreadBlock { channel: Channel(0), sends: vec![], receives: vec![], steps });
        RankProgram { scratch_chunks: ranks, thread_blocks: blocks }
    });
    let given = (0..ranks).map(|rank| Contribution { rank: Rank(rank), index: 0 }).collect();
    let custom = Custom {
        name: "chain".to_owned(),
        input_chunks: 1,
        output_chunks: 1,
        contract: Some(Contract { given, promised }),
    };
    Algorithm {
        name: "chain".to_owned(),
        collective: Collective { kind: Kind::Custom(Arc::new(custom)), ranks, chunks: 1 },
        placement: Placement::OutOfPlace,
        protocol,
        sizes: sizes(numbers),
        threads,
        ranks: programs.collect(),
    }
}

type Terms = Vec<Contribution>;

/// A program under way, and what every slot holds if its steps run one after the other.
struct GrowingProgram {
    numbers: Numbers,
    protocol: Protocol,
    placement: Placement,
    ranks: u32,
    blocks: Vec<Vec<ThreadBlock>>,
    memory: BTreeMap<(u32, Slot), Terms>,
}

/// In place, input and output are one memory.
fn canonical(placement: Placement, slot: Slot) -> Slot {
    let aliased = placement.serves_in_place() && slot.buffer == Buffer::Input;
    if aliased { Slot { buffer: Buffer::Output, ..slot } } else { slot }
}

impl GrowingProgram {
    fn new(mut numbers: Numbers, protocol: Protocol) -> Self {
        let ranks = 2 + numbers.below(2) as u32;
        let placement =
            if numbers.below(2) == 0 { Placement::InPlace } else { Placement::OutOfPlace };
        let mut growing = Self {
            numbers,
            protocol,
            placement,
            ranks,
            blocks: Vec::new(),
            memory: BTreeMap::new(),
        };
        for rank in 0..ranks {
            growing.blocks.push(growing.blocks_of(rank));
            growing.start(rank);
        }
        growing
    }

    /// A block for local steps, one for each peer, and one that passes on round the ring.
    fn blocks_of(&self, rank: u32) -> Vec<ThreadBlock> {
        let block = |channel, sends: Vec<Rank>, receives| ThreadBlock {
            channel: Channel(channel),
            sends,
            receives,
            steps: Vec::new(),
        };
        let mut blocks = vec![block(0, vec![], vec![])];
        for peer in (0..self.ranks).filter(|&peer| peer != rank) {
            blocks.push(block(0, vec![Rank(peer)], vec![Rank(peer)]));
        }
        let next = Rank((rank + 1) % self.ranks);
        let last = Rank((rank + self.ranks - 1) % self.ranks);
        blocks.push(block(1, vec![next], vec![last]));
        blocks
    }

    fn start(&mut self, rank: u32) {
        for index in 0..CHUNKS {
            let one = vec![Contribution { rank: Rank(rank), index }];
            let input = canonical(self.placement, Slot::new(Buffer::Input, index));
            self.memory.insert((rank, input), one.clone());
            self.memory.insert((rank, Slot::new(Buffer::Output, index)), one.clone());
            self.memory.insert((rank, Slot::new(Buffer::Scratch, index)), one);
        }
        let input = local(Buffer::Input, 0);
        let fill =
            [Buffer::Output, Buffer::Scratch].map(|to| step(&[input], &[local(to, 0)], CHUNKS));
        let skip = usize::from(self.placement.serves_in_place());
        self.blocks[rank as usize][0].steps.extend(fill.into_iter().skip(skip));
    }

    fn grow(mut self) -> Algorithm {
        for _ in 0..2 + self.numbers.below(7) {
            match self.numbers.below(4) {
                0 => self.at_home(),
                1 => self.round_the_ring(),
                _ => self.between_two(),
            }
        }
        let mut promised = BTreeMap::new();
        for ((rank, slot), terms) in &self.memory {
            if slot.buffer == Buffer::Output {
                let mut terms = terms.clone();
                terms.sort_unstable();
                promised.insert((Rank(*rank), slot.index), terms);
            }
        }
        let ranks = 0..self.ranks;
        let given = ranks.flat_map(|rank| {
            (0..CHUNKS).map(move |index| Contribution { rank: Rank(rank), index })
        });
        let custom = Custom {
            name: "random".to_owned(),
            input_chunks: CHUNKS,
            output_chunks: CHUNKS,
            contract: Some(Contract { given: given.collect(), promised }),
        };
        Algorithm {
            name: "random".to_owned(),
            collective: Collective {
                kind: Kind::Custom(Arc::new(custom)),
                ranks: self.ranks,
                chunks: 1,
            },
            placement: self.placement,
            protocol: self.protocol,
            sizes: sizes(&mut self.numbers),
            threads: None,
            ranks: self
                .blocks
                .into_iter()
                .map(|thread_blocks| RankProgram { scratch_chunks: CHUNKS, thread_blocks })
                .collect(),
        }
    }

    fn place(&mut self, count: u32, writes: bool) -> Slot {
        let buffer = match self.numbers.below(if writes { 2 } else { 3 }) {
            0 => Buffer::Output,
            1 => Buffer::Scratch,
            _ => Buffer::Input,
        };
        Slot::new(buffer, self.numbers.below(u64::from(CHUNKS - count + 1)) as u32)
    }

    fn load(&self, rank: u32, slot: Slot, count: u32) -> Vec<Terms> {
        let chunks = (0..count).map(|chunk| canonical(self.placement, slot.offset(chunk)));
        chunks.map(|slot| self.memory[&(rank, slot)].clone()).collect()
    }

    fn store(&mut self, rank: u32, slot: Slot, values: &[Terms]) {
        for (chunk, value) in (0..).zip(values) {
            let slot = canonical(self.placement, slot.offset(chunk));
            self.memory.insert((rank, slot), value.clone());
        }
    }

    fn sum(one: &[Terms], other: &[Terms]) -> Option<Vec<Terms>> {
        let sums: Vec<_> = one
            .iter()
            .zip(other)
            .map(|(one, other)| [one.clone(), other.clone()].concat())
            .collect();
        sums.iter().all(|sum| sum.len() <= TERMS).then_some(sums)
    }

    /// Whether two places overlap without being one, which no step may do.
    fn is_skewed(&self, one: Slot, other: Slot, count: u32) -> bool {
        let (one, other) = (canonical(self.placement, one), canonical(self.placement, other));
        one != other && one.buffer == other.buffer && one.index.abs_diff(other.index) < count
    }

    fn at_home(&mut self) {
        let rank = self.numbers.below(u64::from(self.ranks)) as u32;
        let count = 1 + u32::from(self.numbers.below(4) == 0);
        let tb = self.numbers.below(self.blocks[rank as usize].len() as u64) as usize;
        let to = self.place(count, true);
        for _ in 0..1 + self.numbers.below(3) {
            let from = self.place(count, false);
            if self.is_skewed(from, to, count) {
                continue;
            }
            let adds = self.numbers.below(3) > 0;
            let (own, other) = (self.load(rank, to, count), self.load(rank, from, count));
            let same = canonical(self.placement, from) == canonical(self.placement, to);
            let (values, code) = match Self::sum(&own, &other).filter(|_| adds) {
                Some(values) => (
                    values,
                    step(&[Place::Local(to), Place::Local(from)], &[Place::Local(to)], count),
                ),
                None if same => continue,
                None => (other, step(&[Place::Local(from)], &[Place::Local(to)], count)),
            };
            self.store(rank, to, &values);
            self.push(rank, tb, code);
        }
    }

    /// A message through the block that both ranks have for one another, and perhaps back.
    fn between_two(&mut self) {
        let from = self.numbers.below(u64::from(self.ranks)) as u32;
        let to = (from + 1 + self.numbers.below(u64::from(self.ranks - 1)) as u32) % self.ranks;
        let count = 1 + u32::from(self.numbers.below(3) == 0);
        let source = self.place(count, false);
        let message = self.load(from, source, count);
        let code = step(&[Place::Local(source)], &[Place::Link(Rank(to))], count);
        self.push(from, self.pair(from, to), code);
        let back = (self.numbers.below(3) == 0).then_some(from);
        let passed = self.take(to, self.pair(to, from), from, back, &message);
        if back.is_some() {
            self.take(from, self.pair(from, to), to, None, &passed);
        }
    }

    fn round_the_ring(&mut self) {
        let mut rank = self.numbers.below(u64::from(self.ranks)) as u32;
        let ring = self.ranks as usize;
        let count = 1 + u32::from(self.numbers.below(3) == 0);
        let source = self.place(count, false);
        let mut message = self.load(rank, source, count);
        let next = |rank: u32| (rank + 1) % self.ranks;
        let first = next(rank);
        let code = step(&[Place::Local(source)], &[Place::Link(Rank(first))], count);
        self.push(rank, ring, code);
        let hops = 1 + self.numbers.below(4);
        for hop in 0..hops {
            let (last, here) = (rank, (rank + 1) % self.ranks);
            let on = (hop + 1 < hops).then_some((here + 1) % self.ranks);
            message = self.take(here, ring, last, on, &message);
            rank = here;
        }
    }

    fn pair(&self, rank: u32, peer: u32) -> usize {
        1 + (if peer > rank { peer - 1 } else { peer }) as usize
    }

    /// Takes a message at `rank`, and passes on what it becomes.
    fn take(
        &mut self,
        rank: u32,
        tb: usize,
        from: u32,
        on: Option<u32>,
        message: &[Terms],
    ) -> Vec<Terms> {
        let count = message.len() as u32;
        let to = self.place(count, true);
        let own = self.place(count, false);
        let link = Place::Link(Rank(from));
        let sum = Self::sum(message, &self.load(rank, own, count));
        let sum =
            sum.filter(|_| !self.is_skewed(own, to, count)).filter(|_| self.numbers.below(2) == 0);
        let keeps = on.is_none() || sum.is_none() || self.numbers.below(2) == 0;
        let mut destinations = Vec::new();
        destinations.extend(keeps.then_some(Place::Local(to)));
        destinations.extend(on.map(|next| Place::Link(Rank(next))));
        let (values, code) = match sum {
            Some(values) => (values, step(&[link, Place::Local(own)], &destinations, count)),
            None => (message.to_vec(), step(&[link], &destinations, count)),
        };
        if keeps {
            self.store(rank, to, &values);
        }
        self.push(rank, tb, code);
        values
    }

    /// Appends a step that waits, most often, for all that the rank's other blocks have done so
    /// far.
    fn push(&mut self, rank: u32, tb: usize, mut code: Step) {
        let blocks = &self.blocks[rank as usize];
        let mut waits = Vec::new();
        for (other, block) in blocks.iter().enumerate().filter(|(other, _)| *other != tb) {
            let last = block.steps.iter().rposition(|step| step.count > 0);
            let wait =
                last.map(|step| Wait { tb: TbIndex::from(other), step: StepIndex::from(step) });
            let skips = self.numbers.below(7) == 0;
            waits.extend(wait.filter(|_| !skips));
        }
        let steps = &mut self.blocks[rank as usize][tb].steps;
        let last = waits.pop();
        let nops = waits
            .into_iter()
            .map(|wait| Step { waits: [wait].into_iter().collect(), ..Step::default() });
        steps.extend(nops);
        code.waits.extend(last);
        steps.push(code);
    }
}
