//! Finds and checks the bounds of 1024 GPUs on 128 nodes, and says how long that takes.
//!
//! `cargo run --release -p msccl-bounds --example large`

#![deny(unsafe_code)]
#![allow(clippy::print_stdout, reason = "it is what it is for")]

use std::time::Instant;

use msccl_bounds::{SwitchModel, bound, check, check_latency, latency};
use msccl_collective::{CollectiveKind, Rank};
use msccl_topology::bandwidth::Bandwidth;
use msccl_topology::cluster::{Cluster, Medium, VertexKind};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let cluster = nodes(128, 8);
    for kind in CollectiveKind::all(Rank(777)) {
        let begin = Instant::now();
        let found = bound(&cluster, kind, SwitchModel::Forward)?;
        let searched = begin.elapsed();
        check(&cluster, &found)?;
        let checked = begin.elapsed() - searched;
        let least = latency(&cluster, kind)?;
        check_latency(&cluster, &least)?;
        let rate = found.gb_per_s();
        let theorem = found.theorem();
        println!(
            "{:13} at most {rate:.1} GB/s ({theorem:?}), at least {} ns; \
             found in {searched:.1?}, checked in {checked:.1?}, latency in {:.1?}",
            kind.name(),
            least.nanoseconds,
            begin.elapsed() - searched - checked
        );
    }
    Ok(())
}

/// Nodes with an NVSwitch, and a NIC for each GPU, on one network.
fn nodes(count: u32, gpus_per_node: u32) -> Cluster {
    let [nvlink, cable] = [450_000, 50_000].map(Bandwidth::from_mb_per_s);
    let mut cluster = Cluster::new(format!("{count} nodes"));
    let network = cluster.add("network", VertexKind::Network, None);
    for node in 0..count {
        let switch = cluster.add(format!("node{node}.switch"), VertexKind::Switch, Some(node));
        for at in 0..gpus_per_node {
            let gpu = cluster.add(format!("node{node}.gpu{at}"), VertexKind::Gpu, Some(node));
            let nic = cluster.add(format!("node{node}.nic{at}"), VertexKind::Nic, Some(node));
            cluster.join(gpu, switch, nvlink, 350, Medium::NvLink);
            cluster.join(gpu, nic, cable, 600, Medium::Pci);
            cluster.join(nic, network, cable, 900, Medium::Cable);
        }
    }
    cluster
}
