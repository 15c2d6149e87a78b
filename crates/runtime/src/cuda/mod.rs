//! The engine on a GPU: a collective is one launch of an interpreter kernel in the caller's stream.
//!
//! In reading order: `kernels` (what is loaded), `capacity` (how much is set aside), `arena` and
//! `links` (the wires), `far` (those to other nodes), `wires` (all of them), `lending` (the caller's buffers for direct delivery),
//! `bind` (plans in the memory of the GPU), `special` (kernels for one plan), `order` (calls in several streams),
//! `recent` (what kernels are told, and what the last call had in common with the next), `launch`, `watchtower` (abort and progress),
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

use msccl_collective::{Protocol, Rank as MemberRank};
use msccl_fabric::{Abort, Group};
use msccl_gpu::{Context, DeviceBuffer, EnteredStream};
use msccl_plan::exchange::Transfer;
use msccl_plan::launch::{Exchange, Scale, THREADS_MAX_EXCHANGE};
use msccl_proxy::{self as proxy, Proxy};
use msccl_topology::address::BusId;

use crate::call::Scalar;
use crate::engine::{Capacity, Engine, Job, Scaling, Waiting};
use crate::error::{Error, ErrorKind};
use crate::nodes::Nodes;
use crate::select::{self, Selector};
use crate::settings::{Event, Settings};
use crate::special::SpecialMode;
use bind::Bindings;
use capacity::Common;
use far::{Carrier, Far};
use kernels::Kernels;
use launch::Grid;
use lending::Lending;
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
    /// Whether thread blocks share multiprocessors in large calls.
    packs: bool,
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
        let near = nodes.around(group.rank()).len() as u32;
        let (common, gpus) = Common::find(group, context, &kernels, near)?;
        let abort = Abort::new();
        let wires = wires(group, nodes, context, settings, (&common, &gpus), &abort)?;
        let Wires { place, capacity, links, far } = wires;
        let lends = settings.wish.links.is_none_or(select::Links::lend);
        let lends = lends && place == Place::Device && nodes.count() == 1;
        let lending = Lending::join(group, context, lends)?;
        let capacity = Capacity { lends: lending.is_some(), ..capacity };
        let signals = DeviceBuffer::zeroed(context, 8 * capacity.blocks.max(1) as usize);
        Ok(Self {
            tenancy: Tenancy::begin(group.id()),
            context: context.clone(),
            starts_early: settings.early_start && kernels.can_start_early(),
            packs: settings.pack,
            kernels,
            capacity,
            place,
            sharing: common.sharing,
            ranks: group.ranks(),
            links,
            far,
            abort,
            lending,
            watchtower: Watchtower::new(context, capacity.blocks)?,
            bindings: Mutex::new(Bindings::new(common.sharing > 1)),
            state: Mutex::new(State::new(context)?),
            launched: AtomicU64::new(0),
            // After all else that may fail: here ranks meet.
            signals: links::agree(group, signals.map_err(Error::from))?,
        })
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
        work: impl FnOnce(EnteredStream<'_>) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let entered = self.context.enter()?;
        let mut state = self.state();
        let capture = state.order.before(&entered, stream)?;
        work(order::entered_stream(&entered, stream))?;
        self.expect_graphs(capture.is_some());
        state.order.after(&entered, stream, capture)
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
    fn new(context: &Context) -> Result<Self, Error> {
        Ok(Self {
            order: Order::new(context)?,
            recent: None,
            scratch: Scratch::new(context),
            kept: Scratch::new(context),
            special_calls: 0,
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
        let surroundings = proxy::Surroundings { gpu, ..settings.proxy.surroundings.clone() };
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
        let data_type = if computes { job.data_type } else { recent::carrier(job) };
        let entered = self.context.enter()?;
        let mut state = self.state();
        let State { order, recent, scratch, kept: _, special_calls } = &mut *state;
        let recent = match recent {
            Some(recent) if recent.serves(job) => recent,
            other => other.insert(self.shape_of(job)?),
        };
        let scratch = scratch.of(recent.scratch_bytes())?;
        let capture = order.before(&entered, job.stream)?;
        let (bound, record) = recent.told(job, scratch);
        if let Some(lending) = self.lending.as_ref().filter(|_| record.offers != 0) {
            record.views = Self::views(lending, job, bound, capture.is_some());
        }
        let pack = match self.packs {
            true => job.prepared.pack(job.protocol, job.threads, &job.cut),
            false => 1,
        };
        let special = match !job.links.lend() && pack == 1 {
            true => bound.special(job.protocol, data_type),
            false => None,
        };
        *special_calls += u64::from(special.is_some());
        let function = match (special, pack) {
            (Some(special), _) => &special.function,
            (None, 1) => self.kernels.interpreter(job.protocol, job.links, data_type)?,
            (None, _) => self.kernels.packed(data_type)?,
        };
        let grid = Grid {
            width: bound.blocks(),
            height: job.cut.instances.div_ceil(pack),
            threads: job.threads,
            pack,
            starts_early: self.starts_early,
        };
        launch::launch(function, order::entered_stream(&entered, job.stream), grid, record)?;
        self.far.as_ref().inspect(|far| far.stir());
        self.expect_graphs(capture.is_some());
        self.launched.store(job.call, Ordering::Release);
        order.after(&entered, job.stream, capture)
    }

    fn transfers(&self, transfers: &[Transfer], stream: u64, call: u64) -> Result<(), Error> {
        let view = &self.links.view;
        transfers.iter().try_for_each(|transfer| self.reach(transfer.peer))?;
        self.in_order(stream, |stream| {
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
                let grid = Grid::row(record.lane_count, THREADS_MAX_EXCHANGE);
                launch::launch(self.kernels.exchange(), stream, grid, &record)?;
            }
            self.far.as_ref().inspect(|far| far.stir());
            self.launched.store(call, Ordering::Release);
            Ok(())
        })
    }

    fn copy(&self, from: u64, to: u64, bytes: u64, stream: u64) -> Result<(), Error> {
        self.in_order(stream, |_| order::copy(&self.context, from, to, bytes, stream))
    }

    fn pass(&self, stream: u64) -> Result<(), Error> {
        self.in_order(stream, |_| Ok(()))
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
        self.in_order(stream, |stream| {
            let function = self.kernels.scaler(data_type)?;
            launch::launch(function, stream, Grid::row(blocks, THREADS), &record)
        })
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
