//! Where things lie: wires in the memory of a rank, and buffers in its memory.

use msccl_kernels::specialised::Case;
use msccl_plan::exchange::WireShape;
use msccl_plan::{Alias, Program};

/// What buffers begin at a multiple of.
const ALIGNMENT: u64 = 256;

/// Bytes of a `msccl_wire_end`, and from its start to `seen`.
const END_BYTES: u64 = 32;
const SEEN: u64 = 16;

/// Where wires lie in the memory of a rank: rings of slots, then the table of ends.
#[derive(Clone, Copy)]
pub struct MemoryLayout {
    /// How many ranks there are.
    pub ranks: u64,
    /// The wires of every ordered pair of ranks.
    pub shape: WireShape,
}

impl MemoryLayout {
    /// Where the ring of a wire from `peer` begins.
    fn ring(&self, peer: u64, wire: u64) -> u64 {
        let WireShape { wires, depth, slot_bytes } = self.shape;
        (peer * u64::from(wires) + wire) * u64::from(depth) * u64::from(slot_bytes)
    }

    /// Where the end of a wire to (`out`) or from `peer` lies.
    pub fn end(&self, out: bool, peer: u64, wire: u64) -> u64 {
        let row = u64::from(out) * self.ranks + peer;
        self.ring(self.ranks, 0) + END_BYTES * (row * u64::from(self.shape.wires) + wire)
    }

    /// Bytes of an memory.
    pub fn bytes(&self) -> usize {
        self.end(true, self.ranks, 0) as usize
    }

    /// The ends of rank `me`, in the order of its table, where `memory` are those of all ranks.
    pub fn ends(&self, me: u64, memories: &[u64]) -> Vec<u8> {
        let mut bytes = Vec::new();
        for out in [false, true] {
            for peer in 0..self.ranks {
                for wire in 0..u64::from(self.shape.wires) {
                    let (receiver, sender) = if out { (peer, me) } else { (me, peer) };
                    let slots = memories[receiver as usize] + self.ring(sender, wire);
                    let far = memories[peer as usize] + self.end(!out, me, wire) + SEEN;
                    bytes.extend([slots, far, 0, 0].iter().flat_map(|word| word.to_le_bytes()));
                }
            }
        }
        bytes
    }
}

/// Where a rank's buffers lie in its memory.
pub struct Lie {
    /// Bytes before the input.
    pub input: u64,
    /// Bytes before the output.
    pub output: u64,
    /// Bytes in all.
    pub bytes: u64,
}

impl Lie {
    /// That of the rank of `program`.
    pub fn of(case: &Case, program: &Program) -> Self {
        let block = case.block_bytes();
        let bytes = |chunks: u32| u64::from(chunks / program.geometry.block_chunks) * block;
        let read = bytes(program.geometry.input_chunks);
        let written = bytes(program.geometry.output_chunks);
        let own = u64::from(program.rank.0) * block;
        let (input, output) = match (case.in_place, program.alias) {
            (true, Alias::Same) => (0, 0),
            (true, Alias::InputInOutput) => (own, 0),
            (true, Alias::OutputInInput) => (0, own),
            (true, Alias::None) | (false, _) => (0, read.next_multiple_of(ALIGNMENT) + ALIGNMENT),
        };
        let bytes = (input + read).max(output + written).next_multiple_of(ALIGNMENT) + ALIGNMENT;
        Self { input, output, bytes }
    }
}
