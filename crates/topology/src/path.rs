//! How data gets from one device to another.
//!
//! A path is as bad as its worst part and as wide as its narrowest. Of several, the one of the best
//! type is taken, of these one with fewest hops, of these the widest that was met.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::fmt;

use petgraph::graph::{NodeIndex, UnGraph};
use petgraph::visit::EdgeRef;

use crate::bandwidth::Bandwidth;
use crate::graph::{Link, Node};

/// What a path goes through at worst, best first; prints under NCCL's names.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum PathType {
    /// The same device.
    Local,
    /// NVLinks.
    NvLink,
    /// NVLinks with a GPU between.
    NvLinkBridged,
    /// The link between a GPU and the processor in its package.
    C2c,
    /// One PCI switch.
    Pix,
    /// Several PCI switches, but no processor.
    Pxb,
    /// From a GPU to a NIC by way of the processor in its package.
    P2c,
    /// From a GPU to a NIC by way of a GPU near the NIC.
    Pxn,
    /// The PCI host bridge of a processor.
    Phb,
    /// The links between NUMA nodes.
    Sys,
    /// The network.
    Net,
    /// There is none.
    Disconnected,
}

impl PathType {
    /// NCCL's name for it.
    pub fn name(self) -> &'static str {
        match self {
            PathType::Local => "LOC",
            PathType::NvLink => "NVL",
            PathType::NvLinkBridged => "NVB",
            PathType::C2c => "C2C",
            PathType::Pix => "PIX",
            PathType::Pxb => "PXB",
            PathType::P2c => "P2C",
            PathType::Pxn => "PXN",
            PathType::Phb => "PHB",
            PathType::Sys => "SYS",
            PathType::Net => "NET",
            PathType::Disconnected => "DIS",
        }
    }
}

impl fmt::Display for PathType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A path between two devices.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Path {
    /// What it goes through at worst.
    pub kind: PathType,
    /// Its narrowest part.
    pub bandwidth: Bandwidth,
    /// Number of links.
    pub hops: u32,
}

impl Path {
    const HERE: Path = Path { kind: PathType::Local, bandwidth: Bandwidth::LOCAL, hops: 0 };
    const NONE: Path = Path {
        kind: PathType::Disconnected,
        bandwidth: Bandwidth::from_mb_per_s(0),
        hops: u32::MAX,
    };

    /// Less is better.
    fn cost(self) -> (PathType, u32, Reverse<Bandwidth>) {
        (self.kind, self.hops, Reverse(self.bandwidth))
    }
}

/// The best path from `start` to every node, by the node's index.
pub(crate) fn search(graph: &UnGraph<Node, Link>, start: NodeIndex) -> Vec<Path> {
    let mut best = vec![Path::NONE; graph.node_count()];
    let mut waiting = BinaryHeap::new();
    if let Some(here) = best.get_mut(start.index()) {
        *here = Path::HERE;
        waiting.push((Reverse(Path::HERE.cost()), start));
    }
    while let Some((Reverse(cost), at)) = waiting.pop() {
        let path = best[at.index()];
        if path.cost() != cost {
            continue;
        }
        for edge in graph.edges(at) {
            let to = edge.target();
            let (link, ends) = (*edge.weight(), (graph[at], graph[to]));
            let Some(longer) = extend(path, link, ends) else { continue };
            if longer.cost() < best[to.index()].cost() {
                best[to.index()] = longer;
                waiting.push((Reverse(longer.cost()), to));
            }
        }
    }
    best
}

/// `path` and one link more, from one node to another; `None` where data does not go that way.
fn extend(path: Path, link: Link, (from, to): (Node, Node)) -> Option<Path> {
    let forwarded = matches!(from, Node::Gpu(_)) && path.hops > 0;
    let (kind, bandwidth) = match (link, from, to) {
        // A GPU forwards only between NVLinks, and only once.
        (Link::NvLink(bandwidth), _, Node::Gpu(_)) if forwarded => {
            let direct = path.hops == 1 && path.kind == PathType::NvLink;
            (direct.then_some(PathType::NvLinkBridged)?, bandwidth)
        }
        _ if forwarded => return None,
        (Link::NvLink(bandwidth), _, _) => (PathType::NvLink, bandwidth),
        (Link::C2c(bandwidth), _, _) => (PathType::C2c, bandwidth),
        (Link::Pci(bandwidth), Node::Cpu(_), Node::Nic)
        | (Link::Pci(bandwidth), Node::Cpu(_), Node::Function)
        | (Link::Pci(bandwidth), Node::Cpu(_), Node::Switch)
            if path.kind == PathType::C2c =>
        {
            (PathType::P2c, bandwidth)
        }
        (Link::Pci(bandwidth), Node::Cpu(_), _) | (Link::Pci(bandwidth), _, Node::Cpu(_)) => {
            (PathType::Phb, bandwidth)
        }
        (Link::Pci(bandwidth), Node::Switch, Node::Switch) => (PathType::Pxb, bandwidth),
        (Link::Pci(bandwidth), _, _) => (PathType::Pix, bandwidth),
        (Link::Socket(bandwidth), _, _) => (PathType::Sys, bandwidth),
        (Link::Port(bandwidth), _, _) => (PathType::Local, bandwidth),
        (Link::Cable(bandwidth), _, _) => (PathType::Net, bandwidth),
    };
    Some(Path {
        kind: path.kind.max(kind),
        bandwidth: path.bandwidth.min(bandwidth),
        hops: path.hops + 1,
    })
}
