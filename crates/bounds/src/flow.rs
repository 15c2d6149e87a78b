//! Maximum flow, by Dinic's algorithm, over integers.
//!
//! A [`FlowNetwork`] keeps its arcs; capacities are set anew before each flow. Distances are taken
//! from the sink, so that a phase looks at nothing farther from the sink than the source is.

/// Vertices, arcs, and what the arcs still carry.
///
/// ```
/// use msccl_bounds::FlowNetwork;
///
/// let mut network = FlowNetwork::new(3);
/// network.add(0, 1);
/// network.add(1, 2);
/// network.set_capacities(&[5, 3]);
/// assert_eq!(network.send(0, 2, u128::MAX), 3);
/// assert_eq!(network.source_side(0), [true, true, false]);
/// ```
pub struct FlowNetwork {
    /// By vertex: the arcs that leave it, reverse arcs included.
    leaving: Vec<Vec<usize>>,
    /// Where each arc leads. Arc `2i + 1` is the reverse of arc `2i`.
    heads: Vec<usize>,
    residual: Vec<u128>,
    distance: Vec<u32>,
    next: Vec<usize>,
}

/// Farther than any vertex.
const UNREACHED: u32 = u32::MAX;

impl FlowNetwork {
    /// So many vertices, without arcs.
    pub fn new(vertex_count: usize) -> Self {
        Self {
            leaving: vec![Vec::new(); vertex_count],
            heads: Vec::new(),
            residual: Vec::new(),
            distance: vec![UNREACHED; vertex_count],
            next: vec![0; vertex_count],
        }
    }

    /// Adds an arc without capacity. Arcs are numbered in the order in which they are added.
    pub fn add(&mut self, from: usize, to: usize) {
        for (from, to) in [(from, to), (to, from)] {
            self.leaving[from].push(self.heads.len());
            self.heads.push(to);
            self.residual.push(0);
        }
    }

    /// Gives every arc its capacity, by its number, and takes all flow back.
    pub fn set_capacities(&mut self, capacities: &[u128]) {
        for (pair, capacity) in self.residual.chunks_exact_mut(2).zip(capacities) {
            pair[0] = *capacity;
            pair[1] = 0;
        }
    }

    /// Sends as much as goes from `source` to `sink`, but no more than `limit`.
    pub fn send(&mut self, source: usize, sink: usize, limit: u128) -> u128 {
        let mut sent = 0;
        while sent < limit && self.measure_distances(source, sink) {
            self.next.fill(0);
            while sent < limit {
                match self.augment(source, sink, limit - sent) {
                    0 => break,
                    more => sent += more,
                }
            }
        }
        sent
    }

    /// The vertices to which `source` could send more. After a flow that met no limit, these are
    /// one side of a smallest cut.
    pub fn source_side(&self, source: usize) -> Vec<bool> {
        let mut inside = vec![false; self.leaving.len()];
        let mut open = vec![source];
        inside[source] = true;
        while let Some(at) = open.pop() {
            for &arc in &self.leaving[at] {
                let to = self.heads[arc];
                if self.residual[arc] > 0 && !inside[to] {
                    inside[to] = true;
                    open.push(to);
                }
            }
        }
        inside
    }

    /// Counts how many arcs each vertex is away from `sink`, until it meets `source`.
    fn measure_distances(&mut self, source: usize, sink: usize) -> bool {
        self.distance.fill(UNREACHED);
        self.distance[sink] = 0;
        let mut queue = std::collections::VecDeque::from([sink]);
        while let Some(at) = queue.pop_front() {
            if at == source {
                return true;
            }
            for &arc in &self.leaving[at] {
                let from = self.heads[arc];
                if self.residual[arc ^ 1] > 0 && self.distance[from] == UNREACHED {
                    self.distance[from] = self.distance[at] + 1;
                    queue.push_back(from);
                }
            }
        }
        false
    }

    /// Sends along one shortest path, at most `limit`; 0 if there is none any more.
    fn augment(&mut self, source: usize, sink: usize, limit: u128) -> u128 {
        let mut path: Vec<usize> = Vec::new();
        let mut at = source;
        while at != sink {
            if let Some(arc) = self.open_arc(at) {
                path.push(arc);
                at = self.heads[arc];
            } else {
                // A dead end: step back, and do not come here again in this phase.
                let Some(arc) = path.pop() else { return 0 };
                at = self.heads[arc ^ 1];
                self.next[at] += 1;
            }
        }
        let amount = path.iter().map(|&arc| self.residual[arc]).fold(limit, u128::min);
        for arc in path {
            self.residual[arc] -= amount;
            self.residual[arc ^ 1] += amount;
        }
        amount
    }

    /// The next arc of `at` that carries something one step nearer to the sink.
    fn open_arc(&mut self, at: usize) -> Option<usize> {
        while let Some(&arc) = self.leaving[at].get(self.next[at]) {
            let to = self.distance[self.heads[arc]];
            if self.residual[arc] > 0 && to != UNREACHED && to + 1 == self.distance[at] {
                return Some(arc);
            }
            self.next[at] += 1;
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[derive(Clone, Debug)]
    struct Drawn {
        vertex_count: usize,
        arcs: Vec<(usize, usize, u128)>,
    }

    fn drawn() -> impl Strategy<Value = Drawn> {
        (2_usize..=10).prop_flat_map(|vertex_count| {
            let arc = (0..vertex_count, 0..vertex_count, 0_u128..20);
            let arcs = prop::collection::vec(arc, 0..40);
            arcs.prop_map(move |arcs| Drawn { vertex_count, arcs })
        })
    }

    fn network(drawn: &Drawn) -> FlowNetwork {
        let mut network = FlowNetwork::new(drawn.vertex_count);
        drawn.arcs.iter().for_each(|&(from, to, _)| network.add(from, to));
        let capacities: Vec<u128> = drawn.arcs.iter().map(|arc| arc.2).collect();
        network.set_capacities(&capacities);
        network
    }

    fn capacity(drawn: &Drawn, is_inside: impl Fn(usize) -> bool) -> u128 {
        let leaving = drawn.arcs.iter().filter(|arc| is_inside(arc.0) && !is_inside(arc.1));
        leaving.map(|arc| arc.2).sum()
    }

    /// The smallest cut between vertex 0 and vertex 1, by trying all.
    fn smallest_cut(drawn: &Drawn) -> u128 {
        let sets = (0..1_usize << drawn.vertex_count).filter(|set| set & 3 == 1);
        sets.map(|set| capacity(drawn, |vertex| set >> vertex & 1 == 1)).min().unwrap()
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 1000, ..ProptestConfig::default() })]

        #[test]
        fn the_flow_is_the_smallest_of_all_cuts(drawn in drawn()) {
            let smallest = smallest_cut(&drawn);
            let mut network = network(&drawn);
            prop_assert_eq!(network.send(0, 1, u128::MAX), smallest);
            let inside = network.source_side(0);
            prop_assert!(inside[0] && !inside[1]);
            prop_assert_eq!(capacity(&drawn, |vertex| inside[vertex]), smallest);
        }

        #[test]
        fn a_limit_is_kept_and_met(drawn in drawn(), limit in 0_u128..40) {
            let smallest = smallest_cut(&drawn);
            prop_assert_eq!(network(&drawn).send(0, 1, limit), smallest.min(limit));
        }
    }
}
