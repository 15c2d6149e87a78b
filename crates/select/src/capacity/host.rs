//! How many wires a pair of ranks has on host threads, and of what size.

use msccl_plan::exchange::WireShape;

use super::Capacity;

/// Messages that a wire holds: as many as any link for which algorithms are proved.
const DEPTH: u32 = 8;

/// What all wires of a communicator may take on one host, unless it has very many ranks there.
const BUDGET_BYTES: u64 = 64 << 20;

/// Ranks on other nodes with which the budget reckons for each rank: wires are made for those only
/// that are needed, and most algorithms need few.
const INTER_NODE_PEERS: u64 = 8;

/// The longest message on a wire with room to spare, and on the smallest one.
const SLOT_BYTES: std::ops::RangeInclusive<u32> = 1 << 10..=64 << 10;

/// More thread blocks than any plan has: here they only take turns.
const BLOCKS: u32 = 1 << 16;

impl Capacity {
    /// What every rank of a communicator of `ranks` ranks on host threads can hold, of which at
    /// most `per_node` live together.
    pub fn of_host(ranks: u32, per_node: u32) -> Self {
        let none = WireShape::default();
        let simple = wires(ranks, per_node);
        let inter_node_wires = simple.wires;
        Self {
            simple,
            inter_node_wires,
            ll: none,
            ll128: none,
            blocks: BLOCKS,
            exports_buffers: false,
            copy_engines: false,
            low_latency: false,
        }
    }
}

/// The built-in algorithms have two links from one rank to another; the rest is for loaded ones.
fn wires(ranks: u32, per_node: u32) -> WireShape {
    let wires = match ranks {
        0..=8 => 16,
        9..=16 => 8,
        _ => 4,
    };
    let shape = |slot_bytes| WireShape { wires, depth: DEPTH, slot_bytes };
    let too_large = |slot_bytes| total_bytes(ranks, per_node, shape(slot_bytes)) > BUDGET_BYTES;
    let mut slot_bytes = *SLOT_BYTES.end();
    while slot_bytes > *SLOT_BYTES.start() && too_large(slot_bytes) {
        slot_bytes /= 2;
    }
    shape(slot_bytes)
}

/// Bytes of the slots of all pairs on one host, with the one wire for transfers. Of a pair on two
/// hosts each has the rings of both directions. The wire of such a pair for one-sided transfers is
/// beyond the budget: for its sake no other shall have shorter slots.
fn total_bytes(ranks: u32, per_node: u32, shape: WireShape) -> u64 {
    let WireShape { wires, depth, slot_bytes } = shape;
    let intra_node = u64::from(per_node) * u64::from(per_node.saturating_sub(1));
    let inter_node = u64::from(ranks.saturating_sub(per_node)).min(INTER_NODE_PEERS);
    let rings = intra_node + 2 * u64::from(per_node) * inter_node;
    rings * u64::from(wires + 1) * u64::from(depth) * u64::from(slot_bytes)
}

#[cfg(test)]
mod tests {
    use msccl_collective::{CallPlacement, CollectiveKind, Rank};
    use msccl_registry::{Registry, Shape};

    use super::*;
    use crate::wiring::links_per_pair;

    #[test]
    fn memory_stays_within_bounds() {
        for ranks in 1..=16_u32 {
            for per_node in (1..=ranks).filter(|per_node| ranks.is_multiple_of(*per_node)) {
                let taken_bytes = total_bytes(ranks, per_node, wires(ranks, per_node));
                assert!(taken_bytes <= BUDGET_BYTES, "{ranks} {per_node}");
            }
        }
        assert!(total_bytes(64, 64, wires(64, 64)) < 256 << 20);
        assert_eq!(wires(2, 2).slot_bytes, 64 << 10);
        assert_eq!(wires(16, 16).slot_bytes, 2 << 10);
        // Many hosts take no more on each of them than few.
        assert_eq!(wires(64, 8).slot_bytes, 8 << 10);
    }

    #[test]
    fn built_in_algorithms_need_at_most_half_of_the_wires() {
        for ranks in 2..=16 {
            let registry = Registry::new(Shape { ranks, per_node: ranks }, &[]);
            let root = Rank(ranks - 1);
            for kind in CollectiveKind::all(root) {
                for entry in registry.built_in(kind, CallPlacement::OutOfPlace).iter() {
                    let links = links_per_pair(entry.verified.algorithm(), |_, _| true);
                    assert!(2 * links <= wires(ranks, ranks).wires, "{} of {ranks}", entry.name);
                }
            }
        }
    }
}
