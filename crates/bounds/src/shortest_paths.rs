//! Shortest paths from a vertex, by Dijkstra's algorithm.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::graph::Graph;

/// A graph with a length for each of its arcs.
pub(crate) struct Measured<'a> {
    graph: &'a Graph,
    by_origin: Vec<Vec<usize>>,
    lengths: Vec<u64>,
}

/// The shortest paths from one vertex.
pub(crate) struct ShortestPaths {
    /// By vertex; [`UNREACHED`] where no path leads.
    pub distances: Vec<u64>,
    /// By vertex: the last arc of its path.
    pub last_arcs: Vec<Option<usize>>,
    /// The vertices with a path, nearest first.
    pub order: Vec<usize>,
}

/// The distance of a vertex to which no path leads.
pub(crate) const UNREACHED: u64 = u64::MAX;

impl<'a> Measured<'a> {
    /// `lengths` go by the places of the arcs in the graph.
    pub fn new(graph: &'a Graph, lengths: Vec<u64>) -> Self {
        Self { graph, by_origin: graph.arcs_by_origin(), lengths }
    }

    pub fn set_lengths(&mut self, lengths: Vec<u64>) {
        self.lengths = lengths;
    }

    pub fn paths_from(&self, origin: usize) -> ShortestPaths {
        let count = self.graph.vertex_count;
        let mut distances = vec![UNREACHED; count];
        let mut last_arcs = vec![None; count];
        let mut order = Vec::with_capacity(count);
        distances[origin] = 0;
        let mut open = BinaryHeap::from([Reverse((0, origin))]);
        while let Some(Reverse((distance, at))) = open.pop() {
            if distance > distances[at] {
                continue;
            }
            order.push(at);
            for &arc in &self.by_origin[at] {
                let to = self.graph.arcs[arc].to;
                let through = distance + self.lengths[arc];
                if through < distances[to] {
                    distances[to] = through;
                    last_arcs[to] = Some(arc);
                    open.push(Reverse((through, to)));
                }
            }
        }
        ShortestPaths { distances, last_arcs, order }
    }
}
