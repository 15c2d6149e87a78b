//! Where the slices of one call lie: the byte ranges that follow from a [`Cut`].
//!
//! A block has `K` chunks of [`Cut::chunk_bytes`]; the last chunks of a block may be shorter or
//! empty: bytes beyond the block do not exist. Scratch chunks and messages always have full length.
//! Every instance handles one part of each chunk, and every round one slice of that part; a
//! [`Round`] is one round of one instance. Kernels cut alike, so results are comparable bit for
//! bit.

use std::ops::Range;

use msccl_plan::Program;
use msccl_plan::cut::Cut;

/// One run of a program, over its slice of every chunk.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) struct Round {
    /// Which of the instances that run side by side.
    pub(crate) instance: u32,
    /// Which round of it.
    pub(crate) round: u32,
}

/// The measures of one call, in bytes unless the name says otherwise.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Slicing {
    block_chunks: usize,
    block: usize,
    chunk: usize,
    part: usize,
    slice: usize,
    /// From one scratch chunk to the next.
    scratch_chunk: usize,
    /// How often the program runs in each instance; never for empty blocks.
    pub(crate) rounds: u32,
    /// Chunks of a counted step that share one message.
    pub(crate) chunks_per_message: u32,
}

impl Slicing {
    /// A call of `program` that is cut as `cut` says; `None` if a chunk exceeds the address space.
    pub(crate) fn new(program: &Program, cut: &Cut) -> Option<Self> {
        let bytes = |bytes: u64| usize::try_from(bytes).ok();
        Some(Self {
            block_chunks: program.geometry.block_chunks.max(1) as usize,
            block: bytes(cut.block_bytes)?,
            chunk: bytes(cut.chunk_bytes)?,
            part: bytes(cut.part_bytes)?,
            slice: bytes(cut.slice_bytes)?,
            scratch_chunk: bytes(cut.scratch_bytes(1)?)?,
            rounds: cut.rounds,
            chunks_per_message: cut.chunks_per_message,
        })
    }

    /// Size of a slice of `pass` at full length.
    pub(crate) fn slice_bytes(&self, pass: Round) -> usize {
        self.in_chunk(pass).len()
    }

    /// The largest size of a slice.
    pub(crate) fn slice_bytes_max(&self) -> usize {
        self.slice.min(self.chunk)
    }

    /// Size of one block.
    pub(crate) fn block_bytes(&self) -> usize {
        self.block
    }

    /// Size of an input or output of `chunks` chunks.
    pub(crate) fn user_bytes(&self, chunks: u32) -> Option<usize> {
        let (blocks, rest) =
            (chunks as usize / self.block_chunks, chunks as usize % self.block_chunks);
        let rest = rest.checked_mul(self.chunk)?.min(self.block);
        blocks.checked_mul(self.block)?.checked_add(rest)
    }

    /// Size of a scratch buffer of `chunks` chunks.
    pub(crate) fn scratch_bytes(&self, chunks: u32) -> Option<usize> {
        self.scratch_chunk.checked_mul(chunks as usize)
    }

    /// The slice of `pass` of input or output chunk `index`, as far as it exists.
    pub(crate) fn user_slice(&self, index: u32, pass: Round) -> Range<usize> {
        let (block, column) =
            (index as usize / self.block_chunks, index as usize % self.block_chunks);
        let Range { start, end } = self.in_chunk(pass);
        let in_block = |offset: usize| (column * self.chunk + offset).min(self.block);
        block * self.block + in_block(start)..block * self.block + in_block(end)
    }

    /// The slice of `pass` of scratch chunk `index`.
    pub(crate) fn scratch_slice(&self, index: u32, pass: Round) -> Range<usize> {
        let chunk = index as usize * self.scratch_chunk;
        let Range { start, end } = self.in_chunk(pass);
        chunk + start..chunk + end
    }

    /// The slice of `pass` in a chunk of full length.
    fn in_chunk(&self, pass: Round) -> Range<usize> {
        let part = self.part * pass.instance as usize;
        let part_end = (part + self.part).min(self.chunk);
        let start = (part + self.slice * pass.round as usize).min(part_end);
        start..(start + self.slice).min(part_end)
    }
}

#[cfg(test)]
mod tests {
    use msccl_collective::{Placement, Protocol, Rank};
    use msccl_ir::Packing;
    use msccl_plan::{Alias, Counts, Geometry, LinkLimits};

    use super::*;

    fn program(block_chunks: u32, message_bytes: u32, counts: Counts) -> Program {
        let (depth, slice_bytes, packing) = (2, message_bytes, Packing::Fitting);
        let (input_chunks, output_chunks, scratch_chunks) = (block_chunks, block_chunks, 0);
        Program {
            rank: Rank(0),
            ranks: 1,
            protocol: Protocol::Simple,
            placement: Placement::Both,
            alias: Alias::Same,
            geometry: Geometry { block_chunks, input_chunks, output_chunks, scratch_chunks },
            threads: None,
            links: LinkLimits { depth, message_bytes, slice_bytes, packing, count_limit: 8 },
            average: None,
            counts,
            thread_blocks: Vec::new(),
        }
    }

    fn slicing(elements: u64, block_chunks: u32, message_bytes: u32, instances: u32) -> Slicing {
        let program = program(block_chunks, message_bytes, Counts::Any);
        Slicing::new(&program, &Cut::new(&program, elements, 4, instances).unwrap()).unwrap()
    }

    /// Every byte of a buffer of `blocks` blocks belongs to exactly one slice, and so does every
    /// byte of a scratch buffer.
    fn check(program: &Program, elements: u64, blocks: u32, instances: u32) {
        let cut = Cut::new(program, elements, 4, instances).unwrap();
        let slicing = Slicing::new(program, &cut).unwrap();
        let chunks = blocks * program.geometry.block_chunks;
        let mut user = vec![0; slicing.user_bytes(chunks).unwrap()];
        let mut scratch = vec![0; slicing.scratch_bytes(chunks).unwrap()];
        let passes = (0..instances)
            .flat_map(|instance| (0..slicing.rounds).map(move |round| Round { instance, round }));
        for (pass, index) in passes.flat_map(|pass| (0..chunks).map(move |index| (pass, index))) {
            let range = slicing.user_slice(index, pass);
            assert!(range.len() <= slicing.slice_bytes(pass));
            user[range].iter_mut().for_each(|times| *times += 1);
            let range = slicing.scratch_slice(index, pass);
            assert_eq!(range.len(), slicing.slice_bytes(pass));
            assert!(range.len() <= slicing.slice_bytes_max());
            scratch[range].iter_mut().for_each(|times| *times += 1);
        }
        assert_eq!(user, vec![1; (4 * elements) as usize * blocks as usize]);
        assert!(scratch.iter().all(|&times| times <= 1));
        assert_eq!(scratch.iter().sum::<u64>(), cut.chunk_bytes * u64::from(chunks));
    }

    #[test]
    fn slices_cover_every_byte_once() {
        for elements in [0, 1, 7, 8, 9, 1000] {
            for block_chunks in [1, 3, 8] {
                for message_bytes in [4, 12, 64, 1 << 20] {
                    for counts in [Counts::Any, Counts::Divisible] {
                        let program = program(block_chunks, message_bytes, counts);
                        (1..4).for_each(|instances| check(&program, elements, 2, instances));
                    }
                }
            }
        }
    }

    #[test]
    fn nothing_runs_for_empty_blocks() {
        assert_eq!(slicing(0, 8, 64, 1).rounds, 0);
    }

    #[test]
    fn short_chunks_share_a_message() {
        assert_eq!(slicing(8, 4, 64, 1).chunks_per_message, 4);
        assert_eq!(slicing(80, 4, 160, 1).chunks_per_message, 2);
        assert_eq!(slicing(800, 4, 160, 1).chunks_per_message, 1);
        assert_eq!(slicing(800, 4, 160, 1).rounds, 5);
    }
}
