//! Reductions under `MSCCL_ORDER`: the bits of an element depend on what ranks contribute to it,
//! and on nothing else.
//!
//! Every call of a type and reduction must give what one table says, which the oracle makes on
//! host threads: for sizes from 1 KiB to 256 MiB (powers of two and steps of 7/5), offsets from 0
//! to 60 bytes, in and out of place, under every protocol, from CUDA graphs, and as a
//! reduce-scatter with an all-gather behind it. Small calls have each protocol with several
//! offsets in both placements; of large ones each size has one combination, which changes from size
//! to size.

mod pattern;

use std::collections::BTreeSet;
use std::ops::Range;

use msccl_collective::{DataType, Protocol, Reduction};
use msccl_runtime::{Buffers, Call, Combine, Operation, Overrides, RequiredOrder, Settings};

use self::pattern::{PERIOD, Pattern, Sums};
use super::graphs::{capture_in, launch_in, stream};
use super::{Bench, Section};
use crate::Trouble;
use crate::memory::ALIGNMENT;
use crate::oracle::Oracle;
use crate::tally::Tally;
use crate::world::{RankWorker, World, settings};

/// The section.
pub const SECTION: Section = Section {
    name: "order",
    about: "the same bits for all sizes, offsets, placements and protocols under MSCCL_ORDER",
    run,
};

/// Up to this many bytes a call is small.
const SMALL_MAX_BYTES: usize = 64 << 10;
/// From this many bytes on, a protocol is tried at every third size.
const LARGE_MIN_BYTES: usize = 4 << 20;
/// Buffers lie up to this far behind an aligned address.
const OFFSET_MAX_BYTES: usize = 60;
/// Of a small size, so many offsets are tried with each protocol.
const OFFSETS: usize = 4;
/// What the output holds before the call where it is not the input.
const UNTOUCHED: u8 = 0xa5;

/// What is reduced, and how.
const KINDS: [(DataType, Sums); 10] = [
    (DataType::F32, Sums::Plain(Reduction::Sum)),
    (DataType::Bf16, Sums::Plain(Reduction::Sum)),
    (DataType::F8E4M3, Sums::Plain(Reduction::Sum)),
    (DataType::F16, Sums::Plain(Reduction::Sum)),
    (DataType::I32, Sums::Plain(Reduction::Sum)),
    (DataType::F8E5M2, Sums::Plain(Reduction::Sum)),
    (DataType::F16, Sums::Plain(Reduction::Avg)),
    (DataType::F32, Sums::Plain(Reduction::Avg)),
    (DataType::Bf16, Sums::Scaled),
    (DataType::F32, Sums::Scaled),
];

/// So many of them, from the first on, have every size.
const MAIN_KINDS: usize = 5;

const PROTOCOLS: [Option<Protocol>; 4] =
    [None, Some(Protocol::Simple), Some(Protocol::Ll), Some(Protocol::Ll128)];

fn run(bench: &Bench, tally: &mut Tally) {
    let mut oracle = Oracle::new(bench.ranks, &[]);
    let mut made = Vec::new();
    for order in [RequiredOrder::Flat, RequiredOrder::Tree] {
        let patterns = || patterns(bench, order, &mut oracle);
        let Some(patterns) = tally.need(|| format!("the table of {order}"), patterns) else {
            return;
        };
        for (number, protocol) in PROTOCOLS.into_iter().enumerate() {
            let overrides = Overrides { order, protocol, ..Overrides::default() };
            let setting = protocol.map_or("any protocol", Protocol::name);
            let name = || format!("{order}, {setting}");
            let join = || bench.world(&Settings { overrides: overrides.clone(), ..settings() });
            let Some(world) = tally.need(name, join) else { continue };
            Sweep { bench, name: name(), number, world }.run(&patterns, tally);
        }
        made.push(patterns);
    }
    if let [flat, tree] = &made[..] {
        tally.check(|| "flat and tree".to_owned(), || orders_show(bench.ranks, flat, tree));
    }
}

fn patterns(
    bench: &Bench,
    order: RequiredOrder,
    oracle: &mut Oracle,
) -> Result<Vec<Pattern>, Trouble> {
    let kinds = bench.some(&KINDS, MAIN_KINDS).iter();
    let new = |&(data_type, sums): &(DataType, Sums)| {
        Pattern::new(data_type, sums, order, bench.ranks, bench.seed, oracle)
    };
    kinds.map(new).collect()
}

/// Fails unless the numbers are such that an order shows: else equal bits would say nothing.
fn orders_show(ranks: u32, flat: &[Pattern], tree: &[Pattern]) -> Result<(), Trouble> {
    let differences = flat[0].differences(&tree[0]);
    if (ranks > 3) == (differences > 0) {
        return Ok(());
    }
    Err(format!("{differences} of {PERIOD} sums differ between the orders").into())
}

/// All calls of one setting.
struct Sweep<'a> {
    bench: &'a Bench,
    name: String,
    /// The number of the protocol.
    number: usize,
    world: World,
}

/// One call, or what gives the same in two.
#[derive(Clone, Copy, Debug)]
struct OrderedCall {
    form: CallForm,
    /// Elements of the whole result.
    elements: usize,
    in_place: bool,
    /// Elements between an aligned address and input or output.
    shift: [usize; 2],
}

/// How a vector is all-reduced.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum CallForm {
    AllReduce,
    AllReduceInGraph,
    ReduceScatterThenAllGather,
}

impl Sweep<'_> {
    fn run(&mut self, patterns: &[Pattern], tally: &mut Tally) {
        let sizes: Vec<usize> = match self.bench.quick {
            true => sizes(256 << 10).filter(|bytes| bytes.is_power_of_two()).collect(),
            false => sizes(256 << 20).collect(),
        };
        let length = Layout::new(*sizes.last().unwrap_or(&0)).length();
        let (name, world) = (self.name.clone(), &mut self.world);
        let reserve = || world.on_all(|worker| worker.memory.reserve(length)).map(drop);
        if !tally.check(|| format!("{name}: memory"), reserve) {
            return;
        }
        for (kind, pattern) in patterns.iter().enumerate() {
            let of_kind = |(number, _): &(usize, &usize)| number % patterns.len() == kind;
            // Some kinds have every third size.
            let has = |number: usize| kind < MAIN_KINDS || number % 3 == kind % 3;
            let small = sizes.iter().enumerate().filter(|(_, bytes)| **bytes <= SMALL_MAX_BYTES);
            let small = small.filter(|(number, _)| has(*number));
            let large = sizes.iter().enumerate().filter(|(_, bytes)| **bytes > SMALL_MAX_BYTES);
            let large = large.filter(of_kind).filter(|(number, bytes)| {
                // Every size has the protocol that would be taken, and one other.
                let other = number % (PROTOCOLS.len() - 1) + 1;
                **bytes < LARGE_MIN_BYTES || self.number == 0 || self.number == other
            });
            let chosen: Vec<(usize, usize)> =
                small.chain(large).map(|(number, bytes)| (number, *bytes)).collect();
            for (number, bytes) in chosen {
                let name = format!("{}, {}, {bytes} bytes", self.name, pattern.describe());
                let passed = tally.check(|| name.clone(), || self.size(pattern, number, bytes));
                if !passed && self.world.has_failed() {
                    return;
                }
            }
        }
    }

    /// Every call of a size.
    fn size(&mut self, pattern: &Pattern, number: usize, bytes: usize) -> Result<(), Trouble> {
        let layout = Layout::new(bytes);
        self.world.on_all(|worker| {
            let elements = (bytes + OFFSET_MAX_BYTES) / pattern.data_type.size_bytes() + 1;
            worker.memory.write_at(layout.input, &pattern.input(worker.rank, elements))
        })?;
        for call in self.calls_of_size(pattern, number, bytes) {
            call.run(&mut self.world, pattern, layout)
                .map_err(|error| format!("{call:?}: {error}"))?;
        }
        Ok(())
    }

    fn calls_of_size(&self, pattern: &Pattern, number: usize, bytes: usize) -> Vec<OrderedCall> {
        let size = pattern.data_type.size_bytes();
        let number = number + self.number;
        let elements = bytes / size;
        let small = bytes <= SMALL_MAX_BYTES;
        let offsets = if small { OFFSETS } else { 1 };
        let mut calls = Vec::new();
        for turn in 0..offsets {
            // Words of four bytes, and between them what only narrow types have.
            let word = (number * OFFSETS + turn) % (OFFSET_MAX_BYTES / 4 + 1);
            let odd = if turn == 1 { number % 4 } else { 0 };
            let shift = [word * 4, word * 28 % (OFFSET_MAX_BYTES + 4)];
            let shift = shift.map(|bytes| (bytes + odd).min(OFFSET_MAX_BYTES) / size);
            for in_place in [false, true] {
                let call = OrderedCall { form: CallForm::AllReduce, elements, in_place, shift };
                let mut add = |form| calls.push(OrderedCall { form, ..call });
                let taken = small || in_place == number.is_multiple_of(2);
                if taken {
                    add(CallForm::AllReduce);
                    add(CallForm::ReduceScatterThenAllGather);
                }
                if small && turn == 0 && self.bench.machine.has_gpus() {
                    add(CallForm::AllReduceInGraph);
                }
            }
        }
        calls
    }
}

impl OrderedCall {
    fn run(self, world: &mut World, pattern: &Pattern, layout: Layout) -> Result<(), Trouble> {
        world.on_all(|worker| self.prepare(worker, pattern, layout))?;
        match self.form {
            CallForm::AllReduce | CallForm::ReduceScatterThenAllGather => {
                world.on_all(|worker| {
                    let calls = self.calls(worker, pattern, layout);
                    calls.iter().try_for_each(|call| worker.submit(std::slice::from_ref(call)))?;
                    worker.wait()
                })?
            }
            CallForm::AllReduceInGraph => {
                let graphs = world.on_all(|worker| {
                    let calls = self.calls(worker, pattern, layout);
                    capture_in(stream(worker)?, || worker.submit(&calls))
                })?;
                world.on_all(|worker| {
                    launch_in(stream(worker)?, &graphs[worker.rank.index()])?;
                    worker.wait()
                })?
            }
        };
        world.on_all(|worker| self.check(worker, pattern, layout)).map(drop)
    }

    /// Where input and output begin.
    fn places(self, pattern: &Pattern, layout: Layout) -> (usize, usize) {
        let [input, output] = self.shift.map(|shift| shift * pattern.data_type.size_bytes());
        let output = layout.output + output;
        (if self.in_place { output } else { layout.input + input }, output)
    }

    /// Of how many elements the result is: of whole blocks, where there are some.
    fn result(self, ranks: u32) -> usize {
        let ranks = ranks as usize;
        match self.form {
            CallForm::AllReduce | CallForm::AllReduceInGraph => self.elements,
            CallForm::ReduceScatterThenAllGather => self.elements / ranks * ranks,
        }
    }

    fn prepare(
        self,
        worker: &RankWorker,
        pattern: &Pattern,
        layout: Layout,
    ) -> Result<(), Trouble> {
        worker.memory.fill(layout.output_region(), UNTOUCHED)?;
        if self.in_place {
            let (_, output) = self.places(pattern, layout);
            worker.memory.write_at(output, &pattern.input(worker.rank, self.elements))?;
        }
        Ok(())
    }

    fn calls(self, worker: &RankWorker, pattern: &Pattern, layout: Layout) -> Vec<Call> {
        let data_type = pattern.data_type;
        let combine: Combine = pattern.combine(worker.rank);
        let (input, output) = self.places(pattern, layout);
        let ranks = worker.communicator.ranks();
        let call = |operation, count: usize, send: usize, receive: usize| {
            let [send, receive] = [send, receive].map(|at| worker.memory.address() + at as u64);
            let buffers = Buffers { send, receive, stream: worker.stream() };
            Call { operation, data_type, count: count as u64, buffers }
        };
        match self.form {
            CallForm::AllReduce | CallForm::AllReduceInGraph => {
                vec![call(Operation::AllReduce(combine), self.elements, input, output)]
            }
            CallForm::ReduceScatterThenAllGather => {
                let block = self.elements / ranks as usize;
                let own = output + worker.rank.index() * block * data_type.size_bytes();
                vec![
                    call(Operation::ReduceScatter(combine), block, input, own),
                    call(Operation::AllGather, block, own, output),
                ]
            }
        }
    }

    fn check(self, worker: &RankWorker, pattern: &Pattern, layout: Layout) -> Result<(), Trouble> {
        let size = pattern.data_type.size_bytes();
        let (_, output) = self.places(pattern, layout);
        let length = self.result(worker.communicator.ranks()) * size;
        let region = layout.output_region();
        let found = worker.memory.read_at(region.clone())?;
        let result = output - region.start..output - region.start + length;
        // In place, what is beyond the last whole block of a reduce-scatter stays an input.
        let after = if self.in_place { self.elements * size } else { length };
        let after = &found[output - region.start + after..];
        let outside = found[..result.start].iter().chain(after);
        if let Some(byte) = outside.copied().find(|byte| *byte != UNTOUCHED) {
            return Err(format!("a byte outside the output was changed to {byte:#04x}").into());
        }
        let first = if self.in_place { 0 } else { self.shift[0] };
        pattern.check(&found[result], first)
    }
}

/// Where input and output lie in a rank's memory: each in a region with room for all offsets.
#[derive(Clone, Copy)]
struct Layout {
    bytes: usize,
    input: usize,
    output: usize,
}

impl Layout {
    fn new(bytes: usize) -> Self {
        let region = (bytes + 2 * ALIGNMENT).next_multiple_of(ALIGNMENT);
        Self { bytes, input: ALIGNMENT, output: ALIGNMENT + region }
    }

    /// The output, whatever its offset, and something before and behind it.
    fn output_region(self) -> Range<usize> {
        self.output - ALIGNMENT / 2..self.output + self.bytes + ALIGNMENT
    }

    fn length(self) -> usize {
        self.output_region().end
    }
}

/// From 1 KiB to `most`: powers of two, and steps of 7/5.
fn sizes(most: usize) -> impl Iterator<Item = usize> {
    let powers = std::iter::successors(Some(1024), |bytes| Some(bytes * 2));
    // Multiples of 16 bytes, so that any difference of lengths comes from offsets and ranks alone.
    let steps = std::iter::successors(Some(1024), |bytes| Some(bytes * 7 / 5 / 16 * 16));
    let within = move |bytes: &usize| *bytes <= most;
    let all: BTreeSet<usize> = powers.take_while(within).chain(steps.take_while(within)).collect();
    all.into_iter()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn regions_do_not_overlap_at_any_offset() {
        for bytes in sizes(1 << 20) {
            let layout = Layout::new(bytes);
            let input = layout.input..layout.input + OFFSET_MAX_BYTES + bytes;
            assert!(input.end <= layout.output_region().start, "{bytes}");
        }
        assert_eq!(sizes(4096).collect::<Vec<_>>(), [1024, 1424, 1984, 2048, 2768, 3872, 4096]);
    }

    #[test]
    fn small_sizes_meet_every_offset_with_every_protocol() {
        let offsets = |protocol: usize| {
            let small = sizes(SMALL_MAX_BYTES);
            let words = small.enumerate().flat_map(move |(number, _)| {
                (0..OFFSETS).map(move |turn| ((number + protocol) * OFFSETS + turn) % 16)
            });
            words.collect::<BTreeSet<_>>().len()
        };
        assert_eq!([0, 1, 2, 3].map(offsets), [16; 4]);
    }
}
