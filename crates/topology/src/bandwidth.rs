//! How fast links are, by rules of thumb, so that paths compare.
//!
//! PCI links and the NVLinks of compute capability 8.0, 9.0 and 10.0 are reckoned as NCCL does,
//! xGMI links as RCCL does. NVLinks of other chips and links between sockets are assumptions:
//! nobody has measured them for this table.

use std::fmt;

use crate::system::{Arch, Cpu, CpuVendor, Gpu, GpuLinkKind, Name, PciGeneration, PciLink};

/// Bytes per time in one direction, in megabytes (10^6) per second.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Bandwidth {
    megabytes_per_s: u32,
}

impl Bandwidth {
    /// Within one device: no limit worth knowing.
    pub const LOCAL: Bandwidth = Bandwidth::from_mb_per_s(5_000_000);

    /// So many megabytes per second.
    pub const fn from_mb_per_s(megabytes_per_s: u32) -> Self {
        Self { megabytes_per_s }
    }

    /// In megabytes (10^6) per second.
    pub const fn mb_per_s(self) -> u32 {
        self.megabytes_per_s
    }

    /// In gigabytes (10^9) per second.
    pub fn gb_per_s(self) -> f64 {
        f64::from(self.megabytes_per_s) / 1000.0
    }

    /// A PCI link. What does not state its width and generation counts as sixteen lanes of the
    /// third generation.
    pub fn of_pci(link: PciLink) -> Self {
        let PciLink { generation, width } = link;
        let lanes = if width == 0 { 16 } else { u32::from(width) };
        let lane_100mbit_per_s = match generation {
            Some(PciGeneration::Gen1) => 15,
            Some(PciGeneration::Gen2) => 30,
            Some(PciGeneration::Gen3) | None => 60,
            Some(PciGeneration::Gen4) => 120,
            Some(PciGeneration::Gen5) => 240,
            Some(PciGeneration::Gen6) => 480,
        };
        Self::from_mb_per_s(lanes * lane_100mbit_per_s * 25 / 2)
    }

    /// `count` NVLinks of a GPU of compute capability `sm`, such as 90.
    pub fn of_nvlinks(sm: Option<u32>, count: u32) -> Self {
        let link_mb_per_s: u32 = match sm {
            Some(100..) => 40_100,
            Some(90..=99) => 20_600,
            Some(86) => 12_000,
            Some(60..=69) => 18_000,
            Some(_) | None => 20_000,
        };
        Self::from_mb_per_s(link_mb_per_s.saturating_mul(count))
    }

    /// `count` xGMI links of a GPU of the architecture `gcn`, such as `gfx942`, which older files
    /// write as a number.
    pub fn of_xgmi(gcn: Option<&str>, count: u32) -> Self {
        let is_of = |families: &[&str]| {
            let name = gcn.unwrap_or("").trim_start_matches("gfx");
            families.iter().any(|family| name.starts_with(family))
        };
        let link_mb_per_s: u32 = if is_of(&["94", "95"]) {
            48_000
        } else if is_of(&["90a", "910"]) {
            36_000
        } else {
            24_000
        };
        Self::from_mb_per_s(link_mb_per_s.saturating_mul(count))
    }

    /// `count` links of `gpu`.
    pub fn of_gpu_links(gpu: &Gpu, kind: GpuLinkKind, count: u32) -> Self {
        match kind {
            GpuLinkKind::NvLink => Self::of_nvlinks(gpu.sm, count),
            GpuLinkKind::Xgmi => Self::of_xgmi(gpu.gcn.as_ref().map(Name::as_str), count),
        }
    }

    /// A port of the network.
    pub fn of_net(speed_mbit_per_s: u32) -> Self {
        Self::from_mb_per_s(speed_mbit_per_s / 8)
    }

    /// Between two NUMA nodes of a host, of which `cpu` is one.
    pub fn of_socket_link(cpu: &Cpu) -> Self {
        let intel = match cpu.model {
            Some(0x8f..) => 22_000,
            Some(0x55..) => 10_000,
            Some(_) | None => 6_000,
        };
        Self::from_mb_per_s(match (cpu.arch, cpu.vendor) {
            (Some(Arch::Ppc64), _) => 32_000,
            (Some(Arch::Arm64), _) => 6_000,
            (_, Some(CpuVendor::Amd | CpuVendor::Hygon)) => 16_000,
            (_, Some(CpuVendor::Intel)) => intel,
            (_, Some(CpuVendor::Zhaoxin | CpuVendor::Shanghai) | None) => 6_000,
        })
    }
}

impl fmt::Display for Bandwidth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.1} GB/s", self.gb_per_s())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_those_of_the_field() {
        let check = |found: Bandwidth, expected: &str| assert_eq!(found.to_string(), expected);
        let gen5 = PciLink { generation: Some(PciGeneration::Gen5), width: 16 };
        check(Bandwidth::of_pci(gen5), "48.0 GB/s");
        check(Bandwidth::of_pci(PciLink { generation: None, width: 0 }), "12.0 GB/s");
        check(Bandwidth::of_nvlinks(Some(90), 18), "370.8 GB/s");
        check(Bandwidth::of_net(400_000), "50.0 GB/s");
        check(Bandwidth::of_xgmi(Some("gfx942:sramecc+"), 1), "48.0 GB/s");
        check(Bandwidth::of_xgmi(Some("940"), 1), "48.0 GB/s");
        check(Bandwidth::of_xgmi(Some("gfx90a"), 4), "144.0 GB/s");
        check(Bandwidth::of_xgmi(Some("906"), 1), "24.0 GB/s");
        check(Bandwidth::of_xgmi(None, 1), "24.0 GB/s");
    }
}
