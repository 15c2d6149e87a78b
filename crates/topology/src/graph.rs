//! The nodes and links of the graph of a system.

use std::fmt;

use crate::bandwidth::Bandwidth;

macro_rules! index {
    ($(#[$doc:meta])* $name:ident, $prefix:literal) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
        pub struct $name(pub u32);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!($prefix, "{}"), self.0)
            }
        }
    };
}

index! {
    /// A host, in the order of the description; prints as `host0`.
    HostIndex, "host"
}
index! {
    /// A GPU, in the order of the description; prints as `gpu3`.
    GpuIndex, "gpu"
}
index! {
    /// A port of a NIC, in the order of the description; prints as `net3`.
    NetIndex, "net"
}

/// A device as a node of the graph.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Node {
    /// A NUMA node.
    Cpu(HostIndex),
    /// A PCI switch.
    Switch,
    /// A GPU.
    Gpu(GpuIndex),
    /// A network card.
    Nic,
    /// A PCI device of which the description says nothing more.
    Function,
    /// A port of a card.
    Net(NetIndex),
    /// All NVLink switches of a host, which act as one.
    NvSwitch(HostIndex),
    /// The network between hosts, whose inside is unknown.
    Network,
}

/// What joins two nodes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Link {
    /// A PCI link.
    Pci(Bandwidth),
    /// A bundle of NVLinks, or of what another maker has in their place.
    NvLink(Bandwidth),
    /// Between a GPU and a processor in one package.
    C2c(Bandwidth),
    /// Between NUMA nodes of a host.
    Socket(Bandwidth),
    /// Between a card and its port.
    Port(Bandwidth),
    /// Between a port and the network.
    Cable(Bandwidth),
}
