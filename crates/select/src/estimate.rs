//! What a call would cost, where nobody measured: a guess, for choosing among algorithms over
//! several nodes.
//!
//! The guess of a call is the sum of three times:
//!
//! * the longest chain of messages, each waiting for the one before, at what a message takes within
//!   a node and between nodes, however short it is;
//! * what the rank that sends or receives most over the network needs for it, by messages and by
//!   bytes;
//! * what the rank that sends or receives most within its node needs for the bytes.
//!
//! What the schedule says of the three is its [`Profile`], found by one walk over it; what the
//! machine makes of them are [`Rates`]. Every rank has a rail of its own to the network. Parts that
//! overlap are counted as if they did not, and a network is taken to have no bottleneck: an order
//! among algorithms is all that is asked of the figures.
//!
//! # Guarantees
//!
//! Integers only, and nothing but the algorithm, the shape and the kind of machine: all ranks find
//! the same.
//!
//! Absent: protocols, instances, rounds.

use msccl_collective::Rank;
use msccl_ir::Algorithm;
use msccl_machine::{Messages, Piece, TbId, Wiring, latest_ready, run};
use msccl_registry::Shape;

use super::tuning::Machine;

/// Messages under way on a link while the walk goes on; more than any schedule needs.
const DEPTH: u32 = 8;

/// What things take on a kind of machine.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Rates {
    /// From the begin of a message within a node until the next step can begin with it, in ns.
    local_hop_ns: u64,
    /// The same between nodes.
    network_hop_ns: u64,
    /// What a message costs a rank's link to the network, however short it is, in ns.
    network_message_ns: u64,
    /// What a rank sends, or receives, within its node, in bytes/µs.
    local_bytes_per_us: u64,
    /// The same over the network.
    network_bytes_per_us: u64,
}

impl Rates {
    /// Guesses: GPUs joined by NVSwitch with a 400 Gbit/s network card each, and a proxy between
    /// the two; processes on hosts with one ordinary network.
    pub fn of(machine: Machine) -> Self {
        match machine {
            Machine::Gpus => Self {
                local_hop_ns: 3_500,
                network_hop_ns: 12_000,
                network_message_ns: 1_000,
                local_bytes_per_us: 300_000,
                network_bytes_per_us: 45_000,
            },
            Machine::Host => Self {
                local_hop_ns: 1_000,
                network_hop_ns: 30_000,
                network_message_ns: 3_000,
                local_bytes_per_us: 3_000,
                network_bytes_per_us: 1_000,
            },
        }
    }

    fn hop_ns(&self, hop: Hop) -> u64 {
        match hop {
            Hop::Local => self.local_hop_ns,
            Hop::Network => self.network_hop_ns,
        }
    }
}

/// Where a message goes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Hop {
    /// To a rank of the same node.
    Local,
    /// To a rank of another node.
    Network,
}

/// What of a schedule decides how long it takes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Profile {
    /// The longest chain of messages, in ns.
    pub chain_ns: u64,
    /// What the busiest rank sends, or receives, over the network.
    pub network: Load,
    /// The same within its node.
    pub local: Load,
    /// Chunks of a block.
    pub block_chunks: u64,
}

/// What goes in one direction.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Load {
    pub messages: u64,
    pub chunks: u64,
}

impl Load {
    fn max(self, other: Self) -> Self {
        Self { messages: self.messages.max(other.messages), chunks: self.chunks.max(other.chunks) }
    }
}

impl Profile {
    /// What `algorithm` comes to on nodes of `shape`. One that is not well-formed, which no proved
    /// one is, comes to nothing.
    pub fn of(algorithm: &Algorithm, shape: Shape, rates: &Rates) -> Self {
        let block_chunks = u64::from(algorithm.collective.chunks.max(1));
        let (network, local) = loads(algorithm, shape);
        let chain_ns = Wiring::new(algorithm).map_or(0, |wiring| chain_ns(&wiring, shape, rates));
        Self { chain_ns, network, local, block_chunks }
    }

    /// How long a call whose blocks have `block_bytes` bytes would take, in ns.
    pub fn call_ns(&self, block_bytes: u64, rates: &Rates) -> u64 {
        let Self { chain_ns, network, local, block_chunks } = *self;
        let bytes = |load: Load| u128::from(load.chunks) * u128::from(block_bytes);
        let moving_ns = |load: Load, bytes_per_us: u64| {
            let ns = bytes(load) * 1_000 / u128::from(block_chunks * bytes_per_us);
            u64::try_from(ns).unwrap_or(u64::MAX)
        };
        chain_ns
            .saturating_add(network.messages.saturating_mul(rates.network_message_ns))
            .saturating_add(moving_ns(network, rates.network_bytes_per_us))
            .saturating_add(moving_ns(local, rates.local_bytes_per_us))
    }
}

fn hop(shape: Shape, from: Rank, to: Rank) -> Hop {
    if shape.on_one_node(from, to) { Hop::Local } else { Hop::Network }
}

/// What the busiest rank sends or receives over the network, and within its node.
fn loads(algorithm: &Algorithm, shape: Shape) -> (Load, Load) {
    // By rank: over the network out and in, within the node out and in.
    let mut of_ranks = vec![[Load::default(); 4]; algorithm.ranks.len()];
    let mut add = |rank: Rank, way: usize, count: u32| {
        if let Some(load) = of_ranks.get_mut(rank.index()).map(|loads| &mut loads[way]) {
            load.messages += 1;
            load.chunks += u64::from(count);
        }
    };
    for (rank, _, block) in algorithm.thread_blocks() {
        for step in &block.steps {
            for to in step.sends() {
                let first = if hop(shape, rank, to) == Hop::Network { 0 } else { 2 };
                add(rank, first, step.count);
                add(to, first + 1, step.count);
            }
        }
    }
    let busiest = |ways: [usize; 2]| {
        let all = of_ranks.iter().flat_map(|loads| ways.map(|way| loads[way]));
        all.fold(Load::default(), Load::max)
    };
    (busiest([0, 1]), busiest([2, 3]))
}

/// How long the longest chain of messages takes. Steps themselves take no time, nor do slots that
/// are not free yet.
fn chain_ns(wiring: &Wiring<'_>, shape: Shape, rates: &Rates) -> u64 {
    let mut walk = Walk::new(wiring, shape, rates);
    let messages = Messages { chunks_per_message: u32::MAX, depth: DEPTH };
    // What is proved completes, and no piece is refused.
    let _ = run(wiring, messages, latest_ready, |piece| {
        walk.fire(&piece);
        Ok::<_, std::convert::Infallible>(())
    });
    walk.longest_ns
}

/// When what was done, as far as messages decide it.
struct Walk<'a, 'w> {
    wiring: &'w Wiring<'a>,
    shape: Shape,
    rates: &'w Rates,
    /// By thread block: the end of every step so far.
    ends_ns: Vec<Vec<u64>>,
    /// By link: when the messages under way arrive.
    arrivals_ns: Vec<std::collections::VecDeque<u64>>,
    longest_ns: u64,
}

impl<'a, 'w> Walk<'a, 'w> {
    fn new(wiring: &'w Wiring<'a>, shape: Shape, rates: &'w Rates) -> Self {
        let ends_ns = vec![Vec::new(); wiring.tb_count()];
        let arrivals_ns = vec![Default::default(); wiring.links().len()];
        Self { wiring, shape, rates, ends_ns, arrivals_ns, longest_ns: 0 }
    }

    fn fire(&mut self, piece: &Piece) {
        let Piece { tb, step, chunks: _, ends_step: _ } = *piece;
        let rank = self.wiring.rank(tb);
        let code = &self.wiring.block(tb).steps[step as usize];
        let mut end_ns = self.ends_ns[tb.index()].last().copied().unwrap_or(0);
        for wait in &code.waits {
            let other = self.wiring.tb_id(rank, wait.tb);
            end_ns = end_ns.max(self.end_ns(other, wait.step.index()));
        }
        for link in code.receives().filter_map(|from| self.wiring.link_from(tb, from)) {
            let arrival_ns = self.arrivals_ns[link.index()].pop_front();
            end_ns = end_ns.max(arrival_ns.unwrap_or(0));
        }
        for to in code.sends() {
            let arrival_ns = end_ns + self.rates.hop_ns(hop(self.shape, rank, to));
            if let Some(link) = self.wiring.link_to(tb, to) {
                self.arrivals_ns[link.index()].push_back(arrival_ns);
            }
        }
        self.ends_ns[tb.index()].push(end_ns);
        self.longest_ns = self.longest_ns.max(end_ns);
    }

    fn end_ns(&self, tb: TbId, step: usize) -> u64 {
        self.ends_ns[tb.index()].get(step).copied().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use msccl_collective::{CollectiveKind, Placement};
    use msccl_registry::built_ins;

    use super::*;

    const RATES: Rates = Rates {
        local_hop_ns: 1,
        network_hop_ns: 1_000,
        network_message_ns: 7,
        local_bytes_per_us: 1_000,
        network_bytes_per_us: 100,
    };

    /// The chain in hops between nodes and within, then messages and chunks over the network and
    /// chunks within a node, as (hops, hops, messages, chunks, chunks).
    fn check(name: &str, (ranks, per_node): (u32, u32), expected: (u64, u64, u64, u64, u64)) {
        let shape = Shape { ranks, per_node };
        let kind = CollectiveKind::all(Rank(0)).into_iter();
        let kind = kind.filter(|of| name.starts_with(&format!("{}/", of.name())));
        let entries = kind.flat_map(|kind| built_ins(shape, kind, Placement::OutOfPlace));
        let entry = entries.into_iter().find(|of| of.name == name).unwrap();
        let profile = Profile::of(entry.verified.algorithm(), shape, &RATES);
        let Profile { chain_ns, network, local, block_chunks: _ } = profile;
        let hops = (chain_ns / 1_000, chain_ns % 1_000);
        let found = (hops.0, hops.1, network.messages, network.chunks, local.chunks);
        assert_eq!(found, expected, "{name} on {ranks} ranks, {per_node} a node");
    }

    #[test]
    fn profiles_are_those_that_the_programs_promise() {
        // 2(M - 1) hops over the network and 2(G - 1) within a node; 2(M - 1)/N of N chunks on the
        // network.
        check("allreduce/hierarchical", (32, 8), (6, 14, 6, 6, 56));
        check("allreduce/hierarchical", (6, 2), (4, 2, 4, 4, 6));
        // As many hops as twice the logarithm, in each half as many chunks as in the one before.
        check("allreduce/hierarchical_low_latency", (32, 8), (4, 2, 4, 6, 56));
        // The whole part of each of G chunks, once for every doubling.
        check("allreduce/hierarchical_doubling", (32, 8), (2, 2, 2, 2, 14));
        check("allreduce/multinode_allpairs", (32, 8), (1, 2, 3, 3, 14));
        check("allgather/hierarchical_low_latency", (32, 8), (2, 1, 2, 3, 28));
        check("reducescatter/hierarchical_low_latency", (32, 8), (2, 1, 2, 3, 28));
        check("alltoall/rail_first", (32, 8), (1, 1, 3, 24, 28));
        check("alltoall/allpairs", (32, 8), (1, 0, 24, 24, 7));
    }

    #[test]
    fn calls_cost_chains_messages_and_bytes() {
        let profile = Profile {
            chain_ns: 3_002,
            network: Load { messages: 4, chunks: 6 },
            local: Load { messages: 9, chunks: 50 },
            block_chunks: 32,
        };
        assert_eq!(profile.call_ns(0, &RATES), 3_002 + 4 * 7);
        // A chunk has 100 bytes.
        let moving_ns = 6 * 100 * 10 + 50 * 100;
        assert_eq!(profile.call_ns(3_200, &RATES), 3_002 + 4 * 7 + moving_ns);
        assert_eq!(profile.call_ns(u64::MAX, &RATES), u64::MAX);
    }
}
