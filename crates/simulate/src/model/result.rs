//! What an estimate says.

use std::fmt;

use msccl_collective::{Channel, Rank, TbIndex};
use msccl_ir::{StepKind, StepRef};

use super::workload::WorkloadError;

/// How long a call takes, and why.
#[derive(Clone, PartialEq, Debug)]
pub struct Estimate {
    /// From one such call to the next in a graph, in µs.
    pub total_us: f64,
    /// Rounds that were simulated one by one.
    pub rounds: u32,
    /// By link of the cluster: the bytes that it carries.
    pub link_bytes: Vec<f64>,
}

/// What one thread block does when.
#[derive(Clone, PartialEq, Debug)]
pub struct Row {
    /// Its rank.
    pub rank: Rank,
    /// Its position on the rank.
    pub tb: TbIndex,
    /// Its channel.
    pub channel: Channel,
    /// Its steps, in order, round after round.
    pub spans: Vec<Span>,
}

/// One step in one round.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Span {
    /// The step; of several that run as one, the last.
    pub at: StepRef,
    /// The round.
    pub round: u64,
    /// The shape of the step.
    pub kind: StepKind,
    /// Since when the thread block had nothing else to do, in µs.
    pub wait_us: f64,
    /// When its first message is taken up, in µs.
    pub start_us: f64,
    /// When its last one is done, in µs.
    pub end_us: f64,
    /// What it waited for last.
    pub cause: Cause,
}

/// What a step waits for last, with the thread block that brings it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Cause {
    /// The step before it.
    #[default]
    Program,
    /// A step of another thread block.
    Step((Rank, TbIndex)),
    /// A message.
    Message((Rank, TbIndex)),
    /// Room in a link.
    Room((Rank, TbIndex)),
}

/// Why there is no estimate.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Untimed {
    /// The cluster does not carry it.
    Workload(WorkloadError),
    /// It comes to a standstill: so many thread blocks do not finish.
    Stalled {
        /// Thread blocks that do not finish.
        blocked: usize,
    },
}

impl From<WorkloadError> for Untimed {
    fn from(error: WorkloadError) -> Self {
        Untimed::Workload(error)
    }
}

impl fmt::Display for Untimed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Untimed::Workload(error) => error.fmt(f),
            Untimed::Stalled { blocked } => {
                write!(f, "{blocked} thread blocks wait for one another for ever; ")?;
                f.write_str("verify the algorithm to see why")
            }
        }
    }
}

impl std::error::Error for Untimed {}
