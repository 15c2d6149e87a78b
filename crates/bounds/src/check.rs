//! Looks at a bound and its witness, and believes nothing else.
//!
//! Nothing here is shared with the search but the types of `bound` and `latency`. A cut, a
//! partition and a latency take time linear in the size of the cluster. Lengths take the shortest
//! paths from each GPU.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::fmt;

use msccl_collective::{CollectiveKind, Rank};
use msccl_topology::cluster::{Cluster, ClusterLink, VertexIndex, VertexKind};
use num_rational::Ratio;

use crate::bound::{Bound, SwitchModel, Theorem, VertexSet, Witness};
use crate::latency::LatencyBound;

/// Why a witness does not show its bound.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum WitnessError {
    /// A vertex or the end of a link does not exist.
    NoSuchVertex {
        /// What is named.
        vertex: VertexIndex,
        /// How many vertices the cluster has.
        vertices: usize,
    },
    /// The theorem says nothing about the collective on such switches.
    WrongTheorem {
        /// What the witness is for.
        theorem: Theorem,
        /// What is bounded.
        kind: CollectiveKind,
    },
    /// No data of the collective must leave the cut.
    NothingToSend,
    /// No link leaves what data must leave, so that no time suffices.
    NoRate,
    /// Two groups have a vertex in common.
    GroupsOverlap {
        /// The name of the vertex.
        vertex: String,
    },
    /// A group has no GPU.
    GroupWithoutGpu {
        /// Its place among the groups.
        group: usize,
    },
    /// No group has a GPU.
    GpuLeftOut {
        /// Its name.
        gpu: String,
    },
    /// There is not one number for each link or vertex.
    WrongCount {
        /// How many links or vertices there are.
        expected: usize,
        /// How many numbers there are.
        found: usize,
    },
    /// The witness is about the routes of messages, and none are given.
    NeedsRoutes,
    /// A message crosses more than its route is long.
    RouteTooShort {
        /// The rank that sends it.
        from: Rank,
        /// The rank that receives it.
        to: Rank,
        /// The lengths of its links together.
        length: u128,
        /// The weights of what it crosses together.
        weight: u128,
    },
    /// A vertex is nearer than the witness says.
    TooFar {
        /// Its name.
        vertex: String,
    },
    /// The collective does not bring data from one of the two vertices to the other.
    NotNeeded {
        /// The vertex that has data.
        from: VertexIndex,
        /// The vertex that is said to need it.
        to: VertexIndex,
    },
    /// The witness shows another time.
    Differs {
        /// What the bound says.
        claimed: String,
        /// What the witness shows.
        shown: String,
    },
}

/// Whether the witness of `bound` shows exactly its time on `cluster`.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use msccl_bounds::{SwitchModel, Witness, WitnessError, bound, check};
/// use msccl_collective::CollectiveKind;
/// use msccl_topology::bandwidth::Bandwidth;
/// use msccl_topology::cluster::{Cluster, Medium, VertexKind};
///
/// let mut cluster = Cluster::new("two GPUs");
/// let [one, other] = ["gpu0", "gpu1"].map(|name| cluster.add(name, VertexKind::Gpu, Some(0)));
/// cluster.join(one, other, Bandwidth::from_mb_per_s(50_000), 900, Medium::NvLink);
/// let mut found = bound(&cluster, CollectiveKind::AllReduce, SwitchModel::Compute)?;
/// check(&cluster, &found)?;
/// found.witness = Witness::Cut { inside: [one, other].into() };
/// assert_eq!(check(&cluster, &found), Err(WitnessError::NothingToSend));
/// # Ok(())
/// # }
/// ```
pub fn check(cluster: &Cluster, bound: &Bound) -> Result<(), WitnessError> {
    check_claim(bound, witnessed(cluster, bound.kind, bound.switches, &bound.witness)?)
}

/// Whether `bound` says what its witness has `shown`.
pub(crate) fn check_claim(bound: &Bound, shown: Ratio<u128>) -> Result<(), WitnessError> {
    let seconds_per_byte = &bound.seconds_per_byte;
    if *seconds_per_byte.denom() == 0 || *seconds_per_byte != shown {
        let claimed = format!("{} s", seconds_per_byte);
        return Err(WitnessError::Differs { claimed, shown: format!("{shown} s") });
    }
    Ok(())
}

/// The time per byte that `witness` shows for `kind` on `cluster`, where switches do what
/// `switches` says: a bound, whoever made the witness.
///
/// # Errors
///
/// It shows none, or only where the routes of messages are known.
pub fn witnessed(
    cluster: &Cluster,
    kind: CollectiveKind,
    switches: SwitchModel,
    witness: &Witness,
) -> Result<Ratio<u128>, WitnessError> {
    check_links(cluster)?;
    let shown = match witness {
        Witness::Cut { inside } => cut_time(cluster, kind, inside)?,
        Witness::Partition { groups } => partition_time(cluster, kind, switches, groups)?,
        Witness::Lengths { links } => lengths_time(cluster, kind, links)?,
        Witness::Routes { .. } => return Err(WitnessError::NeedsRoutes),
    };
    shown.seconds_per_byte()
}

/// Whether the distances of `bound` show its time on `cluster`.
///
/// [`latency`](crate::latency()) has an example.
pub fn check_latency(cluster: &Cluster, bound: &LatencyBound) -> Result<(), WitnessError> {
    let LatencyBound { kind, nanoseconds, from, to, distances_ns } = bound;
    check_links(cluster)?;
    let gpus: Vec<VertexIndex> = cluster.gpus().collect();
    let is_root = |root: Rank, vertex| gpus.get(root.0 as usize) == Some(vertex);
    let is_needed = match *kind {
        CollectiveKind::AllReduce
        | CollectiveKind::AllGather
        | CollectiveKind::ReduceScatter
        | CollectiveKind::AllToAll => true,
        CollectiveKind::Broadcast(root) | CollectiveKind::Scatter(root) => is_root(root, from),
        CollectiveKind::Reduce(root) | CollectiveKind::Gather(root) => is_root(root, to),
    };
    let are_gpus = gpus.contains(from) && gpus.contains(to);
    if !is_needed || !are_gpus || from == to {
        return Err(WitnessError::NotNeeded { from: *from, to: *to });
    }
    let (expected, found) = (cluster.vertices().len(), distances_ns.len());
    if expected != found {
        return Err(WitnessError::WrongCount { expected, found });
    }
    if distances_ns[from.index()] != 0 {
        return Err(too_far(cluster, *from));
    }
    for link in cluster.links().iter().filter(|link| mb_per_s(link) > 0) {
        let allowed = distances_ns[link.from.index()].saturating_add(link.latency_ns.into());
        if distances_ns[link.to.index()] > allowed {
            return Err(too_far(cluster, link.to));
        }
    }
    let shown = distances_ns[to.index()];
    if shown != *nanoseconds {
        let [claimed, shown] = [nanoseconds, &shown].map(|time| format!("{time} ns"));
        return Err(WitnessError::Differs { claimed, shown });
    }
    Ok(())
}

/// How long a call of one megabyte takes: `work / rate` seconds.
pub(crate) struct Time {
    pub work: u128,
    pub rate: u128,
}

impl Time {
    pub fn seconds_per_byte(self) -> Result<Ratio<u128>, WitnessError> {
        let Self { work, rate } = self;
        if rate == 0 {
            return Err(WitnessError::NoRate);
        }
        // The work is in calls, the rate in calls of a megabyte a second.
        Ok(Ratio::new(work, rate * 1_000_000))
    }
}

fn cut_time(
    cluster: &Cluster,
    kind: CollectiveKind,
    inside: &VertexSet,
) -> Result<Time, WitnessError> {
    let blocks = blocks_leaving(cluster, kind, inside)?;
    let leaves = |link: &&ClusterLink| inside.contains(&link.from) && !inside.contains(&link.to);
    let rate: u128 = cluster.links().iter().filter(leaves).map(mb_per_s).sum();
    Ok(Time { work: blocks, rate: cluster.gpus().count() as u128 * rate })
}

/// How many blocks must leave `inside`; a call has one for each GPU.
pub(crate) fn blocks_leaving(
    cluster: &Cluster,
    kind: CollectiveKind,
    inside: &VertexSet,
) -> Result<u128, WitnessError> {
    inside.iter().try_for_each(|vertex| check_vertex(cluster, *vertex))?;
    let gpus: Vec<bool> = cluster.gpus().map(|gpu| inside.contains(&gpu)).collect();
    let senders = gpus.iter().filter(|is_inside| **is_inside).count() as u128;
    let all = gpus.len() as u128;
    let receivers = all - senders;
    if senders == 0 || receivers == 0 {
        return Err(WitnessError::NothingToSend);
    }
    let has_root = |root: Rank| gpus.get(root.0 as usize) == Some(&true);
    let lacks_root = |root: Rank| gpus.get(root.0 as usize) == Some(&false);
    Ok(match kind {
        CollectiveKind::AllGather => senders,
        CollectiveKind::ReduceScatter => receivers,
        CollectiveKind::AllReduce => all,
        CollectiveKind::AllToAll => senders * receivers,
        CollectiveKind::Broadcast(root) if has_root(root) => all,
        CollectiveKind::Reduce(root) if lacks_root(root) => all,
        CollectiveKind::Gather(root) if lacks_root(root) => senders,
        CollectiveKind::Scatter(root) if has_root(root) => receivers,
        CollectiveKind::Broadcast(_)
        | CollectiveKind::Reduce(_)
        | CollectiveKind::Gather(_)
        | CollectiveKind::Scatter(_) => return Err(WitnessError::NothingToSend),
    })
}

fn partition_time(
    cluster: &Cluster,
    kind: CollectiveKind,
    switches: SwitchModel,
    groups: &[VertexSet],
) -> Result<Time, WitnessError> {
    let group_of = partition_of(cluster, kind, switches, groups)?;
    let leaves = |link: &&ClusterLink| {
        let from = group_of[link.from.index()];
        from.is_some() && from != group_of[link.to.index()]
    };
    let rate = cluster.links().iter().filter(leaves).map(mb_per_s).sum();
    Ok(Time { work: calls_leaving_groups(groups), rate })
}

/// How many times the bytes of an all-reduce leave groups.
pub(crate) fn calls_leaving_groups(groups: &[VertexSet]) -> u128 {
    2 * (groups.len() as u128 - 1)
}

/// By vertex: its group, in a partition that [`Theorem::Partition`] speaks of.
pub(crate) fn partition_of(
    cluster: &Cluster,
    kind: CollectiveKind,
    switches: SwitchModel,
    groups: &[VertexSet],
) -> Result<Vec<Option<usize>>, WitnessError> {
    if kind != CollectiveKind::AllReduce || switches != SwitchModel::Forward {
        return Err(WitnessError::WrongTheorem { theorem: Theorem::Partition, kind });
    }
    let mut group_of: Vec<Option<usize>> = vec![None; cluster.vertices().len()];
    for (group, members) in groups.iter().enumerate() {
        for &member in members {
            check_vertex(cluster, member)?;
            if group_of[member.index()].replace(group).is_some() {
                let vertex = cluster.vertices()[member.index()].name.clone();
                return Err(WitnessError::GroupsOverlap { vertex });
            }
        }
        let is_gpu = |at: &VertexIndex| cluster.vertices()[at.index()].kind == VertexKind::Gpu;
        if !members.iter().any(is_gpu) {
            return Err(WitnessError::GroupWithoutGpu { group });
        }
    }
    if let Some(gpu) = cluster.gpus().find(|gpu| group_of[gpu.index()].is_none()) {
        let gpu = cluster.vertices()[gpu.index()].name.clone();
        return Err(WitnessError::GpuLeftOut { gpu });
    }
    if groups.len() < 2 {
        return Err(WitnessError::NothingToSend);
    }
    Ok(group_of)
}

fn lengths_time(
    cluster: &Cluster,
    kind: CollectiveKind,
    lengths: &[u32],
) -> Result<Time, WitnessError> {
    if kind != CollectiveKind::AllToAll {
        return Err(WitnessError::WrongTheorem { theorem: Theorem::Lengths, kind });
    }
    let (expected, found) = (cluster.links().len(), lengths.len());
    if expected != found {
        return Err(WitnessError::WrongCount { expected, found });
    }
    let mut edges = vec![Vec::new(); cluster.vertices().len()];
    let mut offered = 0;
    for (link, &length) in cluster.links().iter().zip(lengths) {
        offered += mb_per_s(link) * u128::from(length);
        if mb_per_s(link) > 0 {
            edges[link.from.index()].push(Edge { to: link.to.index(), length });
        }
    }
    let gpus: Vec<usize> = cluster.gpus().map(VertexIndex::index).collect();
    let mut distance_sum = 0;
    for &from in &gpus {
        let distances = distances_from(from, &edges);
        for &to in &gpus {
            // Without a path no time suffices, and a bound says too little.
            distance_sum += u128::from(distances[to].ok_or(WitnessError::NoRate)?);
        }
    }
    Ok(Time { work: distance_sum, rate: gpus.len() as u128 * offered })
}

#[derive(Clone, Copy)]
struct Edge {
    to: usize,
    length: u32,
}

/// How far each vertex is; `None` where no path leads.
fn distances_from(from: usize, edges: &[Vec<Edge>]) -> Vec<Option<u64>> {
    let mut final_distances = vec![None; edges.len()];
    let mut open = BinaryHeap::from([(Reverse(0_u64), from)]);
    while let Some((Reverse(distance), at)) = open.pop() {
        if final_distances[at].is_some() {
            continue;
        }
        final_distances[at] = Some(distance);
        let fresh = edges[at].iter().filter(|edge| final_distances[edge.to].is_none());
        open.extend(fresh.map(|edge| (Reverse(distance + u64::from(edge.length)), edge.to)));
    }
    final_distances
}

pub(crate) fn check_links(cluster: &Cluster) -> Result<(), WitnessError> {
    let mut ends = cluster.links().iter().flat_map(|link| [link.from, link.to]);
    ends.try_for_each(|vertex| check_vertex(cluster, vertex))
}

fn check_vertex(cluster: &Cluster, vertex: VertexIndex) -> Result<(), WitnessError> {
    let vertices = cluster.vertices().len();
    if vertex.index() < vertices {
        Ok(())
    } else {
        Err(WitnessError::NoSuchVertex { vertex, vertices })
    }
}

fn too_far(cluster: &Cluster, vertex: VertexIndex) -> WitnessError {
    WitnessError::TooFar { vertex: cluster.vertices()[vertex.index()].name.clone() }
}

pub(crate) fn mb_per_s(link: &ClusterLink) -> u128 {
    u128::from(link.rate.mb_per_s())
}

impl fmt::Display for WitnessError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            WitnessError::NoSuchVertex { vertex, vertices } => {
                write!(f, "expected a vertex below {vertices}, found {}", vertex.0)
            }
            WitnessError::WrongTheorem { theorem, kind } => {
                write!(f, "the theorem {theorem:?} does not bound {kind} on such switches")
            }
            WitnessError::NothingToSend => f.write_str("no data must leave the set of the cut"),
            WitnessError::NoRate => f.write_str("no link carries what must be sent"),
            WitnessError::GroupsOverlap { vertex } => {
                write!(f, "expected disjoint groups, found `{vertex}` in two of them")
            }
            WitnessError::GroupWithoutGpu { group } => write!(f, "group {group} has no GPU"),
            WitnessError::GpuLeftOut { gpu } => write!(f, "no group has `{gpu}`"),
            WitnessError::WrongCount { expected, found } => {
                write!(f, "expected {expected} numbers in the witness, found {found}")
            }
            WitnessError::NeedsRoutes => {
                f.write_str("the witness is about routes of messages, and none are known")
            }
            WitnessError::RouteTooShort { from, to, length, weight } => write!(
                f,
                "a message from {from} to {to} crosses {weight}, and its route is {length} long; \
                 it must be as long"
            ),
            WitnessError::TooFar { vertex } => {
                write!(f, "`{vertex}` is nearer than the witness says")
            }
            WitnessError::NotNeeded { from, to } => {
                write!(f, "vertex {} does not need data from vertex {}", to.0, from.0)
            }
            WitnessError::Differs { claimed, shown } => {
                write!(f, "the bound says {claimed}, the witness shows {shown}")
            }
        }
    }
}

impl std::error::Error for WitnessError {}
