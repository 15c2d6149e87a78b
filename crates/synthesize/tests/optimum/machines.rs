//! Machines for tests: presets, and what is no preset.

use msccl_topology::bandwidth::Bandwidth;
use msccl_topology::cluster::degrade::without;
use msccl_topology::cluster::presets::preset;
use msccl_topology::cluster::repeat::repeat;
use msccl_topology::cluster::{Cluster, Medium, VertexKind, format};

/// The machines of the first bar, without random ones.
pub const ALL: &[&str] = &[
    "dgx1", "dgx2", "ndv2", "hgx", "hgx*2", "hgx*4", "mi300x", "mi250", "pcie", "pcie*2", "pairs", "ring",
    "torus",
];

pub fn machine(name: &str) -> Cluster {
    let of = |name: &str| preset(name).unwrap();
    match name {
        "dgx1" => without(&of("dgx1-v100"), "pci*").unwrap(),
        "dgx1-pci" => of("dgx1-v100"),
        "dgx2" => of("dgx-2"),
        "ndv2" => without(&of("ndv2"), "pci*").unwrap(),
        "hgx" => of("hgx-h100-8"),
        "hgx*2" => repeat(&of("hgx-h100-8"), 2).unwrap(),
        "hgx*4" => repeat(&of("hgx-h100-8"), 4).unwrap(),
        "mi300x" => of("mi300x-8"),
        "mi250" => mi250(),
        "pcie" => of("pcie-pairs-4"),
        "pcie*2" => repeat(&of("pcie-pairs-4"), 2).unwrap(),
        "pairs" => {
            let text = include_str!("../../../../docs/examples/clusters/pairs.cluster");
            format::parse(text).unwrap()
        }
        "ring" => grid(8, 1),
        "torus" => grid(4, 4),
        _ => panic!("no machine {name}"),
    }
}

/// GPUs on a torus; on a ring if it has one row.
fn grid(columns: usize, rows: usize) -> Cluster {
    let mut cluster = Cluster::new("a torus");
    let gpus: Vec<_> = (0..columns * rows)
        .map(|at| cluster.add(format!("gpu{at}"), VertexKind::Gpu, Some(0)))
        .collect();
    let rate = Bandwidth::from_mb_per_s(25_000);
    for row in 0..rows {
        for column in 0..columns {
            let at = |row: usize, column: usize| gpus[row % rows * columns + column % columns];
            let here = at(row, column);
            cluster.join(here, at(row, column + 1), rate, 700, Medium::NvLink);
            if rows > 1 {
                cluster.join(here, at(row + 1, column), rate, 700, Medium::NvLink);
            }
        }
    }
    cluster
}

/// 16 dies of 8 MI250, as one node of ORNL's Frontier and Microsoft's testbeds has twice: xGMI
/// links of 50 GB/s, of which dies of one card share four.
fn mi250() -> Cluster {
    const FOUR: [(usize, usize); 8] =
        [(0, 1), (2, 3), (4, 5), (6, 7), (8, 9), (10, 11), (12, 13), (14, 15)];
    const TWO: [(usize, usize); 4] = [(0, 4), (3, 7), (8, 12), (11, 15)];
    const ONE: [(usize, usize); 14] = [
        (0, 8), (1, 5), (1, 9), (1, 10), (2, 6), (2, 9), (2, 10), (3, 11), (4, 6), (5, 6), (5, 7),
        (9, 13), (10, 14), (12, 14),
    ];
    const MORE: [(usize, usize); 2] = [(13, 14), (13, 15)];
    let mut cluster = Cluster::new("16 dies of 8 MI250");
    let gpus: Vec<_> =
        (0..16).map(|at| cluster.add(format!("gpu{at}"), VertexKind::Gpu, Some(0))).collect();
    let widths = [(&FOUR[..], 4), (&TWO[..], 2), (&ONE[..], 1), (&MORE[..], 1)];
    for (pairs, links) in widths {
        for (one, other) in pairs {
            let rate = Bandwidth::from_mb_per_s(50_000 * links);
            cluster.join(gpus[*one], gpus[*other], rate, 700, Medium::Xgmi);
        }
    }
    cluster
}
