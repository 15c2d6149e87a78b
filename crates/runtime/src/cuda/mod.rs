//! The engine on a GPU: a collective is one launch of an interpreter kernel in the caller's stream.
//!
//! In reading order: `per_device` (what communicators share), `carve_out` (how much of a
//! multiprocessor is whose), `kernels` (what is loaded), `capacity` (how much is set aside),
//! `arena` and `links` (the wires), `inter_node` (those to other nodes), `wires` (all of them),
//! `registration` (the caller's buffers for direct delivery), `copy_engines` (calls without a
//! kernel), `bind` (plans in the memory of the GPU), `specialised` (kernels for one plan),
//! `stream_order` (calls in several streams),
//! `launch_cache` (launch records, kept from one call to the next), `launch`, `launch_order`
//! (calls of several communicators), `control_block` (abort and progress), `scratch`, `signals` (of
//! one-sided transfers), `service` (how all that serves what an engine must do); beside them
//! `records` (what kernels did, if that is recorded).
//!
//! # Guarantees
//!
//! A collective like the one before it, in the same stream, allocates nothing, and asks the driver
//! four things: which context is current, whether the stream is being captured, the launch, and to
//! mark its end.
//!
//! Taking up a call waits for nothing that runs on a GPU, except a copy of a few kilobytes when an
//! algorithm is used for the first time. It works in a stream that is being captured, and a graph
//! may be launched again and again, mixed with other calls, as `stream_order` says.

mod arena;
mod bind;
mod capacity;
mod carve_out;
mod code;
mod control_block;
mod copier;
mod copy_engines;
mod device_users;
mod inter_node;
mod kernels;
mod launch;
mod launch_cache;
mod launch_order;
mod links;
mod pdl;
mod per_device;
mod records;
mod registration;
mod scratch;
mod service;
mod signals;
mod specialised;
mod stream_order;
mod transfers;
mod wires;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use msccl_collective::Rank as MemberRank;
use msccl_fabric::{Abort, Group};
use msccl_gpu::{Context, DeviceBuffer, Event, Function};
use msccl_proxy::{self as proxy, Proxy};
use msccl_select::{ArenaLocation, Capacity, CommonCapacity, Links};
use msccl_topology::address::BusId;

use crate::engine::{DecidedCall, Engine};
use crate::error::Error;
use crate::nodes::Nodes;
use crate::settings::{GraphOrder, OnFailure, Settings};
use bind::CudaBindings;
use capacity::common_capacity;
use control_block::ControlBlock;
use copy_engines::CopyEngines;
use device_users::DeviceUsers;
use inter_node::{Carrier, InterNodeWires};
use kernels::Kernels;
use launch::{Grid, Record};
use launch_cache::LaunchCache;
use launch_order::LaunchOrder;
use links::WireMemory;
use pdl::PdlBudget;
use records::{KernelRecords, Recorded};
use registration::Registration;
use scratch::CudaScratch;
use signals::CudaSignals;
use stream_order::{CallSite, Order};
use wires::{CudaWires, WireMaker};

/// A wait shows in hang reports when it lasts longer.
const REPORT_AFTER_US: u32 = 1000;

/// How often somebody who waits for the end of all calls looks.
const IDLE_POLL: Duration = Duration::from_micros(50);

/// In the number that a kernel reports, the bits of the call; the bits above name the binding.
const CALL_BITS: u32 = 40;

/// What stands there for transfers, which have no binding.
const TRANSFERS: u64 = (1 << (64 - CALL_BITS)) - 1;

/// One rank on a GPU.
pub(crate) struct CudaRank {
    context: Context,
    device_users: DeviceUsers,
    kernels: Arc<Kernels>,
    /// Whether interpreters begin while the kernel before them ends.
    uses_pdl: bool,
    /// What kernels do when the communicator fails.
    on_failure: OnFailure,
    /// If kernels of all communicators begin in the order of their launches.
    launch_order: Option<Arc<LaunchOrder>>,
    /// For collectives.
    capacity: Capacity,
    /// Thread blocks of calls that may be on the GPU at once: of two collectives, or of an
    /// exchange. The same on all ranks.
    room: u32,
    place: ArenaLocation,
    sharing: u32,
    ranks: u32,
    links: WireMemory,
    /// The wires to ranks on other nodes, if there are any.
    inter_node: Option<InterNodeWires>,
    /// Ends the proxy early.
    abort: Abort,
    /// If links may deliver directly.
    registration: Option<Registration>,
    /// If copy engines may carry calls.
    copy_engines: Option<CopyEngines>,
    one_sided: CudaSignals,
    control_block: Arc<ControlBlock>,
    /// If calls are recorded.
    records: Option<KernelRecords>,
    /// `u64` for each block of the largest grid.
    signals: DeviceBuffer,
    /// Never held while a call is taken up, so that hang reports can be made meanwhile.
    bindings: Mutex<CudaBindings>,
    state: Mutex<LaunchState>,
    /// The number of the last call that was launched; written with `state` locked.
    launched: AtomicU64,
}

/// What changes from call to call.
struct LaunchState {
    order: Order,
    /// The launch records of the last shapes of collectives.
    cache: LaunchCache,
    /// Of the plans.
    scratch: CudaScratch,
    /// Kept for callers of [`Engine::scratch`].
    kept: CudaScratch,
    /// Collectives that specialised kernels have served.
    specialised_calls: u64,
    pdl: PdlBudget,
    /// Whether the last collective was a kernel, behind which the next one may begin early.
    ends_with_kernel: bool,
}

impl CudaRank {
    /// This rank of `group`, whose ranks live on `nodes`, on the GPU of `context`. Every rank calls
    /// it. Links can deliver directly unless some rank never wants that.
    pub fn join(
        group: &Arc<Group>,
        nodes: &Nodes,
        context: &Context,
        settings: &Settings,
    ) -> Result<Self, Error> {
        let kernels = links::fail_together(group, Kernels::of(context))?;
        let abort = Abort::new();
        let (wires, sharing) = node_wires(group, nodes, context, &kernels, settings, &abort)?;
        let CudaWires { place, capacity, links, inter_node } = wires;
        let registration = register(group, nodes, context, settings, place)?;
        let low_latency = settings.small && settings.at_once;
        let capacity =
            Capacity { exports_buffers: registration.is_some(), low_latency, ..capacity };
        let signals = DeviceBuffer::zeroed(context, 8 * capacity.blocks.max(1) as usize);
        let device_users = DeviceUsers::begin(group.id(), context.device().ordinal());
        let control_block = ControlBlock::new(context, capacity.blocks, REPORT_AFTER_US)?;
        let control_block = Arc::new(control_block);
        let carries = settings.wants_copy_engines(group.ranks()) && registration.is_some();
        let copy_engines = CopyEngines::join(group, context, carries, settings.inbox_bytes)?;
        let capacity = Capacity { copy_engines: copy_engines.is_some(), ..capacity };
        let may_load = device_users.may_wait();
        let recorded = Recorded {
            control_block: Arc::clone(&control_block),
            proxy: inter_node.as_ref().map(|of| Arc::clone(of.records())),
        };
        let records = KernelRecords::begin(group, context, &kernels, recorded, settings, may_load);
        let mut rank = Self {
            records,
            device_users,
            context: context.clone(),
            // With a launch order the host waits until a kernel has begun; of one that begins early
            // the driver reports when it is done.
            uses_pdl: settings.early_start && !settings.launch_order && kernels.can_start_early(),
            on_failure: settings.on_failure,
            launch_order: settings.launch_order.then(|| LaunchOrder::of(context)).transpose()?,
            kernels,
            capacity,
            room: capacity.blocks.min(settings.overrides.blocks_max.unwrap_or(u32::MAX)),
            place,
            sharing,
            ranks: group.ranks(),
            links,
            inter_node,
            abort,
            registration,
            copy_engines,
            one_sided: CudaSignals::default(),
            control_block,
            bindings: Mutex::new(CudaBindings::new(settings)),
            state: Mutex::new(LaunchState::new(context, settings.graphs)?),
            launched: AtomicU64::new(0),
            // After all else that may fail: here ranks meet.
            signals: links::fail_together(group, signals.map_err(Error::from))?,
        };
        rank.drop_useless_launch_order();
        Ok(rank)
    }

    /// Where kernels of other ranks run on the same GPU, a launch order needs reports of starts. By
    /// now all ranks of this process use their devices.
    fn drop_useless_launch_order(&mut self) {
        if self.device_users.shares_device() {
            self.launch_order.take_if(|launch_order| !launch_order.reports_starts);
        }
    }

    fn bindings(&self) -> MutexGuard<'_, CudaBindings> {
        self.bindings.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn state(&self) -> MutexGuard<'_, LaunchState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Does `work` in `stream`, in its place among the calls of all streams.
    fn in_order(
        &self,
        stream: u64,
        work: impl FnOnce(CallSite<'_>) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let entered = self.context.enter()?;
        let mut state = self.state();
        let site = state.order.before(&entered, stream)?;
        work(site)?;
        self.expect_graphs(site.capture.is_some());
        state.order.after(site)
    }

    /// Has copy engines carry `call` by `work` in its stream, in its place among all calls.
    fn carry_in_order(
        &self,
        call: &DecidedCall<'_>,
        work: impl FnOnce(CallSite<'_>) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let entered = self.context.enter()?;
        let mut state = self.state();
        let site = state.order.before(&entered, call.buffers.stream)?;
        work(site)?;
        state.ends_with_kernel = false;
        self.expect_graphs(site.capture.is_some());
        self.launched.store(call.number, Ordering::Release);
        state.order.after(site)
    }

    /// Launches a kernel that waits for peers.
    fn launch<R: Record>(
        &self,
        function: &Function,
        site: CallSite<'_>,
        grid: Grid,
        record: &R,
    ) -> Result<(), Error> {
        let launch =
            |begun: Option<&Event>| launch::launch(function, site.stream(), grid, record, begun);
        match &self.launch_order {
            None => launch(None),
            Some(launch_order) => launch_order.take(site, launch),
        }
    }

    /// Lets the proxy know, if a call was `captured`, that it may run again unannounced.
    fn expect_graphs(&self, captured: bool) {
        self.inter_node
            .as_ref()
            .filter(|_| captured)
            .inspect(|inter_node| inter_node.expect_graphs());
    }

    /// Makes sure that there are wires to `peer`.
    fn ensure_wires_to(&self, peer: MemberRank) -> Result<(), Error> {
        match &self.inter_node {
            Some(inter_node) if !self.links.view.layout.is_intra_node(peer) => {
                inter_node.ensure_wires_to(peer)
            }
            Some(_) | None => Ok(()),
        }
    }
}

impl LaunchState {
    /// Before the first call.
    fn new(context: &Context, graphs: GraphOrder) -> Result<Self, Error> {
        Ok(Self {
            order: Order::new(context, graphs)?,
            cache: LaunchCache::default(),
            scratch: CudaScratch::new(context),
            kept: CudaScratch::new(context),
            specialised_calls: 0,
            pdl: PdlBudget::default(),
            ends_with_kernel: true,
        })
    }
}

/// The wires of this rank, and the most ranks that share a GPU. Every rank calls it.
fn node_wires(
    group: &Arc<Group>,
    nodes: &Nodes,
    context: &Context,
    kernels: &Kernels,
    settings: &Settings,
    abort: &Abort,
) -> Result<(CudaWires, u32), Error> {
    let node_ranks = nodes.around(group.rank()).len() as u32;
    let (common, gpus) =
        common_capacity(group, context, kernels, node_ranks, settings.buffer_bytes)?;
    let wires = wires(group, nodes, context, settings, (&common, &gpus), abort)?;
    Ok((wires, common.sharing))
}

/// What direct delivery needs, unless some rank never wants that. Every rank calls it.
fn register(
    group: &Arc<Group>,
    nodes: &Nodes,
    context: &Context,
    settings: &Settings,
    place: ArenaLocation,
) -> Result<Option<Registration>, Error> {
    let exports = settings.overrides.links.is_none_or(Links::export_buffers);
    let exports = exports && place == ArenaLocation::Device && nodes.count() == 1;
    Registration::join(group, context, exports)
}

/// The wires of this rank; `abort` ends the proxy of those to other nodes. Every rank calls it.
fn wires(
    group: &Arc<Group>,
    nodes: &Nodes,
    context: &Context,
    settings: &Settings,
    (common, gpus): (&CommonCapacity, &[Option<BusId>]),
    abort: &Abort,
) -> Result<CudaWires, Error> {
    let together = |rank| nodes.together(group.rank(), MemberRank(rank));
    let intra_node: Vec<_> = (0..group.ranks()).map(together).collect();
    let proxy = (nodes.count() > 1).then(|| {
        let bus_id = |rank: &MemberRank| gpus.get(rank.index()).copied().flatten();
        let around = nodes.around(group.rank()).iter().filter_map(bus_id).collect();
        let gpu = bus_id(&group.rank()).map(|bus_id| proxy::Gpu { bus_id, around });
        let machine = proxy::MachineFacts { gpu, ..settings.proxy.machine.clone() };
        let config = proxy::Config { machine, ..settings.proxy.clone() };
        Proxy::start(group.clone(), config, abort.clone()).map(Arc::new).map_err(Error::from)
    });
    let proxy = links::fail_together(group, proxy.transpose())?;
    let carrier = proxy.map(|proxy| {
        Carrier::new(group, context, proxy, settings.inter_node_fifo, common.sharing > 1)
    });
    let carrier = links::fail_together(group, carrier.transpose())?;
    let maker = WireMaker { group, context, common, intra_node: &intra_node, carrier };
    let wires = maker.make(settings.peer_memory)?;
    // All ranks have wires to other nodes, or none.
    wires
        .inter_node
        .as_ref()
        .map_or(Ok(()), |inter_node| links::fail_together(group, inter_node.prepare()))?;
    Ok(wires)
}

/// What a kernel reports of its call: the number of its binding, or [`TRANSFERS`], and its own.
fn tagged(binding: u64, call: u64) -> u64 {
    (binding << CALL_BITS) | (call & ((1 << CALL_BITS) - 1))
}

impl Drop for CudaRank {
    fn drop(&mut self) {
        // Kernels of this rank may still use what is about to be freed. A failed device has none.
        self.release_on_failure();
        let _ = self.quiesce();
        self.one_sided.end_waits();
        self.records = None;
    }
}
