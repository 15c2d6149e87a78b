//! What engines can hold, within which is chosen.

mod gpus;
mod host;

use msccl_collective::Protocol;
use msccl_plan::exchange::WireShape;
use msccl_registry::Shape;

use super::links::Links;
use super::tuning::Machine;

pub use gpus::{ArenaLocation, CommonCapacity, TRANSFER_WIRES, blocks_of_rank};

/// What an engine can hold; the same on all ranks of a communicator.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Capacity {
    /// The wires of every ordered pair of ranks, by protocol.
    pub simple: WireShape,
    /// Of the wires under Simple, the first so many of each pair join ranks on two nodes; all, if
    /// there is one node.
    pub inter_node_wires: u32,
    /// Under LL; no wires if the engine does not speak it.
    pub ll: WireShape,
    /// Under LL128; no wires if the engine does not speak it.
    pub ll128: WireShape,
    /// Thread blocks of a rank that can run at once, however large.
    pub blocks: u32,
    /// Whether links can deliver directly.
    pub exports_buffers: bool,
    /// Whether copy engines can carry links.
    pub copy_engines: bool,
    /// Whether small calls of packets run on low-latency kernels where they can. Ranks may differ:
    /// peers do not notice.
    pub low_latency: bool,
}

impl Capacity {
    /// What every rank of a communicator of `shape` can hold on such a machine: on host threads, or
    /// on an H200 each.
    pub fn nominal(machine: Machine, shape: Shape) -> Self {
        let Shape { ranks, per_node } = shape;
        match machine {
            Machine::Gpus => Self::nominal_of_gpus(ranks, per_node),
            Machine::Host => Self::of_host(ranks, per_node),
        }
    }

    /// The same where a call has `blocks_max` thread blocks at most.
    #[must_use]
    pub fn limited(self, blocks_max: Option<u32>) -> Self {
        Self { blocks: self.blocks.min(blocks_max.unwrap_or(u32::MAX)).max(1), ..self }
    }

    /// Whether calls can have such links.
    pub fn has(&self, links: Links) -> bool {
        match links {
            Links::Staged => true,
            Links::Direct => self.exports_buffers,
            Links::CopyEngine => self.copy_engines,
        }
    }

    /// Whether there are wires for a protocol that sends packets.
    pub fn has_packets(&self) -> bool {
        self.ll.wires > 0 || self.ll128.wires > 0
    }

    /// The wires under `protocol`.
    pub fn wires(&self, protocol: Protocol) -> WireShape {
        match protocol {
            Protocol::Simple => self.simple,
            Protocol::Ll => self.ll,
            Protocol::Ll128 => self.ll128,
        }
    }
}
