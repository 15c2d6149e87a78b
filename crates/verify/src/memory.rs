//! Slots as memory: one number per piece of memory, with input and output aliased or not.

use std::ops::Range;

use msccl_collective::{Buffer, Rank, Slot};
use msccl_ir::Algorithm;

/// How a call's buffers lie in memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Call {
    /// Input and output share memory.
    InPlace,
    /// They do not.
    OutOfPlace,
}

impl Call {
    /// The calls that the algorithm serves.
    pub(crate) fn served(algorithm: &Algorithm) -> impl Iterator<Item = Call> {
        let in_place = algorithm.placement.serves_in_place().then_some(Call::InPlace);
        let out_of_place = algorithm.placement.serves_out_of_place().then_some(Call::OutOfPlace);
        in_place.into_iter().chain(out_of_place)
    }

    /// The words for messages.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Call::InPlace => "in place",
            Call::OutOfPlace => "out of place",
        }
    }
}

/// Where every slot of every rank lies.
pub(crate) struct Memory<'a> {
    algorithm: &'a Algorithm,
    call: Call,
    /// The first cell of each buffer of each rank, and at the end the number of all cells.
    first: Vec<[u32; 3]>,
    cells: u32,
}

impl<'a> Memory<'a> {
    pub(crate) fn new(algorithm: &'a Algorithm, call: Call) -> Self {
        let mut cells = 0;
        let mut first = Vec::with_capacity(algorithm.ranks.len());
        for (rank, program) in algorithm.ranks.iter().enumerate() {
            let rank = Rank::from(rank);
            let input = algorithm.collective.input_chunks(rank);
            let output = algorithm.collective.output_chunks(rank);
            // In place, either buffer may stand for the other, so both get the larger length.
            let (input, output) = match call {
                Call::InPlace => (input.max(output), input.max(output)),
                Call::OutOfPlace => (input, output),
            };
            first.push([cells, cells + input, cells + input + output]);
            cells += input + output + program.scratch_chunks;
        }
        Self { algorithm, call, first, cells }
    }

    pub(crate) fn call(&self) -> Call {
        self.call
    }

    /// How many cells there are.
    pub(crate) fn len(&self) -> usize {
        self.cells as usize
    }

    /// The cell of `slot` of `rank`.
    pub(crate) fn cell(&self, rank: Rank, slot: Slot) -> usize {
        let Slot { buffer, index } = match self.call {
            Call::InPlace => self.algorithm.collective.in_place(rank, slot),
            Call::OutOfPlace => slot,
        };
        let buffer = match buffer {
            Buffer::Input => 0,
            Buffer::Output => 1,
            Buffer::Scratch => 2,
        };
        (self.first[rank.index()][buffer] + index) as usize
    }

    /// The cells of `rank`.
    pub(crate) fn cells_of(&self, rank: Rank) -> Range<usize> {
        let next = self.first.get(rank.index() + 1).map_or(self.cells, |next| next[0]);
        self.first[rank.index()][0] as usize..next as usize
    }
}
