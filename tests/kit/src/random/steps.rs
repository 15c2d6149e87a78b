//! Random programs that exchange messages in one order of all, so that they end; some race.

use std::sync::Arc;

use msccl_collective::{Custom, Kind, Placement};
use msccl_ir::{Algorithm, Place, Step};

use super::sequential::Sequential;
use crate::Numbers;
use crate::by_hand::{StepExt, algorithm, i, nop, o, r, step, t, tb};

const RANKS: u32 = 3;

/// Chunks of an input and of an output.
const CHUNKS: u32 = 3;

/// A program under way.
struct Growing {
    numbers: Numbers,
    ranks: Vec<Vec<Vec<Step>>>,
    /// By rank: whether one block owns all links, or each the links of one peer.
    joined: [bool; RANKS as usize],
    /// The largest count of a step.
    count_max: u32,
    /// What the steps so far compute, if the program is to promise that.
    sums: Option<Sequential>,
}

/// Summands of a value at most.
const TERMS: usize = 10;

/// The program of that number: three ranks of two thread blocks each, which promise nothing.
pub fn random(seed: u64) -> Algorithm {
    let placement = match seed % 3 {
        0 => Placement::InPlace,
        _ => Placement::OutOfPlace,
    };
    let mut growing = Growing::new(seed, None);
    for _ in 0..2 + growing.numbers.below_u32(7) {
        match growing.numbers.below_u32(7) {
            0 => growing.copy(),
            1 if growing.count_max == 1 => growing.fan(),
            _ => growing.message(),
        }
    }
    growing.finish(placement)
}

/// The same with more additions; every output promises what it holds if steps run one after the
/// other.
pub fn random_sums(seed: u64) -> Algorithm {
    let placement = match seed % 4 {
        0 => Placement::InPlace,
        1 => Placement::OutOfPlace,
        _ => Placement::Both,
    };
    let in_place = placement == Placement::InPlace;
    let mut growing = Growing::new(seed, Some(Sequential::new(RANKS, CHUNKS, in_place)));
    for _ in 0..2 + growing.numbers.below_u32(6) {
        match growing.numbers.below_u32(7) {
            0 => growing.copy(),
            1 | 2 => growing.reduce(),
            3 if growing.count_max == 1 => growing.fan(),
            _ => growing.message(),
        }
    }
    growing.finish(placement)
}

impl Growing {
    fn new(seed: u64, sums: Option<Sequential>) -> Self {
        let mut numbers = Numbers(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let joined = [0; RANKS as usize].map(|_| numbers.below_u32(2) == 0);
        let ranks = vec![vec![Vec::new(), Vec::new()]; RANKS as usize];
        let count_max = 1 + numbers.below_u32(2);
        let mut growing = Self { numbers, ranks, joined, count_max, sums };
        for rank in 0..RANKS {
            growing.append(rank, 0, step(&[i(0)], &[o(0)]).times(CHUNKS), false);
            growing.append(rank, 0, step(&[i(0)], &[t(0)]).times(CHUNKS), false);
            growing.append(rank, 1, nop(0, 1), false);
        }
        growing
    }

    fn finish(self, placement: Placement) -> Algorithm {
        let ranks = self.ranks.into_iter();
        let ranks = ranks.map(|blocks| blocks.into_iter().map(|steps| tb(0, steps)).collect());
        let name = "random".to_owned();
        let contract = self.sums.map(|sums| sums.contract(RANKS));
        let custom = Custom { name, input_chunks: CHUNKS, output_chunks: CHUNKS, contract };
        Algorithm { placement, ..algorithm(Kind::Custom(Arc::new(custom)), 1, ranks.collect()) }
    }

    /// Adds up within a rank.
    fn reduce(&mut self) {
        let rank = self.numbers.below_u32(RANKS);
        let count = 1 + self.numbers.below_u32(self.count_max);
        let to = self.place(count, 2);
        let (one, other) = (self.place(count, 4), self.place(count, 4));
        let sources: &[Place] = match self.numbers.below_u32(3) {
            0 => &[to, one],
            1 => &[one, other],
            _ => &[to, one, other],
        };
        let skewed = |one: Place, other: Place| one != other && !apart(one, other, count);
        let all = || sources.iter().chain([&to]);
        let is_skewed = all().any(|&one| all().any(|&other| skewed(one, other)));
        let terms = sources.iter().map(|&source| self.terms(rank, source)).sum::<usize>();
        if !is_skewed && terms <= TERMS {
            let block = self.numbers.index(2);
            self.push(rank, block, step(sources, &[to]).times(count));
        }
    }

    /// The largest number of summands in the chunks at `place`.
    fn terms(&self, rank: u32, place: Place) -> usize {
        self.sums.as_ref().map_or(0, |sums| sums.terms(rank, place))
    }

    /// A copy within a rank.
    fn copy(&mut self) {
        let rank = self.numbers.below_u32(RANKS);
        let (from, to) = (self.place(1, 4), self.place(1, 2));
        let block = self.numbers.index(2);
        if from != to {
            self.push(rank, block, step(&[from], &[to]));
        }
    }

    /// A message to each of the others, which they send on to nobody.
    fn fan(&mut self) {
        let rank = self.numbers.below_u32(RANKS);
        let peers = [1, 2].map(|step| (rank + step) % RANKS);
        let sources = [self.place(1, 4), self.place(1, 4)];
        let waits = self.waits();
        for (number, (peer, source)) in peers.into_iter().zip(sources).enumerate() {
            let waits = waits && (number == 0 || !self.joined[rank as usize]);
            self.append(rank, self.owner(rank, peer), step(&[source], &[r(peer)]), waits);
        }
        for peer in peers {
            let code = self.receive(rank, None, 1);
            self.push(peer, self.owner(peer, rank), code);
        }
    }

    /// One message, and those by which it is passed on.
    fn message(&mut self) {
        let count = if self.numbers.below_u32(4) == 0 { self.count_max } else { 1 };
        let mut sender = self.numbers.below_u32(RANKS);
        let mut receiver = self.another(sender);
        let source = self.place(count, 4);
        let kept = self.place(count, 2);
        let keeps = self.numbers.below_u32(6) == 0 && apart(source, kept, count);
        let destinations: Vec<_> = keeps.then_some(kept).into_iter().chain([r(receiver)]).collect();
        let code = step(&[source], &destinations).times(count);
        self.push(sender, self.owner(sender, receiver), code);
        loop {
            let next = (self.numbers.below_u32(4) == 0).then(|| self.another(receiver));
            let owner = self.owner(receiver, sender);
            let next = next.filter(|&next| self.owner(receiver, next) == owner);
            let code = self.receive(sender, next, count);
            self.push(receiver, owner, code);
            let Some(next) = next else { break };
            (sender, receiver) = (receiver, next);
        }
    }

    /// A step of the receiver of a message from `sender` that may pass it on.
    fn receive(&mut self, sender: u32, next: Option<u32>, count: u32) -> Step {
        let adds = self.numbers.below_u32(if self.sums.is_some() { 2 } else { 4 }) == 0;
        let first = self.place(count, 2);
        let further = self.place(count, 2);
        let mut destinations = vec![first];
        if self.numbers.below_u32(3) == 0 && apart(first, further, count) {
            destinations.push(further);
        }
        destinations.extend(next.map(r));
        let sources = if adds { vec![r(sender), first] } else { vec![r(sender)] };
        step(&sources, &destinations).times(count)
    }

    fn owner(&self, rank: u32, peer: u32) -> usize {
        if self.joined[rank as usize] { 0 } else { ((peer + RANKS - rank) % RANKS) as usize - 1 }
    }

    fn another(&mut self, rank: u32) -> u32 {
        (rank + 1 + self.numbers.below_u32(RANKS - 1)) % RANKS
    }

    /// A place for `count` chunks; output more often than others.
    fn place(&mut self, count: u32, kinds: u32) -> Place {
        let index = self.numbers.below_u32(4 - count);
        match self.numbers.below_u32(kinds + 1) {
            0 | 1 => o(index),
            2 => t(index),
            _ => i(index),
        }
    }

    /// Appends `code` to a block of `rank`; most often it waits for all that the other has done so
    /// far.
    fn push(&mut self, rank: u32, block: usize, code: Step) {
        let waits = self.waits();
        self.append(rank, block, code, waits);
    }

    fn waits(&mut self) -> bool {
        self.numbers.below_u32(8) > 0
    }

    fn append(&mut self, rank: u32, block: usize, code: Step, waits: bool) {
        let blocks = &mut self.ranks[rank as usize];
        let others = blocks[1 - block].len() as u32;
        let code = if waits { code.after(1 - block as u32, others - 1) } else { code };
        if let Some(sums) = &mut self.sums {
            sums.step(rank, &code);
        }
        blocks[block].push(code);
    }
}

/// Whether two places share no memory, in place or out of place.
fn apart(one: Place, other: Place, count: u32) -> bool {
    let (Place::Local(one), Place::Local(other)) = (one, other) else { return true };
    one.index.abs_diff(other.index) >= count
}
