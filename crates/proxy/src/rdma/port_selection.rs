//! Which ports a rank uses: those nearest to its GPU, or to the processors that it is bound to.
//!
//! 1. Ports of less than half the speed of the fastest are left aside: they serve storage and
//!    management.
//! 2. Of the others, those with the shortest way to the rank's memory are *nearest*: behind the
//!    same PCI switch (`PIX`), behind several switches (`PXB`), at the same NUMA node (`PHB`),
//!    elsewhere (`SYS`); of these, the fastest.
//! 3. GPUs of one host to which the same ports are nearest share them: each takes as many as make
//!    all of them busy, from its own place among these GPUs on. So two GPUs and two ports behind a
//!    switch have one each, and eight GPUs and two ports, one at each socket, the one of their
//!    socket.
//!
//! A rank in host memory is near the NUMA node to whose processors its process is bound; it does
//! not share, as nobody knows who else is there. **Where distances are not known, all ports are
//! used**, because nothing speaks against any.
//!
//! The choice is this rank's own; [`crate::connect`] makes rails of what both ends choose.

use std::fmt::Write as _;

use msccl_topology::address::BusId;
use msccl_topology::{Path, PathType, Place, Topology};

use super::calls::DevicePort;
use crate::config::{MachineFacts, Nics};

/// What a rank uses.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Choice {
    /// Numbers of devices, ascending; at least one if there are any.
    pub(super) devices: Vec<usize>,
    /// How far they are; none if that is not known, or not of all.
    pub(super) distance: Option<PathType>,
    /// Why these, for people.
    pub(super) why: String,
}

/// Where the memory of a rank is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Origin {
    Gpu(BusId),
    Numa(u32),
}

impl Origin {
    fn place(self) -> Place<'static> {
        match self {
            Self::Gpu(bus_id) => Place::Function(bus_id),
            Self::Numa(number) => Place::Numa(number),
        }
    }
}

/// Chooses among `devices`, in a process that may run on `processors`.
pub(super) fn choose(
    devices: &[DevicePort],
    policy: Nics,
    around: &MachineFacts,
    processors: &[usize],
) -> Choice {
    let all = |distance, why: &str| Choice {
        devices: (0..devices.len()).collect(),
        distance,
        why: why.to_owned(),
    };
    let topologies = (around.topologies)();
    for topology in &topologies {
        let origin = match &around.gpu {
            Some(gpu) => Some(Origin::Gpu(gpu.bus_id)),
            None => numa_of(topology, processors).map(Origin::Numa),
        };
        let Some(origin) = origin else {
            return all(None, "all, as the process is bound to no NUMA node");
        };
        if policy == Nics::Every && !devices.is_empty() {
            return all(farthest(topology, origin, devices), "all, as configured");
        }
        if let Some(nearest_ports) = NearestPorts::of(topology, origin, devices) {
            return nearest_ports.share(topology, origin, devices, policy, around);
        }
    }
    match policy {
        Nics::Every => all(None, "all, as configured"),
        Nics::Auto | Nics::Nearest | Nics::AtMost(_) => {
            all(None, "all, as it is not known how far they are")
        }
    }
}

/// The only NUMA node among several on which a process runs.
fn numa_of(topology: &Topology, processors: &[usize]) -> Option<u32> {
    let cpus = &topology.system().cpus;
    let home = |numa: &msccl_topology::system::Cpu| {
        !processors.is_empty() && processors.iter().all(|number| numa.affinity.contains(*number))
    };
    let home = cpus.iter().find(|cpu| home(cpu)).filter(|_| cpus.len() > 1);
    home.map(|cpu| cpu.numa)
}

/// How far the farthest of `devices` is, if the way to each is known.
fn farthest(topology: &Topology, origin: Origin, devices: &[DevicePort]) -> Option<PathType> {
    let kinds = devices.iter().map(|device| Some(path(topology, origin.place(), device)?.kind));
    kinds.collect::<Option<Vec<_>>>()?.into_iter().max()
}

/// The ports with the best way to somewhere.
#[derive(Clone, PartialEq, Eq, Debug)]
struct NearestPorts {
    devices: Vec<usize>,
    kind: PathType,
    /// Whether others are left aside because they are slow.
    slow: bool,
}

impl NearestPorts {
    /// Those of `devices` near `origin`; `None` if nothing is known of them.
    fn of(topology: &Topology, origin: Origin, devices: &[DevicePort]) -> Option<Self> {
        let fastest = devices.iter().map(|device| device.gbit_per_s).max().unwrap_or(0);
        let is_slow =
            |device: &DevicePort| device.gbit_per_s != 0 && 2 * device.gbit_per_s < fastest;
        let rank = |path: Path| (path.kind, std::cmp::Reverse(path.bandwidth));
        let paths = devices.iter().map(|device| {
            let path = path(topology, origin.place(), device)?;
            (!is_slow(device) && path.kind < PathType::Net).then_some(path)
        });
        let paths: Vec<Option<Path>> = paths.collect();
        let best = paths.iter().flatten().copied().map(rank).min()?;
        let near = paths.iter().enumerate();
        let near = near.filter(|(_, path)| path.is_some_and(|path| rank(path) == best));
        Some(Self {
            devices: near.map(|(number, _)| number).collect(),
            kind: best.0,
            slow: devices.iter().any(is_slow),
        })
    }

    /// This rank's part of them.
    fn share(
        self,
        topology: &Topology,
        origin: Origin,
        devices: &[DevicePort],
        policy: Nics,
        around: &MachineFacts,
    ) -> Choice {
        let gpus = match (&around.gpu, origin) {
            (Some(gpu), Origin::Gpu(own)) => {
                let mut gpus = gpu.around.clone();
                gpus.push(own);
                gpus.sort();
                gpus.dedup();
                gpus.retain(|gpu| {
                    let theirs = Self::of(topology, Origin::Gpu(*gpu), devices);
                    theirs.is_some_and(|theirs| theirs.devices == self.devices)
                });
                gpus
            }
            _ => Vec::new(),
        };
        let place = gpus.iter().position(|gpu| origin == Origin::Gpu(*gpu)).unwrap_or(0);
        let (ports, sharers) = (self.devices.len(), gpus.len().max(1));
        let part = match policy {
            Nics::Auto => ports.div_ceil(sharers),
            Nics::AtMost(most) => (most as usize).clamp(1, ports),
            Nics::Nearest | Nics::Every => ports,
        };
        let mut mine: Vec<_> =
            (0..part).map(|at| self.devices[(place * part + at) % ports]).collect();
        mine.sort_unstable();
        let why = self.why(origin, ports - part, sharers);
        Choice { devices: mine, distance: Some(self.kind), why }
    }

    fn why(&self, origin: Origin, left: usize, sharers: usize) -> String {
        let mut why = match origin {
            Origin::Gpu(bus_id) => format!("nearest to GPU {bus_id}: {}", self.kind),
            Origin::Numa(number) => {
                format!("nearest to NUMA node {number}, to which the process is bound")
            }
        };
        // Writing to a string cannot fail.
        let _ = match (left, sharers) {
            (0, _) => Ok(()),
            (left, 1) => write!(why, "; {left} more as near"),
            (left, gpus) => write!(why, "; {left} more as near, which {gpus} GPUs share"),
        };
        if self.slow {
            why.push_str("; slow ones are left aside");
        }
        why
    }
}

/// The way to a port, which a description may name as such, or by the card.
fn path(topology: &Topology, from: Place<'_>, device: &DevicePort) -> Option<Path> {
    let port = Place::Port { name: &device.name, number: device.port };
    let card = device.pci.map(Place::Function);
    let places: Vec<_> = std::iter::once(port).chain(card).collect();
    topology.paths_from(from, &places).into_iter().flatten().next()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::config::Gpu;

    /// A host of two sockets. `switches` holds the GPUs and ports behind each PCI switch, by
    /// socket; ports have 400 Gbit/s.
    fn host(switches: &[(u32, &[u8], &[u8])]) -> Topology {
        let pci = |bus: u8, class: &str, inside: &str| {
            format!("<pci busid=\"0000:{bus:02x}:00.0\" class=\"{class}\">{inside}</pci>")
        };
        let socket = |numa: u32| {
            let here = switches.iter().enumerate().filter(|(_, (socket, ..))| *socket == numa);
            let inside = here.map(|(at, (_, gpus, nets))| {
                let gpus = gpus
                    .iter()
                    .map(|gpu| pci(0x10 + gpu, "0x030200", &format!("<gpu dev=\"{gpu}\"/>")));
                let nets = nets.iter().map(|net| {
                    let net = format!("name=\"mlx5_{net}\" dev=\"{net}\" speed=\"400000\"");
                    format!("<nic><net {net}/></nic>")
                });
                let nets = nets
                    .enumerate()
                    .map(|(place, nic)| pci(0x40 + 8 * at as u8 + place as u8, "0x020700", &nic));
                pci(0x80 + at as u8, "0x060400", &gpus.chain(nets).collect::<String>())
            });
            let affinity = if numa == 0 { "0000000f" } else { "000000f0" };
            let inside: String = inside.collect();
            format!("<cpu numaid=\"{numa}\" affinity=\"{affinity}\">{inside}</cpu>")
        };
        let text = format!("<system>{}{}</system>", socket(0), socket(1));
        Topology::new(msccl_topology::xml::read(&text).unwrap().system)
    }

    fn gpu(at: u8) -> BusId {
        format!("0000:{:02x}:00.0", 0x10 + at).parse().unwrap()
    }

    fn ports(speeds: &[u32]) -> Vec<DevicePort> {
        let port = |(at, &gbit_per_s): (usize, &u32)| DevicePort {
            name: format!("mlx5_{at}"),
            pci: None,
            port: 1,
            gbit_per_s,
            ethernet: false,
        };
        speeds.iter().enumerate().map(port).collect()
    }

    fn around(topology: Option<Topology>, gpu: Option<Gpu>) -> MachineFacts {
        let known: Vec<_> = topology.into_iter().collect();
        MachineFacts { topologies: Arc::new(move || known.clone()), gpu }
    }

    /// What each of `gpus`, which are together in a communicator, uses.
    fn chosen(
        topology: &Topology,
        gpus: &[u8],
        devices: &[DevicePort],
        policy: Nics,
    ) -> Vec<Choice> {
        let each = |at: &u8| {
            let here = Gpu { bus_id: gpu(*at), around: gpus.iter().copied().map(gpu).collect() };
            choose(devices, policy, &around(Some(topology.clone()), Some(here)), &[])
        };
        gpus.iter().map(each).collect()
    }

    #[track_caller]
    fn check(
        topology: &Topology,
        gpus: &[u8],
        devices: &[DevicePort],
        policy: Nics,
        to: &[&[usize]],
    ) {
        let found = chosen(topology, gpus, devices, policy);
        let found: Vec<_> = found.iter().map(|choice| &choice.devices[..]).collect();
        assert_eq!(found, to);
    }

    const EIGHT: [u8; 8] = [0, 1, 2, 3, 4, 5, 6, 7];

    #[test]
    fn every_gpu_has_a_port_behind_its_switch() {
        let each: Vec<_> = (0..8).map(|at| [at]).collect();
        let switches: Vec<_> =
            each.iter().map(|at| (u32::from(at[0] / 4), &at[..], &at[..])).collect();
        let (topology, devices) = (host(&switches), ports(&[400; 8]));
        let own: Vec<_> = (0..8).map(|at| [at]).collect();
        let own: Vec<_> = own.iter().map(|at| &at[..]).collect();
        check(&topology, &EIGHT, &devices, Nics::Auto, &own);
        check(&topology, &EIGHT, &devices, Nics::Nearest, &own);
        let all = [&[0, 1, 2, 3, 4, 5, 6, 7][..]; 8];
        check(&topology, &EIGHT, &devices, Nics::Every, &all);
        let choice = &chosen(&topology, &[5], &devices, Nics::Auto)[0];
        assert_eq!(choice.why, "nearest to GPU 0000:15:00.0: PIX");
        assert_eq!(choice.distance, Some(PathType::Pix));
        let every = &chosen(&topology, &[5], &devices, Nics::Every)[0];
        assert_eq!(every.distance, Some(PathType::Sys));
    }

    #[test]
    fn gpus_behind_one_switch_share_its_ports() {
        let topology = host(&[(0, &[0, 1], &[0, 1]), (1, &[2, 3], &[2, 3])]);
        let devices = ports(&[400; 4]);
        let gpus = [0, 1, 2, 3];
        check(&topology, &gpus, &devices, Nics::Auto, &[&[0], &[1], &[2], &[3]]);
        check(&topology, &gpus, &devices, Nics::AtMost(1), &[&[0], &[1], &[2], &[3]]);
        check(&topology, &gpus, &devices, Nics::Nearest, &[&[0, 1], &[0, 1], &[2, 3], &[2, 3]]);
        // Alone it has both, and the order of ranks does not matter.
        check(&topology, &[0, 3], &devices, Nics::Auto, &[&[0, 1], &[2, 3]]);
        check(&topology, &[3, 1, 2, 0], &devices, Nics::Auto, &[&[3], &[1], &[2], &[0]]);
        let choice = &chosen(&topology, &[0, 1], &devices, Nics::Auto)[1];
        assert_eq!(
            choice.why,
            "nearest to GPU 0000:11:00.0: PIX; 1 more as near, which 2 GPUs share"
        );
    }

    #[test]
    fn two_ports_serve_eight_gpus() {
        let each = host(&[(0, &[0, 1, 2, 3], &[0]), (1, &[4, 5, 6, 7], &[1])]);
        let devices = ports(&[400; 2]);
        let halves: [&[usize]; 8] = [&[0], &[0], &[0], &[0], &[1], &[1], &[1], &[1]];
        check(&each, &EIGHT, &devices, Nics::Auto, &halves);
        // Both at one socket: all take turns.
        let one = host(&[(0, &[0, 1, 2, 3], &[0, 1]), (1, &[4, 5, 6, 7], &[])]);
        let turns: [&[usize]; 8] = [&[0], &[1], &[0], &[1], &[0], &[1], &[0], &[1]];
        check(&one, &EIGHT, &devices, Nics::Auto, &turns);
        let why = &chosen(&one, &EIGHT, &devices, Nics::Auto)[4].why;
        assert!(why.contains(": SYS; 1 more as near, which 8 GPUs share"), "{why}");
    }

    #[test]
    fn three_gpus_keep_eight_equal_ports_busy() {
        let topology = host(&[(0, &[0, 1, 2], &EIGHT)]);
        let parts: [&[usize]; 3] = [&[0, 1, 2], &[3, 4, 5], &[0, 6, 7]];
        check(&topology, &[0, 1, 2], &ports(&[400; 8]), Nics::Auto, &parts);
    }

    #[test]
    fn slow_ports_are_left_aside() {
        let topology = host(&[(0, &[0], &[0]), (1, &[1], &[1, 2])]);
        let devices = ports(&[25, 400, 400]);
        check(&topology, &[0], &devices, Nics::Auto, &[&[1, 2]]);
        let why = &chosen(&topology, &[0], &devices, Nics::Auto)[0].why;
        assert!(why.ends_with(": SYS; slow ones are left aside"), "{why}");
        // Whose speed is not known is not slow.
        check(&topology, &[0], &ports(&[0, 400, 400]), Nics::Auto, &[&[0]]);
    }

    #[test]
    fn what_is_not_known_is_used() {
        let here = || Some(Gpu { bus_id: gpu(0), around: Vec::new() });
        let devices = ports(&[400; 3]);
        let elsewhere = host(&[(0, &[7], &[0, 1, 2])]);
        let strangers = host(&[(0, &[0], &[5])]);
        for topology in [None, Some(elsewhere), Some(strangers)] {
            let choice = choose(&devices, Nics::Auto, &around(topology, here()), &[]);
            assert_eq!(choice.devices, [0, 1, 2]);
            assert_eq!(choice.why, "all, as it is not known how far they are");
            assert_eq!(choice.distance, None);
        }
        // One that is known is near, whatever the others are.
        let one = host(&[(0, &[0], &[1])]);
        assert_eq!(choose(&devices, Nics::Auto, &around(Some(one), here()), &[]).devices, [1]);
    }

    #[test]
    fn cards_are_found_by_their_addresses() {
        let topology = host(&[(0, &[0], &[0]), (0, &[1], &[1])]);
        let mut devices = ports(&[400; 2]);
        for (device, bus) in devices.iter_mut().zip([0x48, 0x40]) {
            device.name = "unnamed".to_owned();
            device.pci = Some(format!("0000:{bus:02x}:00.0").parse().unwrap());
        }
        check(&topology, &[0, 1], &devices, Nics::Auto, &[&[1], &[0]]);
    }

    #[test]
    fn ranks_in_host_memory_go_by_their_processors() {
        let topology = || Some(host(&[(0, &[0], &[0]), (1, &[1], &[1, 2])]));
        let devices = ports(&[400; 3]);
        let choose = |processors: &[usize]| {
            choose(&devices, Nics::Auto, &around(topology(), None), processors)
        };
        assert_eq!(choose(&[4, 7]).devices, [1, 2]);
        let why = "nearest to NUMA node 1, to which the process is bound";
        assert_eq!(choose(&[4, 7]).why, why);
        assert_eq!(choose(&[0]).devices, [0]);
        for everywhere in [&[3, 4][..], &[]] {
            let choice = choose(everywhere);
            assert_eq!(choice.devices, [0, 1, 2]);
            assert_eq!(choice.why, "all, as the process is bound to no NUMA node");
        }
    }
}
