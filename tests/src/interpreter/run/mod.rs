//! What thread blocks do with their programs.
//!
//! A store is seen by its own thread block at once and by others later: when the block sets a flag,
//! when it posts a message of Simple (which has a fence), or at some time in between.

mod elements;
mod links;
mod steps;

use std::collections::HashMap;

use msccl_collective::{Buffer, Collective, Protocol, Rank, Slot};
use msccl_testkit::Numbers;

use self::elements::Element;
use super::parse::{Block, Program};
use super::proxy::Wire;
use super::{ITERATIONS, Interpreter, effective_bytes, slice_bytes};

/// A number as memory holds it: the sum of what went into it, and the tree of its additions, in
/// which the two summands of one addition may change places.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Value {
    pub sum: u64,
    pub tree: u64,
}

impl Value {
    pub fn one(seed: u64) -> Self {
        let mixed = (seed + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29);
        Self { sum: mixed, tree: mixed ^ 0x5555 }
    }

    pub fn plus(self, other: Self) -> Self {
        let (low, high) = (self.tree.min(other.tree), self.tree.max(other.tree));
        let tree = low.wrapping_mul(0xbf58_476d_1ce4_e5b9).rotate_left(31)
            ^ high.wrapping_mul(0x94d0_49bb);
        Self {
            sum: self.sum.wrapping_add(other.sum),
            tree: tree.wrapping_mul(0x2545_f491_4f6c_dd1d),
        }
    }
}

/// One call: so many elements of four bytes in a chunk.
#[derive(Clone, Copy, Debug)]
pub struct Call {
    pub chunk_elements: u64,
    pub in_place: bool,
    /// Links to ranks of other nodes have proxies.
    pub ranks_per_node: u32,
}

/// A slot of a rank, in one round, at one of the sampled elements.
type Cell = (u32, Slot, u64, u64);

#[derive(Default)]
struct Fifo {
    lines: HashMap<(u64, u64), Value>,
    sent: u64,
    taken: u64,
    posted: u64,
    freed: u64,
    /// If it leads to another node.
    wire: Option<Wire>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Phase {
    Waits,
    Message,
    Slice,
    Elements,
    Ended,
}

struct Thread {
    rank: u32,
    number: usize,
    round: u64,
    at: usize,
    chunk: i64,
    slice: u64,
    step: i64,
    phase: Phase,
    elements: Vec<Element>,
    /// Stores that others do not see yet.
    pending: Vec<(Cell, Value)>,
}

/// How a run went: what every cell of output and input holds, by rank, slot, round and sample.
pub enum Outcome {
    Ended(HashMap<Cell, Value>),
    Stuck,
    /// An array of a thread block was overrun.
    Overrun,
}

pub struct Run<'a> {
    interpreter: Interpreter,
    collective: &'a Collective,
    programs: &'a [Program],
    call: Call,
    max_count: i64,
    threads: u64,
    rounds: u64,
    slice_elements: u64,
    fifos: Vec<Fifo>,
    ends: HashMap<(i64, i64, i64), usize>,
    flags: Vec<Vec<u64>>,
    memory: HashMap<Cell, Value>,
    blocks: Vec<Thread>,
    overrun: bool,
}

const ELEMENT_BYTES: u64 = 4;
const WORK_INDEX: u64 = 1;

impl<'a> Run<'a> {
    pub fn new(
        interpreter: Interpreter,
        collective: &'a Collective,
        programs: &'a [Program],
        call: Call,
    ) -> Self {
        let head = &programs[0];
        let chunk_bytes = call.chunk_elements * ELEMENT_BYTES;
        let effective = effective_bytes(head.protocol, &head.collective);
        let slice_elements = slice_bytes(head.protocol) / ELEMENT_BYTES;
        let mut blocks = Vec::new();
        for (rank, program) in (0..).zip(programs) {
            for number in 0..program.blocks.len() {
                blocks.push(Thread {
                    rank,
                    number,
                    round: 0,
                    at: 0,
                    chunk: 0,
                    slice: 0,
                    step: 0,
                    phase: Phase::Waits,
                    elements: Vec::new(),
                    pending: Vec::new(),
                });
            }
        }
        Self {
            interpreter,
            collective,
            programs,
            call,
            max_count: (effective / chunk_bytes.max(1)).clamp(1, 71) as i64,
            threads: interpreter.threads(head.protocol, head.threads),
            rounds: call.chunk_elements.div_ceil(slice_elements),
            slice_elements,
            fifos: Vec::new(),
            ends: HashMap::new(),
            flags: programs.iter().map(|program| vec![0; program.blocks.len()]).collect(),
            memory: HashMap::new(),
            blocks,
            overrun: false,
        }
    }

    /// Puts `value` of round, slot and sample of an input into memory.
    pub fn fill(&mut self, value: impl Fn(u32, u32, u64, u64) -> Value) {
        for rank in self.collective.all_ranks() {
            for index in 0..self.collective.input_chunks(rank) {
                for round in 0..self.rounds {
                    for sample in 0..self.samples(round) {
                        let slot = Slot::new(Buffer::Input, index);
                        let cell = self.cell(rank.0, slot, round, sample);
                        self.memory.insert(cell, value(rank.0, index, round, sample));
                    }
                }
            }
        }
    }

    pub fn run(&mut self, numbers: &mut Numbers) -> Outcome {
        let mut idle = 0;
        while idle < 8 {
            let pick = numbers.below(self.blocks.len() as u64) as usize;
            let mut moved = self.burst(pick, numbers);
            moved |= self.progress(numbers);
            if !moved {
                // Whoever can go on, from a random one on.
                moved = (0..self.blocks.len())
                    .any(|next| self.burst((pick + next) % self.blocks.len(), numbers));
            }
            idle = if moved { 0 } else { idle + 1 };
            if self.overrun {
                return Outcome::Overrun;
            }
        }
        let all: Vec<_> = (0..self.blocks.len()).collect();
        let waits = all.iter().any(|&block| self.blocks[block].phase != Phase::Ended);
        let mut wires = self.fifos.iter().filter_map(|fifo| fifo.wire.as_ref());
        if waits || wires.any(|wire| !wire.is_done()) {
            return Outcome::Stuck;
        }
        all.into_iter().for_each(|block| self.flush(block));
        Outcome::Ended(std::mem::take(&mut self.memory))
    }

    /// The cell of a slot, with input and output as one memory in place.
    pub fn cell(&self, rank: u32, slot: Slot, round: u64, sample: u64) -> Cell {
        let slot =
            if self.call.in_place { self.collective.in_place(Rank(rank), slot) } else { slot };
        (rank, slot, round, sample)
    }

    pub fn rounds(&self) -> u64 {
        self.rounds
    }

    /// Elements of a chunk in a round.
    fn length(&self, round: u64) -> u64 {
        (self.call.chunk_elements - round * self.slice_elements).min(self.slice_elements)
    }

    /// Elements that are looked at.
    pub fn samples(&self, round: u64) -> u64 {
        self.length(round).min(2)
    }

    fn protocol(&self) -> Protocol {
        self.programs[0].protocol
    }

    fn block(&self, at: usize) -> &'a Block {
        let Thread { rank, number, .. } = self.blocks[at];
        &self.programs[rank as usize].blocks[number]
    }

    fn burst(&mut self, at: usize, numbers: &mut Numbers) -> bool {
        let mut moved = false;
        for _ in 0..1 + numbers.below(8) {
            moved |= self.tick(at, numbers);
            if numbers.below(6) == 0 {
                self.let_out(at, numbers);
            }
        }
        moved
    }

    /// What proxies do, in random order; whether they did anything.
    fn progress(&mut self, numbers: &mut Numbers) -> bool {
        let mut moved = false;
        for wire in self.fifos.iter_mut().filter_map(|fifo| fifo.wire.as_mut()) {
            let times = if numbers.below(3) == 0 { 0 } else { 1 + numbers.below(4) };
            (0..times).for_each(|_| moved |= wire.progress());
        }
        moved
    }

    /// Some store becomes visible to all.
    fn let_out(&mut self, at: usize, numbers: &mut Numbers) {
        let pending = &mut self.blocks[at].pending;
        if pending.is_empty() {
            return;
        }
        let (cell, _) = pending[numbers.below(pending.len() as u64) as usize];
        let first = pending.iter().position(|(other, _)| *other == cell).unwrap_or(0);
        let (cell, value) = pending.remove(first);
        self.memory.insert(cell, value);
    }

    fn flush(&mut self, at: usize) {
        for (cell, value) in std::mem::take(&mut self.blocks[at].pending) {
            self.memory.insert(cell, value);
        }
    }

    /// One thing that the thread block does, if it can.
    fn tick(&mut self, at: usize, numbers: &mut Numbers) -> bool {
        let code = self.block(at);
        let thread = &self.blocks[at];
        if thread.phase == Phase::Ended {
            return false;
        }
        if thread.round == self.rounds || code.transfers.is_empty() {
            self.blocks[at].phase = Phase::Ended;
            return true;
        }
        let transfer = &code.transfers[thread.at];
        match thread.phase {
            Phase::Waits => self.wait(at, code, transfer),
            Phase::Message => self.begin(at, code, transfer),
            Phase::Slice => self.begin_slice(at, code, transfer),
            Phase::Elements => self.element(at, code, transfer, numbers),
            Phase::Ended => false,
        }
    }

    fn flag(&self, round: u64, step: i64) -> u64 {
        let steps = self.interpreter.steps() as u64;
        ITERATIONS * steps * WORK_INDEX + round * steps + step as u64
    }
}
