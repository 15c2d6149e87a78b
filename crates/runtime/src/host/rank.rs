//! One rank on host threads: what it holds from call to call, and the calls.

use std::num::NonZeroU32;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use msccl_collective::DataType;
use msccl_fabric::{self as fabric, Abort, Group};
use msccl_plan::Geometry;
use msccl_plan::exchange::{Transfer, WireShape};
use msccl_select::Capacity;
use msccl_trace::recording::LaunchKind;

use super::backoff::{PublishedWaits, Resumable, see_through};
use super::bound::HostBindings;
use super::collective::{CallNumbers, CollectiveContext, HostBuffers, RunningCollective};
use super::inter_node::InterNode;
use super::interrupt::Interrupt;
use super::memory::Span;
use super::scratch::HostScratch;
use super::signals::RunningWait;
use super::transfers::RunningExchange;
use super::wires::HostWires;
use crate::call::Scalar;
use crate::engine::{
    AwaitedSignals, DecidedCall, Engine, EngineMemory, ScaleBy, Scaling, Signal, Waiting,
};
use crate::error::Error;
use crate::nodes::Nodes;
use crate::recording::{RecordedEngine, RecordedKernel, SwitchedRecording};
use crate::settings::Settings;
use crate::walk::{Average, CallContext, Slicing, Staging, arithmetic, divider, scaler};

/// Bytes that are scaled at a time.
const TILE_BYTES: usize = 16 << 10;

/// One rank on host threads.
pub(crate) struct HostRank {
    /// Its number, for messages.
    me: msccl_collective::Rank,
    /// Where it runs, for people.
    place: String,
    capacity: Capacity,
    interrupt: Interrupt,
    /// Held during a call, which keeps their order.
    work: Mutex<Work>,
    /// Kept for callers of [`Engine::scratch`].
    kept: Mutex<HostScratch>,
    published: PublishedWaits,
    /// The latest call that was executed.
    finished: AtomicU64,
    /// Why a call failed, after which wires hold anything.
    failure: OnceLock<Error>,
}

/// What one call at a time uses.
struct Work {
    wires: HostWires,
    bindings: HostBindings,
    /// Of the plans.
    scratch: HostScratch,
    staging: Staging,
    recording: SwitchedRecording,
    /// Collectives that were begun; the same count stands for the same call on all ranks.
    begun: u64,
}

impl HostRank {
    /// Makes the wires of this rank of `group`, whose ranks live on `nodes`; every rank of the
    /// group must call it. The abort of `settings` ends every wait, now and later, as
    /// [`Engine::abort`] does.
    ///
    /// # Errors
    ///
    /// There is too little memory, a rank died, or `abort` was raised.
    pub fn join(group: &Arc<Group>, nodes: &Nodes, settings: &Settings) -> Result<Self, Error> {
        let Settings { proxy, fabric: fabric::Settings { abort, .. }, .. } = settings;
        let (me, own) = (group.rank(), Abort::new());
        let capacity = Capacity::of_host(group.ranks(), nodes.largest());
        let join = || {
            let inter_node = match nodes.count() {
                0 | 1 => None,
                _ => {
                    Some(Arc::new(InterNode::start(group.clone(), capacity.simple, proxy.clone())?))
                }
            };
            let (wires, rings) =
                HostWires::join(group, nodes, capacity.simple, inter_node.clone())?;
            Ok((wires, Interrupt::new(abort.clone(), own.clone(), rings, inter_node)))
        };
        let (wires, interrupt) =
            join().map_err(|error: Error| error.while_doing(format_args!("{me} on the host")))?;
        let mut recording = SwitchedRecording::new(group, settings, RecordedEngine::Host);
        if let Some(proxy) = wires.proxy_records() {
            proxy.switch(recording.begun().is_some_and(|of| of.is_written()));
        }
        let work = Work {
            wires,
            bindings: HostBindings::default(),
            scratch: HostScratch::default(),
            staging: Staging::default(),
            recording,
            begun: 0,
        };
        let place = place(capacity.simple, nodes);
        Ok(Self {
            me,
            place,
            capacity,
            interrupt,
            work: Mutex::new(work),
            kept: Mutex::default(),
            published: PublishedWaits::default(),
            finished: AtomicU64::new(0),
            failure: OnceLock::new(),
        })
    }

    /// Lets a call begin, if calls still make sense; no other does meanwhile.
    fn begin(&self) -> Result<MutexGuard<'_, Work>, Error> {
        let panicked = |_| Error::internal(format!("{}: an earlier call panicked", self.me));
        let work = self.work.lock().map_err(panicked)?;
        if let Some(failure) = self.failure.get() {
            return Err(failure.clone());
        }
        self.interrupt.check().map_err(|error| error.while_doing(self.me))?;
        Ok(work)
    }

    /// The buffers of `decided`, of which `scratch` gives one.
    fn buffers(
        &self,
        decided: &DecidedCall<'_>,
        slicing: &Slicing,
        scratch: &mut HostScratch,
    ) -> Result<HostBuffers, Error> {
        let name = decided.decision.prepared.name.as_str();
        let Geometry { block_chunks: _, input_chunks, output_chunks, scratch_chunks } =
            decided.decision.prepared.plan.program().geometry;
        let span = |address, bytes: Option<usize>, what| {
            let bytes = bytes.ok_or_else(|| too_large(name))? as u64;
            Span::of_caller(address, bytes, &format!("the {what} of {name} on {}", self.me))
        };
        let scratch_bytes = slicing.scratch_bytes(scratch_chunks);
        let scratch = scratch.at_least(scratch_bytes.unwrap_or(usize::MAX) as u64)?;
        Ok(HostBuffers {
            input: span(decided.buffers.send, slicing.user_bytes(input_chunks), "input")?,
            output: span(decided.buffers.receive, slicing.user_bytes(output_chunks), "output")?,
            scratch: span(scratch, scratch_bytes, "scratch")?,
        })
    }

    /// Sees call number `call` through; if it fails, so does this rank, and peers that need it
    /// learn of it.
    fn see_through(&self, call: u64, work: &mut impl Resumable, name: &str) -> Result<(), Error> {
        match see_through(work, &self.interrupt, &self.published) {
            Ok(()) => {
                work.collective().inspect(|number| self.interrupt.complete(*number));
                self.finished.fetch_max(call, Ordering::AcqRel);
                Ok(())
            }
            Err(error) => {
                let error = error.while_doing(format_args!("{name} (call {call}) on {}", self.me));
                // Only one call runs at a time and a failed rank starts none, so this is the first.
                let _ = self.failure.set(error.clone());
                self.interrupt.stop();
                Err(error)
            }
        }
    }
}

impl Engine for HostRank {
    fn capacity(&self) -> &Capacity {
        &self.capacity
    }

    fn describe(&self) -> String {
        self.place.clone()
    }

    fn memory(&self) -> EngineMemory {
        let work = self.work.lock().unwrap_or_else(PoisonError::into_inner);
        let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let scratch_bytes = work.scratch.bytes() + kept.bytes();
        let suspendable_bytes = self.interrupt.ring_bytes() + scratch_bytes;
        EngineMemory { suspendable_bytes, persistent_bytes: 0 }
    }

    fn suspend(&self, _group: &Group, nodes: &Nodes) -> Result<(), Error> {
        let mut work = self.begin()?;
        work.wires.suspend(nodes.around(self.me));
        (work.scratch, work.staging) = Default::default();
        *self.kept.lock().unwrap_or_else(PoisonError::into_inner) = HostScratch::default();
        self.interrupt.suspend();
        Ok(())
    }

    fn resume(&self, group: &Group, nodes: &Nodes) -> Result<(), Error> {
        let mut work = self.begin()?;
        let rings = work.wires.resume(group, nodes, self.capacity.simple)?;
        self.interrupt.resume(rings);
        Ok(())
    }

    fn collective(&self, decided: &DecidedCall<'_>) -> Result<(), Error> {
        let mut work = self.begin()?;
        let Work { wires, bindings, scratch, staging, recording, begun } = &mut *work;
        *begun += 1;
        let place = CallNumbers { call: decided.number, number: *begun };
        let name = decided.decision.prepared.name.as_str();
        let program = decided.decision.prepared.plan.program();
        let bound = bindings.bind(&decided.decision.prepared);
        let slicing = Slicing::new(program, &decided.decision.cut);
        let slicing = slicing.ok_or_else(|| too_large(name))?;
        bound.check(decided, &slicing, self.capacity.simple)?;
        wires.ensure_wires_to(bound.peers())?;
        let terms = CallContext {
            slicing,
            arithmetic: arithmetic(decided.data_type, decided.reduction),
            average: Average::new(program, decided.data_type, decided.reduction),
        };
        let buffers = self.buffers(decided, &slicing, scratch)?;
        follow(recording, wires);
        let mut recording = recording.begun();
        if let Some(recording) = &mut recording {
            recording.call(decided, RecordedKernel::HOST_THREADS, LaunchKind::Stream);
        }
        let context = CollectiveContext { bound: &bound, buffers, wires, staging, recording };
        let mut running =
            RunningCollective::new(place, terms, decided.decision.cut.instances, context);
        let outcome = self.see_through(decided.number, &mut running, name);
        running.end();
        work.write_proxy();
        outcome
    }

    fn transfers(&self, transfers: &[Transfer], _stream: u64, call: u64) -> Result<(), Error> {
        let mut work = self.begin()?;
        let Work { wires, recording, .. } = &mut *work;
        follow(recording, wires);
        let mut exchange = RunningExchange::new(call, transfers, wires)?;
        if let Some(recording) = recording.begun() {
            exchange.record(recording, transfers, self.capacity.simple);
        }
        let outcome = self.see_through(call, &mut exchange, "transfers");
        exchange.end();
        work.write_proxy();
        outcome
    }

    fn copy(&self, from: u64, to: u64, bytes: u64, _stream: u64) -> Result<(), Error> {
        let _work = self.begin()?;
        let from = Span::of_caller(from, bytes, "what is copied")?;
        from.copy_to(&Span::of_caller(to, bytes, "where it is copied to")?);
        Ok(())
    }

    fn pass(&self, _stream: u64) -> Result<(), Error> {
        // Every call has ended when it returns.
        Ok(())
    }

    fn has_one_sided_transfers(&self) -> bool {
        true
    }

    fn signal(&self, signal: &Signal<'_>, count: u64, _stream: u64) -> Result<(), Error> {
        let _work = self.begin()?;
        signal.word.store(count, Ordering::Release);
        Ok(())
    }

    fn await_signals(&self, awaited: &[AwaitedSignals<'_>], _stream: u64) -> Result<(), Error> {
        let _work = self.begin()?;
        let mut wait = RunningWait::new(self.finished.load(Ordering::Acquire), awaited);
        see_through(&mut wait, &self.interrupt, &self.published)
            .map_err(|error| error.while_doing(format_args!("waiting for signals on {}", self.me)))
    }

    fn scale(&self, scaling: &Scaling, _stream: u64) -> Result<(), Error> {
        let _work = self.begin()?;
        let Scaling { from, to, elements, data_type, by } = *scaling;
        let size = data_type.size_bytes() as u64;
        let bytes = elements.checked_mul(size).ok_or_else(|| too_large("scaling"))?;
        let from = Span::of_caller(from, bytes, "what is scaled")?;
        let to = Span::of_caller(to, bytes, "where it is scaled to")?;
        let change = change_by(by, data_type)?;
        let mut tile = vec![0; TILE_BYTES.min(from.bytes())];
        for start in (0..from.bytes()).step_by(TILE_BYTES) {
            let tile = &mut tile[..TILE_BYTES.min(from.bytes() - start)];
            from.read(start, tile);
            match change {
                Change::Scale(scale, scalar) => scale(tile, &scalar),
                Change::Divide(divide, divisor) => divide(tile, divisor),
            }
            to.write(start, tile);
        }
        Ok(())
    }

    fn scratch(&self, bytes: u64) -> Result<u64, Error> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner).at_least(bytes)
    }

    /// There is nothing to wait for: whatever was called before has returned.
    fn join_streams(&self, _streams: &[u64]) -> Result<(), Error> {
        Ok(())
    }

    /// There is nothing to hold up: whatever is called later finds the group done.
    fn release_streams(&self, _streams: &[u64]) -> Result<(), Error> {
        Ok(())
    }

    fn waits(&self) -> Vec<Waiting> {
        self.interrupt.explained(self.published.waits())
    }

    fn moves(&self) -> u64 {
        self.published.moves()
    }

    fn has_finished(&self, call: u64) -> bool {
        self.finished.load(Ordering::Acquire) >= call
    }

    fn direct_calls(&self) -> u64 {
        0
    }

    fn fail(&self) {
        self.interrupt.raise("the communicator has failed");
    }

    fn release(&self) {
        self.interrupt.raise("the communicator was aborted");
    }

    fn part(&self) {
        self.interrupt.part("the communicator was aborted");
    }

    // A failure ends calls anyway.
    fn release_on_failure(&self) {}

    fn quiesce(&self) -> Result<(), Error> {
        // Whoever works holds it.
        drop(self.work.lock().unwrap_or_else(PoisonError::into_inner));
        Ok(())
    }
}

impl Work {
    /// Writes what the proxy to other nodes has done, if calls are recorded.
    fn write_proxy(&mut self) {
        if let (Some(proxy), Some(recording)) = (self.wires.proxy_records(), self.recording.begun())
        {
            proxy.write(recording);
        }
    }
}

impl Drop for Work {
    fn drop(&mut self) {
        self.write_proxy();
    }
}

/// Lets the recording begin or end as the switch says, and the proxy with it.
fn follow(recording: &mut SwitchedRecording, wires: &HostWires) {
    if !recording.is_outdated() {
        return;
    }
    let proxy = wires.proxy_records();
    if let (Some(proxy), Some(ending)) = (proxy, recording.begun()) {
        proxy.write(ending);
    }
    recording.follow();
    if let Some(proxy) = proxy {
        proxy.switch(recording.begun().is_some_and(|of| of.is_written()));
    }
}

/// Where a rank runs, and how its wires are realised.
fn place(shape: WireShape, nodes: &Nodes) -> String {
    let WireShape { wires, depth, slot_bytes } = shape;
    let wires =
        format!("{wires} wires of {depth} × {slot_bytes} bytes from each rank to each other");
    match nodes.count() {
        0 | 1 => format!("host threads ({wires}, in shared memory)"),
        nodes => format!(
            "host threads of {nodes} nodes ({wires}, in shared memory within a node, by a proxy \
             between nodes)"
        ),
    }
}

fn too_large(name: &str) -> Error {
    Error::invalid_argument(format!("{name}: the buffers exceed the address space"))
}

/// How a tile of elements is changed.
#[derive(Clone, Copy)]
enum Change {
    Scale(fn(&mut [u8], &[u8]), [u8; 8]),
    Divide(fn(&mut [u8], NonZeroU32), NonZeroU32),
}

fn change_by(by: ScaleBy, data_type: DataType) -> Result<Change, Error> {
    Ok(match by {
        ScaleBy::Scalar(scalar) => {
            Change::Scale(scaler(data_type), scalar_bytes(scalar, data_type.size_bytes())?)
        }
        ScaleBy::Divisor(divisor) => Change::Divide(divider(data_type), divisor),
    })
}

/// The bytes of a scalar of `size` bytes, at the start.
fn scalar_bytes(scalar: Scalar, size: usize) -> Result<[u8; 8], Error> {
    match scalar {
        // Machines with GPUs are little-endian, and so are all that this runs on.
        Scalar::Immediate(bits) => Ok(bits.to_le_bytes()),
        Scalar::At(address) => {
            let mut bytes = [0; 8];
            let span = Span::of_caller(address, size as u64, "the scalar")?;
            span.read(0, &mut bytes[..size]);
            Ok(bytes)
        }
    }
}
