//! The calls that the oracle executes, and their results.

use std::fmt;
use std::thread::available_parallelism;
use std::time::Duration;

use msccl_collective::{DataType, Reduction};

use super::stall::Stall;

/// One call.
#[derive(Clone, Debug)]
pub struct OracleCall {
    /// The type of every element.
    pub data_type: DataType,
    /// How contributions combine.
    pub reduction: Reduction,
    /// Elements of one block, as in the NCCL C API; see [`crate::oracle`].
    pub count: usize,
    /// Whether input and output share memory, in the way the collective defines.
    pub in_place: bool,
    /// The input of every rank.
    pub inputs: Vec<Vec<u8>>,
    /// Which threads run it.
    pub workers: Workers,
    /// How long it may take.
    pub timeout: Option<Duration>,
}

/// Which threads run a call.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Workers {
    /// As many as the machine has cores for.
    #[default]
    Available,
    /// That many; 0 counts as 1.
    Exactly(usize),
    /// One for every thread block.
    OnePerBlock,
}

/// What a call gave.
#[derive(Clone, PartialEq, Debug)]
pub struct Report {
    /// The output of every rank.
    pub outputs: Vec<Vec<u8>>,
    /// Time from the start of the first thread block to the end of the last, in µs.
    pub elapsed_us: f64,
    /// Messages that went over links.
    pub messages: u64,
    /// Bytes in those messages.
    pub message_bytes: u64,
    /// How often the program ran, each time on another slice of the chunks.
    pub rounds: usize,
    /// Threads that ran it.
    pub workers: usize,
}

/// Why a call gave nothing.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum OracleFailure {
    /// The call is not one that the algorithm serves.
    Refused(String),
    /// The call did not finish.
    Stalled(Stall),
}

impl fmt::Display for OracleFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            OracleFailure::Refused(reason) => f.write_str(reason),
            OracleFailure::Stalled(stall) => stall.fmt(f),
        }
    }
}

impl std::error::Error for OracleFailure {}

impl Workers {
    /// How many threads run `blocks` thread blocks.
    pub(crate) fn count(self, blocks: usize) -> usize {
        let workers = match self {
            Workers::Available => available_parallelism().map_or(1, usize::from),
            Workers::Exactly(workers) => workers,
            Workers::OnePerBlock => blocks,
        };
        workers.clamp(1, blocks.max(1))
    }
}
