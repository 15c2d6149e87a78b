//! The engine on a GPU: a collective is one launch of an interpreter kernel in the caller's stream.
//!
//! In reading order: `per_device` (what communicators share), `footprint` (how much of a multiprocessor is whose), `kernels` (what is loaded), `capacity` (how much is set aside), `arena` and
//! `links` (the wires), `far` (those to other nodes), `wires` (all of them), `lending` (the caller's buffers for direct delivery),
//! `bind` (plans in the memory of the GPU), `special` (kernels for one plan), `order` (calls in several streams),
//! `recent` (what kernels are told, and what the last call had in common with the next), `launch`, `turns` (calls of several communicators), `watchtower` (abort and progress),
//! `scratch`, `service` (how all that serves what an engine is asked).
//!
//! # Guarantees
//!
//! A collective like the one before it, in the same stream, allocates nothing, and asks the driver four things:
//! which context is current, whether the stream is being captured, the launch, and to mark its end.
//!
//! Taking up a call waits for nothing that runs on a GPU, except a copy of a few kilobytes when an
//! algorithm is used for the first time. It works in a stream that is being captured, and a graph
//! may be launched again and again, mixed with other calls, as `order` says.

mod arena;
mod bind;
mod capacity;
mod code;
mod far;
mod footprint;
mod kernels;
mod launch;
mod lending;
mod links;
mod order;
mod overlap;
mod per_device;
mod recent;
mod scratch;
mod service;
mod special;
mod tenancy;
mod transfers;
mod turns;
mod watchtower;
mod wires;

use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use msccl_collective::Rank as MemberRank;
use msccl_fabric::{Abort, Group};
use msccl_gpu::{Context, DeviceBuffer, Event, Function};
use msccl_proxy::{self as proxy, Proxy};
use msccl_topology::address::BusId;

use crate::engine::{Capacity, Engine};
use crate::error::Error;
use crate::nodes::Nodes;
use crate::select;
use crate::settings::{GraphOrder, OnFailure, Settings};
use bind::Bindings;
use capacity::Common;
use far::{Carrier, Far};
use kernels::Kernels;
use launch::{Grid, Record};
use lending::Lending;
use links::{Links, Place};
use order::{Order, Site};
use overlap::Overlap;
use recent::Recent;
use scratch::Scratch;
use tenancy::Tenancy;
use turns::Turns;
use watchtower::Watchtower;
use wires::{Maker, Wires};

/// A wait shows in stories when it lasts longer.
const REPORT_AFTER_US: u32 = 1000;

/// How often somebody who waits for the end of all calls looks.
const IDLE_POLL: Duration = Duration::from_micros(50);

/// In the number that a kernel reports, the bits of the call; the bits above name the binding.
const CALL_BITS: u32 = 40;

/// What stands there for transfers, which have no binding.
const TRANSFERS: u64 = (1 << (64 - CALL_BITS)) - 1;

/// One rank on a GPU.
pub(crate) struct Rank {
    context: Context,
    tenancy: Tenancy,
    kernels: Arc<Kernels>,
    /// Whether interpreters begin while the kernel before them ends.
    starts_early: bool,
    /// What kernels do when the communicator fails.
    on_failure: OnFailure,
    /// If kernels of all communicators begin in the order of their launches.
    turns: Option<Arc<Turns>>,
    /// For collectives.
    capacity: Capacity,
    /// Thread blocks of calls that may be on the GPU at once: of two collectives, or of an exchange. The same on all ranks.
    room: u32,
    place: Place,
    sharing: u32,
    ranks: u32,
    links: Links,
    /// The wires to ranks on other nodes, if there are any.
    far: Option<Far>,
    /// Ends the proxy early.
    abort: Abort,
    /// If links may deliver directly.
    lending: Option<Lending>,
    watchtower: Watchtower,
    /// `u64` for each block of the largest grid.
    signals: DeviceBuffer,
    /// Never held while a call is taken up, so that stories can be told meanwhile.
    bindings: Mutex<Bindings>,
    state: Mutex<State>,
    /// The number of the last call that was launched; written with `state` locked.
    launched: AtomicU64,
}

/// What changes from call to call.
struct State {
    order: Order,
    /// What the last collective was told.
    recent: Option<Recent>,
    /// Of the plans.
    scratch: Scratch,
    /// Kept for callers of [`Engine::scratch`].
    kept: Scratch,
    /// Collectives that special kernels have served.
    special_calls: u64,
    overlap: Overlap,
}

impl Rank {
    /// This rank of `group`, whose ranks live on `nodes`, on the GPU of `context`. Every rank calls it. Links can deliver
    /// directly unless some rank never wants that.
    pub fn join(
        group: &Arc<Group>,
        nodes: &Nodes,
        context: &Context,
        settings: &Settings,
    ) -> Result<Self, Error> {
        let kernels = links::agree(group, Kernels::of(context))?;
        let near = nodes.around(group.rank()).len() as u32;
        let (common, gpus) = Common::find(group, context, &kernels, near, settings.buffer_bytes)?;
        let abort = Abort::new();
        let wires = wires(group, nodes, context, settings, (&common, &gpus), &abort)?;
        let Wires { place, capacity, links, far } = wires;
        let lends = settings.wish.links.is_none_or(select::Links::lend);
        let lends = lends && place == Place::Device && nodes.count() == 1;
        let lending = Lending::join(group, context, lends)?;
        let capacity = Capacity { lends: lending.is_some(), ..capacity };
        let signals = DeviceBuffer::zeroed(context, 8 * capacity.blocks.max(1) as usize);
        let mut rank = Self {
            tenancy: Tenancy::begin(group.id(), context.device().ordinal()),
            context: context.clone(),
            // Who has turns waits until a kernel has begun; of one that begins early the driver tells when it is done.
            starts_early: settings.early_start
                && !settings.launch_order
                && kernels.can_start_early(),
            on_failure: settings.on_failure,
            turns: settings.launch_order.then(|| Turns::of(context)).transpose()?,
            kernels,
            capacity,
            room: capacity.blocks.min(settings.blocks_max.unwrap_or(u32::MAX)),
            place,
            sharing: common.sharing,
            ranks: group.ranks(),
            links,
            far,
            abort,
            lending,
            watchtower: Watchtower::new(context, capacity.blocks, REPORT_AFTER_US)?,
            bindings: Mutex::new(Bindings::new(common.sharing > 1, settings)),
            state: Mutex::new(State::new(context, settings.graphs)?),
            launched: AtomicU64::new(0),
            // After all else that may fail: here ranks meet.
            signals: links::agree(group, signals.map_err(Error::from))?,
        };
        // By now all ranks of this process are tenants.
        if rank.tenancy.shares_device() {
            rank.turns.take_if(|turns| !turns.tells_beginnings);
        }
        Ok(rank)
    }

    fn bindings(&self) -> MutexGuard<'_, Bindings> {
        self.bindings.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Does `work` in `stream`, in its place among the calls of all streams.
    fn in_order(
        &self,
        stream: u64,
        work: impl FnOnce(Site<'_>) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let entered = self.context.enter()?;
        let mut state = self.state();
        let site = state.order.before(&entered, stream)?;
        work(site)?;
        self.expect_graphs(site.capture.is_some());
        state.order.after(site)
    }

    /// Launches a kernel that waits for peers.
    fn launch<R: Record>(
        &self,
        function: &Function,
        site: Site<'_>,
        grid: Grid,
        record: &R,
    ) -> Result<(), Error> {
        let launch =
            |begun: Option<&Event>| launch::launch(function, site.stream(), grid, record, begun);
        match &self.turns {
            None => launch(None),
            Some(turns) => turns.take(site, launch),
        }
    }

    /// Lets the proxy know, if a call was `captured`, that it may run again unannounced.
    fn expect_graphs(&self, captured: bool) {
        self.far.as_ref().filter(|_| captured).inspect(|far| far.expect_graphs());
    }

    /// Makes sure that there are wires to `peer`.
    fn reach(&self, peer: MemberRank) -> Result<(), Error> {
        match &self.far {
            Some(far) if !self.links.view.layout.is_near(peer) => far.reach(peer),
            Some(_) | None => Ok(()),
        }
    }
}

impl State {
    /// Before the first call.
    fn new(context: &Context, graphs: GraphOrder) -> Result<Self, Error> {
        Ok(Self {
            order: Order::new(context, graphs)?,
            recent: None,
            scratch: Scratch::new(context),
            kept: Scratch::new(context),
            special_calls: 0,
            overlap: Overlap::default(),
        })
    }
}

/// The wires of this rank; `abort` ends the proxy of those to other nodes. Every rank calls it.
fn wires(
    group: &Arc<Group>,
    nodes: &Nodes,
    context: &Context,
    settings: &Settings,
    (common, gpus): (&Common, &[Option<BusId>]),
    abort: &Abort,
) -> Result<Wires, Error> {
    let together = |rank| nodes.together(group.rank(), MemberRank(rank));
    let near: Vec<_> = (0..group.ranks()).map(together).collect();
    let proxy = (nodes.count() > 1).then(|| {
        let bus_id = |rank: &MemberRank| gpus.get(rank.index()).copied().flatten();
        let around = nodes.around(group.rank()).iter().filter_map(bus_id).collect();
        let gpu = bus_id(&group.rank()).map(|bus_id| proxy::Gpu { bus_id, around });
        let surroundings = proxy::MachineFacts { gpu, ..settings.proxy.surroundings.clone() };
        let config = proxy::Config { surroundings, ..settings.proxy.clone() };
        Proxy::start(group.clone(), config, abort.clone()).map(Arc::new).map_err(Error::from)
    });
    let proxy = links::agree(group, proxy.transpose())?;
    let carrier = proxy
        .map(|proxy| Carrier::new(group, context, proxy, settings.far_slots, common.sharing > 1));
    let carrier = links::agree(group, carrier.transpose())?;
    let maker = Maker { group, context, common, near: &near, carrier };
    let wires = maker.make(settings.peer_memory)?;
    // All ranks have wires to other nodes, or none.
    wires.far.as_ref().map_or(Ok(()), |far| links::agree(group, far.prepare()))?;
    Ok(wires)
}

/// What `ranks` ranks on GPUs can hold that have an H200 each, `per_node` of them on a node.
pub(crate) fn nominal_capacity(ranks: u32, per_node: u32) -> Capacity {
    capacity::for_collectives(Common::nominal(ranks, per_node).wires(Place::Device))
}

/// What a kernel reports of its call: the number of its binding, or [`TRANSFERS`], and its own.
fn tagged(binding: u64, call: u64) -> u64 {
    (binding << CALL_BITS) | (call & ((1 << CALL_BITS) - 1))
}

impl Drop for Rank {
    fn drop(&mut self) {
        // Kernels of this rank may still use what is about to be freed. A failed device has none.
        self.release_on_failure();
        let _ = self.quiesce();
    }
}
