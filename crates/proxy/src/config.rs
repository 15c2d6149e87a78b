//! What the front ends decide for a proxy; nothing here is read from the environment.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use msccl_fabric::Choice;
use msccl_topology::Topology;
use msccl_topology::address::BusId;

use crate::log::Log;

/// How a proxy reaches its peers. Ranks may differ in all of it; where they do, a connection is
/// made with the smaller number of sockets, and over RDMA only if both can.
#[derive(Clone)]
pub struct Config {
    /// The network interface for TCP; `None` takes the one that the group uses.
    pub interface: Option<Choice>,
    /// TCP connections to each peer, 1 to 16. More help where one connection does not fill the
    /// network.
    pub sockets_per_peer: u32,
    /// How long a connection to a peer may take, from when both ranks want it, where the network is
    /// not away.
    pub connect_timeout: Duration,
    /// How long the network may be away, or the peer's host silent although it has to answer,
    /// before a rail counts as broken. The default is 40 s: a network that reroutes comes back
    /// within seconds, and a collective that waits for a host that has died should not wait for
    /// minutes.
    pub silence_timeout: Duration,
    /// How long a proxy that ends waits for its last messages to arrive: as long as peers may be in
    /// the calls of which this rank has done its part.
    pub drain_timeout: Duration,
    /// Processors on which the proxy's thread should run, such as those near a GPU; those that it
    /// may not use count for nothing, and none are all.
    pub processors: Vec<usize>,
    /// RDMA.
    pub rdma: RdmaConfig,
    /// What is known of the machine.
    pub machine: MachineFacts,
    /// Receives what happens.
    pub log: Arc<dyn Log>,
}

/// How RDMA is used, if it is. `None` leaves a choice to the library.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RdmaConfig {
    /// Whether to look for the library and for devices at all.
    pub enabled: bool,
    /// Whether links that cannot use RDMA fail, rather than go over TCP.
    pub required: bool,
    /// The library, if it does not lie where it is looked for ([`crate::rdma`] says where).
    pub library: Option<PathBuf>,
    /// `NCCL_IB_HCA`, as it stands: which devices and ports may be used.
    pub hca: Option<String>,
    /// Which of these are used.
    pub nics: Nics,
    /// Whether a rail may join ports of different places among those of their hosts. A rail then
    /// joins what is near at both ends; otherwise, as if each place had a network of its own, it is
    /// near at one end alone.
    pub crosses: bool,
    /// `NCCL_IB_GID_INDEX`.
    pub gid_index: Option<u32>,
    /// `NCCL_IB_TIMEOUT`: a packet is sent again after 4.096 µs · 2^timeout.
    pub timeout: Option<u32>,
    /// `NCCL_IB_RETRY_CNT`: how often.
    pub retry_count: Option<u32>,
    /// `NCCL_IB_TC`.
    pub traffic_class: Option<u32>,
    /// `NCCL_IB_SL`.
    pub service_level: Option<u32>,
}

/// Which of the ports that may be used a rank uses; `docs/RDMA.md` says how it chooses.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum Nics {
    /// Its part of those nearest to its memory, which GPUs of the communicator share.
    #[default]
    Auto,
    /// All of those nearest to its memory.
    Nearest,
    /// At most so many of those; one at least.
    AtMost(u32),
    /// All, however far they are.
    Every,
}

/// What is known of the machine on which a rank runs. Nothing, by default.
#[derive(Clone)]
pub struct MachineFacts {
    /// Descriptions of it, the best first. Asked for when there is something to choose.
    pub topologies: Arc<dyn Fn() -> Vec<Topology> + Send + Sync>,
    /// The rank's GPU, if its memory is a GPU's.
    pub gpu: Option<Gpu>,
}

/// A rank's GPU.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Gpu {
    /// Where it is.
    pub bus_id: BusId,
    /// Those of all ranks of the communicator on this host.
    pub around: Vec<BusId>,
}

impl Default for MachineFacts {
    fn default() -> Self {
        Self { topologies: Arc::new(Vec::new), gpu: None }
    }
}

impl Default for Config {
    fn default() -> Self {
        Self {
            interface: None,
            sockets_per_peer: 1,
            connect_timeout: Duration::from_secs(60),
            silence_timeout: Duration::from_secs(40),
            drain_timeout: Duration::from_secs(5),
            processors: Vec::new(),
            rdma: RdmaConfig::default(),
            machine: MachineFacts::default(),
            log: Arc::new(()),
        }
    }
}

impl Config {
    /// How long a connection to a peer may take.
    pub(crate) fn longest_connect(&self) -> Duration {
        self.connect_timeout.max(self.silence_timeout)
    }
}

impl Default for RdmaConfig {
    fn default() -> Self {
        Self {
            enabled: true,
            required: false,
            library: None,
            hca: None,
            nics: Nics::Auto,
            crosses: true,
            gid_index: None,
            timeout: None,
            retry_count: None,
            traffic_class: None,
            service_level: None,
        }
    }
}

impl fmt::Debug for Config {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Config")
            .field("interface", &self.interface)
            .field("sockets_per_peer", &self.sockets_per_peer)
            .field("connect_timeout", &self.connect_timeout)
            .field("silence_timeout", &self.silence_timeout)
            .field("drain_timeout", &self.drain_timeout)
            .field("processors", &self.processors)
            .field("rdma", &self.rdma)
            .field("gpu", &self.machine.gpu)
            .finish_non_exhaustive()
    }
}
