//! Ranks and the pairs between which messages go, with the shortest ways between them.

use crate::network::Network;

/// Who can send to whom.
pub(super) struct RankGraph<'a> {
    pub network: &'a Network,
    /// By rank: the pairs whose messages begin there.
    leaving: Vec<Vec<usize>>,
}

/// The shortest ways from one rank to all others.
pub(super) struct ShortestWays {
    /// By rank; infinite where no way leads.
    pub distances: Vec<f64>,
    /// By rank: the pair over which the way gets there.
    pub last_pairs: Vec<Option<usize>>,
}

impl<'a> RankGraph<'a> {
    pub fn new(network: &'a Network) -> Self {
        let mut leaving = vec![Vec::new(); network.gpus.len()];
        for (at, pair) in network.pairs.iter().enumerate() {
            leaving[pair.from].push(at);
        }
        Self { network, leaving }
    }

    pub fn ranks(&self) -> usize {
        self.leaving.len()
    }

    /// By pair: the lengths of its links together.
    pub fn pair_lengths(&self, link_lengths: &[f64]) -> Vec<f64> {
        let length = |route: &[usize]| route.iter().map(|link| link_lengths[*link]).sum();
        self.network.pairs.iter().map(|pair| length(&pair.route)).collect()
    }

    /// Dijkstra's algorithm. Of ways that are as long, the one over fewer pairs.
    pub fn shortest_ways(&self, from: usize, pair_lengths: &[f64]) -> ShortestWays {
        let ranks = self.ranks();
        let mut distances = vec![f64::INFINITY; ranks];
        let mut hops = vec![0_u32; ranks];
        let mut last_pairs = vec![None; ranks];
        let mut open: Vec<usize> = (0..ranks).collect();
        distances[from] = 0.0;
        let nearer = |one: (f64, u32), other: (f64, u32)| {
            let margin = 1e-12 * (1.0 + other.0.min(one.0));
            one.0 < other.0 - margin || (one.0 < other.0 + margin && one.1 < other.1)
        };
        while !open.is_empty() {
            let order = |one: &usize, other: &usize| {
                let key = |at: usize| (distances[at], hops[at]);
                key(*one).0.total_cmp(&key(*other).0).then(key(*one).1.cmp(&key(*other).1))
            };
            let nearest = (0..open.len()).min_by(|one, other| order(&open[*one], &open[*other]));
            let Some(at) = nearest.map(|at| open.swap_remove(at)) else { break };
            if distances[at].is_infinite() {
                break;
            }
            for &pair in &self.leaving[at] {
                let to = self.network.pairs[pair].to;
                let through = (distances[at] + pair_lengths[pair], hops[at] + 1);
                if nearer(through, (distances[to], hops[to])) && to != from {
                    (distances[to], hops[to]) = through;
                    last_pairs[to] = Some(pair);
                }
            }
        }
        ShortestWays { distances, last_pairs }
    }
}

impl ShortestWays {
    /// The pairs of the way to `to`, the first one first.
    pub fn pairs_to(&self, to: usize, network: &Network) -> Vec<usize> {
        let mut pairs = Vec::new();
        let mut at = to;
        while let Some(pair) = self.last_pairs[at] {
            pairs.push(pair);
            at = network.pairs[pair].from;
        }
        pairs.reverse();
        pairs
    }
}
