//! Several nodes of one.
//!
//! What is in a node is there once for each node, and so are switches that are in none, such as
//! those of an NVLink domain of several nodes. Networks are shared: a cable that leads from a NIC
//! to `fabric` leads from each copy of the NIC to the one `fabric`.
//!
//! Names of what is in a node begin with that node: `node1.gpu0`. Copies of other switches are
//! `group1.nvswitch`.

use std::fmt;

use super::nodes::prefix;
use super::{Cluster, ClusterLink, MOST_LINKS, MOST_VERTICES, Vertex, VertexIndex, VertexKind};

/// Why a cluster cannot be repeated.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum RepeatError {
    /// Nothing would join the copies.
    NoNetwork {
        /// What cannot be repeated.
        cluster: String,
    },
    /// The number of copies is 0, or so large that the cluster has too many vertices or links.
    Count {
        /// How often it was to be repeated.
        found: u32,
        /// How often it can be.
        most: u32,
    },
}

impl fmt::Display for RepeatError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RepeatError::NoNetwork { cluster } => write!(
                f,
                "expected a cluster with a network to join several of it, found none in \
                 \"{cluster}\"; add NICs and `network fabric`, and join them by a cable"
            ),
            RepeatError::Count { found, most } => {
                write!(f, "expected a number of nodes from 1 to {most}, found {found}")
            }
        }
    }
}

impl std::error::Error for RepeatError {}

/// `count` times what `cluster` has, joined by its networks; itself if `count` is 1.
pub fn repeat(cluster: &Cluster, count: u32) -> Result<Cluster, RepeatError> {
    let most = (MOST_VERTICES / cluster.vertices.len().max(1))
        .min(MOST_LINKS / cluster.links.len().max(1)) as u32;
    if count == 0 || count > most.max(1) {
        return Err(RepeatError::Count { found: count, most: most.max(1) });
    }
    if count == 1 {
        return Ok(cluster.clone());
    }
    if !cluster.vertices.iter().any(is_shared) {
        return Err(RepeatError::NoNetwork { cluster: cluster.name.clone() });
    }
    Ok(Copies::new(cluster, count).join())
}

/// Whether all copies have it together.
fn is_shared(vertex: &Vertex) -> bool {
    vertex.kind == VertexKind::Network && vertex.node.is_none()
}

/// Copies without links.
struct Copies<'a> {
    original: &'a Cluster,
    out: Cluster,
    /// For each copy, what stands for each vertex of the original.
    places: Vec<Vec<VertexIndex>>,
}

impl<'a> Copies<'a> {
    fn new(original: &'a Cluster, count: u32) -> Self {
        let nodes = original.vertices.iter().filter_map(|it| it.node).max().map_or(0, |it| it + 1);
        let mut out = Cluster::new(format!("{}, {count} times", original.name));
        let mut places = vec![vec![VertexIndex(0); original.vertices.len()]; count as usize];
        for (at, vertex) in original.vertices.iter().enumerate().filter(|(_, it)| is_shared(it)) {
            let shared = out.add(vertex.name.clone(), vertex.kind, None);
            places.iter_mut().filter_map(|it| it.get_mut(at)).for_each(|place| *place = shared);
        }
        for (copy, places) in (0..count).zip(&mut places) {
            for (vertex, place) in original.vertices.iter().zip(places) {
                if !is_shared(vertex) {
                    let (name, node) = renamed(vertex, copy, nodes);
                    *place = out.add(name, vertex.kind, node);
                }
            }
        }
        Self { original, out, places }
    }

    /// Adds the links: first those between networks, which are there once, then those of each copy.
    fn join(mut self) -> Cluster {
        let is_once = |link: &ClusterLink| {
            let ends = [link.from, link.to].map(|end| self.original.vertices.get(end.index()));
            ends.into_iter().flatten().all(is_shared)
        };
        let (once, each): (Vec<&ClusterLink>, Vec<&ClusterLink>) =
            self.original.links.iter().partition(|it| is_once(it));
        let first = self.places.iter().take(1).map(|places| (places, &once));
        for (places, links) in first.chain(self.places.iter().map(|places| (places, &each))) {
            let place = |end: VertexIndex| places.get(end.index()).copied();
            for link in links {
                if let (Some(from), Some(to)) = (place(link.from), place(link.to)) {
                    self.out.links.push(ClusterLink { from, to, ..**link });
                }
            }
        }
        self.out
    }
}

/// The name and the node of a copy, of originals with so many nodes.
fn renamed(vertex: &Vertex, copy: u32, nodes: u32) -> (String, Option<u32>) {
    let Vertex { name, kind: _, node } = vertex;
    match *node {
        Some(node) => {
            let new = copy * nodes + node;
            let local = name.strip_prefix(&prefix(node)).unwrap_or(name);
            (prefix(new) + local, Some(new))
        }
        None => (format!("group{copy}.{name}"), None),
    }
}
