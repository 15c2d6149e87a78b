//! Where a program's memory lies in the buffers of the call.
//!
//! A program is written over *cells*. Declared `in place`, or compiled for in-place calls, input
//! and output are one memory: the two slots that [`Collective::in_place`] maps to one slot are one
//! cell, named by that slot. Otherwise every slot is a cell of its own.
//!
//! A call provides other memory than the program imagines, and its input is read only but for the
//! part that is also output. So a cell has two **homes**: `first`, where its value lies before the
//! program writes it, and `later`, where the first write puts it and where it stays from then on.
//!
//! | compiled | declared | cell | first | later |
//! |---|---|---|---|---|
//! | in place | either | part of the output | the cell | the cell |
//! | in place | either | not part of the output | its input slot | a shadow |
//! | out of place | in place | has an output slot | its input slot, else its output slot | its output slot |
//! | out of place | in place | has none | its input slot | a shadow |
//! | out of place | not in place | of the output | the cell | the cell |
//! | out of place | not in place | of the input | the cell | a shadow |
//!
//! A *shadow* is a scratch slot made for the cell. Cells outside the output exist in reduce-scatter
//! (other ranks' blocks), scatter (at the root), gather and reduce (at ranks that are not the root:
//! they have no output, and a program may accumulate in their `input`).
//!
//! No two cells share a home, so redirecting keeps what a program means; where a first write moves
//! a cell, the next reads follow it.

use msccl_collective::{Buffer, Collective, Kind, Rank, Slot};

/// How cells are named and where they live.
pub(super) struct Layout {
    collective: Collective,
    one_memory: bool,
    in_place: bool,
}

/// Where one cell lives.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Homes {
    /// Before the program writes it.
    pub first: Slot,
    /// After; `None` is a shadow.
    pub later: Option<Slot>,
}

impl Layout {
    /// The layout of a program that declares `in place` or not, compiled for such calls or not.
    pub fn new(collective: Collective, declared_in_place: bool, in_place: bool) -> Self {
        Self { collective, one_memory: declared_in_place || in_place, in_place }
    }

    pub fn collective(&self) -> &Collective {
        &self.collective
    }

    /// Whether cells move from input to output: a program for one memory on two.
    pub fn moves_to_output(&self) -> bool {
        self.one_memory && !self.in_place
    }

    /// How many cells of `rank` are named by slots of `buffer`, at most.
    pub fn cells(&self, rank: Rank, buffer: Buffer) -> u32 {
        let own = self.collective.buffer_chunks(rank, buffer);
        match buffer {
            Buffer::Output if self.one_memory => own.max(self.collective.input_chunks(rank)),
            Buffer::Input | Buffer::Output | Buffer::Scratch => own,
        }
    }

    /// The cell of a slot; consecutive slots of a buffer have consecutive cells.
    #[inline]
    pub fn cell(&self, rank: Rank, slot: Slot) -> Slot {
        if self.one_memory { self.collective.in_place(rank, slot) } else { slot }
    }

    /// Where a cell of the caller's buffers lives.
    #[inline]
    pub fn homes(&self, rank: Rank, cell: Slot) -> Homes {
        let input = self.input_slot(rank, cell);
        let output = self.output_slot(rank, cell);
        if self.in_place {
            let inside = cell.index < self.collective.buffer_chunks(rank, cell.buffer);
            let first = if inside { cell } else { input.unwrap_or(cell) };
            return Homes { first, later: output.map(|_| first) };
        }
        let first = input.or(output).unwrap_or(cell);
        Homes { first, later: output }
    }

    /// The input slot that is this cell, if any.
    fn input_slot(&self, rank: Rank, cell: Slot) -> Option<Slot> {
        let chunks = self.collective.input_chunks(rank);
        let index = match cell.buffer {
            Buffer::Input => cell.index,
            Buffer::Output if !self.one_memory => return None,
            Buffer::Output => match &self.collective.kind {
                Kind::AllGather | Kind::Gather { .. } => self.within_block(rank, cell.index)?,
                Kind::AllReduce
                | Kind::ReduceScatter
                | Kind::AllToAll
                | Kind::Broadcast { .. }
                | Kind::Reduce { .. }
                | Kind::Scatter { .. }
                | Kind::Custom(_) => cell.index,
            },
            Buffer::Scratch => return None,
        };
        let aliased = match (&self.collective.kind, cell.buffer) {
            (Kind::ReduceScatter | Kind::Scatter { .. }, Buffer::Output) => false,
            (_, _) => index < chunks,
        };
        aliased.then_some(Slot::new(Buffer::Input, index))
    }

    /// The output slot that is this cell, if any.
    pub fn output_slot(&self, rank: Rank, cell: Slot) -> Option<Slot> {
        let index = match (cell.buffer, &self.collective.kind) {
            (Buffer::Output, _) => cell.index,
            (Buffer::Input, Kind::ReduceScatter) if self.one_memory => {
                self.within_block(rank, cell.index)?
            }
            (Buffer::Input, Kind::Scatter { root }) if self.one_memory && *root == rank => {
                self.within_block(rank, cell.index)?
            }
            (Buffer::Input | Buffer::Scratch, _) => return None,
        };
        let inside = index < self.collective.output_chunks(rank);
        inside.then_some(Slot::new(Buffer::Output, index))
    }

    /// The position of slot `index` within `rank`'s own block.
    fn within_block(&self, rank: Rank, index: u32) -> Option<u32> {
        let block = self.collective.chunks;
        index.checked_sub(rank.0 * block).filter(|&offset| offset < block)
    }
}
