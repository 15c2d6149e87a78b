//! A cluster as programs ask about it: by rank.
//!
//! | question | answer of a cluster | answer where no cluster is known |
//! |---|---|---|
//! | NIC | the nearest: that with the route of the least latency over PCI and processors, of several the one with the higher rate, then that which fewest ranks before this one have, then the first; without any, one of its own | one of its own |
//! | switch | where its fastest link to a switch or processor ends; without any, its node | its node |
//! | NUMA node | the nearest processor; without any, its node | its node |
//! | width of the link to another rank | GB/s of the links between them, or through one switch; a processor is none | 1 within the node |
//!
//! Ranks are the GPUs of the cluster in their order. NICs, switches and NUMA nodes are numbered by
//! the first rank that has them, so the first ranks of a cluster get the same answers as all.
//!
//! A processor is a switch with a socket link, or one whose name begins with `cpu`.
//!
//! ```
//! use msccl_topology::cluster::presets::preset;
//! use msccl_topology::cluster::ranks::RankTopology;
//!
//! let dgx1 = preset("dgx1-v100").unwrap();
//! let ranks = RankTopology::of(&dgx1);
//! assert_eq!([0, 1, 2].map(|rank| ranks.nic(rank)), [0, 0, 1]);
//! assert_eq!((ranks.width(0, 3), ranks.width(0, 1), ranks.width(0, 5)), (40, 20, 0));
//! let unknown = RankTopology::of_shape(8, 4);
//! assert_eq!((unknown.nic(5), unknown.switch(5), unknown.width(4, 5)), (5, 1, 1));
//! ```

use std::cmp::Reverse;
use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, BinaryHeap, HashMap};

use super::{Cluster, Medium, VertexIndex, VertexKind};
use crate::bandwidth::Bandwidth;

/// How ranks are joined.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RankTopology(Form);

#[derive(Clone, PartialEq, Eq, Debug)]
enum Form {
    Shape { ranks: u32, per_node: u32 },
    Cluster { places: Vec<RankPlace>, widths: BTreeMap<(u32, u32), u32> },
}

/// What a rank is at.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct RankPlace {
    nic: u32,
    switch: u32,
    numa: u32,
}

impl RankTopology {
    /// What is taken for granted where no cluster is known: nodes of `per_node` ranks each.
    pub fn of_shape(ranks: u32, per_node: u32) -> Self {
        Self(Form::Shape { ranks, per_node: per_node.max(1) })
    }

    /// How the GPUs of `cluster` are joined. Time and size grow with the pairs of ranks that are
    /// linked.
    pub fn of(cluster: &Cluster) -> Self {
        let view = View::new(cluster);
        Self(Form::Cluster { places: view.places(), widths: view.widths() })
    }

    /// The same for the first `ranks` ranks; `None` if there are fewer.
    pub fn first(&self, ranks: u32) -> Option<Self> {
        if ranks > self.ranks() {
            return None;
        }
        Some(Self(match &self.0 {
            Form::Shape { ranks: _, per_node } => Form::Shape { ranks, per_node: *per_node },
            Form::Cluster { places, widths } => {
                let places = places.iter().copied().take(ranks as usize).collect();
                let inside = widths.iter().filter(|((from, to), _)| *from.max(to) < ranks);
                let widths = inside.map(|(pair, width)| (*pair, *width)).collect();
                Form::Cluster { places, widths }
            }
        }))
    }

    /// How many ranks there are.
    pub fn ranks(&self) -> u32 {
        match &self.0 {
            Form::Shape { ranks, per_node: _ } => *ranks,
            Form::Cluster { places, widths: _ } => places.len() as u32,
        }
    }

    /// The NIC of a rank below [`RankTopology::ranks`], as all ranks that functions here are given.
    pub fn nic(&self, rank: u32) -> u32 {
        self.place(rank).nic
    }

    /// The switch of a rank.
    pub fn switch(&self, rank: u32) -> u32 {
        self.place(rank).switch
    }

    /// The NUMA node of a rank.
    pub fn numa(&self, rank: u32) -> u32 {
        self.place(rank).numa
    }

    /// How many NICs the ranks have.
    pub fn nics(&self) -> u32 {
        self.count(|place| place.nic)
    }

    /// How many switches the ranks have.
    pub fn switches(&self) -> u32 {
        self.count(|place| place.switch)
    }

    /// How many NUMA nodes the ranks have.
    pub fn numas(&self) -> u32 {
        self.count(|place| place.numa)
    }

    /// What the link from one rank to another carries, in whole GB/s, at least 1; 0 if no link
    /// joins them.
    pub fn width(&self, from: u32, to: u32) -> u32 {
        match &self.0 {
            Form::Shape { ranks: _, per_node } => {
                u32::from(from != to && from / per_node == to / per_node)
            }
            Form::Cluster { places: _, widths } => {
                widths.get(&(from, to)).copied().unwrap_or_default()
            }
        }
    }

    fn place(&self, rank: u32) -> RankPlace {
        match &self.0 {
            Form::Shape { ranks: _, per_node } => {
                let node = rank / per_node;
                RankPlace { nic: rank, switch: node, numa: node }
            }
            Form::Cluster { places, widths: _ } => places[rank as usize],
        }
    }

    fn count(&self, of: impl Fn(RankPlace) -> u32) -> u32 {
        (0..self.ranks()).map(|rank| of(self.place(rank)) + 1).max().unwrap_or_default()
    }
}

/// What a rank is at, before it has a number.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Key {
    Vertex(VertexIndex),
    /// Something of this rank alone.
    Own(usize),
    /// Something of all ranks of the node that have nothing better.
    Node(Option<u32>),
}

/// Numbers in the order of first use.
#[derive(Default)]
struct Numbers(HashMap<Key, u32>);

impl Numbers {
    fn of(&mut self, key: Key) -> u32 {
        let next = self.0.len() as u32;
        *self.0.entry(key).or_insert(next)
    }
}

/// A cluster with what is asked of it again and again.
struct View<'a> {
    cluster: &'a Cluster,
    gpus: Vec<VertexIndex>,
    /// The links that begin at each vertex.
    outgoing: Vec<Vec<usize>>,
    is_processor: Vec<bool>,
}

/// How good a route is: the least comes first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct RouteCost {
    latency_ns: u64,
    /// The rate of the slowest link; higher is better.
    rate: Reverse<Bandwidth>,
}

impl<'a> View<'a> {
    fn new(cluster: &'a Cluster) -> Self {
        let vertices = cluster.vertices();
        let mut outgoing = vec![Vec::new(); vertices.len()];
        let own_name = |name: &'a str| name.rsplit('.').next().unwrap_or(name);
        let mut is_processor: Vec<bool> = vertices
            .iter()
            .map(|it| it.kind == VertexKind::Switch && own_name(&it.name).starts_with("cpu"))
            .collect();
        for (at, link) in cluster.links().iter().enumerate() {
            outgoing[link.from.index()].push(at);
            if link.medium == Medium::Socket {
                for end in [link.from, link.to].map(VertexIndex::index) {
                    is_processor[end] |= vertices[end].kind == VertexKind::Switch;
                }
            }
        }
        Self { cluster, gpus: cluster.gpus().collect(), outgoing, is_processor }
    }

    fn places(&self) -> Vec<RankPlace> {
        let (mut nics, mut switches, mut numas) =
            (Numbers::default(), Numbers::default(), Numbers::default());
        let mut users: HashMap<VertexIndex, u32> = HashMap::new();
        let place = |(rank, &gpu): (usize, &VertexIndex)| {
            let node = Key::Node(self.cluster.vertices()[gpu.index()].node);
            let routes = self.routes(gpu);
            let near = nearest(&routes, |at| self.kind(at) == VertexKind::Nic);
            let nic = near.into_iter().min_by_key(|nic| users.get(nic).copied());
            if let Some(nic) = nic {
                *users.entry(nic).or_default() += 1;
            }
            let numa = nearest(&routes, |at| self.is_processor[at.index()]).first().copied();
            RankPlace {
                nic: nics.of(nic.map_or(Key::Own(rank), Key::Vertex)),
                switch: switches.of(self.switch(gpu).map_or(node, Key::Vertex)),
                numa: numas.of(numa.map_or(node, Key::Vertex)),
            }
        };
        self.gpus.iter().enumerate().map(place).collect()
    }

    fn kind(&self, at: VertexIndex) -> VertexKind {
        self.cluster.vertices()[at.index()].kind
    }

    /// The switch or processor at the end of the fastest link of `gpu` to one; the first of
    /// several.
    fn switch(&self, gpu: VertexIndex) -> Option<VertexIndex> {
        let links = self.outgoing[gpu.index()].iter().map(|at| &self.cluster.links()[*at]);
        let links = links.filter(|link| self.kind(link.to) == VertexKind::Switch);
        links.min_by_key(|link| (Reverse(link.rate), link.to)).map(|link| link.to)
    }

    /// The best routes from `gpu` to all that is reached through switches and processors.
    fn routes(&self, gpu: VertexIndex) -> HashMap<VertexIndex, RouteCost> {
        let start = RouteCost { latency_ns: 0, rate: Reverse(Bandwidth::LOCAL) };
        let mut best = HashMap::from([(gpu, start)]);
        let mut open = BinaryHeap::from([Reverse((start, gpu))]);
        while let Some(Reverse((cost, at))) = open.pop() {
            let passes_on = at == gpu || self.kind(at) == VertexKind::Switch;
            if best.get(&at) != Some(&cost) || !passes_on {
                continue;
            }
            for link in self.outgoing[at.index()].iter().map(|link| &self.cluster.links()[*link]) {
                let next = RouteCost {
                    latency_ns: cost.latency_ns + u64::from(link.latency_ns),
                    rate: cost.rate.max(Reverse(link.rate)),
                };
                let is_better = match best.entry(link.to) {
                    Entry::Vacant(none) => {
                        none.insert(next);
                        true
                    }
                    Entry::Occupied(mut known) => {
                        let is_better = next < *known.get();
                        if is_better {
                            known.insert(next);
                        }
                        is_better
                    }
                };
                if is_better {
                    open.push(Reverse((next, link.to)));
                }
            }
        }
        best
    }

    /// By pair of ranks that are linked: the width.
    fn widths(&self) -> BTreeMap<(u32, u32), u32> {
        let ranks: HashMap<VertexIndex, u32> = self.gpus.iter().copied().zip(0..).collect();
        let mut widths = BTreeMap::new();
        for (from, &gpu) in (0..).zip(&self.gpus) {
            let direct = self.rates(gpu);
            let mut reached: HashMap<VertexIndex, u64> = HashMap::new();
            for (&end, &rate) in &direct {
                match self.kind(end) {
                    VertexKind::Gpu => widen(&mut reached, end, rate),
                    VertexKind::Switch if !self.is_processor[end.index()] => {
                        let through = self.rates(end).into_iter();
                        through.for_each(|(to, second)| widen(&mut reached, to, rate.min(second)));
                    }
                    VertexKind::Switch | VertexKind::Nic | VertexKind::Network => {}
                }
            }
            for (end, mb_per_s) in reached {
                if let Some(&to) = ranks.get(&end).filter(|to| **to != from) {
                    let gb_per_s = u32::try_from(mb_per_s / 1000).unwrap_or(u32::MAX);
                    widths.insert((from, to), gb_per_s.max(1));
                }
            }
        }
        widths
    }

    /// What the links from `at` to each of their ends carry together, in MB/s.
    fn rates(&self, at: VertexIndex) -> HashMap<VertexIndex, u64> {
        let mut rates = HashMap::new();
        for link in self.outgoing[at.index()].iter().map(|link| &self.cluster.links()[*link]) {
            *rates.entry(link.to).or_default() += u64::from(link.rate.mb_per_s());
        }
        rates
    }
}

/// Those of the vertices reached that fit and no other is nearer than, in their order.
fn nearest(
    routes: &HashMap<VertexIndex, RouteCost>,
    fits: impl Fn(VertexIndex) -> bool,
) -> Vec<VertexIndex> {
    let fitting = || routes.iter().filter(|(at, _)| fits(**at));
    let Some(least) = fitting().map(|(_, cost)| *cost).min() else { return Vec::new() };
    let near = fitting().filter(|(_, cost)| **cost == least);
    let mut near: Vec<_> = near.map(|(at, _)| *at).collect();
    near.sort_unstable();
    near
}

fn widen(reached: &mut HashMap<VertexIndex, u64>, to: VertexIndex, mb_per_s: u64) {
    let known = reached.entry(to).or_default();
    *known = mb_per_s.max(*known);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::presets::{PRESETS, preset};
    use crate::cluster::{degrade, format};

    fn of(name: &str) -> RankTopology {
        RankTopology::of(&preset(name).unwrap())
    }

    fn all(topology: &RankTopology, ask: impl Fn(&RankTopology, u32) -> u32) -> Vec<u32> {
        (0..topology.ranks()).map(|rank| ask(topology, rank)).collect()
    }

    #[test]
    fn two_gpus_of_a_dgx1_share_a_nic_a_switch_and_four_a_processor() {
        let dgx1 = of("dgx1-v100*2");
        let pairs: Vec<u32> = (0..16).map(|rank| rank / 2).collect();
        assert_eq!(all(&dgx1, RankTopology::nic), pairs);
        assert_eq!(all(&dgx1, RankTopology::switch), pairs);
        assert_eq!(all(&dgx1, RankTopology::numa), (0..16).map(|it| it / 4).collect::<Vec<_>>());
        assert_eq!((dgx1.nics(), dgx1.switches(), dgx1.numas()), (8, 8, 4));
        let to = |from| (0..16).map(|to| dgx1.width(from, to)).collect::<Vec<_>>();
        assert_eq!(to(0), [0, 20, 20, 40, 40, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(to(15)[8..], [0, 0, 0, 20, 40, 20, 40, 0]);
    }

    #[test]
    fn one_nic_of_a_node_serves_all_its_gpus() {
        let ndv2 = of("ndv2*2");
        assert_eq!(all(&ndv2, RankTopology::nic), [[0; 8], [1; 8]].concat());
        assert_eq!(ndv2.nics(), 2);
    }

    #[test]
    fn of_two_nics_as_near_each_of_two_gpus_has_one() {
        let dgx = of("dgx-a100");
        assert_eq!(all(&dgx, RankTopology::nic), [0, 1, 2, 3, 4, 5, 6, 7]);
        assert_eq!(all(&dgx, RankTopology::switch), [0; 8]);
        assert_eq!((dgx.width(0, 7), dgx.width(3, 3)), (240, 0));
        // No processor is described.
        assert_eq!(all(&of("dgx-a100*2"), RankTopology::numa), [[0; 8], [1; 8]].concat());
    }

    #[test]
    fn a_processor_is_a_switch_that_links_nobody() {
        let pci = of("pcie-4");
        assert_eq!(all(&pci, RankTopology::switch), [0, 0, 1, 1]);
        assert_eq!(all(&pci, RankTopology::numa), [0, 0, 1, 1]);
        assert!((0..4).all(|from| (0..4).all(|to| pci.width(from, to) == 0)));
        let pairs = of("pcie-pairs-4");
        assert_eq!([(0, 1), (1, 2), (2, 3)].map(|(a, b)| pairs.width(a, b)), [48, 0, 48]);
        assert_eq!(all(&pairs, RankTopology::nic), [0; 4]);
    }

    #[test]
    fn a_mesh_has_no_switch_and_a_domain_of_many_nodes_one() {
        let mesh = of("mi300x-8*2");
        assert_eq!(all(&mesh, RankTopology::switch), [[0; 8], [1; 8]].concat());
        assert_eq!((mesh.width(0, 7), mesh.width(0, 8)), (48, 0));
        let domain = of("gb200-nvl72");
        assert_eq!((domain.switches(), domain.nics(), domain.numas()), (1, 72, 18));
        assert_eq!(domain.width(0, 71), 721);
    }

    #[test]
    fn without_nics_each_rank_has_one_of_its_own() {
        let text = "cluster \"x\"\nnode { gpu * 2\n gpu0 - gpu1 nvlink 500 MB/s 1 us\n}";
        let bare = RankTopology::of(&format::parse(text).unwrap());
        assert_eq!((bare.nics(), bare.switches(), bare.numas()), (2, 1, 1));
        assert_eq!(bare.width(0, 1), 1, "a slow link is one");
    }

    #[test]
    fn degraded_links_are_narrower() {
        let cluster = preset("dgx1-v100").unwrap();
        let cut = degrade::without(&cluster, "gpu0-gpu3").unwrap();
        let slow = RankTopology::of(&degrade::slow(&cut, "gpu0-gpu4=0.5").unwrap());
        assert_eq!([1, 3, 4].map(|to| slow.width(0, to)), [20, 0, 20]);
    }

    #[test]
    fn the_first_ranks_of_a_cluster_get_the_answers_of_all() {
        for preset in PRESETS {
            let whole = RankTopology::of(&preset.cluster().unwrap());
            for ranks in 1..=whole.ranks() {
                let first = whole.first(ranks).unwrap();
                assert_eq!(first.ranks(), ranks);
                for rank in 0..ranks {
                    assert_eq!(first.place(rank), whole.place(rank));
                    assert!(first.nic(rank) < first.nics() && first.numa(rank) < first.numas());
                    assert_eq!(first.width(rank, 0), whole.width(rank, 0));
                }
            }
            assert_eq!(whole.first(whole.ranks() + 1), None, "{}", preset.name);
        }
    }

    #[test]
    fn without_a_cluster_nodes_are_all_that_is_known() {
        let unknown = RankTopology::of_shape(6, 3);
        assert_eq!(all(&unknown, RankTopology::nic), [0, 1, 2, 3, 4, 5]);
        assert_eq!(all(&unknown, RankTopology::switch), [0, 0, 0, 1, 1, 1]);
        assert_eq!((unknown.nics(), unknown.switches(), unknown.numas()), (6, 2, 2));
        assert_eq!([(0, 2), (2, 3), (4, 4)].map(|(a, b)| unknown.width(a, b)), [1, 0, 0]);
        assert_eq!(unknown.first(4), Some(RankTopology::of_shape(4, 3)));
        assert_eq!(unknown.first(7), None);
    }
}
