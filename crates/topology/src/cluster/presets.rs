//! Machines under names, as texts of the [`format`](mod@format), and where their figures are
//! from.
//!
//! ```
//! use msccl_topology::cluster::presets::preset;
//!
//! assert_eq!(preset("dgx1-v100").map(|cluster| cluster.gpus().count()), Some(8));
//! assert_eq!(preset("ndv5*4").map(|cluster| cluster.gpus().count()), Some(32));
//! assert_eq!(preset("dgx3"), None);
//! ```
//!
//! Rates are what programs get, not what is on data sheets: NCCL reckons with about 0.8 of the line
//! rate of NVLinks, and its figure for H100 has been measured on H200. Each [`Figure`] says whether
//! it is measured, published or assumed.

use std::fmt;

use super::repeat::repeat;
use super::{Cluster, Medium, format};

/// A machine under a name.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Preset {
    /// What to ask for.
    pub name: &'static str,
    /// The cluster, as text.
    pub text: &'static str,
    /// What its rates are based on, one figure for each rate of each medium.
    pub figures: &'static [Figure],
}

/// A rate of a preset.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Figure {
    /// Of which links.
    pub medium: Medium,
    /// In one direction.
    pub mb_per_s: u32,
    /// How far to trust it.
    pub basis: Basis,
    /// Where it is from.
    pub source: &'static str,
}

/// How far to trust a figure.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Basis {
    /// Found by this project, on such a machine.
    Measured,
    /// Found in the source named.
    Published,
    /// Neither: likely by what similar machines have.
    Assumed,
}

impl fmt::Display for Basis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Basis::Measured => "measured",
            Basis::Published => "published",
            Basis::Assumed => "assumed",
        })
    }
}

impl Preset {
    /// One line about it: the title of its text.
    pub fn description(&self) -> &'static str {
        self.text.split('"').nth(1).unwrap_or(self.name)
    }

    /// The cluster. Its text is proved to be one by a test.
    pub fn cluster(&self) -> Option<Cluster> {
        format::parse(self.text).ok()
    }
}

/// The cluster of that name; with `*4` after the name four times, joined by its networks.
pub fn preset(name: &str) -> Option<Cluster> {
    let (name, count) = match name.split_once('*') {
        Some((name, count)) => (name, count.parse().ok()?),
        None => (name, 1),
    };
    let found = PRESETS.iter().find(|preset| preset.name == name)?;
    repeat(&found.cluster()?, count).ok()
}

/// `nodes` nodes of `per_node` GPUs like HGX H200: all GPUs of a node at an NVSwitch, with the
/// figures of `hgx-h200-8`, and a NIC of 400 Gbit/s for each. Nothing, if that is too large.
pub fn hgx(nodes: u32, per_node: u32) -> Option<Cluster> {
    let title = match nodes {
        1 => format!("HGX H200 with {per_node} GPUs"),
        _ => format!("{nodes} nodes like HGX H200 with {per_node} GPUs, a NIC for each"),
    };
    let text = format!(
        "cluster \"{title}\"
network fabric
node * {nodes} {{
    gpu * {per_node}
    switch nvswitch
    nic * {per_node}
    gpu* - nvswitch       nvlink 18 * 20.6 GB/s 0.37 us
    gpu* - nic* pairwise  pci 48 GB/s 1 us
}}
node*.nic* - fabric       cable 400 Gbit/s 0.35 us
"
    );
    format::parse(&text).ok()
}

const fn figure(medium: Medium, mb_per_s: u32, basis: Basis, source: &'static str) -> Figure {
    Figure { medium, mb_per_s, basis, source }
}

const H100_NVLINK: Figure = figure(
    Medium::NvLink,
    370_800,
    Basis::Measured,
    "18 NVLinks of 20.6 GB/s, as NCCL reckons; stores to one peer reach 370 GB/s on 8 H200",
);
const A100_NVLINK: Figure = figure(
    Medium::NvLink,
    240_000,
    Basis::Published,
    "12 NVLinks (data sheet) of 20 GB/s (NCCL, SM80_NVLINK_BW)",
);
const V100_NVLINK: Figure = figure(
    Medium::NvLink,
    20_000,
    Basis::Published,
    "one NVLink of 20 GB/s (NCCL, SM70_NVLINK_BW); which GPUs have one: dump in NVIDIA/nccl#671",
);
const V100_NVLINK_PAIR: Figure = figure(
    Medium::NvLink,
    40_000,
    Basis::Published,
    "two NVLinks of 20 GB/s (NCCL, SM70_NVLINK_BW); which GPUs have two: dump in NVIDIA/nccl#671",
);
const DGX2_NVLINK: Figure = figure(
    Medium::NvLink,
    120_000,
    Basis::Published,
    "6 NVLinks (`NV6` in NVIDIA/nccl-tests#78) of 20 GB/s (NCCL, SM70_NVLINK_BW)",
);
const GB200_NVLINK: Figure = figure(
    Medium::NvLink,
    721_800,
    Basis::Published,
    "18 NVLinks (data sheet) of 40.1 GB/s (NCCL, SM100_NVLINK_BW)",
);
const BRIDGE_NVLINK: Figure = figure(
    Medium::NvLink,
    48_000,
    Basis::Assumed,
    "a bridge of 4 NVLinks, as of A40 and RTX A6000, of 12 GB/s (NCCL, SM86_NVLINK_BW)",
);
const MI300X_XGMI: Figure = figure(
    Medium::Xgmi,
    48_000,
    Basis::Published,
    "one link of 48 GB/s between any two GPUs (RCCL, for gfx942)",
);
const PCI_3: Figure = figure(
    Medium::Pci,
    12_000,
    Basis::Published,
    "16 lanes of the third generation, as NCCL reckons",
);
const PCI_4: Figure = figure(
    Medium::Pci,
    24_000,
    Basis::Published,
    "16 lanes of the fourth generation, as NCCL reckons",
);
const PCI_5: Figure = figure(
    Medium::Pci,
    48_000,
    Basis::Published,
    "16 lanes of the fifth generation, as NCCL reckons",
);
const BROADWELL_SOCKET: Figure = figure(
    Medium::Socket,
    6_000,
    Basis::Published,
    "Intel before Skylake, as NCCL reckons; family 6, model 79 in the dump in NVIDIA/nccl#671",
);
const SKYLAKE_SOCKET: Figure = figure(
    Medium::Socket,
    10_000,
    Basis::Published,
    "Intel from Skylake on, as NCCL reckons; Xeon Platinum 8168 in Azure's table of NDv2",
);
const AMD_SOCKET: Figure =
    figure(Medium::Socket, 16_000, Basis::Assumed, "two processors of AMD's, as NCCL reckons");
const NDR: Figure = figure(
    Medium::Cable,
    50_000,
    Basis::Published,
    "400 Gbit/s a NIC: line rate on the data sheet of the machine",
);
const NDR_ASSUMED: Figure = figure(
    Medium::Cable,
    50_000,
    Basis::Assumed,
    "a NIC of 400 Gbit/s for each GPU; the board itself comes without NICs",
);
const HDR: Figure = figure(
    Medium::Cable,
    25_000,
    Basis::Published,
    "200 Gbit/s a NIC: line rate on the data sheet of the machine",
);
const EDR: Figure = figure(
    Medium::Cable,
    12_500,
    Basis::Published,
    "100 Gbit/s a NIC: line rate on the data sheet of the machine",
);
const EDR_ASSUMED: Figure =
    figure(Medium::Cable, 12_500, Basis::Assumed, "one NIC of 100 Gbit/s at the first processor");

const HGX_FIGURES: &[Figure] = &[H100_NVLINK, PCI_5, NDR_ASSUMED];
const HGX_8: &str = include_str!("presets/hgx-h100-8.cluster");
const HGX_4: &str = include_str!("presets/hgx-h100-4.cluster");
const HGX_2: &str = include_str!("presets/hgx-h100-2.cluster");

const fn entry(name: &'static str, text: &'static str, figures: &'static [Figure]) -> Preset {
    Preset { name, text, figures }
}

/// All presets. Below which PCI switch the only NIC of `ndv2` is, is assumed. Latencies are those
/// of [`latency`](super::latency).
pub const PRESETS: &[Preset] = &[
    entry("hgx-h100-8", HGX_8, HGX_FIGURES),
    entry("hgx-h100-4", HGX_4, HGX_FIGURES),
    entry("hgx-h100-2", HGX_2, HGX_FIGURES),
    entry("hgx-h200-8", HGX_8, HGX_FIGURES),
    entry("hgx-h200-4", HGX_4, HGX_FIGURES),
    entry("hgx-h200-2", HGX_2, HGX_FIGURES),
    entry("dgx-a100", include_str!("presets/dgx-a100.cluster"), &[A100_NVLINK, PCI_4, HDR]),
    entry(
        "dgx1-v100",
        include_str!("presets/dgx1-v100.cluster"),
        &[V100_NVLINK, V100_NVLINK_PAIR, PCI_3, BROADWELL_SOCKET, EDR],
    ),
    entry("dgx-2", include_str!("presets/dgx-2.cluster"), &[DGX2_NVLINK, PCI_3, EDR]),
    entry("gb200-nvl72", include_str!("presets/gb200-nvl72.cluster"), &[GB200_NVLINK, PCI_5, NDR]),
    entry("mi300x-8", include_str!("presets/mi300x-8.cluster"), &[MI300X_XGMI, PCI_5, NDR_ASSUMED]),
    entry("pcie-4", include_str!("presets/pcie-4.cluster"), &[PCI_4, AMD_SOCKET, EDR_ASSUMED]),
    entry(
        "pcie-pairs-4",
        include_str!("presets/pcie-pairs-4.cluster"),
        &[BRIDGE_NVLINK, PCI_4, AMD_SOCKET, EDR_ASSUMED],
    ),
    entry(
        "ndv2",
        include_str!("presets/ndv2.cluster"),
        &[V100_NVLINK, V100_NVLINK_PAIR, PCI_3, SKYLAKE_SOCKET, EDR],
    ),
    entry("ndv4", include_str!("presets/ndv4.cluster"), &[A100_NVLINK, PCI_4, HDR]),
    entry("ndv5", include_str!("presets/ndv5.cluster"), &[H100_NVLINK, PCI_5, NDR]),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_text_is_a_cluster_and_prints_itself() {
        for preset in PRESETS {
            let cluster = match format::parse(preset.text) {
                Ok(cluster) => cluster,
                Err(error) => panic!("{}: {error}", preset.name),
            };
            assert_eq!(cluster.name(), preset.description());
            assert_eq!(
                format::parse(&format::print(&cluster)).unwrap(),
                cluster,
                "{}",
                preset.name
            );
        }
    }

    #[test]
    fn every_rate_has_a_figure_and_every_figure_a_rate() {
        for preset in PRESETS {
            let cluster = preset.cluster().unwrap();
            let mut rates: Vec<_> =
                cluster.links().iter().map(|it| (it.medium, it.rate.mb_per_s())).collect();
            rates.sort_unstable();
            rates.dedup();
            let mut figures: Vec<_> =
                preset.figures.iter().map(|it| (it.medium, it.mb_per_s)).collect();
            figures.sort_unstable();
            assert_eq!(rates, figures, "{}", preset.name);
        }
    }

    #[test]
    fn nodes_like_a_preset_have_its_links() {
        let [made, known] = [hgx(1, 8).unwrap(), super::preset("hgx-h200-8").unwrap()];
        let rates = |of: &Cluster| {
            let links = of.links().iter().map(|it| (it.medium, it.rate.mb_per_s(), it.latency_ns));
            let mut links: Vec<_> = links.collect();
            links.sort_unstable();
            links
        };
        assert_eq!(rates(&made), rates(&known));
        assert_eq!(hgx(4, 2).map(|of| of.gpus().count()), Some(8));
        assert_eq!(hgx(u32::MAX, 8), None);
    }

    #[test]
    fn names_differ_and_all_can_be_repeated() {
        let mut names: Vec<_> = PRESETS.iter().map(|preset| preset.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), PRESETS.len());
        for preset in PRESETS {
            let two = super::preset(&format!("{}*2", preset.name)).unwrap();
            let gpus = preset.cluster().unwrap().gpus().count();
            assert_eq!(two.gpus().count(), 2 * gpus, "{}", preset.name);
        }
        for name in ["", "*2", "ndv5*0", "ndv5*x", "ndv5*4294967295", "ndv5*2*2"] {
            assert_eq!(super::preset(name), None, "{name}");
        }
    }

    #[test]
    fn each_gpu_of_a_cube_mesh_has_six_nvlinks() {
        for name in ["dgx1-v100", "ndv2"] {
            let cluster = super::preset(name).unwrap();
            for gpu in cluster.gpus() {
                let own = cluster.links().iter().filter(|it| it.from == gpu);
                let nvlinks = own.filter(|it| it.medium == Medium::NvLink);
                let all: u32 = nvlinks.map(|it| it.rate.mb_per_s()).sum();
                assert_eq!(all, 6 * 20_000, "{name}: {gpu:?}");
            }
        }
    }
}
