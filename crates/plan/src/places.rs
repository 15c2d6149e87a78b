//! Where the operands of a launch lie, as far as the caller decides: kernels for aligned ones know
//! no others, or are slow with them.
//!
//! It follows from what one rank is asked for. Where its links deliver to or from a peer's buffers,
//! those may lie otherwise.

use crate::cut::GRAIN_BYTES;
use crate::launch::Launch;
use crate::plan::Plan;

/// What of a call tells where the operands of a plan lie in the caller's buffers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Places {
    /// Whether some operand lies in another block than the first of its buffer.
    pub(crate) has_blocks: bool,
}

impl Places {
    /// Of the operands of `plan`.
    pub fn of(plan: &Plan) -> Self {
        let geometry = &plan.program().geometry;
        let chunks = geometry.input_chunks.max(geometry.output_chunks);
        Self { has_blocks: chunks > geometry.block_chunks }
    }
}

impl Launch {
    /// Whether some operand at `places` does not begin at a multiple of [`GRAIN_BYTES`]. Slots and
    /// scratch always do.
    pub fn is_odd(&self, places: Places) -> bool {
        !self.is_aligned(places, GRAIN_BYTES)
    }

    /// Whether all operands at `places` begin at multiples of `grain` bytes, a power of two.
    pub(crate) fn is_aligned(&self, places: Places, grain: u64) -> bool {
        let Places { has_blocks } = places;
        let blocks = if has_blocks { self.block_bytes } else { 0 };
        let chunks = if self.block_chunks > 1 { self.chunk_bytes } else { 0 };
        (self.input | self.output | blocks | chunks).is_multiple_of(grain)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two chunks in each block, at aligned addresses if `change` leaves them there.
    fn check(change: impl Fn(&mut Launch), has_blocks: bool, expected: bool) {
        let mut launch = Launch {
            input: 4096,
            output: 8192,
            block_bytes: 96,
            chunk_bytes: 48,
            block_chunks: 2,
            ..Launch::default()
        };
        change(&mut launch);
        assert_eq!(launch.is_odd(Places { has_blocks }), expected, "{launch:?}");
    }

    #[test]
    fn what_begins_inside_a_pack_is_odd() {
        check(|_| (), true, false);
        check(|launch| launch.input += 8, true, true);
        check(|launch| launch.output += 2, true, true);
        check(|launch| launch.block_bytes -= 8, true, true);
        check(|launch| launch.chunk_bytes -= 4, true, true);
    }

    #[test]
    fn the_only_block_and_the_only_chunk_may_end_anywhere() {
        check(|launch| launch.block_bytes -= 8, false, false);
        let one_chunk = |launch: &mut Launch| (launch.block_chunks, launch.chunk_bytes) = (1, 90);
        check(one_chunk, true, false);
    }
}
