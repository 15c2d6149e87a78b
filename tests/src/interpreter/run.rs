//! What thread blocks do with their programs.
//!
//! A store is seen by its own thread block at once and by others later: when the block sets a flag, when it
//! posts a message of Simple (which has a fence), or at some time in between.

use std::collections::{HashMap, VecDeque};

use msccl_collective::{Buffer, Collective, Protocol, Rank, Slot};

use super::parse::{Block, Kind, Program, Transfer};
use super::proxy::Wire;
use super::{ITERATIONS, Interpreter, REDUCE_FUSION, effective_bytes, slice_bytes};

/// A number as memory holds it: the sum of what went into it, and the tree of its additions, in which
/// the two summands of one addition may change places.
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

/// Random numbers.
pub struct Numbers(pub u64);

impl Numbers {
    pub fn below(&mut self, bound: u64) -> u64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % bound.max(1)
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

#[derive(Clone, Copy, Debug)]
enum Act {
    Load(Cell),
    Take(usize, u64, u64),
    Put(usize, u64, u64),
    Store(Cell),
}

#[derive(Default)]
struct Element {
    acts: VecDeque<Act>,
    value: Option<Value>,
}

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

    fn wait(&mut self, at: usize, code: &Block, transfer: &Transfer) -> bool {
        let (rank, round) = (self.blocks[at].rank as usize, self.blocks[at].round);
        let (first, number) = transfer.dependences;
        let steps = self.interpreter.steps() as u64;
        let seen = (0..number).filter(|&thread| (thread as u64) < self.threads).all(|thread| {
            let (block, step) = code.dependences[first + thread];
            let current = usize::try_from(block).ok().and_then(|block| self.flags[rank].get(block));
            current.is_some_and(|&current| {
                current >= self.flag(round, step) && current / (ITERATIONS * steps) == WORK_INDEX
            })
        });
        if seen {
            let thread = &mut self.blocks[at];
            thread.step += (number as i64 - 1).max(0);
            (thread.phase, thread.chunk) = (Phase::Message, 0);
        }
        seen
    }

    /// The next message of a step, or its end.
    fn begin(&mut self, at: usize, code: &Block, transfer: &Transfer) -> bool {
        if self.blocks[at].chunk >= transfer.count {
            self.end_step(at, code, transfer);
            return true;
        }
        let is_packet = self.protocol() != Protocol::Simple;
        if let Some(link) = self.outgoing(at, code, transfer).filter(|_| is_packet) {
            let fifo = &mut self.fifos[link];
            // `NCCL_STEPS` messages.
            let is_full = match &fifo.wire {
                Some(wire) => !wire.has_room(),
                None => fifo.posted >= fifo.freed + 8,
            };
            if is_full {
                return false;
            }
            fifo.wire.iter_mut().for_each(Wire::announce);
        }
        (self.blocks[at].phase, self.blocks[at].slice) = (Phase::Slice, 0);
        true
    }

    fn begin_slice(&mut self, at: usize, code: &Block, transfer: &Transfer) -> bool {
        if self.protocol() == Protocol::Simple {
            let (outgoing, incoming) =
                (self.outgoing(at, code, transfer), self.incoming(at, code, transfer));
            // Two of eight steps a slice.
            let room = |fifo: &Fifo| match &fifo.wire {
                Some(wire) => wire.has_room(),
                None => fifo.posted < fifo.freed + 4,
            };
            let there = |fifo: &Fifo| match &fifo.wire {
                Some(wire) => wire.has_slice(),
                None => fifo.posted > fifo.freed,
            };
            let is_ready = outgoing.is_none_or(|link| room(&self.fifos[link]))
                && incoming.is_none_or(|link| there(&self.fifos[link]));
            if !is_ready {
                return false;
            }
            let wire = outgoing.and_then(|link| self.fifos[link].wire.as_mut());
            wire.into_iter().for_each(Wire::announce);
        }
        let elements = self.elements(at, code, transfer);
        self.blocks[at].elements = elements;
        self.blocks[at].phase = Phase::Elements;
        true
    }

    fn link(&mut self, from: i64, to: i64, channel: i64) -> usize {
        let next = self.fifos.len();
        let link = *self.ends.entry((from, to, channel)).or_insert(next);
        if link == next {
            let wire = self.wire(from, to, channel);
            self.fifos.push(Fifo { wire, ..Fifo::default() });
        }
        link
    }

    /// The proxies of a link, if its ranks are on different nodes.
    fn wire(&self, from: i64, to: i64, channel: i64) -> Option<Wire> {
        let size = i64::from(self.call.ranks_per_node.max(1));
        if from / size == to / size {
            return None;
        }
        let program = &self.programs[usize::try_from(from).ok()?];
        let blocks = program.blocks.iter();
        let of_link = blocks.filter(|block| (block.send, block.channel) == (to, channel));
        let sends = of_link.flat_map(|block| &block.transfers).filter(|it| it.kind.sends());
        let messages =
            sends.map(|transfer| (transfer.count as u64).div_ceil(self.max_count as u64));
        let (protocol, collective) = (self.protocol(), &program.collective);
        let chunk_bytes = self.call.chunk_elements * ELEMENT_BYTES;
        let effective = effective_bytes(protocol, collective);
        Some(Wire::new(protocol, collective, messages.sum(), chunk_bytes, effective))
    }

    fn outgoing(&mut self, at: usize, code: &Block, transfer: &Transfer) -> Option<usize> {
        let rank = i64::from(self.blocks[at].rank);
        transfer.kind.sends().then(|| self.link(rank, code.send, code.channel))
    }

    fn incoming(&mut self, at: usize, code: &Block, transfer: &Transfer) -> Option<usize> {
        let rank = i64::from(self.blocks[at].rank);
        transfer.kind.receives().then(|| self.link(code.receive, rank, code.channel))
    }

    /// What is to be done for every element of the slice at hand.
    fn elements(&mut self, at: usize, code: &Block, transfer: &Transfer) -> Vec<Element> {
        let (outgoing, incoming) =
            (self.outgoing(at, code, transfer), self.incoming(at, code, transfer));
        let Thread { rank, round, chunk, slice, .. } = self.blocks[at];
        let count = (transfer.count - chunk).min(self.max_count) as u64;
        let length = self.length(round);
        let number = length * count;
        let simple = self.protocol() == Protocol::Simple;
        // `max(divUp(nelem, 32) * 16, stepSize * StepPerSlice / 32)`
        let boundary = (number.div_ceil(32) * 16).max(self.slice_elements / 64);
        let links = incoming.is_some() || outgoing.is_some();
        let mut elements = Vec::new();
        for position in 0..count {
            for sample in 0..self.samples(round) {
                let linear = position * length + sample * (length - 1);
                let own_slice = u64::from(simple && links && linear >= boundary);
                if own_slice != slice {
                    continue;
                }
                let place = |(buffer, offset): (Buffer, i64)| {
                    let index = (offset + chunk) as u64 + position;
                    self.cell(rank, Slot::new(buffer, index as u32), round, sample)
                };
                let line = position * 2 + sample;
                let mut acts = VecDeque::new();
                match transfer.kind {
                    Kind::Reduce => {
                        self.overrun |= self.reduce(code, transfer, number, &place, &mut acts)
                    }
                    kind => {
                        if kind.reads() {
                            acts.push_back(Act::Load(place(transfer.src)));
                        }
                        if let Some(link) = incoming {
                            acts.push_back(Act::Take(link, self.fifos[link].taken, line));
                        }
                        if let Some(link) = outgoing {
                            acts.push_back(Act::Put(link, self.fifos[link].sent, line));
                        }
                        if kind.writes() {
                            acts.push_back(Act::Store(place(transfer.dst)));
                        }
                    }
                }
                elements.push(Element { acts, value: None });
            }
        }
        elements
    }

    /// One element of a chain of reductions. Whether an array is overrun.
    fn reduce(
        &self,
        code: &Block,
        transfer: &Transfer,
        elements: u64,
        place: &dyn Fn((Buffer, i64)) -> Cell,
        acts: &mut VecDeque<Act>,
    ) -> bool {
        let (first, number) = transfer.reductions;
        let sources = &code.reduction_sources[first..first + number];
        let sources = sources.iter().map(|&offset| Act::Load(place((transfer.src.0, offset))));
        let own = Act::Load(place(transfer.dst));
        let is_small = elements < self.threads;
        if is_small || self.protocol() != Protocol::Simple {
            acts.push_back(own);
            acts.extend(sources);
        } else {
            acts.extend(sources.chain([own]));
            acts.truncate(REDUCE_FUSION.max(2));
        }
        acts.push_back(Act::Store(place(transfer.dst)));
        let room =
            if self.protocol() == Protocol::Simple { REDUCE_FUSION } else { REDUCE_FUSION + 1 };
        !is_small && number > room
    }

    /// One load, store or line of a random element; the end of the slice if nothing is left.
    fn element(
        &mut self,
        at: usize,
        code: &Block,
        transfer: &Transfer,
        numbers: &mut Numbers,
    ) -> bool {
        let elements = &self.blocks[at].elements;
        if elements.is_empty() {
            self.end_slice(at, code, transfer);
            return true;
        }
        let start = numbers.below(elements.len() as u64) as usize;
        let ready = (0..elements.len()).map(|next| (start + next) % elements.len()).find(|&pick| {
            match elements[pick].acts.front() {
                Some(&Act::Take(link, message, line)) => {
                    self.fifos[link].lines.contains_key(&(message, line))
                }
                _ => true,
            }
        });
        let Some(pick) = ready else { return false };
        let act = self.blocks[at].elements[pick].acts.pop_front();
        let loaded = match act {
            Some(Act::Load(cell)) => {
                let own = self.blocks[at].pending.iter().rev().find(|(other, _)| *other == cell);
                let junk = || Value::one(0xdead ^ u64::from(cell.0) << 20 ^ cell.2 << 30);
                Some(own.map_or_else(
                    || self.memory.get(&cell).copied().unwrap_or_else(junk),
                    |(_, value)| *value,
                ))
            }
            Some(Act::Take(link, message, line)) => self.fifos[link].lines.remove(&(message, line)),
            Some(Act::Put(link, message, line)) => {
                let value = self.blocks[at].elements[pick].value;
                self.fifos[link].lines.extend(value.map(|value| ((message, line), value)));
                None
            }
            Some(Act::Store(cell)) => {
                let value = self.blocks[at].elements[pick].value;
                self.blocks[at].pending.extend(value.map(|value| (cell, value)));
                None
            }
            None => None,
        };
        let element = &mut self.blocks[at].elements[pick];
        if let Some(loaded) = loaded {
            element.value = Some(element.value.map_or(loaded, |value| value.plus(loaded)));
        }
        if element.acts.is_empty() {
            self.blocks[at].elements.swap_remove(pick);
        }
        true
    }

    fn end_slice(&mut self, at: usize, code: &Block, transfer: &Transfer) {
        let (outgoing, incoming) =
            (self.outgoing(at, code, transfer), self.incoming(at, code, transfer));
        let simple = self.protocol() == Protocol::Simple;
        if simple && outgoing.is_some() {
            self.flush(at);
        }
        if let Some(fifo) = outgoing.map(|link| &mut self.fifos[link]) {
            fifo.posted += 1;
            fifo.wire.iter_mut().for_each(Wire::post);
        }
        if let Some(fifo) = incoming.map(|link| &mut self.fifos[link]) {
            fifo.freed += 1;
            fifo.wire.iter_mut().for_each(Wire::free);
        }
        let links = outgoing.is_some() || incoming.is_some();
        if simple && links && self.blocks[at].slice == 0 {
            (self.blocks[at].slice, self.blocks[at].phase) = (1, Phase::Slice);
            return;
        }
        outgoing.into_iter().for_each(|link| self.fifos[link].sent += 1);
        incoming.into_iter().for_each(|link| self.fifos[link].taken += 1);
        let thread = &mut self.blocks[at];
        if thread.chunk == 0 && transfer.kind == Kind::Reduce {
            thread.step += transfer.reductions.1 as i64 - 1;
        }
        thread.chunk += self.max_count;
        thread.phase = Phase::Message;
    }

    fn end_step(&mut self, at: usize, code: &Block, transfer: &Transfer) {
        if transfer.signals {
            self.flush(at);
            let Thread { rank, number, round, step, .. } = self.blocks[at];
            self.flags[rank as usize][number] = self.flag(round, step);
        }
        let thread = &mut self.blocks[at];
        (thread.step, thread.at, thread.phase) = (thread.step + 1, thread.at + 1, Phase::Waits);
        if thread.at == code.transfers.len() {
            (thread.step, thread.at, thread.round) = (0, 0, thread.round + 1);
        }
    }
}

impl Kind {
    fn sends(self) -> bool {
        match self {
            Kind::Send | Kind::RecvCopySend | Kind::RecvReduceSend | Kind::RecvReduceCopySend => {
                true
            }
            Kind::Recv | Kind::RecvReduceCopy | Kind::Copy | Kind::Reduce => false,
        }
    }

    fn receives(self) -> bool {
        match self {
            Kind::Send | Kind::Copy | Kind::Reduce => false,
            Kind::Recv
            | Kind::RecvCopySend
            | Kind::RecvReduceSend
            | Kind::RecvReduceCopy
            | Kind::RecvReduceCopySend => true,
        }
    }

    fn reads(self) -> bool {
        match self {
            Kind::Recv | Kind::RecvCopySend => false,
            Kind::Send
            | Kind::RecvReduceSend
            | Kind::RecvReduceCopy
            | Kind::RecvReduceCopySend
            | Kind::Copy
            | Kind::Reduce => true,
        }
    }

    fn writes(self) -> bool {
        match self {
            Kind::Send | Kind::RecvReduceSend => false,
            Kind::Recv
            | Kind::RecvCopySend
            | Kind::RecvReduceCopy
            | Kind::RecvReduceCopySend
            | Kind::Copy
            | Kind::Reduce => true,
        }
    }
}
