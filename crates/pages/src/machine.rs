//! Machines by name, and what a launch takes from one.

use std::collections::BTreeMap;

use msccl_topology::cluster::Cluster;
use msccl_topology::cluster::presets::preset;
use msccl_topology::cluster::repeat::repeat;

use crate::failure::{Failure, Result};

/// `nodes` of the machine that is known as `name`.
///
/// # Errors
///
/// There is none of that name, or so many do not fit together.
pub fn named(name: &str, nodes: u32) -> Result<Cluster> {
    let single = preset(name).ok_or_else(|| Failure::new(format!("no machine is named {name}")))?;
    repeat(&single, nodes).map_err(|error| Failure::new(format!("{name}: {error}")))
}

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
}
