//! Examples that ask the cluster keep to what they say of it.

use std::sync::Arc;

use msccl_collective::Rank;
use msccl_compiler::evaluate::Launch;
use msccl_ir::{Algorithm, Target};
use msccl_simulate::link_loads;
use msccl_tests::example::examples;
use msccl_topology::cluster::presets::preset;
use msccl_topology::cluster::ranks::RankTopology;
use msccl_topology::cluster::{Cluster, ClusterLink, Medium};

/// An example, compiled for a cluster, on nodes of eight.
fn compiled(name: &str, cluster: &Cluster) -> Algorithm {
    let example = examples().into_iter().find(|example| example.name == name).unwrap();
    let launch = Launch {
        ranks: Some(cluster.gpus().count() as u32),
        per_node: Some(8),
        topology: Some(Arc::new(RankTopology::of(cluster))),
        ..Launch::default()
    };
    let compiled = example.compile(&launch, &Target::native());
    compiled.unwrap_or_else(|error| panic!("{error}")).schedule.algorithm
}

/// Who sends to whom.
fn pairs(algorithm: &Algorithm) -> Vec<(Rank, Rank)> {
    let blocks = algorithm.thread_blocks();
    blocks.flat_map(|(from, _, block)| block.sends.iter().map(move |to| (from, *to))).collect()
}

#[test]
fn the_wide_ring_of_a_dgx1_keeps_to_pairs_with_two_nvlinks() {
    let cluster = preset("dgx1-v100").unwrap();
    let topology = RankTopology::of(&cluster);
    let narrowest = |name| {
        let algorithm = compiled(name, &cluster);
        let widths = pairs(&algorithm).into_iter().map(|(from, to)| topology.width(from.0, to.0));
        widths.min().unwrap()
    };
    assert_eq!(narrowest("allreduce/wide_ring"), 40);
    assert_eq!(narrowest("allreduce/ring"), 0);
}

/// Of an all-reduce on two DGX-1: pairs of ranks on different nodes that talk, and the parts of the
/// buffer that leave by each NIC, in sixteenths.
fn on_the_network(name: &str) -> (usize, Vec<u64>) {
    let cluster = preset("dgx1-v100*2").unwrap();
    let algorithm = compiled(name, &cluster);
    let crossing = pairs(&algorithm).into_iter().filter(|(from, to)| from.0 / 8 != to.0 / 8);
    let loads = link_loads(&algorithm, &cluster).unwrap();
    let links = cluster.links().iter().zip(&loads.chunks);
    let is_nic = |link: &&ClusterLink| {
        let from = &cluster.vertices()[link.from.index()];
        link.medium == Medium::Cable && from.name.contains("nic")
    };
    let leaving = links.filter(|(link, _)| is_nic(link)).map(|(_, chunks)| *chunks);
    (crossing.count(), leaving.map(|chunks| 16 * chunks / loads.chunks_of_call).collect())
}

#[test]
fn leaders_of_nics_talk_alone_and_all_nics_carry_as_much() {
    let (connections, leaving) = on_the_network("allreduce/nic_leaders");
    assert_eq!((connections, leaving), (8, vec![4; 8]));
    let (connections, leaving) = on_the_network("allreduce/hierarchical");
    assert_eq!((connections, leaving), (16, vec![4; 8]));
}
