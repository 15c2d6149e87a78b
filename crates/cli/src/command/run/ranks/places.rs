//! Where ranks run.

use msccl_gpu::{Context, Driver};
use msccl_runtime::PlaceOfRank;

use crate::failure::{Failure, Result};
use crate::verdict::words::counted;

/// Where ranks can run.
pub enum Places {
    /// On the host.
    Host,
    /// On these GPUs, at least one, in turn.
    Gpus(Vec<Context>),
}

impl Places {
    /// The GPUs of those numbers, in that order; all if there are none. Of these only the one of
    /// the `local_rank`, if there is but that rank in this process.
    ///
    /// # Errors
    ///
    /// There is no usable GPU, or none of some number.
    pub fn gpus(numbers: &[u32], local_rank: Option<u32>) -> Result<Self> {
        let cannot = |reason: &dyn std::fmt::Display| {
            Failure::new(format!(
                "cannot run on GPUs: {reason}; --device host runs the same on host threads"
            ))
        };
        let driver = Driver::load().map_err(|reason| cannot(&reason))?;
        let seen = driver.device_count();
        let all: Vec<_> = (0..seen).collect();
        let numbers = if numbers.is_empty() { &all } else { numbers };
        if let Some(stranger) = numbers.iter().find(|number| **number >= seen) {
            let text = format!("there is no GPU {stranger}: this process sees {seen}, from 0 on");
            return Err(Failure::new(text));
        }
        let chosen = local_rank.map(|rank| rank as usize % numbers.len().max(1));
        let numbers = chosen.and_then(|at| numbers.get(at..=at)).unwrap_or(numbers);
        let contexts = numbers.iter().map(|number| driver.device(*number)?.context());
        let contexts = contexts.collect::<std::result::Result<_, _>>();
        contexts.map(Places::Gpus).map_err(|error| cannot(&error))
    }

    /// Where rank number `rank` runs.
    pub fn of(&self, rank: u32) -> PlaceOfRank {
        match self {
            Places::Host => PlaceOfRank::Host,
            Places::Gpus(contexts) => {
                PlaceOfRank::Gpu(contexts[rank as usize % contexts.len()].clone())
            }
        }
    }

    /// For people: `on 2 GPUs`.
    pub fn name(&self) -> String {
        match self {
            Places::Host => "on the host".to_owned(),
            Places::Gpus(contexts) => format!("on {}", counted(contexts.len() as u64, "GPU")),
        }
    }
}
