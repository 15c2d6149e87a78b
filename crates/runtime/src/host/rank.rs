//! One rank on host threads: what it holds from call to call, and the calls.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use msccl_collective::Rank;
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
use super::memory::{Span, too_large};
use super::put::RunningPut;
use super::put_service::PutService;
use super::scaling::scale;
use super::scratch::HostScratch;
use super::signals::RunningWait;
use super::transfers::RunningExchange;
use super::wires::HostWires;
use crate::engine::{
    AwaitedSignals, DecidedCall, Engine, EngineMemory, InterNodePut, Scaling, ShownMemory, Signal,
    Waiting, WindowGuard,
};
use crate::error::Error;
use crate::nodes::Nodes;
use crate::recording::{RecordedEngine, RecordedKernel, SwitchedRecording};
use crate::settings::Settings;
use crate::walk::{Average, CallContext, Slicing, Staging, arithmetic};

/// One rank on host threads. Fields drop in order: the thread that serves puts ends before what it
/// serves.
pub(crate) struct HostRank {
    /// Once something one-sided may come from another node.
    put_service: Mutex<Option<PutService>>,
    /// What carries messages to and from other nodes, if there are any.
    inter_node: Option<Arc<InterNode>>,
    /// Its number, for messages.
    me: Rank,
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
    /// [`Engine::release`] does.
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
                    let (shape, config) = (capacity.simple, proxy.clone());
                    Some(Arc::new(InterNode::start(group, nodes, shape, config)?))
                }
            };
            let (wires, rings) =
                HostWires::join(group, nodes, capacity.simple, inter_node.clone())?;
            let interrupt = Interrupt::new(abort.clone(), own.clone(), rings, inter_node.clone());
            Ok((wires, interrupt, inter_node))
        };
        let (wires, interrupt, inter_node) =
            join().map_err(|error: Error| error.while_doing(format_args!("{me} on the host")))?;
        let mut recording = SwitchedRecording::new(group, settings, RecordedEngine::Host);
        if let Some(proxy) = wires.proxy_records() {
            proxy.switch(&mut recording);
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
            put_service: Mutex::default(),
            inter_node,
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

    /// What carries one-sided transfers to and from other nodes, with its thread.
    fn one_sided_links(&self) -> Result<&InterNode, Error> {
        let inter_node = self.inter_node.as_ref();
        let inter_node = inter_node
            .ok_or_else(|| Error::internal(format!("{}: all ranks are here", self.me)))?;
        let mut service = self.put_service.lock().unwrap_or_else(PoisonError::into_inner);
        if service.is_none() {
            *service = Some(PutService::start(Arc::clone(inter_node))?);
        }
        Ok(inter_node)
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

    fn show(&self, number: u64, shown: ShownMemory) -> Result<Option<Box<dyn WindowGuard>>, Error> {
        if self.inter_node.is_none() {
            return Ok(None);
        }
        let ShownMemory { address, bytes, export: _ } = shown;
        let memory = Span::of_caller(address, bytes, "the window")?;
        Ok(Some(Box::new(self.one_sided_links()?.puts().show(number, memory))))
    }

    fn refuses_other_nodes(&self) -> Option<&'static str> {
        None
    }

    fn signals_of(&self, peer: Rank) -> Result<&AtomicU64, Error> {
        let came = self.one_sided_links()?.puts().came(peer);
        came.ok_or_else(|| Error::internal(format!("there is no {peer}")))
    }

    fn put_between_nodes(&self, put: &InterNodePut<'_>) -> Result<(), Error> {
        let _work = self.begin()?;
        let inter_node = self.one_sided_links()?;
        let mut running = RunningPut::new(self.finished.load(Ordering::Acquire), put, inter_node)?;
        see_through(&mut running, &self.interrupt, &self.published).map_err(|error| {
            error.while_doing(format_args!("a one-sided transfer to {} on {}", put.peer, self.me))
        })
    }

    fn signal(&self, signal: &Signal<'_>, count: u64, _stream: u64) -> Result<(), Error> {
        let _work = self.begin()?;
        signal.word.store(count, Ordering::Release);
        Ok(())
    }

    fn await_signals(&self, awaited: &[AwaitedSignals<'_>], _stream: u64) -> Result<(), Error> {
        let _work = self.begin()?;
        let links = self.inter_node.as_ref().map(|inter_node| &**inter_node.puts());
        let mut wait = RunningWait::new(self.finished.load(Ordering::Acquire), awaited, links);
        see_through(&mut wait, &self.interrupt, &self.published)
            .map_err(|error| error.while_doing(format_args!("waiting for signals on {}", self.me)))
    }

    fn scale(&self, scaling: &Scaling, _stream: u64) -> Result<(), Error> {
        let _work = self.begin()?;
        scale(scaling)
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

    fn failure(&self) -> Option<Error> {
        self.inter_node.as_ref()?.puts().check().err()
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
        if let Some(proxy) = self.wires.proxy_records() {
            proxy.write(&mut self.recording);
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
    if let Some(proxy) = proxy {
        proxy.write(recording);
    }
    recording.follow();
    if let Some(proxy) = proxy {
        proxy.switch(recording);
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
