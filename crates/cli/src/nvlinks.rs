//! The NVLinks of this machine: from what the management library says to a description.
//!
//! As NCCL does, a link to nothing that is visible counts as one to an NVSwitch: virtual machines
//! hide their switches.

use std::collections::BTreeMap;

use msccl_environment::Root;
use msccl_gpu::{ManagedGpu, NvLinkEnd, NvLinkRemote, managed_gpus};
use msccl_topology::address::{BusId, PciClass};
use msccl_topology::detect::{KnownNvLinks, detect};
use msccl_topology::system::{Device, Gpu, GpuLinkKind, NvLinks, System};

/// This machine, and why its NVLinks are not known, if they are not.
pub struct Detected {
    /// What there is.
    pub system: System,
    /// Why NVLinks are missing.
    pub no_nvlinks: Option<String>,
}

/// This machine.
pub fn detected() -> Detected {
    let without = detect(&Root, &[]);
    if !without.cpus.iter().any(|cpu| has_gpu(&cpu.devices)) {
        return Detected { system: without, no_nvlinks: None };
    }
    match managed_gpus() {
        Ok(gpus) => {
            let mut system = detect(&Root, &known(&gpus));
            for cpu in &mut system.cpus {
                add_capabilities(&mut cpu.devices, &gpus);
            }
            Detected { system, no_nvlinks: None }
        }
        Err(why) => Detected { system: without, no_nvlinks: Some(why) },
    }
}

fn has_gpu(devices: &[Device]) -> bool {
    devices.iter().any(|device| match device {
        Device::Gpu(_) => true,
        Device::Nic(_) => false,
        Device::Switch(switch) => has_gpu(&switch.devices),
    })
}

/// The NVLinks of `gpus`, those of one GPU to one device together.
fn known(gpus: &[ManagedGpu]) -> Vec<KnownNvLinks> {
    let places: Vec<Option<BusId>> = gpus.iter().map(place).collect();
    let mut counts: BTreeMap<(BusId, Target), u32> = BTreeMap::new();
    for (gpu, place) in gpus.iter().zip(&places) {
        let Some(place) = place else { continue };
        for end in &gpu.nvlinks {
            *counts.entry((*place, Target::of(end, &places))).or_default() += 1;
        }
    }
    let links = counts.into_iter().map(|((gpu, target), count)| {
        let (target, target_class) = match target {
            Target::Gpu(target) => (Some(target), PciClass::GPU),
            Target::Switch(target) => (target, PciClass::NVSWITCH),
        };
        let links = NvLinks { kind: GpuLinkKind::NvLink, target, count, target_class };
        KnownNvLinks { gpu, links }
    });
    links.collect()
}

fn place(gpu: &ManagedGpu) -> Option<BusId> {
    gpu.bus_id.parse().ok()
}

/// What an NVLink leads to.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Target {
    Gpu(BusId),
    Switch(Option<BusId>),
}

impl Target {
    fn of(end: &NvLinkEnd, gpus: &[Option<BusId>]) -> Self {
        let NvLinkEnd { remote_bus_id, remote } = end;
        let place: Option<BusId> = remote_bus_id.as_ref().and_then(|text| text.parse().ok());
        let is_gpu = match remote {
            NvLinkRemote::Gpu => true,
            NvLinkRemote::Switch => false,
            NvLinkRemote::Unknown => place.is_some() && gpus.contains(&place),
        };
        match place {
            Some(place) if is_gpu => Target::Gpu(place),
            place => Target::Switch(place),
        }
    }
}

/// Gives the GPUs among `devices` the compute capability that the library says.
fn add_capabilities(devices: &mut [Device], gpus: &[ManagedGpu]) {
    for device in devices {
        match device {
            Device::Switch(switch) => add_capabilities(&mut switch.devices, gpus),
            Device::Gpu(gpu) => gpu.sm = gpu.sm.or_else(|| capability(gpu, gpus)),
            Device::Nic(_) => {}
        }
    }
}

fn capability(gpu: &Gpu, gpus: &[ManagedGpu]) -> Option<u32> {
    let same = gpus.iter().find(|managed| place(managed) == Some(gpu.function.bus_id));
    same.and_then(|managed| managed.compute_capability).map(|it| 10 * it.major + it.minor)
}

#[cfg(test)]
mod tests {
    use super::*;
    use msccl_gpu::ComputeCapability;
    use msccl_topology::Topology;
    use msccl_topology::cluster::Medium;
    use msccl_topology::cluster::from_topology::from_topology;
    use msccl_topology::detect::Files;

    /// A machine with GPUs at `1b` and `2b`.
    struct TwoGpus;

    impl Files for TwoGpus {
        fn read(&self, path: &str) -> Option<String> {
            let file = path.rsplit('/').next()?;
            let value = match file {
                "class" => "0x030200",
                "vendor" => "0x10de",
                _ => return None,
            };
            path.contains("pci").then(|| value.to_owned())
        }

        fn list(&self, path: &str) -> Vec<String> {
            let names = ["0000:1b:00.0", "0000:2b:00.0"].map(str::to_owned);
            if path == "sys/bus/pci/devices" { names.to_vec() } else { Vec::new() }
        }

        fn resolve(&self, path: &str) -> Option<String> {
            path.rsplit('/').next().map(|name| format!("sys/devices/pci0000:00/{name}"))
        }
    }

    fn gpus(ends: [&[(Option<&str>, NvLinkRemote)]; 2]) -> Vec<ManagedGpu> {
        let end = |(bus_id, remote): &(Option<&str>, NvLinkRemote)| NvLinkEnd {
            remote_bus_id: bus_id.map(str::to_owned),
            remote: *remote,
        };
        let bus_ids = ["00000000:1B:00.0", "00000000:2B:00.0"];
        let gpus = bus_ids.iter().zip(ends).map(|(bus_id, ends)| ManagedGpu {
            bus_id: (*bus_id).to_owned(),
            compute_capability: Some(ComputeCapability { major: 9, minor: 0 }),
            nvlinks: ends.iter().map(end).collect(),
        });
        gpus.collect()
    }

    /// The NVLinks of the cluster: their ends and rates in MB/s.
    fn nvlinks(gpus: &[ManagedGpu]) -> Vec<(String, String, u32)> {
        let mut system = detect(&TwoGpus, &known(gpus));
        system.cpus.iter_mut().for_each(|cpu| add_capabilities(&mut cpu.devices, gpus));
        let cluster = from_topology(&Topology::new(system));
        let name =
            |at: msccl_topology::cluster::VertexIndex| cluster.vertices()[at.index()].name.clone();
        let nvlinks = cluster.links().iter().filter(|link| link.medium == Medium::NvLink);
        let mut found: Vec<_> =
            nvlinks.map(|it| (name(it.from), name(it.to), it.rate.mb_per_s())).collect();
        found.sort();
        found
    }

    #[test]
    fn links_between_gpus_join_them() {
        use NvLinkRemote::{Gpu, Unknown};
        let (first, second) = (Some("00000000:1B:00.0"), Some("00000000:2B:00.0"));
        // The library of one GPU says what a link leads to; that of the other does not.
        let gpus = gpus([&[(second, Gpu), (second, Gpu)], &[(first, Unknown), (first, Unknown)]]);
        let expected = [("gpu0", "gpu1"), ("gpu1", "gpu0")];
        // Two NVLinks of compute capability 9.0.
        let expected = expected.map(|(from, to)| (from.to_owned(), to.to_owned(), 2 * 20_600));
        assert_eq!(nvlinks(&gpus), expected);
    }

    #[test]
    fn links_to_switches_and_to_nothing_visible_lead_to_the_switch() {
        use NvLinkRemote::{Switch, Unknown};
        let hidden = Some("FFFFFFFF:FFFF:FF.F");
        let gpus = gpus([
            &[(Some("00000000:C4:00.0"), Switch), (Some("00000000:C5:00.0"), Switch)],
            &[(hidden, Unknown), (None, Switch)],
        ]);
        let found = nvlinks(&gpus);
        assert_eq!(found.len(), 4, "{found:?}");
        assert!(found.iter().all(|(from, to, rate)| {
            (from == "nvswitch" || to == "nvswitch") && *rate == 2 * 20_600
        }));
        assert!(nvlinks(&[]).is_empty());
    }
}
