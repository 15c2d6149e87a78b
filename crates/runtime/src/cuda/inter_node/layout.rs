//! What lies where in the memory of the wires to and from one peer ([`region`](super::region)).

use msccl_plan::Direction;
use msccl_plan::exchange::WireShape;

/// What the start of every part of a region is a multiple of.
pub(super) const LINE_BYTES: usize = 128;

pub(super) const WORD_BYTES: usize = 8;

/// Bytes of all slots of a region.
pub(super) fn slots_bytes(shape: WireShape) -> usize {
    (2 * shape.wires as usize * ring_bytes(shape)).max(LINE_BYTES)
}

/// Where a head begins: heads of one wire in both directions lie together, that for sending first.
pub(super) fn head(shape: WireShape, direction: Direction, wire: u32) -> usize {
    let start = wire as usize * (out_head_bytes(shape) + LINE_BYTES);
    match direction {
        Direction::Out => start,
        Direction::In => start + out_head_bytes(shape),
    }
}

/// Where the slots of an end begin: as heads do.
pub(super) fn ring(shape: WireShape, direction: Direction, wire: u32) -> usize {
    let start = 2 * wire as usize * ring_bytes(shape);
    match direction {
        Direction::Out => start,
        Direction::In => start + ring_bytes(shape),
    }
}

/// A count, and the lengths of the messages in the slots.
pub(super) fn out_head_bytes(shape: WireShape) -> usize {
    (WORD_BYTES * (1 + shape.depth as usize)).next_multiple_of(LINE_BYTES)
}

fn ring_bytes(shape: WireShape) -> usize {
    (shape.depth as usize * shape.slot_bytes as usize).next_multiple_of(LINE_BYTES)
}

pub(super) fn entry_index(shape: WireShape, message: u64) -> usize {
    (message.wrapping_sub(1) % u64::from(shape.depth.max(1))) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_lie_apart_and_aligned() {
        for depth in [1, 4, 16, 64] {
            let shape = WireShape { wires: 3, depth, slot_bytes: 384 };
            let ends = || {
                (0..3).flat_map(|wire| {
                    [Direction::Out, Direction::In].map(|direction| (direction, wire))
                })
            };
            let heads: Vec<_> =
                ends().map(|(direction, wire)| head(shape, direction, wire)).collect();
            let words = WORD_BYTES * (1 + depth as usize);
            assert!(heads.windows(2).step_by(2).all(|pair| pair[1] - pair[0] >= words));
            assert!(heads.windows(2).all(|pair| pair[1] - pair[0] >= LINE_BYTES));
            let rings: Vec<_> =
                ends().map(|(direction, wire)| ring(shape, direction, wire)).collect();
            let apart = depth as usize * 384;
            assert!(rings.windows(2).all(|pair| pair[1] - pair[0] >= apart));
            assert!(rings[5] + apart <= slots_bytes(shape));
            let all = [heads, rings].concat();
            assert!(all.iter().all(|start| start.is_multiple_of(LINE_BYTES)));
            let launch_order: Vec<_> =
                (1..=2 * u64::from(depth)).map(|n| entry_index(shape, n)).collect();
            assert_eq!(launch_order[..depth as usize], launch_order[depth as usize..]);
            assert_eq!(launch_order[..depth as usize], (0..depth as usize).collect::<Vec<_>>());
        }
    }
}
