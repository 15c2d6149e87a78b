//! Lengths of links that make an all-to-all look slow.
//!
//! Any lengths give a bound ([`Theorem::Lengths`](crate::Theorem::Lengths)), and the best ones give
//! the optimum: they are the dual of the linear program of flows. The search does not solve it. It
//! begins with two sets of lengths, all equal and the inverse of rates. On clusters that are small
//! enough it goes on with multiplicative weights: links that the shortest paths load most become
//! longer, again and again. It keeps the best lengths of all.

use num_rational::Ratio;

use crate::bound::BYTES_PER_MEGABYTE;
use crate::graph::Graph;
use crate::shortest_paths::{Measured, ShortestPaths};

/// Lengths, and the time per byte that they show.
pub(crate) struct BestLengths {
    pub seconds_per_byte: Ratio<u128>,
    /// By arc of the graph.
    pub lengths: Vec<u64>,
}

/// Length of the longest link.
const LONGEST: u32 = 1 << 20;
/// How many arcs all rounds together may look at.
const WORK_MAX: usize = 4_000_000;
const ROUNDS_MAX: usize = 400;
/// How much longer the most loaded link becomes in a round.
const STEP: f64 = 0.1;

/// One round: what lengths show, and how shortest paths load the links.
struct Round {
    seconds_per_byte: Ratio<u128>,
    /// By arc: how many blocks pass.
    loads: Vec<u64>,
}

/// The best lengths found. Every GPU must have a path to every other one.
pub(crate) fn best_lengths(graph: &Graph) -> BestLengths {
    let equal = vec![1; graph.arcs.len()];
    let inverse = graph.arcs.iter().map(|arc| 1.0 / arc.rate_mb_per_s as f64);
    let mut weights: Vec<f64> = inverse.collect();
    let mut measured = Measured::new(graph, equal.clone());
    let mut best = BestLengths {
        seconds_per_byte: round(graph, &measured, &equal).seconds_per_byte,
        lengths: equal,
    };
    let work = graph.gpus.len() * graph.arcs.len();
    for _ in 0..(WORK_MAX / work).clamp(1, ROUNDS_MAX) {
        let lengths = integers(&weights);
        measured.set_lengths(lengths.clone());
        let found = round(graph, &measured, &lengths);
        if found.seconds_per_byte > best.seconds_per_byte {
            best = BestLengths { seconds_per_byte: found.seconds_per_byte, lengths };
        }
        lengthen(&mut weights, graph, &found.loads);
    }
    best
}

fn round(graph: &Graph, measured: &Measured<'_>, lengths: &[u64]) -> Round {
    let mut loads = vec![0; graph.arcs.len()];
    let mut distance_sum = 0_u128;
    for &origin in &graph.gpus {
        let paths = measured.paths_from(origin);
        let distances = graph.gpus.iter().map(|gpu| u128::from(paths.distances[*gpu]));
        distance_sum += distances.sum::<u128>();
        add_loads(&mut loads, graph, &paths);
    }
    let offered = graph.arcs.iter().zip(lengths);
    let offered: u128 =
        offered.map(|(arc, length)| u128::from(arc.rate_mb_per_s) * u128::from(*length)).sum();
    let blocks = graph.gpus.len() as u128;
    let seconds_per_byte = Ratio::new(distance_sum, blocks * offered * BYTES_PER_MEGABYTE);
    Round { seconds_per_byte, loads }
}

/// Adds a block for each GPU to the links of its path.
fn add_loads(loads: &mut [u64], graph: &Graph, paths: &ShortestPaths) {
    let mut blocks = vec![0; graph.vertex_count];
    graph.gpus.iter().for_each(|gpu| blocks[*gpu] = 1);
    for &at in paths.order.iter().rev() {
        if let Some(arc) = paths.last_arcs[at] {
            loads[arc] += blocks[at];
            blocks[graph.arcs[arc].from] += blocks[at];
        }
    }
}

/// Makes every link longer by its share of the largest use.
fn lengthen(weights: &mut [f64], graph: &Graph, loads: &[u64]) {
    let uses = graph.arcs.iter().zip(loads);
    let uses: Vec<f64> = uses.map(|(arc, load)| *load as f64 / arc.rate_mb_per_s as f64).collect();
    let largest = uses.iter().copied().fold(f64::MIN_POSITIVE, f64::max);
    for (weight, used) in weights.iter_mut().zip(uses) {
        *weight *= 1.0 + STEP * used / largest;
    }
}

/// The weights as lengths; rounding makes the lengths a little worse, and no bound wrong.
fn integers(weights: &[f64]) -> Vec<u64> {
    let largest = weights.iter().copied().fold(f64::MIN_POSITIVE, f64::max);
    let scaled = weights.iter().map(|weight| weight / largest * f64::from(LONGEST));
    scaled.map(|length| length.round() as u64).collect()
}
