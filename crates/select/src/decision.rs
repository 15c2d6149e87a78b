//! What is answered: an algorithm, and how it serves.

use std::fmt;
use std::sync::Arc;

use msccl_collective::Protocol;
use msccl_plan::LowLatencyPlan;
use msccl_plan::cut::Cut;
use msccl_plan::launch::{self, Launch};
use msccl_registry::{Entry, Unsuited};

use super::capacity::Capacity;
use super::copies::{COMBINING_THREADS, EngineWork};
use super::links::Links;
use super::prepared::Prepared;
use super::tuning::PreferenceReason;
use super::unserved::Unserved;

/// What serves a call.
#[derive(Clone)]
pub struct Decision {
    /// The algorithm.
    pub prepared: Arc<Prepared>,
    /// How messages are laid out.
    pub protocol: Protocol,
    /// How links deliver them.
    pub links: Links,
    /// Whether it must be so, since it is being measured, where links could fall back on their
    /// slots.
    pub exact: bool,
    /// Threads of one thread block.
    pub threads: Threads,
    /// How the count is divided into chunks, rounds and instances.
    pub cut: Cut,
    /// Which kernels run it.
    pub kernel: KernelClass,
    /// What copy engines do of it for this rank, if they carry it.
    pub engine_work: Option<Arc<EngineWork>>,
    /// Whether the input is copied first, because the algorithm is for the other placement.
    pub fallback: PlacementFallback,
    /// Of an average: whether steps form it, in this placement and in the other. Ranks that call in
    /// either placement must all scale their inputs before, or none.
    pub averages: bool,
    /// Loaded algorithms that were asked first, and why they do not serve.
    pub passed_over: Vec<String>,
}

/// Which kernels run a collective on GPUs. Of a class, protocol, links, data type and alignment of
/// operands say which one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum KernelClass {
    /// Interpreters, or a specialised kernel where there is one for the plan.
    Interpreter,
    /// Interpreters of which some warps move data while others prepare that
    /// (`kernels/device/warp_specialised.cuh`): for calls of many messages, which wait for one
    /// another all the time. Links that deliver directly gain nothing by it.
    WarpSpecialised,
    /// Kernels for small calls of packets (`kernels/device/low_latency.cuh`).
    LowLatency,
    /// None: copy engines move everything ([`Links::CopyEngine`]).
    CopyEngine,
    /// The kernel that combines what copy engines have brought.
    Combiner,
}

/// Fewer steps of a thread block, in all rounds, have too few messages for specialised warps.
const WARP_SPECIALISED_STEPS: u32 = 4;

impl KernelClass {
    /// The class for calls of `prepared` that are served so.
    pub(crate) fn new(
        prepared: &Prepared,
        (protocol, links): (Protocol, Links),
        threads: Threads,
        cut: &Cut,
        capacity: &Capacity,
    ) -> Self {
        if links == Links::CopyEngine {
            return KernelClass::CopyEngine;
        }
        let steps = cut.rounds.saturating_mul(prepared.steps);
        let moves = threads.aligned > launch::NON_MOVER_THREADS;
        let plain = protocol == Protocol::Simple && !links.export_buffers();
        if plain && steps >= WARP_SPECIALISED_STEPS && moves {
            return KernelClass::WarpSpecialised;
        }
        let record = Launch { link_depth: capacity.wires(protocol).depth, ..Launch::default() };
        let record = record.with_plan(&prepared.plan).with_cut(cut);
        let plan = LowLatencyPlan::of(&prepared.plan).filter(|_| capacity.low_latency);
        match plan.and_then(|plan| record.low_latency(plan, protocol, threads.aligned)) {
            Some(_) => KernelClass::LowLatency,
            None => KernelClass::Interpreter,
        }
    }
}

/// How a call comes to an algorithm that serves the other placement alone.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum PlacementFallback {
    /// It serves the call as it is.
    #[default]
    None,
    /// The input is copied first, and the algorithm runs in place where the copy lies.
    InPlace,
    /// The input is copied first, and the algorithm runs from the copy to the output.
    OutOfPlace,
}

/// Threads in a block, by where the operands of a launch lie.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Threads {
    /// Where they are aligned.
    pub aligned: u32,
    /// Where they are not. They take more instructions for every byte then and have fewer bytes on
    /// their way, so that more threads are faster than as many as are best otherwise.
    pub unaligned: u32,
}

impl Decision {
    /// In words: `allreduce/ring (Simple, 4 × 2 thread blocks of 512 threads, rounds: 1)`, `Simple
    /// over direct links`.
    pub fn describe(&self) -> String {
        let service = self.service();
        let fallback = match self.fallback {
            PlacementFallback::None => "",
            PlacementFallback::InPlace => "; in place after a copy of the input",
            PlacementFallback::OutOfPlace => "; out of place from a copy of the input",
        };
        format!("{} ({service}, rounds: {}){fallback}", self.prepared.name, service.rounds)
    }

    /// How it serves.
    pub fn service(&self) -> ServiceSummary {
        let Decision { prepared, protocol, links, threads, cut, kernel, engine_work, .. } = self;
        ServiceSummary {
            kernel: *kernel,
            protocol: *protocol,
            links: *links,
            instances: cut.instances,
            thread_blocks: match engine_work.as_deref() {
                Some(EngineWork::Copies(_)) => 0,
                Some(EngineWork::Reduction { combined: _, blocks }) => *blocks,
                None => prepared.plan.program().thread_blocks.len() as u32,
            },
            threads: match kernel {
                KernelClass::Combiner => COMBINING_THREADS,
                KernelClass::CopyEngine
                | KernelClass::Interpreter
                | KernelClass::WarpSpecialised
                | KernelClass::LowLatency => threads.aligned,
            },
            rounds: cut.rounds,
        }
    }
}

/// How an algorithm serves a call. `Display` leaves out rounds, which change with the size, and
/// that links are staged, as most are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ServiceSummary {
    /// Which kernels run it on GPUs; on host threads it means nothing.
    pub kernel: KernelClass,
    /// How messages are laid out.
    pub protocol: Protocol,
    /// How links deliver them.
    pub links: Links,
    /// Copies of the algorithm that run side by side, each on its part of every chunk.
    pub instances: u32,
    /// Thread blocks of one instance.
    pub thread_blocks: u32,
    /// Threads of one thread block.
    pub threads: u32,
    /// How often the program runs.
    pub rounds: u32,
}

/// Multiprocessors of an H200.
const MULTIPROCESSORS: u32 = 132;

impl ServiceSummary {
    /// Thread blocks of a call in all, on the rank that was asked.
    pub fn blocks(&self) -> u32 {
        self.instances * self.thread_blocks
    }

    /// The most multiprocessors that a call occupies on a GPU like the H200: each thread block runs
    /// on one, and one may run several.
    pub fn multiprocessors(&self) -> u32 {
        multiprocessors(self.blocks())
    }
}

/// The most multiprocessors that `blocks` thread blocks occupy on a GPU like the H200.
pub fn multiprocessors(blocks: u32) -> u32 {
    blocks.min(MULTIPROCESSORS)
}

impl fmt::Display for ServiceSummary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { kernel, protocol, links, instances, thread_blocks, threads, rounds: _ } = self;
        match kernel {
            KernelClass::CopyEngine => return write!(f, "{links} links, no thread block"),
            KernelClass::Combiner => {
                let what = "thread blocks of";
                return write!(
                    f,
                    "{links} links, {thread_blocks} {what} {threads} threads combine"
                );
            }
            KernelClass::Interpreter | KernelClass::WarpSpecialised | KernelClass::LowLatency => {}
        }
        write!(f, "{protocol}")?;
        if *links != Links::default() {
            write!(f, " over {links} links")?;
        }
        write!(f, ", {instances} × {thread_blocks} thread blocks of {threads} threads")
    }
}

/// An algorithm that might serve a call.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Alternative {
    /// Its name.
    pub name: String,
    /// Whether it was loaded.
    pub loaded: bool,
    /// Why it stands where it does.
    pub basis: PreferenceReason,
    /// How it would serve, or why it does not.
    pub verdict: Result<ServiceSummary, String>,
    /// How long the call would take by the cost model, in ns, if that was asked.
    pub estimate_ns: Option<u64>,
}

impl Alternative {
    /// Whether it would serve the call, if nothing before it does.
    pub fn serves(&self) -> bool {
        self.verdict.is_ok()
    }

    /// A built-in algorithm that is not at hand.
    pub(crate) fn left_out(left_out: Unsuited) -> Self {
        let Unsuited { name, reason } = left_out;
        Self {
            name: name.to_owned(),
            loaded: false,
            basis: PreferenceReason::Fallback,
            verdict: Err(reason),
            estimate_ns: None,
        }
    }

    pub(crate) fn of(
        entry: &Entry,
        basis: PreferenceReason,
        decision: Result<Decision, Unserved>,
    ) -> Self {
        let verdict = decision.map(|decision| decision.service()).map_err(|why| why.to_string());
        let (name, loaded) = (entry.name.clone(), entry.loaded);
        Self { name, loaded, basis, verdict, estimate_ns: None }
    }
}
