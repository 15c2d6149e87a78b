//! How many wires a pair of ranks has, and of what size.

use msccl_plan::exchange::WireShape;

use crate::engine::Capacity;

/// Messages that a wire holds: as many as any link for which algorithms are proved.
const DEPTH: u32 = 8;

/// What all wires of a communicator may take, unless it has very many ranks.
const BUDGET_BYTES: u64 = 64 << 20;

/// The longest message on a wire with room to spare, and on the smallest one.
const SLOT_BYTES: std::ops::RangeInclusive<u32> = 1 << 10..=64 << 10;

/// More thread blocks than any plan has: here they only take turns.
const BLOCKS: u32 = 1 << 16;

/// What every rank of a communicator of `ranks` ranks can hold.
pub(crate) fn capacity(ranks: u32) -> Capacity {
    let none = WireShape::default();
    Capacity { simple: wires(ranks), ll: none, ll128: none, blocks: BLOCKS, threads: [u32::MAX; 3] }
}

/// The built-in algorithms have two links from one rank to another; the rest is for loaded ones.
fn wires(ranks: u32) -> WireShape {
    let wires = match ranks {
        0..=8 => 16,
        9..=16 => 8,
        _ => 4,
    };
    let shape = |slot_bytes| WireShape { wires, depth: DEPTH, slot_bytes };
    let mut slot_bytes = *SLOT_BYTES.end();
    while slot_bytes > *SLOT_BYTES.start() && total_bytes(ranks, shape(slot_bytes)) > BUDGET_BYTES {
        slot_bytes /= 2;
    }
    shape(slot_bytes)
}

/// Bytes of the slots of all pairs, with the one wire for transfers.
fn total_bytes(ranks: u32, shape: WireShape) -> u64 {
    let WireShape { wires, depth, slot_bytes } = shape;
    let pairs = u64::from(ranks) * u64::from(ranks.saturating_sub(1));
    pairs * u64::from(wires + 1) * u64::from(depth) * u64::from(slot_bytes)
}

#[cfg(test)]
mod tests {
    use msccl_collective::Rank;
    use msccl_registry::{Registry, Shape, Wanted};

    use super::*;
    use crate::wiring::links_per_pair;

    #[test]
    fn memory_stays_within_bounds() {
        for ranks in 1..=16 {
            assert!(total_bytes(ranks, wires(ranks)) <= BUDGET_BYTES, "{ranks}");
        }
        assert!(total_bytes(64, wires(64)) < 256 << 20);
        assert_eq!(wires(2).slot_bytes, 64 << 10);
        assert_eq!(wires(16).slot_bytes, 2 << 10);
    }

    #[test]
    fn built_in_algorithms_need_at_most_half_of_the_wires() {
        for ranks in 2..=16 {
            let registry = Registry::new(Shape { ranks, per_node: ranks }, &[]);
            let root = Rank(ranks - 1);
            for wanted in Wanted::all(root) {
                for entry in registry.built_in(wanted, false).iter() {
                    let links = links_per_pair(entry.verified.algorithm());
                    assert!(2 * links <= wires(ranks).wires, "{} of {ranks}", entry.name);
                }
            }
        }
    }
}
