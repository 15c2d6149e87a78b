//! Machines for tests: presets, and what is no preset.

use msccl_topology::bandwidth::Bandwidth;
use msccl_topology::cluster::degrade::without;
use msccl_topology::cluster::presets::preset;
use msccl_topology::cluster::repeat::repeat;
use msccl_topology::cluster::{Cluster, Medium, VertexKind, format};

/// Machines on which trees reach the bound. A DGX-1 and an NDv2 stand here with the PCI links
/// beside their NVLinks, where no cut shows the optimum, and without them.
pub const ALL: &[&str] = &[
    "dgx1-v100",
    "ndv2",
    "dgx1-v100 nvlink",
    "ndv2 nvlink",
    "dgx-2",
    "hgx-h100-8",
    "hgx-h100-8*2",
    "hgx-h100-8*4",
    "mi300x-8",
    "mi250",
    "pcie-pairs-4",
    "pcie-pairs-4*2",
    "pairs",
    "ring",
    "torus",
];

/// The machine of that name: a preset, so many of it, or one of those below.
pub fn machine(name: &str) -> Cluster {
    match name {
        "mi250" => return mi250(),
        "ring" => return grid(8, 1),
        "torus" => return grid(4, 4),
        "rails" => {
            let text = include_str!("../../../../docs/examples/clusters/rails.cluster");
            return format::parse(text).unwrap();
        }
        "pairs" => {
            let text = include_str!("../../../../docs/examples/clusters/pairs.cluster");
            return format::parse(text).unwrap();
        }
        _ => {}
    }
    if let Some(name) = name.strip_suffix(" nvlink") {
        return without(&preset(name).unwrap(), "pci*").unwrap();
    }
    let (name, count) = name.split_once('*').unwrap_or((name, "1"));
    repeat(&preset(name).unwrap(), count.parse().unwrap()).unwrap()
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

/// 16 dies of 8 MI250: xGMI links of 50 GB/s, of which dies of one card share four.
fn mi250() -> Cluster {
    const FOUR: [(usize, usize); 8] =
        [(0, 1), (2, 3), (4, 5), (6, 7), (8, 9), (10, 11), (12, 13), (14, 15)];
    const TWO: [(usize, usize); 4] = [(0, 4), (3, 7), (8, 12), (11, 15)];
    const ONE: [(usize, usize); 14] = [
        (0, 8),
        (1, 5),
        (1, 9),
        (1, 10),
        (2, 6),
        (2, 9),
        (2, 10),
        (3, 11),
        (4, 6),
        (5, 6),
        (5, 7),
        (9, 13),
        (10, 14),
        (12, 14),
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
