//! What engines can hold, within which is chosen.

use msccl_collective::Protocol;
use msccl_plan::exchange::WireShape;

use super::links::Links;

/// What an engine can hold; the same on all ranks of a communicator.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Capacity {
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
    /// Whether small calls of packets run on low-latency kernels where they can. Ranks may differ:
    /// peers do not notice.
    pub low_latency: bool,
}

impl Capacity {
    /// Whether calls can have such links.
    pub fn has(&self, links: Links) -> bool {
        self.exports_buffers || !links.export_buffers()
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
