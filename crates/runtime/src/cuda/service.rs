//! How a rank on a GPU serves what an [engine](Engine) is asked: calls become launches, and what
//! thread blocks report of themselves becomes waits.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use msccl_collective::{DataType, Protocol, Rank};
use msccl_fabric::Group;
use msccl_kernels::recording::RecordingKernel;
use msccl_plan::Alignment;
use msccl_plan::exchange::Transfer;
use msccl_plan::launch::{LAUNCH_LEAVES_ROOM, Launch, Scale};
use msccl_select::{
    ArenaLocation, CARRIED, Capacity, Decision, KernelClass, Links, Selector, SpecialiseMode,
};
use msccl_trace::recording::LaunchKind;

use super::bind::CudaBoundPlan;
use super::copy_engines::{self, CopyEngines};
use super::inter_node::InterNodeWires;
use super::kernels::{self, Launchable};
use super::launch::{self, Grid};
use super::registration::Registration;
use super::specialised::SpecialisedLoader;
use super::{CALL_BITS, CudaRank, IDLE_POLL, LaunchState, TRANSFERS};
use super::{stream_order, transfers};
use crate::call::Scalar;
use crate::engine::{
    AwaitedSignals, CarriedCall, CarriedReduction, DecidedCall, Engine, EngineMemory, PARTING,
    ScaleBy, Scaling, ShownMemory, Signal, Waiting, WindowGuard,
};
use crate::error::{Error, ErrorKind};
use crate::event::Event;
use crate::nodes::Nodes;
use crate::recording::RecordedKernel;
use crate::settings::Settings;

/// What runs a collective.
struct KernelChoice<'a> {
    kernel: &'a Launchable,
    kind: KernelKind,
    /// What could record the call: of a specialised kernel, the interpreters'.
    module: msccl_kernels::Module,
    /// Of the elements as the kernel sees them.
    data_type: DataType,
    /// In a block.
    threads: u32,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum KernelKind {
    Interpreter,
    LowLatency,
    Specialised,
}

impl KernelKind {
    /// What takes its calls where they are recorded.
    fn without_specialised(self) -> Self {
        match self {
            Self::Specialised => Self::Interpreter,
            Self::Interpreter | Self::LowLatency => self,
        }
    }
}

impl CudaRank {
    /// What carries calls by copy engines.
    fn carriers(&self) -> Result<(&CopyEngines, &Registration), Error> {
        let carriers = self.copy_engines.as_ref().zip(self.registration.as_ref());
        carriers.ok_or_else(|| Error::internal("this rank has no copy engines"))
    }

    /// The kernel for `call` of the class that was decided, of which `bound` is the plan, as
    /// `record` says. Specialised kernels of protocol Simple are slow with operands that are not
    /// aligned.
    fn kernel<'a>(
        &'a self,
        call: &DecidedCall<'_>,
        bound: &'a CudaBoundPlan,
        record: &Launch,
    ) -> Result<KernelChoice<'a>, Error> {
        let Decision { prepared, protocol, links, threads, kernel, .. } = call.decision;
        let data_type = if prepared.computes { call.data_type } else { CARRIED };
        let is_unaligned = record.alignment(bound.operands) != Alignment::Full16;
        let threads = if is_unaligned { threads.unaligned } else { threads.aligned };
        let choice =
            |kernel, kind, module| KernelChoice { kernel, kind, module, data_type, threads };
        let of_module =
            |kind, module| Ok(choice(self.kernels.collective(module, data_type)?, kind, module));
        match kernel {
            KernelClass::WarpSpecialised => {
                of_module(KernelKind::Interpreter, kernels::warp_specialised(is_unaligned))
            }
            KernelClass::CopyEngine | KernelClass::Combiner => {
                Err(Error::internal("copy engines run no kernel of a plan"))
            }
            KernelClass::LowLatency => {
                let kind =
                    bound.low_latency.and_then(|plan| record.low_latency(plan, *protocol, threads));
                let kind = kind.ok_or_else(|| {
                    Error::internal(format!("{} has no low-latency kernel", prepared.name))
                })?;
                of_module(KernelKind::LowLatency, kernels::low_latency(*protocol, kind)?)
            }
            KernelClass::Interpreter => {
                let module = kernels::interpreter(call.decision, is_unaligned);
                let is_common =
                    links.export_buffers() || (is_unaligned && *protocol == Protocol::Simple);
                let specialised = bound.specialised(*protocol, data_type).filter(|_| !is_common);
                match specialised {
                    Some(specialised) => {
                        Ok(choice(&specialised.kernel, KernelKind::Specialised, module))
                    }
                    None => of_module(KernelKind::Interpreter, module),
                }
            }
        }
    }

    /// Where kernels are released, all else that waits in streams is, too.
    fn release_others(&self) {
        if self.control_block.is_released() {
            let engines = self.copy_engines.as_ref();
            engines.inspect(|engines| engines.release(self.registration.as_ref()));
            self.one_sided.end_waits();
        }
    }

    /// Notes `call` for the recording, if there is one, and gives the kernel that records it
    /// instead of the one that was chosen.
    fn record(
        &self,
        call: &DecidedCall<'_>,
        choice: &KernelChoice<'_>,
        launch: LaunchKind,
    ) -> Option<Arc<Launchable>> {
        let records = self.records.as_ref()?;
        let KernelChoice { kernel: _, kind, module, data_type, threads } = *choice;
        let Decision { protocol, links, kernel, .. } = call.decision;
        let described = RecordedKernel {
            kind: match (kind, kernel) {
                (KernelKind::LowLatency, _) => "low-latency",
                (_, KernelClass::WarpSpecialised) => "warp-specialised",
                (KernelKind::Interpreter | KernelKind::Specialised, _) => "interpreter",
            },
            protocol: *protocol,
            delivery: if *links == Links::Direct { "direct" } else { "staged" },
            threads,
        };
        let kernel = RecordingKernel::Call { module, data_type };
        let may_load = self.device_users.is_one_rank();
        records.record(kernel, may_load, |recording| recording.call(call, described, launch))
    }
}

impl Engine for CudaRank {
    fn capacity(&self) -> &Capacity {
        &self.capacity
    }

    fn describe(&self) -> String {
        let device = self.context.device();
        let name = device.name().unwrap_or_else(|_| "a GPU without a name".to_owned());
        let place = match self.place {
            ArenaLocation::Device => "links in GPU memory",
            ArenaLocation::Host => "links in host memory",
        };
        let inter_node = self.inter_node.as_ref().map_or("", |_| ", to other hosts by a proxy");
        let shared = match self.sharing {
            1 => String::new(),
            ranks => format!(", up to {ranks} ranks on a GPU"),
        };
        format!("{name} (device {}), {place}{inter_node}{shared}", device.ordinal())
    }

    fn memory(&self) -> EngineMemory {
        let state = self.state();
        let scratch_bytes = state.scratch.bytes() + state.kept.bytes();
        let freed_bytes = if state.order.has_captured() { 0 } else { scratch_bytes };
        let engines_bytes = self.copy_engines.as_ref().map_or(0, CopyEngines::held_bytes);
        let kept_bytes = scratch_bytes - freed_bytes + engines_bytes;
        let persistent_bytes = kept_bytes + self.signals.length_bytes() as u64;
        let suspendable_bytes = self.links.device_bytes() + freed_bytes;
        EngineMemory { suspendable_bytes, persistent_bytes }
    }

    fn suspend(&self, _group: &Group, _nodes: &Nodes) -> Result<(), Error> {
        let _entered = self.context.enter()?;
        let mut state = self.state();
        // Graphs name scratch by its address.
        if !state.order.has_captured() {
            state.scratch.clear();
            state.kept.clear();
        }
        self.links.suspend()
    }

    fn resume(&self, group: &Group, _nodes: &Nodes) -> Result<(), Error> {
        let _entered = self.context.enter()?;
        self.links.resume(group, &self.context)
    }

    fn specialise(&self, selector: &Selector, settings: &Settings) {
        if settings.specialised.mode == SpecialiseMode::Never {
            return;
        }
        let entries = selector.precompile_set(&selector.likely());
        match SpecialisedLoader::new(&self.context, &self.kernels, settings) {
            Ok(loader) => {
                let may_load = self.device_users.may_wait();
                let specialised = loader.specialised(&entries, self.ranks, may_load);
                self.bindings().specialise(specialised);
            }
            Err(why) => {
                let text = format!("there are no specialised kernels: {why}");
                settings.log.event(&Event::Unspecialised(text));
            }
        }
    }

    fn collective(&self, call: &DecidedCall<'_>) -> Result<(), Error> {
        let entered = self.context.enter()?;
        let mut state = self.state();
        let LaunchState {
            order,
            cache,
            scratch,
            kept: _,
            specialised_calls,
            pdl,
            ends_with_kernel,
        } = &mut *state;
        let cached = cache.find_or_make(|of| of.serves(call), || self.shape_of(call))?;
        let scratch = scratch.of(cached.scratch_bytes())?;
        let site = order.before(&entered, call.buffers.stream)?;
        let (bound, record) = cached.filled(call, scratch);
        if let Some(registration) = self.registration.as_ref().filter(|_| record.offers != 0) {
            record.views = Self::views(registration, call, bound, site.capture.is_some());
        }
        let choice = self.kernel(call, bound, record)?;
        let recording = self.record(call, &choice, site.launch_kind());
        let KernelChoice { kernel, kind, threads, module: _, data_type: _ } = choice;
        let kind = if recording.is_some() { kind.without_specialised() } else { kind };
        let Launchable { function, shared_bytes, .. } = recording.as_deref().unwrap_or(kernel);
        *specialised_calls += u64::from(kind == KernelKind::Specialised);
        let (width, height) = (bound.blocks(), call.decision.cut.instances);
        let admits = kind == KernelKind::LowLatency && record.flags & LAUNCH_LEAVES_ROOM != 0;
        let has_room = pdl.admit(width * height, self.room, admits);
        // A graph's wait is no kernel behind whose end it could wait.
        let follows_kernel = std::mem::replace(ends_with_kernel, true) && !site.begins_graph;
        let uses_pdl = self.uses_pdl && has_room && follows_kernel;
        let shared_bytes = *shared_bytes;
        let grid = Grid { width, height, threads, shared_bytes, uses_pdl };
        self.launch(function, site, grid, record)?;
        self.inter_node.as_ref().inspect(|inter_node| inter_node.stir());
        self.expect_graphs(site.capture.is_some());
        self.launched.store(call.number, Ordering::Release);
        order.after(site)
    }

    fn carry(&self, call: &CarriedCall<'_>) -> Result<(), Error> {
        let (engines, registration) = self.carriers()?;
        self.carry_in_order(&call.decided, |site| {
            engines.take_up(site, &self.one_sided, registration, call)
        })
    }

    fn has_inboxes(&self) -> Result<bool, Error> {
        let (engines, registration) = self.carriers()?;
        engines.has_inboxes(registration)
    }

    fn carry_reduction(&self, call: &CarriedReduction<'_>) -> Result<(), Error> {
        let (engines, registration) = self.carriers()?;
        let combiner = self.kernels.combiner(call.decided.data_type)?;
        self.carry_in_order(&call.decided, |site| {
            engines.reduce(site, &self.one_sided, registration, combiner, call)
        })
    }

    fn set_signals(&self, address: u64, blocks: u64, value: u32, stream: u64) -> Result<(), Error> {
        self.in_order(stream, |site| copy_engines::set_signals(site, address, blocks, value))
    }

    fn transfers(&self, transfers: &[Transfer], stream: u64, call: u64) -> Result<(), Error> {
        self.exchange(transfers, stream, call)
    }

    fn copy(&self, from: u64, to: u64, bytes: u64, stream: u64) -> Result<(), Error> {
        self.in_order(stream, |_| stream_order::copy(&self.context, from, to, bytes, stream))
    }

    fn pass(&self, stream: u64) -> Result<(), Error> {
        self.in_order(stream, |_| Ok(()))
    }

    fn has_one_sided_transfers(&self) -> bool {
        self.registration.is_some()
    }

    fn admit_one_sided(&self, stream: u64) -> Result<(), Error> {
        let entered = self.context.enter()?;
        match stream_order::is_captured(&entered, stream)? {
            false => Ok(()),
            true => Err(Error::invalid_usage("one-sided transfers cannot be recorded in graphs")),
        }
    }

    fn show(&self, number: u64, shown: ShownMemory) -> Result<Option<Box<dyn WindowGuard>>, Error> {
        let shown = (shown.bytes > 0).then_some(shown);
        let Some(registration) = &self.registration else { return Ok(None) };
        let guard = registration.show(number, shown)?;
        Ok(guard.map(|guard| Box::new(guard) as Box<dyn WindowGuard>))
    }

    fn find_shown(&self, peer: Rank, number: u64) -> Result<ShownMemory, Error> {
        let text = "ranks on GPUs that do not map one another's memory have no one-sided transfers";
        let registration = self.registration.as_ref();
        registration.ok_or_else(|| Error::invalid_usage(text))?.find_shown(peer, number)
    }

    fn all_have_mapped(&self, shown: &[ShownMemory]) -> Result<bool, Error> {
        self.registration.as_ref().map_or(Ok(false), |of| of.all_have_mapped(shown))
    }

    fn refuses_other_nodes(&self) -> Option<&'static str> {
        Some(
            "between GPUs of different nodes there are no one-sided transfers; they reach GPUs of \
             the same node, and ranks on the host reach all nodes",
        )
    }

    fn signal(&self, signal: &Signal<'_>, count: u64, stream: u64) -> Result<(), Error> {
        self.in_order(stream, |site| self.one_sided.write(&self.context, site, signal, count))
    }

    fn await_signals(&self, awaited: &[AwaitedSignals<'_>], stream: u64) -> Result<(), Error> {
        self.in_order(stream, |site| {
            awaited.iter().try_for_each(|AwaitedSignals { signal, count, .. }| {
                self.one_sided.wait(&self.context, site, signal, *count)
            })
        })
    }

    fn scale(&self, scaling: &Scaling, stream: u64) -> Result<(), Error> {
        const THREADS: u32 = 512;
        let Scaling { from, to, elements, data_type, by } = *scaling;
        let (scalar, scalar_address, divisor) = match by {
            ScaleBy::Scalar(Scalar::Immediate(bits)) => (bits, 0, 0),
            ScaleBy::Scalar(Scalar::At(address)) => (0, address, 0),
            ScaleBy::Divisor(of) => (0, 0, u64::from(of.get())),
        };
        let blocks = elements.div_ceil(u64::from(THREADS)).clamp(1, 256) as u32;
        let record = Scale { from, to, elements, scalar, scalar_address, divisor };
        self.in_order(stream, |site| {
            let function = self.kernels.scaler(data_type)?;
            launch::launch(function, site.stream(), Grid::row(blocks, THREADS), &record, None)
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
        let waiting = self.control_block.waiting();
        let waits = waiting.into_iter().filter_map(|(block, entry)| {
            let call = entry.call & ((1 << CALL_BITS) - 1);
            match entry.call >> CALL_BITS {
                TRANSFERS => Some(transfers::waiting(call, &entry)),
                number => {
                    let bound = bindings.by_number(number as u32)?;
                    Some(bound.waiting(block, call, &entry))
                }
            }
        });
        let carried = self.copy_engines.iter().flat_map(CopyEngines::waiting);
        let waits: Vec<_> = waits.chain(carried).collect();
        match (&self.inter_node, waits.first()) {
            (Some(inter_node), Some(first)) => [inter_node.waits(first.call), waits].concat(),
            (None, _) | (_, None) => waits,
        }
    }

    fn is_captured(&self, stream: u64) -> bool {
        let captured = || stream_order::is_captured(&self.context.enter()?, stream);
        captured().unwrap_or(false)
    }

    fn has_finished(&self, call: u64) -> bool {
        // What has not begun on the GPU, or runs without waiting, is not held up by a rank.
        call <= self.launched.load(Ordering::Acquire)
            && !self.control_block.is_anyone_waiting()
            && self.copy_engines.as_ref().is_none_or(|of| of.waiting().is_empty())
    }

    fn failure(&self) -> Option<Error> {
        let failures = self.inter_node.as_ref().map(InterNodeWires::failures).unwrap_or_default();
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
        self.registration.as_ref().map_or(0, Registration::calls)
    }

    fn specialised_calls(&self) -> u64 {
        self.state().specialised_calls
    }

    fn carried_calls(&self) -> u64 {
        self.copy_engines.as_ref().map_or(0, CopyEngines::calls)
    }

    fn hold(&self) {
        self.control_block.hold(self.on_failure);
    }

    fn fail(&self) {
        self.control_block.fail(self.on_failure);
        self.copy_engines.as_ref().inspect(|engines| engines.close_gate());
        self.release_others();
        self.abort.raise("the communicator has failed");
    }

    fn release(&self) {
        self.control_block.release();
        self.release_others();
        self.abort.raise("the communicator was aborted");
    }

    fn part(&self) {
        self.control_block.release();
        self.one_sided.end_waits();
        // The proxy goes on until peers have what it holds.
        self.inter_node.as_ref().inspect(|inter_node| inter_node.leave_within(PARTING));
    }

    fn release_on_failure(&self) {
        self.control_block.release_on_failure();
        self.release_others();
    }

    fn quiesce(&self) -> Result<(), Error> {
        while !self.control_block.has_failed() && !self.state().order.is_idle()? {
            std::thread::sleep(IDLE_POLL);
        }
        Ok(())
    }
}
