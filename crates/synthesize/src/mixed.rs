//! How much can flow while capacity of links becomes capacity of pairs of GPUs.
//!
//! Trees are packed on a graph of GPUs alone. A unit of capacity between two GPUs takes a unit of
//! every link of their route. What links still have is free to flow through switches as it likes.
//! `k` trees for each root exist, as far as capacities go, while `k` units of each root can reach
//! every GPU: the sum of all roots flows to each GPU, one at a time (Edmonds).

use msccl_bounds::FlowNetwork;

use crate::network::Network;
use crate::time_limit::TimeLimit;

/// Trees that are demanded.
#[derive(Clone, Debug)]
pub(crate) struct Demand {
    /// The ranks from which data comes.
    pub roots: Vec<usize>,
    /// Trees for each root.
    pub trees: u64,
}

impl Demand {
    /// Trees of all roots.
    pub fn all(&self) -> u64 {
        self.roots.len() as u64 * self.trees
    }
}

/// Capacities of links and of pairs of GPUs.
pub(crate) struct Mixed<'a> {
    network: &'a Network,
    demand: &'a Demand,
    /// What each link still has.
    pub links: Vec<u64>,
    /// What each pair has.
    pub pairs: Vec<u64>,
    flow: FlowNetwork,
    capacities: Vec<u128>,
    limit: TimeLimit,
}

/// A set of vertices that too little leaves.
struct Shortfall {
    missing: u64,
    inside: Vec<bool>,
}

impl<'a> Mixed<'a> {
    /// All capacity is with the links.
    pub fn new(
        network: &'a Network,
        demand: &'a Demand,
        links: Vec<u64>,
        limit: TimeLimit,
    ) -> Self {
        let source = network.vertex_count;
        let mut flow = FlowNetwork::new(source + 1);
        network.links.iter().for_each(|link| flow.add(link.from, link.to));
        let gpu = |rank: usize| network.gpus[rank];
        network.pairs.iter().for_each(|pair| flow.add(gpu(pair.from), gpu(pair.to)));
        demand.roots.iter().for_each(|root| flow.add(source, gpu(*root)));
        let pairs = vec![0; network.pairs.len()];
        Self { network, demand, links, pairs, flow, capacities: Vec::new(), limit }
    }

    /// The same question with all capacity with the pairs.
    pub fn only_pairs(
        network: &'a Network,
        demand: &'a Demand,
        pairs: Vec<u64>,
        limit: TimeLimit,
    ) -> Self {
        let links = vec![0; network.links.len()];
        Self { pairs, ..Self::new(network, demand, links, limit) }
    }

    /// Whether every GPU gets all that is demanded; not if the time is over before that is known.
    pub fn suffices(&mut self) -> bool {
        self.set_capacities();
        (0..self.network.gpus.len())
            .all(|rank| !self.limit.is_over() && self.shortfall(rank).is_none())
    }

    /// For every GPU that does not get all that is demanded: the ranks from whose side too little
    /// leaves.
    pub fn short_sides(&mut self) -> Vec<Vec<usize>> {
        self.set_capacities();
        let gpus = &self.network.gpus;
        let sides = (0..gpus.len()).filter_map(|rank| {
            let Shortfall { missing: _, inside } = self.shortfall(rank)?;
            Some((0..gpus.len()).filter(|rank| inside[gpus[*rank]]).collect())
        });
        sides.collect()
    }

    /// What all links of the route of `pair` have.
    pub fn room(&self, pair: usize) -> u64 {
        let route = &self.network.pairs[pair].route;
        route.iter().map(|link| self.links[*link]).min().unwrap_or(0)
    }

    /// Gives `pair` some of what its links have.
    pub fn give(&mut self, pair: usize, amount: u64) {
        self.pairs[pair] += amount;
        let network = self.network;
        network.pairs[pair].route.iter().for_each(|link| self.links[*link] -= amount);
    }

    /// Gives `pair` as much of what its links have as leaves enough for all GPUs.
    pub fn give_most(&mut self, pair: usize) -> u64 {
        let mut given = self.room(pair);
        if given == 0 {
            return 0;
        }
        self.give(pair, given);
        self.set_capacities();
        let mut rank = 0;
        while rank < self.network.gpus.len() && given > 0 {
            let Some(shortfall) = self.shortfall(rank) else {
                rank += 1;
                continue;
            };
            let back = shortfall.missing.div_ceil(self.weight(pair, &shortfall.inside));
            let back = back.min(given);
            self.take(pair, back);
            given -= back;
            self.set_capacities();
        }
        given
    }

    fn take(&mut self, pair: usize, amount: u64) {
        self.pairs[pair] -= amount;
        let network = self.network;
        network.pairs[pair].route.iter().for_each(|link| self.links[*link] += amount);
    }

    /// By how much a unit given to `pair` lessens what leaves `inside`; at least 1.
    fn weight(&self, pair: usize, inside: &[bool]) -> u64 {
        let Network { vertex_count: _, gpus, links, pairs } = self.network;
        let pair = &pairs[pair];
        let leaves = |from: usize, to: usize| inside[from] && !inside[to];
        let route = pair.route.iter().map(|link| &links[*link]);
        let lost = route.filter(|link| leaves(link.from, link.to)).count() as u64;
        let gained = u64::from(leaves(gpus[pair.from], gpus[pair.to]));
        lost.saturating_sub(gained).max(1)
    }

    fn set_capacities(&mut self) {
        let roots = self.demand.roots.iter().map(|_| self.demand.trees);
        let all = self.links.iter().chain(&self.pairs).copied().chain(roots);
        self.capacities.clear();
        self.capacities.extend(all.map(u128::from));
    }

    /// What `rank` lacks.
    fn shortfall(&mut self, rank: usize) -> Option<Shortfall> {
        let demanded = u128::from(self.demand.all());
        let source = self.network.vertex_count;
        self.flow.set_capacities(&self.capacities);
        let sent = self.flow.send(source, self.network.gpus[rank], demanded);
        (sent < demanded).then(|| Shortfall {
            missing: (demanded - sent) as u64,
            inside: self.flow.source_side(source),
        })
    }
}
