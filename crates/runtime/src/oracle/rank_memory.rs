//! The buffers of one rank in one call. An unsafe boundary: they are memory that threads share.

#![expect(unsafe_code, reason = "makes memory that threads share")]

use msccl_collective::Buffer;
use msccl_plan::{Alias, Geometry, Program};

use super::memory::SharedBuffer;
use crate::walk::Slicing;

/// Input, output and scratch. In place, input and output are parts of one buffer.
pub(crate) struct RankMemory {
    buffers: Vec<SharedBuffer>,
    /// For [`Buffer::Input`], [`Buffer::Output`] and [`Buffer::Scratch`]: which buffer, and from
    /// which byte on.
    parts: [(usize, usize); 3],
}

impl RankMemory {
    /// The buffers that `program` needs, laid out as its alias says, with `input` copied in; `None`
    /// if they exceed the address space.
    pub(crate) fn new(
        program: &Program,
        input: &[u8],
        in_place: bool,
        slicing: &Slicing,
    ) -> Option<Self> {
        let Geometry { block_chunks: _, input_chunks, output_chunks, scratch_chunks } =
            program.geometry;
        let input_bytes = slicing.user_bytes(input_chunks)?;
        let output_bytes = slicing.user_bytes(output_chunks)?;
        let own_block = slicing.block_bytes().checked_mul(program.rank.index());
        let alias = if in_place { program.alias } else { Alias::None };
        // Lengths of the buffers before scratch, and where input and output lie in them.
        let (mut lengths, input_at, output_at) = match alias {
            Alias::None => (vec![input_bytes, output_bytes], (0, 0), (1, 0)),
            Alias::Same => (vec![input_bytes.max(output_bytes)], (0, 0), (0, 0)),
            Alias::InputInOutput => (vec![output_bytes], (0, own_block?), (0, 0)),
            Alias::OutputInInput => (vec![input_bytes], (0, 0), (0, own_block?)),
        };
        lengths.push(slicing.scratch_bytes(scratch_chunks)?);
        let fits = lengths.iter().all(|&length| isize::try_from(length).is_ok());
        let parts = [input_at, output_at, (lengths.len() - 1, 0)];
        // SAFETY: only thread blocks of one call share these buffers, and they run a proved
        // algorithm (`Executor::new` takes nothing less): the proof says that any two accesses to
        // one slot, one of them a write, are ordered by program order, links and waits, in every
        // round and with this aliasing. Links and signals order memory by release and acquire.
        let buffer = |length| unsafe { SharedBuffer::new(length) };
        let buffers = fits.then(|| lengths.into_iter().map(buffer).collect())?;
        let memory = Self { buffers, parts };
        let (buffer, start) = memory.part(Buffer::Input);
        buffer.write(start, input);
        Some(memory)
    }

    /// The memory of `buffer`, and the byte at which it starts there.
    pub(crate) fn part(&self, buffer: Buffer) -> (&SharedBuffer, usize) {
        let (index, start) = self.parts[buffer as usize];
        (&self.buffers[index], start)
    }
}
