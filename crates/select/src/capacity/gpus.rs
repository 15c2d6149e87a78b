//! How much a communicator on GPUs sets aside for its wires: the same on all ranks.

use msccl_ir::Target;
use msccl_plan::exchange::WireShape;
use msccl_plan::launch;

use super::Capacity;

/// Wires of each pair for point-to-point transfers under Simple, and under LL. They are apart from
/// those for collectives, because two ranks need not agree on how the two kinds of calls follow one
/// another.
pub const TRANSFER_WIRES: u32 = 16;

/// The most that a rank sets aside if nobody asks for more, in bytes.
const BUDGET_BYTES: u64 = 256 << 20;

/// The same in host memory, which is scarcer and slower.
const HOST_BUDGET_BYTES: u64 = 32 << 20;

/// Of the thread blocks that run on a GPU at once, the ranks of a communicator use at most this
/// part. So the kernels of two communicators run side by side, even where ranks do not start them
/// in the same order, which programs with several process groups do.
///
/// Blocks are counted alike, whatever they take: [`launch::BLOCKS_EACH`] of the largest fit on a
/// multiprocessor, whose memory is divided alike for all. However the blocks of one
/// communicator lie, each is in the way of one of another's at most.
const PART_OF_BLOCKS: u32 = 2;

/// Where very many ranks share a GPU, each may have that many thread blocks, as far as all of one
/// communicator run at once: better one communicator than none.
const BLOCKS_LEAST: u32 = 8;

/// Wires of a pair for collectives, under Simple and under each of the other protocols. So many
/// carry 256 KiB in packets of LL128 of which no thread has two.
const WIRES: u32 = 64;
const PACKET_WIRES: u32 = 72;

/// Of what a rank sets aside, what slots under Simple have, in per cent.
const SIMPLE_PERCENT: u64 = 65;

/// The least that a slot has, in bytes.
const LEAST_SLOT_BYTES: u64 = 256;

/// The least that a slot has because ranks ask for less than usual: with smaller ones some
/// algorithms do not serve.
const LEAST_REQUESTED_SLOT_BYTES: u64 = 16 << 10;

/// The most that a slot under Simple has, in bytes, if nobody asks for more.
const SLOT_BYTES: u64 = 128 << 10;

/// A pair of ranks on two nodes has slots at both ends, which may lie in pinned memory, and a proxy
/// that looks at each of its wires; so it has fewer. This many for collectives.
const INTER_NODE_WIRES: u32 = 16;

/// The most that a slot has, in bytes, where there are several nodes. A launch has slots of one
/// size, whichever nodes its links join: with 128 KiB, a pair of ranks on two nodes would take 32
/// MiB at either end instead of 16.
const INTER_NODE_SLOT_BYTES: u64 = 64 << 10;

/// Where there are more ranks than that on several nodes, pairs within a node have no more wires
/// than others: a rank has a row of ends for every rank, some 200 bytes for each wire.
const RANKS_OF_LONG_ROWS: u32 = 1024;

/// Where the arenas lie that hold what peers write.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ArenaLocation {
    /// In the memory of their ranks' GPUs.
    Device,
    /// In host memory.
    Host,
}

/// What the ranks of a communicator on GPUs have in common.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CommonCapacity {
    /// The most ranks of a node.
    pub node_ranks: u32,
    /// All ranks.
    pub ranks: u32,
    /// The least memory that a rank may set aside, in bytes.
    pub room_bytes: u64,
    /// The least that somebody asks for the slots of a wire under Simple.
    pub buffer_bytes: Option<u64>,
    /// Thread blocks of a rank that run at once beside those of its neighbours on one GPU
    /// ([`blocks_of_rank`]).
    pub blocks: u32,
    /// The most ranks that share a GPU.
    pub sharing: u32,
}

impl CommonCapacity {
    /// What `ranks` ranks have in common that have an H200 each, `node_ranks` of them on a node.
    pub fn nominal(ranks: u32, node_ranks: u32) -> Self {
        let blocks = blocks_of_rank(132 * launch::BLOCKS_EACH, 1);
        Self { node_ranks, ranks, room_bytes: BUDGET_BYTES, buffer_bytes: None, blocks, sharing: 1 }
    }

    /// Whether there are several nodes.
    fn is_divided(&self) -> bool {
        self.node_ranks < self.ranks
    }

    /// All wires that this affords in `place`: those for collectives, and after them
    /// [`TRANSFER_WIRES`] for point-to-point transfers. Links have at least the depth of proofs for
    /// the native target.
    pub fn wires(&self, place: ArenaLocation) -> Capacity {
        let target = Target::native();
        // If nobody asks for more.
        let budget = self.room_bytes.min(match place {
            ArenaLocation::Device => BUDGET_BYTES,
            ArenaLocation::Host => HOST_BUDGET_BYTES,
        });
        let shape = |percent: u64, wires: u32, depth: u32, largest: u64| {
            let slot = self.slot_bytes(budget, percent, wires, depth);
            let slot_bytes = (slot / 128 * 128).clamp(LEAST_SLOT_BYTES, largest) as u32;
            WireShape { wires, depth, slot_bytes }
        };
        let simple = |wires, largest| {
            shape(SIMPLE_PERCENT, wires + TRANSFER_WIRES, target.simple.depth, largest)
        };
        let (simple, inter_node_wires, packets) = match self.is_divided() {
            false => {
                let usual = simple(WIRES, SLOT_BYTES);
                (self.as_requested(usual, place), WIRES, PACKET_WIRES)
            }
            // Proxies know nothing of packets, and all links of a launch speak one protocol: a
            // collective, which concerns all nodes, cannot speak another one within them. That
            // there are no wires for packets is all that keeps it to Simple, and the only place
            // that says so. Transfers between two ranks of a node have theirs.
            true => {
                let more = [WIRES, WIRES / 2].map(|wires| simple(wires, INTER_NODE_SLOT_BYTES));
                let whole =
                    |shape: &WireShape| u64::from(shape.slot_bytes) == INTER_NODE_SLOT_BYTES;
                let more =
                    more.into_iter().find(|shape| whole(shape) && self.ranks <= RANKS_OF_LONG_ROWS);
                (
                    more.unwrap_or_else(|| simple(INTER_NODE_WIRES, INTER_NODE_SLOT_BYTES)),
                    INTER_NODE_WIRES,
                    0,
                )
            }
        };
        let ll128 = match (place, packets) {
            // Lines may tear on the way to host memory.
            (ArenaLocation::Host, _) | (ArenaLocation::Device, 0) => WireShape::default(),
            (ArenaLocation::Device, wires) => shape(20, wires, target.ll128.depth, 32 << 10),
        };
        Capacity {
            simple,
            inter_node_wires,
            ll: shape(15, packets + TRANSFER_WIRES, target.ll.depth, 16 << 10),
            ll128,
            blocks: self.blocks,
            // Ranks export to those of their node alone.
            exports_buffers: place == ArenaLocation::Device && !self.is_divided(),
            copy_engines: place == ArenaLocation::Device && !self.is_divided(),
            low_latency: true,
        }
    }

    /// Bytes of a slot where a rank sets `budget` bytes aside, of which so many per cent are for
    /// `wires` wires from each peer, of `depth` slots.
    fn slot_bytes(&self, budget: u64, percent: u64, wires: u32, depth: u32) -> u64 {
        let each = budget / u64::from(self.node_ranks.saturating_sub(1).max(1));
        each * percent / 100 / u64::from(wires) / u64::from(depth)
    }

    /// Wires of one node, which usually have the shape `usual`: slots of the size that ranks ask
    /// for, as far as proofs and memory go.
    fn as_requested(&self, usual: WireShape, place: ArenaLocation) -> WireShape {
        let (Some(requested), ArenaLocation::Device) = (self.buffer_bytes, place) else {
            return usual;
        };
        let WireShape { wires, depth, slot_bytes: _ } = usual;
        let affordable = self.slot_bytes(self.room_bytes, SIMPLE_PERCENT, wires, depth);
        let most = affordable.min(Target::native().simple.message_bytes);
        let slot = (requested / u64::from(depth)).min(most) / 128 * 128;
        let least = LEAST_REQUESTED_SLOT_BYTES.min(u64::from(usual.slot_bytes));
        WireShape { slot_bytes: slot.max(least) as u32, ..usual }
    }
}

/// How many of the `blocks` thread blocks that run on a GPU at once are for each of the `sharing`
/// ranks there.
pub fn blocks_of_rank(blocks: u32, sharing: u32) -> u32 {
    let all = blocks / sharing.max(1);
    (all / PART_OF_BLOCKS).max(BLOCKS_LEAST.min(all))
}

impl Capacity {
    /// What `ranks` ranks on GPUs can hold that have an H200 each, `per_node` of them on a node.
    pub(super) fn nominal_of_gpus(ranks: u32, per_node: u32) -> Self {
        CommonCapacity::nominal(ranks, per_node).wires(ArenaLocation::Device).for_collectives()
    }

    /// What is left of all [wires](CommonCapacity::wires) for collectives.
    #[must_use]
    pub fn for_collectives(self) -> Self {
        let rest = |shape: WireShape| WireShape { wires: shape.wires - TRANSFER_WIRES, ..shape };
        Self { simple: rest(self.simple), ll: rest(self.ll), ..self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_are_as_large_as_ranks_ask_and_memory_goes() {
        let room_bytes = 8 << 30;
        let slot = |ranks, buffer_bytes, place| {
            let usual = CommonCapacity::nominal(ranks, ranks);
            let common = CommonCapacity { buffer_bytes: Some(buffer_bytes), room_bytes, ..usual };
            common.wires(place).simple.slot_bytes >> 10
        };
        for (requested, slot_kib) in [(0, 16), (512 << 10, 128), (1 << 20, 256), (8 << 20, 512)] {
            for ranks in [2, 8] {
                assert_eq!(slot(ranks, requested, ArenaLocation::Device), slot_kib);
            }
            assert_eq!(slot(2, requested, ArenaLocation::Host), 66);
        }
        assert_eq!(slot(64, 8 << 20, ArenaLocation::Device), 270);
        let divided = CommonCapacity {
            buffer_bytes: Some(8 << 20),
            room_bytes,
            ..CommonCapacity::nominal(16, 8)
        };
        assert_eq!(divided.wires(ArenaLocation::Device).simple.slot_bytes, 64 << 10);
    }

    #[test]
    fn pairs_within_a_node_have_the_wires_of_one_node() {
        let wires = |ranks, node_ranks| {
            let capacity = CommonCapacity::nominal(ranks, node_ranks)
                .wires(ArenaLocation::Device)
                .for_collectives();
            (capacity.simple.wires, capacity.inter_node_wires, capacity.simple.slot_bytes >> 10)
        };
        assert_eq!(wires(8, 8), (64, 64, 76));
        assert_eq!(wires(16, 8), (64, 16, 64));
        assert_eq!(wires(8, 4), (64, 16, 64));
        assert_eq!(wires(2048, 8), (16, 16, 64));
        // Not at the price of shorter slots.
        assert_eq!(wires(24, 12), (32, 16, 64));
        assert_eq!(wires(32, 16), (16, 16, 64));
        // Packets do not leave a node.
        assert!(
            CommonCapacity::nominal(8, 8)
                .wires(ArenaLocation::Device)
                .for_collectives()
                .has_packets()
        );
        assert!(
            !CommonCapacity::nominal(16, 8)
                .wires(ArenaLocation::Device)
                .for_collectives()
                .has_packets()
        );
    }
}
