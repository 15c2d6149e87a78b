//! Wires to and from ranks on other nodes: rings in memory of this rank whose other ends a
//! proxy holds.
//!
//! The wires of a pair are made when one of the two first needs them, which takes no word of the
//! other: what is sent waits in a ring until the other has made its own.

use std::sync::Arc;
use std::time::Duration;

use msccl_collective::Rank;
use msccl_fabric::{Abort, Group, RingBufferShape};
use msccl_plan::exchange::WireShape;
use msccl_proxy::{Config, Proxy, ring_buffers};

use super::peer_wires::PeerWires;
use super::proxy_records::ProxyRecords;
use crate::engine::Waiting;
use crate::error::{Error, ErrorKind};

/// What carries the messages of this rank to and from other nodes.
pub(super) struct InterNode {
    proxy: Proxy,
    shape: WireShape,
    abort: Abort,
    me: Rank,
    records: ProxyRecords,
}

impl InterNode {
    /// Starts to carry, over wires of `shape`.
    pub fn start(group: Arc<Group>, shape: WireShape, config: Config) -> Result<Self, Error> {
        let (abort, me) = (Abort::new(), group.rank());
        let proxy = Proxy::start(group, config, abort.clone())?;
        Ok(Self { proxy, shape, abort, me, records: ProxyRecords::default() })
    }

    /// Carries nothing any more; what was sent and is still here is lost.
    pub fn abort(&self, reason: &str) {
        self.abort.raise(reason);
    }

    /// What was sent may take so long to arrive when this ends.
    pub fn leave_within(&self, limit: Duration) {
        self.proxy.leave_within(limit);
    }

    /// The ends of new wires to and from `peer`, to be made once.
    pub fn open(&self, peer: Rank) -> Result<PeerWires, Error> {
        let WireShape { wires, depth, slot_bytes } = self.shape;
        let ring = RingBufferShape { depth, slot_bytes: slot_bytes as usize };
        // The last one is for transfers.
        let shapes = vec![ring; wires as usize + 1];
        let pair = ring_buffers::pair(&shapes, &self.proxy.doorbell())?;
        self.proxy.connect(peer, self.records.follow(pair.endpoints, self.me, peer))?;
        let (mut incoming, mut outgoing) = (pair.receivers, pair.senders);
        let (Some(transfers_in), Some(transfers_out)) = (incoming.pop(), outgoing.pop()) else {
            return Err(Error::internal(format!("there are no wires to {peer}")));
        };
        Ok(PeerWires { incoming, outgoing, transfers_in, transfers_out })
    }

    /// What is recorded of the proxy.
    pub fn records(&self) -> &ProxyRecords {
        &self.records
    }

    /// Whether one of `waits` is for a rank to which the links have failed.
    pub fn check(&self, waits: &[Waiting]) -> Result<(), (Rank, Error)> {
        let failures = self.proxy.failures();
        let waited_for = |peer| waits.iter().any(|waiting| waiting.peer == Some(peer));
        match failures.iter().find(|failure| waited_for(failure.peer)) {
            None => Ok(()),
            Some(failure) => {
                Err((failure.peer, Error::new(ErrorKind::Remote, failure.to_string())))
            }
        }
    }

    /// Adds to every wait for a rank on another node what its links do.
    pub fn explain(&self, waits: &mut [Waiting]) {
        for wait in self.proxy.waits() {
            let of_peer = waits.iter_mut().filter(|waiting| waiting.peer == Some(wait.peer));
            of_peer.for_each(|waiting| waiting.text.push_str(&format!(" [{wait}]")));
        }
    }
}
