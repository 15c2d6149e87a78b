//! Executes a realised program, one load or store at a time.
//!
//! A thread block runs its steps in order; a bundle is one unit of several steps. A unit waits for
//! the steps, messages and free entries that its steps need, makes its loads and stores one by one,
//! and then posts its messages, gives back its slots, and ends. Chunks follow one another; of one
//! chunk, loads come before stores, in any order among themselves.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use msccl_collective::{Buffer, Contribution, Promise, Rank, Slot};
use msccl_ir::{Algorithm, Step};
use msccl_machine::{TbId, Wiring};
use msccl_testkit::Numbers;
use msccl_verify::{Bundle, Delivery, DirectLink, LinkAccess, Touch, Verified};

use super::averaging::Averaging;
use super::micros::{ChunkOfStep, micros};
use super::parts::{Block, Met, Micro, Queue, Target};
use crate::definition::{Message, messages};

/// What a cell holds: a sum of contributions, distinguished by random numbers.
pub type Value = u64;

/// What is realised.
pub struct Choice {
    pub links: Vec<DirectLink>,
    pub bundles: Vec<Bundle>,
}

impl Choice {
    pub fn none() -> Self {
        Self { links: Vec::new(), bundles: Vec::new() }
    }

    /// A random part of `links`, most of them, and random parts of `bundles`.
    pub fn random(links: &[DirectLink], bundles: &[Bundle], numbers: &mut Numbers) -> Self {
        let links = links.iter().filter(|_| numbers.below_u32(8) > 0).cloned().collect();
        let bundles = bundles.iter().filter(|_| numbers.below_u32(2) > 0).cloned();
        Self { links, bundles: bundles.collect() }
    }
}

/// How a run went.
pub enum Outcome {
    /// By round: the outputs of every rank, when its last thread block had ended.
    Ended(Vec<Vec<Vec<Value>>>),
    Stuck,
}

pub struct Executor<'a> {
    algorithm: &'a Algorithm,
    wiring: Wiring<'a>,
    messages: Vec<Message>,
    direct: BTreeMap<usize, DirectLink>,
    bundles: BTreeMap<(Rank, u32), usize>,
    rounds: u32,
    in_place: bool,
    averaging: Averaging,
    depth: Vec<u32>,
    cells: BTreeMap<(u32, Rank, Slot), Value>,
    blocks: Vec<Block>,
    queues: Vec<Queue>,
    outputs: BTreeMap<(u32, Rank), Vec<Value>>,
    returned: BTreeSet<Rank>,
    /// By link: how far the sender was ahead at most.
    pub most_ahead: Vec<u32>,
    pub accesses: BTreeSet<LinkAccess>,
}

/// The first content of a slot: an input's contribution, or junk of some kind.
fn first(rank: Rank, slot: Slot, junk: u32) -> Value {
    let tag = u64::from(rank.0) << 40 | (slot.buffer as u64) << 32 | u64::from(slot.index);
    (tag + (u64::from(junk) << 50) + 1).wrapping_mul(0xd134_2543_de82_ef95).rotate_left(23)
}

impl<'a> Executor<'a> {
    /// `rounds` rounds; links whose senders are never further ahead than their depth need no waits.
    pub fn new(verified: &'a Verified, choice: &Choice, rounds: u32) -> Self {
        let algorithm = verified.algorithm();
        let wiring = Wiring::new(algorithm).expect("validated");
        let depth = verified.facts().least_link_depth;
        let facts = verified.link_facts();
        let depths = facts.iter().map(|facts| match facts.messages_ahead_max {
            Some(ahead) if ahead <= 4 => u32::MAX,
            _ => depth,
        });
        let direct = choice.links.iter().map(|link| {
            let position = facts
                .iter()
                .position(|it| (it.from, it.to, it.channel) == (link.from, link.to, link.channel));
            (position.expect("a link"), link.clone())
        });
        let bundles = choice.bundles.iter().map(|bundle| {
            let Bundle { rank, tb, steps } = bundle.clone();
            let tb = wiring.tb_id(rank, tb);
            ((rank, tb.0 << 16 | steps.start), (steps.end - steps.start) as usize)
        });
        let bundles = bundles.collect();
        Self {
            messages: messages(algorithm),
            direct: direct.collect(),
            bundles,
            rounds,
            in_place: algorithm.placement.serves_in_place(),
            averaging: Averaging::None,
            depth: depths.collect(),
            cells: BTreeMap::new(),
            blocks: (0..wiring.tb_count()).map(|_| Block::default()).collect(),
            queues: (0..wiring.links().len()).map(|_| Queue::default()).collect(),
            outputs: BTreeMap::new(),
            returned: BTreeSet::new(),
            most_ahead: vec![0; wiring.links().len()],
            accesses: BTreeSet::new(),
            algorithm,
            wiring,
        }
    }

    /// Has the call average, in place or not.
    pub fn averaging(mut self, averaging: Averaging, in_place: bool) -> Self {
        (self.averaging, self.in_place) = (averaging, in_place);
        self
    }

    /// What output `index` of `rank` must hold, if anything is promised.
    pub fn promised(&self, rank: Rank, index: u32) -> Option<Value> {
        let promise = self.algorithm.collective.promised(rank, index)?;
        let contributions: Vec<_> = match promise {
            Promise::One(one) => vec![one],
            Promise::EveryRank { index } => {
                let ranks = self.algorithm.collective.all_ranks();
                ranks.map(|rank| Contribution { rank, index }).collect()
            }
            Promise::Sum(all) => all,
        };
        let values = contributions.into_iter().map(|Contribution { rank, index }| {
            first(rank, self.memory(rank, Slot::new(Buffer::Input, index)), 0)
        });
        Some(self.averaging.of(&values.collect::<Vec<_>>()))
    }

    /// One round, in which every unit that may run does so at once and in whole.
    pub fn run_in_order(mut self) -> Vec<Vec<Value>> {
        let mut moved = true;
        while moved {
            moved = false;
            for tb in 0..self.blocks.len() {
                while self.can_begin(tb) {
                    self.begin(tb);
                    while !self.blocks[tb].open.is_empty() {
                        self.touch(tb, 0);
                    }
                    self.end(tb);
                    moved = true;
                }
            }
        }
        self.outcome().map(|mut rounds| rounds.swap_remove(0)).expect("a proved algorithm ends")
    }

    /// All rounds, in random order.
    pub fn run(&mut self, numbers: &mut Numbers) -> Outcome {
        loop {
            let ready: Vec<_> = (0..self.blocks.len())
                .filter(|&tb| self.blocks[tb].has_begun || self.can_begin(tb))
                .collect();
            if ready.is_empty() {
                break;
            }
            let tb = ready[numbers.index(ready.len())];
            // Some blocks are quick for a while.
            for _ in 0..1 + numbers.below_u32(6) {
                if !self.blocks[tb].has_begun {
                    if self.can_begin(tb) {
                        self.begin(tb);
                    }
                } else if let Some(now) = self.blocks[tb].open.front() {
                    let pick = self.pick(now, numbers);
                    self.touch(tb, pick);
                } else {
                    self.end(tb);
                }
            }
        }
        self.outcome().map_or(Outcome::Stuck, Outcome::Ended)
    }

    /// Any load that is left, or any store if none is.
    fn pick(&self, open: &[Micro], numbers: &mut Numbers) -> usize {
        let of = |touch| {
            let all = open.iter().enumerate().filter(move |(_, micro)| micro.touch == touch);
            all.map(|(at, _)| at).collect::<Vec<_>>()
        };
        let loads = of(Touch::Load);
        let of_kind = if loads.is_empty() { of(Touch::Store) } else { loads };
        of_kind[numbers.index(of_kind.len())]
    }

    fn outcome(&self) -> Option<Vec<Vec<Vec<Value>>>> {
        let all = self.blocks.iter().enumerate().all(|(tb, block)| {
            let empty = self.wiring.block(TbId(tb as u32)).steps.is_empty();
            empty || block.round == self.rounds
        });
        let ranks = || self.algorithm.collective.all_ranks();
        let outputs = |round| {
            ranks().map(move |rank| self.outputs.get(&(round, rank)).cloned().unwrap_or_default())
        };
        all.then(|| (0..self.rounds).map(|round| outputs(round).collect()).collect())
    }

    fn steps(&self, tb: usize) -> &'a [Step] {
        &self.wiring.block(TbId(tb as u32)).steps
    }

    /// How many steps the next unit of a thread block has.
    fn unit(&self, tb: usize) -> usize {
        let rank = self.wiring.rank(TbId(tb as u32));
        let key = (tb as u32) << 16 | self.blocks[tb].step as u32;
        self.bundles.get(&(rank, key)).copied().unwrap_or(1)
    }

    fn met(&self, tb: usize, step: usize, sends: bool) -> Vec<Met> {
        let at = self.wiring.step_ref(TbId(tb as u32), step as u32);
        let end = |message: &&Message| if sends { message.send } else { message.receive };
        let messages = self.messages.iter().filter(|message| end(message) == at);
        let met = messages.map(|&message| {
            let direct = self.direct.get(&message.link).map(|link| {
                let mut of_link = link.messages.iter();
                let sent = of_link.find(|sent| sent.send == message.send).expect("its message");
                (link.delivery, *sent)
            });
            Met { link: message.link, message, direct }
        });
        met.collect()
    }

    fn can_begin(&self, tb: usize) -> bool {
        let block = &self.blocks[tb];
        if block.has_begun || block.round == self.rounds || self.steps(tb).is_empty() {
            return false;
        }
        let rank = self.wiring.rank(TbId(tb as u32));
        let mut units = block.step..block.step + self.unit(tb);
        units.all(|step| {
            let waits = self.steps(tb)[step].waits.iter().all(|wait| {
                let other = self.wiring.tb_id(rank, wait.tb).index();
                let a_round = self.steps(other).len() as u32;
                self.blocks[other].ended > block.round * a_round + wait.step.0
            });
            let messages = self.met(tb, step, false).iter().all(|met| {
                let queue = &self.queues[met.link];
                queue.posted > queue.taken
            });
            let room = self.met(tb, step, true).iter().all(|met| {
                let queue = &self.queues[met.link];
                // What is delivered directly takes no slot.
                met.direct.is_some() || queue.posted - queue.received < self.depth[met.link]
            });
            waits && messages && room
        })
    }

    /// Lists the loads and stores of the next unit.
    fn begin(&mut self, tb: usize) {
        let first = self.blocks[tb].step;
        let rank = self.wiring.rank(TbId(tb as u32));
        let mut open = VecDeque::new();
        for step in first..first + self.unit(tb) {
            let code = &self.steps(tb)[step];
            let (takes, sends) = (self.met(tb, step, false), self.met(tb, step, true));
            for chunk in 0..code.count {
                let of = ChunkOfStep { rank, step, code, chunk, takes: &takes, sends: &sends };
                open.push_back(micros(of));
            }
        }
        let block = &mut self.blocks[tb];
        block.open = open.into_iter().filter(|micros| !micros.is_empty()).collect();
        block.has_begun = true;
    }

    fn touch(&mut self, tb: usize, pick: usize) {
        let block = &mut self.blocks[tb];
        let round = block.round;
        let open = block.open.front_mut().expect("something to do");
        let micro = open.remove(pick);
        if open.is_empty() {
            block.open.pop_front();
        }
        self.accesses.extend(micro.access);
        let key = (micro.step, micro.chunk);
        let at = self.wiring.step_ref(TbId(tb as u32), micro.step as u32);
        match micro.touch {
            Touch::Load => {
                let value = match micro.target {
                    Target::Cell(rank, slot) => *self.cell(round, rank, slot),
                    Target::Slot { link } => {
                        let queue = &self.queues[link];
                        queue.slots[&(queue.taken, micro.chunk)]
                    }
                };
                let value = self.averaging.load(at, micro.source, value);
                let sum = self.blocks[tb].sums.entry(key).or_insert(0);
                *sum = sum.wrapping_add(value);
            }
            Touch::Store => {
                let sum = self.averaging.store(at, self.blocks[tb].sums[&key]);
                match micro.target {
                    Target::Cell(rank, slot) => *self.cell(round, rank, slot) = sum,
                    Target::Slot { link } => {
                        let queue = &mut self.queues[link];
                        queue.slots.insert((queue.posted, micro.chunk), sum);
                    }
                }
            }
        }
    }

    /// In place, input and output are one memory.
    fn memory(&self, rank: Rank, slot: Slot) -> Slot {
        if self.in_place { self.algorithm.collective.in_place(rank, slot) } else { slot }
    }

    fn cell(&mut self, round: u32, rank: Rank, slot: Slot) -> &mut Value {
        let slot = self.memory(rank, slot);
        let holds_input =
            slot.buffer == Buffer::Input || slot.buffer == Buffer::Output && self.in_place;
        let entry = self.cells.entry((round, rank, slot));
        entry.or_insert_with(|| first(rank, slot, if holds_input { 0 } else { round + 1 }))
    }

    /// Ends the unit: posts, gives back slots, signals; begins the next round after the last step.
    fn end(&mut self, tb: usize) {
        let (first, unit) = (self.blocks[tb].step, self.unit(tb));
        for step in first..first + unit {
            for met in self.met(tb, step, true) {
                let queue = &mut self.queues[met.link];
                queue.posted += 1;
                let ahead = &mut self.most_ahead[met.link];
                *ahead = (*ahead).max(queue.posted - queue.received);
            }
            for met in self.met(tb, step, false) {
                let queue = &mut self.queues[met.link];
                queue.taken += 1;
                queue.received += 1;
            }
        }
        let steps = self.steps(tb).len();
        let block = &mut self.blocks[tb];
        block.ended += unit as u32;
        block.step += unit;
        block.has_begun = false;
        block.sums.clear();
        if block.step == steps {
            block.step = 0;
            block.round += 1;
        }
        self.give_back();
    }

    /// A rank whose thread blocks have all ended returns to its caller, who reads the output and
    /// uses both buffers for something else; if links ask for acknowledgements, only when all is
    /// received.
    fn give_back(&mut self) {
        for rank in self.algorithm.collective.all_ranks() {
            let ended = self.wiring.tbs_of(rank).all(|tb| {
                let tb = tb as usize;
                self.steps(tb).is_empty() || self.blocks[tb].round == self.rounds
            });
            let received = self.direct.iter().all(|(&link, direct)| {
                let asks = matches!(direct.delivery, Delivery::Pull { acknowledgement: true });
                let sends = self.wiring.rank(self.wiring.links()[link].sender) == rank;
                let queue = &self.queues[link];
                !(asks && sends) || queue.posted == queue.received
            });
            if ended && received && self.returned.insert(rank) {
                (0..self.rounds).for_each(|round| self.read_output(round, rank));
            }
        }
    }

    fn read_output(&mut self, round: u32, rank: Rank) {
        let outputs = self.algorithm.collective.output_chunks(rank);
        let slots = (0..outputs).map(|index| Slot::new(Buffer::Output, index));
        let output = slots.map(|slot| *self.cell(round, rank, slot)).collect();
        self.outputs.insert((round, rank), output);
        for buffer in [Buffer::Input, Buffer::Output] {
            let chunks = self.algorithm.collective.buffer_chunks(rank, buffer);
            for index in 0..chunks {
                *self.cell(round, rank, Slot::new(buffer, index)) = 0xdead;
            }
        }
    }
}
