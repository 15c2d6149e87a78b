//! The state of every cell: has it been written, and where does its value live now?

use msccl_collective::{Buffer, Collective, Rank, Slot};

use super::bits::Bits;
use super::placement::{Homes, Layout};
use super::region::{BufferId, Region};
use super::scratch::{BlockId, Packed, Scratch};

/// Shadows of input and output cells are kept in scratch buffers of the compiler's own.
const SHADOWS: [BufferId; 2] = [BufferId::INPUT, BufferId::OUTPUT];

/// A run of cells of one rank.
#[derive(Clone, Copy)]
pub(super) struct Cells {
    pub rank: Rank,
    /// The first cell; of scratch, the chunk of the buffer.
    pub start: Slot,
    /// The scratch buffer, when `start` is in scratch.
    buffer: BufferId,
    pub count: u32,
}

impl Cells {
    /// Whether both start with the same cell.
    pub fn is(self, other: Cells) -> bool {
        self.start == other.start
            && self.rank == other.rank
            && self.scratch_buffer() == other.scratch_buffer()
    }

    /// Whether the two share a cell.
    pub fn overlaps(self, other: Cells) -> bool {
        self.rank == other.rank
            && self.scratch_buffer() == other.scratch_buffer()
            && self.start.run(self.count).overlaps(other.start.run(other.count))
    }

    /// Which of input and output a region was named by does not matter; which scratch buffer does.
    fn scratch_buffer(self) -> Option<BufferId> {
        (self.start.buffer == Buffer::Scratch).then_some(self.buffer)
    }
}

/// All cells of all ranks.
pub(super) struct Store {
    layout: Layout,
    /// First bit of the cells of each rank's input and output; by `2 * rank + buffer`.
    bases: Vec<u64>,
    written: Bits,
    moved: Bits,
    /// Chunks of every scratch buffer of the language.
    buffers: Vec<u32>,
    scratch: Scratch,
}

impl Store {
    /// Cells of which only those are written that the collective gives.
    pub fn new(layout: Layout) -> Self {
        let (bases, cells) = number_cells(&layout);
        let scratch = Scratch::new(layout.collective().ranks);
        let (written, moved) = (Bits::new(cells), Bits::new(cells));
        let mut store = Self { layout, bases, written, moved, buffers: Vec::new(), scratch };
        store.write_given();
        store
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

    pub fn collective(&self) -> &Collective {
        self.layout.collective()
    }

    /// A fresh scratch buffer of `chunks` chunks on every rank.
    pub fn add_scratch(&mut self, chunks: u32) -> BufferId {
        self.buffers.push(chunks);
        BufferId(self.buffers.len() as u32 + 1)
    }

    /// Chunks of `buffer` on `rank`.
    pub fn chunks(&self, buffer: BufferId, rank: Rank) -> u32 {
        match buffer {
            BufferId::INPUT => self.collective().input_chunks(rank),
            BufferId::OUTPUT => self.collective().output_chunks(rank),
            BufferId(number) => self.buffers[number as usize - 2],
        }
    }

    /// Chunks of all scratch buffers on the ranks that have used them.
    pub fn scratch_chunks(&self) -> u64 {
        self.scratch.chunks()
    }

    /// The cells of a region.
    pub fn cells(&self, region: Region) -> Cells {
        let Region { buffer, rank, start, count } = region;
        let start = match buffer {
            BufferId::INPUT => self.layout.cell(rank, Slot::new(Buffer::Input, start)),
            BufferId::OUTPUT => self.layout.cell(rank, Slot::new(Buffer::Output, start)),
            BufferId(_) => Slot::new(Buffer::Scratch, start),
        };
        Cells { rank, start, buffer, count }
    }

    /// The first chunk of the run that nothing has written.
    pub fn first_unwritten(&mut self, cells: Cells) -> Option<u32> {
        (0..cells.count).find(|&chunk| !self.is_written(cells, chunk))
    }

    fn is_written(&mut self, cells: Cells, chunk: u32) -> bool {
        let cell = cells.start.offset(chunk);
        match cell.buffer {
            Buffer::Scratch => {
                let block = self.block(cells.buffer, cells.rank);
                self.scratch.is_written(block, cell.index)
            }
            Buffer::Input | Buffer::Output => self.written.get(self.bit(cells.rank, cell)),
        }
    }

    /// Where the value of a chunk is now.
    pub fn reads_from(&mut self, cells: Cells, chunk: u32) -> Slot {
        let cell = cells.start.offset(chunk);
        if cell.buffer == Buffer::Scratch {
            return self.scratch_slot(cells.buffer, cells.rank, cell.index);
        }
        let Homes { first, later } = self.layout.homes(cells.rank, cell);
        if later == Some(first) || !self.moved.get(self.bit(cells.rank, cell)) {
            return first;
        }
        later.unwrap_or_else(|| self.shadow(cells.rank, cell))
    }

    /// Where the value of a chunk goes.
    pub fn writes_to(&mut self, cells: Cells, chunk: u32) -> Slot {
        let cell = cells.start.offset(chunk);
        if cell.buffer == Buffer::Scratch {
            return self.scratch_slot(cells.buffer, cells.rank, cell.index);
        }
        let Homes { first: _, later } = self.layout.homes(cells.rank, cell);
        later.unwrap_or_else(|| self.shadow(cells.rank, cell))
    }

    /// Notes that the cells are written, and live in their later homes.
    pub fn write(&mut self, cells: Cells) {
        for chunk in 0..cells.count {
            let cell = cells.start.offset(chunk);
            if cell.buffer == Buffer::Scratch {
                let block = self.block(cells.buffer, cells.rank);
                self.scratch.write(block, cell.index);
            } else {
                let bit = self.bit(cells.rank, cell);
                self.written.set(bit);
                self.moved.set(bit);
            }
        }
    }

    fn shadow(&mut self, rank: Rank, cell: Slot) -> Slot {
        self.scratch_slot(SHADOWS[cell.buffer as usize], rank, cell.index)
    }

    fn scratch_slot(&mut self, buffer: BufferId, rank: Rank, chunk: u32) -> Slot {
        let block = self.block(buffer, rank);
        Slot::new(Buffer::Scratch, self.scratch.slot(block, chunk))
    }

    fn block(&mut self, buffer: BufferId, rank: Rank) -> BlockId {
        let chunks = match buffer {
            BufferId::INPUT => self.layout.cells(rank, Buffer::Input),
            BufferId::OUTPUT => self.layout.cells(rank, Buffer::Output),
            BufferId(number) => self.buffers[number as usize - 2],
        };
        self.scratch.block(buffer, rank, chunks)
    }

    #[inline]
    fn bit(&self, rank: Rank, cell: Slot) -> u64 {
        self.bases[2 * rank.index() + cell.buffer as usize] + u64::from(cell.index)
    }

    /// Final slots for the scratch slots handed out so far.
    pub fn pack(&self) -> Packed {
        self.scratch.pack()
    }

    /// The promised output slots of a rank whose values still lie in its input, and where: what an
    /// in-place program leaves untouched, run out of place.
    pub fn left_in_input(&self, rank: Rank) -> impl Iterator<Item = (Slot, Slot)> {
        let inputs =
            if self.layout.moves_to_output() { self.collective().input_chunks(rank) } else { 0 };
        (0..inputs).filter_map(move |index| {
            let from = Slot::new(Buffer::Input, index);
            let cell = self.layout.cell(rank, from);
            let to = self.layout.output_slot(rank, cell)?;
            let bit = self.bit(rank, cell);
            let untouched = self.written.get(bit) && !self.moved.get(bit);
            let promised = self.collective().promised(rank, to.index).is_some();
            (untouched && promised).then_some((from, to))
        })
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
