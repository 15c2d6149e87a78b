//! Which specialised kernels there should be, for people who ask without making a communicator: on
//! GPUs like the H200.

#[cfg(test)]
mod tests;

use std::sync::Arc;

use msccl_collective::{CollectiveKind, Rank};
use msccl_kernels::recipe::Architecture;
use msccl_kernels::specialised::Kernel;
use msccl_registry::Registry;
use msccl_select::{
    CallShape, Decision, Machine, Overrides, PrecompileEntry, Question, Selector, Specialisation,
    SpecialiseMode, Tuning,
};

use crate::event::Event;
use crate::specialised::{Made, load, provide};

/// A specialised kernel, and what it is for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SpecialisedKernel {
    /// The algorithm.
    pub algorithm: String,
    /// The rank whose part it runs.
    pub rank: Rank,
    /// The kernel.
    pub kernel: Kernel,
}

impl SpecialisedKernel {
    pub(crate) fn of(entries: &PrecompileEntry, rank: Rank, ranks: u32) -> Self {
        let PrecompileEntry { prepared, protocol, data_type } = entries;
        let kernel = Kernel::of(&prepared.plan, ranks, *protocol, *data_type);
        Self { algorithm: prepared.name.clone(), rank, kernel }
    }
}

/// The specialised kernels of `rank` for calls of `kinds`, on GPUs like the H200: those that its
/// communicators would use, each once. If `small`, small calls have kernels of their own, so there
/// are none for them.
pub fn specialised_kernels(
    registry: &Arc<Registry>,
    rank: Rank,
    kinds: &[CollectiveKind],
    overrides: &Overrides,
    tuning: Option<&Tuning>,
    small: bool,
) -> Vec<SpecialisedKernel> {
    let ranks = registry.shape().ranks;
    let selector = Selector::nominal(Machine::Gpus, registry, rank, overrides, tuning, small);
    let entries = selector.precompile_set(kinds);
    let mut kernels: Vec<SpecialisedKernel> = Vec::new();
    for of in entries.iter().map(|of| SpecialisedKernel::of(of, rank, ranks)) {
        // Algorithms that differ may be the same for a rank.
        if !kernels.iter().any(|known| known.kernel == of.kernel) {
            kernels.push(of);
        }
    }
    kernels
}

/// The specialised kernel that would serve a call of the first rank, if it is one for which there
/// should be one; `small` as for [`specialised_kernels`].
pub fn specialised_kernel(
    registry: &Arc<Registry>,
    question: &Question,
    overrides: &Overrides,
    tuning: Option<&Tuning>,
    small: bool,
) -> Option<SpecialisedKernel> {
    let CallShape { kind, data_type, .. } = question.shape;
    let selector = Selector::nominal(Machine::Gpus, registry, Rank(0), overrides, tuning, small);
    if !selector.likely().contains(&kind) {
        return None;
    }
    let decision = decision(&selector, question)?;
    let entries = PrecompileEntry::of(&decision, data_type)?;
    let ranks = registry.shape().ranks;
    let all = selector.precompile_set(&[kind]);
    let known = all.iter().any(|of| of.is(&entries));
    known.then(|| SpecialisedKernel::of(&entries, Rank(0), ranks))
}

/// What serves such a call, if it is one of GPUs.
fn decision(selector: &Selector, question: &Question) -> Option<Arc<Decision>> {
    let chosen = question.on_gpus.then(|| selector.choose(&question.shape).ok());
    chosen.flatten().map(|(decision, _)| decision)
}

/// Compiles those of `kernels` for compute capability `capability` (90 of 9.0) that the cache of
/// `specialised` does not hold, a few at the same time, and puts them there. Their code, in their
/// order; `each` is called for every one when it is done, `log_event` for what else a person may
/// want to know.
pub fn compile_specialised(
    kernels: &[SpecialisedKernel],
    capability: u32,
    specialised: &Specialisation,
    log_event: &(dyn Fn(Event) + Sync),
    each: &(dyn Fn(&SpecialisedKernel, &Made) + Sync),
) -> Vec<Made> {
    let specialised = Specialisation { mode: SpecialiseMode::Compiled, ..specialised.clone() };
    let of: Vec<_> = kernels.iter().map(|of| &of.kernel).collect();
    let architecture = Architecture::Machine(capability);
    let report = |place: usize, made: &Made| each(&kernels[place], made);
    provide(&of, architecture, &specialised, &|| load(&specialised), log_event, &report)
}

impl SpecialisedKernel {
    /// Whether the cache of `specialised` has it for that compute capability, whole.
    pub fn is_kept(&self, capability: u32, specialised: &Specialisation) -> bool {
        let specialised = Specialisation { mode: SpecialiseMode::Cached, ..specialised.clone() };
        let architecture = Architecture::Machine(capability);
        let none = || Err(String::new());
        let made = provide(&[&self.kernel], architecture, &specialised, &none, &|_| (), &|_, _| ());
        made.iter().all(|made| made.code.is_ok())
    }
}
