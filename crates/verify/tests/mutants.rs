//! The verifier verified: damaged algorithms, and random interleavings as the second witness.
//!
//! What is proved must end with the right result in every interleaving tried. What is refused for a
//! deadlock, a wrong result, an unwritten read or a left-over message must show it in every
//! interleaving, since without races they all agree.

#![deny(unsafe_code)]

mod definition;

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::convert::Infallible;

use msccl_collective::{Buffer, Collective, Contribution, Promise, Rank, Slot};
use msccl_ir::{Algorithm, LinkShape, Packing, Place, Target};
use msccl_machine::{Machine, Messages, Outcome, TbId, Wiring, execute, run};
use msccl_testkit::Numbers;
use msccl_testkit::families;
use msccl_verify::{Fault, FaultKind, verify};

/// Mutants of each family.
const MUTANTS: u64 = 500;

/// Interleavings of each mutant.
const INTERLEAVINGS: u64 = 8;

/// How many of each contribution; `None` for what was never written.
type Value = Option<BTreeMap<Contribution, u32>>;

/// One run: the memory of all ranks and the messages under way, chunk by chunk.
struct Memory<'a> {
    wiring: &'a Wiring<'a>,
    in_place: bool,
    cells: HashMap<(Rank, Slot), Value>,
    links: Vec<VecDeque<Value>>,
    read_unwritten: bool,
    tb: TbId,
}

impl<'a> Memory<'a> {
    fn new(wiring: &'a Wiring<'a>, in_place: bool) -> Self {
        let collective = &wiring.algorithm().collective;
        let links = vec![VecDeque::new(); wiring.links().len()];
        let (cells, tb) = (HashMap::new(), TbId(0));
        let mut memory = Self { wiring, in_place, cells, links, read_unwritten: false, tb };
        for rank in collective.all_ranks() {
            for index in 0..collective.input_chunks(rank) {
                let given = collective.given(rank, index);
                let value = given.map(|given| BTreeMap::from([(given, 1)]));
                *memory.cell(rank, Slot::new(Buffer::Input, index)) = value;
            }
        }
        memory
    }

    fn cell(&mut self, rank: Rank, slot: Slot) -> &mut Value {
        let collective = &self.wiring.algorithm().collective;
        let slot = if self.in_place { collective.in_place(rank, slot) } else { slot };
        self.cells.entry((rank, slot)).or_default()
    }

    fn result_is_right(&mut self) -> bool {
        let collective = self.wiring.algorithm().collective.clone();
        collective.all_ranks().all(|rank| {
            (0..collective.output_chunks(rank)).all(|index| {
                let promised = collective.promised(rank, index).map(|it| expected(&collective, it));
                let found = self.cell(rank, Slot::new(Buffer::Output, index));
                promised.is_none() || *found == promised
            }) && (self.in_place || self.input_is_kept(rank))
        })
    }

    fn input_is_kept(&mut self, rank: Rank) -> bool {
        let collective = self.wiring.algorithm().collective.clone();
        (0..collective.input_chunks(rank)).all(|index| {
            let given = collective.given(rank, index).map(|given| BTreeMap::from([(given, 1)]));
            *self.cell(rank, Slot::new(Buffer::Input, index)) == given
        })
    }
}

fn expected(collective: &Collective, promise: Promise) -> BTreeMap<Contribution, u32> {
    let mut sum = BTreeMap::new();
    let mut add = |contribution| *sum.entry(contribution).or_insert(0) += 1;
    match promise {
        Promise::One(one) => add(one),
        Promise::Sum(list) => list.into_iter().for_each(add),
        Promise::EveryRank { index } => {
            collective.all_ranks().for_each(|rank| add(Contribution { rank, index }));
        }
    }
    sum
}

impl Machine for Memory<'_> {
    type Sum = Value;
    type Value = Value;
    type Error = Infallible;

    fn read(&mut self, from: Place) -> Result<Value, Infallible> {
        let rank = self.wiring.rank(self.tb);
        Ok(match from {
            Place::Local(slot) => {
                let value = self.cell(rank, slot).clone();
                self.read_unwritten |= value.is_none();
                value
            }
            Place::Link(peer) => {
                let link = self.wiring.link_from(self.tb, peer).expect("validated");
                self.links[link.index()].pop_front().expect("a message has arrived")
            }
        })
    }

    fn add(&mut self, sum: Value, from: Place) -> Result<Value, Infallible> {
        let next = self.read(from)?;
        Ok(sum.zip(next).map(|(mut sum, next)| {
            next.into_iter().for_each(|(leaf, times)| *sum.entry(leaf).or_insert(0) += times);
            sum
        }))
    }

    fn round(&mut self, sum: Value) -> Value {
        sum
    }

    fn write(&mut self, to: Place, value: &Value) -> Result<(), Infallible> {
        match to {
            Place::Local(slot) => {
                let rank = self.wiring.rank(self.tb);
                self.cell(rank, slot).clone_from(value);
            }
            Place::Link(peer) => {
                let link = self.wiring.link_to(self.tb, peer).expect("validated");
                self.links[link.index()].push_back(value.clone());
            }
        }
        Ok(())
    }
}

/// What one interleaving shows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Seen {
    Right,
    Wrong,
    Unwritten,
    Leftover,
    Stalled,
}

fn interleave(algorithm: &Algorithm, in_place: bool, messages: Messages, seed: u64) -> Seen {
    let wiring = Wiring::new(algorithm).expect("validated");
    let mut memory = Memory::new(&wiring, in_place);
    let mut numbers = Numbers(seed);
    let ran = run(
        &wiring,
        messages,
        |ready| numbers.index(ready),
        |piece| {
            memory.tb = piece.tb;
            execute(&wiring.block(piece.tb).steps[piece.step as usize], piece.chunks, &mut memory)
        },
    );
    match ran {
        Ok(Outcome::Stalled(_)) => Seen::Stalled,
        Ok(Outcome::Completed { leftover }) if !leftover.is_empty() => Seen::Leftover,
        Ok(Outcome::Completed { .. }) if memory.read_unwritten => Seen::Unwritten,
        Ok(Outcome::Completed { .. }) if memory.result_is_right() => Seen::Right,
        Ok(Outcome::Completed { .. }) => Seen::Wrong,
    }
}

/// Damages one step of one rank.
fn mutate(algorithm: &mut Algorithm, numbers: &mut Numbers) {
    let rank = numbers.index(algorithm.ranks.len());
    let blocks = &mut algorithm.ranks[rank].thread_blocks;
    let block = numbers.index(blocks.len());
    let steps = &mut blocks[block].steps;
    let (at, other) = (numbers.index(steps.len()), numbers.index(steps.len()));
    match numbers.index(8) {
        0 => steps[at].waits.clear(),
        1 => steps.swap(at, other),
        2 => drop(steps.remove(at)),
        3 => steps.insert(at, steps[at].clone()),
        4 => steps[at].count = 1 + numbers.index(3) as u32,
        5 => shift(&mut steps[at].sources, numbers),
        6 => shift(&mut steps[at].destinations, numbers),
        _ => drop_one(&mut steps[at].sources, numbers),
    }
}

fn shift(places: &mut [Place], numbers: &mut Numbers) {
    for place in places {
        if let Place::Local(slot) = place {
            slot.index = numbers.index(5) as u32;
        }
    }
}

fn drop_one(places: &mut msccl_ir::Operands, numbers: &mut Numbers) {
    if places.len() > 1 {
        places.remove(numbers.index(places.len()));
    }
}

/// Links that split counted steps and hold two messages.
fn target() -> Target {
    let shape = LinkShape { depth: 2, message_bytes: 1 << 10, packing: Packing::Fitting };
    Target { name: "two deep", simple: shape, ..Target::native() }
}

/// Whatever ends with some depth and some chunks per message ends with more of either.
fn assert_ending_is_monotone(algorithm: &Algorithm) {
    let ends = |chunks_per_message, depth| {
        let messages = Messages { chunks_per_message, depth };
        interleave(algorithm, true, messages, u64::from(depth)) != Seen::Stalled
    };
    for chunks in 1..4 {
        for depth in 1..4 {
            if ends(chunks, depth) {
                assert!(ends(chunks + 1, depth), "fewer messages: {algorithm:#?}");
                assert!(ends(chunks, depth + 1), "more depth: {algorithm:#?}");
            }
        }
    }
}

/// What happened to the mutants of a family.
#[derive(Default, Debug)]
struct Tally {
    proved: usize,
    refused: HashMap<FaultKind, usize>,
}

/// Verifies a mutant and holds the verdict against interleavings.
fn judge(mutant: &Algorithm, tally: &mut Tally) {
    let refused = verify(mutant.clone(), &target()).err();
    let fault = refused.as_ref().map(|refusal| &refusal.faults[0]);
    match fault.map(|fault| fault.kind) {
        None => tally.proved += 1,
        Some(kind) => *tally.refused.entry(kind).or_default() += 1,
    }
    if fault.is_some_and(|fault| matches!(fault.kind, FaultKind::Structure | FaultKind::Limits)) {
        return;
    }
    assert_ending_is_monotone(mutant);
    let in_place = mutant.placement.serves_in_place();
    for seed in 0..INTERLEAVINGS {
        let small_chunks = seed % 2 == 1;
        let chunks_per_message = if small_chunks { mutant.collective.ranks } else { 1 };
        let messages = Messages { chunks_per_message, depth: target().simple.depth };
        let seen = interleave(mutant, in_place, messages, seed);
        if let Some(expected) = witness(fault, small_chunks) {
            assert_eq!(seen, expected, "{fault:?} of {mutant:#?}");
        }
    }
}

/// What every interleaving must show of a verdict, if all agree.
fn witness(fault: Option<&Fault>, small_chunks: bool) -> Option<Seen> {
    let Some(fault) = fault else { return Some(Seen::Right) };
    match fault.kind {
        FaultKind::WrongResult => Some(Seen::Wrong),
        FaultKind::Uninitialised => Some(Seen::Unwritten),
        FaultKind::Leftover => small_chunks.then_some(Seen::Leftover),
        FaultKind::Deadlock if fault.sound_up_to_bytes.is_some() && small_chunks => {
            Some(Seen::Right)
        }
        FaultKind::Deadlock => Some(Seen::Stalled),
        FaultKind::Race | FaultKind::Structure | FaultKind::Limits | FaultKind::Order => None,
    }
}

#[track_caller]
fn check(original: &Algorithm, seed: u64) {
    let mut numbers = Numbers(seed);
    let mut tally = Tally::default();
    judge(original, &mut tally);
    assert_eq!(tally.proved, 1, "the original is right");
    for _ in 0..MUTANTS {
        let mut mutant = original.clone();
        mutate(&mut mutant, &mut numbers);
        judge(&mutant, &mut tally);
    }
    assert!(tally.refused.len() >= 4, "damage of many kinds is found: {tally:?}");
}

#[test]
fn damaged_rings_are_refused_or_run_right() {
    check(&families::ring(4, 1), 1);
    check(&families::ring(5, 2), 2);
}

#[test]
fn damaged_rings_in_two_blocks_are_refused_or_run_right() {
    check(&families::split_ring(4), 3);
}

#[test]
fn damaged_all_pairs_are_refused_or_run_right() {
    check(&families::all_pairs(4), 4);
}

#[test]
fn damaged_halving_and_doubling_is_refused_or_runs_right() {
    check(&families::halving_doubling(4), 5);
}

#[test]
fn damaged_rings_out_of_place_are_refused_or_run_right() {
    check(&families::out_of_place(families::ring(4, 1)), 6);
}
