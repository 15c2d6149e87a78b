//! Calls that copy engines carry, without a kernel.
//!
//! The output of every rank must lie in a window of all ranks, at the same place in each: whoever
//! has registered such a window vouches for that, and so every rank finds where its peers' outputs
//! lie. That is not part of a call's shape, so there are two answers: what serves it by kernels
//! ([`Selector::choose`]), and what copy engines carry where all outputs lie so.

use std::sync::{Arc, PoisonError};

use msccl_collective::{CallPlacement, CollectiveKind, Protocol};

use super::call_shape::CallShape;
use super::copies::EngineWork;
use super::cta_policy::CtaPolicy;
use super::decision::{Decision, KernelClass, PlacementFallback};
use super::links::Links;
use super::overrides::Overrides;
use super::requirements::Requirements;
use super::tuning::{Tuning, Variant};
use super::{Selector, SelectorCache};

/// Of smaller reductions kernels make less of a delay than copies and flags.
const REDUCED_BYTES: u64 = 8 << 20;

/// Whether some call may be carried: the policy asks for it, or rows of the user's table do.
pub fn asks_for_copy_engines(cta_policy: CtaPolicy, tuning: Option<&Tuning>) -> bool {
    let mut rows = tuning.into_iter().flat_map(Tuning::rows);
    cta_policy == CtaPolicy::Zero || rows.any(|row| row.choice.variant.links == Links::CopyEngine)
}

impl Selector {
    /// Whether calls may be carried at all: without that, nobody need look for windows.
    pub fn may_carry(&self) -> bool {
        self.capacity.has(Links::CopyEngine)
            && asks_for_copy_engines(self.overrides.cta_policy, self.tuning.as_ref())
    }

    /// What serves `request` by copy engines where all outputs lie in windows; nothing, if nobody
    /// asks for it, or no algorithm for such calls is nothing but copies, or adds in an order that
    /// is one sum of all ranks. All ranks have the copies of one algorithm, whatever their
    /// placement: those that would touch what others write where a rank calls in place are made
    /// from a copy of its input there.
    pub fn choose_carried(&self, request: &CallShape) -> Option<Arc<Decision>> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if known.pinned.is_some() {
            return None;
        }
        if let Some(found) = known.carried.get(request) {
            return found.clone();
        }
        let found = self.carried(&mut known, request).map(Arc::new);
        known.carried.insert(*request, found.clone());
        found
    }

    /// What [`Selector::choose_carried`] answers.
    fn carried(&self, known: &mut SelectorCache, request: &CallShape) -> Option<Decision> {
        let links = Links::CopyEngine;
        let has_outputs = match request.kind {
            CollectiveKind::AllReduce
            | CollectiveKind::AllGather
            | CollectiveKind::ReduceScatter
            | CollectiveKind::AllToAll
            | CollectiveKind::Broadcast(_)
            | CollectiveKind::Scatter(_) => true,
            // Whoever is not the root has no output, and does not know where the root's is.
            CollectiveKind::Reduce(_) | CollectiveKind::Gather(_) => false,
        };
        if !has_outputs || !self.capacity.has(links) || !self.prefers_copy_engines(request) {
            return None;
        }
        if request.kind.reduces() && request.bytes(self.ranks()) < REDUCED_BYTES {
            return None;
        }
        let protocol = Protocol::Simple;
        let variant = Variant { protocol, links, ..Variant::fallback(self.machine) };
        let overrides =
            Overrides { links: Some(links), protocol: Some(protocol), ..self.overrides.clone() };
        // A program of either placement says in which order a reduction adds.
        let placements = match request.kind.reduces() {
            true => &[CallPlacement::OutOfPlace, CallPlacement::InPlace][..],
            false => &[CallPlacement::OutOfPlace],
        };
        placements.iter().find_map(|placement| {
            let usual = CallShape { placement: *placement, ..*request };
            let terms = Requirements::new(&usual, self.ranks());
            self.preferences(&[], &usual).find_map(|preference| {
                let entry = self.proved(preference.available, &usual)?;
                let decision = self.try_with(known, &entry, &variant, &terms, &overrides).ok()?;
                let work = self.engine_work(known, &entry).filter(|_| decision.links == links)?;
                let (fallback, kernel) = match &*work {
                    EngineWork::Copies(copies) if !copies.placement.serves(request.placement) => {
                        (PlacementFallback::OutOfPlace, KernelClass::CopyEngine)
                    }
                    EngineWork::Copies(_) => (PlacementFallback::None, KernelClass::CopyEngine),
                    EngineWork::Reduction(_) => (PlacementFallback::None, KernelClass::Combiner),
                };
                Some(Decision { engine_work: Some(work), fallback, kernel, ..decision })
            })
        })
    }

    /// Whether the user wants such calls to leave multiprocessors alone, or the row of a table that
    /// comes first does.
    fn prefers_copy_engines(&self, request: &CallShape) -> bool {
        self.overrides.cta_policy == CtaPolicy::Zero
            || self
                .preferences(&[], request)
                .next()
                .is_some_and(|first| first.variant.links == Links::CopyEngine)
    }
}

#[cfg(test)]
mod tests {
    use msccl_collective::{DataType, Rank, Reduction};
    use msccl_registry::{Registry, Shape};

    use super::*;
    use crate::{Capacity, Machine};

    const RANKS: u32 = 4;

    fn selector(rank: u32, cta_policy: CtaPolicy) -> Selector {
        let shape = Shape { ranks: RANKS, per_node: RANKS };
        let capacity = Capacity::nominal(Machine::Gpus, shape);
        let overrides = Overrides { cta_policy, ..Overrides::default() };
        let registry = Arc::new(Registry::new(shape, &[]));
        Selector::new(registry, Rank(rank), capacity, Machine::Gpus, overrides, None)
    }

    fn request(kind: CollectiveKind, placement: CallPlacement) -> CallShape {
        let (data_type, reduction) = (DataType::F32, Some(Reduction::Sum));
        let reduction = reduction.filter(|_| kind.reduces());
        CallShape { kind, placement, data_type, reduction, count: 1 << 20 }
    }

    /// What a collective promises, as copies between ranks: from whose input which block goes to
    /// whose output where.
    fn promised(kind: CollectiveKind) -> Vec<[u32; 4]> {
        let pairs = (0..RANKS).flat_map(|from| (0..RANKS).map(move |to| (from, to)));
        let between = pairs.filter(|(from, to)| from != to);
        let copies = between.filter_map(|(from, to)| match kind {
            CollectiveKind::AllGather => Some([from, 0, to, from]),
            CollectiveKind::AllToAll => Some([from, to, to, from]),
            CollectiveKind::Broadcast(root) => (from == root.0).then_some([from, 0, to, 0]),
            CollectiveKind::Scatter(root) => (from == root.0).then_some([from, to, to, 0]),
            CollectiveKind::AllReduce
            | CollectiveKind::ReduceScatter
            | CollectiveKind::Reduce(_)
            | CollectiveKind::Gather(_) => None,
        });
        copies.collect()
    }

    #[test]
    fn ranks_copy_what_their_collective_promises() {
        for kind in CollectiveKind::all(Rank(2)) {
            let mut expected = promised(kind);
            for placement in [CallPlacement::OutOfPlace, CallPlacement::InPlace] {
                let mut sent = Vec::new();
                let mut received = Vec::new();
                for rank in 0..RANKS {
                    let selector = selector(rank, CtaPolicy::Zero);
                    assert!(selector.may_carry());
                    let request = request(kind, placement);
                    let Some(decision) = selector.choose_carried(&request) else {
                        assert_eq!(expected, [[0; 4]; 0], "{kind:?} {placement}");
                        continue;
                    };
                    let again = selector.choose_carried(&request).unwrap();
                    assert!(Arc::ptr_eq(&decision, &again));
                    let work = decision.engine_work.as_deref();
                    let Some(EngineWork::Copies(copies)) = work else { continue };
                    let swaps =
                        kind == CollectiveKind::AllToAll && placement == CallPlacement::InPlace;
                    let fallback = match swaps {
                        true => PlacementFallback::OutOfPlace,
                        false => PlacementFallback::None,
                    };
                    assert_eq!(decision.fallback, fallback, "{kind:?} {placement}");
                    let numbers =
                        |of: &msccl_verify::BlockCopy| [of.from.0, of.input, of.to.0, of.output];
                    sent.extend(copies.sends.iter().map(numbers));
                    received.extend(copies.receives.iter().map(numbers));
                }
                for found in [&mut sent, &mut received, &mut expected] {
                    found.sort_unstable();
                }
                assert_eq!((&sent, &received), (&expected, &expected), "{kind:?} {placement}");
            }
        }
    }

    /// Large ones, whatever their placement, type and operator; small ones have kernels.
    #[test]
    fn of_large_reductions_copy_engines_make_the_exchange() {
        let selector = selector(1, CtaPolicy::Zero);
        for kind in [CollectiveKind::AllReduce, CollectiveKind::ReduceScatter] {
            for placement in [CallPlacement::OutOfPlace, CallPlacement::InPlace] {
                for reduction in Reduction::ALL {
                    let request = request(kind, placement);
                    let large = CallShape { reduction: Some(reduction), count: 4 << 20, ..request };
                    let decision = selector.choose_carried(&large).unwrap();
                    let work = decision.engine_work.as_deref();
                    assert!(matches!(work, Some(EngineWork::Reduction(_))), "{kind:?} {placement}");
                    assert_eq!(decision.fallback, PlacementFallback::None);
                    let said = decision.describe();
                    assert!(said.contains("8 thread blocks of 512 threads combine"), "{said}");
                    let small = CallShape { count: 1000, ..large };
                    assert!(selector.choose_carried(&small).is_none());
                }
            }
        }
    }

    #[test]
    fn kernels_serve_where_nobody_asks_for_copy_engines() {
        let selector = selector(0, CtaPolicy::Default);
        assert!(!selector.may_carry());
        for kind in CollectiveKind::all(Rank(0)) {
            let request = request(kind, CallPlacement::OutOfPlace);
            assert!(selector.choose_carried(&request).is_none(), "{kind:?}");
        }
    }

    /// Calls whose outputs lie elsewhere are served as if nobody had asked.
    #[test]
    fn other_calls_are_served_as_usual() {
        let [usual, zero] = [CtaPolicy::Default, CtaPolicy::Zero].map(|of| selector(1, of));
        for kind in CollectiveKind::all(Rank(2)) {
            let request = request(kind, CallPlacement::OutOfPlace);
            let [usual, zero] = [&usual, &zero].map(|of| of.choose(&request).unwrap().0.describe());
            assert_eq!(usual, zero, "{kind:?}");
        }
    }
}
