//! What a call would take, where nobody measured: the order of the algorithms over several nodes.
//!
//! The cost model is asked ([`crate::modelled`]), on the machine that is supposed of such ranks. A
//! guess is for a *step* of sizes, a power of two, and is remembered with its algorithm, so that
//! only the first call of a step pays for it. What bounds that:
//!
//! * Where a table has a row for the call, nothing is guessed. The library has one of estimates,
//!   for 2 to 16 nodes of eight GPUs ([`Tuning::estimated`](crate::Tuning::estimated)).
//! * Of more ranks than [`RANKS_MAX`] nothing is guessed: GPUs have the rows of the
//!   nearest number of nodes of that table, hosts the first algorithm that serves.
//! * Both placements are ordered by what the usual one takes.
//! * Larger calls than [`LARGEST_BYTES`] are ordered as calls of that size are.
//! * Of many rounds a few are simulated, and fewer of them again
//!   ([`Modelled`](super::modelled::Modelled)), whose difference says what each further round
//!   takes.
//! * An algorithm whose busiest link alone needs longer than another takes is not simulated.
//!
//! # Guarantees
//!
//! All ranks find the same: nothing is asked but the shape, the capacity and the overrides, on
//! which all ranks agree, rates that are part of the library, and the plan of rank 0. Floating
//! point figures are sums, products and quotients in one order.

use std::sync::Arc;

use msccl_collective::{DataType, Rank, Reduction};
use msccl_registry::Entry;

use crate::call_shape::CallShape;
use crate::decision::Decision;
use crate::modelled::Hardware;
use crate::placements::usual_placement;
use crate::prepared::prepare;
use crate::requirements::Requirements;
use crate::tuning::Variant;
use crate::{Ready, Selector, SelectorCache};

/// More ranks take too long to simulate at a call.
const RANKS_MAX: u32 = 32;
/// The smallest step, in bytes of the larger buffer.
const SMALLEST_BYTES: u64 = 1 << 10;
/// The largest one.
const LARGEST_BYTES: u64 = 256 << 20;
/// Guesses that differ by less than one part in so many are as good as equal.
pub(crate) const ALIKE: u64 = 16;
/// What is guessed of an algorithm that does not serve such calls.
const NEVER_NS: u64 = u64::MAX;

/// What a call would take with a built-in algorithm, where that is asked.
pub(crate) struct Guess {
    pub name: &'static str,
    pub variant: Variant,
    pub ns: u64,
}

/// An algorithm that may serve a step of sizes, and the least that it takes.
struct Contender {
    name: &'static str,
    step: CallShape,
    entry: Entry,
    floor_ns: u64,
}

impl Selector {
    /// What a call would take with each built-in algorithm, where there are several nodes, so that
    /// nothing was measured, and something to choose from; otherwise nothing. All of them are
    /// compiled and proved for it.
    pub(crate) fn guesses(&self, known: &mut SelectorCache, request: &CallShape) -> Vec<Guess> {
        let names = self.built_in_names(request);
        let several_nodes = self.registry.shape().nodes() > 1;
        if !several_nodes || names.len() < 2 || !self.is_guessed() || self.has_rows(request) {
            return Vec::new();
        }
        let hardware =
            self.supposed.get_or_init(|| Hardware::supposed(self.machine, self.registry.shape()));
        let Some(hardware) = hardware else { return Vec::new() };
        let step = self.step(request);
        let contender = |name: &'static str| {
            let of = |placement| {
                let step = CallShape { placement, ..step };
                let entry = self.registry.built_in_named(request.kind, placement, name)?;
                Some((step, entry))
            };
            let (step, entry) =
                of(usual_placement(request.kind)).or_else(|| of(request.placement))?;
            let floor_ns = self.floor_ns(known, &entry, hardware, &step);
            Some(Contender { name, step, entry, floor_ns })
        };
        let mut contenders: Vec<_> = names.into_iter().filter_map(contender).collect();
        contenders.sort_by_key(|of| of.floor_ns);
        let mut least = NEVER_NS;
        let guess = |Contender { name, step, entry, floor_ns }: Contender| {
            let variant = Variant::between_nodes(self.machine, &entry, request);
            let is_hopeless = floor_ns > least.saturating_add(least / ALIKE);
            let ns = match is_hopeless {
                true => floor_ns,
                false => self.guess_ns(known, &entry, hardware, &step),
            };
            least = least.min(ns);
            Guess { name, variant, ns }
        };
        contenders.into_iter().map(guess).collect()
    }

    /// Whether so few ranks are simulated at a call.
    pub(crate) fn is_guessed(&self) -> bool {
        self.ranks() <= RANKS_MAX
    }

    /// The call whose guess counts for `request`. Neither the type of elements nor how they combine
    /// makes a difference.
    fn step(&self, request: &CallShape) -> CallShape {
        let CallShape { kind, placement, .. } = *request;
        let bytes = request.bytes(self.ranks()).clamp(SMALLEST_BYTES, LARGEST_BYTES);
        let power = nearest_power(bytes);
        let data_type = DataType::F32;
        let reduction = kind.reduces().then_some(Reduction::Sum);
        let one = CallShape { kind, placement, data_type, reduction, count: 1 };
        CallShape { count: (1_u64 << power).div_ceil(one.bytes(self.ranks())), ..one }
    }

    /// What the busiest link needs for a call like `step` of `entry`, in ns.
    fn floor_ns(
        &self,
        known: &mut SelectorCache,
        entry: &Entry,
        hardware: &Hardware,
        step: &CallShape,
    ) -> u64 {
        let floor = known.floors.entry(entry.fingerprint);
        let floor = floor.or_insert_with(|| hardware.floor_s_per_gb(entry));
        // A second for each 10⁹ bytes is a nanosecond for each.
        (*floor * step.bytes(self.ranks()) as f64) as u64
    }

    /// What `entry` takes in a call like `step`, in ns.
    fn guess_ns(
        &self,
        known: &mut SelectorCache,
        entry: &Entry,
        hardware: &Hardware,
        step: &CallShape,
    ) -> u64 {
        let key = (entry.fingerprint, step.count);
        if let Some(ns) = known.guesses.get(&key) {
            return *ns;
        }
        let us = self.served_by_first(known, entry, step).and_then(|decision| {
            let modelled = self.modelled_among(known, entry, &decision).ok()?;
            modelled.quick_us(hardware).ok()
        });
        let ns = us.map_or(NEVER_NS, |us| (us * 1_000.0) as u64);
        known.guesses.insert(key, ns);
        ns
    }

    /// How `entry` serves a call like `step` on rank 0: which kernel runs depends on the steps of a
    /// rank.
    fn served_by_first(
        &self,
        known: &mut SelectorCache,
        entry: &Entry,
        step: &CallShape,
    ) -> Option<Decision> {
        let prepared = match known.first_rank.get(&entry.fingerprint) {
            Some(prepared) => Arc::clone(prepared),
            None => {
                let prepared = Arc::new(prepare(entry, Rank(0)).ok()?);
                known.first_rank.insert(entry.fingerprint, Arc::clone(&prepared));
                prepared
            }
        };
        let variant = Variant::between_nodes(self.machine, entry, step);
        let terms = Requirements::new(step, self.ranks());
        let links = self.links(known, entry, self.overrides.links.unwrap_or(variant.links));
        let ready = Ready { entry, prepared, links };
        self.candidate(known, ready).serve(&terms, &variant, &self.overrides).ok()
    }
}

/// The power of two next to `bytes`; in the middle the larger one.
fn nearest_power(bytes: u64) -> u32 {
    let power = bytes.ilog2();
    // 1.5 is more than the square root of two: close enough, and all ranks agree.
    let is_upper = bytes >= (3 << power) / 2;
    power + u32::from(is_upper)
}
