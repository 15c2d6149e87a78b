//! What the doors decide for a proxy; nothing here is read from the environment.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use msccl_fabric::Choice;

use crate::log::Log;

/// How a proxy reaches its peers. Ranks may differ in all of it; where they do, a connection is made with the
/// smaller number of sockets, and over RDMA only if both can.
#[derive(Clone)]
pub struct Config {
    /// The network interface for TCP; `None` takes the one that the group uses.
    pub interface: Option<Choice>,
    /// TCP connections to each peer, 1 to 16. More help where one connection does not fill the network.
    pub sockets_per_peer: u32,
    /// How long a connection to a peer may take, from when both ranks want it.
    pub connect_timeout: Duration,
    /// How long the peer's host may stay silent, although it has to answer, before a TCP rail counts as broken.
    /// The default is 20 s: a network that reroutes comes back within seconds, and a collective that waits
    /// for a host that has died should not wait for minutes.
    pub silence_timeout: Duration,
    /// How long a proxy that ends waits for its last messages to arrive.
    pub drain_timeout: Duration,
    /// Processors on which the proxy's thread should run, such as those near a GPU; those that it may not use count
    /// for nothing, and none are all.
    pub processors: Vec<usize>,
    /// RDMA.
    pub rdma: RdmaConfig,
    /// Hears what happens.
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

impl Default for Config {
    fn default() -> Self {
        Self {
            interface: None,
            sockets_per_peer: 1,
            connect_timeout: Duration::from_secs(60),
            silence_timeout: Duration::from_secs(20),
            drain_timeout: Duration::from_secs(5),
            processors: Vec::new(),
            rdma: RdmaConfig::default(),
            log: Arc::new(()),
        }
    }
}

impl Default for RdmaConfig {
    fn default() -> Self {
        Self {
            enabled: true,
            required: false,
            library: None,
            hca: None,
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
            .finish_non_exhaustive()
    }
}
