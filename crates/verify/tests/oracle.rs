//! The race check against the definition of happens-before, on random small programs.
//!
//! The definition is computed here over single chunks: chunk `n` of a step before chunk `n + 1`,
//! the last before the first of the next step and of every step that waits, and every chunk of a
//! send before the same chunk of its receive; two accesses race if neither reaches the other.

#![deny(unsafe_code)]

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use msccl_collective::{Channel, Custom, Kind, Placement, Rank, Slot};
use msccl_ir::{Algorithm, LinkShape, Place, Step, Target, ThreadBlock, validate};
use msccl_testkit::by_hand::{StepExt, algorithm, i, o, step, t};
use msccl_verify::{FaultKind, verify};
use proptest::prelude::*;

const RANKS: u32 = 3;
const BLOCKS: u32 = 3;
const CHUNKS: u32 = 4;

/// Links deep enough that nothing blocks.
fn deep() -> Target {
    let native = Target::native();
    let shape = LinkShape { depth: 1 << 10, ..native.simple };
    Target { name: "deep", simple: shape, ..native }
}

/// What random numbers decide about the next step.
#[derive(Clone, Debug)]
struct Choice {
    rank: u32,
    block: u32,
    /// The other end of the link that is used.
    peer: u32,
    /// Where a relay sends.
    next: u32,
    shape: u8,
    places: [(u8, u32); 2],
    count: u32,
    wait: Option<(u32, u32)>,
}

fn choice() -> impl Strategy<Value = Choice> {
    let place = || (0..3u8, 0..CHUNKS - 1);
    let wait = prop::option::weighted(0.4, (0..BLOCKS, 0..6u32));
    let ranks = (0..RANKS, 1..RANKS, 1..RANKS);
    (ranks, 0..BLOCKS, 0..10u8, [place(), place()], 1..=2u32, wait).prop_map(
        |((rank, peer, next), block, shape, places, count, wait)| {
            let (peer, next) = ((rank + peer) % RANKS, (rank + next) % RANKS);
            Choice { rank, block, peer, next, shape, places, count, wait }
        },
    )
}

/// For every pair of ranks, the thread blocks that own the two ends of the link between them.
type Owners = Vec<(u32, u32)>;

fn owners() -> impl Strategy<Value = Owners> {
    prop::collection::vec((0..BLOCKS, 0..BLOCKS), (RANKS * RANKS) as usize)
}

/// Builds a program step by step, in an order in which it can run: a receive only of what was sent.
struct Builder {
    owners: Owners,
    blocks: HashMap<(u32, u32), Vec<Step>>,
    /// Counts of the messages under way, by sender and receiver.
    links: HashMap<(u32, u32), VecDeque<u32>>,
}

fn local((buffer, index): (u8, u32)) -> Place {
    match buffer {
        0 => i(index),
        1 => o(index),
        _ => t(index),
    }
}

/// Whether two runs of `count` chunks overlap without being the same, in place or not.
fn overlap_in_part([first, second]: [(u8, u32); 2], count: u32) -> bool {
    let is_scratch = |place: (u8, u32)| place.0 > 1;
    let apart = first.1.abs_diff(second.1);
    is_scratch(first) == is_scratch(second) && apart > 0 && apart < count
}

impl Builder {
    fn new(owners: Owners) -> Self {
        Self { owners, blocks: HashMap::new(), links: HashMap::new() }
    }

    fn owner(&self, from: u32, to: u32) -> (u32, u32) {
        self.owners[(from * RANKS + to) as usize]
    }

    fn choose(&mut self, choice: &Choice) {
        let Choice { rank, block, peer, next, shape, places, count, wait } = choice.clone();
        let pending = self.links.get(&(peer, rank)).and_then(|link| link.front()).copied();
        let [first, second] = places.map(local);
        let from = Place::Link(Rank(peer));
        let to = Place::Link(Rank(next));
        let (_, takes) = self.owner(peer, rank);
        let relays = self.owner(rank, next).0 == takes;
        let (block, made) = match (shape, pending) {
            (0, _) if !overlap_in_part(places, count) => {
                (block, step(&[first], &[second]).times(count))
            }
            (1 | 2, _) => (self.owner(rank, peer).0, step(&[first], &[from]).times(count)),
            (3 | 4, Some(count)) => (takes, step(&[from], &[first]).times(count)),
            (5, Some(count)) if relays => (takes, step(&[from], &[first, to]).times(count)),
            (6..9, Some(count)) if relays => (takes, step(&[from], &[to]).times(count)),
            (9, Some(count)) if relays => (takes, step(&[from, first], &[first, to]).times(count)),
            _ => return,
        };
        self.push((rank, block), made, wait);
    }

    fn push(&mut self, (rank, block): (u32, u32), mut made: Step, wait: Option<(u32, u32)>) {
        if let Some((other, at)) = wait {
            let steps = self.blocks.get(&(rank, other)).map_or(0, Vec::len) as u32;
            if other != block && at < steps {
                made = made.after(other, at);
            }
        }
        for from in made.receives().collect::<Vec<_>>() {
            self.links.entry((from.0, rank)).or_default().pop_front();
        }
        for to in made.sends().collect::<Vec<_>>() {
            self.links.entry((rank, to.0)).or_default().push_back(made.count);
        }
        self.blocks.entry((rank, block)).or_default().push(made);
    }

    /// Receives what is still under way, into scratch that nothing else touches.
    fn drain(&mut self) {
        let mut left: Vec<_> = self.links.clone().into_iter().collect();
        left.sort();
        for ((from, to), counts) in left {
            for count in counts {
                let take = step(&[Place::Link(Rank(from))], &[t(CHUNKS + 2 * from)]).times(count);
                self.push((to, self.owner(from, to).1), take, None);
            }
        }
    }

    fn finish(mut self, placement: Placement) -> Algorithm {
        self.drain();
        let ranks = (0..RANKS).map(|rank| (0..BLOCKS).map(|at| self.block(rank, at)).collect());
        let name = "random".to_owned();
        let custom = Custom { name, input_chunks: CHUNKS, output_chunks: CHUNKS, contract: None };
        let made = algorithm(Kind::Custom(Arc::new(custom)), 1, ranks.collect());
        Algorithm { placement, ..made }
    }

    fn block(&self, rank: u32, block: u32) -> ThreadBlock {
        let peers = || (0..RANKS).filter(move |&peer| peer != rank);
        let sends = peers().filter(|&to| self.owner(rank, to).0 == block).map(Rank).collect();
        let receives =
            peers().filter(|&from| self.owner(from, rank).1 == block).map(Rank).collect();
        let steps = self.blocks.get(&(rank, block)).cloned().unwrap_or_default();
        ThreadBlock { channel: Channel(0), sends, receives, steps }
    }
}

/// A chunk of a step: rank, thread block, step, chunk.
type Event = (u32, u32, u32, u32);

/// Whether two accesses race, by the definition.
fn races(algorithm: &Algorithm) -> bool {
    let (events, edges) = graph(algorithm);
    let reachable_from: Vec<_> = (0..events.len()).map(|from| reachable(from, &edges)).collect();
    let accesses: Vec<_> = events.iter().map(|&event| accesses(algorithm, event)).collect();
    let pairs = (0..events.len()).flat_map(|a| (0..a).map(move |b| (a, b)));
    pairs.filter(|&(a, b)| !reachable_from[a][b] && !reachable_from[b][a]).any(|(a, b)| {
        events[a].0 == events[b].0
            && accesses[a].iter().any(|&(slot, writes)| {
                accesses[b].iter().any(|&(other, also)| slot == other && (writes || also))
            })
    })
}

fn graph(algorithm: &Algorithm) -> (Vec<Event>, Vec<Vec<usize>>) {
    let mut events = Vec::new();
    let mut number = HashMap::new();
    for (rank, tb, block) in algorithm.thread_blocks() {
        for (index, step) in block.steps.iter().enumerate() {
            for chunk in 0..step.count.max(1) {
                number.insert((rank.0, tb.0, index as u32, chunk), events.len());
                events.push((rank.0, tb.0, index as u32, chunk));
            }
        }
    }
    let mut edges = vec![Vec::new(); events.len()];
    let mut sent: HashMap<_, Vec<(u32, u32, u32)>> = HashMap::new();
    let mut received: HashMap<_, Vec<(u32, u32)>> = HashMap::new();
    for (rank, tb, block) in algorithm.thread_blocks() {
        for (index, step) in (0..).zip(&block.steps) {
            let first = number[&(rank.0, tb.0, index, 0)];
            for chunk in 1..step.count {
                edges[first + chunk as usize - 1].push(first + chunk as usize);
            }
            if index > 0 {
                edges[first - 1].push(first);
            }
            for wait in &step.waits {
                let other = &algorithm.thread_block(rank, wait.tb).steps[wait.step.index()];
                let last = (rank.0, wait.tb.0, wait.step.0, other.count.max(1) - 1);
                edges[number[&last]].push(first);
            }
            for to in step.sends() {
                sent.entry((rank.0, to.0)).or_default().push((tb.0, index, step.count));
            }
            for from in step.receives() {
                received.entry((from.0, rank.0)).or_default().push((tb.0, index));
            }
        }
    }
    for ((from, to), sends) in sent {
        let receives = &received[&(from, to)];
        for ((sender, send, count), &(receiver, receive)) in sends.into_iter().zip(receives) {
            for chunk in 0..count {
                let arrival = number[&(to, receiver, receive, chunk)];
                edges[number[&(from, sender, send, chunk)]].push(arrival);
            }
        }
    }
    (events, edges)
}

fn reachable(from: usize, edges: &[Vec<usize>]) -> Vec<bool> {
    let mut reached = vec![false; edges.len()];
    let mut open = vec![from];
    while let Some(here) = open.pop() {
        for &next in &edges[here] {
            if !std::mem::replace(&mut reached[next], true) {
                open.push(next);
            }
        }
    }
    reached
}

/// The memory that a chunk of a step touches, and whether it writes it.
fn accesses(algorithm: &Algorithm, (rank, tb, index, chunk): Event) -> Vec<(Slot, bool)> {
    let step = &algorithm.ranks[rank as usize].thread_blocks[tb as usize].steps[index as usize];
    let memory = |slot: Slot| {
        let slot = slot.offset(chunk);
        match algorithm.placement {
            Placement::OutOfPlace => slot,
            Placement::InPlace | Placement::Both => algorithm.collective.in_place(Rank(rank), slot),
        }
    };
    let reads = step.reads().map(|region| (memory(region.start), false));
    let writes = step.writes().map(|region| (memory(region.start), true));
    reads.chain(writes).collect()
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 4000,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn a_race_is_found_exactly_where_there_is_one(
        owners in owners(),
        choices in prop::collection::vec(choice(), 1..40),
        placement in prop::sample::select(Placement::ALL.to_vec()),
    ) {
        let mut builder = Builder::new(owners);
        choices.iter().for_each(|choice| builder.choose(choice));
        let algorithm = builder.finish(placement);
        prop_assert_eq!(validate(&algorithm, &deep()), Ok(()));
        let expected = races(&algorithm);
        let found = match verify(algorithm, &deep()) {
            Ok(_) => false,
            Err(refusal) => match refusal.faults[0].kind {
                FaultKind::Race => true,
                FaultKind::WrongResult | FaultKind::Uninitialised => false,
                other => panic!("unexpected {other}: {refusal}"),
            },
        };
        prop_assert_eq!(found, expected);
    }
}
