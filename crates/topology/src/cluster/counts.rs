//! How many GPUs there are: what a launch takes from a machine.

use std::collections::BTreeMap;

use super::Cluster;

/// How many GPUs a cluster has.
#[derive(Clone, Copy, Default)]
pub struct GpuCounts {
    /// In all; `None` where no machine is given.
    pub all: Option<u32>,
    /// In each node, if all nodes have as many.
    pub per_node: Option<u32>,
}

impl GpuCounts {
    /// Those of `cluster`.
    pub fn of(cluster: &Cluster) -> Self {
        let mut nodes: BTreeMap<Option<u32>, u32> = BTreeMap::new();
        for gpu in cluster.gpus() {
            *nodes.entry(cluster.vertices()[gpu.index()].node).or_default() += 1;
        }
        let per_node = nodes.values().next().copied();
        let per_node = per_node.filter(|first| nodes.values().all(|node| node == first));
        Self { all: Some(nodes.values().sum()), per_node }
    }

    /// In each node, where so many `ranks` run, which may be fewer than a node has GPUs.
    pub fn per_node_of(self, ranks: Option<u32>) -> Option<u32> {
        self.per_node.map(|per_node| ranks.map_or(per_node, |ranks| ranks.min(per_node)))
    }
}
