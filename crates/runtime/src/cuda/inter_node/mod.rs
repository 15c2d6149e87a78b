//! Wires to ranks on other nodes.
//!
//! To a kernel such a wire is like any other under protocol Simple, except that its other side is
//! the proxy: it takes what the kernel has sent to the peer's host, and puts what comes from there
//! into slots.
//!
//! ```text
//! table    msccl_wire_end[2][ranks][wires]        one for all peers; unused for those here
//!          msccl_wire_end                         one that goes nowhere
//! region   one for each peer, for each of its wires:
//!   heads    posted · lengths of messages         out: written by the kernel, read by the proxy
//!            taken                                in: written by the kernel, read by the proxy
//!   slots    out                                  written by the kernel, read by proxy or card
//!            in                                   the other way round
//! ```
//!
//! Table and heads lie in pinned memory of this host. **Slots lie in memory of the GPU** if network
//! cards do all the carrying: there are devices for RDMA on both hosts, and every one of this host
//! can register the memory; in pinned memory otherwise. Each rank chooses for its own slots when it
//! first needs the peer, whatever the peer chooses, and the log says what it has chosen and why. If
//! RDMA then fails to connect, the proxy copies out of and into the GPU: slow, but right.
//!
//! **Order.** The kernel releases its counts at system scope; the proxy acquires them before it
//! looks at slots. What the proxy writes, or has seen arrive, it releases with the count in the
//! kernel's end, which the kernel acquires at system scope. A slot is written again only after its
//! reader's count says that it was read. `docs/MEMORY.md` says why that holds for slots in the GPU
//! as well.
//!
//! A region is made when the first call needs its peer, on this rank and on the peer alike; neither
//! waits for the other: what is sent meanwhile lies in the slots.

mod fifo;
mod layout;
mod region;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use msccl_collective::{Protocol, Rank};
use msccl_fabric::Group;
use msccl_gpu::{CaptureModeGuard, Context, PinnedBuffer};
use msccl_plan::Direction;
use msccl_plan::launch::WireEnd;
use msccl_proxy::{
    Endpoints, Failure, Memory, Piece, Proxy, ReceiveEndpoint, Registered, SendEndpoint,
};
use msccl_topology::PathType;

use super::arena::{ArenaEnd, Layout};
use super::copier::Copier;
use crate::engine::Waiting;
use crate::error::Error;
use crate::proxy_records::ProxyRecords;
use crate::settings::InterNodeFifo;
use fifo::FifoMemory;
use layout::{LINE_BYTES, WORD_BYTES, slots_bytes};
use region::Region;

/// What carries messages to and from other nodes.
#[derive(Clone)]
pub(super) struct Carrier {
    proxy: Arc<Proxy>,
    /// Which ranks have devices for RDMA.
    equipped: Arc<[bool]>,
    overrides: InterNodeFifo,
    /// Whether ranks share a GPU.
    sharing: bool,
    copier: Arc<Copier>,
}

impl Carrier {
    /// What `proxy` makes possible. Every rank of `group` calls it.
    pub fn new(
        group: &Group,
        context: &Context,
        proxy: Arc<Proxy>,
        overrides: InterNodeFifo,
        sharing: bool,
    ) -> Result<Self, Error> {
        let equipped = group.all_gather(&[u8::from(proxy.has_devices())])?;
        let equipped = equipped.iter().map(|said| said == &[1]).collect();
        let copier = Arc::new(Copier::new(context)?);
        Ok(Self { proxy, equipped, overrides, sharing, copier })
    }

    /// Memory for `bytes` bytes of slots for messages to and from `peer`. What devices reach of it,
    /// they reach as long as the second answer lives.
    fn slots(
        &self,
        context: &Context,
        peer: Rank,
        bytes: usize,
    ) -> Result<(Arc<FifoMemory>, Option<Registered>), Error> {
        match self.in_gpu(context, peer, bytes) {
            Ok(found) => Ok(found),
            Err(why) => Ok((Arc::new(FifoMemory::in_host(context, bytes, why)?), None)),
        }
    }

    fn in_gpu(
        &self,
        context: &Context,
        peer: Rank,
        bytes: usize,
    ) -> Result<(Arc<FifoMemory>, Option<Registered>), String> {
        let Self { proxy, equipped, overrides, sharing, copier } = self;
        let there = equipped.get(peer.index()).copied().unwrap_or(false);
        let against = || against(proxy.has_devices(), there, *sharing).map(str::to_owned);
        let against = match overrides {
            InterNodeFifo::Gpu => None,
            InterNodeFifo::Host => Some("as configured".to_owned()),
            InterNodeFifo::Best => against(),
            InterNodeFifo::Within(most) => {
                against().or_else(|| too_distant(proxy.distance(), *most))
            }
        };
        against.map_or(Ok(()), Err)?;
        let slots = Arc::new(FifoMemory::in_gpu(context, bytes, copier)?);
        let memory: Arc<dyn Memory> = slots.clone();
        match (overrides, proxy.register(&memory)) {
            (_, Ok(registered)) => Ok((slots, Some(registered))),
            (InterNodeFifo::Gpu, Err(_)) => Ok((slots, None)),
            (InterNodeFifo::Best | InterNodeFifo::Within(_) | InterNodeFifo::Host, Err(why)) => {
                Err(why)
            }
        }
    }
}

/// What speaks against slots in GPU memory before it is tried, if there are devices for RDMA `here`
/// or `there`, and if ranks share a GPU.
fn against(here: bool, there: bool, sharing: bool) -> Option<&'static str> {
    match (here, there, sharing) {
        (false, _, _) => Some("no RDMA on this host"),
        (true, false, _) => Some("no RDMA on the peer's host"),
        // To allocate may wait for a kernel of another rank, which may be waiting for this one.
        (true, true, true) => Some("ranks share a GPU"),
        (true, true, false) => None,
    }
}

/// Whether devices at that `distance` are farther than `most`, in words.
fn too_distant(distance: Option<PathType>, most: PathType) -> Option<String> {
    match distance {
        Some(distance) if distance <= most => None,
        Some(distance) => {
            Some(format!("the way to the network card is {distance}, at most {most} is configured"))
        }
        None => Some(format!(
            "nobody knows how far the network cards are, at most {most} is configured"
        )),
    }
}

/// The wires of a rank to ranks on other nodes.
pub(super) struct InterNodeWires {
    context: Context,
    carrier: Carrier,
    layout: Layout,
    me: Rank,
    table: Arc<PinnedBuffer>,
    /// The peers that have a region.
    reached: Mutex<BTreeMap<Rank, Arc<Region>>>,
    records: Arc<ProxyRecords>,
}

impl InterNodeWires {
    /// No peer has a region yet.
    pub fn new(
        context: &Context,
        carrier: Carrier,
        layout: Layout,
        me: Rank,
    ) -> Result<Self, Error> {
        let idle = layout.idle_end() as usize;
        let table = Arc::new(PinnedBuffer::new(context, idle + LINE_BYTES)?);
        // Slots that nobody uses, and a count that nobody reads.
        let nowhere = table.ptr().0 + (idle + LINE_BYTES / 2) as u64;
        for (word, value) in table.words64()[idle / WORD_BYTES..].iter().zip([nowhere, nowhere]) {
            word.store(value, Ordering::Relaxed);
        }
        let (context, reached, records) = (context.clone(), Mutex::default(), Arc::default());
        Ok(Self { context, carrier, layout, me, table, reached, records })
    }

    /// Where the kernel finds its ends.
    pub fn table(&self) -> u64 {
        self.table.ptr().0
    }

    /// Makes what must not be made while kernels run.
    pub fn prepare(&self) -> Result<(), Error> {
        let is_elsewhere = |peer: &Rank| !self.layout.is_intra_node(*peer);
        match self.carrier.overrides {
            InterNodeFifo::Gpu => (0..self.layout.ranks())
                .map(Rank)
                .filter(is_elsewhere)
                .try_for_each(|peer| self.ensure_wires_to(peer)),
            InterNodeFifo::Best | InterNodeFifo::Within(_) | InterNodeFifo::Host => Ok(()),
        }
    }

    /// Makes sure that there are wires to and from `peer`, which is on another node. Does not wait
    /// for it.
    pub fn ensure_wires_to(&self, peer: Rank) -> Result<(), Error> {
        let mut reached = self.reached.lock().unwrap_or_else(PoisonError::into_inner);
        if reached.contains_key(&peer) {
            return Ok(());
        }
        // Somebody may be capturing; what happens here has nothing to do with that.
        let _relaxed = CaptureModeGuard::relaxed(self.context.device().driver())?;
        let shape = self.layout.inter_node_wires();
        let (slots, _registered) = self.carrier.slots(&self.context, peer, slots_bytes(shape))?;
        let region = Arc::new(Region::new(&self.context, shape, slots)?);
        let wire_of = |wire| self.layout.inter_node_wire(wire);
        let endpoints = self.records.follow(self.ports(&region, peer), self.me, peer, wire_of);
        self.carrier.proxy.connect(peer, endpoints)?;
        reached.insert(peer, region);
        Ok(())
    }

    /// What is recorded of the proxy.
    pub fn records(&self) -> &Arc<ProxyRecords> {
        &self.records
    }

    /// Lets the proxy know that a kernel will soon send or receive.
    pub fn stir(&self) {
        self.carrier.proxy.wake();
    }

    /// Lets the proxy know that kernels may send and receive unannounced, as those of graphs do.
    pub fn expect_graphs(&self) {
        self.carrier.proxy.expect_graphs();
    }

    /// What was sent may take so long to arrive when this ends.
    pub fn leave_within(&self, limit: Duration) {
        self.carrier.proxy.leave_within(limit);
    }

    /// From or to whom nothing comes or goes any more.
    pub fn failures(&self) -> Vec<Failure> {
        self.carrier.proxy.failures()
    }

    /// What the proxy has under way for call number `call`, or waits for.
    pub fn waits(&self, call: u64) -> Vec<Waiting> {
        let waits = self.carrier.proxy.waits().into_iter().filter(|wait| !wait.links.is_empty());
        let waits = waits.map(|wait| Waiting {
            call,
            peer: Some(wait.peer),
            text: format!("the proxy: {wait}"),
        });
        waits.collect()
    }

    /// Lets the kernel's ends of all wires of `peer` point to `region`, and answers the proxy's
    /// ends.
    fn ports(&self, region: &Arc<Region>, peer: Rank) -> Endpoints {
        let wires = 0..region.shape.wires;
        let port =
            |direction, wire| self.port(region, ArenaEnd { owner: self.me, direction, peer, wire });
        Endpoints {
            memory: region.slots.clone(),
            send_endpoints: wires
                .clone()
                .map(|wire| port(Direction::Out, wire) as Box<dyn SendEndpoint>)
                .collect(),
            receive_endpoints: wires
                .map(|wire| port(Direction::In, wire) as Box<dyn ReceiveEndpoint>)
                .collect(),
        }
    }

    fn port(&self, region: &Arc<Region>, end: ArenaEnd) -> Box<Port> {
        let among_all = ArenaEnd { wire: self.layout.inter_node_wire(end.wire), ..end };
        let entry = self.layout.entry(Protocol::Simple, among_all) as usize / WORD_BYTES;
        let head = region.head(end.direction, end.wire);
        let far = match end.direction {
            Direction::In => head,
            // The proxy must know how long messages are.
            Direction::Out => head + 1,
        };
        let slots = region.ring(end.direction, end.wire);
        let WireEnd { slots, far, seen, count } = WireEnd { slots, far, ..WireEnd::default() };
        let port = Port { table: self.table.clone(), region: region.clone(), entry, end };
        for (at, value) in [slots, far, seen, count].into_iter().enumerate() {
            // A kernel that uses them is launched later, which orders the two.
            port.entry_word(at).store(value, Ordering::Relaxed);
        }
        Box::new(port)
    }
}

/// The proxy's end of a wire.
struct Port {
    table: Arc<PinnedBuffer>,
    region: Arc<Region>,
    /// The kernel's end, in words from the start of the table.
    entry: usize,
    /// With its number among the wires of the region.
    end: ArenaEnd,
}

impl Port {
    fn entry_word(&self, at: usize) -> &AtomicU64 {
        &self.table.words64()[self.entry + at]
    }

    /// Where the kernel reads the proxy's count.
    fn seen(&self) -> &AtomicU64 {
        self.entry_word(std::mem::offset_of!(WireEnd, seen) / WORD_BYTES)
    }

    /// Word number `at` of what the kernel writes.
    fn head_word(&self, at: usize) -> &AtomicU64 {
        self.region.head_word(self.end.direction, self.end.wire, at)
    }

    fn slot(&self, message: u64) -> u64 {
        self.region.slot(self.end.direction, self.end.wire, message)
    }
}

impl SendEndpoint for Port {
    fn posted(&mut self) -> u64 {
        self.head_word(0).load(Ordering::Acquire)
    }

    fn message(&self, number: u64) -> Piece {
        let bytes = self.head_word(1 + self.region.entry_index(number)).load(Ordering::Relaxed);
        let bytes = u32::try_from(bytes).unwrap_or(u32::MAX).min(self.region.shape.slot_bytes);
        Piece { offset: self.slot(number), bytes }
    }

    fn release(&mut self, number: u64) {
        self.seen().store(number, Ordering::Release);
    }
}

impl ReceiveEndpoint for Port {
    fn depth(&self) -> u32 {
        self.region.shape.depth
    }

    fn slot_bytes(&self) -> u32 {
        self.region.shape.slot_bytes
    }

    fn taken(&mut self) -> u64 {
        self.head_word(0).load(Ordering::Acquire)
    }

    fn slot(&self, number: u64) -> u64 {
        Port::slot(self, number)
    }

    fn commit(&mut self, number: u64, _bytes: u32) -> Result<(), String> {
        self.region.slots.settle()?;
        // The kernel knows how long it is.
        self.seen().store(number, Ordering::Release);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn network_cards_on_both_hosts_and_a_gpu_of_its_own() {
        assert_eq!(against(true, true, false), None);
        assert_eq!(against(false, true, false), Some("no RDMA on this host"));
        assert_eq!(against(true, false, false), Some("no RDMA on the peer's host"));
        assert_eq!(against(true, true, true), Some("ranks share a GPU"));
    }

    #[test]
    fn network_cards_may_be_too_distant() {
        let why = |distance| too_distant(distance, PathType::Pxb);
        assert_eq!((why(Some(PathType::Pix)), why(Some(PathType::Pxb))), (None, None));
        let expected = "the way to the network card is SYS, at most PXB is configured";
        assert_eq!(why(Some(PathType::Sys)).as_deref(), Some(expected));
        assert!(why(None).is_some());
    }
}
