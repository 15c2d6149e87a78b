//! What would be chosen, for people who ask without making a communicator: on GPUs like the H200,
//! or on host threads.

mod explain;
mod specialised;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use msccl_collective::Rank;
use msccl_registry::{Registry, Shape};

use crate::select::{Capacity, Machine, Overrides, Selector, Tuning};
use crate::{cuda, host};

pub use explain::{Question, explain};
pub use specialised::{
    SpecialisedKernel, compile_specialised, specialised_kernel, specialised_kernels,
};

/// What an engine can hold of a communicator of `shape`.
pub(crate) fn capacity(machine: Machine, shape: Shape) -> Capacity {
    let Shape { ranks, per_node } = shape;
    match machine {
        Machine::Gpus => cuda::nominal_capacity(ranks, per_node),
        Machine::Host => host::capacity(ranks, per_node),
    }
}

/// What chooses for `rank` on such a machine, where small calls have kernels of their own or not.
fn selector(
    machine: Machine,
    registry: &Arc<Registry>,
    rank: Rank,
    overrides: &Overrides,
    tuning: Option<&Tuning>,
    low_latency: bool,
) -> Selector {
    let shape = registry.shape();
    let capacity = Capacity { low_latency, ..capacity(machine, shape) };
    let (registry, overrides, tuning) = (registry.clone(), overrides.clone(), tuning.cloned());
    Selector::new(registry, rank, capacity, machine, overrides, tuning)
}
