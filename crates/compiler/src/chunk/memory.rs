//! The memory a program runs over, and the ops it leaves behind.
//!
//! [`Memory::assign`] takes one statement in the program's own places and appends the ops that do
//! it in the call's places ([`super::placement`] says where those are). It checks what is new at
//! this stage: operands have one size and overlap wholly or not at all; nothing is read that
//! nothing has written. Ranks and bounds are the caller's to check: a [`Region`] handed in must lie
//! in its buffer.
//!
//! A statement over several chunks becomes several ops where its chunks live apart.

use msccl_collective::{Buffer, Collective, Rank, Slot};
use smallvec::SmallVec;

use super::cells::{Cells, Store};
use super::placement::Layout;
use super::region::{BufferId, Region};
use super::{At, HintsId, Op, StatementId};

/// Most chunks that the buffers of all ranks, and scratch, may hold; also most chunks that all
/// operands of all ops may touch together.
pub(crate) const MAX_CHUNKS: u64 = 1 << 28;

/// Most ops of a program.
pub(crate) const MAX_OPS: usize = 1 << 24;

/// Why a statement is refused. Sources are counted from 0 in the order they were given.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Refusal {
    /// This source and the destination differ in size.
    Size { source: usize },
    /// This source and the destination overlap in part.
    Overlap { source: usize },
    /// This source is the destination, which an earlier source is already.
    Twice { source: usize },
    /// This source has chunks that hold nothing, `region` being the first of them.
    Unwritten { source: usize, region: Region },
    /// The program would have more than [`MAX_OPS`] ops.
    Ops,
    /// The operands of the program would have more than [`MAX_CHUNKS`] chunks.
    Chunks,
    /// The scratch buffers in use have more than [`MAX_CHUNKS`] chunks.
    Scratch,
}

/// The state of all memory, and the ops so far.
pub(crate) struct Memory {
    store: Store,
    ops: Vec<Op>,
    touched: u64,
}

impl Memory {
    /// Memory in which only what the collective gives is written, for a program that declares
    /// `in place` or not, compiled for calls in place or not.
    pub fn new(collective: Collective, declared_in_place: bool, in_place: bool) -> Self {
        let store = Store::new(Layout::new(collective, declared_in_place, in_place));
        Self { store, ops: Vec::new(), touched: 0 }
    }

    /// What the program computes.
    pub fn collective(&self) -> &Collective {
        self.store.collective()
    }

    /// A fresh scratch buffer of `chunks` chunks on every rank.
    pub fn scratch(&mut self, chunks: u32) -> BufferId {
        self.store.add_scratch(chunks)
    }

    /// Chunks of `buffer` on `rank`.
    pub fn chunks(&self, buffer: BufferId, rank: Rank) -> u32 {
        self.store.chunks(buffer, rank)
    }

    /// Appends `to = Σ sources`. A statement that stores a region over itself leaves no op.
    ///
    /// Refused for unwritten chunks, it counts as done all the same, so that what follows from one
    /// mistake is not reported again.
    pub fn assign(
        &mut self,
        to: Region,
        sources: &[Region],
        hints: HintsId,
        statement: StatementId,
    ) -> Result<(), Refusal> {
        let target = self.store.cells(to);
        let mut operands: SmallVec<[Cells; 4]> = SmallVec::with_capacity(sources.len());
        for (position, source) in sources.iter().enumerate() {
            operands.push(self.store.cells(*source));
            check_pair(target, &operands, position)?;
        }
        self.charge(u64::from(to.count) * (sources.len() as u64 + 1))?;
        let read = self.check_written(&operands, sources);
        if read.is_ok() {
            if matches!(operands.as_slice(), [only] if only.is(target)) {
                return Ok(());
            }
            self.emit(target, &operands, hints, statement)?;
        }
        self.store.write(target);
        read
    }

    fn charge(&mut self, chunks: u64) -> Result<(), Refusal> {
        self.touched = self.touched.saturating_add(chunks);
        match self.touched {
            touched if touched > MAX_CHUNKS => Err(Refusal::Chunks),
            _ if self.store.scratch_chunks() > MAX_CHUNKS => Err(Refusal::Scratch),
            _ => Ok(()),
        }
    }

    fn check_written(&mut self, operands: &[Cells], sources: &[Region]) -> Result<(), Refusal> {
        for (source, (operand, region)) in operands.iter().zip(sources).enumerate() {
            if let Some(chunk) = self.store.first_unwritten(*operand) {
                let region = Region { start: region.start + chunk, count: 1, ..*region };
                return Err(Refusal::Unwritten { source, region });
            }
        }
        Ok(())
    }

    /// Splits a statement into ops: the longest runs in which every operand is one run of slots.
    fn emit(
        &mut self,
        target: Cells,
        operands: &[Cells],
        hints: HintsId,
        statement: StatementId,
    ) -> Result<(), Refusal> {
        let mut chunk = 0;
        while chunk < target.count {
            let mut sources = SmallVec::with_capacity(operands.len());
            let mut count = target.count - chunk;
            for &operand in operands {
                let (at, run) = self.run(operand, chunk, count, Store::reads_from);
                sources.push(at);
                count = run;
            }
            let (to, count) = self.run(target, chunk, count, Store::writes_to);
            if self.ops.len() >= MAX_OPS {
                return Err(Refusal::Ops);
            }
            self.ops.push(Op { to, sources, count, hints, statement });
            chunk += count;
        }
        Ok(())
    }

    /// The slot of chunk `chunk` of an operand, and how many chunks from there, `most` at most, lie
    /// one behind the other.
    fn run(
        &mut self,
        cells: Cells,
        chunk: u32,
        most: u32,
        home: fn(&mut Store, Cells, u32) -> Slot,
    ) -> (At, u32) {
        let slot = home(&mut self.store, cells, chunk);
        let mut count = 1;
        while count < most {
            let next = home(&mut self.store, cells, chunk + count);
            if next.buffer != slot.buffer || next.index != slot.index + count {
                break;
            }
            count += 1;
        }
        (At { rank: cells.rank, slot }, count)
    }

    /// The ops in final scratch slots, and the scratch chunks of every rank. What an in-place
    /// program leaves where it was, the statement `head` copies to the output.
    pub fn finish(mut self, head: StatementId) -> (Vec<Op>, Vec<u32>) {
        for rank in self.store.collective().all_ranks() {
            let first_op = self.ops.len();
            for (from, to) in self.store.left_in_input(rank) {
                let (from, to) = (At { rank, slot: from }, At { rank, slot: to });
                push_copy(&mut self.ops, first_op, from, to, head);
            }
        }
        let packed = self.store.pack();
        let settle = |at: &mut At| {
            if at.slot.buffer == Buffer::Scratch {
                at.slot.index = packed.slot(at.rank, at.slot.index);
            }
        };
        for op in &mut self.ops {
            settle(&mut op.to);
            op.sources.iter_mut().for_each(settle);
        }
        (self.ops, packed.chunks())
    }
}

/// Checks the last of `operands` against the target and the operands before it.
fn check_pair(target: Cells, operands: &[Cells], source: usize) -> Result<(), Refusal> {
    let operand = operands[source];
    if operand.count != target.count {
        return Err(Refusal::Size { source });
    }
    if !operand.overlaps(target) {
        return Ok(());
    }
    if !operand.is(target) {
        return Err(Refusal::Overlap { source });
    }
    if operands[..source].iter().any(|earlier| earlier.is(target)) {
        Err(Refusal::Twice { source })
    } else {
        Ok(())
    }
}

/// Appends a copy of one chunk, as part of the last op from `first_op` on where it continues that.
fn push_copy(ops: &mut Vec<Op>, first_op: usize, from: At, to: At, statement: StatementId) {
    if let Some(last) = ops[first_op..].last_mut() {
        let continues = last.sources[0].slot.offset(last.count) == from.slot
            && last.to.slot.offset(last.count) == to.slot;
        if continues {
            last.count += 1;
            return;
        }
    }
    let sources = SmallVec::from_slice(&[from]);
    ops.push(Op { to, sources, count: 1, hints: HintsId::default(), statement });
}
