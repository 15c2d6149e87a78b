//! Every kind of kernel, each with a call that it serves and settings with which nothing else does.

use msccl_collective::{DataType, Protocol, Rank, Reduction};
use msccl_runtime::{Buffers, Call, Combine, Links, Operation, Overrides, Settings};

use crate::kernel_store;
use crate::world::{RankWorker, settings};

/// A kind of kernel.
#[derive(Clone, Copy, Debug)]
pub struct KernelKind {
    /// Its name in reports.
    pub name: &'static str,
    work: KernelWork,
    protocol: Protocol,
    links: Links,
    threads: Option<u32>,
    algorithm: Option<&'static str>,
    /// By how much buffers begin behind an aligned address.
    shift_bytes: u64,
    engine: Engine,
}

/// What a rank waits for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum KernelWork {
    /// An all-reduce of so many f32.
    AllReduce(u64),
    /// An all-to-all in place, of so many f32 a block.
    AllToAllInPlace(u64),
    /// So many f32 of the last rank.
    Receive(u64),
}

/// Who runs it, where several could.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Engine {
    Interpreter,
    LowLatency,
    Specialised,
}

/// Bytes of one buffer of the largest call.
const BUFFER_BYTES: u64 = 40 << 20;

/// Bytes that a rank needs: an input, an output, and a little for another call.
pub const MEMORY_BYTES: usize = 2 * BUFFER_BYTES as usize + (1 << 20);

const SIMPLE: KernelKind = KernelKind {
    name: "simple",
    work: KernelWork::AllReduce(20_000),
    protocol: Protocol::Simple,
    links: Links::Staged,
    // With so few threads a block has no warps of its own for waiting.
    threads: Some(64),
    algorithm: None,
    shift_bytes: 0,
    engine: Engine::Interpreter,
};

const WARP_SPECIALISED: KernelKind = KernelKind {
    name: "warp-specialised",
    work: KernelWork::AllReduce(2 << 20),
    threads: Some(512),
    algorithm: Some("ring"),
    ..SIMPLE
};

const DIRECT: KernelKind = KernelKind {
    name: "direct",
    links: Links::Direct,
    threads: None,
    work: KernelWork::AllReduce(1 << 20),
    ..SIMPLE
};

/// Ranks in place, beside others that would have direct links.
const PUSH_ONLY: KernelKind =
    KernelKind { name: "push-only", work: KernelWork::AllToAllInPlace(100_000), ..DIRECT };

const LL: KernelKind = KernelKind {
    name: "ll",
    protocol: Protocol::Ll,
    threads: None,
    work: KernelWork::AllReduce(1000),
    ..SIMPLE
};

const LL128: KernelKind = KernelKind { name: "ll128", protocol: Protocol::Ll128, ..LL };

const EXCHANGE: KernelKind =
    KernelKind { name: "exchange", work: KernelWork::Receive(1000), ..SIMPLE };

/// All kinds.
pub const KINDS: [KernelKind; 19] = [
    SIMPLE,
    KernelKind { name: "simple, unaligned", shift_bytes: 4, ..SIMPLE },
    WARP_SPECIALISED,
    KernelKind { name: "warp-specialised, unaligned", shift_bytes: 4, ..WARP_SPECIALISED },
    DIRECT,
    KernelKind { name: "direct, unaligned", shift_bytes: 4, ..DIRECT },
    PUSH_ONLY,
    LL,
    LL128,
    KernelKind { name: "ll, low latency", engine: Engine::LowLatency, ..LL },
    KernelKind {
        name: "ll, low latency, unaligned",
        engine: Engine::LowLatency,
        shift_bytes: 4,
        ..LL
    },
    KernelKind { name: "ll128, low latency", engine: Engine::LowLatency, ..LL128 },
    KernelKind {
        name: "ll128, low latency, unaligned",
        engine: Engine::LowLatency,
        shift_bytes: 4,
        ..LL128
    },
    EXCHANGE,
    KernelKind { name: "exchange, by threads", work: KernelWork::Receive(200_000), ..EXCHANGE },
    KernelKind { name: "exchange, in bulk", work: KernelWork::Receive(10 << 20), ..EXCHANGE },
    KernelKind { name: "specialised, simple", engine: Engine::Specialised, ..SIMPLE },
    KernelKind { name: "specialised, ll", engine: Engine::Specialised, ..LL },
    KernelKind { name: "specialised, ll128", engine: Engine::Specialised, ..LL128 },
];

impl KernelKind {
    /// Whether it needs a run-time compiler.
    pub fn is_specialised(&self) -> bool {
        self.engine == Engine::Specialised
    }

    /// Whether it serves links between nodes.
    pub fn crosses_nodes(&self) -> bool {
        self.protocol == Protocol::Simple && self.links == Links::Staged
    }

    /// What algorithm, protocol and so on it wants.
    pub fn overrides(&self) -> Overrides {
        Overrides {
            algorithm: self.algorithm.map(str::to_owned),
            protocol: Some(self.protocol),
            links: Some(self.links),
            threads: self.threads,
            // Many communicators are held at the same time.
            instances: Some(2),
            ..Overrides::default()
        }
    }

    /// The settings of a communicator whose calls it serves.
    pub fn settings(&self) -> Settings {
        let special =
            if self.is_specialised() { kernel_store::kept() } else { kernel_store::of_all() };
        let small = self.engine == Engine::LowLatency;
        Settings { overrides: self.overrides(), specialised: special, small, ..settings() }
    }

    /// The call of `worker`, of `ranks` ranks. The last rank sends what others receive.
    pub fn call(&self, worker: &RankWorker, ranks: u32) -> Call {
        let (operation, count) = match self.work {
            KernelWork::AllReduce(count) => {
                (Operation::AllReduce(Combine::Plain(Reduction::Sum)), count)
            }
            KernelWork::AllToAllInPlace(count) => (Operation::AllToAll, count),
            KernelWork::Receive(count) if worker.rank == Rank(ranks - 1) => {
                (Operation::Send(Rank(0)), count)
            }
            KernelWork::Receive(count) => (Operation::Receive(Rank(ranks - 1)), count),
        };
        let send = worker.memory.address() + self.shift_bytes;
        let (data_type, stream) = (DataType::F32, worker.stream());
        let receive = match self.work {
            KernelWork::AllToAllInPlace(_) => send,
            KernelWork::AllReduce(_) | KernelWork::Receive(_) => send + BUFFER_BYTES,
        };
        let buffers = Buffers { send, receive, stream };
        Call { operation, data_type, count, buffers }
    }
}

/// A small all-reduce behind the other call; ranks differ if their reductions do.
pub fn probe(worker: &RankWorker, reduction: Reduction, stream: u64) -> Call {
    let send = worker.memory.address() + 2 * BUFFER_BYTES;
    let operation = Operation::AllReduce(Combine::Plain(reduction));
    let (data_type, count) = (DataType::F32, 1000);
    let buffers = Buffers { send, receive: send + (512 << 10), stream };
    Call { operation, data_type, count, buffers }
}
