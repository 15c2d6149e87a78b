//! How long an algorithm takes: a discrete-event simulation with a simple cost model.
//!
//! A thread block works on one message at a time: it starts when what the step waits for has ended,
//! a message has arrived on every incoming link, and every outgoing link has room; it is busy for a
//! fixed time and for as long as its own copy rate needs. Messages also pass the port of the
//! sending and that of the receiving rank, one after another, and arrive a latency later. Slots are
//! credited back a latency after they are read. Between nodes messages go by ports and latencies of
//! a network.
//!
//! The figures are estimates for comparing schedules, not measurements: caches, clocks, contention
//! inside a switch and everything random are left out.

mod cost;
mod events;
mod svg;
mod text;

use std::fmt;

use msccl_collective::{Channel, Rank, TbIndex};
use msccl_ir::{Algorithm, StepKind, StepRef, Target};

pub use cost::{CostModel, Network};
pub use svg::svg;
pub use text::text;

/// What every thread block does when.
#[derive(Clone, PartialEq, Debug)]
pub struct Timeline {
    /// Name of the algorithm.
    pub name: String,
    /// Size of the call, in bytes.
    pub bytes: u64,
    /// Nodes on which the ranks live.
    pub nodes: u32,
    /// The thread blocks, in the order of ranks.
    pub rows: Vec<Row>,
    /// How often the program runs.
    pub rounds: u64,
    /// Time from the call to the end of the last step, in µs.
    pub total_us: f64,
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
    /// The step.
    pub at: StepRef,
    /// The round.
    pub round: u64,
    /// The shape of the step.
    pub kind: StepKind,
    /// When its first message is taken up, in µs.
    pub start_us: f64,
    /// When its last one is done, in µs.
    pub end_us: f64,
}

/// Why there is no timeline.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Untimed {
    /// The algorithm is malformed or exceeds the target.
    Invalid(Vec<msccl_ir::Violation>),
    /// It comes to a standstill: so many thread blocks do not finish.
    Stalled {
        /// Thread blocks that do not finish.
        blocked: usize,
    },
}

impl Timeline {
    /// `ring, 1024 bytes on 2 nodes: 53.2 µs`.
    fn title(&self) -> String {
        let Timeline { name, bytes, nodes, rows: _, rounds: _, total_us } = self;
        let nodes = if *nodes > 1 { format!(" on {nodes} nodes") } else { String::new() };
        format!("{name}, {bytes} bytes{nodes}: {total_us:.1} µs")
    }
}

impl fmt::Display for Untimed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Untimed::Invalid(violations) => match violations.first() {
                Some(violation) => write!(f, "the algorithm is not valid: {violation}"),
                None => f.write_str("the algorithm is not valid"),
            },
            Untimed::Stalled { blocked } => {
                write!(f, "{blocked} thread blocks wait for one another for ever; ")?;
                f.write_str("verify the algorithm to see why")
            }
        }
    }
}

impl std::error::Error for Untimed {}

/// The timeline of a call of `bytes` bytes on links as `target` has them.
///
/// Time is linear in messages, up to a logarithm of the number of thread blocks.
///
/// # Errors
///
/// The algorithm is not valid for the target, or does not end.
pub fn timeline(
    algorithm: &Algorithm,
    target: &Target,
    cost: &CostModel,
    bytes: u64,
) -> Result<Timeline, Untimed> {
    msccl_ir::validate(algorithm, target).map_err(Untimed::Invalid)?;
    events::run(algorithm, target, cost, bytes)
}
