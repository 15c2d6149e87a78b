//! Looks at a bound where messages take given routes, and believes nothing but these.
//!
//! A witness of [`Theorem::Routes`](crate::Theorem::Routes) takes time linear in the links of all
//! routes, and in the pairs of ranks times its crossings.

use msccl_collective::{CollectiveKind, Rank};
use msccl_topology::cluster::{Cluster, VertexIndex};
use num_rational::Ratio;

use crate::bound::{Bound, Crossing, Routes, SwitchModel, VertexSet, Witness};
use crate::check::{
    Time, WitnessError, blocks_leaving, calls_leaving_groups, check_claim, check_links, mb_per_s,
    partition_of, witnessed,
};

/// Whether the witness of `bound` shows exactly its time on `cluster`, where messages take
/// `routes`.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use msccl_bounds::{Bound, Crossing, SwitchModel, Witness, check_over_routes};
/// use msccl_collective::CollectiveKind;
/// use msccl_topology::bandwidth::Bandwidth;
/// use msccl_topology::cluster::{Cluster, Medium, VertexKind};
/// use num_rational::Ratio;
///
/// let mut cluster = Cluster::new("two GPUs");
/// let [one, other] = ["gpu0", "gpu1"].map(|name| cluster.add(name, VertexKind::Gpu, Some(0)));
/// cluster.join(one, other, Bandwidth::from_mb_per_s(50_000), 900, Medium::NvLink);
/// let routes = [vec![None, Some(vec![0])], vec![Some(vec![1]), None]];
/// // Half of the bytes leave each GPU, and both links carry them.
/// let crossings = [one, other].map(|gpu| Crossing { weight: 1, groups: vec![[gpu].into()] });
/// let mut bound = Bound {
///     kind: CollectiveKind::AllGather,
///     switches: SwitchModel::Forward,
///     seconds_per_byte: Ratio::new(1, 2 * 50_000_000_000),
///     witness: Witness::Routes { crossings: crossings.to_vec(), links: vec![1, 1] },
/// };
/// check_over_routes(&cluster, &routes, &bound)?;
/// // Without a length of the second link, the message over it crosses more than its route is long.
/// bound.witness = Witness::Routes { crossings: crossings.to_vec(), links: vec![1, 0] };
/// assert!(check_over_routes(&cluster, &routes, &bound).is_err());
/// # Ok(())
/// # }
/// ```
pub fn check_over_routes(
    cluster: &Cluster,
    routes: &Routes,
    bound: &Bound,
) -> Result<(), WitnessError> {
    let Bound { kind, switches, seconds_per_byte: _, witness } = bound;
    check_claim(bound, witnessed_over_routes(cluster, routes, *kind, *switches, witness)?)
}

/// The time per byte that `witness` shows for `kind` on `cluster`, where messages take `routes`:
/// a bound, whoever made the witness.
///
/// # Errors
///
/// It shows none.
pub fn witnessed_over_routes(
    cluster: &Cluster,
    routes: &Routes,
    kind: CollectiveKind,
    switches: SwitchModel,
    witness: &Witness,
) -> Result<Ratio<u128>, WitnessError> {
    let Witness::Routes { crossings, links } = witness else {
        return witnessed(cluster, kind, switches, witness);
    };
    check_links(cluster)?;
    let call = RoutedCall { cluster, routes, kind, switches };
    routes_time(&call, crossings, links)?.seconds_per_byte()
}

/// A collective on a cluster on which messages take given routes.
#[derive(Clone, Copy)]
struct RoutedCall<'a> {
    cluster: &'a Cluster,
    routes: &'a Routes,
    kind: CollectiveKind,
    switches: SwitchModel,
}

/// By rank: the group of its GPU.
type GroupOf = Vec<Option<usize>>;

/// What crosses, by the rates of links, if no route is too short.
fn routes_time(
    call: &RoutedCall<'_>,
    crossings: &[Crossing],
    lengths: &[u32],
) -> Result<Time, WitnessError> {
    let links = call.cluster.links();
    if links.len() != lengths.len() {
        return Err(WitnessError::WrongCount { expected: links.len(), found: lengths.len() });
    }
    let mut work = 0;
    let mut weighted = Vec::with_capacity(crossings.len());
    for Crossing { weight, groups } in crossings {
        work += u128::from(*weight) * blocks_crossing(call, groups)?;
        weighted.push((u128::from(*weight), groups_of_ranks(call.cluster, groups)));
    }
    check_routes(call, &weighted, lengths)?;
    let offered = links.iter().zip(lengths).map(|(link, it)| mb_per_s(link) * u128::from(*it));
    Ok(Time { work, rate: call.cluster.gpus().count() as u128 * offered.sum::<u128>() })
}

/// How many blocks leave one of `groups`; a call has one for each GPU.
fn blocks_crossing(call: &RoutedCall<'_>, groups: &[VertexSet]) -> Result<u128, WitnessError> {
    let RoutedCall { cluster, routes: _, kind, switches } = *call;
    match groups {
        [] => Err(WitnessError::NothingToSend),
        [inside] => blocks_leaving(cluster, kind, inside),
        groups => {
            partition_of(cluster, kind, switches, groups)?;
            Ok(calls_leaving_groups(groups) * cluster.gpus().count() as u128)
        }
    }
}

fn groups_of_ranks(cluster: &Cluster, groups: &[VertexSet]) -> GroupOf {
    let group_of = |gpu: VertexIndex| groups.iter().position(|group| group.contains(&gpu));
    cluster.gpus().map(group_of).collect()
}

/// No message may cross more than its route is long. Links without a rate carry none.
fn check_routes(
    call: &RoutedCall<'_>,
    crossings: &[(u128, GroupOf)],
    lengths: &[u32],
) -> Result<(), WitnessError> {
    let crosses = |group_of: &GroupOf, from: usize, to: usize| {
        let group = |rank: usize| group_of.get(rank).copied().flatten();
        group(from).is_some() && group(from) != group(to)
    };
    let links = call.cluster.links();
    let carries = |link: &usize| links.get(*link).is_some_and(|link| mb_per_s(link) > 0);
    for (from, routes) in call.routes.iter().enumerate() {
        for (to, route) in routes.iter().enumerate() {
            let Some(route) = route.as_ref().filter(|route| route.iter().all(carries)) else {
                continue;
            };
            let length = route.iter().map(|link| lengths.get(*link).copied().unwrap_or(0));
            let length = length.map(u128::from).sum();
            let crossed = crossings.iter().filter(|(_, group_of)| crosses(group_of, from, to));
            let weight = crossed.map(|(weight, _)| weight).sum();
            if weight > length {
                let [from, to] = [from, to].map(|rank| Rank(rank as u32));
                return Err(WitnessError::RouteTooShort { from, to, length, weight });
            }
        }
    }
    Ok(())
}
