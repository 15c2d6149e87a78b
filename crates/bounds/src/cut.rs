//! The cut with the largest ratio of what must leave it to the rate that leaves it.
//!
//! Vertices have weights. Of all sets `S` that lack one of the sinks, the search finds one with
//! the largest `weight(S) / rate leaving S`. Weight 1 on every GPU, and every GPU as a sink, is
//! all-gather; weight on the root alone is broadcast.
//!
//! The search is Dinkelbach's. Let `p/q` be the best ratio so far. A source feeds each vertex with
//! `q` times its weight, and links carry `p` times their rates. A cut that leaves `S` on the side
//! of the source costs `q · weight(outside S) + p · rate leaving S`, which is less than
//! `q · weight(all)` exactly if the ratio of `S` is larger than `p/q`. So one flow to a sink finds
//! a better cut that lacks this sink, or proves that there is none. As `p/q` only grows, what is
//! proved for a sink stays proved, and the sink is then counted as part of the source: later flows
//! need to look only at sets that hold it.

use crate::flow::FlowNetwork;
use crate::graph::Graph;

/// What is looked for.
pub(crate) struct CutQuestion<'a> {
    pub graph: &'a Graph,
    /// By vertex.
    pub weights: Vec<u64>,
    /// The vertices of which a set must lack one; not empty.
    pub sinks: Vec<usize>,
}

/// The best cut.
#[derive(Clone, Debug)]
pub(crate) struct BestCut {
    /// By vertex: whether it is inside.
    pub inside: Vec<bool>,
    pub weight: u64,
    pub rate_mb_per_s: u64,
}

/// Nothing that `from` has can get to `to`.
pub(crate) struct Unconnected {
    pub from: usize,
    pub to: usize,
}

impl CutQuestion<'_> {
    /// The best cut, or two vertices without a path between them.
    pub fn solve(&self) -> Result<BestCut, Unconnected> {
        let mut best = self.first_cut()?;
        let mut network = self.network();
        let mut is_proved = vec![false; self.graph.vertex_count];
        for &sink in &self.sinks {
            while let Some(better) = self.improve(&mut network, &best, &is_proved, sink)? {
                best = better;
            }
            is_proved[sink] = true;
        }
        Ok(best)
    }

    /// The best of the cuts around single sinks.
    fn first_cut(&self) -> Result<BestCut, Unconnected> {
        let mut entering = vec![0; self.graph.vertex_count];
        for arc in self.graph.arcs.iter().filter(|arc| arc.from != arc.to) {
            entering[arc.to] += arc.rate_mb_per_s;
        }
        let all: u64 = self.weights.iter().sum();
        let ratio = |sink: usize| (all - self.weights[sink], entering[sink]);
        let mut best = self.sinks[0];
        for &sink in &self.sinks {
            let (weight, rate) = ratio(sink);
            let (best_weight, best_rate) = ratio(best);
            if u128::from(weight) * u128::from(best_rate)
                > u128::from(best_weight) * u128::from(rate)
            {
                best = sink;
            }
        }
        let mut inside = vec![true; self.graph.vertex_count];
        inside[best] = false;
        self.evaluate(inside, best)
    }

    /// The weight and rate of a set that lacks `sink`.
    fn evaluate(&self, inside: Vec<bool>, sink: usize) -> Result<BestCut, Unconnected> {
        let weight = (0..self.graph.vertex_count).filter(|at| inside[*at]);
        let weight = weight.map(|at| self.weights[at]).sum();
        let rate_mb_per_s = self.graph.rate_leaving(&inside);
        let holder = (0..inside.len()).find(|at| inside[*at] && self.weights[*at] > 0);
        match holder {
            Some(from) if rate_mb_per_s == 0 => Err(Unconnected { from, to: sink }),
            _ => Ok(BestCut { inside, weight, rate_mb_per_s }),
        }
    }

    /// The links, then an arc from the source to every vertex. The source is the last vertex.
    fn network(&self) -> FlowNetwork {
        let source = self.graph.vertex_count;
        let mut network = FlowNetwork::new(source + 1);
        self.graph.arcs.iter().for_each(|arc| network.add(arc.from, arc.to));
        (0..source).for_each(|vertex| network.add(source, vertex));
        network
    }

    /// A cut with a larger ratio than `best` that lacks `sink` and holds what is proved.
    fn improve(
        &self,
        network: &mut FlowNetwork,
        best: &BestCut,
        is_proved: &[bool],
        sink: usize,
    ) -> Result<Option<BestCut>, Unconnected> {
        let (weight, rate) = (u128::from(best.weight), u128::from(best.rate_mb_per_s));
        let all = rate * self.weights.iter().map(|it| u128::from(*it)).sum::<u128>();
        let links = self.graph.arcs.iter().map(|arc| weight * u128::from(arc.rate_mb_per_s));
        let fed = self.weights.iter().zip(is_proved);
        let fed =
            fed.map(|(&own, &is_proved)| if is_proved { all } else { rate * u128::from(own) });
        let capacities: Vec<u128> = links.chain(fed).collect();
        network.set_capacities(&capacities);
        let source = self.graph.vertex_count;
        if network.send(source, sink, all) == all {
            return Ok(None);
        }
        let mut inside = network.source_side(source);
        inside.truncate(source);
        self.evaluate(inside, sink).map(Some)
    }
}
