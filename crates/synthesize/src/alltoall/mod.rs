//! All-to-all: every rank sends each of the others a block of its own.
//!
//! 1. `lengths`: what no schedule can beat, by linear programming over paths (multi-commodity
//!    flow; `mix`). The dual solution, lengths of links, is the witness.
//! 2. `paths`, `rounding`: blocks are cut into chunks, and each chunk gets a path over ranks. What
//!    that costs beside the bound is the difference of both times, which the certificate states.

mod graph;
mod lengths;
mod mix;
mod paths;
mod rounding;
mod write;

use std::cmp::Reverse;

use msccl_bounds::{Bound, Witness};
use msccl_topology::cluster::Cluster;
use num_rational::Ratio;

use self::graph::RankGraph;
use self::paths::PathSearch;
use crate::network::Network;
use crate::time_limit::TimeLimit;

pub(crate) use write::text;

/// More ranks than this are refused: a program would have a statement for each pair of them.
pub(crate) const RANKS_MAX: usize = 128;

/// Blocks of all pairs of ranks, cut into chunks that travel over other ranks.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Exchange {
    /// Chunks of a block.
    pub chunks: u32,
    /// By sender, then by receiver, then by chunk. All chunks of all blocks between different ranks
    /// are on one path each.
    pub paths: Vec<Path>,
    /// What the busiest link takes for a byte of the call, as planned.
    pub seconds_per_byte: Ratio<u128>,
}

/// The ranks that neighbouring chunks of a block pass.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Path {
    /// From the sender to the receiver.
    pub ranks: Vec<u32>,
    /// The first of its chunks, within the block.
    pub first_chunk: u32,
    /// How many chunks it carries.
    pub chunks: u32,
}

impl Path {
    /// How many messages carry each of its chunks.
    pub fn hops(&self) -> usize {
        self.ranks.len() - 1
    }
}

impl Exchange {
    fn new(chunks: u32, paths: Vec<Path>, network: &Network) -> Self {
        let ranks = network.gpus.len();
        let mut sent = vec![0_u128; ranks * ranks];
        for Path { ranks: over, first_chunk: _, chunks } in &paths {
            for hop in over.windows(2) {
                sent[hop[0] as usize * ranks + hop[1] as usize] += u128::from(*chunks);
            }
        }
        let chunks_of_call = u128::from(chunks) * ranks as u128;
        let seconds_per_byte = network.seconds_per_byte(&sent, chunks_of_call);
        Self { chunks, paths, seconds_per_byte }
    }

    /// The most messages that carry a chunk, one after the other.
    pub fn hops(&self) -> usize {
        self.paths.iter().map(Path::hops).max().unwrap_or(0)
    }
}

/// How much is tried.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ExchangeEffort {
    /// The most chunks of a block.
    pub chunks_max: u32,
    /// How far from the bound, in parts of it, few chunks may be.
    pub slack: Ratio<u128>,
    pub limit: TimeLimit,
}

/// A bound, and a schedule that is near to it.
pub(crate) struct BoundedExchange {
    pub bound: Bound,
    pub exchange: Exchange,
}

/// The schedule on `network`, which joins all ranks. `known` is a bound of it, and `routed` is the
/// cluster with the links that routes take.
pub(crate) fn exchange(
    network: &Network,
    routed: &Cluster,
    known: Bound,
    effort: ExchangeEffort,
) -> BoundedExchange {
    let ExchangeEffort { chunks_max, slack, limit } = effort;
    let graph = RankGraph::new(network);
    let solution = lengths::solve(&graph, limit);
    let by_lengths = lengths::bound_of(&solution.lengths, routed);
    let bound = by_lengths.filter(|it| says_more(it, &known)).unwrap_or(known);
    let seconds_per_byte = bound.seconds_per_byte;
    let search = PathSearch { graph: &graph, seconds_per_byte, chunks_max, slack, limit };
    BoundedExchange { bound, exchange: search.exchange() }
}

/// Whether `bound`, which has lengths, shows more time than `known`, or the same by shorter ones. A
/// cut that shows as much is plainer.
fn says_more(bound: &Bound, known: &Bound) -> bool {
    let longest = |bound: &Bound| match &bound.witness {
        Witness::Lengths { links } => links.iter().copied().max().unwrap_or(0),
        Witness::Cut { .. } | Witness::Partition { .. } | Witness::Routes { .. } => 0,
    };
    let [new, old] = [bound, known].map(|it| (it.seconds_per_byte, Reverse(longest(it))));
    new > old
}
