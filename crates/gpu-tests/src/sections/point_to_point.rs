//! Sends and receives: patterns that people use, and random ones.

use msccl_collective::{DataType, Rank};
use msccl_runtime::{Buffers, Call, Operation, Settings};

use super::{Bench, Section};
use crate::Trouble;
use crate::memory::ALIGNMENT;
use crate::random::Random;
use crate::tally::Tally;
use crate::world::{RankWorker, World, settings};

/// The section.
pub const SECTION: Section = Section {
    name: "p2p",
    about: "sends and receives in groups: rings, exchanges, to self, of nothing, random",
    run,
};

/// One message.
#[derive(Clone, Copy, Debug)]
pub(super) struct Message {
    pub from: u32,
    pub to: u32,
    pub bytes: usize,
}

fn run(bench: &Bench, tally: &mut Tally) {
    for peer_memory in [true, false] {
        if !peer_memory && !bench.machine.has_gpus() {
            continue;
        }
        let join = || bench.world(&Settings { peer_memory, ..settings() });
        let Some(mut world) = tally.need(|| "a world".to_owned(), join) else { return };
        for (name, messages) in patterns(bench) {
            let name = || format!("{name}, mapped peer memory {peer_memory}: {messages:?}");
            tally.check(name, || exchange(&mut world, &messages));
            if world.has_failed() {
                break;
            }
        }
    }
}

fn patterns(bench: &Bench) -> Vec<(String, Vec<Message>)> {
    let ranks = bench.ranks;
    let every = |bytes: usize| {
        let pairs = (0..ranks).flat_map(|from| (0..ranks).map(move |to| (from, to)));
        pairs.map(|(from, to)| Message { from, to, bytes }).collect::<Vec<_>>()
    };
    let ring = |bytes| {
        (0..ranks).map(|from| Message { from, to: (from + 1) % ranks, bytes }).collect::<Vec<_>>()
    };
    let one_way = |bytes| vec![Message { from: 0, to: ranks - 1, bytes }];
    let mut patterns = Vec::new();
    for &bytes in bench.some(&[4, 0, 100_003, 1, 65_536, 5_000_001], 3) {
        patterns.push((format!("ring of {bytes} bytes"), ring(bytes)));
        patterns.push((format!("everyone to everyone, {bytes} bytes"), every(bytes)));
        patterns.push((format!("one way, {bytes} bytes"), one_way(bytes)));
    }
    let to_self = |rank| Message { from: rank, to: rank, bytes: 777 };
    patterns.push(("to self".to_owned(), (0..ranks).map(to_self).collect()));
    let in_order = [5, 0, 4000, 1, 300_000].map(|bytes| Message { from: 1, to: 0, bytes });
    patterns.push(("several to one peer".to_owned(), in_order.to_vec()));
    // The first one of each way is aligned, and long enough to be carried by bulk copies where
    // there are any.
    let long = |first, from, to| {
        [first, 70_001, 14_000_000, 0, 3].map(|bytes| Message { from, to, bytes })
    };
    let there_and_back = [long(20_000_003, 0, ranks - 1), long(13_107_200, ranks - 1, 0)];
    patterns.push(("long ones both ways".to_owned(), there_and_back.concat()));
    let mut random = Random::new(bench.seed);
    for number in 0..bench.number(60, 8) {
        patterns.push((format!("random number {number}"), drawn(ranks, &mut random)));
    }
    patterns
}

fn drawn(ranks: u32, random: &mut Random) -> Vec<Message> {
    let count = 1 + random.below(12);
    let message = |_| Message {
        from: random.below(ranks as usize) as u32,
        to: random.below(ranks as usize) as u32,
        bytes: [0, 1, 3, 16, 1000, 70_001, 1_200_000][random.below(7)],
    };
    (0..count).map(message).collect()
}

/// A rank's part of the messages: its memory before and after, and its calls.
pub(super) struct MessagesPart {
    pub before: Vec<u8>,
    pub after: Vec<u8>,
    /// Where each call's buffer lies.
    calls: Vec<(Operation, usize, usize)>,
}

impl MessagesPart {
    /// The part of `rank`; what messages say follows from `seed`.
    pub fn new(messages: &[Message], rank: u32, seed: u64) -> Self {
        let mut part = Self { before: Vec::new(), after: Vec::new(), calls: Vec::new() };
        for (number, message) in messages.iter().enumerate() {
            let mut random = Random::new(seed ^ number as u64);
            let text: Vec<u8> = (0..message.bytes).map(|_| random.next() as u8).collect();
            if message.from == rank {
                let at = part.add(&text, &text, number);
                part.calls.push((Operation::Send(Rank(message.to)), at, message.bytes));
            }
            if message.to == rank {
                let at = part.add(&vec![0xEE; text.len()], &text, number);
                part.calls.push((Operation::Receive(Rank(message.from)), at, message.bytes));
            }
        }
        part.add(&[], &[], 0);
        part
    }

    /// Adds a buffer behind a guard, at any alignment; where it begins.
    fn add(&mut self, before: &[u8], after: &[u8], number: usize) -> usize {
        let start = (self.before.len() + ALIGNMENT).next_multiple_of(ALIGNMENT) + number % 5;
        for (memory, content) in [(&mut self.before, before), (&mut self.after, after)] {
            memory.resize(start, 0x5A);
            memory.extend_from_slice(content);
        }
        start
    }

    /// Its calls, all of one group; its memory begins at `base`.
    pub fn calls(&self, base: u64, stream: u64) -> Vec<Call> {
        let call = |(operation, at, bytes): &(Operation, usize, usize)| {
            let address = base + *at as u64;
            let (data_type, count) = (DataType::U8, *bytes as u64);
            let buffers = Buffers { send: address, receive: address, stream };
            Call { operation: *operation, data_type, count, buffers }
        };
        self.calls.iter().map(call).collect()
    }

    /// Writes what it needs into the memory of `worker`, that of its rank.
    pub fn load(&self, worker: &mut RankWorker) -> Result<(), Trouble> {
        worker.memory.write(&self.before)
    }

    /// Submits its calls in the stream of `worker`.
    pub fn submit(&self, worker: &RankWorker) -> Result<(), Trouble> {
        worker.submit(&self.calls(worker.memory.address(), worker.stream()))
    }

    /// Compares the memory of `worker` with what must be there after the calls.
    pub fn check_at(&self, worker: &RankWorker) -> Result<(), Trouble> {
        self.check(&worker.memory.read(self.after.len())?)
    }

    /// Compares what is there after the calls with what must be.
    pub fn check(&self, found: &[u8]) -> Result<(), Trouble> {
        if found == self.after {
            return Ok(());
        }
        let Some(at) = (0..found.len()).find(|at| found[*at] != self.after[*at]) else {
            return Ok(());
        };
        let buffer =
            self.calls.iter().find(|(_, start, bytes)| (*start..start + bytes).contains(&at));
        let place = match buffer {
            Some((operation, start, _)) => format!("byte {} of {operation:?}", at - start),
            None => format!("byte {at}, which belongs to no buffer"),
        };
        Err(format!("{place}: expected {:#04x}, found {:#04x}", self.after[at], found[at]).into())
    }
}

/// All messages in one group, and all memory afterwards.
pub(super) fn exchange(world: &mut World, messages: &[Message]) -> Result<(), Trouble> {
    let parts: Vec<_> =
        (0..world.ranks()).map(|rank| MessagesPart::new(messages, rank, 0)).collect();
    let part = |worker: &RankWorker| &parts[worker.rank.index()];
    world.on_all(|worker| part(worker).load(worker))?;
    world.on_all(|worker| {
        part(worker).submit(worker)?;
        worker.wait()?;
        part(worker).check_at(worker)
    })?;
    Ok(())
}
