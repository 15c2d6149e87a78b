//! A cluster for people: how much of what there is, and which links join it.
//!
//! The lines are those of the text [`format`](super::format), one for all links that are alike and
//! that one list of names spells, with the fastest of each medium first; equal nodes stand there
//! once.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::fmt::Write;

use super::format::lines;
use super::{Cluster, ClusterLink, Medium, VertexIndex, VertexKind};

/// The lines about `cluster`.
pub fn draw(cluster: &Cluster) -> String {
    let title = if cluster.name.is_empty() { "cluster" } else { &cluster.name };
    let mut out = format!("{title}: {}\n\n{}", counts(cluster), lines(&sorted(cluster)));
    let alone = alone(cluster);
    if !alone.is_empty() {
        // Writing to a string cannot fail.
        let _ = writeln!(out, "\nwithout links: {}", alone.join(" "));
    }
    out
}

fn counts(cluster: &Cluster) -> String {
    let nodes: std::collections::HashSet<_> =
        cluster.vertices.iter().filter_map(|it| it.node).collect();
    let of_kind = |kind| cluster.vertices.iter().filter(|it| it.kind == kind).count();
    let kinds = [
        (nodes.len(), "node", "nodes"),
        (of_kind(VertexKind::Gpu), "GPU", "GPUs"),
        (of_kind(VertexKind::Switch), "switch", "switches"),
        (of_kind(VertexKind::Nic), "NIC", "NICs"),
        (of_kind(VertexKind::Network), "network", "networks"),
    ];
    let some = kinds.into_iter().filter(|(count, ..)| *count > 0);
    let words =
        some.map(|(count, one, many)| format!("{count} {}", if count == 1 { one } else { many }));
    words.collect::<Vec<_>>().join(", ")
}

/// Vertices that have no links, which only a mistake or a fault leaves.
fn alone(cluster: &Cluster) -> Vec<&str> {
    let mut linked = vec![false; cluster.vertices.len()];
    for end in cluster.links.iter().flat_map(|link| [link.from, link.to]) {
        linked.get_mut(end.index()).into_iter().for_each(|it| *it = true);
    }
    let alone = cluster.vertices.iter().zip(linked).filter(|(_, linked)| !linked);
    alone.map(|(vertex, _)| vertex.name.as_str()).collect()
}

/// A link, or two, with what they are sorted by.
struct Edge {
    key: (Option<u32>, Medium, Reverse<u32>, u32, VertexIndex, VertexIndex),
    links: Vec<ClusterLink>,
}

/// The same cluster with its links in an order that puts those together that are alike: those of
/// the first node, of the second, …, and between nodes.
fn sorted(cluster: &Cluster) -> Cluster {
    let mut edges: Vec<Edge> = Vec::new();
    let mut waiting: HashMap<(VertexIndex, VertexIndex, Medium, u32, u32), Vec<usize>> =
        HashMap::new();
    for link in &cluster.links {
        let ClusterLink { from, to, rate, latency_ns, medium } = *link;
        let rate = rate.mb_per_s();
        let back = waiting.get_mut(&(to, from, medium, rate, latency_ns));
        if let Some(edge) = back.and_then(Vec::pop).and_then(|at| edges.get_mut(at)) {
            edge.links.push(*link);
            edge.links.sort_by_key(|link| link.from);
            edge.key.4 = from.min(to);
            edge.key.5 = from.max(to);
            continue;
        }
        waiting.entry((from, to, medium, rate, latency_ns)).or_default().push(edges.len());
        let key = (node(cluster, link), medium, Reverse(rate), latency_ns, from, to);
        edges.push(Edge { key, links: vec![*link] });
    }
    edges.sort_by_key(|edge| (edge.key.0.is_none(), edge.key));
    let links = edges.into_iter().flat_map(|edge| edge.links).collect();
    Cluster { name: cluster.name.clone(), vertices: cluster.vertices.clone(), links }
}

/// The node that has both ends of a link.
fn node(cluster: &Cluster, link: &ClusterLink) -> Option<u32> {
    let [from, to] = [link.from, link.to].map(|end| cluster.vertices.get(end.index())?.node);
    from.filter(|_| from == to)
}
