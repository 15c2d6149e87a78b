//! What GPUs take for the parts of a step.

use serde::{Deserialize, Serialize};

/// Which code moves the bytes of a call. It decides what every part of a step takes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum KernelKind {
    /// The low-latency kernel under LL.
    LowLatencyLl,
    /// The low-latency kernel under LL128.
    LowLatencyLl128,
    /// The interpreter under LL.
    Ll,
    /// The interpreter under LL128.
    Ll128,
    /// The interpreter under Simple over staged links.
    Simple,
    /// The warp-specialised interpreter under Simple over staged links.
    WarpSpecialised,
    /// The interpreter under Simple over direct links.
    Direct,
}

impl KernelKind {
    /// All kinds.
    pub const ALL: [KernelKind; 7] = [
        KernelKind::LowLatencyLl,
        KernelKind::LowLatencyLl128,
        KernelKind::Ll,
        KernelKind::Ll128,
        KernelKind::Simple,
        KernelKind::WarpSpecialised,
        KernelKind::Direct,
    ];

    /// As calibrations name it.
    pub fn name(self) -> &'static str {
        match self {
            KernelKind::LowLatencyLl => "low-latency-ll",
            KernelKind::LowLatencyLl128 => "low-latency-ll128",
            KernelKind::Ll => "ll",
            KernelKind::Ll128 => "ll128",
            KernelKind::Simple => "simple",
            KernelKind::WarpSpecialised => "warp-specialised",
            KernelKind::Direct => "direct",
        }
    }

    /// Whether packets arrive one by one, so that a receiver follows its sender.
    pub fn streams(self) -> bool {
        match self {
            KernelKind::LowLatencyLl
            | KernelKind::LowLatencyLl128
            | KernelKind::Ll
            | KernelKind::Ll128 => true,
            KernelKind::Simple | KernelKind::WarpSpecialised | KernelKind::Direct => false,
        }
    }

    /// Whether a thread block goes on before what it stored is there.
    pub fn commits_aside(self) -> bool {
        match self {
            KernelKind::WarpSpecialised => true,
            KernelKind::LowLatencyLl
            | KernelKind::LowLatencyLl128
            | KernelKind::Ll
            | KernelKind::Ll128
            | KernelKind::Simple
            | KernelKind::Direct => false,
        }
    }

    /// Bytes that a thread moves in the time that every message takes: a packet, under LL in
    /// interpreters two.
    pub fn bytes_at_once(self) -> f64 {
        match self {
            KernelKind::LowLatencyLl => 8.0,
            KernelKind::Ll => 16.0,
            KernelKind::LowLatencyLl128 | KernelKind::Ll128 => 15.0,
            KernelKind::Simple | KernelKind::WarpSpecialised | KernelKind::Direct => 16.0,
        }
    }

    /// Bytes on a wire for each byte of data.
    pub fn wire_bytes_per_byte(self) -> f64 {
        match self {
            KernelKind::LowLatencyLl | KernelKind::Ll => 2.0,
            KernelKind::LowLatencyLl128 | KernelKind::Ll128 => 128.0 / 120.0,
            KernelKind::Simple | KernelKind::WarpSpecialised | KernelKind::Direct => 1.0,
        }
    }

    /// Threads of a block of `threads` that move bytes.
    pub fn movers(self, threads: u32) -> u32 {
        match self {
            KernelKind::WarpSpecialised => threads.saturating_sub(64).max(32),
            KernelKind::LowLatencyLl
            | KernelKind::LowLatencyLl128
            | KernelKind::Ll
            | KernelKind::Ll128
            | KernelKind::Simple
            | KernelKind::Direct => threads.max(32),
        }
    }
}

/// What a byte takes in a thread block, for one operand.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ByteCost {
    /// However many threads the block has, in ns.
    pub block_ns: f64,
    /// For one thread, in ns: threads of a block wait side by side.
    pub thread_ns: f64,
}

impl ByteCost {
    /// In a block of which `movers` threads move bytes, in ns.
    pub fn ns(self, movers: u32) -> f64 {
        self.block_ns + self.thread_ns / f64::from(movers)
    }
}

/// What one kind of kernel takes.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KernelRates {
    /// From one call to the next in a graph, beside the steps.
    pub launch_ns: f64,
    /// The same for each further thread block of a rank.
    pub launch_block_ns: f64,
    /// The same for each thread of a block.
    pub launch_thread_ns: f64,
    /// What a launch takes more if ranks must learn that peers have loaded from their buffers.
    pub acknowledge_ns: f64,
    /// What a launch takes more if the next kernel cannot start early.
    pub late_start_ns: f64,
    /// A message of a step, however short it is.
    pub step_ns: f64,
    /// To find a message that has come before it is looked for.
    pub receive_ns: f64,
    /// To load from a buffer of the rank where nothing was waited for meanwhile.
    pub load_ns: f64,
    /// From the end of a move until all that it stored is there. The warp-specialised kernel goes
    /// on meanwhile.
    pub commit_ns: f64,
    /// From then to the arrival at a peer, on top of the latency of the links.
    pub latency_ns: f64,
    /// From the end of a step until the sender knows that the slot is free.
    pub credit_ns: f64,
    /// From the end of a step until another thread block of the rank knows.
    pub signal_ns: f64,
    /// To load a byte from a buffer of the rank.
    pub load: ByteCost,
    /// To load a byte that has come over a link.
    pub receive: ByteCost,
    /// To store a byte to a buffer of the rank.
    pub store: ByteCost,
    /// To store a byte to a peer.
    pub send: ByteCost,
    /// To load a byte from a buffer of a peer.
    pub pull: ByteCost,
    /// To combine a byte with another.
    pub reduce: ByteCost,
    /// How many times what these say a byte takes in a bundle: its copies share their threads.
    pub bundle: f64,
    /// What a byte takes of a link, compared with what the link's rate says.
    pub wire: f64,
}

/// What GPUs of one kind take.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rates {
    /// By [`KernelKind`].
    #[serde(with = "by_name")]
    pub kernels: [KernelRates; KernelKind::ALL.len()],
    /// What the memory of a GPU loads and stores, in bytes/ns.
    pub memory_bytes_per_ns: f64,
    /// Thread blocks of a rank beside which the next kernel still starts early.
    pub early_start_blocks: u32,
    /// What a proxy takes for a message between nodes, on top of the latency of the links.
    pub proxy_ns: f64,
}

impl Rates {
    /// Those of one kind of kernel.
    pub fn kernel(&self, kind: KernelKind) -> &KernelRates {
        &self.kernels[kind as usize]
    }

    /// Those of one kind of kernel, to change them.
    pub(super) fn kernel_mut(&mut self, kind: KernelKind) -> &mut KernelRates {
        &mut self.kernels[kind as usize]
    }
}

/// Kernels as an object whose keys are their names.
mod by_name {
    use std::collections::BTreeMap;

    use serde::de::Error;
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    use super::{KernelKind, KernelRates};

    type Kernels = [KernelRates; KernelKind::ALL.len()];

    pub fn serialize<S: Serializer>(kernels: &Kernels, to: S) -> Result<S::Ok, S::Error> {
        let named = KernelKind::ALL.into_iter().map(|kind| (kind.name(), kernels[kind as usize]));
        named.collect::<BTreeMap<_, _>>().serialize(to)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Kernels, D::Error> {
        let mut named = BTreeMap::<String, KernelRates>::deserialize(from)?;
        let mut kernels = Kernels::default();
        for kind in KernelKind::ALL {
            let missing = || D::Error::custom(format!("no rates of `{}`", kind.name()));
            kernels[kind as usize] = named.remove(kind.name()).ok_or_else(missing)?;
        }
        match named.into_keys().next() {
            Some(unknown) => Err(D::Error::custom(format!("`{unknown}` is no kind of kernel"))),
            None => Ok(kernels),
        }
    }
}

impl Rates {
    /// What a fit begins with where nothing is known: round figures of the order of magnitude that
    /// GPUs have. No estimate is made with them.
    pub fn assumed() -> Self {
        let kernel = |kind| {
            let (launch_ns, latency_ns, commit_ns, thread_ns): (f64, f64, f64, f64) = match kind {
                KernelKind::LowLatencyLl => (1000.0, 200.0, 1e-6, 8.0),
                KernelKind::LowLatencyLl128 => (1200.0, 300.0, 1e-6, 5.0),
                KernelKind::Ll => (1500.0, 300.0, 1e-6, 8.0),
                KernelKind::Ll128 => (1500.0, 500.0, 1e-6, 5.0),
                KernelKind::Simple | KernelKind::WarpSpecialised => (2500.0, 800.0, 1000.0, 2.0),
                KernelKind::Direct => (5000.0, 800.0, 1000.0, 2.0),
            };
            let block_ns = if kind.streams() { 0.02 } else { 0.01 };
            let late_start_ns = if kind.streams() { 1000.0 } else { 1e-6 };
            let byte = ByteCost { block_ns, thread_ns };
            KernelRates {
                launch_ns,
                launch_block_ns: 1.0,
                launch_thread_ns: 0.5,
                acknowledge_ns: 500.0,
                late_start_ns,
                step_ns: 200.0,
                receive_ns: 400.0,
                load_ns: 300.0,
                commit_ns,
                latency_ns,
                credit_ns: 300.0,
                signal_ns: 500.0,
                load: byte,
                receive: byte,
                store: byte,
                send: byte,
                pull: ByteCost { block_ns, thread_ns: 2.0 * thread_ns },
                reduce: ByteCost { block_ns: block_ns / 2.0, thread_ns: thread_ns / 2.0 },
                bundle: if kind.streams() { 1.25 } else { 2.0 },
                wire: 1.04,
            }
        };
        Self {
            kernels: KernelKind::ALL.map(kernel),
            memory_bytes_per_ns: 3000.0,
            early_start_blocks: 66,
            proxy_ns: 10_000.0,
        }
    }

    /// The first kind of kernel with a rate that is not a number from 0 on.
    pub(super) fn senseless(&self) -> Option<&'static str> {
        let mut rates = self.clone();
        let mut kinds = KernelKind::ALL.into_iter();
        let found = kinds.find(|kind| {
            let own = rates.kernel_mut(*kind).parameters_mut();
            own.into_iter().any(|rate| !rate.is_finite() || *rate < 0.0)
        });
        let others = [self.memory_bytes_per_ns, self.proxy_ns];
        let other = others.iter().any(|of| !of.is_finite() || *of <= 0.0).then_some("all kernels");
        found.map(KernelKind::name).or(other)
    }
}

impl KernelRates {
    /// The place of `latency_ns` among [`parameters_mut`](Self::parameters_mut).
    pub(super) const LATENCY: usize = 9;

    /// All rates, in the order in which they stand.
    pub(super) fn parameters_mut(&mut self) -> [&mut f64; 26] {
        let Self {
            launch_ns,
            launch_block_ns,
            launch_thread_ns,
            acknowledge_ns,
            late_start_ns,
            step_ns,
            receive_ns,
            load_ns,
            commit_ns,
            latency_ns,
            credit_ns,
            signal_ns,
            load,
            receive,
            store,
            send,
            pull,
            reduce,
            bundle,
            wire,
        } = self;
        let ByteCost { block_ns: load, thread_ns: load_thread } = load;
        let ByteCost { block_ns: receive, thread_ns: receive_thread } = receive;
        let ByteCost { block_ns: store, thread_ns: store_thread } = store;
        let ByteCost { block_ns: send, thread_ns: send_thread } = send;
        let ByteCost { block_ns: pull, thread_ns: pull_thread } = pull;
        let ByteCost { block_ns: reduce, thread_ns: reduce_thread } = reduce;
        [
            launch_ns,
            launch_block_ns,
            launch_thread_ns,
            acknowledge_ns,
            late_start_ns,
            step_ns,
            receive_ns,
            load_ns,
            commit_ns,
            latency_ns,
            credit_ns,
            signal_ns,
            load,
            load_thread,
            receive,
            receive_thread,
            store,
            store_thread,
            send,
            send_thread,
            pull,
            pull_thread,
            reduce,
            reduce_thread,
            bundle,
            wire,
        ]
    }

    /// Keeps what has limits within them: no link carries more than its rate says.
    pub(super) fn keep_sensible(&mut self) {
        self.wire = self.wire.clamp(1.0, 1.6);
        self.bundle = self.bundle.max(1.0);
    }
}
