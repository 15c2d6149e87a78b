//! Partitions of the GPUs that are worth a look: single GPUs, nodes, and what fast links join.
//!
//! To find the best partition of all is NP-hard where there are switches, so the search looks at
//! these alone: every GPU with what hangs on it alone; every node by itself; and, for each rate,
//! what links of this rate or more join.

use std::collections::{BTreeMap, BTreeSet};

use msccl_topology::cluster::Cluster;

use crate::graph::Graph;

/// Disjoint groups of vertices that hold all GPUs, at least one each.
pub(crate) struct Partition {
    groups: Vec<Vec<usize>>,
}

impl Partition {
    /// All partitions worth a look that have two groups or more.
    pub fn candidates(cluster: &Cluster, graph: &Graph) -> Vec<Self> {
        let rates: BTreeSet<u64> = graph.arcs.iter().map(|arc| arc.rate_mb_per_s).collect();
        let joined = rates.into_iter().map(|rate| Self::from_links(graph, rate));
        let few = [Self::from_gpus(graph), Self::from_nodes(cluster, graph)];
        let all = few.into_iter().chain(joined);
        all.filter(|it| it.groups.len() > 1).collect()
    }

    pub fn groups(&self) -> &[Vec<usize>] {
        &self.groups
    }

    /// The rates of the links that leave each group, added up over the groups, in MB/s.
    pub fn rate_leaving(&self, graph: &Graph) -> u64 {
        let mut group_of = vec![usize::MAX; graph.vertex_count];
        for (group, members) in self.groups.iter().enumerate() {
            members.iter().for_each(|member| group_of[*member] = group);
        }
        let leaves =
            |from: usize, to: usize| group_of[from] != usize::MAX && group_of[from] != group_of[to];
        let leaving = graph.arcs.iter().filter(|arc| leaves(arc.from, arc.to));
        leaving.map(|arc| arc.rate_mb_per_s).sum()
    }

    /// Each GPU with what leads to no other one, such as its NIC where there is no network.
    fn from_gpus(graph: &Graph) -> Self {
        let mut is_gpu = vec![false; graph.vertex_count];
        graph.gpus.iter().for_each(|gpu| is_gpu[*gpu] = true);
        let mut neighbours = vec![Vec::new(); graph.vertex_count];
        for arc in &graph.arcs {
            neighbours[arc.from].push(arc.to);
            neighbours[arc.to].push(arc.from);
        }
        let mut groups: BTreeMap<usize, Vec<usize>> =
            graph.gpus.iter().map(|gpu| (*gpu, vec![*gpu])).collect();
        let mut seen = is_gpu.clone();
        for start in 0..graph.vertex_count {
            let (mut open, mut part, mut gpus) = (vec![start], Vec::new(), BTreeSet::new());
            while let Some(at) = open.pop() {
                if std::mem::replace(&mut seen[at], true) {
                    continue;
                }
                part.push(at);
                let (around, on): (Vec<usize>, Vec<usize>) =
                    neighbours[at].iter().partition(|next| is_gpu[**next]);
                gpus.extend(around);
                open.extend(on);
            }
            if let (Some(gpu), 1) = (gpus.first(), gpus.len()) {
                groups.entry(*gpu).or_default().extend(part);
            }
        }
        Self { groups: groups.into_values().collect() }
    }

    /// Each node; a vertex of no node by itself.
    fn from_nodes(cluster: &Cluster, graph: &Graph) -> Self {
        let label = |(at, node): (usize, Option<u32>)| match node {
            Some(node) => (0, node as usize),
            None => (1, at),
        };
        let nodes = cluster.vertices().iter().map(|vertex| vertex.node).enumerate();
        Self::from_labels(graph, nodes.map(label))
    }

    /// What links of `rate` or more join, whatever their direction.
    fn from_links(graph: &Graph, rate: u64) -> Self {
        let mut neighbours = vec![Vec::new(); graph.vertex_count];
        for arc in graph.arcs.iter().filter(|arc| arc.rate_mb_per_s >= rate) {
            neighbours[arc.from].push(arc.to);
            neighbours[arc.to].push(arc.from);
        }
        let mut labels = vec![usize::MAX; graph.vertex_count];
        for start in 0..graph.vertex_count {
            let mut open = vec![start];
            while let Some(at) = open.pop() {
                if labels[at] == usize::MAX {
                    labels[at] = start;
                    open.extend(&neighbours[at]);
                }
            }
        }
        Self::from_labels(graph, labels)
    }

    /// The vertices with one label are a group, if a GPU is among them.
    fn from_labels<L: Ord>(graph: &Graph, labels: impl IntoIterator<Item = L>) -> Self {
        let mut groups = BTreeMap::<L, Vec<usize>>::new();
        for (at, label) in labels.into_iter().enumerate() {
            groups.entry(label).or_default().push(at);
        }
        let mut is_gpu = vec![false; graph.vertex_count];
        graph.gpus.iter().for_each(|gpu| is_gpu[*gpu] = true);
        let groups = groups.into_values().filter(|group| group.iter().any(|at| is_gpu[*at]));
        Self { groups: groups.collect() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use msccl_topology::cluster::degrade::without;
    use msccl_topology::cluster::presets::preset;

    #[test]
    fn what_hangs_on_one_gpu_is_of_its_group() {
        let sizes = |cluster: &Cluster| {
            let graph = Graph::new(cluster).unwrap();
            let groups = Partition::from_gpus(&graph).groups;
            groups.iter().map(Vec::len).collect::<Vec<_>>()
        };
        let whole = preset("hgx-h100-4").unwrap();
        assert_eq!(sizes(&whole), [1; 4]);
        assert_eq!(sizes(&without(&whole, "fabric").unwrap()), [2; 4]);
        // The NIC of a GPU, and its rail.
        assert_eq!(sizes(&preset("ndv5").unwrap()), [3; 8]);
    }
}
