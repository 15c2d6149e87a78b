//! How one call cuts its buffers: blocks, chunks, slices, rounds and messages.
//!
//! A block of `E` elements is cut into `K` chunks of `L = ceil(E / K)` elements. The last chunks of
//! a block may be shorter or empty: elements from `E` on do not exist. Scratch chunks and messages
//! always have full length. A chunk longer than a slice is processed in rounds: round `k` runs the
//! program on slice `k` of every chunk.

use std::ops::Range;

use msccl_plan::LinkLimits;

/// The measures of one call, in elements unless the name says otherwise.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Slicing {
    element_bytes: usize,
    block_chunks: usize,
    block: usize,
    chunk: usize,
    slice: usize,
    /// Chunks of a counted step that share one message.
    pub(crate) chunks_per_message: u32,
}

impl Slicing {
    /// A call on blocks of `block` elements; `None` if a chunk would exceed the address space.
    pub(crate) fn new(
        block: usize,
        element_bytes: usize,
        block_chunks: u32,
        links: LinkLimits,
    ) -> Option<Self> {
        let block_chunks = block_chunks.max(1) as usize;
        let chunk = block.div_ceil(block_chunks);
        let chunk_bytes = chunk.checked_mul(element_bytes)?;
        let most = (links.slice_bytes as usize / element_bytes).max(1);
        Some(Self {
            element_bytes,
            block_chunks,
            block,
            chunk,
            slice: chunk.min(most),
            chunks_per_message: links.chunks_per_message(chunk_bytes as u64),
        })
    }

    /// How often the program runs; never for empty blocks.
    pub(crate) fn rounds(&self) -> usize {
        if self.slice == 0 { 0 } else { self.chunk.div_ceil(self.slice) }
    }

    /// Size of a slice of round `round` at full length.
    pub(crate) fn slice_bytes(&self, round: usize) -> usize {
        self.slice.min(self.chunk - round * self.slice) * self.element_bytes
    }

    /// Size of one block.
    pub(crate) fn block_bytes(&self) -> Option<usize> {
        self.block.checked_mul(self.element_bytes)
    }

    /// Size of an input or output of `chunks` chunks.
    pub(crate) fn user_bytes(&self, chunks: u32) -> Option<usize> {
        let (blocks, rest) =
            (chunks as usize / self.block_chunks, chunks as usize % self.block_chunks);
        let rest = rest.checked_mul(self.chunk)?.min(self.block);
        blocks.checked_mul(self.block)?.checked_add(rest)?.checked_mul(self.element_bytes)
    }

    /// Size of a scratch buffer of `chunks` chunks.
    pub(crate) fn scratch_bytes(&self, chunks: u32) -> Option<usize> {
        (chunks as usize).checked_mul(self.chunk)?.checked_mul(self.element_bytes)
    }

    /// The bytes of slice `round` of input or output chunk `index`, as far as they exist.
    pub(crate) fn user_slice(&self, index: u32, round: usize) -> Range<usize> {
        let (block, column) =
            (index as usize / self.block_chunks, index as usize % self.block_chunks);
        let start = (column * self.chunk + round * self.slice).min(self.block);
        let chunk_end = ((column + 1) * self.chunk).min(self.block);
        let end = (start + self.slice).min(chunk_end).max(start);
        let first = block * self.block;
        (first + start) * self.element_bytes..(first + end) * self.element_bytes
    }

    /// The bytes of slice `round` of scratch chunk `index`.
    pub(crate) fn scratch_slice(&self, index: u32, round: usize) -> Range<usize> {
        let start = (index as usize * self.chunk + round * self.slice) * self.element_bytes;
        start..start + self.slice_bytes(round)
    }
}

#[cfg(test)]
mod tests {
    use msccl_ir::Packing;

    use super::*;

    fn slicing(block: usize, block_chunks: u32, message_bytes: u32) -> Slicing {
        let slice_bytes = message_bytes;
        let packing = Packing::Fitting;
        let links = LinkLimits { depth: 2, message_bytes, slice_bytes, packing, count_limit: 8 };
        Slicing::new(block, 4, block_chunks, links).unwrap()
    }

    /// Every element of a buffer of `blocks` blocks belongs to exactly one slice.
    fn check(block: usize, block_chunks: u32, message_bytes: u32, blocks: u32) {
        let slicing = slicing(block, block_chunks, message_bytes);
        let chunks = blocks * block_chunks;
        let mut seen = vec![0; slicing.user_bytes(chunks).unwrap()];
        for round in 0..slicing.rounds() {
            for index in 0..chunks {
                let range = slicing.user_slice(index, round);
                assert!(range.len() <= slicing.slice_bytes(round));
                seen[range].iter_mut().for_each(|times| *times += 1);
            }
        }
        assert_eq!(seen, vec![1; 4 * block * blocks as usize]);
    }

    #[test]
    fn slices_cover_every_element_once() {
        for block in [0, 1, 7, 8, 9, 1000] {
            for block_chunks in [1, 3, 8] {
                for message_bytes in [4, 12, 64, 1 << 20] {
                    check(block, block_chunks, message_bytes, 2);
                }
            }
        }
    }

    #[test]
    fn nothing_runs_for_empty_blocks() {
        assert_eq!(slicing(0, 8, 64).rounds(), 0);
    }

    #[test]
    fn short_chunks_share_a_message() {
        assert_eq!(slicing(8, 4, 64).chunks_per_message, 8);
        assert_eq!(slicing(80, 4, 160).chunks_per_message, 2);
        assert_eq!(slicing(800, 4, 160).chunks_per_message, 1);
        assert_eq!(slicing(800, 4, 160).rounds(), 5);
    }
}
