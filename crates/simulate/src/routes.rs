//! Which links of a cluster a message takes.
//!
//! Every message takes one route, that of the least latency; of several the one with the higher
//! rate on its slowest link, then that of fewer links, then the first by numbers of vertices. GPUs
//! pass nothing on: what goes over another GPU is a message to it in the algorithm.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use msccl_topology::bandwidth::Bandwidth;
use msccl_topology::cluster::{Cluster, VertexIndex, VertexKind};

/// The routes of a cluster.
pub(crate) struct Routes<'a> {
    cluster: &'a Cluster,
    /// The links that begin at each vertex.
    outgoing: Vec<Vec<usize>>,
    /// The GPUs, by rank.
    gpus: Vec<VertexIndex>,
}

/// The best routes from one GPU.
pub(crate) struct RoutesFrom<'r, 'a> {
    routes: &'r Routes<'a>,
    from: VertexIndex,
    /// By vertex, the last link of the best route to it; none where nothing leads.
    last: Vec<Option<usize>>,
}

/// What the slowest link of the route from the GPU of one rank to that of another carries, in GB/s;
/// `None` if nothing leads there, or a rank has no GPU.
pub fn route_gb_per_s(cluster: &Cluster, from: usize, to: usize) -> Option<f64> {
    let routes = Routes::of(cluster);
    if from.max(to) >= routes.gpus() {
        return None;
    }
    let links = routes.from(from).to(to)?;
    let rates = links.iter().map(|link| cluster.links()[*link].rate.gb_per_s());
    rates.reduce(f64::min)
}

/// By rank of the sender and of the receiver: the links of the route, by their places among the
/// links of `cluster`, the first one first. `None` where nothing leads; nobody sends to itself.
pub fn all_routes(cluster: &Cluster) -> Vec<Vec<Option<Vec<usize>>>> {
    let routes = Routes::of(cluster);
    let ranks = 0..routes.gpus();
    let of = |from: usize| {
        let routes = routes.from(from);
        ranks.clone().map(|to| routes.to(to).filter(|_| to != from)).collect()
    };
    ranks.clone().map(of).collect()
}

impl<'a> Routes<'a> {
    pub fn of(cluster: &'a Cluster) -> Self {
        let mut outgoing = vec![Vec::new(); cluster.vertices().len()];
        for (link, of) in cluster.links().iter().enumerate() {
            outgoing[of.from.index()].push(link);
        }
        Self { cluster, outgoing, gpus: cluster.gpus().collect() }
    }

    /// How many GPUs there are.
    pub fn gpus(&self) -> usize {
        self.gpus.len()
    }

    /// Those from the GPU of `rank`, which must have one.
    pub fn from(&self, rank: usize) -> RoutesFrom<'_, 'a> {
        let from = self.gpus[rank];
        RoutesFrom { routes: self, from, last: self.last_links(from) }
    }

    fn last_links(&self, from: VertexIndex) -> Vec<Option<usize>> {
        let Self { cluster, outgoing, gpus: _ } = self;
        let mut best: Vec<Option<RouteCost>> = vec![None; cluster.vertices().len()];
        let mut last = vec![None; cluster.vertices().len()];
        let start = RouteCost { latency_ns: 0, rate: Reverse(Bandwidth::LOCAL), links: 0 };
        best[from.index()] = Some(start);
        let mut open = BinaryHeap::from([Reverse((start, from))]);
        while let Some(Reverse((cost, at))) = open.pop() {
            let passes_on = at == from || cluster.vertices()[at.index()].kind != VertexKind::Gpu;
            if best[at.index()] != Some(cost) || !passes_on {
                continue;
            }
            for &link in &outgoing[at.index()] {
                let of = &cluster.links()[link];
                let next = RouteCost {
                    latency_ns: cost.latency_ns + u64::from(of.latency_ns),
                    rate: cost.rate.max(Reverse(of.rate)),
                    links: cost.links + 1,
                };
                let known = &mut best[of.to.index()];
                if known.is_none_or(|known| next < known) {
                    *known = Some(next);
                    last[of.to.index()] = Some(link);
                    open.push(Reverse((next, of.to)));
                }
            }
        }
        last
    }
}

impl RoutesFrom<'_, '_> {
    /// The links to the GPU of rank `to`, the first one first; `None` if nothing leads there.
    pub fn to(&self, to: usize) -> Option<Vec<usize>> {
        let mut at = self.routes.gpus[to];
        let mut links = Vec::new();
        while at != self.from {
            let link = self.last[at.index()]?;
            links.push(link);
            at = self.routes.cluster.links()[link].from;
        }
        links.reverse();
        Some(links)
    }
}

/// How good a route is: the least comes first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct RouteCost {
    latency_ns: u64,
    /// The rate of the slowest link; higher is better.
    rate: Reverse<Bandwidth>,
    links: u32,
}
