//! What things cost.

use msccl_collective::{Protocol, Rank};

/// The costs of a host, and of a network between hosts. One GB/s is 1000 bytes/µs.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct CostModel {
    /// From the call to the first step, in µs.
    pub launch_us: f64,
    /// Fixed cost of a message of a step, in µs.
    pub step_us: f64,
    /// From the sender's last store to the receiver's first load, in µs.
    pub latency_us: f64,
    /// From the release of a slot until its sender knows, in µs.
    pub credit_us: f64,
    /// From the end of a step until another thread block of the rank knows, in µs.
    pub signal_us: f64,
    /// What one thread block copies or reduces, in bytes/µs.
    pub tb_bytes_per_us: f64,
    /// What one rank sends, and what it receives, over all its links, in bytes/µs.
    pub port_bytes_per_us: f64,
    /// What joins nodes, if there are several.
    pub network: Option<Network>,
}

/// A network between nodes. Every rank has a port of its own to it, which serves messages one after
/// another while the thread blocks go on.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Network {
    /// Ranks on one node; they are numbered node by node.
    pub per_node: u32,
    /// From the end of a message in the sender's port to the receiver's first load, in µs; the same
    /// for slots that are given back.
    pub latency_us: f64,
    /// What a port sends, and what it receives, in bytes/µs.
    pub port_bytes_per_us: f64,
}

/// What a message between two ranks takes.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct LinkCost {
    /// Whether it crosses the network.
    pub is_remote: bool,
    pub latency_us: f64,
    pub credit_us: f64,
    pub port_bytes_per_us: f64,
}

impl CostModel {
    /// One host whose GPUs share a switch: H100 or H200 with NVLink 4.
    ///
    /// | figure | from |
    /// |---|---|
    /// | launch | 4.0 µs measured for a launch and one flag each link cost, less two flags of 0.74 µs |
    /// | latency | NCCL's own tuning model, one NVLink hop of a ring: 3.4 (Simple), 0.6 (LL), 1.9 µs (LL128) |
    /// | credit | one flag one link cost: 0.74 µs |
    /// | thread block | NCCL's tuning model: 44 GiB/s for a block that copies, 36.7 GB/s under LL128; LL stores a flag with every word, half of that |
    /// | port | stores by threads: 370 GB/s; LL at most 141 GB/s; LL128 loses 8 bytes of 128 |
    ///
    /// The fixed cost of a step and of a signal are guesses.
    pub fn nvswitch(protocol: Protocol) -> Self {
        let (latency_us, tb_bytes_per_us, port_bytes_per_us) = match protocol {
            Protocol::Simple => (3.4, 47_200.0, 370_000.0),
            Protocol::Ll => (0.6, 18_400.0, 141_000.0),
            Protocol::Ll128 => (1.9, 36_700.0, 347_000.0),
        };
        Self {
            launch_us: 2.5,
            step_us: 0.2,
            latency_us,
            credit_us: 0.74,
            signal_us: 0.3,
            tb_bytes_per_us,
            port_bytes_per_us,
            network: None,
        }
    }

    /// The same, for nodes of `per_node` ranks. Their network is a guess, as the runtime's is where
    /// nobody measured: a card of 400 Gbit/s for each rank, and 12 µs by link cost of the proxies
    /// at both ends.
    pub fn on_nodes(self, per_node: u32) -> Self {
        let network = Network { per_node, latency_us: 12.0, port_bytes_per_us: 45_000.0 };
        Self { network: Some(network), ..self }
    }

    /// What a message from one rank to another takes.
    pub(super) fn link_cost(&self, from: Rank, to: Rank) -> LinkCost {
        let node = |rank: Rank, network: &Network| rank.0 / network.per_node.max(1);
        match &self.network {
            Some(network) if node(from, network) != node(to, network) => LinkCost {
                is_remote: true,
                latency_us: network.latency_us,
                credit_us: network.latency_us,
                port_bytes_per_us: network.port_bytes_per_us,
            },
            Some(_) | None => LinkCost {
                is_remote: false,
                latency_us: self.latency_us,
                credit_us: self.credit_us,
                port_bytes_per_us: self.port_bytes_per_us,
            },
        }
    }
}
