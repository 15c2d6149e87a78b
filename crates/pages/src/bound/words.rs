//! Bounds and witnesses in words. `S` stands for the bytes of a call's largest buffer.

use std::collections::{BTreeMap, BTreeSet};

use msccl_bounds::{Bound, Crossing, Optimum, Reason, VertexSet, Witness};
use msccl_topology::bandwidth::Bandwidth;
use msccl_topology::cluster::{Cluster, ClusterLink, Medium, VertexIndex, VertexKind};
use num_rational::Ratio;

use super::counted::counted_links;

/// Bytes in a gigabyte.
const BYTES_PER_GB: u128 = 1_000_000_000;

/// Bytes in a megabyte.
const BYTES_PER_MB: u128 = 1_000_000;

/// Most names and groups that a line lists.
const MOST_LISTED: usize = 8;

/// Decimals of figures that are rounded.
const DECIMALS: usize = 4;

/// `1/50 s/GB (0.02)`: seconds a byte, by gigabytes of a call.
pub fn seconds_per_gb(seconds_per_byte: Ratio<u128>) -> String {
    let exact = seconds_per_byte * BYTES_PER_GB;
    let rounded = rounded(to_f64(exact));
    if exact.is_integer() || exact.to_string() == rounded {
        format!("{exact} s/GB")
    } else {
        format!("{exact} s/GB ({rounded})")
    }
}

/// A number with few decimals, without zeros at its end.
pub fn rounded(number: f64) -> String {
    let text = format!("{number:.DECIMALS$}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// The nearest floating-point number.
pub fn to_f64(ratio: Ratio<u128>) -> f64 {
    *ratio.numer() as f64 / *ratio.denom() as f64
}

/// `25 GB/s`, with as many decimals as there are.
pub fn rate(rate: Bandwidth) -> String {
    format!("{} GB/s", rate.gb_per_s())
}

/// `7/8 · S`
pub fn share(share: Ratio<u128>) -> String {
    if share == Ratio::from_integer(1) { "S".to_owned() } else { format!("{share} · S") }
}

/// The witness of `bound`: what must pass, and the links that it must pass.
pub fn witness(cluster: &Cluster, bound: &Bound) -> String {
    let counted = counted_links(cluster, &bound.witness).unwrap_or_default();
    let counted = cluster.links().iter().zip(counted).filter(|(_, counts)| *counts);
    let counted: Vec<_> = counted.map(|(link, _)| link).collect();
    match &bound.witness {
        Witness::Cut { inside } => cut(cluster, bound, inside, &counted),
        Witness::Partition { groups } => partition(cluster, groups, &counted),
        Witness::Lengths { links } => lengths(cluster, bound, links),
        Witness::Routes { crossings, links } => routes(cluster, bound, crossings, links),
    }
}

/// The witness of `bound` in short, without what must pass it: `cut {node0.*}`.
pub fn witness_in_short(cluster: &Cluster, bound: &Bound) -> String {
    match &bound.witness {
        Witness::Cut { inside } => Side::smaller(cluster, inside).name(cluster),
        Witness::Partition { groups } => partition_name(cluster, groups),
        Witness::Lengths { links: _ } => "lengths of links".to_owned(),
        Witness::Routes { crossings, links: _ } => routes_name(crossings),
    }
}

/// The side of a cut that is named, and how the links that count lie to it.
struct Side {
    named: VertexSet,
    verb: Verb,
}

/// What links do, one or many.
#[derive(Clone, Copy)]
struct Verb {
    one: &'static str,
    many: &'static str,
}

const LEAD: Verb = Verb { one: "leads into it", many: "lead into it" };
const LEAVE: Verb = Verb { one: "leaves it", many: "leave it" };

impl Side {
    /// The side with fewer vertices.
    fn smaller(cluster: &Cluster, inside: &VertexSet) -> Self {
        // What has no links could be on either side.
        let linked: VertexSet = cluster.links().iter().flat_map(|it| [it.from, it.to]).collect();
        let inside: VertexSet = inside.intersection(&linked).copied().collect();
        let outside: VertexSet = linked.difference(&inside).copied().collect();
        if outside.len() < inside.len() {
            Side { named: outside, verb: LEAD }
        } else {
            Side { named: inside, verb: LEAVE }
        }
    }

    fn name(&self, cluster: &Cluster) -> String {
        format!("cut {{{}}}", names(cluster, &self.named))
    }
}

fn cut(cluster: &Cluster, bound: &Bound, inside: &VertexSet, links: &[&ClusterLink]) -> String {
    let side = Side::smaller(cluster, inside);
    let verb = if links.len() == 1 { side.verb.one } else { side.verb.many };
    let passes = share(must_pass(bound, links));
    format!("{}: {} {verb}, {passes} must pass", side.name(cluster), in_number(links))
}

fn partition(cluster: &Cluster, groups: &[VertexSet], links: &[&ClusterLink]) -> String {
    format!(
        "{}: {} leave them, 2 · ({} − 1) · S must pass",
        partition_name(cluster, groups),
        in_number(links),
        groups.len()
    )
}

fn partition_name(cluster: &Cluster, groups: &[VertexSet]) -> String {
    let is_gpu = |at: &&VertexIndex| cluster.vertices()[at.index()].kind == VertexKind::Gpu;
    if groups.iter().all(|group| group.iter().filter(is_gpu).count() == 1) {
        return format!("partition into the {} GPUs", groups.len());
    }
    let first = groups.first().map(|it| names(cluster, it)).unwrap_or_default();
    format!("partition into {{{first}}} and {} more", groups.len().saturating_sub(1))
}

fn lengths(cluster: &Cluster, bound: &Bound, lengths: &[u32]) -> String {
    let Offer { links, gb_per_s, bytes } = Offer::of(cluster, bound, lengths);
    format!(
        "by lengths of links, {links}: blocks travel {bytes} at least, and links offer {gb_per_s} \
         GB/s, both times length"
    )
}

fn routes(cluster: &Cluster, bound: &Bound, crossings: &[Crossing], lengths: &[u32]) -> String {
    let Offer { links, gb_per_s, bytes } = Offer::of(cluster, bound, lengths);
    format!(
        "by {}: with lengths of {links}, no route is shorter than what its messages cross; {bytes} \
         must cross, and links offer {gb_per_s} GB/s times length",
        routes_name(crossings)
    )
}

/// `8 cuts over routes`
fn routes_name(crossings: &[Crossing]) -> String {
    let (cuts, partitions): (Vec<_>, Vec<_>) =
        crossings.iter().partition(|crossing| crossing.groups.len() == 1);
    let number = |count: usize, what: &str| match count {
        0 => None,
        1 => Some(format!("1 {what}")),
        _ => Some(format!("{count} {what}s")),
    };
    let parts = [number(cuts.len(), "cut"), number(partitions.len(), "partition")];
    format!("{} over routes", joined(&parts.into_iter().flatten().collect::<Vec<_>>()))
}

/// What links with lengths offer in the time of a bound.
struct Offer {
    /// The links by length.
    links: String,
    gb_per_s: String,
    bytes: String,
}

impl Offer {
    fn of(cluster: &Cluster, bound: &Bound, lengths: &[u32]) -> Self {
        let divisor = lengths.iter().copied().fold(0, greatest_common_divisor).max(1);
        let lengths: Vec<u32> = lengths.iter().map(|length| length / divisor).collect();
        let mut alike: BTreeMap<(u32, Medium, Bandwidth), Vec<&ClusterLink>> = BTreeMap::new();
        let long = cluster.links().iter().zip(&lengths).filter(|(_, length)| **length > 0);
        for (link, length) in long {
            alike.entry((*length, link.medium, link.rate)).or_default().push(link);
        }
        let shown = alike.iter().rev().take(MOST_LISTED);
        let shown = shown.map(|((length, ..), links)| format!("{length} for {}", in_number(links)));
        let mut shown: Vec<_> = shown.collect();
        if alike.len() > MOST_LISTED {
            shown.push("…".to_owned());
        }
        let offered = cluster.links().iter().zip(&lengths);
        let offered: u128 = offered
            .map(|(link, length)| u128::from(link.rate.mb_per_s()) * u128::from(*length))
            .sum();
        Self {
            links: joined(&shown),
            gb_per_s: rounded(offered as f64 / 1e3),
            bytes: share(bound.seconds_per_byte * offered * BYTES_PER_MB),
        }
    }
}

fn greatest_common_divisor(one: u32, other: u32) -> u32 {
    if other == 0 { one } else { greatest_common_divisor(other, one % other) }
}

/// What must pass `links` together in the time of the bound, which they are busy all along.
fn must_pass(bound: &Bound, links: &[&ClusterLink]) -> Ratio<u128> {
    let rate: u128 = links.iter().map(|link| u128::from(link.rate.mb_per_s())).sum();
    bound.seconds_per_byte * (rate * BYTES_PER_MB)
}

/// `2 links of 25 GB/s (cable) and 4 of 48 GB/s (pci)`
fn in_number(links: &[&ClusterLink]) -> String {
    let mut alike: BTreeMap<(Medium, Bandwidth), usize> = BTreeMap::new();
    for link in links {
        *alike.entry((link.medium, link.rate)).or_default() += 1;
    }
    let all = alike.iter().enumerate().map(|(at, ((medium, of), count))| {
        let links = match (at, count) {
            (0, 1) => "1 link".to_owned(),
            (0, _) => format!("{count} links"),
            _ => count.to_string(),
        };
        format!("{links} of {} ({medium})", rate(*of))
    });
    joined(&all.collect::<Vec<_>>())
}

/// `a, b and c`
fn joined(parts: &[String]) -> String {
    match parts {
        [] => "no link".to_owned(),
        [only] => only.clone(),
        [most @ .., last] => format!("{} and {last}", most.join(", ")),
    }
}

/// Why it is not known whether the bound is the best possible.
pub fn optimum(cluster: &Cluster, optimum: &Optimum) -> String {
    match optimum {
        Optimum::Reached => "schedules come as near to it as one likes".to_owned(),
        Optimum::NotKnown(Reason::AllReduce { two_phases: None }) => {
            "not known to be reached, not even by an all-gather alone".to_owned()
        }
        Optimum::NotKnown(Reason::AllReduce { two_phases: Some(time) }) => format!(
            "not known to be reached: a reduce-scatter, then an all-gather take {} at best",
            seconds_per_gb(*time)
        ),
        Optimum::NotKnown(Reason::AllToAll) => {
            "not known to be reached: the search tries some cuts and lengths, not all".to_owned()
        }
        Optimum::NotKnown(Reason::UnevenRates { vertex }) => format!(
            "not known to be reached: what leads to {} and what leads away have other rates",
            name(cluster, *vertex)
        ),
    }
}

/// The name of a vertex.
pub fn name(cluster: &Cluster, at: VertexIndex) -> &str {
    cluster.vertices().get(at.index()).map_or("?", |vertex| &vertex.name)
}

/// The names of `set`: whole nodes as `node0.*`, neighbours in number as `gpu[0-3]`.
pub fn names(cluster: &Cluster, set: &VertexSet) -> String {
    let whole = whole_nodes(cluster, set);
    let vertices = cluster.vertices();
    let rest = set.iter().filter(|at| {
        let vertex = &vertices[at.index()];
        vertex.node.is_none_or(|node| !whole.contains(&node))
    });
    let nodes = whole.iter().map(|node| format!("node{node}.*")).collect::<Vec<_>>();
    let rest: Vec<String> = rest.map(|at| vertices[at.index()].name.clone()).collect();
    let (mut parts, rest) = (in_runs(&nodes), in_runs(&rest));
    parts.extend(rest);
    if parts.len() > MOST_LISTED {
        let more = parts.len() - MOST_LISTED;
        parts.truncate(MOST_LISTED);
        parts.push(format!("and {more} more"));
    }
    parts.join(" ")
}

/// The nodes of which `set` has all vertices, if there are several nodes.
fn whole_nodes(cluster: &Cluster, set: &VertexSet) -> BTreeSet<u32> {
    let mut nodes: BTreeMap<u32, bool> = BTreeMap::new();
    for (at, vertex) in (0..).map(VertexIndex).zip(cluster.vertices()) {
        let Some(node) = vertex.node else { continue };
        let named = vertex.name.starts_with(&format!("node{node}."));
        *nodes.entry(node).or_insert(true) &= named && set.contains(&at);
    }
    let several = nodes.len() > 1;
    nodes.into_iter().filter(|(_, whole)| *whole && several).map(|(node, _)| node).collect()
}

/// Names that differ by one in their last number, as one: `gpu[0-3]`, `node[0-1].*`.
fn in_runs(names: &[String]) -> Vec<String> {
    let parts: Vec<_> = names.iter().map(|name| NumberedName::of(name)).collect();
    let runs = parts.chunk_by(|one, other| match (one, other) {
        (Some(one), Some(other)) => one.is_before(other),
        (None, _) | (_, None) => false,
    });
    let mut out = Vec::new();
    let mut taken = 0;
    for run in runs {
        let (first, last) = (run.first(), run.last());
        match (first, last) {
            (Some(Some(first)), Some(Some(last))) if run.len() > 1 => {
                let NumberedName { before, number, after } = first;
                out.push(format!("{before}[{number}-{}]{after}", last.number));
            }
            _ => out.extend(names.iter().skip(taken).take(run.len()).cloned()),
        }
        taken += run.len();
    }
    out
}

/// A name around its last number.
struct NumberedName<'a> {
    before: &'a str,
    number: u32,
    after: &'a str,
}

impl<'a> NumberedName<'a> {
    fn of(name: &'a str) -> Option<Self> {
        let is_digit = |it: char| it.is_ascii_digit();
        let end = name.rfind(is_digit)? + 1;
        let before = name[..end].trim_end_matches(is_digit);
        let number = name[before.len()..end].parse().ok()?;
        Some(Self { before, number, after: &name[end..] })
    }

    fn is_before(&self, other: &Self) -> bool {
        let Self { before, number, after } = self;
        *before == other.before && *after == other.after && number + 1 == other.number
    }
}

/// A remark if NICs lead from GPU to GPU although all GPUs are of one node: few schedules would
/// go that way, and yet bounds count it.
pub fn nics_of_one_node(cluster: &Cluster) -> Option<String> {
    let vertices = cluster.vertices();
    let nodes = vertices.iter().filter(|it| it.kind == VertexKind::Gpu).map(|it| it.node);
    let numbered = (0..).map(VertexIndex).zip(vertices);
    let networks = numbered.filter(|(_, vertex)| vertex.kind == VertexKind::Network);
    let networks: VertexSet = networks.map(|(at, _)| at).collect();
    let arriving = |at: &VertexIndex| cluster.links().iter().filter(|it| it.to == *at).count();
    let is_used = networks.iter().any(|network| arriving(network) > 1);
    let is_one_node = nodes.collect::<BTreeSet<_>>().len() == 1;
    (is_used && is_one_node).then(|| {
        let names = names(cluster, &networks);
        format!("ways over {names} count, too; `--without '{names}'` leaves them out")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours_in_number_are_a_run() {
        let runs = |names: &[&str]| {
            let names: Vec<_> = names.iter().map(|name| (*name).to_owned()).collect();
            in_runs(&names).join(" ")
        };
        assert_eq!(runs(&["gpu0", "gpu1", "gpu2", "nic0", "nic1"]), "gpu[0-2] nic[0-1]");
        assert_eq!(runs(&["gpu0", "gpu2", "nvswitch"]), "gpu0 gpu2 nvswitch");
        assert_eq!(runs(&["node0.*", "node1.*"]), "node[0-1].*");
        assert_eq!(runs(&["node0.gpu3", "node1.gpu0"]), "node0.gpu3 node1.gpu0");
    }

    #[test]
    fn fractions_are_exact_and_rounded() {
        assert_eq!(seconds_per_gb(Ratio::new(1, 50_000_000_000)), "1/50 s/GB (0.02)");
        assert_eq!(seconds_per_gb(Ratio::new(2, 1_000_000_000)), "2 s/GB");
        assert_eq!(share(Ratio::new(7, 8)), "7/8 · S");
        assert_eq!(share(Ratio::new(2, 2)), "S");
    }
}
