//! The ends of the wires to and from one peer, and which rings of its node they are.

use msccl_collective::Rank;
use msccl_fabric::{Receiver, RingBufferShape, RingBuffers, Sender};
use msccl_plan::exchange::WireShape;

use crate::error::Error;

/// The ends of all wires from and to one peer.
pub(super) struct PeerWires {
    pub incoming: Vec<Receiver>,
    pub outgoing: Vec<Sender>,
    pub transfers_in: Receiver,
    pub transfers_out: Sender,
}

impl PeerWires {
    /// The ends of rank `me` of the rings in `own`, which it made, and of those in `theirs`, which
    /// `peer` made; both are of `node`.
    pub fn take(
        (own, me): (&RingBuffers, Rank),
        (theirs, peer): (&RingBuffers, Rank),
        node: &[Rank],
        shape: WireShape,
    ) -> Result<Self, Error> {
        let first_in = first_ring(me, peer, node, shape);
        let first_out = first_ring(peer, me, node, shape);
        let wires = shape.wires as usize;
        let incoming = (0..wires).map(|wire| own.receiver(first_in + wire));
        let outgoing = (0..wires).map(|wire| theirs.sender(first_out + wire));
        Ok(Self {
            incoming: incoming.collect::<Result<_, _>>()?,
            outgoing: outgoing.collect::<Result<_, _>>()?,
            transfers_in: own.receiver(first_in + wires)?,
            transfers_out: theirs.sender(first_out + wires)?,
        })
    }
}

/// The rings that one rank of `node` makes: for every peer its wires, then the one for transfers.
pub(super) fn ring_shapes(node: &[Rank], shape: WireShape) -> Vec<RingBufferShape> {
    let WireShape { wires, depth, slot_bytes } = shape;
    let ring = RingBufferShape { depth, slot_bytes: slot_bytes as usize };
    vec![ring; node.len().saturating_sub(1) * (wires as usize + 1)]
}

/// Among the rings of `owner`, the first one from `sender`.
fn first_ring(owner: Rank, sender: Rank, node: &[Rank], shape: WireShape) -> usize {
    let before = node.iter().filter(|rank| **rank < sender && **rank != owner).count();
    before * (shape.wires as usize + 1)
}
