//! What would serve a call and what would not, for people who ask; also without a communicator: on
//! GPUs like the H200, or on host threads.

use std::sync::{Arc, PoisonError};

use msccl_collective::Rank;
use msccl_registry::{Entry, Registry};

use super::call_shape::CallShape;
use super::capacity::Capacity;
use super::copies::{Combined, EngineWork};
use super::decision::{Alternative, Decision, PlacementFallback};
use super::modelled::Hardware;
use super::overrides::Overrides;
use super::requirements::Requirements;
use super::tuning::{Machine, Tuning};
use super::unserved::Unserved;
use super::{PreferenceReason, Selector, SelectorCache};

/// A call that somebody asks about.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Question {
    /// The call.
    pub shape: CallShape,
    /// Whether the ranks have a GPU each; otherwise they run on host threads.
    pub on_gpus: bool,
}

/// The algorithms at hand for `question` in the order of preference: the first that serves does.
/// For ranks with a GPU each the answer is that of GPUs like the H200. What serves has an estimate
/// of its time on `hardware`, if there is any.
pub fn explain(
    registry: &Arc<Registry>,
    question: &Question,
    overrides: &Overrides,
    tuning: Option<&Tuning>,
    hardware: Option<&Hardware>,
) -> Vec<Alternative> {
    selector(registry, question, overrides, tuning).explain(&question.shape, hardware)
}

/// What chooses for rank 0 on the machine of `question`.
fn selector(
    registry: &Arc<Registry>,
    question: &Question,
    overrides: &Overrides,
    tuning: Option<&Tuning>,
) -> Selector {
    let machine = if question.on_gpus { Machine::Gpus } else { Machine::Host };
    Selector::nominal(machine, registry, Rank(0), overrides, tuning, true)
}

/// What copy engines carry of a call, where they do ([`Selector::choose_carried`]).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CarriedSummary {
    /// The name of the algorithm whose copies or whose order of additions it has.
    pub algorithm: String,
    /// Whether outputs must lie in symmetric windows.
    pub needs_windows: bool,
    /// How many thread blocks combine, if anything is combined.
    pub combining_blocks: Option<u32>,
}

/// What copy engines would carry of `question`, other things being as in [`explain()`]; nothing, if
/// kernels serve it wherever its buffers lie.
pub fn explain_carried(
    registry: &Arc<Registry>,
    question: &Question,
    overrides: &Overrides,
    tuning: Option<&Tuning>,
) -> Option<CarriedSummary> {
    let (selector, request) = (selector(registry, question, overrides, tuning), &question.shape);
    let decision = selector.may_carry(request).then(|| selector.choose_carried(request))??;
    let (needs_windows, combining_blocks) = match decision.engine_work.as_deref()? {
        EngineWork::Copies(_) => (true, None),
        EngineWork::Reduction { combined, blocks } => (*combined == Combined::All, Some(*blocks)),
    };
    let algorithm = decision.prepared.name.clone();
    Some(CarriedSummary { algorithm, needs_windows, combining_blocks })
}

impl Selector {
    /// What chooses for `rank` on such a machine, with its [nominal](Capacity::nominal) capacity,
    /// where small calls have kernels of their own or not.
    pub fn nominal(
        machine: Machine,
        registry: &Arc<Registry>,
        rank: Rank,
        overrides: &Overrides,
        tuning: Option<&Tuning>,
        low_latency: bool,
    ) -> Self {
        let nominal = Capacity::nominal(machine, registry.shape()).limited(overrides.blocks_max);
        let capacity = Capacity { low_latency, ..nominal };
        let (registry, overrides, tuning) = (registry.clone(), overrides.clone(), tuning.cloned());
        Self::new(registry, rank, capacity, machine, overrides, tuning)
    }

    /// All that could serve `request`, in the order of preference, with the reason where one does
    /// not. What serves has an estimate of its time on `hardware`, if there is any.
    pub fn explain(&self, request: &CallShape, hardware: Option<&Hardware>) -> Vec<Alternative> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let terms = Requirements::new(request, self.ranks());
        let guesses = self.guesses(&mut known, request);
        let mut considered: Vec<Considered> = Vec::new();
        for preference in self.preferences(&guesses, request) {
            let Some(entry) = self.proved(preference.available, request) else { continue };
            let variant = self.variant_of(&preference, &entry, request);
            let basis = preference.basis;
            let decision = self.try_one(&mut known, &entry, &variant, &terms);
            // A second variant counts only if the first does not serve.
            let serves = decision.is_ok();
            let is_known = |of: &Considered| of.entry.name == entry.name;
            if !considered.iter().any(|of| is_known(of) && (of.decision.is_ok() || !serves)) {
                considered.push(Considered { entry, basis, decision });
            }
        }
        self.put_chosen_first(&mut known, request, &mut considered);
        let mut alternatives: Vec<Alternative> = Vec::new();
        for Considered { entry, basis, decision } in considered {
            let decided = decision.as_ref().ok().zip(hardware);
            let estimate_ns = decided.and_then(|(decision, hardware)| {
                let modelled = self.modelled_among(&mut known, &entry, decision).ok()?;
                let found = modelled.estimate(hardware).ok()?;
                Some((found.total_us * 1000.0).round() as u64)
            });
            let alternative = Alternative::of(&entry, basis, decision);
            alternatives.push(Alternative { estimate_ns, ..alternative });
        }
        alternatives.extend(self.left_out(request).into_iter().map(Alternative::left_out));
        alternatives
    }

    /// What serves both placements stands before what is better for one alone.
    fn put_chosen_first(
        &self,
        known: &mut SelectorCache,
        request: &CallShape,
        considered: &mut [Considered],
    ) {
        let chosen = self.decide(known, request).ok();
        let Some(chosen) = chosen.filter(|of| of.fallback == PlacementFallback::None) else {
            return;
        };
        let first = considered.iter().position(|of| of.decision.is_ok());
        let found = considered.iter().position(|of| of.entry.name == chosen.prepared.name);
        let (Some(first), Some(found)) = (first, found) else { return };
        considered[found].decision = Ok(chosen);
        if found > first {
            considered[first..=found].rotate_right(1);
        }
    }
}

/// An algorithm that might serve a call, and how it would, or why it does not.
struct Considered {
    entry: Entry,
    basis: PreferenceReason,
    decision: Result<Decision, Unserved>,
}

#[cfg(test)]
mod tests {
    use msccl_collective::{CallPlacement, CollectiveKind, DataType, Protocol, Reduction};
    use msccl_registry::{File, Shape};

    use super::*;
    use crate::{Family, ServiceSummary};

    /// Which algorithm serves an all-reduce of `bytes` bytes over eight GPUs, one of which was
    /// loaded, and by what it is decided.
    fn check(bytes: u64, overrides: &Overrides, rows: Option<&str>, first: &str, basis: &str) {
        let text = "algorithm mine(ranks N = 8) implements allreduce(chunks 1) bytes 512..4096 {
            for r in 0..N { output@r = sum(q in 0..N: input@q) }
        }";
        let content = Ok(text.as_bytes().to_vec());
        let files = [File { name: "a/mine.msccl".to_owned(), content }];
        let registry = Arc::new(Registry::new(Shape { ranks: 8, per_node: 8 }, &files));
        let shape = CallShape {
            kind: CollectiveKind::AllReduce,
            placement: CallPlacement::OutOfPlace,
            data_type: DataType::F32,
            reduction: Some(Reduction::Sum),
            count: bytes / 4,
        };
        let question = Question { shape, on_gpus: true };
        let table = |rows| format!("msccl-tuning 1\nmachine ours\n{rows}\n");
        let tuning = rows.map(|rows| Tuning::parse("t", table(rows).as_bytes()).unwrap());
        let alternatives = explain(&registry, &question, overrides, tuning.as_ref(), None);
        let serves = alternatives.iter().find(|of| of.serves()).unwrap();
        assert_eq!(serves.name, first, "{bytes} bytes: {alternatives:#?}");
        let found = serves.basis.to_string();
        // Lines of the shipped table are of no interest here.
        assert_eq!(
            found.split(" line").next(),
            basis.split(" line").next(),
            "{bytes}: {alternatives:#?}"
        );
        assert!(found.starts_with("shipped") || found == basis, "{found}");
        assert!(alternatives.len() > 3, "{alternatives:#?}");
    }

    #[test]
    fn sizes_and_overrides_decide() {
        let none = Overrides::default();
        check(256, &none, None, "allreduce/one_shot", "shipped table");
        check(1024, &none, None, "a/mine.msccl", "loaded");
        check(4096, &none, None, "allreduce/one_shot", "shipped table");
        check(1 << 30, &none, None, "allreduce/ring_interleaved", "shipped table");
        let algorithm = Some("double_binary_tree".to_owned());
        let overrides = Overrides { algorithm, ..none.clone() };
        check(1 << 30, &overrides, None, "allreduce/double_binary_tree", "fallback");
        // Before what was loaded, and before what only contains the name.
        check(1024, &overrides, None, "allreduce/double_binary_tree", "fallback");
        for ring in ["allreduce/ring", "/ring", "ring"] {
            let overrides = Overrides { algorithm: Some(ring.to_owned()), ..none.clone() };
            check(1 << 30, &overrides, None, "allreduce/ring", "fallback");
        }
        let overrides = Overrides { algorithm: Some("/ring_".to_owned()), ..none };
        check(1 << 30, &overrides, None, "allreduce/ring_interleaved", "shipped table");
    }

    #[test]
    fn families_are_about_what_comes_with_the_library() {
        let mut overrides = Overrides::default();
        overrides.families.only(Some("allreduce"), vec![Family::Tree]);
        check(256, &overrides, None, "allreduce/double_binary_tree", "fallback");
        check(1024, &overrides, None, "a/mine.msccl", "loaded");
        let rows = Some("allreduce any 8 ..1MiB LL 4 512 allreduce/two_shot");
        check(4096, &overrides, rows, "allreduce/two_shot", "t line 3");
        overrides.families.only(Some("allreduce"), vec![Family::Ring, Family::Other]);
        check(256, &overrides, None, "allreduce/one_shot", "shipped table");
        // Nothing of the kind is better than nothing.
        overrides.families.only(Some("allreduce"), vec![Family::Loaded]);
        check(256, &overrides, None, "allreduce/one_shot", "shipped table");
        let mut overrides = Overrides::default();
        overrides.families.only(Some("allgather"), vec![Family::Tree]);
        check(256, &overrides, None, "allreduce/one_shot", "shipped table");
    }

    /// How a large all-to-all of eight GPUs on as many nodes as that, and a small all-reduce, are
    /// served.
    fn services(nodes: u32, overrides: &Overrides) -> [ServiceSummary; 2] {
        let registry = Arc::new(Registry::new(Shape { ranks: 8, per_node: 8 / nodes }, &[]));
        [
            (CollectiveKind::AllToAll, None, 1 << 20),
            (CollectiveKind::AllReduce, Some(Reduction::Sum), 64),
        ]
        .map(|(kind, reduction, count)| {
            let (placement, data_type) = (CallPlacement::OutOfPlace, DataType::F32);
            let shape = CallShape { kind, placement, data_type, reduction, count };
            let question = Question { shape, on_gpus: true };
            let alternatives = explain(&registry, &question, overrides, None, None);
            *alternatives.iter().find_map(|of| of.verdict.as_ref().ok()).unwrap()
        })
    }

    #[test]
    fn protocols_that_may_not_be_used_are_replaced() {
        let protocols =
            |nodes, overrides: &Overrides| services(nodes, overrides).map(|of| of.protocol);
        let (simple, ll, ll128) = (Protocol::Simple, Protocol::Ll, Protocol::Ll128);
        let mut overrides = Overrides::default();
        assert_eq!(protocols(1, &overrides), [simple, ll]);
        overrides.protocols.only(Some("allreduce"), vec![simple]);
        assert_eq!(protocols(1, &overrides), [simple, simple]);
        overrides.protocols.only(None, vec![ll, ll128]);
        assert_eq!(protocols(1, &overrides), [ll128, simple]);
        overrides.protocols.only(Some("allreduce"), vec![simple, ll128]);
        assert_eq!(protocols(1, &overrides), [ll128, ll128]);
        // Packets do not leave a node.
        assert_eq!(protocols(2, &overrides), [simple, simple]);
        let named = Overrides { protocol: Some(ll), ..overrides };
        assert_eq!(protocols(1, &named), [ll, ll]);
    }

    #[test]
    fn threads_have_a_limit_unless_they_are_said() {
        let threads = |overrides: &Overrides| services(1, overrides).map(|of| of.threads);
        let usual = threads(&Overrides::default());
        let overrides = Overrides { threads_max: Some(100), ..Overrides::default() };
        assert_eq!(threads(&overrides), [128, 128]);
        let overrides = Overrides { threads_max: Some(1024), ..overrides };
        assert_eq!(threads(&overrides), usual);
        let overrides = Overrides { threads: Some(256), threads_max: Some(64), ..overrides };
        assert_eq!(threads(&overrides), [256, 256]);
    }

    #[test]
    fn rows_of_the_user_come_before_those_shipped() {
        let none = Overrides::default();
        let rows = Some("allreduce any 8 ..1MiB LL 4 512 allreduce/two_shot");
        // Loaded ones still come first.
        check(1024, &none, rows, "a/mine.msccl", "loaded");
        check(4096, &none, rows, "allreduce/two_shot", "t line 3");
        check(2 << 20, &none, rows, "allreduce/two_shot", "shipped table");
        check(1 << 30, &none, rows, "allreduce/ring_interleaved", "shipped table");
        // Rows of what nobody has are passed over.
        let rows = Some("allreduce any any any LL 4 512 b/other.msccl");
        check(4096, &none, rows, "allreduce/one_shot", "shipped table");
        let rows = Some("allreduce any 4 any LL 4 512 allreduce/two_shot");
        check(4096, &none, rows, "allreduce/one_shot", "shipped table");
        let overrides = Overrides { algorithm: Some("ring".to_owned()), ..none };
        let rows = "allreduce any any any LL 4 512 allreduce/two_shot\n\
                    allreduce any any any Simple 2 512 allreduce/ring";
        check(4096, &overrides, Some(rows), "allreduce/ring", "t line 4");
    }

    #[test]
    fn rows_keep_a_loaded_algorithm_to_their_sizes() {
        let none = Overrides::default();
        for name in ["mine.msccl", "a/mine.msccl"] {
            let rows = format!("allreduce any any 1KiB..2KiB LL 2 256 {name}");
            check(1020, &none, Some(&rows), "allreduce/one_shot", "shipped table");
            check(1024, &none, Some(&rows), "a/mine.msccl", "t line 3");
            check(2048, &none, Some(&rows), "a/mine.msccl", "t line 3");
            check(2052, &none, Some(&rows), "allreduce/one_shot", "shipped table");
        }
        // Its own range still holds.
        let rows = Some("allreduce any any any LL 2 256 mine.msccl");
        check(4096, &none, rows, "allreduce/one_shot", "shipped table");
        let of_others = Some("allreduce any any any LL 2 256 b/mine.msccl");
        check(1024, &none, of_others, "a/mine.msccl", "loaded");
    }
}
