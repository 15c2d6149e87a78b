//! How the operands of a launch are aligned, as far as the caller decides: kernels for aligned ones
//! serve no others, or are slow with them.
//!
//! It follows from the buffers of one rank. Where its links deliver to or from a peer's buffers,
//! those may be aligned otherwise.

use crate::cut::ALIGNMENT_BYTES;
use crate::launch::Launch;
use crate::plan::Plan;

/// How all operands of a launch are aligned.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Alignment {
    /// At multiples of [`ALIGNMENT_BYTES`].
    Full16,
    /// At multiples of eight bytes.
    Word8,
    /// Anywhere.
    Bytes,
}

/// Bytes of a word.
const WORD_BYTES: u64 = 8;

/// What the alignment of a plan's operands depends on, beside the caller's buffers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct OperandPlacement {
    /// Whether some operand lies in another block than the first of its buffer.
    pub(crate) has_blocks: bool,
}

impl OperandPlacement {
    /// Of the operands of `plan`.
    pub fn of(plan: &Plan) -> Self {
        let geometry = &plan.program().geometry;
        let chunks = geometry.input_chunks.max(geometry.output_chunks);
        Self { has_blocks: chunks > geometry.block_chunks }
    }
}

impl Launch {
    /// How all `operands` are aligned in the caller's buffers. Slots and scratch always are.
    pub fn alignment(&self, operands: OperandPlacement) -> Alignment {
        let OperandPlacement { has_blocks } = operands;
        let blocks = if has_blocks { self.block_bytes } else { 0 };
        let chunks = if self.block_chunks > 1 { self.chunk_bytes } else { 0 };
        let all = self.input | self.output | blocks | chunks;
        if all.is_multiple_of(ALIGNMENT_BYTES) {
            Alignment::Full16
        } else if all.is_multiple_of(WORD_BYTES) {
            Alignment::Word8
        } else {
            Alignment::Bytes
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two chunks in each block, at aligned addresses if `change` leaves them there.
    fn check(change: impl Fn(&mut Launch), has_blocks: bool, expected: Alignment) {
        let mut launch = Launch {
            input: 4096,
            output: 8192,
            block_bytes: 96,
            chunk_bytes: 48,
            block_chunks: 2,
            ..Launch::default()
        };
        change(&mut launch);
        let operands = OperandPlacement { has_blocks };
        assert_eq!(launch.alignment(operands), expected, "{launch:?}");
    }

    #[test]
    fn what_begins_inside_a_pack_is_unaligned() {
        check(|_| (), true, Alignment::Full16);
        check(|launch| launch.input += 8, true, Alignment::Word8);
        check(|launch| launch.output += 2, true, Alignment::Bytes);
        check(|launch| launch.block_bytes -= 8, true, Alignment::Word8);
        check(|launch| launch.chunk_bytes -= 4, true, Alignment::Bytes);
    }

    #[test]
    fn the_only_block_and_the_only_chunk_may_end_anywhere() {
        check(|launch| launch.block_bytes -= 8, false, Alignment::Full16);
        let one_chunk = |launch: &mut Launch| (launch.block_chunks, launch.chunk_bytes) = (1, 90);
        check(one_chunk, true, Alignment::Full16);
    }
}
