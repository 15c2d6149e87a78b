//! A cluster of a description of NCCL's, read from a file or found out.
//!
//! Processors are switches `cpu0`, PCI switches are `pci0`, all NVSwitches of a host are one
//! `nvswitch`; a port of a NIC is `nic0`, a card with several ports is a switch `card0` before
//! them.
//! Every port has a cable to the network: `rail2` if the description says its rail, else `fabric`.
//! Of several hosts, names begin with the node: `node1.gpu0`. Functions on the PCI bus of which
//! nothing is known are left out.
//!
//! Rates are those of [`bandwidth`](crate::bandwidth). Descriptions state no latencies but those of
//! ports; the others are those of [`latency`].

use std::collections::HashMap;

use petgraph::graph::NodeIndex;
use petgraph::visit::EdgeRef;

use super::nodes::prefix;
use super::{Cluster, Medium, VertexIndex, VertexKind, latency};
use crate::bandwidth::Bandwidth;
use crate::graph::{HostIndex, Link, Node};
use crate::system::GpuLinkKind;
use crate::topology::Topology;

/// The GPUs and ports of `topology` and what joins them.
pub fn from_topology(topology: &Topology) -> Cluster {
    let name = topology.system().name.as_ref().map_or("this machine", |name| name.as_str());
    let mut maker =
        Maker { topology, out: Cluster::new(name), places: HashMap::new(), counts: HashMap::new() };
    let hosts = maker.hosts();
    for host in 0..topology.hosts() as u32 {
        for (at, _) in hosts.iter().filter(|(_, of)| *of == Some(HostIndex(host))) {
            maker.add(*at, HostIndex(host));
        }
    }
    maker.join();
    maker.cables();
    maker.out
}

struct Maker<'a> {
    topology: &'a Topology,
    out: Cluster,
    places: HashMap<NodeIndex, VertexIndex>,
    /// How many there are of each name without its number.
    counts: HashMap<String, u32>,
}

impl Maker<'_> {
    /// On which host everything is: a device follows the NUMA node that it is attached to.
    fn hosts(&self) -> Vec<(NodeIndex, Option<HostIndex>)> {
        let graph = self.topology.graph();
        let mut last = None;
        let host = |at: NodeIndex| match graph[at] {
            Node::Cpu(host) => {
                last = Some(host);
                (at, last)
            }
            Node::NvSwitch(host) => (at, Some(host)),
            Node::Network => (at, None),
            Node::Switch | Node::Gpu(_) | Node::Nic | Node::Function | Node::Net(_) => (at, last),
        };
        graph.node_indices().map(host).collect()
    }

    fn add(&mut self, at: NodeIndex, host: HostIndex) {
        let graph = self.topology.graph();
        let (word, kind) = match graph[at] {
            Node::Cpu(_) => ("cpu", VertexKind::Switch),
            Node::Switch => ("pci", VertexKind::Switch),
            Node::Gpu(_) => ("gpu", VertexKind::Gpu),
            Node::Net(_) => ("nic", VertexKind::Nic),
            Node::NvSwitch(_) => ("nvswitch", VertexKind::Switch),
            Node::Nic if self.port_of(at).is_none() => ("card", VertexKind::Switch),
            Node::Nic | Node::Function | Node::Network => return,
        };
        let many = self.topology.hosts() > 1;
        let base = if many { prefix(host.0) + word } else { word.to_owned() };
        let count = self.counts.entry(base.clone()).or_default();
        let name = match graph[at] {
            Node::NvSwitch(_) => base,
            _ => format!("{base}{count}"),
        };
        *count += 1;
        let vertex = self.out.add(name, kind, Some(host.0));
        self.places.insert(at, vertex);
    }

    /// The only port of a card, which stands for the card.
    fn port_of(&self, card: NodeIndex) -> Option<NodeIndex> {
        let edges = self.topology.graph().edges(card);
        let mut ports = edges.filter(|edge| matches!(edge.weight(), Link::Port(_)));
        let only = ports.next().map(|edge| edge.target());
        only.filter(|_| ports.next().is_none())
    }

    fn place(&self, at: NodeIndex) -> Option<VertexIndex> {
        self.places.get(&at).or_else(|| self.places.get(&self.port_of(at)?)).copied()
    }

    /// Adds what joins devices of a host.
    fn join(&mut self) {
        for edge in self.topology.graph().edge_references() {
            let ends = (self.place(edge.source()), self.place(edge.target()));
            let (Some(one), Some(other)) = ends else { continue };
            let (rate, latency_ns, medium) = self.facts(*edge.weight(), edge.source());
            if one != other {
                self.out.join(one.min(other), one.max(other), rate, latency_ns, medium);
            }
        }
    }

    fn facts(&self, link: Link, from: NodeIndex) -> (Bandwidth, u32, Medium) {
        match link {
            Link::Pci(rate) => (rate, latency::PCI_NS, Medium::Pci),
            Link::C2c(rate) => (rate, latency::NVLINK_NS, Medium::NvLink),
            Link::Socket(rate) => (rate, latency::SOCKET_NS, Medium::Socket),
            Link::Port(rate) => (rate, 0, Medium::Pci),
            Link::Cable(rate) => (rate, latency::CABLE_NS, Medium::Cable),
            Link::NvLink(rate) => self.gpu_link(rate, from),
        }
    }

    fn gpu_link(&self, rate: Bandwidth, from: NodeIndex) -> (Bandwidth, u32, Medium) {
        let graph = self.topology.graph();
        let is_to_switch = graph.neighbors(from).any(|it| matches!(graph[it], Node::NvSwitch(_)));
        let is_xgmi = self.topology.gpus().any(|(gpu, _, facts)| {
            let xgmi = facts.nvlinks.iter().any(|links| links.kind == GpuLinkKind::Xgmi);
            xgmi && graph[from] == Node::Gpu(gpu)
        });
        match (is_xgmi, is_to_switch) {
            (true, _) => (rate, latency::XGMI_NS, Medium::Xgmi),
            (false, true) => (rate, latency::NVSWITCH_NS, Medium::NvLink),
            (false, false) => (rate, latency::NVLINK_NS, Medium::NvLink),
        }
    }

    /// Joins each port to its network.
    fn cables(&mut self) {
        let graph = self.topology.graph();
        for (net, _, facts) in self.topology.nets() {
            let at = graph.node_indices().find(|at| graph[*at] == Node::Net(net));
            let Some(port) = at.and_then(|at| self.place(at)) else { continue };
            let name = facts.rail.map_or("fabric".to_owned(), |rail| format!("rail{rail}"));
            let network = self.out.find(&name);
            let network = network.unwrap_or_else(|| self.out.add(name, VertexKind::Network, None));
            let rate = Bandwidth::of_net(facts.speed_mbit_per_s);
            let latency_ns = latency::CABLE_NS.saturating_add(facts.latency_ns);
            self.out.join(port, network, rate, latency_ns, Medium::Cable);
        }
    }
}
