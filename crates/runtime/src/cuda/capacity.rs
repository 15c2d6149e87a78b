//! What the ranks of a communicator on GPUs have in common, on which the memory of its wires
//! depends: [`CommonCapacity`] says how.

use msccl_fabric::Group;
use msccl_gpu::Context;
use msccl_select::{CommonCapacity, blocks_of_rank};
use msccl_topology::address::BusId;

use super::kernels::Kernels;
use crate::error::{Error, ErrorKind};

/// What all ranks set aside is at most this part of their GPU's memory.
const PART_OF_MEMORY: u64 = 16;

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

/// What the ranks of `group` have in common, of which `node_ranks` are on this node, and where
/// the GPU of each is, as far as drivers say. Every rank calls it.
pub(super) fn common_capacity(
    group: &Group,
    context: &Context,
    kernels: &Kernels,
    node_ranks: u32,
    buffer_bytes: Option<u64>,
) -> Result<(CommonCapacity, Vec<Option<BusId>>), Error> {
    let mine = DeviceFacts::of(context, kernels, node_ranks, buffer_bytes)?.to_bytes();
    let all = group.all_gather(&mine)?;
    let all: Option<Vec<_>> = all.iter().map(|bytes| DeviceFacts::from_bytes(bytes)).collect();
    let all = all.ok_or_else(|| Error::new(ErrorKind::System, "a rank's answer is too short"))?;
    let sharing =
        |of: &DeviceFacts| all.iter().filter(|other| other.device == of.device).count() as u64;
    let room = |of: &DeviceFacts| of.memory_bytes / PART_OF_MEMORY / sharing(of);
    let room_bytes = all.iter().map(room).min().unwrap_or(0);
    let blocks = |of: &DeviceFacts| blocks_of_rank(of.blocks, sharing(of) as u32);
    let common = CommonCapacity {
        node_ranks: all.iter().map(|of| of.node_ranks).max().unwrap_or(1),
        ranks: group.ranks(),
        room_bytes,
        buffer_bytes: all.iter().filter_map(|of| of.buffer_bytes).min(),
        blocks: all.iter().map(blocks).min().unwrap_or(0),
        sharing: all.iter().map(sharing).max().unwrap_or(1) as u32,
    };
    Ok((common, all.iter().map(|of| of.bus_id).collect()))
}

#[cfg(test)]
mod tests {
    use msccl_collective::Protocol;
    use msccl_select::ArenaLocation;

    use super::super::arena::Layout;
    use super::*;

    #[test]
    fn wires_stay_within_the_budget() {
        for ranks in [1, 2, 3, 8, 16, 64] {
            for budget_bytes in [16 << 20, 64 << 20, 256 << 20] {
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
}
