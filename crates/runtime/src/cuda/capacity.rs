//! How much a communicator on GPUs sets aside for its wires: the same on all ranks.

use msccl_collective::DataType;
use msccl_fabric::Group;
use msccl_gpu::Context;
use msccl_ir::Target;
use msccl_plan::exchange::WireShape;

use super::kernels::Kernels;
use super::links::Place;
use crate::engine::Capacity;
use crate::error::{Error, ErrorKind};
use crate::resident::Resident;

/// The most that a rank sets aside, in bytes.
const BUDGET_BYTES: u64 = 256 << 20;

/// The same in host memory, which is scarcer and slower.
const HOST_BUDGET_BYTES: u64 = 32 << 20;

/// What all ranks set aside is at most this part of their GPU's memory.
const PART_OF_MEMORY: u64 = 16;

/// Thread blocks that run on one multiprocessor at once, by the shared memory that each takes.
const BLOCKS_EACH: u32 = 4;

/// Of the thread blocks that run on a GPU at once, the ranks of a communicator use at most this part. So
/// the kernels of two communicators run side by side, even where ranks do not start them in the same
/// order, which programs with several process groups do.
const PART_OF_BLOCKS: u64 = 2;

/// Where ranks live on several nodes, a pair of ranks on two of them has as many wires as one on one node, each with
/// slots in pinned memory at both ends; so there are fewer, and with shorter slots. This many for collectives.
const REMOTE_WIRES: u32 = 16;

/// The most that a slot then has, in bytes.
const REMOTE_SLOT_BYTES: u64 = 64 << 10;

/// Wires of each pair for point-to-point transfers under Simple, and under LL. They are apart from those
/// for collectives, because two ranks need not agree on how the two kinds of calls follow one another.
pub(super) const TRANSFER_WIRES: u32 = 16;

/// What ranks tell one another of their devices.
struct Means {
    device: [u8; 16],
    memory_bytes: u64,
    multiprocessors: u32,
    /// Threads that run at once if nothing else does.
    resident: Resident,
    /// Ranks on its node.
    near: u32,
}

impl Means {
    fn of(context: &Context, kernels: &Kernels, near: u32) -> Result<Self, Error> {
        let device = context.device();
        let (staged, direct) = (kernels.resident_threads(), kernels.resident_direct());
        Ok(Self {
            device: device.uuid()?,
            memory_bytes: device.memory_bytes()? as u64,
            multiprocessors: device.multiprocessors()?,
            resident: Resident { staged, direct },
            near,
        })
    }

    fn to_bytes(&self) -> Vec<u8> {
        let Self { device, memory_bytes, multiprocessors, resident, near } = self;
        let memory_bytes = memory_bytes.to_le_bytes();
        let numbers = [multiprocessors, near].map(|number| number.to_le_bytes());
        [&device[..], &memory_bytes, numbers.as_flattened(), &resident.to_bytes()].concat()
    }

    fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let (device, rest) = bytes.split_first_chunk()?;
        let (memory_bytes, rest) = rest.split_first_chunk()?;
        let (numbers, resident) = rest.split_first_chunk::<8>()?;
        let [multiprocessors, near] = numbers.as_chunks().0 else { return None };
        Some(Self {
            device: *device,
            memory_bytes: u64::from_le_bytes(*memory_bytes),
            multiprocessors: u32::from_le_bytes(*multiprocessors),
            resident: Resident::from_bytes(resident)?,
            near: u32::from_le_bytes(*near),
        })
    }
}

/// What ranks have in common.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Common {
    /// The most ranks of a node.
    near: u32,
    /// Whether there are several nodes.
    nodes: bool,
    /// The least memory that a rank may set aside.
    budget_bytes: u64,
    /// Thread blocks of a rank, small ones, that run at once beside those of its neighbours on one GPU.
    blocks: u32,
    /// Threads of a rank that do, in blocks of the largest size.
    resident: Resident,
    /// The most ranks that share a GPU.
    pub sharing: u32,
}

impl Common {
    /// What the ranks of `group` have in common, of which `near` are on this node. Every rank calls it.
    pub fn find(
        group: &Group,
        context: &Context,
        kernels: &Kernels,
        near: u32,
    ) -> Result<Self, Error> {
        let mine = Means::of(context, kernels, near)?.to_bytes();
        let all = group.all_gather(&mine)?;
        let all: Option<Vec<_>> = all.iter().map(|bytes| Means::from_bytes(bytes)).collect();
        let all =
            all.ok_or_else(|| Error::new(ErrorKind::System, "a rank's answer is too short"))?;
        let sharing =
            |of: &Means| all.iter().filter(|other| other.device == of.device).count() as u64;
        let budget =
            |of: &Means| (of.memory_bytes / PART_OF_MEMORY / sharing(of)).min(BUDGET_BYTES);
        let part = |of: &Means| sharing(of) * PART_OF_BLOCKS;
        let blocks = |of: &Means| u64::from(of.multiprocessors * BLOCKS_EACH) / part(of);
        let resident =
            |of: &Means| of.resident.map(|threads| (u64::from(threads) / part(of)) as u32);
        Ok(Self {
            near: all.iter().map(|of| of.near).max().unwrap_or(1),
            nodes: all.iter().any(|of| of.near < group.ranks()),
            budget_bytes: all.iter().map(budget).min().unwrap_or(0),
            blocks: all.iter().map(blocks).min().unwrap_or(0) as u32,
            resident: all.iter().map(resident).reduce(Resident::least).unwrap_or_default(),
            sharing: all.iter().map(sharing).max().unwrap_or(1) as u32,
        })
    }

    /// What `ranks` ranks have in common that have an H200 each, `near` of them on a node: 132 multiprocessors with two blocks of the largest
    /// size under Simple, and with one under the other protocols.
    pub fn nominal(ranks: u32, near: u32) -> Self {
        let part = PART_OF_BLOCKS as u32;
        let resident = |each: u32| each * 132 * 512 / part;
        let staged = [2, 1, 1].map(resident);
        let blocks = 132 * BLOCKS_EACH / part;
        let (nodes, budget_bytes) = (near < ranks, BUDGET_BYTES);
        // Ranks lend to those of their node alone.
        let direct = |of| match of {
            _ if nodes => 0,
            // Its kernel has more registers.
            DataType::Bf16 => resident(1),
            _ => resident(2),
        };
        let resident = Resident { staged, direct: DataType::ALL.map(direct) };
        Self { near, nodes, budget_bytes, blocks, resident, sharing: 1 }
    }

    /// All wires that this affords in `place`: those for collectives, and after them [`TRANSFER_WIRES`]
    /// for point-to-point transfers. Links have at least the depth of proofs for the native target.
    pub fn wires(&self, place: Place) -> Capacity {
        let target = Target::native();
        let budget = match place {
            Place::Device => self.budget_bytes,
            Place::Host => self.budget_bytes.min(HOST_BUDGET_BYTES),
        };
        let each = budget / u64::from(self.near.saturating_sub(1).max(1));
        let shape = |percent: u64, wires: u32, depth: u32, largest: u64| {
            let slot = each * percent / 100 / u64::from(wires) / u64::from(depth);
            let slot_bytes = (slot / 128 * 128).clamp(256, largest) as u32;
            WireShape { wires, depth, slot_bytes }
        };
        let ll128 = match place {
            Place::Device if !self.nodes => shape(20, 32, target.ll128.depth, 32 << 10),
            // Lines may tear on the way to host memory, and proxies know nothing of packets: that a communicator over
            // several nodes has no wires for them is all that keeps it to Simple.
            Place::Device | Place::Host => WireShape::default(),
        };
        let (simple, ll, largest) = match self.nodes {
            false => (64, 32, 128 << 10),
            true => (REMOTE_WIRES, 0, REMOTE_SLOT_BYTES),
        };
        Capacity {
            simple: shape(65, simple + TRANSFER_WIRES, target.simple.depth, largest),
            ll: shape(15, ll + TRANSFER_WIRES, target.ll.depth, 16 << 10),
            ll128,
            blocks: self.blocks,
            resident: self.resident,
        }
    }
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
                let common = Common { budget_bytes, ..Common::nominal(ranks, ranks) };
                for place in [Place::Device, Place::Host] {
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
