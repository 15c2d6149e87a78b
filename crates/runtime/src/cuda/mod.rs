//! The engine on a GPU: a collective is one launch of an interpreter kernel in the caller's stream.
//!
//! In reading order: `kernels` (what is loaded), `capacity` (how much is set aside), `arena` and
//! `links` (the wires), `far` (those to other nodes), `wires` (all of them), `lending` (the caller's buffers for direct delivery),
//! `bind` (plans in the memory of the GPU), `special` (kernels for one plan), `order` (calls in several streams),
//! `recent` (what the last call had in common with the next), `launch`, `watchtower` (abort and progress),
//! `scratch`.
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
mod far;
mod kernels;
mod launch;
mod lending;
mod links;
mod order;
mod recent;
mod scratch;
mod special;
mod tenancy;
mod transfers;
mod watchtower;
mod wires;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use msccl_collective::{DataType, Protocol, Rank as MemberRank, Reduction};
use msccl_fabric::{Abort, Group};
use msccl_gpu::{Context, DeviceBuffer};
use msccl_plan::exchange::Transfer;
use msccl_plan::launch as abi;
use msccl_plan::launch::{DIRECT_RANKS_MAX, Exchange, Launch, Scale, View};
use msccl_proxy::Proxy;

use crate::call::Scalar;
use crate::engine::{Capacity, Engine, Job, Scaling, TYPES, Waiting};
use crate::error::{Error, ErrorKind};
use crate::nodes::Nodes;
use crate::resident::Resident;
use crate::select::{self, Selector};
use crate::settings::{Event, Settings};
use crate::special::SpecialMode;
use bind::{Bindings, Bound};
use capacity::Common;
use far::{Carrier, Far};
use kernels::Kernels;
use launch::Grid;
use lending::{Lending, Lent};
use links::{Links, Place};
use order::Order;
use recent::Recent;
use scratch::Scratch;
use special::Loader;
use tenancy::Tenancy;
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
    /// For collectives.
    capacity: Capacity,
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
        let me = group.rank();
        let common = Common::find(group, context, &kernels, nodes.around(me).len() as u32)?;
        let near = (0..group.ranks()).map(|rank| nodes.together(me, MemberRank(rank)));
        let near: Vec<_> = near.collect();
        let abort = Abort::new();
        let proxy = (nodes.count() > 1).then(|| {
            let (group, config) = (group.clone(), settings.proxy.clone());
            Proxy::start(group, config, abort.clone()).map(Arc::new).map_err(Error::from)
        });
        let proxy = links::agree(group, proxy.transpose())?;
        let sharing = common.sharing > 1;
        let carrier = proxy
            .map(|proxy| Carrier::new(group, context, proxy, settings.far_slots, sharing))
            .transpose();
        let carrier = links::agree(group, carrier)?;
        let maker = Maker { group, context, common: &common, near: &near, carrier };
        let Wires { place, capacity, links, far } = maker.make(settings.peer_memory)?;
        // All ranks have such wires, or none.
        far.as_ref().map_or(Ok(()), |far| links::agree(group, far.prepare()))?;
        let lends = settings.wish.links.is_none_or(select::Links::lend);
        let lends = lends && place == Place::Device && nodes.count() == 1;
        let lending = Lending::join(group, context, lends)?;
        let direct = lending.as_ref().map_or([0; TYPES], |_| capacity.resident.direct);
        let capacity = Capacity { resident: Resident { direct, ..capacity.resident }, ..capacity };
        let signals = DeviceBuffer::zeroed(context, 8 * capacity.blocks.max(1) as usize);
        let watchtower = Watchtower::new(context, capacity.blocks);
        let state = State {
            order: Order::new(context)?,
            recent: None,
            scratch: Scratch::new(context),
            kept: Scratch::new(context),
            special_calls: 0,
        };
        Ok(Self {
            tenancy: Tenancy::begin(group.id()),
            context: context.clone(),
            starts_early: settings.early_start && kernels.can_start_early(),
            kernels,
            capacity,
            place,
            sharing: common.sharing,
            ranks: group.ranks(),
            links,
            far,
            abort,
            lending,
            watchtower: watchtower?,
            signals: links::agree(group, signals.map_err(Error::from))?,
            bindings: Mutex::new(Bindings::new(sharing)),
            state: Mutex::new(state),
            launched: AtomicU64::new(0),
        })
    }

    fn bindings(&self) -> MutexGuard<'_, Bindings> {
        self.bindings.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes sure that there are wires to `peer`.
    fn reach(&self, peer: MemberRank) -> Result<(), Error> {
        match &self.far {
            Some(far) if !self.links.view.layout.is_near(peer) => far.reach(peer),
            Some(_) | None => Ok(()),
        }
    }

    /// What every call of the shape of `job` is told.
    fn recent(&self, job: &Job<'_>) -> Result<Recent, Error> {
        let reach = |peer| self.reach(peer);
        let bound = self.bindings().bind(&self.context, job.prepared, reach)?;
        let shape = self.capacity.wires(job.protocol);
        let (reduction, divisor) = reduction(job);
        let lends = self.lending.is_some() && job.links.lend();
        let record = Launch {
            links: self.links.view.table(job.protocol),
            offers: if lends { self.links.view.offers() } else { 0 },
            signals: self.signals.ptr().0,
            signals_end: self.signals.ptr().offset(self.signals.length_bytes()).0,
            control: self.watchtower.control(),
            progress: self.watchtower.progress(),
            ranks: self.ranks,
            wires: self.links.view.layout.wires(job.protocol).wires,
            link_depth: shape.depth,
            slot_bytes: shape.slot_bytes,
            reduction,
            divisor,
            report_after_us: REPORT_AFTER_US,
            ..bound.launch.with_cut(&job.cut)
        };
        Recent::new(job, bound, record)
    }

    /// Where peers may find the caller's buffers, as far as the plan has use for that.
    fn views(
        &self,
        lending: &Lending,
        job: &Job<'_>,
        bound: &Bound,
        captured: bool,
    ) -> [View; DIRECT_RANKS_MAX as usize] {
        let geometry = &job.prepared.plan.program().geometry;
        let lent = |lends: bool, address, chunks: u32| {
            let blocks = u64::from(chunks / geometry.block_chunks.max(1));
            let length_bytes = blocks * job.cut.block_bytes;
            lends.then_some(Lent { address, length_bytes })
        };
        let [lends_input, lends_output] = bound.lends;
        let input = lent(lends_input, job.send, geometry.input_chunks);
        let output = lent(lends_output, job.receive, geometry.output_chunks);
        lending.views(input, output, captured || job.patient)
    }
}

/// What `ranks` ranks on GPUs can hold that have an H200 each, `per_node` of them on a node.
pub(crate) fn nominal_capacity(ranks: u32, per_node: u32) -> Capacity {
    capacity::for_collectives(Common::nominal(ranks, per_node).wires(Place::Device))
}

/// What a kernel reports of its call: the number of its binding, or [`TRANSFERS`], and its own.
fn tagged(binding: u64, call: u64) -> u64 {
    (binding << CALL_BITS) | (call & ((1 << CALL_BITS) - 1))
}

/// The reduction's number, and by what complete sums are divided.
fn reduction(job: &Job<'_>) -> (u32, u32) {
    match job.reduction {
        Reduction::Sum => (abi::REDUCTION_SUM, 0),
        Reduction::Prod => (abi::REDUCTION_PROD, 0),
        Reduction::Min => (abi::REDUCTION_MIN, 0),
        Reduction::Max => (abi::REDUCTION_MAX, 0),
        Reduction::Avg => (abi::REDUCTION_SUM, job.prepared.plan.program().average_of.unwrap_or(0)),
    }
}

/// The types of collectives that move bits and compute nothing, the narrowest first.
const CARRIERS: [DataType; 4] = [DataType::U8, DataType::F16, DataType::U32, DataType::U64];

/// For a collective that moves bits and computes nothing: the type that moves most at once. Direct links lead to
/// buffers of peers, of which is known that elements are aligned and nothing more.
fn carrier(job: &Job<'_>) -> DataType {
    let bits = match job.links {
        select::Links::Direct => job.data_type.size_bytes() as u64,
        select::Links::Staged => job.send | job.receive | job.cut.block_bytes | job.cut.chunk_bytes,
    };
    let [.., widest] = CARRIERS;
    CARRIERS.get(bits.trailing_zeros() as usize).copied().unwrap_or(widest)
}

impl Engine for Rank {
    fn capacity(&self) -> &Capacity {
        &self.capacity
    }

    fn story(&self) -> String {
        let device = self.context.device();
        let name = device.name().unwrap_or_else(|_| "a GPU without a name".to_owned());
        let place = match self.place {
            Place::Device => "links in GPU memory",
            Place::Host => "links in host memory",
        };
        let far = self.far.as_ref().map_or("", |_| ", to other hosts by a proxy");
        let shared = match self.sharing {
            1 => String::new(),
            ranks => format!(", up to {ranks} ranks on a GPU"),
        };
        format!("{name} (device {}), {place}{far}{shared}", device.ordinal())
    }

    fn specialise(&self, selector: &Selector, settings: &Settings) {
        if settings.special.mode == SpecialMode::Never {
            return;
        }
        let foreseen = selector.foreseen(&selector.likely());
        match Loader::new(&self.context, &self.kernels, settings) {
            Ok(loader) => {
                let may_load = self.tenancy.may_wait();
                let specials = loader.specials(&foreseen, self.ranks, may_load);
                self.bindings().specialise(specials);
            }
            Err(why) => {
                let text = format!("there are no special kernels: {why}");
                settings.log.event(&Event::Unspecialised(text));
            }
        }
    }

    fn collective(&self, job: &Job<'_>) -> Result<(), Error> {
        let computes = job.prepared.computes;
        let data_type = if computes { job.data_type } else { carrier(job) };
        let entered = self.context.enter()?;
        let mut state = self.state();
        let State { order, recent, scratch, kept: _, special_calls } = &mut *state;
        let recent = match recent {
            Some(recent) if recent.serves(job) => recent,
            other => other.insert(self.recent(job)?),
        };
        let scratch = scratch.of(recent.scratch_bytes())?;
        let capture = order.before(&entered, job.stream)?;
        let (bound, record) = recent.told(job, scratch);
        if let Some(lending) = self.lending.as_ref().filter(|_| record.offers != 0) {
            record.views = self.views(lending, job, bound, capture.is_some());
        }
        let special = match job.links.suit_special_kernels() {
            true => bound.special(job.protocol, data_type),
            false => None,
        };
        *special_calls += u64::from(special.is_some());
        let function = match special {
            Some(special) => &special.function,
            None => self.kernels.interpreter(job.protocol, job.links, data_type)?,
        };
        let grid = Grid {
            width: bound.blocks(),
            height: job.cut.instances,
            threads: job.threads,
            starts_early: self.starts_early,
        };
        launch::launch(function, order::entered_stream(&entered, job.stream), grid, record)?;
        self.far.as_ref().inspect(|far| far.stir());
        self.launched.store(job.call, Ordering::Release);
        order.after(&entered, job.stream, capture)
    }

    fn transfers(&self, transfers: &[Transfer], stream: u64, call: u64) -> Result<(), Error> {
        let view = &self.links.view;
        transfers.iter().try_for_each(|transfer| self.reach(transfer.peer))?;
        let entered = self.context.enter()?;
        let mut state = self.state();
        let capture = state.order.before(&entered, stream)?;
        for launch in transfers::launches(view, &self.capacity, transfers) {
            let record = Exchange {
                links_simple: transfers::table(view, Protocol::Simple),
                links_ll: transfers::table(view, Protocol::Ll),
                control: self.watchtower.control(),
                progress: self.watchtower.progress(),
                call: tagged(TRANSFERS, call),
                report_after_us: REPORT_AFTER_US,
                ..launch
            };
            let grid = Grid::row(record.lane_count, abi::THREADS_MAX_EXCHANGE);
            let stream = order::entered_stream(&entered, stream);
            launch::launch(self.kernels.exchange(), stream, grid, &record)?;
        }
        self.far.as_ref().inspect(|far| far.stir());
        self.launched.store(call, Ordering::Release);
        state.order.after(&entered, stream, capture)
    }

    fn copy(&self, from: u64, to: u64, bytes: u64, stream: u64) -> Result<(), Error> {
        let entered = self.context.enter()?;
        let mut state = self.state();
        let capture = state.order.before(&entered, stream)?;
        order::copy(&self.context, from, to, bytes, stream)?;
        state.order.after(&entered, stream, capture)
    }

    fn pass(&self, stream: u64) -> Result<(), Error> {
        let entered = self.context.enter()?;
        let mut state = self.state();
        let capture = state.order.before(&entered, stream)?;
        state.order.after(&entered, stream, capture)
    }

    fn scale(&self, scaling: &Scaling, stream: u64) -> Result<(), Error> {
        const THREADS: u32 = 512;
        let Scaling { from, to, elements, data_type, scalar } = *scaling;
        let (scalar, scalar_address) = match scalar {
            Scalar::Immediate(bits) => (bits, 0),
            Scalar::At(address) => (0, address),
        };
        let blocks = elements.div_ceil(u64::from(THREADS)).clamp(1, 256) as u32;
        let record = Scale { from, to, elements, scalar, scalar_address };
        let entered = self.context.enter()?;
        let mut state = self.state();
        let capture = state.order.before(&entered, stream)?;
        let function = self.kernels.scaler(data_type)?;
        let stream_of_call = order::entered_stream(&entered, stream);
        launch::launch(function, stream_of_call, Grid::row(blocks, THREADS), &record)?;
        state.order.after(&entered, stream, capture)
    }

    fn scratch(&self, bytes: u64) -> Result<u64, Error> {
        self.state().kept.of(bytes)
    }

    fn join_streams(&self, streams: &[u64]) -> Result<(), Error> {
        self.state().order.join(streams)
    }

    fn release_streams(&self, streams: &[u64]) -> Result<(), Error> {
        self.state().order.release(streams)
    }

    fn waits(&self) -> Vec<Waiting> {
        let bindings = self.bindings();
        let waiting = self.watchtower.waiting();
        let told = waiting.into_iter().filter_map(|(block, entry)| {
            let call = entry.call & ((1 << CALL_BITS) - 1);
            match entry.call >> CALL_BITS {
                TRANSFERS => Some(transfers::waiting(call, &entry)),
                number => {
                    let bound = bindings.by_number(number as u32)?;
                    Some(bound.waiting(block, call, &entry))
                }
            }
        });
        let told: Vec<_> = told.collect();
        match (&self.far, told.first()) {
            (Some(far), Some(first)) => [far.waits(first.call), told].concat(),
            (None, _) | (_, None) => told,
        }
    }

    fn has_finished(&self, call: u64) -> bool {
        // What has not begun on the GPU, or runs without waiting, is not held up by a rank.
        call <= self.launched.load(Ordering::Acquire) && !self.watchtower.is_anyone_waiting()
    }

    fn failure(&self) -> Option<Error> {
        let failures = self.far.as_ref().map(Far::failures).unwrap_or_default();
        if failures.is_empty() {
            return None;
        }
        // Others may go on without that peer.
        let waits = self.waits();
        let in_vain = |peer| waits.iter().any(|waiting| waiting.peer == Some(peer));
        let failure = failures.into_iter().find(|failure| in_vain(failure.peer))?;
        Some(Error::new(ErrorKind::Remote, failure.to_string()))
    }

    fn direct_calls(&self) -> u64 {
        self.lending.as_ref().map_or(0, Lending::calls)
    }

    fn special_calls(&self) -> u64 {
        self.state().special_calls
    }

    fn abort(&self) {
        self.watchtower.abort();
        self.abort.raise("the communicator was aborted");
    }

    fn quiesce(&self) -> Result<(), Error> {
        while !self.state().order.is_idle()? {
            std::thread::sleep(IDLE_POLL);
        }
        Ok(())
    }
}

impl Drop for Rank {
    fn drop(&mut self) {
        // Kernels of this rank may still use what is about to be freed. A failed device has none.
        let _ = self.quiesce();
    }
}
