//! What there is to run ranks on.

use msccl_gpu::{Context, Driver};
use msccl_runtime::PlaceOfRank;

use crate::Trouble;
use crate::args::Device;

/// Where ranks can be placed.
pub enum Machine {
    /// On host threads.
    Host,
    /// On these GPUs, at least one, in turn.
    Gpus(Vec<Context>),
}

impl Machine {
    /// What `device` asks for; the error says why there is none.
    pub fn find(device: Device) -> Result<Self, Trouble> {
        match device {
            Device::Host => Ok(Self::Host),
            Device::Gpu => {
                let driver = Driver::load().map_err(|reason| reason.to_string())?;
                let gpus = (0..driver.device_count()).map(|gpu| driver.device(gpu)?.context());
                Ok(Self::Gpus(gpus.collect::<Result<_, _>>()?))
            }
        }
    }

    /// Where rank number `rank` runs.
    pub fn place(&self, rank: u32) -> PlaceOfRank {
        match self {
            Self::Host => PlaceOfRank::Host,
            Self::Gpus(gpus) => PlaceOfRank::Gpu(gpus[rank as usize % gpus.len()].clone()),
        }
    }

    /// Whether ranks run on GPUs.
    pub fn has_gpus(&self) -> bool {
        matches!(self, Self::Gpus(_))
    }

    /// The least number of free bytes on any GPU; 0 without.
    pub fn free_bytes(&self) -> Result<usize, Trouble> {
        let Self::Gpus(gpus) = self else { return Ok(0) };
        let mut least = usize::MAX;
        for gpu in gpus {
            least = least.min(gpu.memory_info()?.0);
        }
        Ok(least)
    }

    /// What it is, for people.
    pub fn describe(&self) -> Result<String, Trouble> {
        let Self::Gpus(gpus) = self else { return Ok("host threads".to_owned()) };
        let driver = gpus[0].device().driver();
        let name = gpus[0].device().name()?;
        Ok(format!("{} x {name}, driver for CUDA {}", gpus.len(), driver.version()))
    }
}
