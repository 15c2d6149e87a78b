//! The two MSCCL interpreters, small: what their files become ([`parse`]) and what thread blocks do
//! with it ([`run`]), one load, store, line and flag at a time, in random order.
//!
//! They are written from the public sources that `msccl_ir::Target` names, for the verifier to be
//! held against, and share nothing with it. Of every slice of a chunk two elements stand for all.

pub mod parse;
pub mod proxy;
pub mod run;

use msccl_collective::Protocol;

/// What differs between the two.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Interpreter {
    /// NCCL 2.12 based.
    First,
    /// NCCL 2.23 based.
    Executor,
}

/// `MSCCL_MAX_COUNT`.
pub const COUNT_END: i64 = 72;

/// `MSCCL_MAX_REDUCE_FUSION`.
pub const REDUCE_FUSION: usize = 16;

/// `MSCCL_MAX_ITER`.
pub const ITERATIONS: u64 = 65_536;

impl Interpreter {
    /// `MSCCL_MAX_NUM_STEPS`.
    pub fn steps(self) -> i64 {
        match self {
            Interpreter::First => 256,
            Interpreter::Executor => 64,
        }
    }

    /// `MSCCL_MAX_NUM_THREAD_BLOCKS`.
    pub fn blocks(self) -> i64 {
        match self {
            Interpreter::First => 216,
            Interpreter::Executor => 1024,
        }
    }

    /// Threads of a block: as the file asks, up to NCCL's own number, and a warp more under Simple;
    /// the executor has numbers of its own.
    pub fn threads(self, protocol: Protocol, asked: u64) -> u64 {
        let (most, extra) = match protocol {
            Protocol::Simple => (512, 32),
            Protocol::Ll => (512, 0),
            Protocol::Ll128 => (640, 0),
        };
        match self {
            Interpreter::First if asked > 0 => most.min(asked) + extra,
            Interpreter::First => most + extra,
            Interpreter::Executor if protocol == Protocol::Simple => 544,
            Interpreter::Executor => 640,
        }
    }

    /// Whether the size of a call counts the blocks of all ranks for that collective.
    pub fn counts_all_blocks(self, collective: &str) -> bool {
        match (self, collective) {
            (_, "allgather" | "alltoall" | "reduce_scatter" | "reducescatter") => true,
            (Interpreter::First | Interpreter::Executor, _) => false,
        }
    }
}

/// Bytes of a slice of a chunk in one round: what a step of the buffer holds, four of them under
/// Simple.
pub fn slice_bytes(protocol: Protocol) -> u64 {
    let steps_of_buffer = 8;
    match protocol {
        Protocol::Simple => (4 << 20) / steps_of_buffer * 4,
        Protocol::Ll => 8 * 512 * steps_of_buffer * 16 / steps_of_buffer / 2,
        Protocol::Ll128 => 120 * 640 * steps_of_buffer * 8 / steps_of_buffer / 16 * 15,
    }
}

/// Bytes by which the host reckons how many chunks a message takes.
pub fn effective_bytes(protocol: Protocol, collective: &str) -> u64 {
    match (protocol, collective) {
        // `BROADCAST_CHUNKSTEPS` and `REDUCE_CHUNKSTEPS` are 1.
        (Protocol::Simple, "broadcast" | "reduce") => slice_bytes(protocol) / 4,
        _ => slice_bytes(protocol),
    }
}
