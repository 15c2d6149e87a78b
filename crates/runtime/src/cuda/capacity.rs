//! How much a communicator on GPUs sets aside for its wires: the same on all ranks.

use msccl_fabric::Group;
use msccl_gpu::Context;
use msccl_ir::Target;
use msccl_plan::exchange::WireShape;
use msccl_plan::launch;
use msccl_topology::address::BusId;

use super::arena::{ArenaLocation, TRANSFER_WIRES};
use super::kernels::Kernels;
use crate::error::{Error, ErrorKind};
use crate::select::Capacity;

/// The most that a rank sets aside if nobody asks for more, in bytes.
const BUDGET_BYTES: u64 = 256 << 20;

/// The same in host memory, which is scarcer and slower.
const HOST_BUDGET_BYTES: u64 = 32 << 20;

/// What all ranks set aside is at most this part of their GPU's memory.
const PART_OF_MEMORY: u64 = 16;

/// Of the thread blocks that run on a GPU at once, the ranks of a communicator use at most this
/// part. So the kernels of two communicators run side by side, even where ranks do not start them
/// in the same order, which programs with several process groups do.
///
/// Blocks are counted alike, whatever they take: [`launch::BLOCKS_EACH`] of the largest fit on a
/// multiprocessor, whose memory is divided alike for all (`carve_out`). However the blocks of one
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

/// What ranks send one another about their devices.
struct DeviceFacts {
    device: [u8; 16],
    memory_bytes: u64,
    /// Thread blocks that run at once if nothing else does.
    blocks: u32,
    /// Ranks on its node.
    node_ranks: u32,
    /// What its settings say of the slots of a wire.
    buffer_bytes: Option<u64>,
    /// Where the device is; nowhere, if the driver does not say.
    bus_id: Option<BusId>,
}

/// How a place is written that nobody knows.
const NOWHERE: u64 = u64::MAX;

impl DeviceFacts {
    fn of(
        context: &Context,
        kernels: &Kernels,
        node_ranks: u32,
        buffer_bytes: Option<u64>,
    ) -> Result<Self, Error> {
        let device = context.device();
        Ok(Self {
            device: device.uuid()?,
            memory_bytes: device.memory_bytes()? as u64,
            blocks: device.multiprocessors()? * kernels.blocks_each(),
            node_ranks,
            buffer_bytes,
            bus_id: device.pci_bus_id()?.parse().ok(),
        })
    }

    fn to_bytes(&self) -> Vec<u8> {
        let Self { device, memory_bytes, blocks, node_ranks, buffer_bytes, bus_id } = self;
        let memory_bytes = memory_bytes.to_le_bytes();
        let buffer_bytes = buffer_bytes.unwrap_or(0).to_le_bytes();
        let numbers = [blocks, node_ranks].map(|number| number.to_le_bytes());
        let bus_id = bus_id.map_or(NOWHERE, BusId::to_number).to_le_bytes();
        [&device[..], &memory_bytes, &buffer_bytes, &bus_id, numbers.as_flattened()].concat()
    }

    fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let (device, rest) = bytes.split_first_chunk()?;
        let (memory_bytes, rest) = rest.split_first_chunk()?;
        let (buffer_bytes, rest) = rest.split_first_chunk()?;
        let (bus_id, rest) = rest.split_first_chunk()?;
        let numbers: &[u8; 8] = rest.first_chunk()?;
        let [blocks, node_ranks] = numbers.as_chunks().0 else { return None };
        Some(Self {
            device: *device,
            memory_bytes: u64::from_le_bytes(*memory_bytes),
            blocks: u32::from_le_bytes(*blocks),
            node_ranks: u32::from_le_bytes(*node_ranks),
            buffer_bytes: Some(u64::from_le_bytes(*buffer_bytes)).filter(|bytes| *bytes != 0),
            bus_id: BusId::from_number(u64::from_le_bytes(*bus_id)),
        })
    }
}

/// What ranks have in common.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct CommonCapacity {
    /// The most ranks of a node.
    node_ranks: u32,
    /// All ranks.
    ranks: u32,
    /// The least memory that a rank may set aside.
    room_bytes: u64,
    /// The least that somebody asks for the slots of a wire under Simple.
    buffer_bytes: Option<u64>,
    /// Thread blocks of a rank that run at once beside those of its neighbours on one GPU.
    blocks: u32,
    /// The most ranks that share a GPU.
    pub sharing: u32,
}

impl CommonCapacity {
    /// What the ranks of `group` have in common, of which `node_ranks` are on this node, and where
    /// the GPU of each is, as far as drivers say. Every rank calls it.
    pub fn find(
        group: &Group,
        context: &Context,
        kernels: &Kernels,
        node_ranks: u32,
        buffer_bytes: Option<u64>,
    ) -> Result<(Self, Vec<Option<BusId>>), Error> {
        let mine = DeviceFacts::of(context, kernels, node_ranks, buffer_bytes)?.to_bytes();
        let all = group.all_gather(&mine)?;
        let all: Option<Vec<_>> = all.iter().map(|bytes| DeviceFacts::from_bytes(bytes)).collect();
        let all =
            all.ok_or_else(|| Error::new(ErrorKind::System, "a rank's answer is too short"))?;
        let sharing =
            |of: &DeviceFacts| all.iter().filter(|other| other.device == of.device).count() as u64;
        let room = |of: &DeviceFacts| of.memory_bytes / PART_OF_MEMORY / sharing(of);
        let room_bytes = all.iter().map(room).min().unwrap_or(0);
        let blocks = |of: &DeviceFacts| blocks_of_rank(of.blocks, sharing(of) as u32);
        let common = Self {
            node_ranks: all.iter().map(|of| of.node_ranks).max().unwrap_or(1),
            ranks: group.ranks(),
            room_bytes,
            buffer_bytes: all.iter().filter_map(|of| of.buffer_bytes).min(),
            blocks: all.iter().map(blocks).min().unwrap_or(0),
            sharing: all.iter().map(sharing).max().unwrap_or(1) as u32,
        };
        Ok((common, all.iter().map(|of| of.bus_id).collect()))
    }

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
fn blocks_of_rank(blocks: u32, sharing: u32) -> u32 {
    let all = blocks / sharing.max(1);
    (all / PART_OF_BLOCKS).max(BLOCKS_LEAST.min(all))
}

/// What is left of all wires for collectives.
pub(super) fn for_collectives(all: Capacity) -> Capacity {
    let rest = |shape: WireShape| WireShape { wires: shape.wires - TRANSFER_WIRES, ..shape };
    Capacity { simple: rest(all.simple), ll: rest(all.ll), ..all }
}

#[cfg(test)]
mod tests {
    use msccl_collective::Protocol;

    use super::super::arena::Layout;
    use super::*;

    #[test]
    fn wires_stay_within_the_budget() {
        for ranks in [1, 2, 3, 8, 16, 64] {
            for budget_bytes in [16 << 20, 64 << 20, BUDGET_BYTES] {
                let common = CommonCapacity {
                    room_bytes: budget_bytes,
                    ..CommonCapacity::nominal(ranks, ranks)
                };
                for place in [ArenaLocation::Device, ArenaLocation::Host] {
                    let capacity = common.wires(place);
                    let bytes = Layout::new(&vec![true; ranks as usize], capacity).bytes();
                    // The least slots of very many ranks may exceed a very small budget.
                    assert!(ranks > 16 || bytes <= budget_bytes + (4 << 20), "{ranks} {bytes}");
                    for protocol in Protocol::ALL {
                        let slot = capacity.wires(protocol).slot_bytes;
                        assert!(slot.is_multiple_of(128));
                    }
                }
            }
        }
    }

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
            let capacity = for_collectives(
                CommonCapacity::nominal(ranks, node_ranks).wires(ArenaLocation::Device),
            );
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
            for_collectives(CommonCapacity::nominal(8, 8).wires(ArenaLocation::Device))
                .has_packets()
        );
        assert!(
            !for_collectives(CommonCapacity::nominal(16, 8).wires(ArenaLocation::Device))
                .has_packets()
        );
    }
}
