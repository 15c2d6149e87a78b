//! The launch cache: the launch records of collectives, kept for the next ones. Calls of one shape
//! differ in few words.
//!
//! A launch record has more than a kilobyte, most of which follows from the shape of the call. It
//! is filled in once for the shapes of the last calls; each call writes its own words into it, and
//! the driver copies it.

use std::sync::Arc;

use msccl_collective::{DataType, Protocol, Reduction};
use msccl_plan::cut::Cut;
use msccl_plan::launch::{self as abi, DIRECT_RANKS_MAX, Launch, View};
use msccl_select::{Decision, Links, Prepared, Threads};

use super::bind::{CudaBoundPlan, PlanPlace, PlanWords};
use super::pdl::PdlBudget;
use super::registration::{ExportedBuffers, Registration};
use super::{CudaRank, tagged};
use crate::engine::DecidedCall;
use crate::error::Error;
use crate::recent::Recent;

/// As many as a step of training has shapes: gradients, their rest, a norm, a loss. Each takes a
/// kilobyte and a half.
const SHAPES: usize = 4;

/// The launch records of the last shapes.
pub(super) type LaunchCache = Recent<CachedLaunch, SHAPES>;

/// A launch record, filled in for calls of one shape.
pub(super) struct CachedLaunch {
    key: LaunchKey,
    bound: Arc<CudaBoundPlan>,
    record: Launch,
    scratch_bytes: u64,
}

/// All of a [`DecidedCall`] on which its record depends, but for the words that every call has for
/// itself.
struct LaunchKey {
    /// Kept, so that no other lies at its address.
    prepared: Arc<Prepared>,
    protocol: Protocol,
    links: Links,
    threads: Threads,
    cut: Cut,
    data_type: DataType,
    reduction: Reduction,
}

impl LaunchKey {
    fn new(call: &DecidedCall<'_>) -> Self {
        let DecidedCall { decision, data_type, reduction, buffers: _, number: _, request: _ } =
            *call;
        let Decision { ref prepared, protocol, links, threads, cut, .. } = *decision;
        Self { prepared: prepared.clone(), protocol, links, threads, cut, data_type, reduction }
    }

    /// Whether `call` is of this shape.
    fn matches(&self, call: &DecidedCall<'_>) -> bool {
        // Every call has its own buffers and number.
        let DecidedCall { decision, data_type, reduction, buffers: _, number: _, request: _ } =
            call;
        let Decision {
            prepared,
            protocol,
            links,
            threads,
            cut,
            // It follows from the others.
            kernel: _,
            // No kernel of a plan does that.
            engine_work: _,
            // Only how long it may wait for peers.
            exact: _,
            // What was done before.
            fallback: _,
            averages: _,
            passed_over: _,
        } = decision;
        Arc::ptr_eq(&self.prepared, prepared)
            && self.protocol == *protocol
            && self.links == *links
            && self.threads == *threads
            && self.cut == *cut
            && self.data_type == *data_type
            && self.reduction == *reduction
    }
}

impl CachedLaunch {
    /// `record` is the record of all calls of the shape of `call`, of which `bound` is the plan.
    ///
    /// # Errors
    ///
    /// The scratch memory of such calls exceeds what can be addressed.
    pub fn new(
        call: &DecidedCall<'_>,
        bound: Arc<CudaBoundPlan>,
        record: Launch,
    ) -> Result<Self, Error> {
        let chunks = call.decision.prepared.plan.program().geometry.scratch_chunks;
        let scratch_bytes = call.decision.cut.scratch_bytes(chunks);
        let scratch_bytes =
            scratch_bytes.ok_or_else(|| Error::invalid_argument("the call exceeds memory"))?;
        Ok(Self { key: LaunchKey::new(call), bound, record, scratch_bytes })
    }

    /// Whether it serves `call`, too.
    pub fn serves(&self, call: &DecidedCall<'_>) -> bool {
        self.key.matches(call)
    }

    /// Scratch memory that such a call needs.
    pub fn scratch_bytes(&self) -> u64 {
        self.scratch_bytes
    }

    /// The plan, and the launch record of `call` with its scratch memory at `scratch`; its views
    /// are still those of the last call.
    pub fn filled(
        &mut self,
        call: &DecidedCall<'_>,
        scratch: u64,
    ) -> (&CudaBoundPlan, &mut Launch) {
        let Self { key: _, bound, record, scratch_bytes: _ } = self;
        record.input = call.buffers.send;
        record.output = call.buffers.receive;
        record.scratch = scratch;
        record.call = tagged(u64::from(bound.number), call.number);
        (bound, record)
    }
}

impl CudaRank {
    /// The binding of `prepared`, made now if there is none yet. Needs no other rank, and waits for
    /// no kernel. Bindings are not locked meanwhile: who watches or aborts this rank asks them, and
    /// the driver may take its time.
    fn bound(&self, prepared: &Arc<Prepared>) -> Result<Arc<CudaBoundPlan>, Error> {
        let found = self.bindings().find(prepared);
        if let Some(bound) = found {
            return Ok(bound);
        }
        let mut peers = prepared.wiring.ends().iter().map(|end| end.peer);
        peers.try_for_each(|peer| self.ensure_wires_to(peer))?;
        let place = if self.sharing > 1 { PlanPlace::Host } else { PlanPlace::Device };
        let words = PlanWords::new(&self.context, prepared.plan.words(), place)?;
        Ok(self.bindings().bind(prepared, words))
    }

    /// The launch record of every call of the shape of `call`.
    pub(super) fn shape_of(&self, call: &DecidedCall<'_>) -> Result<CachedLaunch, Error> {
        let Decision { prepared, protocol, links, cut, .. } = call.decision;
        let bound = self.bound(prepared)?;
        let shape = self.capacity.wires(*protocol);
        let average = call.decision.prepared.plan.program().average;
        let (reduction, divisor) = reduction(call, average.map_or(0, |average| average.of));
        let exports = self.registration.is_some() && links.export_buffers();
        let launch = bound.launch.with_cut(cut);
        let blocks = bound.blocks() * cut.instances;
        let leaves_room = PdlBudget::leaves_room(blocks, self.room);
        let record = Launch {
            links: self.links.view.table(*protocol),
            offers: if exports { self.links.view.offers() } else { 0 },
            signals: self.signals.ptr().0,
            signals_end: self.signals.ptr().offset(self.signals.length_bytes()).0,
            control: self.control_block.control(),
            progress: self.control_block.progress(),
            ranks: self.ranks,
            wires: self.links.view.layout.wires(*protocol).wires,
            link_depth: shape.depth,
            slot_bytes: shape.slot_bytes,
            reduction,
            divisor,
            notice: self.control_block.notice(),
            flags: launch.flags | if leaves_room { abi::LAUNCH_LEAVES_ROOM } else { 0 },
            ..launch
        };
        CachedLaunch::new(call, bound, record)
    }

    /// Where peers may find the caller's buffers, as far as the plan has use for that.
    pub(super) fn views(
        registration: &Registration,
        call: &DecidedCall<'_>,
        bound: &CudaBoundPlan,
        captured: bool,
    ) -> [View; DIRECT_RANKS_MAX as usize] {
        let geometry = &call.decision.prepared.plan.program().geometry;
        let exported = |exports_buffers: bool, address, chunks: u32| {
            let blocks = u64::from(chunks / geometry.block_chunks.max(1));
            let length_bytes = blocks * call.decision.cut.block_bytes;
            exports_buffers.then_some(ExportedBuffers { address, length_bytes })
        };
        let [exports_input, exports_output] = bound.exports_buffers;
        let input = exported(exports_input, call.buffers.send, geometry.input_chunks);
        let output = exported(exports_output, call.buffers.receive, geometry.output_chunks);
        registration.views(input, output, captured || call.decision.exact)
    }
}

/// The reduction's number, and of an average how many contributions every sum has: `of`.
pub(super) fn reduction(call: &DecidedCall<'_>, of: u32) -> (u32, u32) {
    match call.reduction {
        Reduction::Sum => (abi::REDUCTION_SUM, 0),
        Reduction::Prod => (abi::REDUCTION_PROD, 0),
        Reduction::Min => (abi::REDUCTION_MIN, 0),
        Reduction::Max => (abi::REDUCTION_MAX, 0),
        Reduction::Avg if call.data_type.is_float() => (abi::REDUCTION_AVERAGE, of),
        Reduction::Avg => (abi::REDUCTION_SUM, of),
    }
}

#[cfg(test)]
mod tests {
    use msccl_collective::Rank as MemberRank;
    use msccl_collective::{CallPlacement, CollectiveKind};
    use msccl_registry::{Registry, Shape as Ranks};
    use msccl_select::{CallShape, Capacity, Machine, Overrides, Selector};

    use super::*;
    use crate::call::Buffers;
    use crate::engine::CallRequest;

    /// What serves an all-reduce of `count` elements on four ranks.
    fn decision(count: u64) -> Arc<Decision> {
        let registry = Arc::new(Registry::new(Ranks { ranks: 4, per_node: 4 }, &[]));
        let (gpus, overrides) = (Machine::Gpus, Overrides::default());
        let capacity = Capacity::nominal(gpus, registry.shape());
        let selector = Selector::new(registry, MemberRank(0), capacity, gpus, overrides, None);
        let (kind, data_type) = (CollectiveKind::AllReduce, DataType::F32);
        let reduction = Some(Reduction::Sum);
        let request =
            CallShape { kind, placement: CallPlacement::InPlace, data_type, reduction, count };
        selector.choose(&request).unwrap().0
    }

    fn call(decision: &Decision) -> DecidedCall<'_> {
        let buffers = Buffers { send: 64, receive: 128, stream: 1 };
        let (data_type, reduction) = (DataType::F32, Reduction::Sum);
        let (collective, placement) = ("allreduce", CallPlacement::InPlace);
        let request = CallRequest { collective, placement, count: 1, bytes: 4 };
        DecidedCall { decision, data_type, reduction, buffers, number: 1, request }
    }

    #[test]
    fn a_record_serves_calls_of_its_shape_alone() {
        let (one, other) = (decision(1000), decision(1000));
        let shape = LaunchKey::new(&call(&one));
        let own_words = DecidedCall { buffers: Buffers::default(), number: 9, ..call(&one) };
        assert!(shape.matches(&own_words));
        let one = Decision::clone(&one);
        assert!(shape.matches(&call(&Decision { exact: true, ..one.clone() })));
        let differs = |decision: Decision| assert!(!shape.matches(&call(&decision)));
        // The same algorithm, prepared again: it may be bound elsewhere.
        differs(Decision { prepared: other.prepared.clone(), ..one.clone() });
        differs(Decision { protocol: Protocol::Ll128, ..one.clone() });
        differs(Decision { links: Links::Direct, ..one.clone() });
        let threads = Threads { aligned: one.threads.aligned + 32, ..one.threads };
        differs(Decision { threads, ..one.clone() });
        differs(Decision { cut: decision(1001).cut, ..one.clone() });
        assert!(!shape.matches(&DecidedCall { data_type: DataType::U32, ..call(&one) }));
        assert!(!shape.matches(&DecidedCall { reduction: Reduction::Max, ..call(&one) }));
    }
}
