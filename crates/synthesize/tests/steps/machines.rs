//! Machines for tests: GPUs that are joined as in a textbook, and presets.

use msccl_topology::bandwidth::Bandwidth;
use msccl_topology::cluster::degrade::without;
use msccl_topology::cluster::presets::preset;
use msccl_topology::cluster::repeat::repeat;
use msccl_topology::cluster::{Cluster, Medium, VertexKind};

/// The machine of that name: `ring N`, `mesh N`, `cube N` or `star N`, a preset, or so many of it.
pub fn machine(name: &str) -> Cluster {
    if let Some(name) = name.strip_suffix(" nvlink") {
        return without(&machine(name), "pci*").unwrap();
    }
    if let Some((name, count)) = name.split_once('*') {
        return repeat(&machine(name), count.parse().unwrap()).unwrap();
    }
    let Some((shape, gpus)) = name.split_once(' ') else { return preset(name).unwrap() };
    let gpus: usize = gpus.parse().unwrap();
    let joined = |one: usize, other: usize| match shape {
        "ring" => other == (one + 1) % gpus || one == (other + 1) % gpus,
        "mesh" => true,
        "cube" => (one ^ other).is_power_of_two(),
        "star" => false,
        _ => panic!("no such shape: {shape}"),
    };
    let mut cluster = graph(name, gpus, joined);
    if shape == "star" {
        let switch = cluster.add("switch", VertexKind::Switch, Some(0));
        for gpu in cluster.gpus().collect::<Vec<_>>() {
            cluster.join(gpu, switch, RATE, 700, Medium::NvLink);
        }
    }
    cluster
}

/// GPUs of which some are joined.
pub fn graph(name: &str, gpus: usize, joined: impl Fn(usize, usize) -> bool) -> Cluster {
    let mut cluster = Cluster::new(name);
    let all: Vec<_> =
        (0..gpus).map(|at| cluster.add(format!("gpu{at}"), VertexKind::Gpu, Some(0))).collect();
    for one in 0..gpus {
        for other in one + 1..gpus {
            if joined(one, other) {
                cluster.join(all[one], all[other], RATE, 700, Medium::NvLink);
            }
        }
    }
    cluster
}

const RATE: Bandwidth = Bandwidth::from_mb_per_s(25_000);
