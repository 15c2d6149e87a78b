//! The best bound that can be found for a collective.

use std::collections::BTreeSet;

use msccl_collective::CollectiveKind;
use msccl_topology::cluster::{Cluster, VertexIndex};
use num_rational::Ratio;

use crate::balls::best_ball;
use crate::bound::{BYTES_PER_MEGABYTE, Bound, BoundError, SwitchModel, VertexSet, Witness};
use crate::cut::{BestCut, CutQuestion};
use crate::graph::Graph;
use crate::lengths::best_lengths;
use crate::partition::Partition;

/// The largest lower bound found for `kind` on `cluster`, where switches do what `switches` says.
///
/// The bound is exact, and [`check`](crate::check()) accepts it. The page of the crate says for
/// which collectives it is the optimum.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use msccl_bounds::{SwitchModel, Theorem, bound};
/// use msccl_collective::CollectiveKind;
/// use msccl_topology::bandwidth::Bandwidth;
/// use msccl_topology::cluster::{Cluster, Medium, VertexKind};
///
/// let mut cluster = Cluster::new("eight GPUs behind a switch");
/// let switch = cluster.add("switch", VertexKind::Switch, Some(0));
/// for rank in 0..8 {
///     let gpu = cluster.add(format!("gpu{rank}"), VertexKind::Gpu, Some(0));
///     cluster.join(gpu, switch, Bandwidth::from_mb_per_s(1000), 500, Medium::NvLink);
/// }
/// // 2(N − 1)/N bytes of each byte pass the link of a GPU of 1 GB/s …
/// let found = bound(&cluster, CollectiveKind::AllReduce, SwitchModel::Forward)?;
/// assert_eq!(found.theorem(), Theorem::Partition);
/// assert_eq!(found.seconds_per_byte.to_string(), "7/4000000000");
/// // … unless the switch adds.
/// let found = bound(&cluster, CollectiveKind::AllReduce, SwitchModel::Compute)?;
/// assert_eq!(found.theorem(), Theorem::Cut);
/// assert_eq!(found.seconds_per_byte.to_string(), "1/1000000000");
/// # Ok(())
/// # }
/// ```
pub fn bound(
    cluster: &Cluster,
    kind: CollectiveKind,
    switches: SwitchModel,
) -> Result<Bound, BoundError> {
    let graph = Graph::new(cluster)?;
    let root = graph.root(kind)?;
    let search = Search { cluster, graph };
    let found = match kind {
        CollectiveKind::AllGather => search.all_gather()?,
        CollectiveKind::ReduceScatter => search.reduce_scatter()?,
        CollectiveKind::AllReduce => search.all_reduce(switches)?,
        CollectiveKind::AllToAll => search.all_to_all()?,
        CollectiveKind::Broadcast(_) => search.broadcast(root, Direction::Along)?,
        CollectiveKind::Reduce(_) => search.broadcast(root, Direction::Against)?,
        CollectiveKind::Gather(_) => search.gather(root, Direction::Along)?,
        CollectiveKind::Scatter(_) => search.gather(root, Direction::Against)?,
    };
    let Found { seconds_per_byte, witness } = found;
    Ok(Bound { kind, switches, seconds_per_byte, witness })
}

/// Whether data goes as the links do, or the question is the mirror image of one that does.
#[derive(Clone, Copy)]
enum Direction {
    Along,
    Against,
}

struct Search<'a> {
    cluster: &'a Cluster,
    graph: Graph,
}

/// A time, and what shows it.
struct Found {
    seconds_per_byte: Ratio<u128>,
    witness: Witness,
}

impl Search<'_> {
    fn all_gather(&self) -> Result<Found, BoundError> {
        let cut = self.cut(self.gpu_weights(), self.graph.gpus.clone(), Direction::Along)?;
        Ok(self.blocks_over(&cut, Direction::Along))
    }

    fn reduce_scatter(&self) -> Result<Found, BoundError> {
        let cut = self.cut(self.gpu_weights(), self.graph.gpus.clone(), Direction::Against)?;
        Ok(self.blocks_over(&cut, Direction::Against))
    }

    fn gather(&self, root: Option<usize>, direction: Direction) -> Result<Found, BoundError> {
        let root = root.unwrap_or(self.graph.gpus[0]);
        let cut = self.cut(self.gpu_weights(), vec![root], direction)?;
        Ok(self.blocks_over(&cut, direction))
    }

    fn broadcast(&self, root: Option<usize>, direction: Direction) -> Result<Found, BoundError> {
        let root = root.unwrap_or(self.graph.gpus[0]);
        let mut weights = vec![0; self.graph.vertex_count];
        weights[root] = 1;
        let others = self.graph.gpus.iter().copied().filter(|gpu| *gpu != root).collect();
        let cut = self.cut(weights, others, direction)?;
        let seconds_per_byte = Ratio::new(1, u128::from(cut.rate_mb_per_s) * BYTES_PER_MEGABYTE);
        Ok(Found { seconds_per_byte, witness: cut_witness(&cut.inside, direction) })
    }

    /// A cut with GPUs on both sides has the first one inside or outside.
    fn all_reduce(&self, switches: SwitchModel) -> Result<Found, BoundError> {
        let leaving = self.broadcast(None, Direction::Along)?;
        let best = leaving.or_slower(self.broadcast(None, Direction::Against)?);
        let partitions = match switches {
            SwitchModel::Forward => Partition::candidates(self.cluster, &self.graph),
            SwitchModel::Compute => Vec::new(),
        };
        let found = partitions.iter().map(|partition| self.sums_between(partition));
        Ok(found.fold(best, Found::or_slower))
    }

    fn all_to_all(&self) -> Result<Found, BoundError> {
        let all = || self.graph.gpus.clone();
        let mut sets = Vec::new();
        for direction in [Direction::Along, Direction::Against] {
            sets.push(self.cut(self.gpu_weights(), all(), direction)?.inside);
        }
        for partition in Partition::candidates(self.cluster, &self.graph) {
            sets.extend(partition.groups().iter().map(|group| self.flags(group)));
        }
        let lengths = best_lengths(&self.graph);
        sets.push(best_ball(&self.graph, &lengths.lengths));
        let mut links = vec![0; self.cluster.links().len()];
        for (arc, length) in self.graph.arcs.iter().zip(&lengths.lengths) {
            links[arc.link] = *length as u32;
        }
        let witness = Witness::Lengths { links };
        let by_lengths = Found { seconds_per_byte: lengths.seconds_per_byte, witness };
        let complements: Vec<Vec<bool>> =
            sets.iter().map(|set| set.iter().map(|is_inside| !is_inside).collect()).collect();
        let cuts = sets.iter().chain(&complements).map(|inside| self.pairs_over(inside));
        // Of two that show as much, a cut says more than lengths.
        Ok(match cuts.reduce(Found::or_slower) {
            Some(cut) => cut.or_slower(by_lengths),
            None => by_lengths,
        })
    }

    /// The best cut of [`CutQuestion`], on the graph or on the reversed one.
    fn cut(
        &self,
        weights: Vec<u64>,
        sinks: Vec<usize>,
        direction: Direction,
    ) -> Result<BestCut, BoundError> {
        let no_path = |from, to| BoundError::no_path(self.cluster, from, to);
        match direction {
            Direction::Along => {
                let question = CutQuestion { graph: &self.graph, weights, sinks };
                question.solve().map_err(|pair| no_path(pair.from, pair.to))
            }
            Direction::Against => {
                let graph = self.graph.reversed();
                let question = CutQuestion { graph: &graph, weights, sinks };
                question.solve().map_err(|pair| no_path(pair.to, pair.from))
            }
        }
    }

    /// Weight 1 for every GPU.
    fn gpu_weights(&self) -> Vec<u64> {
        self.flags(&self.graph.gpus).into_iter().map(u64::from).collect()
    }

    fn flags(&self, vertices: &[usize]) -> Vec<bool> {
        let mut flags = vec![false; self.graph.vertex_count];
        vertices.iter().for_each(|at| flags[*at] = true);
        flags
    }

    fn gpu_count(&self) -> u128 {
        self.graph.gpus.len() as u128
    }

    /// The blocks of `cut` that pass its links.
    fn blocks_over(&self, cut: &BestCut, direction: Direction) -> Found {
        let rate = u128::from(cut.rate_mb_per_s) * BYTES_PER_MEGABYTE;
        let seconds_per_byte = Ratio::new(u128::from(cut.weight), self.gpu_count() * rate);
        Found { seconds_per_byte, witness: cut_witness(&cut.inside, direction) }
    }

    /// The blocks of an all-to-all that leave `inside`.
    fn pairs_over(&self, inside: &[bool]) -> Found {
        let senders = self.graph.gpus.iter().filter(|gpu| inside[**gpu]).count() as u128;
        let pairs = senders * (self.gpu_count() - senders);
        // Where there are pairs, some rate leaves: every GPU has a path to every other one.
        let rate = u128::from(self.graph.rate_leaving(inside)).max(1) * BYTES_PER_MEGABYTE;
        let seconds_per_byte = Ratio::new(pairs, self.gpu_count() * rate);
        Found { seconds_per_byte, witness: cut_witness(inside, Direction::Along) }
    }

    /// The parts of sums and the sums of an all-reduce that leave groups.
    fn sums_between(&self, partition: &Partition) -> Found {
        let sums = 2 * (partition.groups().len() as u128 - 1);
        // As each group has a path to the others, some rate leaves it.
        let rate = u128::from(partition.rate_leaving(&self.graph)) * BYTES_PER_MEGABYTE;
        let groups = partition.groups().iter();
        let groups = groups.map(|group| group.iter().map(|at| VertexIndex(*at as u32)).collect());
        let witness = Witness::Partition { groups: groups.collect() };
        Found { seconds_per_byte: Ratio::new(sums, rate), witness }
    }
}

impl Found {
    /// The one that shows more time; the first one if they show the same.
    fn or_slower(self, other: Self) -> Self {
        if other.seconds_per_byte > self.seconds_per_byte { other } else { self }
    }
}

/// What the links leave: of a reversed graph, that is the other side.
fn cut_witness(inside: &[bool], direction: Direction) -> Witness {
    let is_left = match direction {
        Direction::Along => true,
        Direction::Against => false,
    };
    let vertices = (0..).zip(inside).filter(|(_, is_inside)| **is_inside == is_left);
    let inside: VertexSet = vertices.map(|(at, _)| VertexIndex(at)).collect::<BTreeSet<_>>();
    Witness::Cut { inside }
}
