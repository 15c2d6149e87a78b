//! Wires to and from ranks on other nodes: rings in memory of this rank whose other ends a
//! proxy holds.
//!
//! The wires of a pair are made when one of the two first needs them, which takes no word of the
//! other: what is sent waits in a ring until the other has made its own. One of them is for
//! one-sided transfers ([`super::put_links`]).

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use msccl_collective::Rank;
use msccl_fabric::{Abort, Group, RingBufferShape};
use msccl_plan::exchange::WireShape;
use msccl_proxy::{Config, Proxy, ring_buffers};

use super::peer_wires::PeerWires;
use super::put_links::{PutLink, PutLinks};
use crate::engine::Waiting;
use crate::error::{Error, ErrorKind};
use crate::nodes::Nodes;
use crate::proxy_records::ProxyRecords;

/// Marks messages by which a rank requests a link.
const TAG: u64 = u64::from_le_bytes(*b"put link");

/// Wires of a pair beside those for collectives: for transfers, and for one-sided ones.
const OTHER_WIRES: usize = 2;

/// What carries the messages of this rank to and from other nodes.
pub(super) struct InterNode {
    proxy: Proxy,
    group: Arc<Group>,
    /// The ranks on other nodes.
    peers: Vec<Rank>,
    shape: WireShape,
    abort: Abort,
    records: ProxyRecords,
    puts: Arc<PutLinks>,
    /// By rank: the ends of the wires that were made, until somebody takes them.
    made: Mutex<BTreeMap<Rank, MadeWires>>,
}

/// Wires to and from one rank.
struct MadeWires {
    ends: Option<PeerWires>,
    /// Whether that rank was requested to make its own for the sake of one-sided transfers.
    has_requested: bool,
}

impl InterNode {
    /// Starts to carry, over wires of `shape`, for this rank of `group`, whose ranks live on
    /// `nodes`.
    pub fn start(
        group: &Arc<Group>,
        nodes: &Nodes,
        shape: WireShape,
        config: Config,
    ) -> Result<Self, Error> {
        let (abort, group, me) = (Abort::new(), Arc::clone(group), group.rank());
        let peers = group.peers().map(|peer| peer.rank);
        Ok(Self {
            proxy: Proxy::start(Arc::clone(&group), config, abort.clone())?,
            peers: peers.filter(|peer| !nodes.together(me, *peer)).collect(),
            shape,
            abort,
            records: ProxyRecords::default(),
            puts: Arc::new(PutLinks::new(group.ranks())),
            made: Mutex::default(),
            group,
        })
    }

    /// A rank on another node that requests a link, if one does in time.
    pub fn request_within(&self, timeout: Duration) -> Option<Rank> {
        let (peer, _) = self.group.receive_any(&self.peers, TAG, timeout)?;
        Some(peer)
    }

    /// The links for one-sided transfers.
    pub fn puts(&self) -> &Arc<PutLinks> {
        &self.puts
    }

    /// Whether nothing is carried any more.
    pub fn is_aborted(&self) -> bool {
        self.abort.is_raised()
    }

    /// Carries nothing any more; what was sent and is still here is lost.
    pub fn abort(&self, reason: &str) {
        self.abort.raise(reason);
    }

    /// What was sent may take so long to arrive when this ends.
    pub fn leave_within(&self, limit: Duration) {
        self.proxy.leave_within(limit);
    }

    /// The ends of the wires to and from `peer`, for whoever takes them first.
    pub fn open(&self, peer: Rank) -> Result<PeerWires, Error> {
        let ends = self.with_wires(peer, |made| Ok(made.ends.take()))?;
        ends.ok_or_else(|| Error::internal(format!("the wires to {peer} are in use")))
    }

    /// Makes sure that there is a link for one-sided transfers to and from `peer`.
    pub fn make_link(&self, peer: Rank) -> Result<(), Error> {
        self.with_wires(peer, |_| Ok(()))
    }

    /// The link for one-sided transfers to and from `peer`, which makes its own end as well.
    pub fn link_to(&self, peer: Rank) -> Result<Arc<PutLink>, Error> {
        self.with_wires(peer, |made| {
            if !made.has_requested {
                self.group.send(peer, TAG, &[])?;
                made.has_requested = true;
            }
            self.puts.to(peer).ok_or_else(|| Error::internal(format!("there is no link to {peer}")))
        })
    }

    /// Does `body` with the wires to and from `peer`, which are made if there are none yet.
    fn with_wires<T>(
        &self,
        peer: Rank,
        body: impl FnOnce(&mut MadeWires) -> Result<T, Error>,
    ) -> Result<T, Error> {
        let mut made = self.made.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(wires) = made.get_mut(&peer) {
            return body(wires);
        }
        let ends = Some(self.make(peer)?);
        body(made.entry(peer).or_insert(MadeWires { ends, has_requested: false }))
    }

    /// New wires to and from `peer`, to be made once.
    fn make(&self, peer: Rank) -> Result<PeerWires, Error> {
        let WireShape { wires, depth, slot_bytes } = self.shape;
        let ring = RingBufferShape { depth, slot_bytes: slot_bytes as usize };
        let shapes = vec![ring; wires as usize + OTHER_WIRES];
        let pair = ring_buffers::pair(&shapes, &self.proxy.doorbell())?;
        let me = self.group.rank();
        let endpoints = self.records.follow(pair.endpoints, me, peer, |wire| wire);
        self.proxy.connect(peer, endpoints)?;
        let (mut incoming, mut outgoing) = (pair.receivers, pair.senders);
        let mut last = || Some((incoming.pop()?, outgoing.pop()?));
        let (Some((puts_in, puts_out)), Some((transfers_in, transfers_out))) = (last(), last())
        else {
            return Err(Error::internal(format!("there are no wires to {peer}")));
        };
        self.puts.add(peer, puts_out, puts_in);
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
