//! Spanning trees that share the capacity between GPUs, packed as Edmonds showed they can be.
//!
//! Trees grow in batches of equal ones (Bérczi and Frank 2010). A batch takes another vertex by an
//! edge of which so much may be used as leaves room for all batches that are not complete. One
//! maximum flow says how much that is. If it is less than the batch has trees, the batch splits.
//! Batches grow from the root outwards, so that trees are low.

use msccl_bounds::FlowNetwork;

use crate::mixed::Demand;
use crate::network::Network;
use crate::time_limit::TimeLimit;

/// Equal trees of one root.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Batch {
    pub root: usize,
    /// How many trees.
    pub trees: u64,
    /// From the root outwards: every edge begins at a vertex that is reached before.
    pub edges: Vec<Edge>,
}

/// A rank sends to another.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Edge {
    pub from: usize,
    pub to: usize,
}

/// Why there are no trees.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum PackError {
    /// The capacities do not suffice for the demand.
    NoRoom,
    /// The time is over.
    TimeOver,
}

/// Packs the trees of `demand` into the capacities of pairs.
pub(crate) fn pack(
    network: &Network,
    demand: &Demand,
    shares: Vec<u64>,
    limit: TimeLimit,
) -> Result<Vec<Batch>, PackError> {
    if let Some(stars) = stars(network, demand, &shares) {
        return Ok(stars);
    }
    let mut packing = Packing::new(network, demand, shares);
    let mut complete = Vec::new();
    while let Some(batch) = packing.open.pop() {
        if limit.is_over() {
            return Err(PackError::TimeOver);
        }
        complete.push(packing.grow(batch)?);
    }
    complete.sort_by_key(|batch| batch.root);
    Ok(complete)
}

/// Every root sends to every other GPU itself, where capacities allow that.
fn stars(network: &Network, demand: &Demand, shares: &[u64]) -> Option<Vec<Batch>> {
    let mut batches = demand.roots.iter().map(|root| Batch::new(*root, demand.trees));
    let star = |mut batch: Batch| {
        let pairs = network.pairs.iter().zip(shares);
        let wide = pairs.filter(|(pair, share)| pair.from == batch.root && **share >= batch.trees);
        batch.edges.extend(wide.map(|(pair, _)| Edge { from: pair.from, to: pair.to }));
        (batch.edges.len() + 1 == network.gpus.len()).then_some(batch)
    };
    batches.try_fold(Vec::new(), |mut all, batch| {
        all.push(star(batch)?);
        Some(all)
    })
}

impl Batch {
    fn new(root: usize, trees: u64) -> Self {
        Self { root, trees, edges: Vec::new() }
    }

    /// What it has reached, in the order in which it did.
    fn reached(&self) -> Vec<usize> {
        std::iter::once(self.root).chain(self.edges.iter().map(|edge| edge.to)).collect()
    }
}

/// What is under way.
struct Packing {
    rank_count: usize,
    /// The pairs with capacity.
    edges: Vec<Edge>,
    /// By edge.
    left: Vec<u128>,
    /// By rank: the edges that begin there.
    leaving: Vec<Vec<usize>>,
    /// Batches to which something is still to be added, the next one last.
    open: Vec<Batch>,
    /// What `grow` draws.
    flow: FlowNetwork,
    /// How many of the open batches have edges, and so arcs of their own in `flow`.
    started: usize,
}

impl Packing {
    fn new(network: &Network, demand: &Demand, shares: Vec<u64>) -> Self {
        let rank_count = network.gpus.len();
        let mut edges = Vec::new();
        let mut left = Vec::new();
        let mut leaving = vec![Vec::new(); rank_count];
        for (pair, share) in network.pairs.iter().zip(shares).filter(|(_, share)| *share > 0) {
            leaving[pair.from].push(edges.len());
            edges.push(Edge { from: pair.from, to: pair.to });
            left.push(u128::from(share));
        }
        let roots = demand.roots.iter().rev();
        let open = roots.map(|root| Batch::new(*root, demand.trees)).collect();
        let flow = FlowNetwork::new(0);
        Self { rank_count, edges, left, leaving, open, flow, started: 0 }
    }

    /// Adds vertices to `batch` until it has all.
    fn grow(&mut self, mut batch: Batch) -> Result<Batch, PackError> {
        self.draw_network();
        let mut is_reached = vec![false; self.rank_count];
        batch.reached().into_iter().for_each(|rank| is_reached[rank] = true);
        while batch.edges.len() + 1 < self.rank_count {
            let before = batch.edges.len();
            let mut at = 0;
            while let Some(&from) = batch.reached().get(at) {
                self.grow_from(from, &mut batch, &mut is_reached);
                at += 1;
            }
            if batch.edges.len() == before {
                return Err(PackError::NoRoom);
            }
        }
        Ok(batch)
    }

    /// Takes every vertex that `from` has an edge with room to.
    fn grow_from(&mut self, from: usize, batch: &mut Batch, is_reached: &mut [bool]) {
        for at in 0..self.leaving[from].len() {
            let edge = self.leaving[from][at];
            let to = self.edges[edge].to;
            if is_reached[to] || self.left[edge] == 0 {
                continue;
            }
            let room = self.room(edge, batch.trees);
            if room == 0 {
                continue;
            }
            if room < batch.trees {
                self.open.push(Batch { trees: batch.trees - room, ..batch.clone() });
                batch.trees = room;
                self.draw_network();
            }
            self.left[edge] -= u128::from(room);
            batch.edges.push(Edge { from, to });
            is_reached[to] = true;
        }
    }

    /// How many of `requested` trees may use `edge`.
    fn room(&mut self, edge: usize, requested: u64) -> u64 {
        let Edge { from, to } = self.edges[edge];
        let requested = u128::from(requested).min(self.left[edge]);
        let others: u128 = self.open.iter().map(|batch| u128::from(batch.trees)).sum();
        let all = others + requested;
        let mut fed = vec![0; self.rank_count];
        fed[from] = all;
        let mut helped = Vec::with_capacity(self.started);
        for batch in &self.open {
            if batch.edges.is_empty() {
                fed[batch.root] += u128::from(batch.trees);
            } else {
                helped.push(u128::from(batch.trees));
                helped.extend(std::iter::repeat_n(all, batch.edges.len() + 1));
            }
        }
        let capacities: Vec<u128> = self.left.iter().copied().chain(fed).chain(helped).collect();
        self.flow.set_capacities(&capacities);
        let sent = self.flow.send(self.rank_count, to, all);
        sent.saturating_sub(others).min(requested) as u64
    }

    /// Edges, then an arc from the source to every rank, then for each open batch with edges an arc
    /// from the source to a vertex of its own, and arcs from there to all that it has reached.
    fn draw_network(&mut self) {
        let source = self.rank_count;
        let started = || self.open.iter().filter(|batch| !batch.edges.is_empty());
        self.started = started().count();
        let mut flow = FlowNetwork::new(source + 1 + self.started);
        self.edges.iter().for_each(|edge| flow.add(edge.from, edge.to));
        (0..source).for_each(|rank| flow.add(source, rank));
        for (helper, batch) in (source + 1..).zip(started()) {
            flow.add(source, helper);
            batch.reached().into_iter().for_each(|rank| flow.add(helper, rank));
        }
        self.flow = flow;
    }
}
