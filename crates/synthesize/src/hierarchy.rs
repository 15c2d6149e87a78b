//! Trees for many equal nodes: those of one node times those of the network.
//!
//! The trees of a block are, over nodes, those of the ranks with its local rank, and then in every
//! node those of that local rank. Whether nodes are equal and rails alike is not looked at: if they
//! are not, links are busier, and the certificate says so.

use std::collections::HashMap;

use msccl_topology::cluster::{Cluster, VertexIndex, VertexKind};

/// Equal nodes whose ranks are neighbours.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Nodes {
    pub count: u32,
    pub per_node: u32,
}

impl Nodes {
    /// Those of `cluster`, if there are several of more than one GPU, and all have as many.
    pub fn of(cluster: &Cluster) -> Option<Self> {
        let nodes: Vec<_> = cluster.gpus().map(|at| cluster.vertices()[at.index()].node).collect();
        let runs: Vec<_> = nodes.chunk_by(|one, other| one == other).collect();
        let per_node = runs.first()?.len();
        let mut different: Vec<_> = runs.iter().map(|run| run[0]).collect();
        different.sort_unstable();
        different.dedup();
        let equal = runs.iter().all(|run| run.len() == per_node && run[0].is_some());
        let several = runs.len() > 1 && per_node > 1 && different.len() == runs.len();
        (equal && several).then_some(Self { count: runs.len() as u32, per_node: per_node as u32 })
    }
}

/// The first node of `cluster` alone.
pub(crate) fn one_node(cluster: &Cluster) -> Cluster {
    let vertices = cluster.vertices();
    let node = cluster.gpus().next().and_then(|gpu| vertices[gpu.index()].node);
    only(cluster, |at| vertices[at].node == node)
}

/// `cluster` with the first GPU of each node alone.
pub(crate) fn one_rail(cluster: &Cluster, nodes: Nodes) -> Cluster {
    let gpus: Vec<VertexIndex> = cluster.gpus().collect();
    let firsts: Vec<usize> =
        gpus.iter().step_by(nodes.per_node as usize).map(|at| at.index()).collect();
    let is_gpu = |at: usize| cluster.vertices()[at].kind == VertexKind::Gpu;
    only(cluster, |at| !is_gpu(at) || firsts.binary_search(&at).is_ok())
}

/// The vertices that are kept, and the links between them.
fn only(cluster: &Cluster, is_kept: impl Fn(usize) -> bool) -> Cluster {
    let mut out = Cluster::new(cluster.name());
    let mut places = HashMap::new();
    for (at, vertex) in (0..).zip(cluster.vertices()) {
        if is_kept(at as usize) {
            let new = out.add(vertex.name.clone(), vertex.kind, vertex.node);
            places.insert(VertexIndex(at), new);
        }
    }
    for link in cluster.links() {
        if let (Some(&from), Some(&to)) = (places.get(&link.from), places.get(&link.to)) {
            out.add_link(msccl_topology::cluster::ClusterLink { from, to, ..*link });
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use msccl_topology::cluster::presets::preset;
    use msccl_topology::cluster::repeat::repeat;

    #[test]
    fn nodes_and_rails_are_parts_of_the_whole() {
        let one = preset("hgx-h100-8").unwrap();
        assert_eq!(Nodes::of(&one), None);
        let cluster = repeat(&one, 3).unwrap();
        let nodes = Nodes::of(&cluster).unwrap();
        assert_eq!(nodes, Nodes { count: 3, per_node: 8 });
        let node = one_node(&cluster);
        // The network is in no node, and neither are its cables.
        assert_eq!((node.gpus().count(), node.links().len()), (8, 32));
        let rail = one_rail(&cluster, nodes);
        assert_eq!((rail.gpus().count(), rail.vertices().len()), (3, 1 + 3 * 10));
    }
}
