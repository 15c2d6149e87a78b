//! Whether a bound is the best possible, as far as that is known.

use msccl_collective::CollectiveKind;
use msccl_topology::cluster::{Cluster, VertexIndex, VertexKind};

use num_rational::Ratio;

use crate::bound::{Bound, SwitchModel};
use crate::search;

/// How near schedules come to a bound, latency aside.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Optimum {
    /// As near as one likes, if they cut data finely enough: no larger bound holds.
    Reached,
    /// Nobody has shown that they do, for this reason.
    NotKnown(Reason),
}

/// Why it is not known whether a bound is the best possible.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Reason {
    /// More rate leads to a vertex than away from it, or less: trees then do not pack.
    UnevenRates {
        /// The first such vertex.
        vertex: VertexIndex,
    },
    /// A reduce-scatter and then an all-gather take longer than the bound of an all-reduce, and
    /// nobody knows whether something else is faster.
    AllReduce {
        /// What both take one after the other at best, in seconds per byte; `None` if even that is
        /// not known.
        two_phases: Option<Ratio<u128>>,
    },
    /// The search tried some witnesses of an all-to-all, not all.
    AllToAll,
}

/// How near schedules come to `bound`, which is one of `cluster`.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use msccl_bounds::{Optimum, Reason, SwitchModel, bound, optimum};
/// use msccl_collective::CollectiveKind;
/// use msccl_topology::cluster::presets::preset;
///
/// let cluster = preset("mi300x-8").ok_or("no such preset")?;
/// let of = |kind| bound(&cluster, kind, SwitchModel::Forward).map(|it| optimum(&cluster, &it));
/// assert_eq!(of(CollectiveKind::AllReduce)?, Optimum::Reached);
/// assert_eq!(of(CollectiveKind::AllToAll)?, Optimum::NotKnown(Reason::AllToAll));
/// # Ok(())
/// # }
/// ```
pub fn optimum(cluster: &Cluster, bound: &Bound) -> Optimum {
    match bound.kind {
        CollectiveKind::AllGather
        | CollectiveKind::ReduceScatter
        | CollectiveKind::Broadcast(_)
        | CollectiveKind::Reduce(_) => match uneven(cluster) {
            None => Optimum::Reached,
            Some(vertex) => Optimum::NotKnown(Reason::UnevenRates { vertex }),
        },
        CollectiveKind::Gather(_) | CollectiveKind::Scatter(_) => Optimum::Reached,
        CollectiveKind::AllReduce => all_reduce(cluster, bound),
        CollectiveKind::AllToAll => Optimum::NotKnown(Reason::AllToAll),
    }
}

fn all_reduce(cluster: &Cluster, bound: &Bound) -> Optimum {
    let Bound { kind: _, switches, seconds_per_byte, witness: _ } = bound;
    let two_phases = two_phases(cluster, *switches);
    let by_switches = match switches {
        SwitchModel::Forward => false,
        // Each GPU sends all that it has, and the switch adds.
        SwitchModel::Compute => is_even_star(cluster),
    };
    if by_switches || two_phases == Some(*seconds_per_byte) {
        Optimum::Reached
    } else {
        Optimum::NotKnown(Reason::AllReduce { two_phases })
    }
}

/// What a reduce-scatter and an all-gather take one after the other, if both reach their bounds.
fn two_phases(cluster: &Cluster, switches: SwitchModel) -> Option<Ratio<u128>> {
    if uneven(cluster).is_some() {
        return None;
    }
    let phase = |kind| search::bound(cluster, kind, switches).ok().map(|it| it.seconds_per_byte);
    Some(phase(CollectiveKind::ReduceScatter)? + phase(CollectiveKind::AllGather)?)
}

/// The first vertex to which another rate leads than away from it.
fn uneven(cluster: &Cluster) -> Option<VertexIndex> {
    let mut surplus = vec![0_i128; cluster.vertices().len()];
    for link in cluster.links() {
        let rate = i128::from(link.rate.mb_per_s());
        surplus[link.from.index()] -= rate;
        surplus[link.to.index()] += rate;
    }
    let at = surplus.iter().position(|surplus| *surplus != 0)?;
    Some(VertexIndex(at as u32))
}

/// Whether all that there is are GPUs, each with one link to and one from the same switch, all of
/// one rate.
fn is_even_star(cluster: &Cluster) -> bool {
    let (vertices, links) = (cluster.vertices(), cluster.links());
    let kind = |at: VertexIndex| vertices[at.index()].kind;
    let Some(first) = links.first() else { return false };
    let centre = if kind(first.from) == VertexKind::Gpu { first.to } else { first.from };
    if kind(centre) == VertexKind::Gpu {
        return false;
    }
    let mut ways = vec![(0, 0); vertices.len()];
    for link in links {
        if link.rate != first.rate {
            return false;
        }
        match (link.from == centre, link.to == centre) {
            (true, false) => ways[link.to.index()].0 += 1,
            (false, true) => ways[link.from.index()].1 += 1,
            (true, true) | (false, false) => return false,
        }
    }
    let mut others = (0..).map(VertexIndex).zip(ways).filter(|(at, _)| *at != centre);
    others.all(|(at, ways)| match kind(at) {
        VertexKind::Gpu => ways == (1, 1),
        VertexKind::Switch | VertexKind::Nic | VertexKind::Network => ways == (0, 0),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{SwitchModel, bound};
    use msccl_collective::Rank;
    use msccl_topology::bandwidth::Bandwidth;
    use msccl_topology::cluster::{ClusterLink, Medium};

    fn star() -> Cluster {
        let mut cluster = Cluster::new("a switch");
        let switch = cluster.add("switch", VertexKind::Switch, Some(0));
        for rank in 0..4 {
            let gpu = cluster.add(format!("gpu{rank}"), VertexKind::Gpu, Some(0));
            cluster.join(gpu, switch, Bandwidth::from_mb_per_s(1000), 500, Medium::NvLink);
        }
        cluster
    }

    fn of(cluster: &Cluster, kind: CollectiveKind) -> Optimum {
        optimum(cluster, &bound(cluster, kind, SwitchModel::Forward).unwrap())
    }

    #[test]
    fn one_switch_with_equal_rates_is_known() {
        let mut cluster = star();
        assert_eq!(of(&cluster, CollectiveKind::AllReduce), Optimum::Reached);
        let other = Optimum::NotKnown(Reason::AllToAll);
        assert_eq!(of(&cluster, CollectiveKind::AllToAll), other);
        let compute = |cluster: &Cluster| {
            let found = bound(cluster, CollectiveKind::AllReduce, SwitchModel::Compute).unwrap();
            optimum(cluster, &found)
        };
        assert_eq!(compute(&cluster), Optimum::Reached);
        let [from, to] = ["gpu0", "gpu1"].map(|name| cluster.find(name).unwrap());
        cluster.join(from, to, Bandwidth::from_mb_per_s(1000), 500, Medium::NvLink);
        let two_phases = Some(Ratio::new(6, 4 * 1_000_000_000));
        assert_eq!(compute(&cluster), Optimum::NotKnown(Reason::AllReduce { two_phases }));
        assert_eq!(of(&cluster, CollectiveKind::AllGather), Optimum::Reached);
    }

    #[test]
    fn links_of_one_direction_are_uneven() {
        let mut cluster = star();
        let [from, to] = ["gpu0", "gpu1"].map(|name| cluster.find(name).unwrap());
        let rate = Bandwidth::from_mb_per_s(1);
        cluster.add_link(ClusterLink { from, to, rate, latency_ns: 0, medium: Medium::Pci });
        let uneven = Optimum::NotKnown(Reason::UnevenRates { vertex: from });
        assert_eq!(of(&cluster, CollectiveKind::AllGather), uneven);
        assert_eq!(of(&cluster, CollectiveKind::Gather(Rank(0))), Optimum::Reached);
    }
}
