//! All conflicting accesses that waits on their own rank do not order.

use msccl_collective::{Rank, Region, Slot};
use msccl_ir::MessageOrder;
use smallvec::SmallVec;

use super::clocks::Clocks;
use super::{Access, Conflict};
use crate::memory::{Call, Memory};
use crate::program::{At, Program};

/// Scans every rank; the conflicts stand in the order of ranks, then of the run.
pub(super) fn not_ordered_locally(
    program: &Program<'_>,
    order: &[At],
    call: Call,
    messages: MessageOrder,
) -> Vec<Conflict> {
    let memory = Memory::new(program.algorithm(), call);
    let mut cells = Cells::default();
    let mut conflicts = Vec::new();
    for (rank, steps) in by_rank(program, order) {
        cells.reset(memory.cells_of(rank).len());
        let first_cell = memory.cells_of(rank).start;
        let cell_of = |slot| memory.cell(rank, slot) - first_cell;
        let clocks = Clocks::new(program, rank);
        let mut scan = RaceScan { clocks, messages, cells: &mut cells, conflicts: &mut conflicts };
        steps.into_iter().for_each(|at| scan.step(program, at, cell_of));
    }
    conflicts
}

/// The run's steps of every rank that has several thread blocks, in the order of the run.
fn by_rank(program: &Program<'_>, order: &[At]) -> Vec<(Rank, Vec<At>)> {
    let ranks = program.algorithm().collective.all_ranks();
    let mut steps: Vec<_> = ranks.map(|rank| (rank, Vec::new())).collect();
    for &at in order {
        let rank = program.rank(at);
        if program.wiring.tbs_of(rank).len() > 1 {
            steps[rank.index()].1.push(at);
        }
    }
    steps.retain(|(_, steps)| !steps.is_empty());
    steps
}

struct RaceScan<'a> {
    clocks: Clocks,
    messages: MessageOrder,
    cells: &'a mut Cells,
    conflicts: &'a mut Vec<Conflict>,
}

impl RaceScan<'_> {
    fn step(&mut self, program: &Program<'_>, at: At, cell_of: impl Fn(Slot) -> usize) {
        let step = program.step(at);
        self.clocks.enter(at, program.waits(at));
        for region in step.reads() {
            self.region(at, region, false, &cell_of);
        }
        for region in step.writes() {
            self.region(at, region, true, &cell_of);
        }
        self.clocks.leave(at);
    }

    fn region(&mut self, at: At, region: Region, writes: bool, cell_of: impl Fn(Slot) -> usize) {
        for (offset, slot) in (0..).zip(region.slots()) {
            let access = Access { at, slot, offset, writes };
            let cell = cell_of(slot);
            if writes {
                self.write(cell, access);
            } else {
                self.read(cell, access);
            }
        }
    }

    fn read(&mut self, cell: usize, access: Access) {
        if let Some(writer) = self.cells.writer[cell] {
            self.compare(writer, access);
        }
        let readers = &mut self.cells.readers[cell];
        // Program order makes the later of two reads of one block stand for both.
        match readers.last_mut() {
            Some(last) if last.at.tb == access.at.tb => *last = access,
            _ => readers.push(access),
        }
    }

    fn write(&mut self, cell: usize, access: Access) {
        let writer = self.cells.writer[cell].replace(access);
        let readers = std::mem::take(&mut self.cells.readers[cell]);
        // Readers come after the writer, and what comes after them after it, also where messages
        // order loads alone.
        let writer = writer.filter(|_| readers.is_empty());
        for earlier in writer.into_iter().chain(readers) {
            self.compare(earlier, access);
        }
    }

    fn compare(&mut self, earlier: Access, later: Access) {
        if self.clocks.ordered(earlier.at, later.at.tb) {
            return;
        }
        let conflict = Conflict { earlier, later };
        if !self.conflicts.last().is_some_and(|last| last.speaks_for(&conflict, self.messages)) {
            self.conflicts.push(conflict);
        }
    }
}

/// For every cell of a rank: its last write and the reads since.
#[derive(Default)]
struct Cells {
    writer: Vec<Option<Access>>,
    readers: Vec<SmallVec<[Access; 1]>>,
}

impl Cells {
    fn reset(&mut self, cells: usize) {
        self.writer.clear();
        self.writer.resize(cells, None);
        self.readers.clear();
        self.readers.resize(cells, SmallVec::new());
    }
}
