//! Finds out what this machine is made of, from what Linux states in `/sys` and `/proc`.
//!
//! Found: NUMA nodes with their processors, NVIDIA GPUs, cards under `class/infiniband` and, where
//! a card has no verbs device, interfaces under `class/net`, and the PCI switches above them. Not
//! found: what only a driver's library states. Callers that know NVLinks pass them.

use std::collections::{BTreeMap, BTreeSet};

use crate::address::{BusId, PciClass, PciId};
use crate::system::{
    Arch, Cpu, CpuVendor, Device, Gpu, Name, Net, Nic, NvLinks, PciFunction, PciLink, Switch,
    System,
};
use crate::xml::values::{cpu_set, generation, hex, hex_as};

/// Reads the file system; paths start at its root and have no leading `/`.
pub trait Files {
    /// What a small file holds.
    fn read(&self, path: &str) -> Option<String>;
    /// The names in a folder, in any order; none if there is no such folder.
    fn list(&self, path: &str) -> Vec<String>;
    /// Where a link finally leads.
    fn resolve(&self, path: &str) -> Option<String>;
}

/// NVLinks that somebody knows of.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct KnownNvLinks {
    /// The GPU they start from.
    pub gpu: BusId,
    /// The links.
    pub links: NvLinks,
}

/// This machine. GPUs and ports are numbered in the order of their addresses and names.
pub fn detect(files: &dyn Files, nvlinks: &[KnownNvLinks]) -> System {
    let machine = Machine { files };
    let mut found = machine.gpus(nvlinks);
    found.extend(machine.nics());
    let mut cpus = machine.cpus();
    for (path, device) in found {
        let numa = machine.number(&format!("{path}/numa_node")).unwrap_or(0);
        let position = cpus.iter().position(|cpu| cpu.numa == numa).unwrap_or(0);
        if let Some(cpu) = cpus.get_mut(position) {
            attach(&mut cpu.devices, &machine.switches_above(&path), device);
        }
    }
    System { name: None, cpus }
}

/// Puts `device` below `switches`, outermost first, which are made where they are missing.
fn attach(devices: &mut Vec<Device>, switches: &[PciFunction], device: Device) {
    let Some((outer, inner)) = switches.split_first() else { return devices.push(device) };
    let known = devices.iter_mut().find_map(|device| match device {
        Device::Switch(switch) if switch.function.bus_id == outer.bus_id => Some(switch),
        Device::Switch(_) | Device::Gpu(_) | Device::Nic(_) => None,
    });
    match known {
        Some(switch) => attach(&mut switch.devices, inner, device),
        None => {
            let mut below = Vec::new();
            attach(&mut below, inner, device);
            let function = outer.clone();
            devices.push(Device::Switch(Switch { function, peers: Vec::new(), devices: below }));
        }
    }
}

struct Machine<'a> {
    files: &'a dyn Files,
}

impl Machine<'_> {
    fn text(&self, path: &str) -> Option<String> {
        self.files.read(path).map(|text| text.trim().to_owned())
    }

    /// A number; `None` for those below 0, with which Linux says that it does not know.
    fn number(&self, path: &str) -> Option<u32> {
        self.text(path)?.parse().ok()
    }

    fn sorted(&self, folder: &str) -> Vec<String> {
        let mut names = self.files.list(folder);
        names.sort();
        names
    }

    /// NUMA nodes; one if the machine states none.
    fn cpus(&self) -> Vec<Cpu> {
        const NODES: &str = "sys/devices/system/node";
        let names = self.files.list(NODES);
        let number = |name: &String| name.strip_prefix("node")?.parse::<u32>().ok();
        let mut numbers: BTreeSet<_> = names.iter().filter_map(number).collect();
        if numbers.is_empty() {
            numbers.insert(0);
        }
        let info = self.files.read("proc/cpuinfo").unwrap_or_default();
        let cpu = |numa| {
            let mask = self.text(&format!("{NODES}/node{numa}/cpumap"));
            let affinity = mask.and_then(|mask| cpu_set(&mask)).unwrap_or_default();
            Cpu { numa, affinity, ..processor(&info) }
        };
        numbers.into_iter().map(cpu).collect()
    }

    fn gpus(&self, nvlinks: &[KnownNvLinks]) -> Vec<(String, Device)> {
        const DEVICES: &str = "sys/bus/pci/devices";
        let names = self.sorted(DEVICES);
        let functions = names.iter().filter_map(|name| {
            let path = self.files.resolve(&format!("{DEVICES}/{name}"))?;
            let function = self.function(&path)?;
            let is_gpu = function.class.is_some_and(PciClass::is_gpu)
                && function.vendor == Some(PciId::NVIDIA);
            is_gpu.then_some((path, function))
        });
        let gpu = |(dev, (path, function)): (usize, (String, PciFunction))| {
            let mine = nvlinks.iter().filter(|known| known.gpu == function.bus_id);
            let nvlinks = mine.map(|known| known.links).collect();
            let dev = dev as u32;
            let gpu = Gpu {
                function,
                dev,
                sm: None,
                gcn: None,
                rank: None,
                gdr: None,
                nvlinks,
                c2c: None,
            };
            (path, Device::Gpu(gpu))
        };
        functions.enumerate().map(gpu).collect()
    }

    /// Cards with their ports.
    fn nics(&self) -> Vec<(String, Device)> {
        let mut cards: BTreeMap<String, Vec<Net>> = BTreeMap::new();
        for name in self.sorted("sys/class/infiniband") {
            let folder = format!("sys/class/infiniband/{name}");
            let Some(card) = self.card(&folder) else { continue };
            let ports = self.sorted(&format!("{folder}/ports"));
            let ports = ports.iter().filter_map(|port| self.verbs_port(&folder, &name, port));
            cards.entry(card).or_default().extend(ports);
        }
        let with_verbs: BTreeSet<_> = cards.keys().cloned().collect();
        for name in self.sorted("sys/class/net") {
            let folder = format!("sys/class/net/{name}");
            let card = self.card(&folder).filter(|card| !with_verbs.contains(card));
            if let (Some(card), Some(name)) = (card, Name::new(&name)) {
                let speed = self.number(&format!("{folder}/speed"));
                cards.entry(card).or_default().push(net(name, speed));
            }
        }
        number_ports(&mut cards);
        let nic = |(path, nets): (String, Vec<Net>)| {
            let function = self.function(&path)?;
            Some((path, Device::Nic(Nic { function: Some(function), nets })))
        };
        cards.into_iter().filter_map(nic).collect()
    }

    fn verbs_port(&self, folder: &str, name: &str, port: &str) -> Option<Net> {
        let rate = self.text(&format!("{folder}/ports/{port}/rate"));
        let guid = self.text(&format!("{folder}/node_guid"));
        let gbit = rate.and_then(|rate| rate.split(' ').next()?.parse::<f64>().ok());
        let speed = gbit.map(|gbit| (gbit * 1000.0) as u32);
        let guid = guid.and_then(|guid| hex(&guid.replace(':', ""))).unwrap_or(0);
        Some(Net { port: port.parse().ok()?, guid, ..net(Name::new(name)?, speed) })
    }

    /// The PCI function that a network device belongs to; virtual ones belong to none.
    fn card(&self, folder: &str) -> Option<String> {
        let path = self.files.resolve(folder)?;
        let parts: Vec<&str> = path.split('/').collect();
        let last = parts.iter().rposition(|part| part.parse::<BusId>().is_ok())?;
        Some(parts[..=last].join("/"))
    }

    fn function(&self, path: &str) -> Option<PciFunction> {
        let id = |name: &str| {
            let text = self.text(&format!("{path}/{name}"))?;
            hex_as(&text).map(PciId)
        };
        let class = self.text(&format!("{path}/class"))?;
        let speed = self.text(&format!("{path}/max_link_speed"));
        let width = self.text(&format!("{path}/max_link_width"));
        // Virtual functions say 255 lanes when they do not know.
        let width = width.and_then(|width| width.parse().ok()).filter(|&width| width <= 32);
        Some(PciFunction {
            bus_id: path.rsplit('/').next()?.parse().ok()?,
            class: Some(hex_as(&class).filter(|class| *class < 1 << 24).map(PciClass)?),
            vendor: id("vendor"),
            device: id("device"),
            subsystem_vendor: id("subsystem_vendor"),
            subsystem_device: id("subsystem_device"),
            link: PciLink {
                generation: speed.and_then(|speed| generation(&speed)),
                width: width.unwrap_or(0),
            },
        })
    }

    /// The switches above a device, outermost first. Linux shows the root port, and of each switch
    /// the port that leads upwards and one that leads downwards; the former stands for the switch.
    fn switches_above(&self, path: &str) -> Vec<PciFunction> {
        let parts: Vec<&str> = path.split('/').collect();
        let is_function = |part: &&str| part.parse::<BusId>().is_ok();
        let first = parts.iter().position(is_function).unwrap_or(parts.len());
        let upward = (first + 1..parts.len().saturating_sub(1)).step_by(2);
        upward.filter_map(|last| self.function(&parts[..=last].join("/"))).collect()
    }
}

/// A port of which only this is known.
fn net(name: Name, speed_mbit_per_s: Option<u32>) -> Net {
    Net {
        name,
        dev: 0,
        speed_mbit_per_s: speed_mbit_per_s.filter(|&speed| speed > 0).unwrap_or(10_000),
        port: 0,
        latency_ns: 0,
        guid: 0,
        max_connections: 65_536,
        gdr: false,
        coll: false,
        rail: None,
        plane: None,
    }
}

fn number_ports(cards: &mut BTreeMap<String, Vec<Net>>) {
    for (dev, net) in cards.values_mut().flatten().enumerate() {
        net.dev = dev as u32;
    }
}

/// What `/proc/cpuinfo` states about all processors.
fn processor(info: &str) -> Cpu {
    let value = |key: &str| {
        let lines = info.lines().filter_map(|line| line.split_once(':'));
        lines.filter(|(name, _)| name.trim() == key).map(|(_, value)| value.trim()).next()
    };
    let vendor = value("vendor_id");
    let arch = match (vendor, value("CPU implementer"), value("cpu")) {
        (Some(_), _, _) => Some(Arch::X86_64),
        (None, Some(_), _) => Some(Arch::Arm64),
        (None, None, Some(cpu)) if cpu.starts_with("POWER") => Some(Arch::Ppc64),
        (None, None, _) => None,
    };
    let vendor = match vendor {
        Some("GenuineIntel") => Some(CpuVendor::Intel),
        Some("AuthenticAMD") => Some(CpuVendor::Amd),
        Some("HygonGenuine") => Some(CpuVendor::Hygon),
        Some("CentaurHauls") => Some(CpuVendor::Zhaoxin),
        Some("Shanghai") => Some(CpuVendor::Shanghai),
        Some(_) | None => None,
    };
    let number = |key| value(key).and_then(|text| text.parse().ok());
    Cpu {
        numa: 0,
        affinity: crate::system::CpuSet::default(),
        arch,
        vendor,
        family: number("cpu family"),
        model: number("model"),
        host: None,
        devices: Vec::new(),
    }
}
