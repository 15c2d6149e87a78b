//! Choosing for measurements: all variants in which a call could be served, and one of them for
//! every call.
//!
//! Whoever measures must know that what was measured is what was named. So a pinned [`Choice`]
//! serves exactly as it says or is an error: no override, no table and no lack of room replaces it.

use std::sync::PoisonError;

use msccl_collective::Protocol;
use msccl_plan::launch;
use msccl_registry::Entry;
use rustc_hash::FxHashSet;

use super::call_shape::CallShape;
use super::decision::{Decision, PlacementFallback, ServiceSummary};
use super::error::Error;
use super::links::Links;
use super::overrides::Overrides;
use super::requirements::Requirements;
use super::tuning::Machine;
use super::unserved::Unserved;
use super::{Choice, Selector, SelectorCache, Variant};

/// Threads of a block that are worth trying on a GPU; on the host they mean nothing.
const THREADS: [u32; 3] = [128, 256, 512];
/// More instances than any engine has room for.
const MOST_INSTANCES: u32 = 256;
/// Thread blocks in all that leave most of a GPU to others; worth trying with blocks of the largest
/// size.
const FRUGAL_BLOCKS: [u32; 4] = [8, 16, 24, 32];

impl Selector {
    /// From now on `choice` serves every call; without one, what [`Selector::choose`] says.
    pub fn pin(&self, choice: Option<Choice>) {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.pinned = choice;
        known.decisions.clear();
    }

    /// What would serve `request` were nothing pinned, and then every other way to serve it, each
    /// once: all algorithms at hand, all protocols that the engine speaks, links of all kinds that
    /// it and the algorithm can have, instances as powers of two and as many as fit, and those that
    /// make 8, 16, 24 or 32 thread blocks of the largest size. Algorithms alternate, so that
    /// whoever has no time for all has seen every one.
    pub fn choices(&self, request: &CallShape) -> Vec<Choice> {
        let built_in = self.registry.built_in(request.kind, request.placement);
        let terms = Requirements::new(request, self.ranks());
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let mut choices: Vec<Choice> = self.usual_choice(&mut known, request).into_iter().collect();
        let mut seen: FxHashSet<Choice> = choices.iter().cloned().collect();
        let available: Vec<_> = self.loaded(request).chain(built_in.iter()).collect();
        let mut add = |known: &mut SelectorCache, entry: &Entry, variant: &Variant| {
            let decision = self.try_with(known, entry, variant, &terms, &Overrides::default());
            let choice = decision.ok().map(|decision| decision.choice());
            // What does not fit is cut down to what does.
            choices.extend(choice.filter(|choice| seen.insert(choice.clone())));
        };
        for variant in self.variants() {
            available.iter().for_each(|entry| add(&mut known, entry, &variant));
        }
        for total in FRUGAL_BLOCKS {
            for entry in &available {
                let variants = self.frugal_ways(&mut known, entry, total);
                variants.iter().for_each(|variant| add(&mut known, entry, variant));
            }
        }
        choices
    }

    /// What would serve `request` as it is, were nothing pinned.
    fn usual_choice(&self, known: &mut SelectorCache, request: &CallShape) -> Option<Choice> {
        let first = self.decide_unpinned(known, request).ok();
        first.filter(|of| of.fallback == PlacementFallback::None).map(|of| of.choice())
    }

    /// Thread blocks of a call like `request` that is served by `choice`, on the rank that has
    /// most. Each keeps a multiprocessor busy.
    ///
    /// # Errors
    ///
    /// It cannot be served so.
    pub fn blocks(&self, choice: &Choice, request: &CallShape) -> Result<u32, Error> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let decision = self.serve_pinned(&mut known, choice, request)?;
        let needs = known.needs.get(&decision.prepared.fingerprint);
        Ok(decision.cut.instances * needs.map_or(0, |needs| needs.blocks))
    }

    /// The protocols that are spoken with the links that they can have, staged ones first.
    fn kinds(&self) -> Vec<(Protocol, Links)> {
        let spoken = |protocol: &Protocol| self.capacity.wires(*protocol).wires > 0;
        // What an algorithm cannot have turns out to be other links, which have been seen then.
        let made = |links: &Links| self.capacity.has(*links);
        let of_links = |links: Links| {
            let suited = move |of: &Protocol| links.suit(*of);
            Protocol::ALL.into_iter().filter(spoken).filter(suited).map(move |of| (of, links))
        };
        Links::ALL.into_iter().filter(made).flat_map(of_links).collect()
    }

    /// The variants of any algorithm that are worth trying, few instances first.
    fn variants(&self) -> impl Iterator<Item = Variant> {
        let kinds = self.kinds();
        let threads: &[u32] = match self.machine {
            Machine::Gpus => &THREADS,
            Machine::Host => &THREADS[2..],
        };
        let counts = std::iter::successors(Some(1), |count| Some(count * 2))
            .take_while(|count| *count <= MOST_INSTANCES);
        counts.flat_map(move |instances| {
            let of = move |(protocol, links)| {
                threads.iter().map(move |&threads| Variant { protocol, links, instances, threads })
            };
            kinds.clone().into_iter().flat_map(of)
        })
    }

    /// The variants of `entry` in as many of the largest thread blocks as make no more than
    /// `total`, on GPUs.
    fn frugal_ways(&self, known: &mut SelectorCache, entry: &Entry, total: u32) -> Vec<Variant> {
        let needs = known.needs.entry(entry.fingerprint).or_insert_with(|| self.needs(entry));
        let instances = total / needs.blocks.max(1);
        if self.machine == Machine::Host || instances == 0 {
            return Vec::new();
        }
        let of = |(protocol, links)| {
            let threads = launch::threads_max(protocol);
            Variant { protocol, links, instances, threads }
        };
        self.kinds().into_iter().map(of).collect()
    }

    /// How `choice` serves `request`, exactly.
    pub(crate) fn serve_pinned(
        &self,
        known: &mut SelectorCache,
        choice: &Choice,
        request: &CallShape,
    ) -> Result<Decision, Error> {
        let named = self.available(request).into_iter().find(|of| choice.names(*of));
        let entry = named.and_then(|available| self.proved(available, request));
        let entry = entry.ok_or_else(|| Unserved("it is not at hand".to_owned()));
        let served = entry.and_then(|entry| {
            let (terms, none) = (Requirements::new(request, self.ranks()), Overrides::default());
            let decision = self.try_with(known, &entry, &choice.variant, &terms, &none)?;
            let found = decision.choice().variant;
            if found == choice.variant {
                return Ok(Decision { exact: true, ..decision });
            }
            Err(Unserved(format!(
                "it would run with {}",
                Choice { variant: found, ..choice.clone() }
            )))
        });
        served.map_err(|why| {
            let text = format!("{request} must be served by {choice}, which does not: {why}");
            Error::new(text)
        })
    }
}

impl Decision {
    /// The same as a row of a table has it.
    pub(crate) fn choice(&self) -> Choice {
        let ServiceSummary { protocol, links, instances, threads, .. } = self.service();
        let variant = Variant { protocol, links, instances, threads };
        Choice { algorithm: self.prepared.name.clone(), variant }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use msccl_collective::{CallPlacement, CollectiveKind, DataType, Rank, Reduction};
    use msccl_registry::{File, Registry, Shape};

    use super::*;
    use crate::{Capacity, Tuning};

    fn selector(machine: Machine) -> Selector {
        let text = "algorithm mine(ranks N = 4) implements allreduce(chunks 1) bytes 512..4096 {
            for r in 0..N { output@r = sum(q in 0..N: input@q) }
        }";
        let file = File { name: "a/mine.msccl".to_owned(), content: Ok(text.as_bytes().to_vec()) };
        let registry = Arc::new(Registry::new(Shape { ranks: 4, per_node: 4 }, &[file]));
        let capacity = Capacity::nominal(machine, registry.shape());
        let rows =
            "msccl-tuning 2\nmachine m\nallreduce any any any LL staged 3 96 allreduce/two_shot";
        let tuning = Tuning::parse("t", rows.as_bytes()).unwrap();
        Selector::new(registry, Rank(0), capacity, machine, Overrides::default(), Some(tuning))
    }

    fn request(bytes: u64, placement: CallPlacement) -> CallShape {
        let (data_type, reduction) = (DataType::F32, Some(Reduction::Sum));
        let kind = CollectiveKind::AllReduce;
        CallShape { kind, placement, data_type, reduction, count: bytes / 4 }
    }

    /// Every choice serves exactly when it is pinned; the first is what serves otherwise.
    fn check(machine: Machine, bytes: u64, placement: CallPlacement) -> Vec<Choice> {
        let (selector, request) = (selector(machine), request(bytes, placement));
        let choices = selector.choices(&request);
        let distinct: FxHashSet<_> = choices.iter().collect();
        assert_eq!(distinct.len(), choices.len());
        let (chosen, _) = selector.choose(&request).unwrap();
        assert_eq!(Some(chosen.choice()).as_ref(), choices.first());
        for choice in &choices {
            assert_eq!(choice.to_string().parse().as_ref(), Ok(choice));
            selector.pin(Some(choice.clone()));
            let (decision, _) = selector.choose(&request).unwrap();
            assert_eq!(decision.choice(), *choice);
            assert!(decision.exact, "{choice}");
        }
        selector.pin(None);
        let (again, _) = selector.choose(&request).unwrap();
        assert_eq!(again.choice(), chosen.choice());
        assert!(!again.exact && !chosen.exact);
        choices
    }

    #[test]
    fn choices_serve_as_they_say() {
        let gpus = check(Machine::Gpus, 1 << 20, CallPlacement::OutOfPlace);
        let protocols: FxHashSet<_> = gpus.iter().map(|choice| choice.variant.protocol).collect();
        assert_eq!(protocols.len(), 3, "{gpus:?}");
        assert_eq!(gpus[0].to_string(), "LL staged 3 96 allreduce/two_shot");
        let direct: Vec<_> =
            gpus.iter().filter(|choice| choice.variant.links == Links::Direct).collect();
        assert!(
            direct.iter().all(|choice| choice.variant.protocol == Protocol::Simple),
            "{direct:?}"
        );
        let of = |name| direct.iter().filter(|choice| choice.algorithm == name).count();
        assert!(of("allreduce/two_shot") > 5 && of("allreduce/ring") == 0, "{direct:?}");
        assert!(gpus.len() > 100, "{}", gpus.len());
        let host = check(Machine::Host, 1 << 20, CallPlacement::OutOfPlace);
        let plain = |variant: Variant| {
            variant.protocol == Protocol::Simple && variant.links == Links::Staged
        };
        assert!(host.iter().all(|choice| plain(choice.variant)), "{host:?}");
        let names = |choices: &[Choice], name: &str| choices.iter().any(|of| of.algorithm == name);
        assert!(!names(&host, "a/mine.msccl"));
        assert!(names(&check(Machine::Host, 1024, CallPlacement::OutOfPlace), "a/mine.msccl"));
        assert!(names(&host, "allreduce/one_shot"));
        assert!(!names(
            &check(Machine::Host, 1 << 20, CallPlacement::InPlace),
            "allreduce/one_shot"
        ));
    }

    #[test]
    fn few_and_large_thread_blocks_are_tried() {
        let (selector, request) =
            (selector(Machine::Gpus), request(64 << 20, CallPlacement::InPlace));
        let choices = selector.choices(&request);
        for name in ["allreduce/ring", "allreduce/two_shot"] {
            for links in Links::ALL {
                let of_name = |choice: &&Choice| {
                    let Variant { protocol, links: found, instances: _, threads } = choice.variant;
                    let is_kind = protocol == Protocol::Simple && found == links && threads == 512;
                    is_kind && choice.algorithm == name
                };
                let blocks = choices.iter().filter(of_name);
                let blocks = blocks.map(|choice| selector.blocks(choice, &request).unwrap());
                let blocks: FxHashSet<u32> = blocks.collect();
                let is_intra_node =
                    |total: u32| blocks.iter().any(|of| (total - 7..=total).contains(of));
                let has = FRUGAL_BLOCKS.into_iter().all(is_intra_node);
                assert!(has || blocks.is_empty(), "{name} {links}: {blocks:?}");
                assert!(!blocks.is_empty() || links != Links::Staged, "{name}");
            }
        }
        let none = "Simple staged 1 512 allreduce/gossip".parse().unwrap();
        assert!(selector.blocks(&none, &request).is_err());
    }

    #[test]
    fn what_cannot_serve_exactly_is_an_error() {
        let selector = selector(Machine::Host);
        let refused = |choice: &str| {
            selector.pin(Some(choice.parse().unwrap()));
            selector.choose(&request(1 << 20, CallPlacement::OutOfPlace)).err().unwrap().to_string()
        };
        for kind in ["LL staged", "Simple direct"] {
            let text = refused(&format!("{kind} 1 512 allreduce/ring"));
            let instead = "it would run with Simple staged 1 512 allreduce/ring";
            assert!(text.contains(instead), "{text}");
        }
        let text = refused("Simple staged 1 512 allreduce/gossip");
        assert!(text.contains("allreduce/gossip, which does not: it is not at hand"), "{text}");
        let text = refused("Simple staged 1 512 mine.msccl");
        assert!(text.contains("it is for 512..=4095 bytes"), "{text}");
    }
}
