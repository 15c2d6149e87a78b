//! The machine over symbols.

use std::collections::VecDeque;
use std::convert::Infallible;

use msccl_collective::{Buffer, Rank, Slot};
use msccl_ir::Place;
use msccl_machine::{Machine, TbId, execute};

use super::expression::{Expressions, Summands, ValueId};
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

/// The end of the run.
pub(super) struct End {
    pub(super) expressions: Expressions,
    /// What every cell holds.
    pub(super) cells: Vec<ValueId>,
    /// The first reads of what nobody had written.
    pub(super) unwritten: Vec<(At, Slot)>,
    /// What was asked to be recorded, in the order of the run.
    pub(super) computed: Vec<(At, ValueId)>,
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
    let Symbols { expressions, cells, unwritten, computed, .. } = symbols;
    End { expressions, cells, unwritten, computed }
}

struct Symbols<'a> {
    program: &'a Program<'a>,
    memory: &'a Memory<'a>,
    record: Record,
    /// Sizes of the promised sums of at least two.
    sum_sizes: Vec<u32>,
    expressions: Expressions,
    cells: Vec<ValueId>,
    links: Vec<VecDeque<ValueId>>,
    unwritten: Vec<(At, Slot)>,
    computed: Vec<(At, ValueId)>,
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
            sum_sizes: super::promise::sum_sizes(collective),
            cells: initial(program, memory, &expressions),
            expressions,
            links: vec![VecDeque::new(); program.wiring.links().len()],
            unwritten: Vec::new(),
            computed: Vec::new(),
            at: At { tb: TbId(0), step: 0 },
            rank: Rank(0),
        }
    }

    fn fetch(&mut self, from: Place) -> ValueId {
        match from {
            Place::Local(slot) => {
                let value = self.cells[self.memory.cell(self.rank, slot)];
                if value == ValueId::UNWRITTEN && self.unwritten.len() < MOST_FAULTS {
                    self.unwritten.push((self.at, slot));
                }
                value
            }
            Place::Link(peer) => {
                let link = self.program.wiring.link_from(self.at.tb, peer);
                let next = link.and_then(|link| self.links[link.index()].pop_front());
                next.unwrap_or(ValueId::UNWRITTEN)
            }
        }
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

/// What every cell holds at the start.
pub(super) fn initial(
    program: &Program<'_>,
    memory: &Memory<'_>,
    expressions: &Expressions,
) -> Vec<ValueId> {
    let collective = &program.algorithm().collective;
    let mut cells = vec![ValueId::UNWRITTEN; memory.len()];
    for rank in collective.all_ranks() {
        for index in 0..collective.input_chunks(rank) {
            if let Some(given) = collective.given(rank, index) {
                let cell = memory.cell(rank, Slot::new(Buffer::Input, index));
                cells[cell] = expressions.contribution(given);
            }
        }
    }
    cells
}

impl Machine for Symbols<'_> {
    type Sum = Summands;
    type Value = ValueId;
    type Error = Infallible;

    fn read(&mut self, from: Place) -> Result<Summands, Infallible> {
        Ok(Summands::from_slice(&[self.fetch(from)]))
    }

    fn add(&mut self, mut sum: Summands, from: Place) -> Result<Summands, Infallible> {
        sum.push(self.fetch(from));
        Ok(sum)
    }

    fn round(&mut self, sum: Summands) -> ValueId {
        let summands = sum.len();
        let value = self.expressions.sum(sum);
        if self.is_recorded(summands, value) {
            self.computed.push((self.at, value));
        }
        value
    }

    fn write(&mut self, to: Place, value: &ValueId) -> Result<(), Infallible> {
        match to {
            Place::Local(slot) => self.cells[self.memory.cell(self.rank, slot)] = *value,
            Place::Link(peer) => {
                if let Some(link) = self.program.wiring.link_to(self.at.tb, peer) {
                    self.links[link.index()].push_back(*value);
                }
            }
        }
        Ok(())
    }
}
