//! Which specialised kernels there should be.

use std::sync::Arc;

use msccl_collective::{DataType, Rank};
use msccl_kernels::recipe::Architecture;
use msccl_kernels::specialised::Kernel;
use msccl_registry::{CollectiveKind, Registry, Shape};

use crate::cuda;
use crate::select::{Decision, Machine, PrecompileEntry, Question, Selector, Tuning};
use crate::settings::{Event, Overrides};

use super::{Made, Specialisation, SpecialiseMode, load, provide};

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

/// The specialised kernels of `rank` for calls of `wanted`, on GPUs like the H200: those that its
/// communicators would use, each once. If `small`, small calls have kernels of their own, so there
/// are none for them.
pub fn specialised_kernels(
    registry: &Arc<Registry>,
    rank: Rank,
    wanted: &[CollectiveKind],
    overrides: &Overrides,
    tuning: Option<&Tuning>,
    small: bool,
) -> Vec<SpecialisedKernel> {
    let ranks = registry.shape().ranks;
    let entries = selector(registry, rank, overrides, tuning).precompile_set(wanted, small);
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
    let Question { wanted, data_type, .. } = *question;
    let selector = selector(registry, Rank(0), overrides, tuning);
    if !selector.likely().contains(&wanted) {
        return None;
    }
    let decision = decision(&selector, question)?;
    let entries = PrecompileEntry::of(&decision, data_type)?;
    let ranks = registry.shape().ranks;
    let all = selector.precompile_set(&[wanted], small);
    let known = all.iter().any(|of| of.is(&entries));
    known.then(|| SpecialisedKernel::of(&entries, Rank(0), ranks))
}

/// Whether a kernel for small calls would serve a call of the first rank, whose buffers are
/// aligned; then no other does.
pub fn serves_low_latency(
    registry: &Arc<Registry>,
    question: &Question,
    overrides: &Overrides,
    tuning: Option<&Tuning>,
) -> bool {
    let selector = selector(registry, Rank(0), overrides, tuning);
    decision(&selector, question).is_some_and(|decision| selector.is_small(&decision))
}

/// What serves such a call, if it is one of GPUs.
fn decision(selector: &Selector, question: &Question) -> Option<Arc<Decision>> {
    let chosen = question.on_gpus.then(|| selector.choose(&question.request()).ok());
    chosen.flatten().map(|(decision, _)| decision)
}

/// Compiles those of `kernels` for compute capability `capability` (90 of 9.0) that the cache of
/// `specialised` does not hold, a few at the same time, and puts them there. Their code, in their
/// order; `each` is told of every one when it is done, `hear` what else a person may want to know.
pub fn compile_specialised(
    kernels: &[SpecialisedKernel],
    capability: u32,
    specialised: &Specialisation,
    hear: &(dyn Fn(Event) + Sync),
    each: &(dyn Fn(&SpecialisedKernel, &Made) + Sync),
) -> Vec<Made> {
    let specialised = Specialisation { mode: SpecialiseMode::Compiled, ..specialised.clone() };
    let of: Vec<_> = kernels.iter().map(|of| &of.kernel).collect();
    let architecture = Architecture::Machine(capability);
    let told = |place: usize, made: &Made| each(&kernels[place], made);
    provide(&of, architecture, &specialised, &|| load(&specialised), hear, &told)
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

fn selector(
    registry: &Arc<Registry>,
    rank: Rank,
    overrides: &Overrides,
    tuning: Option<&Tuning>,
) -> Selector {
    let Shape { ranks, per_node } = registry.shape();
    let capacity = cuda::nominal_capacity(ranks, per_node);
    let (registry, overrides, tuning) = (registry.clone(), overrides.clone(), tuning.cloned());
    Selector::new(registry, rank, capacity, Machine::Gpus, overrides, tuning)
}

/// The types of elements that people reduce.
pub(crate) const REDUCED: [DataType; 3] = [DataType::F32, DataType::F16, DataType::Bf16];
