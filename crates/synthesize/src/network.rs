//! A cluster as synthesis sees it: GPUs by rank, links with their rates, and the one route that
//! messages between two GPUs take.
//!
//! Which route that is says `msccl_simulate`, so that what is planned here is what is counted of
//! the proved schedule. Links that no route takes have rate 0 here.

use std::collections::BTreeSet;

use msccl_bounds::{Bound, Witness};
use msccl_simulate::all_routes;
use msccl_topology::bandwidth::Bandwidth;
use msccl_topology::cluster::{Cluster, ClusterLink};
use num_rational::Ratio;

/// Bytes in a megabyte.
pub(crate) const BYTES_PER_MEGABYTE: u128 = 1_000_000;

/// GPUs, links and routes.
#[derive(Clone, Debug)]
pub(crate) struct Network {
    pub vertex_count: usize,
    /// By rank: its vertex.
    pub gpus: Vec<usize>,
    /// In the order of [`Cluster::links`].
    pub links: Vec<Link>,
    /// In an order in which neighbours in number differ in sender and receiver.
    pub pairs: Vec<Pair>,
}

/// A way for data, in one direction.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Link {
    pub from: usize,
    pub to: usize,
    pub rate_mb_per_s: u64,
}

/// Two ranks of which one can send to the other.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Pair {
    pub from: usize,
    pub to: usize,
    /// The links of its messages.
    pub route: Vec<usize>,
}

impl Network {
    /// What the busiest link takes for a byte of a call of `chunks_of_call` chunks, of which each
    /// rank sends `sent` to each other one: by the sender, then by the receiver.
    pub fn seconds_per_byte(&self, sent: &[u128], chunks_of_call: u128) -> Ratio<u128> {
        let mut loads = vec![0_u128; self.links.len()];
        for pair in &self.pairs {
            let sent = sent[pair.from * self.gpus.len() + pair.to];
            pair.route.iter().for_each(|link| loads[*link] += sent);
        }
        let loaded = loads.iter().zip(&self.links).filter(|(load, _)| **load > 0);
        let time = |(load, link): (&u128, &Link)| {
            let rate = u128::from(link.rate_mb_per_s) * BYTES_PER_MEGABYTE;
            Ratio::new(*load, chunks_of_call * rate)
        };
        loaded.map(time).max().unwrap_or(Ratio::from_integer(0))
    }

    pub fn of(cluster: &Cluster) -> Self {
        let routed = routed_cluster(cluster);
        let links = routed.links().iter().map(|link| Link {
            from: link.from.index(),
            to: link.to.index(),
            rate_mb_per_s: u64::from(link.rate.mb_per_s()),
        });
        let links: Vec<Link> = links.collect();
        let mut pairs = Vec::new();
        for (from, routes) in all_routes(cluster).into_iter().enumerate() {
            for (to, route) in routes.into_iter().enumerate() {
                let Some(route) = route else { continue };
                if route.iter().all(|link| links[*link].rate_mb_per_s > 0) {
                    pairs.push(Pair { from, to, route });
                }
            }
        }
        let places = Places::of(cluster);
        pairs.sort_by_key(|pair| places.turn(pair));
        let gpus = cluster.gpus().map(|gpu| gpu.index()).collect();
        Self { vertex_count: cluster.vertices().len(), gpus, links, pairs }
    }

    /// The same with every link and every route turned round.
    pub fn reversed(&self) -> Self {
        let links = self.links.iter().map(|link| Link { from: link.to, to: link.from, ..*link });
        let pairs = self.pairs.iter().map(|pair| Pair {
            from: pair.to,
            to: pair.from,
            route: pair.route.iter().rev().copied().collect(),
        });
        Self { links: links.collect(), pairs: pairs.collect(), ..self.clone() }
    }

    /// By link: what it carries if pairs carry `shares`.
    pub fn loads(&self, shares: &[u64]) -> Vec<u64> {
        let mut loads = vec![0; self.links.len()];
        for (pair, share) in self.pairs.iter().zip(shares) {
            pair.route.iter().for_each(|link| loads[*link] += share);
        }
        loads
    }

    /// What each link carries in units of which `per_mb_per_s` are 1 MB/s, rounded down.
    pub fn units(&self, per_mb_per_s: Ratio<u128>) -> Vec<u64> {
        let units = |link: &Link| {
            (per_mb_per_s * u128::from(link.rate_mb_per_s)).to_integer().min(u128::from(u64::MAX))
        };
        self.links.iter().map(|link| units(link) as u64).collect()
    }

    /// Different rates above 0 of links.
    pub fn rates(&self) -> Vec<u64> {
        distinct_rates(self.links.iter())
    }

    /// Rates of the links that are busy all along in a schedule at `bound`: those that its cut
    /// counts, or that have a length.
    pub fn rates_of_busy(&self, bound: &Bound, direction: Direction) -> Vec<u64> {
        match &bound.witness {
            Witness::Cut { inside } => {
                let mut is_inside = vec![false; self.vertex_count];
                inside.iter().for_each(|at| is_inside[at.index()] = true);
                let leaves = |link: &&Link| match direction {
                    Direction::Along => is_inside[link.from] && !is_inside[link.to],
                    Direction::Against => is_inside[link.to] && !is_inside[link.from],
                };
                distinct_rates(self.links.iter().filter(leaves))
            }
            Witness::Routes { crossings: _, links } | Witness::Lengths { links } => {
                let long = self.links.iter().zip(links).filter(|(_, length)| **length > 0);
                distinct_rates(long.map(|(link, _)| link))
            }
            Witness::Partition { groups: _ } => Vec::new(),
        }
    }
}

/// The rates above 0 of `links`, each once, in rising order.
fn distinct_rates<'a>(links: impl Iterator<Item = &'a Link>) -> Vec<u64> {
    let rates: BTreeSet<u64> = links.map(|link| link.rate_mb_per_s).collect();
    rates.into_iter().filter(|rate| *rate > 0).collect()
}

/// Whether data goes as the links do, or against them: sums flow to the root of a tree.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Direction {
    Along,
    Against,
}

/// `cluster`, where links that no route takes carry nothing. What is bounded there holds for all
/// schedules whose messages take the routes.
pub fn routed_cluster(cluster: &Cluster) -> Cluster {
    let mut used = vec![false; cluster.links().len()];
    for route in all_routes(cluster).into_iter().flatten().flatten() {
        route.into_iter().for_each(|link| used[link] = true);
    }
    let mut routed = Cluster::new(cluster.name());
    for vertex in cluster.vertices() {
        routed.add(vertex.name.clone(), vertex.kind, vertex.node);
    }
    for (link, is_used) in cluster.links().iter().zip(used) {
        let rate = if is_used { link.rate } else { Bandwidth::from_mb_per_s(0) };
        routed.add_link(ClusterLink { rate, ..*link });
    }
    routed
}

/// In which node each rank is, and which one it is there.
struct Places {
    nodes: Vec<usize>,
    locals: Vec<usize>,
    per_node: usize,
    count: usize,
}

impl Places {
    fn of(cluster: &Cluster) -> Self {
        let mut sizes: Vec<(Option<u32>, usize)> = Vec::new();
        let (mut nodes, mut locals) = (Vec::new(), Vec::new());
        for gpu in cluster.gpus() {
            let node = cluster.vertices()[gpu.index()].node;
            let at = sizes.iter().position(|(known, _)| *known == node).unwrap_or_else(|| {
                sizes.push((node, 0));
                sizes.len() - 1
            });
            nodes.push(at);
            locals.push(sizes[at].1);
            sizes[at].1 += 1;
        }
        let per_node = sizes.iter().map(|(_, size)| *size).max().unwrap_or(1);
        Self { nodes, locals, per_node, count: sizes.len().max(1) }
    }

    /// Pairs of one turn have different senders and different receivers, if nodes are equal. Rails
    /// come first.
    fn turn(&self, pair: &Pair) -> (usize, usize, usize) {
        let Self { nodes, locals, per_node, count } = self;
        let local = (locals[pair.to] + per_node - locals[pair.from]) % per_node;
        let node = (nodes[pair.to] + count - nodes[pair.from]) % count;
        (local, node, pair.from)
    }
}
