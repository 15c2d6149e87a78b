//! The memory a program runs over, and the ops it leaves behind.
//!
//! [`Memory::assign`] takes one statement in the program's own places and appends the ops that do
//! it in the call's places ([`super::placement`] says where those are). It checks what is new at
//! this stage: operands have one size and overlap not at all or wholly; nothing is read that
//! nothing has written. Ranks and bounds are the caller's to check: a [`Region`] handed in must lie
//! in its buffer.
//!
//! A statement over several chunks becomes several ops where its chunks live apart.

use msccl_collective::{Buffer, Collective, Rank, Slot};
use smallvec::SmallVec;

use super::bits::Bits;
use super::placement::{Homes, Layout};
use super::scratch::{BlockId, Scratch};
use super::{At, HintsId, Op, StatementId};

/// Most chunks that the buffers of all ranks, and scratch, may hold; also most chunks that all
/// operands of all ops may touch together.
pub(crate) const MAX_CHUNKS: u64 = 1 << 28;

/// Most ops of a program.
pub(crate) const MAX_OPS: usize = 1 << 24;

/// A buffer of the language.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(crate) struct BufferId(pub u32);

impl BufferId {
    /// `input`.
    pub const INPUT: BufferId = BufferId(0);
    /// `output`.
    pub const OUTPUT: BufferId = BufferId(1);
}

/// Shadows of input and output cells: scratch buffers of the compiler's own.
const SHADOWS: [u32; 2] = [0, 1];

/// Chunks `start .. start + count` of a buffer of one rank, in the program's places.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Region {
    pub buffer: BufferId,
    pub rank: Rank,
    pub start: u32,
    pub count: u32,
}

/// Why a statement is refused. Sources are counted from 0 in the order they were given.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Refusal {
    /// This source and the destination differ in size.
    Size { source: usize },
    /// This source and the destination overlap in part.
    Overlap { source: usize },
    /// This source is the destination, which an earlier source is already.
    Twice { source: usize },
    /// This source starts with chunks that hold nothing, `region` being the first of them.
    Unwritten { source: usize, region: Region },
    /// The program has [`MAX_OPS`] ops.
    Ops,
    /// The operands of the program have [`MAX_CHUNKS`] chunks.
    Chunks,
    /// The scratch buffers in use have [`MAX_CHUNKS`] chunks.
    Scratch,
}

/// One operand in cells.
#[derive(Clone, Copy)]
struct Cells {
    rank: Rank,
    /// The cell of the first chunk; of scratch, the chunk of the buffer.
    start: Slot,
    /// The scratch buffer, when `start` is in scratch.
    buffer: BufferId,
    count: u32,
}

/// The state of all cells, and the ops so far.
pub(crate) struct Memory {
    layout: Layout,
    /// First bit of the cells of each rank's input and output; by `2 * rank + buffer`.
    bases: Vec<u64>,
    written: Bits,
    moved: Bits,
    /// Chunks of every scratch buffer of the language.
    buffers: Vec<u32>,
    scratch: Scratch,
    ops: Vec<Op>,
    touched: u64,
}

impl Memory {
    /// Memory in which only what the collective gives is written.
    pub fn new(collective: Collective, declared_in_place: bool, in_place: bool) -> Self {
        let scratch = Scratch::new(collective.ranks);
        let layout = Layout::new(collective, declared_in_place, in_place);
        let (bases, cells) = number_cells(&layout);
        let mut memory = Self {
            layout,
            bases,
            written: Bits::new(cells),
            moved: Bits::new(cells),
            buffers: Vec::new(),
            scratch,
            ops: Vec::new(),
            touched: 0,
        };
        memory.write_given();
        memory
    }

    fn write_given(&mut self) {
        for rank in self.layout.collective().all_ranks() {
            for index in 0..self.layout.collective().input_chunks(rank) {
                if self.layout.collective().given(rank, index).is_some() {
                    let cell = self.layout.cell(rank, Slot::new(Buffer::Input, index));
                    let bit = self.bit(rank, cell);
                    self.written.set(bit);
                }
            }
        }
    }

    /// A fresh scratch buffer of `chunks` chunks on every rank.
    pub fn scratch(&mut self, chunks: u32) -> BufferId {
        self.buffers.push(chunks);
        BufferId(self.buffers.len() as u32 + 1)
    }

    /// Chunks of `buffer` on `rank`.
    pub fn chunks(&self, buffer: BufferId, rank: Rank) -> u32 {
        match buffer {
            BufferId::INPUT => self.layout.collective().input_chunks(rank),
            BufferId::OUTPUT => self.layout.collective().output_chunks(rank),
            BufferId(number) => self.buffers[number as usize - 2],
        }
    }

    /// What the program computes.
    pub fn collective(&self) -> &Collective {
        self.layout.collective()
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
        let target = self.cells(to);
        let mut operands: SmallVec<[Cells; 4]> = SmallVec::with_capacity(sources.len());
        for (position, source) in sources.iter().enumerate() {
            operands.push(self.cells(*source));
            check_pair(target, &operands, position)?;
        }
        self.charge(u64::from(to.count) * (sources.len() as u64 + 1))?;
        let read = self.check_written(&operands, sources);
        let is_itself = matches!(operands.as_slice(), [only] if only.is(target));
        if read.is_ok() && !is_itself {
            self.emit(target, &operands, hints, statement)?;
        }
        self.write(target);
        read
    }

    fn charge(&mut self, chunks: u64) -> Result<(), Refusal> {
        self.touched = self.touched.saturating_add(chunks);
        match self.touched {
            touched if touched > MAX_CHUNKS => Err(Refusal::Chunks),
            _ if self.scratch.chunks() > MAX_CHUNKS => Err(Refusal::Scratch),
            _ => Ok(()),
        }
    }

    fn cells(&self, region: Region) -> Cells {
        let Region { buffer, rank, start, count } = region;
        let start = match buffer {
            BufferId::INPUT => self.layout.cell(rank, Slot::new(Buffer::Input, start)),
            BufferId::OUTPUT => self.layout.cell(rank, Slot::new(Buffer::Output, start)),
            BufferId(_) => Slot::new(Buffer::Scratch, start),
        };
        Cells { rank, start, buffer, count }
    }

    fn check_written(&mut self, operands: &[Cells], sources: &[Region]) -> Result<(), Refusal> {
        for (source, operand) in operands.iter().enumerate() {
            let unwritten = (0..operand.count).find(|&chunk| !self.is_written(*operand, chunk));
            if let Some(chunk) = unwritten {
                let Region { buffer, rank, start, count: _ } = sources[source];
                let region = Region { buffer, rank, start: start + chunk, count: 1 };
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
                let (at, run) = self.run(operand, chunk, count, Self::reads_from);
                sources.push(at);
                count = run;
            }
            let (to, count) = self.run(target, chunk, count, Self::writes_to);
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
        home: fn(&mut Self, Cells, u32) -> Slot,
    ) -> (At, u32) {
        let slot = home(self, cells, chunk);
        let mut count = 1;
        while count < most {
            let next = home(self, cells, chunk + count);
            if next.buffer != slot.buffer || next.index != slot.index + count {
                break;
            }
            count += 1;
        }
        (At { rank: cells.rank, slot }, count)
    }

    /// Where the value of a chunk is now.
    fn reads_from(&mut self, cells: Cells, chunk: u32) -> Slot {
        let cell = cells.start.offset(chunk);
        if cell.buffer == Buffer::Scratch {
            return self.scratch_slot(cells.buffer.0, cells.rank, cell.index);
        }
        let Homes { first, later } = self.layout.homes(cells.rank, cell);
        if later == Some(first) || !self.moved.get(self.bit(cells.rank, cell)) {
            return first;
        }
        later.unwrap_or_else(|| self.shadow(cells.rank, cell))
    }

    /// Where the value of a chunk goes.
    fn writes_to(&mut self, cells: Cells, chunk: u32) -> Slot {
        let cell = cells.start.offset(chunk);
        if cell.buffer == Buffer::Scratch {
            return self.scratch_slot(cells.buffer.0, cells.rank, cell.index);
        }
        let Homes { first: _, later } = self.layout.homes(cells.rank, cell);
        later.unwrap_or_else(|| self.shadow(cells.rank, cell))
    }

    fn shadow(&mut self, rank: Rank, cell: Slot) -> Slot {
        self.scratch_slot(SHADOWS[cell.buffer as usize], rank, cell.index)
    }

    fn scratch_slot(&mut self, buffer: u32, rank: Rank, chunk: u32) -> Slot {
        let block = self.block(buffer, rank);
        Slot::new(Buffer::Scratch, self.scratch.slot(block, chunk))
    }

    fn block(&mut self, buffer: u32, rank: Rank) -> BlockId {
        let chunks = match buffer {
            0 => self.layout.cells(rank, Buffer::Input),
            1 => self.layout.cells(rank, Buffer::Output),
            _ => self.buffers[buffer as usize - 2],
        };
        self.scratch.block(buffer, rank, chunks)
    }

    fn is_written(&mut self, cells: Cells, chunk: u32) -> bool {
        let cell = cells.start.offset(chunk);
        match cell.buffer {
            Buffer::Scratch => {
                let block = self.block(cells.buffer.0, cells.rank);
                self.scratch.is_written(block, cell.index)
            }
            Buffer::Input | Buffer::Output => self.written.get(self.bit(cells.rank, cell)),
        }
    }

    /// Notes that the chunks are written, and live in their later homes.
    fn write(&mut self, cells: Cells) {
        for chunk in 0..cells.count {
            let cell = cells.start.offset(chunk);
            if cell.buffer == Buffer::Scratch {
                let block = self.block(cells.buffer.0, cells.rank);
                self.scratch.write(block, cell.index);
            } else {
                let bit = self.bit(cells.rank, cell);
                self.written.set(bit);
                self.moved.set(bit);
            }
        }
    }

    #[inline]
    fn bit(&self, rank: Rank, cell: Slot) -> u64 {
        self.bases[2 * rank.index() + cell.buffer as usize] + u64::from(cell.index)
    }

    /// The ops in final scratch slots, and the scratch chunks of every rank. Out of place, `head`
    /// copies what an in-place program leaves where it was: input that is output untouched.
    pub fn finish(mut self, head: StatementId) -> (Vec<Op>, Vec<u32>) {
        if self.layout.moves_to_output() {
            for rank in self.layout.collective().all_ranks() {
                self.copy_untouched(rank, head);
            }
        }
        let packed = self.scratch.pack();
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

    fn copy_untouched(&mut self, rank: Rank, head: StatementId) {
        let first_op = self.ops.len();
        for index in 0..self.layout.collective().input_chunks(rank) {
            let from = Slot::new(Buffer::Input, index);
            let cell = self.layout.cell(rank, from);
            let Some(to) = self.layout.output_slot(rank, cell) else { continue };
            let wanted = self.layout.collective().promised(rank, to.index).is_some();
            let given = self.written.get(self.bit(rank, cell));
            if wanted && given && !self.moved.get(self.bit(rank, cell)) {
                let (from, to) = (At { rank, slot: from }, At { rank, slot: to });
                push_copy(&mut self.ops, first_op, from, to, head);
            }
        }
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

impl Cells {
    fn is(self, other: Cells) -> bool {
        self.start == other.start
            && self.rank == other.rank
            && self.buffer_key() == other.buffer_key()
    }

    fn overlaps(self, other: Cells) -> bool {
        self.rank == other.rank
            && self.buffer_key() == other.buffer_key()
            && self.start.run(self.count).overlaps(other.start.run(other.count))
    }

    /// The scratch buffer; which of input and output a region was named by does not matter.
    fn buffer_key(self) -> Option<BufferId> {
        (self.start.buffer == Buffer::Scratch).then_some(self.buffer)
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
    match operands[..source].iter().any(|earlier| earlier.is(target)) {
        true => Err(Refusal::Twice { source }),
        false => Ok(()),
    }
}

/// The first bit of each rank's input and output cells, and how many bits there are in all.
fn number_cells(layout: &Layout) -> (Vec<u64>, u64) {
    let mut bases = Vec::with_capacity(2 * layout.collective().ranks as usize);
    let mut next = 0;
    for rank in layout.collective().all_ranks() {
        for buffer in [Buffer::Input, Buffer::Output] {
            bases.push(next);
            next += u64::from(layout.cells(rank, buffer));
        }
    }
    (bases, next)
}
