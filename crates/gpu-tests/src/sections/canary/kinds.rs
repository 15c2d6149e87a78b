//! Every kind of kernel, each with a call that it serves and settings with which nothing else does.

use msccl_collective::{DataType, Protocol, Rank, Reduction};
use msccl_runtime::{Buffers, Call, Combine, Links, Operation, Overrides, Settings};

use crate::shelf;
use crate::world::{Seat, settings};

/// A kind of kernel.
#[derive(Clone, Copy, Debug)]
pub struct Kind {
    /// Its name in reports.
    pub name: &'static str,
    work: Work,
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
enum Work {
    /// An all-reduce of so many f32.
    AllReduce(u64),
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

const SIMPLE: Kind = Kind {
    name: "simple",
    work: Work::AllReduce(20_000),
    protocol: Protocol::Simple,
    links: Links::Staged,
    // With so few threads a block has no warps of its own for waiting.
    threads: Some(64),
    algorithm: None,
    shift_bytes: 0,
    engine: Engine::Interpreter,
};

const CREW: Kind = Kind {
    name: "warp-specialised",
    work: Work::AllReduce(2 << 20),
    threads: Some(512),
    algorithm: Some("ring"),
    ..SIMPLE
};

const DIRECT: Kind = Kind {
    name: "direct",
    links: Links::Direct,
    threads: None,
    work: Work::AllReduce(1 << 20),
    ..SIMPLE
};

const LL: Kind = Kind {
    name: "ll",
    protocol: Protocol::Ll,
    threads: None,
    work: Work::AllReduce(1000),
    ..SIMPLE
};

const LL128: Kind = Kind { name: "ll128", protocol: Protocol::Ll128, ..LL };

const EXCHANGE: Kind = Kind { name: "exchange", work: Work::Receive(1000), ..SIMPLE };

/// All kinds.
pub const KINDS: [Kind; 18] = [
    SIMPLE,
    Kind { name: "simple, misaligned", shift_bytes: 4, ..SIMPLE },
    CREW,
    Kind { name: "warp-specialised, misaligned", shift_bytes: 4, ..CREW },
    DIRECT,
    Kind { name: "direct, misaligned", shift_bytes: 4, ..DIRECT },
    LL,
    LL128,
    Kind { name: "ll, low latency", engine: Engine::LowLatency, ..LL },
    Kind { name: "ll, low latency, misaligned", engine: Engine::LowLatency, shift_bytes: 4, ..LL },
    Kind { name: "ll128, low latency", engine: Engine::LowLatency, ..LL128 },
    Kind {
        name: "ll128, low latency, misaligned",
        engine: Engine::LowLatency,
        shift_bytes: 4,
        ..LL128
    },
    EXCHANGE,
    Kind { name: "exchange, by threads", work: Work::Receive(200_000), ..EXCHANGE },
    Kind { name: "exchange, in bulk", work: Work::Receive(10 << 20), ..EXCHANGE },
    Kind { name: "specialised, simple", engine: Engine::Specialised, ..SIMPLE },
    Kind { name: "specialised, ll", engine: Engine::Specialised, ..LL },
    Kind { name: "specialised, ll128", engine: Engine::Specialised, ..LL128 },
];

impl Kind {
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
        let special = if self.is_specialised() { shelf::kept() } else { shelf::of_all() };
        let small = self.engine == Engine::LowLatency;
        Settings { overrides: self.overrides(), specialised: special, small, ..settings() }
    }

    /// The call of `seat`, of `ranks` ranks. The last rank sends what others receive.
    pub fn call(&self, seat: &Seat, ranks: u32) -> Call {
        let (operation, count) = match self.work {
            Work::AllReduce(count) => (Operation::AllReduce(Combine::Plain(Reduction::Sum)), count),
            Work::Receive(count) if seat.rank == Rank(ranks - 1) => {
                (Operation::Send(Rank(0)), count)
            }
            Work::Receive(count) => (Operation::Receive(Rank(ranks - 1)), count),
        };
        let send = seat.arena.address() + self.shift_bytes;
        let (data_type, stream) = (DataType::F32, seat.stream());
        let buffers = Buffers { send, receive: send + BUFFER_BYTES, stream };
        Call { operation, data_type, count, buffers }
    }
}

/// A small all-reduce behind the other call; ranks differ if their reductions do.
pub fn probe(seat: &Seat, reduction: Reduction, stream: u64) -> Call {
    let send = seat.arena.address() + 2 * BUFFER_BYTES;
    let operation = Operation::AllReduce(Combine::Plain(reduction));
    let (data_type, count) = (DataType::F32, 1000);
    let buffers = Buffers { send, receive: send + (512 << 10), stream };
    Call { operation, data_type, count, buffers }
}
