//! Equal nodes of a cluster: whether it is one node several times.

use std::collections::HashSet;

use super::pattern::stem;
use super::{Cluster, ClusterLink, Vertex, VertexIndex};

/// A cluster as what lies before its nodes, equal nodes, and what lies after them.
pub(super) struct EqualNodes {
    /// How many nodes, at least two.
    pub count: u32,
    /// What lies before the nodes, and the first of these, whose names lack `node0.`.
    pub one: Cluster,
    /// How many vertices of `one` lie before the nodes.
    pub lead: usize,
    /// How many links of `one` join these alone.
    pub lead_links: usize,
}

/// The prefix of the names in the node of that number.
pub(super) fn prefix(node: u32) -> String {
    format!("node{node}.")
}

impl EqualNodes {
    /// The nodes of `cluster`, if they follow each other, are equal, have the names that repeating
    /// one of them gives, and no names that what lies before them has, too.
    pub fn of(cluster: &Cluster) -> Option<Self> {
        let vertices = &cluster.vertices;
        let lead = vertices.iter().take_while(|vertex| vertex.node.is_none()).count();
        let size = vertices.iter().skip(lead).take_while(|vertex| vertex.node == Some(0)).count();
        let all = vertices.iter().skip(lead).take_while(|vertex| vertex.node.is_some()).count();
        let count = all.checked_div(size).filter(|count| *count >= 2)?;
        let after = vertices.get(lead + all..)?;
        if all % size != 0 || after.iter().any(|vertex| vertex.node.is_some()) {
            return None;
        }
        let (one, lead_links) = first_node(cluster, lead, size)?;
        let equal = Self { count: u32::try_from(count).ok()?, one, lead, lead_links };
        (equal.is_named_apart() && equal.is_start_of(cluster)).then_some(equal)
    }

    /// The vertices that lie after the nodes, and the links that join no node with itself or with
    /// what lies before it.
    pub fn rest<'a>(&self, cluster: &'a Cluster) -> (&'a [Vertex], &'a [ClusterLink]) {
        let (vertices, links) = self.sizes();
        let vertices = cluster.vertices.get(vertices..).unwrap_or_default();
        (vertices, cluster.links.get(links..).unwrap_or_default())
    }

    /// How many vertices and links there are up to the last node.
    fn sizes(&self) -> (usize, usize) {
        let Self { count, one, lead, lead_links } = self;
        let times = |all: usize, once: usize| once + *count as usize * (all - once);
        (times(one.vertices.len(), *lead), times(one.links.len(), *lead_links))
    }

    /// Whether a name or pattern in the block of a node can mean but one thing.
    fn is_named_apart(&self) -> bool {
        let (before, inside) = self.one.vertices.split_at(self.lead);
        let inside: HashSet<&str> = inside.iter().map(|it| stem(&it.name)).collect();
        before.iter().all(|it| !inside.contains(stem(&it.name)) && !it.name.starts_with("node"))
    }

    fn is_start_of(&self, cluster: &Cluster) -> bool {
        let Self { count, one, lead, lead_links } = self;
        let size = (one.vertices.len() - lead) as u32;
        let vertices = (0..*count).flat_map(|node| {
            let name = move |vertex: &Vertex| prefix(node) + &vertex.name;
            let inside = one.vertices.iter().skip(*lead);
            inside.map(move |it| (name(it), it.kind, Some(node)))
        });
        let links = (0..*count).flat_map(|node| {
            let moved = move |at: VertexIndex| {
                VertexIndex(if at.index() < *lead { at.0 } else { at.0 + node * size })
            };
            let copy = move |link: &ClusterLink| {
                let (from, to) = (moved(link.from), moved(link.to));
                ClusterLink { from, to, ..*link }
            };
            one.links.iter().skip(*lead_links).map(copy)
        });
        let (all, all_links) = self.sizes();
        let (Some(found), Some(found_links)) =
            (cluster.vertices.get(*lead..all), cluster.links.get(*lead_links..all_links))
        else {
            return false;
        };
        let found = found.iter().map(|it| (it.name.clone(), it.kind, it.node));
        found.eq(vertices) && found_links.iter().copied().eq(links)
    }
}

/// What lies before the nodes and the first node, and how many links join the former alone.
fn first_node(cluster: &Cluster, lead: usize, size: usize) -> Option<(Cluster, usize)> {
    let mut one = Cluster::new(cluster.name());
    for vertex in cluster.vertices.get(..lead + size)? {
        let name = match vertex.node {
            Some(_) => vertex.name.strip_prefix(&prefix(0))?,
            None => &vertex.name,
        };
        one.add(name, vertex.kind, vertex.node);
    }
    let ends_before = |link: &&ClusterLink, most: usize| {
        [link.from, link.to].into_iter().all(|end| end.index() < most)
    };
    let before = cluster.links.iter().take_while(|it| ends_before(it, lead)).count();
    let inside = |it: &&ClusterLink| ends_before(it, lead + size) && !ends_before(it, lead);
    let count = before + cluster.links.iter().skip(before).take_while(inside).count();
    one.links.extend(cluster.links.iter().take(count));
    Some((one, before))
}
