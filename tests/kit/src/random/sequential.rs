//! What slots hold if steps run one after the other in the order in which they are appended: the
//! contract of a random program.

use std::collections::{BTreeMap, VecDeque};
use std::convert::Infallible;

use msccl_collective::{Buffer, Contract, Contribution, Rank, Slot};
use msccl_ir::{Place, Step};
use msccl_machine::{Machine, execute};

type Terms = Vec<Contribution>;

/// Memory and messages of all ranks.
pub struct Sequential {
    chunks: u32,
    in_place: bool,
    memory: BTreeMap<(u32, Slot), Terms>,
    links: BTreeMap<(u32, u32), VecDeque<Terms>>,
    rank: u32,
}

impl Sequential {
    /// `ranks` ranks with inputs of `chunks` chunks, and outputs of as many.
    pub fn new(ranks: u32, chunks: u32, in_place: bool) -> Self {
        let (memory, links) = (BTreeMap::new(), BTreeMap::new());
        let mut sequential = Self { chunks, in_place, memory, links, rank: 0 };
        for one in sequential.given(ranks) {
            let slot = sequential.alias(Slot::new(Buffer::Input, one.index));
            sequential.memory.insert((one.rank.0, slot), vec![one]);
        }
        sequential
    }

    pub fn step(&mut self, rank: u32, step: &Step) {
        self.rank = rank;
        match execute(step, 0..step.count, self) {
            Ok(()) => {}
            Err(never) => match never {},
        }
    }

    /// The number of contributions in a chunk of `slot`.
    pub fn terms(&self, rank: u32, place: Place) -> usize {
        let Place::Local(slot) = place else { return 0 };
        self.memory.get(&(rank, self.alias(slot))).map_or(0, Vec::len)
    }

    /// Every output holds what it holds now.
    pub fn contract(&self, ranks: u32) -> Contract {
        let mut promised = BTreeMap::new();
        for ((rank, slot), terms) in &self.memory {
            if slot.buffer == Buffer::Output && slot.index < self.chunks && !terms.is_empty() {
                let mut terms = terms.clone();
                terms.sort_unstable();
                promised.insert((Rank(*rank), slot.index), terms);
            }
        }
        Contract { given: self.given(ranks).into_iter().collect(), promised }
    }

    fn given(&self, ranks: u32) -> Vec<Contribution> {
        let of = |rank| (0..self.chunks).map(move |index| Contribution { rank: Rank(rank), index });
        (0..ranks).flat_map(of).collect()
    }

    fn alias(&self, slot: Slot) -> Slot {
        let is_output = self.in_place && slot.buffer == Buffer::Input;
        if is_output { Slot { buffer: Buffer::Output, ..slot } } else { slot }
    }
}

impl Machine for Sequential {
    type Sum = Terms;
    type Value = Terms;
    type Error = Infallible;

    fn read(&mut self, from: Place) -> Result<Terms, Infallible> {
        Ok(match from {
            Place::Local(slot) => {
                self.memory.get(&(self.rank, self.alias(slot))).cloned().unwrap_or_default()
            }
            Place::Link(peer) => {
                let link = self.links.entry((peer.0, self.rank)).or_default();
                link.pop_front().expect("a message that was sent before")
            }
        })
    }

    fn add(&mut self, mut sum: Terms, from: Place) -> Result<Terms, Infallible> {
        sum.extend(self.read(from)?);
        Ok(sum)
    }

    fn round(&mut self, sum: Terms) -> Terms {
        sum
    }

    fn write(&mut self, to: Place, value: &Terms) -> Result<(), Infallible> {
        match to {
            Place::Local(slot) => {
                self.memory.insert((self.rank, self.alias(slot)), value.clone());
            }
            Place::Link(peer) => {
                self.links.entry((self.rank, peer.0)).or_default().push_back(value.clone());
            }
        }
        Ok(())
    }
}
