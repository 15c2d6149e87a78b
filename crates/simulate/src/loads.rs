//! What each link of a cluster carries when an algorithm runs on it.
//!
//! Loads are exact: chunks that cross a link, of the chunks of the call. Every message takes one
//! route (`routes`).
//!
//! No schedule ends before the link with the most load for its rate has carried it all: that time,
//! by the bytes of the call, is [`LinkLoads::floor_s_per_gb`].

use std::fmt;

use msccl_collective::Rank;
use msccl_ir::Algorithm;
use msccl_topology::cluster::Cluster;

use crate::routes::Routes;

/// How much each link carries.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LinkLoads {
    /// Chunks over each link, in the order of [`Cluster::links`].
    pub chunks: Vec<u64>,
    /// Chunks of the call: `chunks[link]` of so many cross the link.
    pub chunks_of_call: u64,
}

/// Why there are no loads.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum LoadError {
    /// The cluster has fewer GPUs than the algorithm has ranks.
    TooFewGpus {
        /// Of the algorithm.
        ranks: u32,
        /// Of the cluster.
        gpus: usize,
    },
    /// Nothing leads from one GPU to another, between which a message goes.
    Unreachable {
        /// Who sends.
        from: Rank,
        /// Who should receive.
        to: Rank,
    },
}

impl fmt::Display for LoadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooFewGpus { ranks, gpus } => write!(
                f,
                "the algorithm has {ranks} ranks, and the cluster {gpus} GPUs; describe more \
                 nodes, or verify it for fewer ranks"
            ),
            Self::Unreachable { from, to } => write!(
                f,
                "{from} sends to {to}, and nothing in the cluster leads from one to the other"
            ),
        }
    }
}

/// The loads that `algorithm` puts on the links of `cluster`, whose GPUs are its ranks in order.
///
/// # Errors
///
/// The cluster has too few GPUs, or does not join two that exchange messages.
pub fn link_loads(algorithm: &Algorithm, cluster: &Cluster) -> Result<LinkLoads, LoadError> {
    let routes = Routes::of(cluster);
    let (ranks, gpus) = (algorithm.collective.ranks, routes.gpus());
    if gpus < ranks as usize {
        return Err(LoadError::TooFewGpus { ranks, gpus });
    }
    let mut chunks = vec![0; cluster.links().len()];
    for (from, sent) in sent_chunks(algorithm).into_iter().enumerate() {
        if sent.iter().all(|chunks| *chunks == 0) {
            continue;
        }
        let routes = routes.from(from);
        for (to, sent) in sent.into_iter().enumerate().filter(|(_, sent)| *sent > 0) {
            let unreachable = LoadError::Unreachable { from: from.into(), to: to.into() };
            let route = routes.to(to).ok_or(unreachable)?;
            route.into_iter().for_each(|link| chunks[link] += sent);
        }
    }
    Ok(LinkLoads { chunks, chunks_of_call: u64::from(algorithm.collective.loop_chunks()) })
}

impl LinkLoads {
    /// The least time of a call in seconds per 10⁹ bytes, whatever else is perfect; and the link
    /// that takes as long. `None` if nothing is sent.
    pub fn floor_s_per_gb(&self, cluster: &Cluster) -> Option<(f64, usize)> {
        let loaded = self.chunks.iter().zip(cluster.links()).enumerate();
        let times = loaded.filter(|(_, (chunks, _))| **chunks > 0).map(|(link, (chunks, of))| {
            let share = *chunks as f64 / self.chunks_of_call as f64;
            (share / of.rate.gb_per_s(), link)
        });
        times.reduce(|most, next| if next.0 > most.0 { next } else { most })
    }
}

/// How many chunks each rank sends to each.
fn sent_chunks(algorithm: &Algorithm) -> Vec<Vec<u64>> {
    let ranks = algorithm.collective.ranks as usize;
    let mut sent = vec![vec![0; ranks]; ranks];
    for (rank, _, thread_block) in algorithm.thread_blocks() {
        for step in &thread_block.steps {
            for to in step.sends() {
                sent[rank.index()][to.index()] += u64::from(step.count);
            }
        }
    }
    sent
}

#[cfg(test)]
mod tests {
    use super::*;
    use msccl_topology::bandwidth::Bandwidth;
    use msccl_topology::cluster::{Medium, VertexKind};

    fn gb_s(rate: u32) -> Bandwidth {
        Bandwidth::from_mb_per_s(1000 * rate)
    }

    /// Two nodes of two GPUs, each pair joined by NVLink, with one NIC for both.
    fn pairs() -> Cluster {
        let mut cluster = Cluster::new("two pairs");
        let network = cluster.add("fabric", VertexKind::Network, None);
        for node in 0..2 {
            let name = |what: &str| format!("node{node}.{what}");
            let gpus =
                ["gpu0", "gpu1"].map(|of| cluster.add(name(of), VertexKind::Gpu, Some(node)));
            let nic = cluster.add(name("nic0"), VertexKind::Nic, Some(node));
            cluster.join(gpus[0], gpus[1], gb_s(200), 700, Medium::NvLink);
            for gpu in gpus {
                cluster.join(gpu, nic, gb_s(50), 1000, Medium::Pci);
            }
            cluster.join(nic, network, gb_s(25), 2000, Medium::Cable);
        }
        cluster
    }

    /// Every rank of four sends its only chunk to those that `sends` says.
    fn algorithm(sends: &[(u32, u32)]) -> Algorithm {
        let mut text = "algorithm \"test\"\ncollective allgather ranks 4 chunks 1\n\
                        placement out of place\nprotocol Simple\nbytes 0..\n"
            .to_owned();
        for rank in 0..4 {
            text += &format!("r{rank} scratch 0\n");
            for (tb, (_, to)) in sends.iter().filter(|(from, _)| *from == rank).enumerate() {
                text += &format!("  tb{tb} ch0 send r{to}\n    s0: i[0] -> r{to}\n");
            }
        }
        msccl_ir::text::parse(&text).unwrap()
    }

    fn over(cluster: &Cluster, loads: &LinkLoads, from: &str, to: &str) -> u64 {
        let [from, to] = [from, to].map(|name| cluster.find(name).unwrap());
        let links = cluster.links().iter().zip(&loads.chunks);
        links.filter(|(it, _)| it.from == from && it.to == to).map(|(_, chunks)| chunks).sum()
    }

    #[test]
    fn messages_take_the_shortest_route() {
        let cluster = pairs();
        let loads = link_loads(&algorithm(&[(0, 1), (0, 2), (1, 2), (3, 0)]), &cluster).unwrap();
        let over = |from, to| over(&cluster, &loads, from, to);
        assert_eq!(over("node0.gpu0", "node0.gpu1"), 1);
        assert_eq!(over("node0.gpu0", "node0.nic0"), 1);
        assert_eq!(over("node0.nic0", "fabric"), 2);
        assert_eq!(over("fabric", "node1.nic0"), 2);
        assert_eq!(over("node1.nic0", "node1.gpu0"), 2);
        assert_eq!((over("node1.nic0", "fabric"), over("node1.nic0", "node1.gpu1")), (1, 0));
        // Two of four chunks over 25 GB/s.
        let (floor, link) = loads.floor_s_per_gb(&cluster).unwrap();
        assert!((floor - 0.5 / 25.0).abs() < 1e-12);
        assert_eq!(cluster.links()[link].medium, Medium::Cable);
    }

    #[test]
    fn gpus_pass_nothing_on() {
        let mut cluster = Cluster::new("a line");
        let gpus = [0, 1, 2, 3].map(|at| cluster.add(format!("gpu{at}"), VertexKind::Gpu, Some(0)));
        gpus.windows(2).for_each(|two| {
            cluster.join(two[0], two[1], gb_s(10), 700, Medium::NvLink);
        });
        let error = link_loads(&algorithm(&[(0, 2)]), &cluster).unwrap_err();
        assert_eq!(error, LoadError::Unreachable { from: Rank(0), to: Rank(2) });
        assert!(link_loads(&algorithm(&[(2, 1)]), &cluster).is_ok());
    }

    #[test]
    fn every_rank_needs_a_gpu() {
        let mut cluster = Cluster::new("one");
        cluster.add("gpu0", VertexKind::Gpu, Some(0));
        let error = link_loads(&algorithm(&[]), &cluster).unwrap_err();
        assert_eq!(error, LoadError::TooFewGpus { ranks: 4, gpus: 1 });
    }
}
