//! Mistakes of an author that are no faults: what a machine makes slow without need.
//!
//! Routes are those of [`link_loads`](crate::link_loads). A schedule may have good reasons for what
//! is reported here, so that each is a warning and no more.

use std::collections::{BTreeMap, BTreeSet};

use msccl_collective::{Rank, StepIndex, TbIndex};
use msccl_ir::{Algorithm, Step};
use msccl_topology::cluster::ranks::RankTopology;
use msccl_topology::cluster::{Cluster, ClusterLink, Medium, VertexIndex, VertexKind};

use crate::loads::LinkLoads;
use crate::routes::Routes;

/// Something that the author of a schedule may not mean.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Warning {
    /// Messages within a node between GPUs that no NVLink or xGMI joins, although the sender has
    /// such links to others of the node.
    NoDirectLink(MessageWays),
    /// Messages between nodes from a GPU of one rail to a GPU of another, where rails have networks
    /// of their own.
    CrossedRail(MessageWays),
    /// All that leaves a node, or all that comes to it, passes one of its NICs.
    OneNic(OneNic),
    /// Thread blocks whose steps within the node and steps between nodes come one after the other,
    /// so that these cannot overlap.
    SharedBlock(SharedBlock),
}

/// Messages from ranks to ranks: the first of them, and how many pairs of ranks there are.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MessageWays {
    /// Who sends.
    pub from: Rank,
    /// Who receives.
    pub to: Rank,
    /// The way, from GPU to GPU.
    pub way: Vec<VertexIndex>,
    /// How many pairs of ranks exchange such messages, each direction counted.
    pub pairs: usize,
}

/// One NIC that works while others of its node are idle: of the first such node.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct OneNic {
    /// The node.
    pub node: u32,
    /// The NIC.
    pub busy: VertexIndex,
    /// The others.
    pub idle: Vec<VertexIndex>,
    /// Which way the data goes.
    pub direction: NicDirection,
    /// How many nodes are so.
    pub nodes: usize,
}

/// Which way data passes a NIC.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum NicDirection {
    /// Out of the node.
    Out,
    /// Into the node.
    In,
}

/// A thread block with steps of two kinds, and how many there are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SharedBlock {
    /// The rank of the first such thread block.
    pub rank: Rank,
    /// The thread block.
    pub tb: TbIndex,
    /// Its first step with a message within the node.
    pub within: StepIndex,
    /// Its first step with a message to or from another node.
    pub between: StepIndex,
    /// How many such thread blocks there are.
    pub blocks: usize,
}

/// What may be meant otherwise when `algorithm` runs on `cluster`, whose GPUs are its ranks in
/// order. `loads` are those of the same algorithm and cluster.
pub fn warnings(algorithm: &Algorithm, cluster: &Cluster, loads: &LinkLoads) -> Vec<Warning> {
    let search = WarningSearch::new(algorithm, cluster);
    let one_nics = one_nics(cluster, loads).into_iter().map(Warning::OneNic);
    let ways = [
        search.no_direct_links().map(Warning::NoDirectLink),
        search.crossed_rails().map(Warning::CrossedRail),
    ];
    let shared = search.shared_blocks().map(Warning::SharedBlock);
    ways.into_iter().flatten().chain(one_nics).chain(shared).collect()
}

struct WarningSearch<'a> {
    algorithm: &'a Algorithm,
    cluster: &'a Cluster,
    /// The node of each rank.
    nodes: Vec<Option<u32>>,
    /// The way of all messages from one rank to another.
    ways: Vec<Way>,
}

/// The way of all messages from one rank to another, by links of the cluster in order.
struct Way {
    from: Rank,
    to: Rank,
    links: Vec<usize>,
}

impl<'a> WarningSearch<'a> {
    fn new(algorithm: &'a Algorithm, cluster: &'a Cluster) -> Self {
        let node = |gpu: VertexIndex| cluster.vertices()[gpu.index()].node;
        let nodes = cluster.gpus().map(node).collect();
        Self { algorithm, cluster, nodes, ways: ways(algorithm, cluster) }
    }

    fn node(&self, rank: Rank) -> Option<u32> {
        self.nodes.get(rank.index()).copied().flatten()
    }

    fn is_within_node(&self, one: Rank, other: Rank) -> bool {
        self.node(one).is_some() && self.node(one) == self.node(other)
    }

    fn link(&self, at: usize) -> &ClusterLink {
        &self.cluster.links()[at]
    }

    fn no_direct_links(&self) -> Option<MessageWays> {
        let direct = self.cluster.links().iter().filter(|link| is_direct(link));
        let with_direct: BTreeSet<VertexIndex> = direct.map(|link| link.from).collect();
        self.first_of(|way| {
            let start = way.links.first().map(|link| self.link(*link).from);
            self.is_within_node(way.from, way.to)
                && start.is_some_and(|start| with_direct.contains(&start))
                && !way.links.iter().all(|link| is_direct(self.link(*link)))
        })
    }

    fn crossed_rails(&self) -> Option<MessageWays> {
        let rails = Rails::of(self.cluster, &self.nodes)?;
        self.first_of(|way| {
            let [from, to] = [way.from, way.to].map(|rank| rails.of_ranks.get(rank.index()));
            self.node(way.from) != self.node(way.to) && from != to
        })
    }

    /// The first of the ways that `is_meant` finds, and how many there are.
    fn first_of(&self, is_meant: impl Fn(&Way) -> bool) -> Option<MessageWays> {
        let mut found = self.ways.iter().filter(|way| is_meant(way));
        let Way { from, to, links } = found.next()?;
        let ends = links.iter().map(|link| self.link(*link).to);
        let start = links.first().map(|link| self.link(*link).from);
        let way = start.into_iter().chain(ends).collect();
        Some(MessageWays { from: *from, to: *to, way, pairs: 1 + found.count() })
    }

    fn shared_blocks(&self) -> Option<SharedBlock> {
        let mut found = self.algorithm.thread_blocks().filter_map(|(rank, tb, block)| {
            let kinds: Vec<Peers> = block.steps.iter().map(|it| self.peers(rank, it)).collect();
            // What passes data on from one kind of link to the other is one phase.
            if kinds.contains(&Peers::Both) {
                return None;
            }
            let first = |kind| kinds.iter().position(|it| *it == kind).map(StepIndex::from);
            let (within, between) = (first(Peers::Within)?, first(Peers::Between)?);
            Some(SharedBlock { rank, tb, within, between, blocks: 1 })
        });
        let first = found.next()?;
        Some(SharedBlock { blocks: 1 + found.count(), ..first })
    }

    fn peers(&self, rank: Rank, step: &Step) -> Peers {
        let is_within = |peer: Rank| self.is_within_node(rank, peer);
        let (mut within, mut between) = (false, false);
        for peer in step.sends().chain(step.receives()) {
            if is_within(peer) { within = true } else { between = true }
        }
        match (within, between) {
            (true, true) => Peers::Both,
            (true, false) => Peers::Within,
            (false, true) => Peers::Between,
            (false, false) => Peers::None,
        }
    }
}

/// With whom a step exchanges messages.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Peers {
    None,
    /// With ranks of its node.
    Within,
    /// With ranks of other nodes.
    Between,
    Both,
}

/// Whether a link is one that GPUs have to have short ways to each other.
fn is_direct(link: &ClusterLink) -> bool {
    match link.medium {
        Medium::NvLink | Medium::Xgmi => true,
        Medium::Pci | Medium::Socket | Medium::Cable => false,
    }
}

/// The ways of all pairs of ranks between which messages go and something leads.
fn ways(algorithm: &Algorithm, cluster: &Cluster) -> Vec<Way> {
    let routes = Routes::of(cluster);
    let mut receivers: BTreeMap<Rank, BTreeSet<Rank>> = BTreeMap::new();
    for (rank, _, block) in algorithm.thread_blocks() {
        receivers.entry(rank).or_default().extend(&block.sends);
    }
    let has_gpu = |rank: &Rank| rank.index() < routes.gpus();
    let mut ways = Vec::new();
    for (from, receivers) in receivers.into_iter().filter(|(from, _)| has_gpu(from)) {
        let routes = routes.from(from.index());
        for to in receivers.into_iter().filter(has_gpu) {
            let links = routes.to(to.index());
            ways.extend(links.map(|links| Way { from, to, links }));
        }
    }
    ways
}

/// Of a network that has a part of its own for each rail.
struct Rails {
    /// By rank, the place of its NIC among those of its node.
    of_ranks: Vec<u32>,
}

impl Rails {
    /// `None` where all NICs are at one network, or none is.
    fn of(cluster: &Cluster, nodes: &[Option<u32>]) -> Option<Self> {
        let kind = |at: VertexIndex| cluster.vertices()[at.index()].kind;
        let cables = cluster.links().iter().filter(|link| kind(link.from) == VertexKind::Nic);
        let networks = cables.map(|link| link.to).filter(|to| kind(*to) == VertexKind::Network);
        if networks.collect::<BTreeSet<_>>().len() < 2 {
            return None;
        }
        let ranks = RankTopology::of(cluster);
        let nics: Vec<u32> = (0..ranks.ranks()).map(|rank| ranks.nic(rank)).collect();
        let mut first: BTreeMap<Option<u32>, u32> = BTreeMap::new();
        for (node, nic) in nodes.iter().zip(&nics) {
            let first = first.entry(*node).or_insert(*nic);
            *first = (*first).min(*nic);
        }
        let local = nodes.iter().zip(&nics).map(|(node, nic)| nic - first[node]);
        Some(Self { of_ranks: local.collect() })
    }
}

/// NICs that carry all of their nodes: those that send, then those that receive.
fn one_nics(cluster: &Cluster, loads: &LinkLoads) -> Vec<OneNic> {
    let mut carried: BTreeMap<(u32, NicDirection), BTreeMap<VertexIndex, u64>> = BTreeMap::new();
    for (link, chunks) in cluster.links().iter().zip(&loads.chunks) {
        let ends =
            [(link.from, link.to, NicDirection::Out), (link.to, link.from, NicDirection::In)];
        for (nic, network, direction) in ends {
            let [nic_end, other] = [nic, network].map(|at| &cluster.vertices()[at.index()]);
            let is_cable = nic_end.kind == VertexKind::Nic && other.kind == VertexKind::Network;
            if let Some(node) = nic_end.node.filter(|_| is_cable) {
                *carried.entry((node, direction)).or_default().entry(nic).or_default() += chunks;
            }
        }
    }
    let mut found: BTreeMap<NicDirection, OneNic> = BTreeMap::new();
    for ((node, direction), nics) in carried {
        let (busy, idle): (Vec<_>, Vec<_>) = nics.into_iter().partition(|(_, chunks)| *chunks > 0);
        let idle: Vec<VertexIndex> = idle.into_iter().map(|(nic, _)| nic).collect();
        if let [(busy, _)] = busy.as_slice()
            && !idle.is_empty()
        {
            let first = OneNic { node, busy: *busy, idle, direction, nodes: 0 };
            found.entry(direction).or_insert(first).nodes += 1;
        }
    }
    found.into_values().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::link_loads;
    use msccl_topology::cluster::format::parse;
    use msccl_topology::cluster::presets::preset;

    const PAIRS: &str = include_str!("../../../docs/examples/clusters/pairs.cluster");
    const RAILS: &str = include_str!("../../../docs/examples/clusters/rails.cluster");

    /// Every rank sends its only chunk to those that `sends` says, by a thread block each.
    fn algorithm(ranks: u32, sends: &[(u32, u32)]) -> Algorithm {
        let mut text = head(ranks);
        for rank in 0..ranks {
            text += &format!("r{rank} scratch 0\n");
            for (tb, (_, to)) in sends.iter().filter(|(from, _)| *from == rank).enumerate() {
                text += &format!("  tb{tb} ch0 send r{to}\n    s0: i[0] -> r{to}\n");
            }
        }
        msccl_ir::text::parse(&text).unwrap()
    }

    fn head(ranks: u32) -> String {
        format!(
            "algorithm \"test\"\ncollective allgather ranks {ranks} chunks 1\n\
             placement out of place\nprotocol Simple\nbytes 0..\n"
        )
    }

    fn of(algorithm: &Algorithm, cluster: &Cluster) -> Vec<Warning> {
        warnings(algorithm, cluster, &link_loads(algorithm, cluster).unwrap())
    }

    fn names(cluster: &Cluster, way: &[VertexIndex]) -> Vec<String> {
        way.iter().map(|at| cluster.vertices()[at.index()].name.clone()).collect()
    }

    #[test]
    fn messages_beside_nvlinks_are_reported_with_their_way() {
        let pairs = parse(PAIRS).unwrap();
        let found = of(&algorithm(8, &[(0, 1), (1, 2), (2, 1)]), &pairs);
        let [Warning::NoDirectLink(ways)] = found.as_slice() else { panic!("{found:?}") };
        let MessageWays { from, to, way, pairs: count } = ways;
        assert_eq!((*from, *to, *count), (Rank(1), Rank(2), 2));
        let expected = ["gpu1", "numa0", "numa1", "gpu2"].map(|it| format!("node0.{it}"));
        assert_eq!(names(&pairs, way), expected);
        assert!(of(&algorithm(8, &[(0, 1), (3, 2)]), &pairs).is_empty());
        // Through a switch of NVLinks, and where nobody has NVLinks.
        let all: Vec<_> = (1..4).map(|to| (0, to)).collect();
        assert!(of(&algorithm(4, &all), &preset("hgx-h100-4").unwrap()).is_empty());
        assert!(of(&algorithm(4, &all), &preset("pcie-4").unwrap()).is_empty());
    }

    #[test]
    fn messages_between_rails_are_reported() {
        let rails = parse(RAILS).unwrap();
        let found = of(&algorithm(32, &[(0, 8), (1, 9), (8, 0), (9, 1), (7, 8), (8, 7)]), &rails);
        let [Warning::CrossedRail(ways)] = found.as_slice() else { panic!("{found:?}") };
        assert_eq!((ways.from, ways.to, ways.pairs), (Rank(7), Rank(8), 2));
        assert!(names(&rails, &ways.way).contains(&"spine".to_owned()));
        assert!(of(&algorithm(32, &[(0, 8), (1, 9)]), &rails).is_empty());
        // One network joins all NICs.
        let flat = preset("hgx-h100-4*2").unwrap();
        assert!(of(&algorithm(8, &[(0, 5), (1, 4)]), &flat).is_empty());
    }

    #[test]
    fn a_nic_that_works_alone_is_reported() {
        let pairs = parse(PAIRS).unwrap();
        let found = of(&algorithm(8, &[(0, 4), (1, 5)]), &pairs);
        let expected = |node: u32, direction| {
            let nic = |at| pairs.find(&format!("node{node}.nic{at}")).unwrap();
            let (busy, idle) = (nic(0), vec![nic(1)]);
            Warning::OneNic(OneNic { node, busy, idle, direction, nodes: 1 })
        };
        assert_eq!(found, [expected(0, NicDirection::Out), expected(1, NicDirection::In)]);
        let both = of(&algorithm(8, &[(0, 4), (5, 1)]), &pairs);
        let nodes = both.iter().map(|it| match it {
            Warning::OneNic(one) => one.nodes,
            other => panic!("{other:?}"),
        });
        assert_eq!(nodes.collect::<Vec<_>>(), [2, 2]);
        assert!(of(&algorithm(8, &[(0, 4), (2, 6)]), &pairs).is_empty());
        // The only NIC of a node is not reported, nor are those that carry nothing at all.
        let ndv2 = preset("ndv2*2").unwrap();
        assert!(of(&algorithm(16, &[(0, 8)]), &ndv2).is_empty());
        assert!(of(&algorithm(8, &[(0, 1)]), &pairs).is_empty());
    }

    /// Rank 0 does `steps` in one thread block; rank 1 is of its node, rank 4 of another.
    fn one_block(steps: &[&str]) -> Algorithm {
        let mut text = head(8) + "r0 scratch 0\n  tb0 ch0 send r1, r4 receive r1, r4\n";
        for (at, step) in steps.iter().enumerate() {
            text += &format!("    s{at}: {step}\n");
        }
        (1..8).for_each(|rank| text += &format!("r{rank} scratch 0\n"));
        msccl_ir::text::parse(&text).unwrap()
    }

    #[test]
    fn phases_of_one_thread_block_are_reported() {
        let pairs = parse(PAIRS).unwrap();
        let shared = |steps: &[&str]| {
            let found = of(&one_block(steps), &pairs).into_iter();
            found
                .filter_map(|it| match it {
                    Warning::SharedBlock(shared) => Some((shared.within.0, shared.between.0)),
                    _ => None,
                })
                .collect::<Vec<_>>()
        };
        assert_eq!(shared(&["i[0] -> r1", "r1 -> o[1]", "i[0] -> r4"]), [(0, 2)]);
        assert_eq!(shared(&["r4 -> o[4]", "i[0] -> r1"]), [(1, 0)]);
        assert!(shared(&["i[0] -> r1", "r1 -> o[1]"]).is_empty());
        assert!(shared(&["i[0] -> r4", "r4 -> o[4]"]).is_empty());
        // What comes from one node is passed on within the other.
        assert!(shared(&["i[0] -> r4", "r4 -> o[4], r1"]).is_empty());
    }
}
