//! A cluster for people: how much of what there is, and which links join it.
//!
//! The lines are those of the text [`format`](super::format), one for all links that are alike and
//! that one list of names spells, with the fastest of each medium first; equal nodes stand there
//! once.

use std::cmp::Reverse;
use std::collections::{HashMap, HashSet};
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
    let nodes: HashSet<_> = cluster.vertices.iter().filter_map(|it| it.node).collect();
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

/// A link, or two in opposite directions, with what they are sorted by.
struct Edge {
    key: (Option<u32>, Medium, Reverse<u32>, u32, EndOrder, EndOrder),
    links: Vec<ClusterLink>,
}

/// Which end of a link is named first: a GPU, then a NIC, then switches.
type EndOrder = (u8, VertexIndex);

fn place(cluster: &Cluster, at: VertexIndex) -> EndOrder {
    let rank = match cluster.vertices.get(at.index()).map(|vertex| vertex.kind) {
        Some(VertexKind::Gpu) => 0,
        Some(VertexKind::Nic) => 1,
        Some(VertexKind::Switch) => 2,
        Some(VertexKind::Network) | None => 3,
    };
    (rank, at)
}

/// The same cluster in an order that shows what is alike: first what is in no node, then the nodes;
/// links of what is in no node, then those of each node, then those between nodes.
fn sorted(cluster: &Cluster) -> Cluster {
    let cluster = &nodes_last(cluster);
    let mut edges: Vec<Edge> = Vec::new();
    let mut waiting: HashMap<(VertexIndex, VertexIndex, Medium, u32, u32), Vec<usize>> =
        HashMap::new();
    for link in &cluster.links {
        let ClusterLink { from, to, rate, latency_ns, medium } = *link;
        let rate = rate.mb_per_s();
        let back = waiting.get_mut(&(to, from, medium, rate, latency_ns));
        if let Some(edge) = back.and_then(Vec::pop).and_then(|at| edges.get_mut(at)) {
            edge.links.push(*link);
            edge.links.sort_by_key(|link| place(cluster, link.from));
            let [one, other] = [from, to].map(|end| place(cluster, end));
            (edge.key.4, edge.key.5) = (one.min(other), one.max(other));
            continue;
        }
        waiting.entry((from, to, medium, rate, latency_ns)).or_default().push(edges.len());
        let [one, other] = [from, to].map(|end| place(cluster, end));
        let key = (group(cluster, link), medium, Reverse(rate), latency_ns, one, other);
        edges.push(Edge { key, links: vec![*link] });
    }
    edges.sort_by_key(|edge| edge.key);
    let links = edges.into_iter().flat_map(|edge| edge.links).collect();
    Cluster { name: cluster.name.clone(), vertices: cluster.vertices.clone(), links }
}

/// `None` for links of what is in no node, the node for links of one, and the most for the others.
fn group(cluster: &Cluster, link: &ClusterLink) -> Option<u32> {
    let node = |end: VertexIndex| cluster.vertices.get(end.index())?.node;
    match (node(link.from), node(link.to)) {
        (Some(one), Some(other)) if one != other => Some(u32::MAX),
        (Some(node), _) | (None, Some(node)) => Some(node),
        (None, None) => None,
    }
}

/// The same cluster with its vertices in the order of their nodes.
fn nodes_last(cluster: &Cluster) -> Cluster {
    let mut order: Vec<_> = cluster.vertices.iter().enumerate().collect();
    order.sort_by_key(|(_, vertex)| vertex.node);
    let mut places = vec![VertexIndex(0); order.len()];
    let mut out = Cluster::new(cluster.name());
    for (at, vertex) in order {
        let new = out.add(vertex.name.clone(), vertex.kind, vertex.node);
        places.get_mut(at).into_iter().for_each(|place| *place = new);
    }
    let moved = |at: VertexIndex| places.get(at.index()).copied().unwrap_or(at);
    let copy = |link: &ClusterLink| {
        let (from, to) = (moved(link.from), moved(link.to));
        ClusterLink { from, to, ..*link }
    };
    out.links.extend(cluster.links.iter().map(copy));
    out
}
