//! How a communicator is made and behaves: what front ends decide. Nothing here is read from the
//! environment.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use msccl_fabric as fabric;
use msccl_gpu as gpu;
use msccl_proxy as proxy;
use msccl_registry::{File, Shape};
use msccl_select::{Overrides, Specialisation, Tuning, asks_for_copy_engines};
use msccl_topology::PathType;

use crate::event::Log;
use crate::observer::CallObserver;
use crate::recordings::RecordingSwitch;

/// How a communicator is made and behaves.
#[derive(Clone)]
pub struct Settings {
    /// How ranks find one another; its log receives what the fabric reports.
    pub fabric: fabric::Settings,
    /// How links reach ranks on other hosts; its log receives what the proxy reports.
    pub proxy: proxy::Config,
    /// Where this rank runs.
    pub place: PlaceOfRank,
    /// Algorithms to load, the same on all ranks.
    pub files: Vec<File>,
    /// How long a call may stand still before it is reported and the communicator fails; `None`
    /// waits for ever.
    pub timeout: Option<Duration>,
    /// Whether ranks compare the arguments of every call before it runs.
    pub check: bool,
    /// Whether GPUs may map one another's memory; if not, links lie in host memory.
    pub peer_memory: bool,
    /// Whether the kernel of a collective may begin while the one before it in its stream ends,
    /// where GPU and driver can.
    pub early_start: bool,
    /// Whether kernels of all communicators of this process begin on a GPU in the order in which
    /// they were launched.
    pub launch_order: bool,
    /// Who orders graphs with calls of the communicator, and calls beside them.
    pub graphs: GraphOrder,
    /// Whether kernels of packets find all operands of a small call before its first step.
    pub at_once: bool,
    /// Whether small calls of packets run on kernels of their own, if all operands are found at
    /// once.
    pub small: bool,
    /// Bytes of all slots of a wire between GPUs of one node under protocol Simple, as far as there
    /// is memory; of ranks that differ the least counts.
    pub buffer_bytes: Option<u64>,
    /// Bytes for what peers copy for this rank to combine, of calls that copy engines carry. If
    /// ranks differ, the least counts.
    pub inbox_bytes: u64,
    /// Whether GPUs run kernels made for one plan each, where they can be had.
    pub specialised: Specialisation,
    /// Where slots of links between GPUs of different nodes lie.
    pub inter_node_fifo: InterNodeFifo,
    /// Replaces the choice of algorithm where it can.
    pub overrides: Overrides,
    /// Why reductions must have the order that the overrides require, for people, if the user did
    /// not name it.
    pub order_reason: Option<String>,
    /// What is best for which size on this machine, before what the shipped table says; the same on
    /// all ranks.
    pub tuning: Option<Tuning>,
    /// What kernels do when the communicator fails.
    pub on_failure: OnFailure,
    /// Requests of the user that have no effect, as their reader has found out, a line each. They
    /// have been reported.
    pub unmet: Vec<String>,
    /// What of it must not be done without, a line each: on whatever rank, it is an error on all of
    /// them.
    pub errors: Vec<String>,
    /// Whether such a thing, on whatever rank, and any that comes to light while ranks join, is an
    /// error on all of them.
    pub strict: bool,
    /// Whether these ranks are all for which files and settings are meant.
    pub extent: Extent,
    /// Where calls are recorded, if they are.
    pub recordings: RecordingSwitch,
    /// Whether ranks on GPUs have the kernels ready that record, also where nothing is recorded
    /// when they join.
    pub records_later: bool,
    /// Follows the calls of this rank of this communicator, and of no other one.
    pub observer: Option<Arc<dyn CallObserver>>,
    /// Receives what happens.
    pub log: Arc<dyn Log>,
}

/// What kernels of a communicator that has failed do; on host threads calls return the error.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum OnFailure {
    /// They stay in their streams until the owner aborts, revokes or destroys the communicator, so
    /// that nothing behind them runs.
    #[default]
    Hold,
    /// They fault: the next call of CUDA in this process returns an error, and its GPU context is
    /// lost.
    Trap,
}

/// Which ranks of those that files and settings are meant for form a communicator.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum Extent {
    /// All: what does not suit them is not used, and that is reported.
    #[default]
    Job,
    /// Some: what does not suit them may well suit all, and nothing is reported.
    Part,
}

/// Where a rank runs.
#[derive(Clone, Debug)]
pub enum PlaceOfRank {
    /// On host threads; buffers are host memory, and calls return when they are done.
    Host,
    /// On the GPU of this context.
    Gpu(gpu::Context),
}

/// Who orders graphs in which calls of a communicator were recorded with one another, and with
/// calls outside of them.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum GraphOrder {
    /// They run in the order in which they are launched.
    #[default]
    Launches,
    /// The user sees to it that they do not run at the same time.
    Users,
}

/// Where slots of links between GPUs of different nodes lie. Each rank chooses for its own; ranks
/// may differ.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum InterNodeFifo {
    /// In GPU memory if RDMA carries the messages and every device reaches it, in host memory
    /// otherwise.
    #[default]
    Best,
    /// The same, if no device that the rank uses is farther from its GPU.
    Within(PathType),
    /// In host memory.
    Host,
    /// In GPU memory, even where the proxy must copy out of it and into it. Wires to all peers are
    /// made when ranks join, so that nothing is allocated while kernels run; that suits tests, in
    /// which ranks share GPUs.
    Gpu,
}

impl Settings {
    /// Whether copy engines may be to carry calls of so many ranks of one node: memory is set aside
    /// for that.
    pub(crate) fn wants_copy_engines(&self, ranks: u32) -> bool {
        let shape = Shape { ranks, per_node: ranks };
        asks_for_copy_engines(&self.overrides, self.tuning.as_ref(), shape)
    }
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            fabric: fabric::Settings::default(),
            proxy: proxy::Config::default(),
            place: PlaceOfRank::Host,
            files: Vec::new(),
            timeout: None,
            check: false,
            peer_memory: true,
            early_start: true,
            launch_order: false,
            graphs: GraphOrder::default(),
            at_once: true,
            small: true,
            buffer_bytes: None,
            inbox_bytes: 256 << 20,
            specialised: Specialisation::default(),
            inter_node_fifo: InterNodeFifo::Best,
            overrides: Overrides::default(),
            order_reason: None,
            tuning: None,
            on_failure: OnFailure::default(),
            unmet: Vec::new(),
            errors: Vec::new(),
            strict: false,
            extent: Extent::Job,
            recordings: RecordingSwitch::default(),
            records_later: false,
            observer: None,
            log: Arc::new(()),
        }
    }
}

impl fmt::Debug for Settings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Settings")
            .field("place", &self.place)
            .field("proxy", &self.proxy)
            .field("files", &self.files.len())
            .field("timeout", &self.timeout)
            .field("check", &self.check)
            .field("overrides", &self.overrides)
            .field("order_reason", &self.order_reason)
            .field("tuning", &self.tuning.as_ref().map(Tuning::name))
            .finish_non_exhaustive()
    }
}
