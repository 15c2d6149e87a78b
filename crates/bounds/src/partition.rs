//! Partitions of the GPUs that are worth a look: single GPUs, nodes, and what fast links join.
//!
//! To find the best partition of all is NP-hard where there are switches, so the search looks at
//! these alone: every GPU by itself; every node by itself; and, for each rate, what links of this
//! rate or more join.

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
        let singles = Self { groups: graph.gpus.iter().map(|gpu| vec![*gpu]).collect() };
        let all = [singles, Self::from_nodes(cluster, graph)].into_iter().chain(joined);
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
