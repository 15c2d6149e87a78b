//! The wires of a rank.
//!
//! Those to and from ranks of its node are made when the communicator is, with one exchange of
//! descriptors for all. Those to ranks on other nodes are made when they are first needed
//! ([`HostWires::ensure_wires_to`]), by a proxy ([`super::inter_node`]).

use std::os::fd::OwnedFd;
use std::sync::Arc;

use msccl_collective::Rank;
use msccl_fabric::{Group, Receiver, RingBuffers, Sender};
use msccl_plan::exchange::WireShape;

use super::inter_node::InterNode;
use super::interrupt::NodeRings;
use super::peer_wires::{PeerWires, ring_shapes};
use crate::error::{Error, ErrorKind};
use crate::nodes::Nodes;
use crate::proxy_records::ProxyRecords;

/// What the messages of the group that carry descriptors of rings are tagged with.
const TAG: u64 = u64::from_le_bytes(*b"cpuwires");

/// The ends that a rank holds, by peer.
pub(super) struct HostWires {
    /// `None` for the rank itself, and for ranks on other nodes that were not needed yet.
    peers: Vec<Option<PeerWires>>,
    me: Rank,
    /// What makes wires to other nodes, if there are any.
    inter_node: Option<Arc<InterNode>>,
}

impl HostWires {
    /// Makes the rings on which this rank receives from its node, exchanges descriptors with the
    /// others there, and takes its ends. Every rank of `group` must call it. Gives the rings as
    /// well.
    pub fn join(
        group: &Group,
        nodes: &Nodes,
        shape: WireShape,
        inter_node: Option<Arc<InterNode>>,
    ) -> Result<(Self, NodeRings), Error> {
        let peers = group.peers().map(|_| None).collect();
        let mut wires = Self { peers, me: group.rank(), inter_node };
        let rings = wires.resume(group, nodes, shape)?;
        Ok((wires, rings))
    }

    /// Gives up the ends of the wires to and from `node`, which is this rank's.
    pub fn suspend(&mut self, node: &[Rank]) {
        for peer in node {
            self.peers[peer.index()] = None;
        }
    }

    /// Makes the wires within the node, as [`HostWires::join`] does. Every rank of `group` must
    /// call it.
    pub fn resume(
        &mut self,
        group: &Group,
        nodes: &Nodes,
        shape: WireShape,
    ) -> Result<NodeRings, Error> {
        let me = self.me;
        let node = nodes.around(me);
        let own = RingBuffers::create(&ring_shapes(node, shape))?;
        let peers = || node.iter().copied().filter(|peer| *peer != me);
        for peer in peers() {
            group.send_fd(peer, TAG, own.descriptor()?)?;
        }
        let mut rings = Vec::new();
        for peer in peers() {
            let theirs = open(group.receive_fd(peer, TAG)?, peer, node, shape)?;
            self.peers[peer.index()] =
                Some(PeerWires::take((&own, me), (&theirs, peer), node, shape)?);
            rings.push((peer, theirs));
        }
        // Whoever returns may end and leave the group, which others must not miss a descriptor by.
        group.barrier()?;
        Ok(NodeRings { own, peers: rings })
    }

    /// Makes sure that there are wires to and from `peers`. Does not wait for them.
    pub fn ensure_wires_to(&mut self, peers: impl IntoIterator<Item = Rank>) -> Result<(), Error> {
        let Self { peers: known, me, inter_node } = self;
        for peer in peers {
            let Some(ends) = known.get_mut(peer.index()).filter(|_| peer != *me) else { continue };
            if let (None, Some(inter_node)) = (&ends, &inter_node) {
                *ends = Some(inter_node.open(peer)?);
            }
        }
        Ok(())
    }

    /// The end of wire `wire` on which messages from `peer` come in.
    pub fn incoming(&mut self, peer: Rank, wire: u32) -> Option<&mut Receiver> {
        self.ends(peer)?.incoming.get_mut(wire as usize)
    }

    /// The end of wire `wire` on which messages to `peer` go out.
    pub fn outgoing(&mut self, peer: Rank, wire: u32) -> Option<&mut Sender> {
        self.ends(peer)?.outgoing.get_mut(wire as usize)
    }

    /// The end on which transfers from `peer` come in.
    pub fn transfers_in(&mut self, peer: Rank) -> Option<&mut Receiver> {
        Some(&mut self.ends(peer)?.transfers_in)
    }

    /// The end on which transfers to `peer` go out.
    pub fn transfers_out(&mut self, peer: Rank) -> Option<&mut Sender> {
        Some(&mut self.ends(peer)?.transfers_out)
    }

    /// What is recorded of the proxy to other nodes, if there is one.
    pub fn proxy_records(&self) -> Option<&ProxyRecords> {
        self.inter_node.as_deref().map(InterNode::records)
    }

    /// Whether there are wires to `peer`.
    pub fn knows(&self, peer: Rank) -> bool {
        self.peers.get(peer.index()).is_some_and(Option::is_some)
    }

    fn ends(&mut self, peer: Rank) -> Option<&mut PeerWires> {
        self.peers.get_mut(peer.index())?.as_mut()
    }
}

fn open(
    descriptor: OwnedFd,
    peer: Rank,
    node: &[Rank],
    shape: WireShape,
) -> Result<RingBuffers, Error> {
    let rings = RingBuffers::open(descriptor)?;
    let expected = ring_shapes(node, shape);
    let found = (0..rings.count()).map_while(|index| rings.shape(index));
    if !found.eq(expected.iter().copied()) {
        let text = format!(
            "expected {} rings of {shape:?} from {peer}, found {} of {:?}: all ranks must run the \
             same version",
            expected.len(),
            rings.count(),
            rings.shape(0)
        );
        return Err(Error::new(ErrorKind::Remote, text));
    }
    Ok(rings)
}
