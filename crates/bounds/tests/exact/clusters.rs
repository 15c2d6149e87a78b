//! Small clusters of all shapes, for which every cut can be tried.

use msccl_topology::bandwidth::Bandwidth;
use msccl_topology::cluster::{Cluster, ClusterLink, Medium, VertexIndex, VertexKind};

/// All of them; none has more than 16 vertices.
pub fn all() -> Vec<Cluster> {
    vec![
        switch(2),
        switch(4),
        switch(8),
        ring(4),
        ring(8),
        one_way_ring(5),
        mesh(4),
        mesh(8),
        line(5),
        nodes_with_a_nic_each(),
        pairs_with_a_nic_each(),
        cube_mesh(),
        uneven_rates(),
        switch_without_some_links(),
        mesh_without_some_links(),
        star_with_a_slow_uplink(),
        pci_tree(),
        rails(),
        uneven_directions(),
    ]
}

pub fn gpus(cluster: &mut Cluster, node: u32, count: usize) -> Vec<VertexIndex> {
    let first = cluster.gpus().count();
    let names = (first..first + count).map(|rank| format!("gpu{rank}"));
    names.map(|name| cluster.add(name, VertexKind::Gpu, Some(node))).collect()
}

fn join(cluster: &mut Cluster, one: VertexIndex, other: VertexIndex, rate_mb_per_s: u32) {
    let rate = Bandwidth::from_mb_per_s(rate_mb_per_s);
    cluster.join(one, other, rate, 500 + rate_mb_per_s % 7, Medium::NvLink);
}

fn join_one_way(cluster: &mut Cluster, from: VertexIndex, to: VertexIndex, rate_mb_per_s: u32) {
    let rate = Bandwidth::from_mb_per_s(rate_mb_per_s);
    cluster.add_link(ClusterLink { from, to, rate, latency_ns: 400, medium: Medium::Xgmi });
}

pub fn switch(count: usize) -> Cluster {
    let mut cluster = Cluster::new(format!("{count} GPUs on one switch"));
    let switch = cluster.add("switch", VertexKind::Switch, Some(0));
    for gpu in gpus(&mut cluster, 0, count) {
        join(&mut cluster, gpu, switch, 1000);
    }
    cluster
}

pub fn ring(count: usize) -> Cluster {
    let mut cluster = Cluster::new(format!("ring of {count}"));
    let gpus = gpus(&mut cluster, 0, count);
    for at in 0..count {
        join(&mut cluster, gpus[at], gpus[(at + 1) % count], 300);
    }
    cluster
}

pub fn one_way_ring(count: usize) -> Cluster {
    let mut cluster = Cluster::new(format!("one-way ring of {count}"));
    let gpus = gpus(&mut cluster, 0, count);
    for at in 0..count {
        join_one_way(&mut cluster, gpus[at], gpus[(at + 1) % count], 250);
    }
    cluster
}

pub fn mesh(count: usize) -> Cluster {
    let mut cluster = Cluster::new(format!("full mesh of {count}"));
    let gpus = gpus(&mut cluster, 0, count);
    for one in 0..count {
        for other in one + 1..count {
            join(&mut cluster, gpus[one], gpus[other], 48);
        }
    }
    cluster
}

pub fn line(count: usize) -> Cluster {
    let mut cluster = Cluster::new(format!("line of {count}"));
    for pair in gpus(&mut cluster, 0, count).windows(2) {
        join(&mut cluster, pair[0], pair[1], 90);
    }
    cluster
}

/// Two nodes of three GPUs on a switch, and one NIC each.
fn nodes_with_a_nic_each() -> Cluster {
    let mut cluster = Cluster::new("two nodes with one NIC each");
    let network = cluster.add("network", VertexKind::Network, None);
    for node in 0..2 {
        let switch = cluster.add(format!("switch{node}"), VertexKind::Switch, Some(node));
        let nic = cluster.add(format!("nic{node}"), VertexKind::Nic, Some(node));
        for gpu in gpus(&mut cluster, node, 3) {
            join(&mut cluster, gpu, switch, 450);
        }
        join(&mut cluster, switch, nic, 60);
        join(&mut cluster, nic, network, 50);
    }
    cluster
}

/// Two nodes of two NVLink pairs, and one NIC a pair.
fn pairs_with_a_nic_each() -> Cluster {
    let mut cluster = Cluster::new("two nodes of two pairs with one NIC a pair");
    let network = cluster.add("network", VertexKind::Network, None);
    for pair in 0..4 {
        let nic = cluster.add(format!("nic{pair}"), VertexKind::Nic, Some(pair / 2));
        let pair = gpus(&mut cluster, pair / 2, 2);
        join(&mut cluster, pair[0], pair[1], 200);
        pair.into_iter().for_each(|gpu| join(&mut cluster, gpu, nic, 32));
        join(&mut cluster, nic, network, 25);
    }
    cluster
}

/// Two fully joined quads, whose GPUs are joined one to one: NVLinks of a DGX-1.
fn cube_mesh() -> Cluster {
    let mut cluster = Cluster::new("cube mesh");
    let gpus = gpus(&mut cluster, 0, 8);
    let doubled = [(0, 3), (1, 2), (4, 7), (5, 6), (0, 4), (1, 5), (2, 6), (3, 7)];
    let single = [(0, 1), (0, 2), (1, 3), (2, 3), (4, 5), (4, 6), (5, 7), (6, 7)];
    doubled.iter().for_each(|&(one, other)| join(&mut cluster, gpus[one], gpus[other], 50));
    single.iter().for_each(|&(one, other)| join(&mut cluster, gpus[one], gpus[other], 25));
    cluster
}

fn uneven_rates() -> Cluster {
    let mut cluster = Cluster::new("uneven rates");
    let gpus = gpus(&mut cluster, 0, 6);
    let rates = [(0, 1, 17), (1, 2, 5), (2, 3, 23), (3, 4, 3), (4, 5, 29), (5, 0, 7), (1, 4, 11)];
    rates.iter().for_each(|&(one, other, rate)| join(&mut cluster, gpus[one], gpus[other], rate));
    cluster
}

/// A GPU whose links to the switch partly failed.
fn switch_without_some_links() -> Cluster {
    let mut cluster = Cluster::new("a switch, to which a GPU lost links");
    let switch = cluster.add("switch", VertexKind::Switch, Some(0));
    for (at, gpu) in gpus(&mut cluster, 0, 6).into_iter().enumerate() {
        join(&mut cluster, gpu, switch, if at == 3 { 350 } else { 450 });
    }
    cluster
}

fn mesh_without_some_links() -> Cluster {
    let mut cluster = Cluster::new("a mesh, in which a GPU lost links");
    let gpus = gpus(&mut cluster, 0, 6);
    for one in 0..6 {
        for other in one + 1..6 {
            // A link of rate 0 is there and carries nothing.
            let is_lost = one == 0 && other > 2;
            join(&mut cluster, gpus[one], gpus[other], if is_lost { 0 } else { 48 });
        }
    }
    cluster
}

/// Two switches, joined by less than their GPUs could fill.
fn star_with_a_slow_uplink() -> Cluster {
    let mut cluster = Cluster::new("a star with a slow uplink");
    let core = cluster.add("core", VertexKind::Network, None);
    for (node, count) in [(0, 4), (1, 2), (2, 1)] {
        let leaf = cluster.add(format!("leaf{node}"), VertexKind::Switch, Some(node));
        gpus(&mut cluster, node, count)
            .into_iter()
            .for_each(|gpu| join(&mut cluster, gpu, leaf, 100));
        join(&mut cluster, leaf, core, 60);
    }
    cluster
}

fn pci_tree() -> Cluster {
    let mut cluster = Cluster::new("PCI tree");
    let sockets = [0, 1].map(|at| cluster.add(format!("cpu{at}"), VertexKind::Switch, Some(0)));
    join(&mut cluster, sockets[0], sockets[1], 16);
    for at in 0..4 {
        let bridge = cluster.add(format!("pci{at}"), VertexKind::Switch, Some(0));
        join(&mut cluster, bridge, sockets[at / 2], 24);
        gpus(&mut cluster, 0, 2).into_iter().for_each(|gpu| join(&mut cluster, gpu, bridge, 24));
    }
    cluster
}

/// Two nodes of three GPUs, each with a NIC of its own, and a switch for each rail.
fn rails() -> Cluster {
    let mut cluster = Cluster::new("rails");
    let rails = [0, 1, 2].map(|at| cluster.add(format!("rail{at}"), VertexKind::Network, None));
    for node in 0..2 {
        let switch = cluster.add(format!("switch{node}"), VertexKind::Switch, Some(node));
        for (gpu, rail) in gpus(&mut cluster, node, 3).into_iter().zip(rails) {
            join(&mut cluster, gpu, switch, 450);
            join(&mut cluster, gpu, rail, 50);
        }
    }
    cluster
}

/// Links that carry more in one direction than in the other.
fn uneven_directions() -> Cluster {
    let mut cluster = Cluster::new("uneven directions");
    let switch = cluster.add("switch", VertexKind::Switch, None);
    let gpus = gpus(&mut cluster, 0, 5);
    for (at, gpu) in gpus.iter().enumerate() {
        join_one_way(&mut cluster, *gpu, switch, 40 + 10 * at as u32);
        join_one_way(&mut cluster, switch, *gpu, 100 - 15 * at as u32);
    }
    join_one_way(&mut cluster, gpus[0], gpus[4], 33);
    join_one_way(&mut cluster, gpus[3], gpus[1], 8);
    cluster
}

/// Nodes of an NVSwitch with GPUs of 450 GB/s, each with a NIC of 50 GB/s, on one network.
pub fn nodes(count: u32, gpus_per_node: usize) -> Cluster {
    let mut cluster = Cluster::new(format!("{count} nodes"));
    let network = cluster.add("network", VertexKind::Network, None);
    for node in 0..count {
        let switch = cluster.add(format!("node{node}.switch"), VertexKind::Switch, Some(node));
        for gpu in gpus(&mut cluster, node, gpus_per_node) {
            let nic = format!("node{node}.nic{}", gpu.0);
            let nic = cluster.add(nic, VertexKind::Nic, Some(node));
            join(&mut cluster, gpu, switch, 450_000);
            join(&mut cluster, gpu, nic, 50_000);
            join(&mut cluster, nic, network, 50_000);
        }
    }
    cluster
}
