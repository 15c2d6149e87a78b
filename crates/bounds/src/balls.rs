//! Cuts around GPUs: what is nearest to one of them, by lengths that an all-to-all makes.
//!
//! Links that an all-to-all fills become long, so that sets on one side of them come before those
//! on the other side. The search adds vertex by vertex to a set, nearest first, and looks at each
//! set on the way. It does not find the best cut of all, which is NP-hard for an all-to-all.

use crate::graph::Graph;
use crate::shortest_paths::Measured;

/// The set that most pairs of GPUs must leave, for the rate that leaves it. A pair is a GPU inside
/// and one outside.
pub(crate) fn best_ball(graph: &Graph, lengths: &[u64]) -> Vec<bool> {
    let measured = Measured::new(graph, lengths.to_vec());
    let mut growing = Growing::new(graph);
    let mut best = Ball { pairs: 0, rate: 1, size: 0, order: Vec::new() };
    for &gpu in &graph.gpus {
        let order = measured.paths_from(gpu).order;
        growing.clear();
        let mut found = Ball { pairs: 0, rate: 1, size: 0, order: Vec::new() };
        for (at, &vertex) in order.iter().enumerate() {
            growing.add(vertex);
            let [pairs, rate] = [growing.pairs(), growing.rate];
            let ball = Ball { pairs, rate, size: at + 1, order: Vec::new() };
            if ball.beats(&found) {
                found = ball;
            }
        }
        if found.beats(&best) {
            best = Ball { order, ..found };
        }
    }
    let mut inside = vec![false; graph.vertex_count];
    best.order[..best.size].iter().for_each(|vertex| inside[*vertex] = true);
    inside
}

/// The first `size` vertices of `order`.
struct Ball {
    pairs: u64,
    rate: u64,
    size: usize,
    order: Vec<usize>,
}

impl Ball {
    /// Whether it has more pairs for its rate.
    fn beats(&self, other: &Ball) -> bool {
        let [pairs, rate] = [self.pairs, self.rate].map(u128::from);
        pairs * u128::from(other.rate) > u128::from(other.pairs) * rate
    }
}

/// A set that grows, and what leaves it.
struct Growing<'a> {
    graph: &'a Graph,
    leaving: Vec<Vec<usize>>,
    entering: Vec<Vec<usize>>,
    is_gpu: Vec<bool>,
    inside: Vec<bool>,
    gpus: u64,
    /// In MB/s.
    rate: u64,
}

impl<'a> Growing<'a> {
    fn new(graph: &'a Graph) -> Self {
        let mut is_gpu = vec![false; graph.vertex_count];
        graph.gpus.iter().for_each(|gpu| is_gpu[*gpu] = true);
        let leaving = graph.arcs_by_origin();
        let entering = graph.reversed().arcs_by_origin();
        let inside = vec![false; graph.vertex_count];
        Self { graph, leaving, entering, is_gpu, inside, gpus: 0, rate: 0 }
    }

    fn clear(&mut self) {
        self.inside.fill(false);
        self.gpus = 0;
        self.rate = 0;
    }

    fn add(&mut self, vertex: usize) {
        let arcs = &self.graph.arcs;
        for arc in self.entering[vertex].iter().map(|arc| &arcs[*arc]) {
            self.rate -= if self.inside[arc.from] { arc.rate_mb_per_s } else { 0 };
        }
        self.inside[vertex] = true;
        for arc in self.leaving[vertex].iter().map(|arc| &arcs[*arc]) {
            self.rate += if self.inside[arc.to] { 0 } else { arc.rate_mb_per_s };
        }
        self.gpus += u64::from(self.is_gpu[vertex]);
    }

    fn pairs(&self) -> u64 {
        self.gpus * (self.graph.gpus.len() as u64 - self.gpus)
    }
}
