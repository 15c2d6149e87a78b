//! The machine over symbols.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::ops::Range;

use msccl_collective::{Buffer, Rank, Slot};
use msccl_ir::{Place, Step};
use msccl_machine::{Machine, TbId, execute};

use super::expression::{Expressions, Summands, ValueId};
use super::merged::Merged;
use super::raw::{RawRecord, RawSources};
use crate::memory::Memory;
use crate::program::{At, Program};
use crate::refusal::MOST_FAULTS;

/// What to remember of the run besides its end.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Record {
    /// Sums that have as many contributions as some output is promised.
    Completions,
    /// Every value that any step computes.
    Everything,
}

/// A value, and the highest column among the slots of the caller that it has gone through.
///
/// The column of a slot is its position in its block. Where the chunk number does not divide the
/// count, the chunks of higher columns are the shorter ones.
#[derive(Clone, Copy)]
pub(super) struct Held {
    pub(super) value: ValueId,
    pub(super) column: u32,
}

/// The end of the run.
pub(super) struct End {
    pub(super) expressions: Expressions,
    /// What every cell holds.
    pub(super) cells: Vec<Held>,
    /// The first reads of what nobody had written.
    pub(super) unwritten: Vec<(At, Slot)>,
    /// What is recorded on request, in the order of the run.
    pub(super) computed: Vec<(At, ValueId)>,
    /// Which sources of reductions are raw contributions, if that is a property of the steps.
    pub(super) raw: Option<RawSources>,
}

/// Executes the steps in this order.
pub(super) fn run(program: &Program<'_>, order: &[At], memory: &Memory<'_>, record: Record) -> End {
    let mut symbols = Symbols::new(program, memory, record);
    for &at in order {
        symbols.at = at;
        symbols.rank = program.rank(at);
        let step = program.step(at);
        match execute(step, 0..step.count, &mut symbols) {
            Ok(()) => {}
            Err(never) => match never {},
        }
    }
    let Symbols { expressions, cells, unwritten, computed, raw, .. } = symbols;
    End { expressions, cells, unwritten, computed, raw: raw.finish() }
}

/// Executes the steps in this order, those that `merged` names as one at the place of the last,
/// which adds the destination last.
pub(super) fn run_merged(
    program: &Program<'_>,
    order: &[At],
    memory: &Memory<'_>,
    merged: &Merged,
) -> End {
    let mut symbols = Symbols::new(program, memory, Record::Completions);
    for &at in order {
        symbols.at = at;
        symbols.rank = program.rank(at);
        let done = match merged.ending(at) {
            Some(steps) => symbols.add_up(&program.wiring.block(at.tb).steps[range(&steps)]),
            None if merged.goes_on(at) => Ok(()),
            None => execute(program.step(at), 0..program.step(at).count, &mut symbols),
        };
        match done {
            Ok(()) => {}
            Err(never) => match never {},
        }
    }
    let Symbols { expressions, cells, unwritten, computed, raw, .. } = symbols;
    End { expressions, cells, unwritten, computed, raw: raw.finish() }
}

fn range(steps: &Range<u32>) -> Range<usize> {
    steps.start as usize..steps.end as usize
}

struct Symbols<'a> {
    program: &'a Program<'a>,
    memory: &'a Memory<'a>,
    record: Record,
    /// Columns in a block.
    columns: u32,
    /// Sizes of the promised sums of at least two.
    sum_sizes: Vec<u32>,
    expressions: Expressions,
    cells: Vec<Held>,
    links: Vec<VecDeque<Held>>,
    unwritten: Vec<(At, Slot)>,
    computed: Vec<(At, ValueId)>,
    raw: RawRecord,
    /// The step under way.
    at: At,
    rank: Rank,
}

impl<'a> Symbols<'a> {
    fn new(program: &'a Program<'a>, memory: &'a Memory<'a>, record: Record) -> Self {
        let collective = &program.algorithm().collective;
        let expressions = Expressions::new(collective);
        Self {
            program,
            memory,
            record,
            columns: collective.chunks,
            sum_sizes: super::promise::sum_sizes(collective),
            cells: initial(program, memory, &expressions),
            expressions,
            links: vec![VecDeque::new(); program.wiring.links().len()],
            unwritten: Vec::new(),
            computed: Vec::new(),
            raw: RawRecord::new(program),
            at: At { tb: TbId(0), step: 0 },
            rank: Rank(0),
        }
    }

    fn fetch(&mut self, from: Place) -> Held {
        match from {
            Place::Local(slot) => {
                let held = self.cells[self.memory.cell(self.rank, slot)];
                if held.value == ValueId::UNWRITTEN && self.unwritten.len() < MOST_FAULTS {
                    self.unwritten.push((self.at, slot));
                }
                held
            }
            Place::Link(peer) => {
                let link = self.program.wiring.link_from(self.at.tb, peer);
                let next = link.and_then(|link| self.links[link.index()].pop_front());
                next.unwrap_or(Held::NOTHING)
            }
        }
    }

    /// The sources of all `steps`, one after the other, and then the destination that they have in
    /// common, rounded at every addition.
    fn add_up(&mut self, steps: &[Step]) -> Result<(), Infallible> {
        let Some(last) = steps.last() else { return Ok(()) };
        let own = last.destinations.first().copied();
        for offset in 0..last.count {
            let chunk = |place: Place| match place {
                Place::Local(slot) => Place::Local(slot.offset(offset)),
                Place::Link(peer) => Place::Link(peer),
            };
            let sources = steps.iter().filter_map(|step| step.sources.last().copied());
            let mut total: Option<Held> = None;
            for place in sources.chain(own).map(chunk) {
                let held = self.fetch(place);
                total = Some(match total {
                    None => held,
                    Some(total) => self.round(PartialSum {
                        summands: Summands::from_slice(&[total.value, held.value]),
                        column: total.column.max(held.column),
                    }),
                });
            }
            if let (Some(own), Some(total)) = (own, total) {
                self.write(chunk(own), &total)?;
            }
        }
        Ok(())
    }

    fn is_recorded(&self, summands: usize, value: ValueId) -> bool {
        match self.record {
            Record::Everything => true,
            Record::Completions => {
                summands > 1 && self.sum_sizes.contains(&self.expressions.leaves(value))
            }
        }
    }
}

impl Held {
    /// What a slot holds before anybody writes it.
    const NOTHING: Held = Held { value: ValueId::UNWRITTEN, column: 0 };
}

/// The column of a slot of input or output; scratch chunks are always of full length.
fn column(slot: Slot, columns: u32) -> u32 {
    match slot.buffer {
        Buffer::Input | Buffer::Output => slot.index % columns,
        Buffer::Scratch => 0,
    }
}

/// What every cell holds at the start.
pub(super) fn initial(
    program: &Program<'_>,
    memory: &Memory<'_>,
    expressions: &Expressions,
) -> Vec<Held> {
    let collective = &program.algorithm().collective;
    let mut cells = vec![Held::NOTHING; memory.len()];
    for rank in collective.all_ranks() {
        for index in 0..collective.input_chunks(rank) {
            if let Some(given) = collective.given(rank, index) {
                let slot = Slot::new(Buffer::Input, index);
                let value = expressions.contribution(given);
                let column = column(slot, collective.chunks);
                cells[memory.cell(rank, slot)] = Held { value, column };
            }
        }
    }
    cells
}

/// A sum under way, and the highest column of its summands.
struct PartialSum {
    summands: Summands,
    column: u32,
}

impl Machine for Symbols<'_> {
    type Sum = PartialSum;
    type Value = Held;
    type Error = Infallible;

    fn read(&mut self, from: Place) -> Result<PartialSum, Infallible> {
        let Held { value, column } = self.fetch(from);
        Ok(PartialSum { summands: Summands::from_slice(&[value]), column })
    }

    fn add(&mut self, mut sum: PartialSum, from: Place) -> Result<PartialSum, Infallible> {
        let Held { value, column } = self.fetch(from);
        sum.summands.push(value);
        sum.column = sum.column.max(column);
        Ok(sum)
    }

    fn round(&mut self, sum: PartialSum) -> Held {
        let PartialSum { summands, column } = sum;
        let count = summands.len();
        if count > 1 {
            let Self { expressions, raw, program, at, .. } = self;
            let is_raw = |value: &ValueId| expressions.leaves(*value) == 1;
            raw.combine(*at, program.id(*at).index(), summands.iter().map(is_raw));
        }
        let value = self.expressions.sum(summands);
        if self.is_recorded(count, value) {
            self.computed.push((self.at, value));
        }
        Held { value, column }
    }

    fn write(&mut self, to: Place, held: &Held) -> Result<(), Infallible> {
        match to {
            Place::Local(slot) => {
                let column = held.column.max(column(slot, self.columns));
                self.cells[self.memory.cell(self.rank, slot)] = Held { column, ..*held };
            }
            Place::Link(peer) => {
                if let Some(link) = self.program.wiring.link_to(self.at.tb, peer) {
                    self.links[link.index()].push_back(*held);
                }
            }
        }
        Ok(())
    }
}
