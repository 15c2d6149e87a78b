//! Calls that copy engines carry, without a kernel.
//!
//! The output of every rank must lie in a window of all ranks, at the same place in each: whoever
//! has registered such a window vouches for that, and so every rank finds where its peers' outputs
//! lie. That is not part of a call's shape, so there are two answers: what serves it by kernels
//! ([`Selector::choose`]), and what copy engines carry where all outputs lie so.

use std::sync::{Arc, PoisonError};

use msccl_collective::{CallPlacement, CollectiveKind, Protocol};
use msccl_registry::Shape;

use super::call_shape::CallShape;
use super::copies::EngineWork;
use super::cta_policy::CtaPolicy;
use super::decision::{Decision, KernelClass, PlacementFallback};
use super::links::Links;
use super::overrides::{Overrides, REDUCED_BYTES};
use super::requirements::Requirements;
use super::tuning::{Row, Tuning, Variant};
use super::{DECISIONS_MAX, Selector, SelectorCache};

/// Of smaller calls nobody looks for windows where only the shipped table has rows for copy
/// engines: it has them for larger ones.
const SHIPPED_BYTES: u64 = 64 << 20;

/// Whether some call of ranks of `shape` may be carried: the user leaves collectives few thread
/// blocks, or rows of the user's table or of the shipped one ask for it.
pub fn asks_for_copy_engines(overrides: &Overrides, tuning: Option<&Tuning>, shape: Shape) -> bool {
    user_asks(overrides, tuning) || has_row(Tuning::shipped().rows_of_shape(shape))
}

/// Whether the user asks for it.
pub(crate) fn user_asks(overrides: &Overrides, tuning: Option<&Tuning>) -> bool {
    overrides.ask_for_copy_engines() || has_row(tuning.into_iter().flat_map(Tuning::rows))
}

fn has_row<'a>(mut rows: impl Iterator<Item = &'a Row>) -> bool {
    rows.any(|row| row.choice.variant.links == Links::CopyEngine)
}

impl Selector {
    /// Whether `request` may be carried: without that, nobody need look for windows.
    pub fn may_carry(&self, request: &CallShape) -> bool {
        self.capacity.has(Links::CopyEngine)
            && (self.user_asks || request.bytes(self.ranks()) >= SHIPPED_BYTES)
    }

    /// Whether the user asks for copy engines, so that a call without them is worth a word.
    pub fn user_asks_for_copy_engines(&self) -> bool {
        self.user_asks
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
        if known.carried.len() >= DECISIONS_MAX {
            known.carried.clear();
        }
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
            self.preferences_of_all(&[], &usual).into_iter().find_map(|preference| {
                let entry = self.proved(preference.available, &usual)?;
                let decision = self.try_with(known, &entry, &variant, &terms, &overrides).ok()?;
                let work = self.engine_work(known, &entry).filter(|_| decision.links == links)?;
                let (fallback, kernel) = match &*work {
                    EngineWork::Copies(copies) if !copies.placement.serves(request.placement) => {
                        (PlacementFallback::OutOfPlace, KernelClass::CopyEngine)
                    }
                    EngineWork::Copies(_) => (PlacementFallback::None, KernelClass::CopyEngine),
                    EngineWork::Reduction { .. } => {
                        (PlacementFallback::None, KernelClass::Combiner)
                    }
                };
                Some(Decision { engine_work: Some(work), fallback, kernel, ..decision })
            })
        })
    }

    /// Whether the user wants it, or leaves such calls so few multiprocessors and names nothing
    /// else for them, or the row of a table that comes first asks for it. That holds in either
    /// placement, since ranks may differ in that.
    fn prefers_copy_engines(&self, request: &CallShape) -> bool {
        let (kind, ranks) = (request.kind, self.ranks());
        let from = self.overrides.carried_from_bytes(kind, ranks);
        let is_large = from.is_some_and(|from| request.bytes(ranks) >= from);
        if self.overrides.cta_policy == CtaPolicy::Zero {
            return is_large;
        }
        let placements = [CallPlacement::OutOfPlace, CallPlacement::InPlace];
        let mut either =
            placements.map(|placement| CallShape { placement, ..*request }).into_iter();
        let is_first = |usual: &CallShape| {
            let first = self.preferences_of_all(&[], usual).into_iter().next();
            first.is_some_and(|first| first.variant.links == Links::CopyEngine)
        };
        (is_large && !either.clone().any(|usual| self.is_named_by_user(&usual)))
            || (!self.overrides.say_how_kernels_run() && either.all(|usual| is_first(&usual)))
    }
}

#[cfg(test)]
mod tests {
    use msccl_collective::{DataType, Rank, Reduction};
    use msccl_registry::Registry;

    use super::*;
    use crate::{Capacity, Machine};

    const RANKS: u32 = 4;

    fn selector(rank: u32, cta_policy: CtaPolicy) -> Selector {
        selector_of(RANKS, rank, Overrides { cta_policy, ..Overrides::default() })
    }

    fn selector_of(ranks: u32, rank: u32, overrides: Overrides) -> Selector {
        let shape = Shape { ranks, per_node: ranks };
        let capacity = Capacity::nominal(Machine::Gpus, shape);
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
                    let request = request(kind, placement);
                    assert!(selector.may_carry(&request));
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
                    // Who begins with whom: all with different ranks.
                    let hops = copies.sends.iter().map(|of| (of.to.0 + RANKS - rank) % RANKS);
                    assert!(hops.is_sorted(), "{kind:?} {placement} r{rank}");
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
                    assert!(
                        matches!(work, Some(EngineWork::Reduction { .. })),
                        "{kind:?} {placement}"
                    );
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
        for kind in CollectiveKind::all(Rank(0)) {
            let request = request(kind, CallPlacement::OutOfPlace);
            assert!(!selector.may_carry(&request));
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

    /// Whether copy engines carry a call of `mib` MiB out of place.
    fn is_carried(selector: &Selector, kind: CollectiveKind, mib: u64) -> bool {
        let request = request(kind, CallPlacement::OutOfPlace);
        let ranks = selector.ranks();
        let count = request.count * (mib << 20) / request.bytes(ranks);
        let request = CallShape { count, ..request };
        selector.may_carry(&request) && selector.choose_carried(&request).is_some()
    }

    #[test]
    fn few_thread_blocks_leave_large_calls_to_copy_engines() {
        let few = |most| Overrides { blocks_max: Some(most), ..Overrides::default() };
        let (reduced, gathered) = (CollectiveKind::AllReduce, CollectiveKind::AllGather);
        let sixteen = selector_of(4, 0, few(16));
        let carried = |kind, mib| is_carried(&sixteen, kind, mib);
        assert!(carried(gathered, 16) && !carried(gathered, 15));
        assert!(carried(reduced, 64) && !carried(reduced, 63));
        // A chain of thread blocks is faster than one root for many.
        let broadcast = CollectiveKind::Broadcast(Rank(0));
        assert!(!carried(broadcast, 64) && is_carried(&selector_of(2, 0, few(16)), broadcast, 64));
        assert!(!is_carried(&selector_of(4, 0, few(17)), gathered, 64));
        let request = request(reduced, CallPlacement::OutOfPlace);
        let large = CallShape { count: 64 << 20, ..request };
        for (most, policy, blocks) in [(16, CtaPolicy::Default, 16), (5, CtaPolicy::Default, 5)]
            .into_iter()
            .chain([(16, CtaPolicy::Zero, 8), (5, CtaPolicy::Zero, 5)])
        {
            let overrides = Overrides { cta_policy: policy, ..few(most) };
            let decision = selector_of(4, 0, overrides).choose_carried(&large).unwrap();
            assert_eq!(decision.service().blocks(), blocks);
        }
    }

    /// What the user names for such calls serves them, however few thread blocks it has.
    #[test]
    fn what_the_user_names_is_not_carried_since_thread_blocks_are_few() {
        let text = "algorithm mine(ranks N = 2) implements allgather(chunks 1) in place {
            for d in 1..N, r in 0..N { output@((r + d) % N)[r] = output@r[r] }
        }";
        let content = Ok(text.as_bytes().to_vec());
        let file = msccl_registry::File { name: "mine.msccl".to_owned(), content };
        let row = "msccl-tuning 1\nmachine m\nallgather any 2 any Simple 4 512 allgather/ring\n";
        let few = || Overrides { blocks_max: Some(16), ..Overrides::default() };
        let serve = |files: &[msccl_registry::File], overrides, rows: Option<&str>| {
            let shape = Shape { ranks: 2, per_node: 2 };
            let registry = Arc::new(Registry::new(shape, files));
            let tuning = rows.map(|rows| Tuning::parse("t", rows.as_bytes()).unwrap());
            let capacity = Capacity::nominal(Machine::Gpus, shape);
            let of = Selector::new(registry, Rank(0), capacity, Machine::Gpus, overrides, tuning);
            is_carried(&of, CollectiveKind::AllGather, 64)
        };
        assert!(serve(&[], few(), None));
        assert!(!serve(&[file], few(), None));
        assert!(!serve(&[], few(), Some(row)));
        let named = Overrides { algorithm: Some("ring".to_owned()), ..few() };
        assert!(!serve(&[], named, None));
        assert!(!serve(&[], Overrides { protocol: Some(Protocol::Ll), ..few() }, None));
    }

    /// Of two ranks, where it was measured; unless the user says how kernels run.
    #[test]
    fn the_shipped_table_leaves_the_largest_copies_to_copy_engines() {
        let two = selector_of(2, 0, Overrides::default());
        for (kind, mib) in
            [(CollectiveKind::AllGather, 384), (CollectiveKind::Broadcast(Rank(0)), 192)]
        {
            assert!(is_carried(&two, kind, mib + 1) && !is_carried(&two, kind, mib), "{kind:?}");
            assert!(!is_carried(&selector_of(8, 0, Overrides::default()), kind, 512), "{kind:?}");
            for overrides in [
                Overrides { protocol: Some(Protocol::Simple), ..Overrides::default() },
                Overrides { links: Some(Links::Direct), ..Overrides::default() },
                Overrides { instances: Some(4), ..Overrides::default() },
            ] {
                assert!(!is_carried(&selector_of(2, 0, overrides), kind, 512), "{kind:?}");
            }
            // Kernels serve the other calls by the next row.
            let usual = CallShape { count: 256 << 20, ..request(kind, CallPlacement::OutOfPlace) };
            let (decision, _) = two.choose(&usual).unwrap();
            assert_ne!((decision.links, decision.cut.instances), (Links::CopyEngine, 1));
        }
        for kind in [CollectiveKind::AllReduce, CollectiveKind::AllToAll] {
            assert!(!is_carried(&two, kind, 1024), "{kind:?}");
        }
    }

    /// Ranks may call in different placements, and all must have the same links.
    #[test]
    fn rows_for_one_placement_carry_nothing() {
        let rows = |placement| {
            let row = "any any Simple copy-engine 1 256 allgather/allpairs";
            let table = format!("msccl-tuning 2\nmachine m\nallgather {placement} {row}\n");
            let tuning = Some(Tuning::parse("t", table.as_bytes()).unwrap());
            let shape = Shape { ranks: 2, per_node: 2 };
            let capacity = Capacity::nominal(Machine::Gpus, shape);
            let registry = Arc::new(Registry::new(shape, &[]));
            Selector::new(registry, Rank(0), capacity, Machine::Gpus, Overrides::default(), tuning)
        };
        let is_carried = |of| is_carried(&rows(of), CollectiveKind::AllGather, 1);
        assert_eq!(["any", "out", "in"].map(is_carried), [true, false, false]);
    }
}
