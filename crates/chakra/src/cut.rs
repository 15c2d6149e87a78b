//! How a call is cut into messages.

use msccl_ir::{Algorithm, Target};

/// How the call is cut; the last slice may be shorter, chunks are taken to be equally long.
#[derive(Clone, Copy)]
pub(crate) struct Cut {
    chunk_bytes: u64,
    slice_bytes: u64,
    /// How often the program runs.
    pub rounds: u64,
    /// Chunks of a counted step that share a message.
    pub chunks_per_message: u32,
}

impl Cut {
    /// A call of `bytes` bytes in the largest buffer.
    pub(crate) fn new(algorithm: &Algorithm, target: &Target, bytes: u64) -> Self {
        let collective = &algorithm.collective;
        let shape = target.link(algorithm.protocol);
        let chunk_bytes = bytes.div_ceil(u64::from(collective.loop_chunks()).max(1));
        let steps = algorithm.thread_blocks().flat_map(|(_, _, block)| &block.steps);
        let count_max = steps.map(|step| step.count).max().unwrap_or(0);
        let slice_bytes = shape.slice_bytes(count_max).max(1);
        let packing = target.packing_link(&collective.kind, algorithm.protocol);
        let chunks_per_message = packing.chunks_per_message(chunk_bytes, target.limits.count);
        let rounds = chunk_bytes.div_ceil(slice_bytes);
        Self { chunk_bytes, slice_bytes, rounds, chunks_per_message }
    }

    /// Bytes of one chunk in round `round`.
    pub(crate) fn bytes(self, round: u64) -> u64 {
        self.slice_bytes.min(self.chunk_bytes - round * self.slice_bytes)
    }
}
