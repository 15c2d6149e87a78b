//! Who last touched each slot of one rank.

use msccl_collective::Slot;
use msccl_ir::Wait;
use smallvec::SmallVec;

use crate::instruction::SlotTable;
use msccl_collective::Rank;

/// The last write of every slot of one rank, and the reads since.
#[derive(Debug)]
pub struct RankSlots<'a> {
    table: &'a SlotTable,
    rank: Rank,
    first: usize,
    slots: Vec<SlotUse>,
}

#[derive(Clone, Debug, Default)]
struct SlotUse {
    writer: Option<Wait>,
    /// Readers since the last write; of each thread block the last.
    readers: SmallVec<[Wait; 2]>,
}

impl<'a> RankSlots<'a> {
    /// The untouched memory of `rank`.
    pub fn new(table: &'a SlotTable, rank: Rank) -> Self {
        let numbers = table.numbers(rank);
        let slots = vec![SlotUse::default(); numbers.len()];
        Self { table, rank, first: numbers.start, slots }
    }

    /// The step that last wrote `slot`.
    pub fn writer(&self, slot: Slot) -> Option<Wait> {
        self.slots[self.number(slot)].writer
    }

    /// Calls `visit` for every step that a read of `count` slots from `start` must follow.
    pub fn before_read(&self, start: Slot, count: u32, mut visit: impl FnMut(Wait)) {
        for used in self.run(start, count) {
            used.writer.into_iter().for_each(&mut visit);
        }
    }

    /// Calls `visit` for every step that a write of `count` slots from `start` must follow.
    pub fn before_write(&self, start: Slot, count: u32, mut visit: impl FnMut(Wait)) {
        for used in self.run(start, count) {
            used.writer.into_iter().for_each(&mut visit);
            used.readers.iter().copied().for_each(&mut visit);
        }
    }

    /// Notes a read by `step`.
    pub fn read(&mut self, start: Slot, count: u32, step: Wait) {
        for used in self.run_mut(start, count) {
            match used.readers.iter_mut().find(|reader| reader.tb == step.tb) {
                Some(reader) => *reader = step,
                None => used.readers.push(step),
            }
        }
    }

    /// Notes a write by `step`.
    pub fn write(&mut self, start: Slot, count: u32, step: Wait) {
        for used in self.run_mut(start, count) {
            used.writer = Some(step);
            used.readers.clear();
        }
    }

    fn number(&self, slot: Slot) -> usize {
        self.table.number(self.rank, slot) - self.first
    }

    fn run(&self, start: Slot, count: u32) -> &[SlotUse] {
        let first = self.number(start);
        &self.slots[first..first + count as usize]
    }

    fn run_mut(&mut self, start: Slot, count: u32) -> &mut [SlotUse] {
        let first = self.number(start);
        &mut self.slots[first..first + count as usize]
    }
}
