//! The ports of this machine that may be used, and memory that they may reach.

use std::path::Path;
use std::sync::Arc;

use crate::choice::Choice;
use crate::verbs::{Adapter, Found, Patience, PortFacts, Refused, Region, find};
use crate::watch::Watch;

/// What users set, settled.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Settings {
    /// Which ports may be used.
    pub choice: Choice,
    /// Which GID is used, if not the best.
    pub gid_index: Option<u8>,
    /// How long the device tries.
    pub patience: Patience,
    /// The traffic class of packets.
    pub traffic_class: u8,
    /// The service level of packets.
    pub service_level: u8,
}

/// Of packets that are not answered: about 4 s for a try.
const DEFAULT_TIMEOUT: u8 = 20;
/// The most that verbs have.
const DEFAULT_RETRY_COUNT: u8 = 7;

impl Settings {
    /// Settles what users set; negative numbers were not set.
    ///
    /// # Errors
    /// If something cannot be read or is out of range; in words.
    pub fn new(
        hca: &str,
        [gid_index, timeout, retry_count, traffic_class, service_level]: [i32; 5],
    ) -> Result<Self, String> {
        let set = |name, value, most| match value {
            ..0 => Ok(None),
            0.. => u8::try_from(value)
                .ok()
                .filter(|value| *value <= most)
                .map(Some)
                .ok_or_else(|| format!("{name} is {value}; from 0 to {most} is expected")),
        };
        Ok(Self {
            choice: Choice::read(hca)?,
            gid_index: set("NCCL_IB_GID_INDEX", gid_index, u8::MAX)?,
            patience: Patience {
                timeout: set("NCCL_IB_TIMEOUT", timeout, 31)?.unwrap_or(DEFAULT_TIMEOUT),
                retry_count: set("NCCL_IB_RETRY_CNT", retry_count, 7)?
                    .unwrap_or(DEFAULT_RETRY_COUNT),
            },
            traffic_class: set("NCCL_IB_TC", traffic_class, u8::MAX)?.unwrap_or(0),
            service_level: set("NCCL_IB_SL", service_level, 15)?.unwrap_or(0),
        })
    }
}

/// All ports that may be used.
pub struct Machine {
    settings: Settings,
    ports: Vec<Arc<Port>>,
}

/// A port that may be used.
pub struct Port {
    /// Its device.
    pub watch: Arc<Watch>,
    /// Its number, from 1.
    pub number: u8,
    /// What it was when the machine was opened.
    pub facts: PortFacts,
}

/// Memory that a port may reach.
pub struct Registration {
    /// The memory.
    pub region: Region,
    /// The port.
    pub port: Arc<Port>,
}

impl Machine {
    /// Opens the devices whose ports are allowed and active.
    ///
    /// # Errors
    /// If there is none; the text says of each why not.
    pub fn open(settings: Settings) -> Result<Self, String> {
        let mut search =
            Search { choice: &settings.choice, ports: Vec::new(), unsuited: Unsuited::default() };
        find(|device| search.look_at(&device)).map_err(|refused| no_rdma(&refused))?;
        let Search { choice: _, mut ports, unsuited } = search;
        if ports.is_empty() {
            return Err(none_usable(&settings.choice, unsuited));
        }
        let place = |port: &Arc<Port>| (port.watch.adapter().name().to_owned(), port.number);
        ports.sort_by_key(place);
        Ok(Self { settings, ports })
    }

    /// What users set.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// The ports, in the order of their devices' names.
    pub fn ports(&self) -> &[Arc<Port>] {
        &self.ports
    }

    /// Port number `index` of [`Machine::ports`].
    ///
    /// # Errors
    /// If there are not so many; in words.
    pub fn port(&self, index: u32) -> Result<&Arc<Port>, String> {
        let count = self.ports.len();
        let port = usize::try_from(index).ok().and_then(|index| self.ports.get(index));
        port.ok_or_else(|| format!("device number {index} is requested, of {count}"))
    }
}

impl Port {
    /// For people.
    pub fn describe(&self) -> String {
        format!("{} port {}", self.watch.adapter().name(), self.number)
    }

    /// The path of its PCI device in sysfs; nothing if it has none.
    pub fn pci_path(&self) -> String {
        let device = Path::new(self.watch.adapter().folder()).join("device");
        let path = std::fs::canonicalize(device).ok();
        path.and_then(|path| path.into_os_string().into_string().ok()).unwrap_or_default()
    }

    /// Its speed in Gbit/s, as sysfs says; 0 if it does not.
    pub fn gbit_per_s(&self) -> u32 {
        let Self { watch, number, .. } = self;
        let path = format!("{}/ports/{number}/rate", watch.adapter().folder());
        std::fs::read_to_string(path).map_or(0, |rate| gbit_per_s(&rate))
    }
}

/// Of a text such as `2.5 Gb/sec (1X SDR)`; rounded up.
fn gbit_per_s(rate: &str) -> u32 {
    let number = rate.split_whitespace().next().and_then(|word| word.parse::<f64>().ok());
    number.map_or(0, |rate| rate.ceil() as u32)
}

struct Search<'a> {
    choice: &'a Choice,
    ports: Vec<Arc<Port>>,
    unsuited: Unsuited,
}

/// What cannot be used.
#[derive(Default)]
struct Unsuited {
    /// By the user's request.
    unwanted: Vec<String>,
    /// For another reason, which follows.
    unfit: Vec<String>,
}

impl Search<'_> {
    fn look_at(&mut self, device: &Found<'_>) {
        let name = device.name();
        if !device.speaks_infiniband() {
            self.unsuited.unfit.push(format!("{name} is neither InfiniBand nor RoCE"));
            return;
        }
        let opened = device.open().and_then(|adapter| {
            adapter.never_wait_for_events()?;
            let count = adapter.ports()?;
            Ok((adapter, count))
        });
        match opened {
            Ok((adapter, count)) => self.look_at_ports(adapter, count),
            Err(refused) => {
                self.unsuited.unfit.push(format!("{name} cannot be opened ({refused})"))
            }
        }
    }

    fn look_at_ports(&mut self, adapter: Adapter, count: u8) {
        let watch = Arc::new(Watch::new(adapter));
        let adapter = watch.adapter();
        let name = adapter.name();
        for number in 1..=count {
            if !self.choice.allows(name, number) {
                self.unsuited.unwanted.push(format!("{name} port {number}"));
                continue;
            }
            match adapter.port(number) {
                Ok(facts) if facts.active => {
                    self.ports.push(Arc::new(Port { watch: Arc::clone(&watch), number, facts }));
                }
                Ok(facts) => {
                    self.unsuited.unfit.push(format!("{name} port {number} is {}", facts.state));
                }
                Err(refused) => {
                    self.unsuited
                        .unfit
                        .push(format!("{name} port {number} cannot be queried ({refused})"));
                }
            }
        }
    }
}

fn no_rdma(refused: &Refused) -> String {
    if refused.is_unsupported() {
        "the kernel has no RDMA (is the module ib_uverbs loaded?)".into()
    } else {
        format!("the RDMA devices cannot be listed: {refused}")
    }
}

fn none_usable(choice: &Choice, unsuited: Unsuited) -> String {
    let Unsuited { unwanted, unfit: mut reasons } = unsuited;
    if !unwanted.is_empty() {
        let (written, unwanted) = (choice.written(), unwanted.join(", "));
        reasons.push(format!("NCCL_IB_HCA is `{written}`, which leaves out {unwanted}"));
    }
    match reasons.is_empty() {
        true => "this machine has no RDMA device".into(),
        false => format!("no RDMA port can be used: {}", reasons.join("; ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_not_set_has_its_default() {
        let settings = Settings::new("", [-1; 5]).unwrap();
        let Settings { choice, gid_index, patience, traffic_class, service_level } = settings;
        assert_eq!(choice, Choice::default());
        assert_eq!((gid_index, traffic_class, service_level), (None, 0, 0));
        assert_eq!(patience, Patience { timeout: 20, retry_count: 7 });
    }

    #[test]
    fn what_was_set_is_used() {
        let settings = Settings::new("mlx5_1", [3, 14, 6, 106, 4]).unwrap();
        assert_eq!(settings.gid_index, Some(3));
        assert_eq!(settings.patience, Patience { timeout: 14, retry_count: 6 });
        assert_eq!((settings.traffic_class, settings.service_level), (106, 4));
    }

    #[test]
    fn what_is_out_of_range_is_refused() {
        let cases = [
            ([256, -1, -1, -1, -1], "NCCL_IB_GID_INDEX is 256; from 0 to 255"),
            ([-1, 32, -1, -1, -1], "NCCL_IB_TIMEOUT is 32; from 0 to 31"),
            ([-1, -1, 8, -1, -1], "NCCL_IB_RETRY_CNT is 8; from 0 to 7"),
            ([-1, -1, -1, 300, -1], "NCCL_IB_TC is 300; from 0 to 255"),
            ([-1, -1, -1, -1, 16], "NCCL_IB_SL is 16; from 0 to 15"),
        ];
        for (numbers, expected) in cases {
            let why = Settings::new("", numbers).unwrap_err();
            assert!(why.contains(expected), "{why}");
        }
    }

    #[test]
    fn speeds_are_read_as_sysfs_writes_them() {
        let cases =
            [("400 Gb/sec (4X NDR)\n", 400), ("2.5 Gb/sec (1X SDR)\n", 3), ("?", 0), ("", 0)];
        for (written, expected) in cases {
            assert_eq!(gbit_per_s(written), expected, "`{written}`");
        }
    }

    #[test]
    fn no_port_says_why_of_each() {
        let choice = Choice::read("=mlx5_9").unwrap();
        assert_eq!(none_usable(&choice, Unsuited::default()), "this machine has no RDMA device");
        let unwanted = vec!["rxe0 port 1".into(), "rxe1 port 1".into()];
        let unfit = vec!["mlx5_9 port 1 is down".into()];
        assert_eq!(
            none_usable(&choice, Unsuited { unwanted, unfit }),
            "no RDMA port can be used: mlx5_9 port 1 is down; NCCL_IB_HCA is `=mlx5_9`, which \
             leaves out rxe0 port 1, rxe1 port 1"
        );
    }
}
