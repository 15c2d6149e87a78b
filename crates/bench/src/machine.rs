//! What there is to measure on: the GPUs that this process sees, or the host.

use std::fmt;

use msccl_gpu::Driver;
use serde::{Deserialize, Serialize};

use crate::element::ElementType;
use crate::error::Error;
use crate::process_group::ProcessGroup;

/// Where a rank's buffers lie.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Place {
    /// In host memory.
    Host,
    /// In the GPU of that number.
    Gpu(u32),
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Host => f.write_str("host memory"),
            Self::Gpu(ordinal) => write!(f, "GPU {ordinal}"),
        }
    }
}

/// What to measure on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DeviceSelection {
    /// GPUs if there are any, otherwise the host.
    Whatever,
    /// GPUs.
    Gpus,
    /// The host.
    Host,
}

/// What there is to measure on.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Machine {
    /// Host memory, because it was requested or for the reason given.
    Host {
        /// Why there is no GPU, if one was looked for.
        reason: Option<String>,
    },
    /// GPUs, at least one.
    Gpus(Vec<Gpu>),
}

/// A GPU.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Gpu {
    /// Its number among those that this process sees.
    pub ordinal: u32,
    /// Its name.
    pub name: String,
    /// Where it sits, such as `0000:1B:00.0`.
    pub bus_id: String,
    /// Ten times the compute capability: 90 is 9.0.
    pub capability: u32,
}

impl Machine {
    /// Looks around.
    ///
    /// # Errors
    ///
    /// A GPU is requested and there is none, or one cannot be queried.
    pub fn survey(selection: DeviceSelection) -> Result<Self, Error> {
        match (selection, Driver::load()) {
            (DeviceSelection::Host, _) => Ok(Self::Host { reason: None }),
            (DeviceSelection::Whatever, Err(none)) => {
                Ok(Self::Host { reason: Some(none.to_string()) })
            }
            (DeviceSelection::Gpus, Err(none)) => Err(none.into()),
            (DeviceSelection::Whatever | DeviceSelection::Gpus, Ok(driver)) => {
                let gpus = (0..driver.device_count()).map(|ordinal| Gpu::ask(driver, ordinal));
                Ok(Self::Gpus(gpus.collect::<Result<_, _>>()?))
            }
        }
    }

    /// Keeps only the first `count` GPUs; there is nothing to keep on the host.
    ///
    /// # Errors
    ///
    /// There are not as many.
    pub fn limited_to(mut self, count: u32) -> Result<Self, Error> {
        let Self::Gpus(gpus) = &mut self else { return Ok(self) };
        if count == 0 || count as usize > gpus.len() {
            let text = format!(
                "expected from 1 to {} GPUs, found {count}; several ranks share a GPU with --ranks",
                gpus.len()
            );
            return Err(Error::new(text));
        }
        gpus.truncate(count as usize);
        Ok(self)
    }

    /// The machine of a whole launch, of which this one is what the own process sees: every rank's
    /// GPU, by rank, each by its number in the rank's own process.
    ///
    /// # Errors
    ///
    /// Some ranks have a GPU and others have none, or a rank is lost.
    pub fn of_launch(self, group: &ProcessGroup) -> Result<Self, Error> {
        let mine = match &self {
            Self::Host { reason: _ } => None,
            Self::Gpus(gpus) => gpus.get(group.local_rank() as usize % gpus.len().max(1)).cloned(),
        };
        let all = group.exchange(&mine)?;
        let without: Vec<_> = (0..).zip(&all).filter(|(_, gpu)| gpu.is_none()).collect();
        match without.first() {
            None => Ok(Self::Gpus(all.into_iter().flatten().collect())),
            Some(_) if without.len() == all.len() => Ok(self),
            Some((rank, _)) => Err(Error::new(format!(
                "r{rank} has no GPU and others have; --device host measures all on the host"
            ))),
        }
    }

    /// Where the buffers of `rank` lie: ranks go round the GPUs.
    pub fn place(&self, rank: u32) -> Place {
        match self {
            Self::Host { reason: _ } => Place::Host,
            Self::Gpus(gpus) => {
                let gpu = gpus.get(rank as usize % gpus.len().max(1));
                Place::Gpu(gpu.map_or(0, |gpu| gpu.ordinal))
            }
        }
    }

    /// How many GPUs there are, if any.
    pub fn gpus(&self) -> Option<u32> {
        match self {
            Self::Host { reason: _ } => None,
            Self::Gpus(gpus) => u32::try_from(gpus.len()).ok(),
        }
    }

    /// What the buffers of `rank` lie in, in words.
    pub fn describe(&self, rank: u32) -> String {
        let Self::Gpus(gpus) = self else { return "host memory".to_owned() };
        let Some(gpu) = gpus.get(rank as usize % gpus.len().max(1)) else { return String::new() };
        let Gpu { ordinal, name, bus_id, capability: _ } = gpu;
        format!("device {ordinal:>2} [{bus_id}] {name}")
    }

    /// The whole machine for `ranks` ranks in words, such as `8 × NVIDIA H200`.
    pub fn in_words(&self, ranks: u32) -> String {
        let Self::Gpus(gpus) = self else {
            let processors = std::thread::available_parallelism().map_or(1, usize::from);
            return format!("host threads, {processors} processors");
        };
        let used = gpus.len().min(ranks as usize);
        let mut names: Vec<_> = gpus[..used].iter().map(|gpu| gpu.name.as_str()).collect();
        names.dedup();
        let sharing =
            if ranks as usize > used { format!(", {ranks} ranks") } else { String::new() };
        format!("{used} × {}{sharing}", names.join(" and "))
    }

    /// Whether libraries reduce elements of that type here: 8-bit floats need capability 9.0.
    pub fn reduces(&self, element: ElementType) -> bool {
        let Self::Gpus(gpus) = self else { return true };
        let is_float8 = element.size_bytes() == 1 && element.float_layout().is_some();
        !is_float8 || gpus.iter().all(|gpu| gpu.capability >= 90)
    }
}

impl Gpu {
    fn ask(driver: &'static Driver, ordinal: u32) -> Result<Self, Error> {
        let device = driver.device(ordinal)?;
        let capability = device.compute_capability()?;
        Ok(Self {
            ordinal,
            name: device.name()?,
            bus_id: device.pci_bus_id()?,
            capability: 10 * capability.major + capability.minor,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use msccl_collective::DataType;

    fn gpus(count: u32, capability: u32) -> Machine {
        let gpu = |ordinal| Gpu {
            ordinal,
            name: "GPU".to_owned(),
            bus_id: "0000:00:00.0".to_owned(),
            capability,
        };
        Machine::Gpus((0..count).map(gpu).collect())
    }

    #[test]
    fn ranks_go_round_the_gpus() {
        let machine = gpus(8, 90).limited_to(2).unwrap();
        let places = [0, 1, 2].map(|rank| machine.place(rank));
        assert_eq!(places, [Place::Gpu(0), Place::Gpu(1), Place::Gpu(0)]);
        assert!(gpus(8, 90).limited_to(9).is_err());
        assert_eq!(machine.in_words(2), "2 × GPU");
        assert_eq!(machine.in_words(4), "2 × GPU, 4 ranks");
        assert_eq!(Machine::Host { reason: None }.place(3), Place::Host);
    }

    #[test]
    fn small_floats_need_a_recent_gpu() {
        let small = ElementType(DataType::F8E4M3);
        assert!(gpus(1, 90).reduces(small) && !gpus(1, 80).reduces(small));
        assert!(gpus(1, 80).reduces(ElementType(DataType::I8)));
        assert!(Machine::Host { reason: None }.reduces(small));
    }

    #[test]
    fn the_host_is_always_there() {
        assert_eq!(Machine::survey(DeviceSelection::Host), Ok(Machine::Host { reason: None }));
    }
}
