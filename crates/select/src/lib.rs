//! Which algorithm serves a call, and how: taken once for a shape of call, then remembered.
//!
//! The user's overrides come first. Else loaded algorithms do, in the order of their files, unless
//! the user's [tuning table](Tuning) names them; then what the rows of that table name, then of the
//! shipped one; then any that serves, over several nodes the one first that an estimate takes to be
//! fastest. Among the last two, what is [allowed](Allowed) comes first. The choice depends on
//! nothing but what all ranks have in common: the registry, the table, the
//! [capacity](Capacity) of the engines, and the arguments that ranks must give alike. So all ranks
//! choose alike without a word. Whether a call is in place is not among these: what serves one
//! placement says the same over links as what serves the other (`placements`).
//!
//! A communicator has a [`Selector`] for each rank. [`explain()`] answers without one:
//!
//! ```
//! use std::sync::Arc;
//!
//! use msccl_collective::{CallPlacement, CollectiveKind, DataType, Reduction};
//! use msccl_registry::{Registry, Shape};
//! use msccl_select::{CallShape, Overrides, Question, explain};
//!
//! let registry = Arc::new(Registry::new(Shape { ranks: 2, per_node: 2 }, &[]));
//! let shape = CallShape {
//!     kind: CollectiveKind::AllReduce,
//!     placement: CallPlacement::OutOfPlace,
//!     data_type: DataType::F32,
//!     reduction: Some(Reduction::Sum),
//!     count: 1 << 10,
//! };
//! let question = Question { shape, on_gpus: false };
//! let order = explain(&registry, &question, &Overrides::default(), None, None);
//! assert!(order.first().is_some_and(|first| first.serves()));
//! ```
//!
//! Absent from this crate: addresses, streams, the execution, drivers of GPUs, files, the
//! environment.

#![deny(unsafe_code)]

mod allowed;
mod available;
mod call_shape;
mod candidate;
mod capacity;
mod carried;
mod choices;
mod copies;
mod cta_policy;
mod decision;
mod error;
mod explain;
mod guess;
mod links;
mod loaded;
mod modelled;
mod overrides;
mod packet_order;
mod placements;
mod precompile;
mod preference;
mod prepared;
mod required_order;
mod requirements;
mod specialisation;
mod tuning;
mod unserved;
mod wiring;

use std::sync::{Arc, Mutex, OnceLock, PoisonError, RwLock};

use msccl_collective::{CallPlacement, CollectiveKind, Rank, Reduction};
use msccl_plan::Program;
use msccl_registry::{Entry, Fingerprint, Purpose, Registry, Unsuited};
use rustc_hash::FxHashMap;

pub use allowed::{Allowed, Family};
use available::Available;
pub use call_shape::{CallShape, NamedAlgorithmShape, block_bytes};
use candidate::{Candidate, Needs};
pub use capacity::{ArenaLocation, Capacity, CommonCapacity, TRANSFER_WIRES, blocks_of_rank};
pub use carried::asks_for_copy_engines;
pub use copies::{COMBINING_THREADS, Combined, EngineWork, LocalWay, RankCopies};
pub use cta_policy::CtaPolicy;
pub use decision::{
    Alternative, Decision, KernelClass, PlacementFallback, ServiceSummary, Threads, multiprocessors,
};
pub use error::Error;
pub use explain::{CarriedSummary, Question, explain, explain_carried};
pub use links::Links;
pub use modelled::{Hardware, Modelled};
pub use overrides::Overrides;
pub use precompile::{CARRIED, PrecompileEntry};
use preference::Preference;
pub use prepared::{Offers, Prepared};
use prepared::{fingerprint_beside, prepare, prepare_beside};
pub use required_order::{RequiredOrder, UnknownOrder};
use requirements::Requirements;
pub use specialisation::{KernelCache, Specialisation, SpecialiseMode};
pub use tuning::{Choice, Machine, PreferenceReason, Row, Slower, Tuning, TuningError, Variant};
use unserved::Unserved;
pub use wiring::{WireEnd, Wiring};

/// Decisions that are remembered; when there are more shapes of calls, all are forgotten.
const DECISIONS_MAX: usize = 4096;

/// Chooses, for one rank of one communicator.
pub struct Selector {
    registry: Arc<Registry>,
    rank: Rank,
    capacity: Capacity,
    machine: Machine,
    overrides: Overrides,
    /// Whether the user asks for copy engines.
    user_asks: bool,
    /// In which order reductions must be added. It begins as the overrides have it.
    order: RwLock<RequiredOrder>,
    /// What the user knows about this machine.
    tuning: Option<Tuning>,
    /// What guesses are made for, once one is asked; nothing, if it is too large.
    supposed: OnceLock<Option<Hardware>>,
    known: Mutex<SelectorCache>,
}

/// What was found out so far.
#[derive(Default)]
struct SelectorCache {
    decisions: FxHashMap<CallShape, Arc<Decision>>,
    prepared: FxHashMap<Fingerprint, Arc<Prepared>>,
    /// What runs beside ranks with another program, if it can.
    beside: FxHashMap<Fingerprint, Option<Arc<Prepared>>>,
    needs: FxHashMap<Fingerprint, Needs>,
    /// What copy engines can do of an algorithm for this rank.
    engine_work: FxHashMap<Fingerprint, Option<Arc<EngineWork>>>,
    /// What copy engines carry: see [`carried`].
    carried: FxHashMap<CallShape, Option<Arc<Decision>>>,
    /// Whether some link of an algorithm can deliver directly.
    direct: FxHashMap<Fingerprint, bool>,
    /// What the busiest link of an algorithm needs, in ns for each byte of a call.
    floors: FxHashMap<Fingerprint, f64>,
    /// What an algorithm takes in a call of so many elements in a block, in ns: see [`guess`].
    guesses: FxHashMap<(Fingerprint, u64), u64>,
    /// The part of rank 0, of algorithms whose time was guessed.
    first_rank: FxHashMap<Fingerprint, Arc<Prepared>>,
    /// The programs of all ranks, of algorithms whose time was estimated.
    programs: FxHashMap<Fingerprint, Arc<[Program]>>,
    /// Whether two algorithms say the same over links of one kind: see [`placements`].
    alike: FxHashMap<(Fingerprint, Fingerprint, Links), bool>,
    /// What serves every call, whatever would be chosen: see [`choices`].
    pinned: Option<Choice>,
}

/// An algorithm that is ready, and the links that it can have.
struct Ready<'a> {
    entry: &'a Entry,
    prepared: Arc<Prepared>,
    links: Links,
}

impl Selector {
    /// Chooses for `rank` among the algorithms of `registry`, within `capacity`; `tuning` is what
    /// the user knows about this machine.
    pub fn new(
        registry: Arc<Registry>,
        rank: Rank,
        capacity: Capacity,
        machine: Machine,
        overrides: Overrides,
        tuning: Option<Tuning>,
    ) -> Self {
        let (order, known) = (RwLock::new(overrides.order), Mutex::default());
        let supposed = OnceLock::new();
        let user_asks = carried::user_asks(&overrides, tuning.as_ref());
        Self {
            user_asks,
            registry,
            rank,
            capacity,
            machine,
            overrides,
            order,
            tuning,
            supposed,
            known,
        }
    }

    /// The algorithms that it chooses from.
    pub fn registry(&self) -> &Registry {
        &self.registry
    }

    /// In which order reductions must be added.
    pub fn order(&self) -> RequiredOrder {
        *self.order.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// From now on reductions must be added in this order.
    pub fn require_order(&self, order: RequiredOrder) {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        *self.order.write().unwrap_or_else(PoisonError::into_inner) = order;
        known.decisions.clear();
        known.carried.clear();
    }

    /// What serves `request`, and whether that was found out only now.
    ///
    /// # Errors
    ///
    /// Nothing serves it, with the reasons.
    pub fn choose(&self, request: &CallShape) -> Result<(Arc<Decision>, bool), Error> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(decision) = known.decisions.get(request) {
            return Ok((decision.clone(), false));
        }
        let mut decision = self.decide(&mut known, request)?;
        if request.reduction == Some(Reduction::Avg) {
            let other = self.decide(&mut known, &request.in_other_placement());
            decision.averages &= other.map_or(true, |other| other.averages);
        }
        let decision = Arc::new(decision);
        if known.decisions.len() >= DECISIONS_MAX {
            known.decisions.clear();
        }
        known.decisions.insert(*request, decision.clone());
        Ok((decision, true))
    }

    /// What serves `request` best, whatever serves the same call in the other placement and
    /// whatever is pinned.
    fn decide_alone(
        &self,
        known: &mut SelectorCache,
        request: &CallShape,
    ) -> Result<Decision, Error> {
        let (mut passed_over, mut reasons) = (Vec::new(), Vec::new());
        let terms = Requirements::new(request, self.ranks());
        let guesses = self.guesses(known, request);
        for preference in self.preferences(&guesses, request) {
            let Some(entry) = self.proved(preference.available, request) else { continue };
            let variant = self.variant_of(&preference, &entry, request);
            match self.try_one(known, &entry, &variant, &terms) {
                Ok(decision) => {
                    passed_over.extend(self.losers(request, &decision));
                    return Ok(Decision { passed_over, ..decision });
                }
                Err(why) if entry.loaded => {
                    passed_over.push(format!("{} does not serve: {why}", entry.name));
                }
                Err(why) => {
                    let reason = format!("{}: {why}", entry.name);
                    // It may have several variants.
                    if !reasons.contains(&reason) {
                        reasons.push(reason);
                    }
                }
            }
        }
        if self.order() != RequiredOrder::Any {
            let left_out = self.left_out(request).into_iter();
            reasons.extend(left_out.map(|Unsuited { name, reason }| format!("{name}: {reason}")));
        }
        let text = format!("no algorithm serves {request}: {}", reasons.join("; "));
        Err(Error::new(text))
    }

    /// Which loaded algorithms do not serve `request`, but `decision`, since they are slower.
    fn losers(&self, request: &CallShape, decision: &Decision) -> Vec<String> {
        let slower = self.slower(request);
        let losers = slower.filter(|of| of.available.name() != decision.prepared.name);
        let line = |of: Preference<'_>| {
            let name = of.available.name();
            format!("{name} is passed over: {}; MSCCL_ALGO={name} pins it", of.basis)
        };
        losers.map(line).collect()
    }

    fn ranks(&self) -> u32 {
        self.registry.shape().ranks
    }

    /// How `entry` serves a call that names it: whatever its collective, wherever it comes from.
    ///
    /// # Errors
    ///
    /// It does not serve such calls, or is not for that many ranks.
    pub fn force(&self, entry: &Entry, call: &NamedAlgorithmShape) -> Result<Decision, Error> {
        let NamedAlgorithmShape { placement, data_type, reduction, count } = *call;
        let collective = &entry.verified.algorithm().collective;
        let unserved = |why: &dyn std::fmt::Display| {
            Error::new(format!("{} does not serve: {why}", entry.name))
        };
        if collective.ranks != self.ranks() {
            let (has, wants) = (self.ranks(), collective.ranks);
            return Err(unserved(&format!("it is for {wants} ranks, there are {has}")));
        }
        let block = count.saturating_mul(data_type.size_bytes() as u64);
        let blocks = collective.loop_chunks().div_ceil(collective.chunks.max(1));
        let bytes = block.saturating_mul(u64::from(blocks));
        let reduction = collective.reduces().then_some(reduction);
        let terms = Requirements { placement, data_type, reduction, count, bytes };
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let variant = Variant::loaded(self.machine, entry);
        let decision = self.try_one(&mut known, entry, &variant, &terms);
        let decision = decision.map_err(|why| unserved(&why))?;
        let program = decision.prepared.plan.program();
        if reduction == Some(Reduction::Avg) && !program.averages(data_type) {
            return Err(unserved(&program.no_average(data_type)));
        }
        Ok(decision)
    }

    fn try_one(
        &self,
        known: &mut SelectorCache,
        entry: &Entry,
        variant: &Variant,
        terms: &Requirements,
    ) -> Result<Decision, Unserved> {
        self.try_with(known, entry, variant, terms, &self.overrides)
    }

    fn try_with(
        &self,
        known: &mut SelectorCache,
        entry: &Entry,
        variant: &Variant,
        terms: &Requirements,
        overrides: &Overrides,
    ) -> Result<Decision, Unserved> {
        let prepared = match known.prepared.get(&entry.fingerprint) {
            Some(prepared) => prepared.clone(),
            None => {
                let prepared = Arc::new(prepare(entry, self.rank)?);
                known.prepared.insert(entry.fingerprint, prepared.clone());
                prepared
            }
        };
        let preferred = overrides.links.unwrap_or(variant.links.by_kernels());
        let links = self.links(known, entry, preferred);
        let ready = Ready { entry, prepared, links };
        self.candidate(known, ready).serve(terms, variant, overrides)
    }

    /// How `entry` serves with direct links while other ranks run `peers`, for the other placement,
    /// with the same links; nothing if it does not.
    fn try_beside(
        &self,
        known: &mut SelectorCache,
        entry: &Entry,
        peers: &Entry,
        variant: &Variant,
        terms: &Requirements,
    ) -> Option<Decision> {
        let prepared = known
            .beside
            .entry(fingerprint_beside(entry, peers))
            .or_insert_with(|| prepare_beside(entry, peers, self.rank).map(Arc::new));
        let ready = Ready { entry, prepared: prepared.clone()?, links: Links::Direct };
        self.candidate(known, ready).serve(terms, variant, &self.overrides).ok()
    }

    /// What is ready, as it is judged.
    fn candidate<'a>(&'a self, known: &mut SelectorCache, ready: Ready<'a>) -> Candidate<'a> {
        let Ready { entry, prepared, links } = ready;
        let needs = known.needs.entry(prepared.fingerprint);
        let needs = *needs.or_insert_with(|| self.needs(entry));
        let has_twin = entry.loaded && !self.twins(entry).is_empty();
        let (capacity, order) = (&self.capacity, self.order());
        Candidate { entry, has_twin, needs, prepared, capacity, links, order }
    }

    /// What an instance of `entry` needs.
    fn needs(&self, entry: &Entry) -> Needs {
        let shape = self.registry.shape();
        let of = |entry: &Entry| Needs::of(&entry.verified, shape, &self.capacity);
        self.twins(entry).iter().fold(of(entry), |needs, twin| needs.max(of(twin)))
    }

    /// What other ranks may run while this one runs `entry`. Where only the root knows whether a
    /// call is in place, the others run the other placement's part of the same program, and all
    /// must reckon with either.
    fn twins(&self, entry: &Entry) -> Vec<Entry> {
        let algorithm = entry.verified.algorithm();
        let rooted = |kind: &CollectiveKind| kind.root().is_some();
        let Some(kind) = CollectiveKind::of(&algorithm.collective.kind).filter(rooted) else {
            return Vec::new();
        };
        let is_twin = |of: &&Entry| of.name == entry.name && of.fingerprint != entry.fingerprint;
        if entry.loaded {
            let loaded = self.registry.loaded().iter();
            let alike = |of: &&Entry| kind.is(&of.verified.algorithm().collective.kind);
            return loaded.filter(is_twin).filter(alike).cloned().collect();
        }
        let in_place = algorithm.placement.serves_in_place();
        let other = CallPlacement::from_in_place(!in_place);
        self.registry.built_in_named(kind, other, &entry.name).into_iter().collect()
    }

    /// The built-in algorithms for `request` that grow too fast for so many ranks.
    fn left_out(&self, request: &CallShape) -> Vec<Unsuited> {
        let mut left_out = self.registry.unsuited(request.kind, Purpose::Any);
        if self.order() != RequiredOrder::Any {
            left_out.extend(self.registry.unsuited(request.kind, Purpose::Order));
        }
        left_out
    }
}

#[cfg(test)]
mod tests;
