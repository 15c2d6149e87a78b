//! A cluster as a value: GPUs, switches, NICs, and links with their rates.
//!
//! A directed graph. Every link carries data one way, so what works both ways is two links. What
//! several GPUs share (a PCI switch, a NIC, an uplink) is a link that all their paths take.
//! Ranks are the GPUs in the order in which they were added.
//!
//! ```
//! use msccl_topology::bandwidth::Bandwidth;
//! use msccl_topology::cluster::{Cluster, Medium, VertexKind};
//!
//! let mut cluster = Cluster::new("two GPUs");
//! let [one, other] = ["gpu0", "gpu1"].map(|name| cluster.add(name, VertexKind::Gpu, Some(0)));
//! cluster.join(one, other, Bandwidth::from_mb_per_s(50_000), 900, Medium::NvLink);
//! assert_eq!(cluster.gpus().count(), 2);
//! assert_eq!(cluster.links().len(), 2);
//! ```
//!
//! [`presets`] has machines under names, [`format`](mod@format) reads and prints a text,
//! [`from_topology`](mod@from_topology) takes a description of NCCL's,
//! [`repeat`](mod@repeat) makes several nodes of one, [`degrade`] takes links away or
//! slows them, [`draw`](mod@draw) shows a cluster to people, and [`ranks`] answers what programs
//! ask of it, with [`counts`] for their launches.
//!
//! Absent: algorithms, and where processes run.

pub mod counts;
pub mod degrade;
pub mod draw;
pub mod format;
pub mod from_topology;
mod group;
pub mod latency;
mod nodes;
mod pattern;
pub mod presets;
pub mod ranks;
pub mod repeat;

use std::fmt;

use crate::bandwidth::Bandwidth;

/// Most vertices of a cluster that is read or repeated.
pub const MOST_VERTICES: usize = 1 << 14;

/// Most links, each direction counted, of a cluster that is read or repeated.
pub const MOST_LINKS: usize = 1 << 18;

/// GPUs, and what joins them.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Cluster {
    name: String,
    vertices: Vec<Vertex>,
    links: Vec<ClusterLink>,
}

/// A place in a cluster.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Vertex {
    /// Its name, which no other vertex of the cluster has: `gpu3`, `node1.nic0`.
    pub name: String,
    /// What it is.
    pub kind: VertexKind,
    /// Of which node it is a part; `None` of what lies between nodes.
    pub node: Option<u32>,
}

/// What a vertex is.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum VertexKind {
    /// A GPU, which is a rank.
    Gpu,
    /// What only passes data on: an NVSwitch, a PCI switch, a processor.
    Switch,
    /// A port of a NIC.
    Nic,
    /// A switch of the network between nodes.
    Network,
}

/// The number of a vertex, in the order in which they were added.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct VertexIndex(pub u32);

/// A way for data, in one direction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ClusterLink {
    /// Where it begins.
    pub from: VertexIndex,
    /// Where it ends.
    pub to: VertexIndex,
    /// What it carries in its direction, whatever goes in the other one.
    pub rate: Bandwidth,
    /// How long the first byte takes, in nanoseconds.
    pub latency_ns: u32,
    /// What it is made of.
    pub medium: Medium,
}

/// What a link is made of.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Medium {
    /// NVLinks.
    NvLink,
    /// xGMI, as between AMD's GPUs.
    Xgmi,
    /// A PCI link.
    Pci,
    /// Between processors of a node.
    Socket,
    /// Between a NIC and the network, and within the network.
    Cable,
}

impl VertexKind {
    /// All kinds.
    pub const ALL: [VertexKind; 4] =
        [VertexKind::Gpu, VertexKind::Switch, VertexKind::Nic, VertexKind::Network];

    /// The word for it in texts of clusters.
    pub fn name(self) -> &'static str {
        match self {
            VertexKind::Gpu => "gpu",
            VertexKind::Switch => "switch",
            VertexKind::Nic => "nic",
            VertexKind::Network => "network",
        }
    }
}

impl Medium {
    /// All media.
    pub const ALL: [Medium; 5] =
        [Medium::NvLink, Medium::Xgmi, Medium::Pci, Medium::Socket, Medium::Cable];

    /// The word for it in texts of clusters.
    pub fn name(self) -> &'static str {
        match self {
            Medium::NvLink => "nvlink",
            Medium::Xgmi => "xgmi",
            Medium::Pci => "pci",
            Medium::Socket => "socket",
            Medium::Cable => "cable",
        }
    }
}

impl fmt::Display for VertexKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl fmt::Display for Medium {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl VertexIndex {
    /// As an index of [`Cluster::vertices`].
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

impl Cluster {
    /// An empty cluster.
    pub fn new(name: impl Into<String>) -> Self {
        Self { name: name.into(), vertices: Vec::new(), links: Vec::new() }
    }

    /// Adds a vertex. Names must differ: who reads them from a text checks that.
    pub fn add(
        &mut self,
        name: impl Into<String>,
        kind: VertexKind,
        node: Option<u32>,
    ) -> VertexIndex {
        self.vertices.push(Vertex { name: name.into(), kind, node });
        VertexIndex(self.vertices.len() as u32 - 1)
    }

    /// Adds a link each way between two vertices, with `rate` in either direction.
    pub fn join(
        &mut self,
        one: VertexIndex,
        other: VertexIndex,
        rate: Bandwidth,
        latency_ns: u32,
        medium: Medium,
    ) {
        for (from, to) in [(one, other), (other, one)] {
            self.add_link(ClusterLink { from, to, rate, latency_ns, medium });
        }
    }

    /// Adds a link in one direction.
    pub fn add_link(&mut self, link: ClusterLink) {
        self.links.push(link);
    }

    /// What it is called.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// All vertices, by number.
    pub fn vertices(&self) -> &[Vertex] {
        &self.vertices
    }

    /// All links.
    pub fn links(&self) -> &[ClusterLink] {
        &self.links
    }

    /// What a link of this cluster is called: `node0.nic0 > fabric`.
    pub fn link_name(&self, link: &ClusterLink) -> String {
        let [from, to] = [link.from, link.to].map(|end| &self.vertices[end.index()].name);
        format!("{from} > {to}")
    }

    /// The GPUs, by rank.
    pub fn gpus(&self) -> impl Iterator<Item = VertexIndex> {
        let numbered = (0..).zip(&self.vertices);
        numbered.filter(|(_, it)| it.kind == VertexKind::Gpu).map(|(at, _)| VertexIndex(at))
    }

    /// The vertex of that name.
    pub fn find(&self, name: &str) -> Option<VertexIndex> {
        let at = self.vertices.iter().position(|vertex| vertex.name == name)?;
        Some(VertexIndex(at as u32))
    }
}
