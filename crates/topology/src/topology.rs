//! The graph of a system, and the questions it answers.

use std::collections::{BTreeMap, HashMap};

use petgraph::graph::{NodeIndex, UnGraph};

use crate::address::{BusId, PciClass};
use crate::bandwidth::Bandwidth;
use crate::graph::{GpuIndex, HostIndex, Link, NetIndex, Node};
use crate::path::{self, Path, PathType};
use crate::system::{Cpu, Device, Gpu, HostHash, Net, Nic, Switch, System};

/// A system as a graph.
#[derive(Clone, Debug)]
pub struct Topology {
    system: System,
    graph: UnGraph<Node, Link>,
    hosts: Vec<HostIndex>,
    gpus: Vec<End<Gpu>>,
    nets: Vec<End<Net>>,
    /// The NUMA nodes, in the order of the description.
    numa: Vec<NodeIndex>,
    /// PCI devices: on the first host that has the address.
    functions: HashMap<BusId, NodeIndex>,
}

/// A device, by what others call it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Place<'a> {
    /// A NUMA node, by its number on the first host.
    Numa(u32),
    /// A PCI device.
    Function(BusId),
    /// A port of a NIC; port 0 of a description stands for any.
    Port {
        /// The device, such as `mlx5_0`.
        name: &'a str,
        /// From 1.
        number: u32,
    },
}

/// A device at the end of a path.
#[derive(Clone, Debug)]
struct End<T> {
    node: NodeIndex,
    host: HostIndex,
    facts: T,
}

impl Topology {
    /// The graph of `system`. NVLinks to addresses that nobody has are left out.
    pub fn new(system: System) -> Self {
        let mut builder = Builder::default();
        system.cpus.iter().for_each(|cpu| builder.cpu(cpu));
        builder.join_sockets(&system.cpus);
        builder.join_switches();
        builder.join_nvlinks();
        builder.join_hosts();
        let Builder { graph, gpus, nets, hosts, cpus, places, .. } = builder;
        let numa = cpus.into_iter().map(|(_, node)| node).collect();
        let mut places: Vec<_> = places.into_iter().collect();
        places.sort_by_key(|((host, _), _)| std::cmp::Reverse(*host));
        let functions = places.into_iter().map(|((_, bus_id), node)| (bus_id, node)).collect();
        let hosts = hosts.into_values().collect();
        Self { system, graph, hosts, gpus, nets, numa, functions }
    }

    /// The description it was made from.
    pub fn system(&self) -> &System {
        &self.system
    }

    /// Number of hosts.
    pub fn hosts(&self) -> usize {
        self.hosts.len()
    }

    /// The graph itself.
    pub fn graph(&self) -> &UnGraph<Node, Link> {
        &self.graph
    }

    /// All GPUs.
    pub fn gpus(&self) -> impl ExactSizeIterator<Item = (GpuIndex, HostIndex, &Gpu)> {
        let each = self.gpus.iter().enumerate();
        each.map(|(index, end)| (GpuIndex(index as u32), end.host, &end.facts))
    }

    /// All ports of NICs.
    pub fn nets(&self) -> impl ExactSizeIterator<Item = (NetIndex, HostIndex, &Net)> {
        let each = self.nets.iter().enumerate();
        each.map(|(index, end)| (NetIndex(index as u32), end.host, &end.facts))
    }

    /// How data gets from one device to another; `None` if one of them is not of this topology.
    pub fn path(&self, from: Node, to: Node) -> Option<Path> {
        self.paths(from, &[to]).pop()
    }

    /// The paths from one device to several; empty if one of them is not of this topology.
    pub fn paths(&self, from: Node, to: &[Node]) -> Vec<Path> {
        let Some(start) = self.place(from) else { return Vec::new() };
        let found = path::search(&self.graph, start);
        let one = |&to: &Node| {
            let path = found.get(self.place(to)?.index()).copied()?;
            Some(self.through_peer(from, to, path).unwrap_or(path))
        };
        to.iter().map(one).collect::<Option<Vec<_>>>().unwrap_or_default()
    }

    /// The ports with the best path to `gpu`, best first: those of its rail.
    pub fn nearest_nets(&self, gpu: GpuIndex) -> Vec<NetIndex> {
        let ports: Vec<_> = self.nets().map(|(net, _, _)| Node::Net(net)).collect();
        let paths = self.paths(Node::Gpu(gpu), &ports);
        let rank = |path: &Path| (path.kind, std::cmp::Reverse(path.bandwidth));
        let close = |path: &&Path| path.kind < PathType::Net;
        let Some(best) = paths.iter().filter(close).map(rank).min() else { return Vec::new() };
        let found = self.nets().zip(&paths).filter(|(_, path)| rank(path) == best);
        found.map(|((net, _, _), _)| net).collect()
    }

    /// How a NIC at each of `to` reads and writes the memory at `from`: by PCI, without the help of
    /// other GPUs. `None` for what the description does not have.
    pub fn paths_from(&self, from: Place<'_>, to: &[Place<'_>]) -> Vec<Option<Path>> {
        let found = self.find(from).map(|start| path::search(&self.graph, start));
        let one = |to: &Place<'_>| found.as_ref()?.get(self.find(*to)?.index()).copied();
        to.iter().map(one).collect()
    }

    fn find(&self, place: Place<'_>) -> Option<NodeIndex> {
        match place {
            Place::Numa(number) => {
                let position = self.system.cpus.iter().position(|cpu| cpu.numa == number)?;
                self.numa.get(position).copied()
            }
            Place::Function(bus_id) => self.functions.get(&bus_id).copied(),
            Place::Port { name, number } => {
                let same =
                    |net: &Net| net.name.as_str() == name && (net.port == 0 || net.port == number);
                self.nets.iter().find(|end| same(&end.facts)).map(|end| end.node)
            }
        }
    }

    /// The GPUs that `gpu` reaches by NVLink without another GPU between.
    pub fn nvlink_peers(&self, gpu: GpuIndex) -> Vec<GpuIndex> {
        let all: Vec<_> = self.gpus().map(|(gpu, _, _)| Node::Gpu(gpu)).collect();
        let paths = self.paths(Node::Gpu(gpu), &all);
        let found = self.gpus().zip(paths).filter(|(_, path)| path.kind == PathType::NvLink);
        found.map(|((gpu, _, _), _)| gpu).collect()
    }

    fn place(&self, node: Node) -> Option<NodeIndex> {
        match node {
            Node::Gpu(gpu) => self.gpus.get(gpu.0 as usize).map(|end| end.node),
            Node::Net(net) => self.nets.get(net.0 as usize).map(|end| end.node),
            Node::Cpu(_)
            | Node::Switch
            | Node::Nic
            | Node::Function
            | Node::NvSwitch(_)
            | Node::Network => None,
        }
    }

    /// A GPU far from a port does better by way of an NVLink peer that is near it.
    fn through_peer(&self, from: Node, to: Node, direct: Path) -> Option<Path> {
        let (Node::Gpu(_), Node::Net(_)) = (from, to) else { return None };
        if !(PathType::Pxn..PathType::Net).contains(&direct.kind) {
            return None;
        }
        let back = path::search(&self.graph, self.place(to)?);
        let first = path::search(&self.graph, self.place(from)?);
        let paths = self.gpus.iter().filter_map(|peer| {
            let (by_nvlink, close) = (first.get(peer.node.index())?, back.get(peer.node.index())?);
            let fits = by_nvlink.kind == PathType::NvLink && close.kind <= PathType::Pxb;
            fits.then(|| Path {
                kind: PathType::Pxn,
                bandwidth: by_nvlink.bandwidth.min(close.bandwidth),
                hops: by_nvlink.hops + close.hops,
            })
        });
        paths.max_by_key(|path| (path.bandwidth, std::cmp::Reverse(path.hops)))
    }
}

/// A graph in the making.
#[derive(Default)]
struct Builder {
    graph: UnGraph<Node, Link>,
    hosts: BTreeMap<Option<HostHash>, HostIndex>,
    cpus: Vec<(HostIndex, NodeIndex)>,
    /// By host, because addresses repeat on every host.
    places: HashMap<(HostIndex, BusId), NodeIndex>,
    switch_links: Vec<(HostIndex, BusId, BusId, Bandwidth)>,
    nv_switches: HashMap<HostIndex, NodeIndex>,
    gpus: Vec<End<Gpu>>,
    nets: Vec<End<Net>>,
}

impl Builder {
    fn cpu(&mut self, cpu: &Cpu) {
        let next = HostIndex(self.hosts.len() as u32);
        let host = *self.hosts.entry(cpu.host).or_insert(next);
        let node = self.graph.add_node(Node::Cpu(host));
        self.cpus.push((host, node));
        self.devices(host, node, &cpu.devices);
    }

    fn devices(&mut self, host: HostIndex, above: NodeIndex, devices: &[Device]) {
        for device in devices {
            match device {
                Device::Switch(switch) => self.switch(host, above, switch),
                Device::Gpu(gpu) => self.gpu(host, above, gpu),
                Device::Nic(nic) => self.nic(host, above, nic),
            }
        }
    }

    fn switch(&mut self, host: HostIndex, above: NodeIndex, switch: &Switch) {
        let Switch { function, peers, devices } = switch;
        let is_bridge = !devices.is_empty() || function.class.is_some_and(PciClass::is_bridge);
        let node = self.graph.add_node(if is_bridge { Node::Switch } else { Node::Function });
        let bandwidth = Bandwidth::of_pci(function.link);
        self.graph.add_edge(above, node, Link::Pci(bandwidth));
        self.places.insert((host, function.bus_id), node);
        let links = peers.iter().map(|&peer| (host, function.bus_id, peer, bandwidth));
        self.switch_links.extend(links);
        self.devices(host, node, devices);
    }

    fn gpu(&mut self, host: HostIndex, above: NodeIndex, gpu: &Gpu) {
        let node = self.graph.add_node(Node::Gpu(GpuIndex(self.gpus.len() as u32)));
        let bandwidth = Bandwidth::of_pci(gpu.function.link);
        self.graph.add_edge(above, node, Link::Pci(bandwidth));
        self.places.insert((host, gpu.function.bus_id), node);
        if let (Some(c2c), Some(&(_, cpu))) = (gpu.c2c, self.cpus.last()) {
            let bandwidth = c2c.megabytes_per_s.saturating_mul(c2c.count);
            self.graph.add_edge(cpu, node, Link::C2c(Bandwidth::from_mb_per_s(bandwidth)));
        }
        self.gpus.push(End { node, host, facts: gpu.clone() });
    }

    fn nic(&mut self, host: HostIndex, above: NodeIndex, nic: &Nic) {
        let Nic { function, nets } = nic;
        let card = self.graph.add_node(Node::Nic);
        let link = function.as_ref().map(|function| Bandwidth::of_pci(function.link));
        self.graph.add_edge(above, card, Link::Pci(link.unwrap_or(Bandwidth::LOCAL)));
        if let Some(function) = function {
            self.places.insert((host, function.bus_id), card);
        }
        for net in nets {
            let node = self.graph.add_node(Node::Net(NetIndex(self.nets.len() as u32)));
            let bandwidth = Bandwidth::of_net(net.speed_mbit_per_s);
            self.graph.add_edge(card, node, Link::Port(bandwidth));
            self.nets.push(End { node, host, facts: net.clone() });
        }
    }

    /// Joins the NUMA nodes of every host, each with each.
    fn join_sockets(&mut self, cpus: &[Cpu]) {
        for (position, &(host, one)) in self.cpus.iter().enumerate() {
            for (&(other_host, other), cpu) in self.cpus.iter().zip(cpus).take(position) {
                if host == other_host {
                    self.graph.add_edge(one, other, Link::Socket(Bandwidth::of_socket_link(cpu)));
                }
            }
        }
    }

    /// Joins PCI switches that have links of their own; both ends may name one.
    fn join_switches(&mut self) {
        for &(host, from, to, bandwidth) in &self.switch_links {
            let ends = (self.places.get(&(host, from)), self.places.get(&(host, to)));
            if let (Some(&from), Some(&to)) = ends {
                self.graph.update_edge(from, to, Link::Pci(bandwidth));
            }
        }
    }

    /// Joins GPUs by NVLinks, which both ends may name as well.
    fn join_nvlinks(&mut self) {
        for End { node, host, facts } in &self.gpus {
            let mut to_switches: u32 = 0;
            for links in &facts.nvlinks {
                if links.target_class == PciClass::NVSWITCH {
                    to_switches = to_switches.saturating_add(links.count);
                } else if let Some(target) = links.target
                    && let Some(&target) = self.places.get(&(*host, target))
                    && target != *node
                    && !is_joined(&self.graph, *node, target)
                {
                    let bandwidth = Bandwidth::of_gpu_links(facts, links.kind, links.count);
                    self.graph.add_edge(*node, target, Link::NvLink(bandwidth));
                }
            }
            if to_switches > 0 {
                let graph = &mut self.graph;
                let switch = self.nv_switches.entry(*host);
                let switch = *switch.or_insert_with(|| graph.add_node(Node::NvSwitch(*host)));
                let bandwidth = Bandwidth::of_nvlinks(facts.sm, to_switches);
                self.graph.add_edge(*node, switch, Link::NvLink(bandwidth));
            }
        }
    }

    fn join_hosts(&mut self) {
        if self.hosts.len() < 2 {
            return;
        }
        let network = self.graph.add_node(Node::Network);
        for net in &self.nets {
            let bandwidth = Bandwidth::of_net(net.facts.speed_mbit_per_s);
            self.graph.add_edge(net.node, network, Link::Cable(bandwidth));
        }
    }
}

/// Whether NVLinks join two nodes already.
fn is_joined(graph: &UnGraph<Node, Link>, one: NodeIndex, other: NodeIndex) -> bool {
    graph.edges_connecting(one, other).any(|edge| matches!(edge.weight(), Link::NvLink(_)))
}
