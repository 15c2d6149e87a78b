//! How long a call takes at least, however few its bytes are.

use msccl_collective::CollectiveKind;
use msccl_topology::cluster::{Cluster, VertexIndex};

use crate::bound::BoundError;
use crate::graph::Graph;
use crate::shortest_paths::{Measured, UNREACHED};

/// A call of `kind` takes at least `nanoseconds`: what `to` needs to have from `from` takes the
/// latencies of the links on its way, and no way is shorter.
///
/// The latencies of the cluster's links count alone: neither kernels, nor flags, nor reductions.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LatencyBound {
    /// The collective that is bounded.
    pub kind: CollectiveKind,
    /// The least time.
    pub nanoseconds: u64,
    /// The GPU that has the data.
    pub from: VertexIndex,
    /// The GPU whose result depends on it.
    pub to: VertexIndex,
    /// The witness, by vertex: how far at least it is from `from`, in nanoseconds, but no more than
    /// the bound. No link may lead to a vertex that is farther than its latency allows.
    pub distances_ns: Vec<u64>,
}

/// The least time of a call of `kind`: the longest of the shortest paths between GPUs of which one
/// needs what the other has. These are all pairs, or those with the root.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use msccl_bounds::{check_latency, latency};
/// use msccl_collective::{CollectiveKind, Rank};
/// use msccl_topology::bandwidth::Bandwidth;
/// use msccl_topology::cluster::{Cluster, Medium, VertexKind};
///
/// let mut line = Cluster::new("three GPUs in a line");
/// let gpus = [0, 1, 2].map(|rank| line.add(format!("gpu{rank}"), VertexKind::Gpu, Some(0)));
/// for pair in gpus.windows(2) {
///     line.join(pair[0], pair[1], Bandwidth::from_mb_per_s(50_000), 700, Medium::NvLink);
/// }
/// assert_eq!(latency(&line, CollectiveKind::AllReduce)?.nanoseconds, 1400);
/// let from_the_middle = latency(&line, CollectiveKind::Broadcast(Rank(1)))?;
/// assert_eq!(from_the_middle.nanoseconds, 700);
/// check_latency(&line, &from_the_middle)?;
/// # Ok(())
/// # }
/// ```
pub fn latency(cluster: &Cluster, kind: CollectiveKind) -> Result<LatencyBound, BoundError> {
    let graph = Graph::new(cluster)?;
    let root = graph.root(kind)?;
    // To the root is from the root, with every link turned round.
    let is_reversed = matches!(kind, CollectiveKind::Reduce(_) | CollectiveKind::Gather(_));
    let ends = if is_reversed {
        let ends = farthest(&graph.reversed(), root);
        Farthest { origin: ends.destination, destination: ends.origin, ..ends }
    } else {
        farthest(&graph, root)
    };
    if ends.distance == UNREACHED {
        return Err(BoundError::no_path(cluster, ends.origin, ends.destination));
    }
    let paths = measured(&graph).paths_from(ends.origin);
    let limited = paths.distances.iter().map(|distance| (*distance).min(ends.distance));
    Ok(LatencyBound {
        kind,
        nanoseconds: ends.distance,
        from: VertexIndex(ends.origin as u32),
        to: VertexIndex(ends.destination as u32),
        distances_ns: limited.collect(),
    })
}

/// Two GPUs that are far from each other.
struct Farthest {
    origin: usize,
    destination: usize,
    distance: u64,
}

fn measured(graph: &Graph) -> Measured<'_> {
    Measured::new(graph, graph.arcs.iter().map(|arc| u64::from(arc.latency_ns)).collect())
}

/// The pair with the longest shortest path from `root`, or from any GPU.
fn farthest(graph: &Graph, root: Option<usize>) -> Farthest {
    let measured = measured(graph);
    let origins = root.map_or_else(|| graph.gpus.clone(), |root| vec![root]);
    let mut best = Farthest { origin: origins[0], destination: origins[0], distance: 0 };
    for origin in origins {
        let distances = measured.paths_from(origin).distances;
        for &destination in &graph.gpus {
            let distance = distances[destination];
            if distance > best.distance || best.origin == best.destination {
                best = Farthest { origin, destination, distance };
            }
        }
    }
    best
}
