//! Equal nodes of a cluster: whether it is one node several times.

use super::{Cluster, ClusterLink, Vertex, VertexIndex};

/// A cluster as equal nodes and what lies between them.
pub(super) struct EqualNodes {
    /// How many nodes, at least two.
    pub count: u32,
    /// One of them, whose vertices have names without `node0.`.
    pub one: Cluster,
}

/// The prefix of the names in the node of that number.
pub(super) fn prefix(node: u32) -> String {
    format!("node{node}.")
}

impl EqualNodes {
    /// The nodes of `cluster`, if they come first, are equal, and have the names that repeating one
    /// of them gives.
    pub fn of(cluster: &Cluster) -> Option<Self> {
        let size = cluster.vertices.iter().take_while(|vertex| vertex.node == Some(0)).count();
        let inside = cluster.vertices.iter().take_while(|vertex| vertex.node.is_some()).count();
        let count = inside.checked_div(size).filter(|count| *count >= 2)?;
        let rest = cluster.vertices.get(inside..)?;
        if inside % size != 0 || rest.iter().any(|vertex| vertex.node.is_some()) {
            return None;
        }
        let one = node(cluster, size)?;
        let count = u32::try_from(count).ok()?;
        let equal = Self { count, one };
        equal.is_start_of(cluster).then_some(equal)
    }

    /// The vertices that are in no node, with their numbers, and the links that are in none.
    pub fn rest<'a>(&self, cluster: &'a Cluster) -> (&'a [Vertex], &'a [ClusterLink]) {
        let count = self.count as usize;
        let (vertices, links) = (count * self.one.vertices.len(), count * self.one.links.len());
        let vertices = cluster.vertices.get(vertices..).unwrap_or_default();
        (vertices, cluster.links.get(links..).unwrap_or_default())
    }

    fn is_start_of(&self, cluster: &Cluster) -> bool {
        let (one, size) = (&self.one, self.one.vertices.len());
        let vertices = (0..self.count).flat_map(|node| {
            let name = move |vertex: &Vertex| prefix(node) + &vertex.name;
            one.vertices.iter().map(move |it| (name(it), it.kind, Some(node)))
        });
        let links = (0..self.count).flat_map(|node| {
            let moved = move |at: VertexIndex| VertexIndex(at.0 + node * size as u32);
            let copy = move |link: &ClusterLink| ClusterLink {
                from: moved(link.from),
                to: moved(link.to),
                ..*link
            };
            one.links.iter().map(copy)
        });
        let found = cluster.vertices.iter().map(|it| (it.name.clone(), it.kind, it.node));
        let count = self.count as usize;
        let fits = count * one.links.len() <= cluster.links.len();
        fits && found.take(count * size).eq(vertices)
            && cluster.links.iter().copied().take(count * one.links.len()).eq(links)
    }
}

/// The first node, which has the first `size` vertices.
fn node(cluster: &Cluster, size: usize) -> Option<Cluster> {
    let mut one = Cluster::new(cluster.name());
    for vertex in cluster.vertices.get(..size)? {
        one.add(vertex.name.strip_prefix("node0.")?, vertex.kind, Some(0));
    }
    let is_inside = |link: &&ClusterLink| link.from.index() < size && link.to.index() < size;
    one.links.extend(cluster.links.iter().take_while(is_inside));
    Some(one)
}
