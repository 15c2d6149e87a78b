//! Times by the cost model instead of measurements.
//!
//! At every size, sizes ascending, algorithms are asked in the order of the least that they can
//! take: what their busiest link needs, and what they took at the size before. An algorithm that
//! cannot come near the best is left out there. Of each, with every protocol and kind of links,
//! half as many instances are tried as were best at the size before, and more as long as that
//! helps.

use std::sync::Arc;

use msccl_collective::{CallPlacement, CollectiveKind, Protocol, Rank};
use msccl_registry::{Entry, Registry};
use msccl_select::{CallShape, Choice, Hardware, Links, Machine, Overrides, Selector, Variant};

use super::data::{CandidateTimes, Data, TunePoint};
use super::rule::Rule;
use crate::case::Case;
use crate::element::Redop;
use crate::placement::Placement;

/// What takes that many times as long as the best is not looked at.
const FAR_BEHIND: f64 = 1.25;
/// Most instances that are tried.
const INSTANCES_MAX: u32 = 64;
/// Threads of a block that moves packets, and of one that does not.
const PACKET_THREADS: [u32; 3] = [128, 256, 512];
const SIMPLE_THREADS: [u32; 1] = [512];

/// What to estimate.
pub struct EstimatePlan {
    /// The algorithms, built in and loaded, for the ranks of all calls.
    pub registry: Arc<Registry>,
    /// What is supposed of the machine.
    pub hardware: Hardware,
    /// The calls by size, all of one collective.
    pub cases: Vec<Case>,
    /// In which placements.
    pub placements: Vec<Placement>,
    /// What may be chosen: what is too large counts for nothing.
    pub rule: Rule,
    /// The day, as `2026-11-21`.
    pub date: String,
    /// The command that estimates.
    pub command: String,
}

/// Estimates what `plan` says; `doing` gets a line for every size.
pub fn estimate(plan: &EstimatePlan, doing: &mut dyn FnMut(String)) -> Data {
    let machine = plan.hardware.to_string();
    let mut data = Data::new(machine.clone(), plan.date.clone(), plan.command.clone());
    data.assumes = Some(machine);
    data.nodes = plan.registry.shape().nodes();
    data.graph = true;
    for &placement in &plan.placements {
        let mut search = Search::of(plan, placement);
        for case in &plan.cases {
            doing(format!("{} of {} B, {}", case.workload, case.size_bytes(), placement.name()));
            data.points.push(search.point(case));
        }
    }
    data
}

/// An algorithm with one protocol and kind of links.
struct Family {
    entry: Entry,
    variant: Variant,
    /// What the busiest link needs for 10⁹ bytes, in s.
    floor_s_per_gb: f64,
    /// The least that it took at the size before, in µs, and with how many instances.
    before: Option<(f64, u32)>,
}

/// All families, sizes ascending.
struct Search<'a> {
    plan: &'a EstimatePlan,
    selector: Selector,
    placement: Placement,
    families: Vec<Family>,
}

impl<'a> Search<'a> {
    fn of(plan: &'a EstimatePlan, placement: Placement) -> Self {
        let (registry, none) = (&plan.registry, Overrides::default());
        let selector = Selector::nominal(Machine::Gpus, registry, Rank(0), &none, None, true);
        let mut search = Self { plan, selector, placement, families: Vec::new() };
        if let Some(request) = plan.cases.first().and_then(|case| search.request(case)) {
            search.families = search.families_for(&request);
        }
        search
    }

    /// The call of `case`, if the library has such a collective.
    fn request(&self, case: &Case) -> Option<CallShape> {
        let mut kinds = CollectiveKind::all(Rank(case.root)).into_iter();
        let kind = kinds.find(|kind| kind.name() == case.workload.name())?;
        let placement = match self.placement {
            Placement::InPlace => CallPlacement::InPlace,
            Placement::OutOfPlace => CallPlacement::OutOfPlace,
        };
        let reduction = match case.redop {
            Redop::Plain(reduction) => Some(reduction).filter(|_| kind.reduces()),
            Redop::MulSum => None,
        };
        let (data_type, count) = (case.element.0, case.count);
        Some(CallShape { kind, placement, data_type, reduction, count })
    }

    fn families_for(&self, request: &CallShape) -> Vec<Family> {
        let registry = &self.plan.registry;
        let built_in = registry.built_in(request.kind, request.placement);
        let is_for = |of: &&Entry| request.kind.is(&of.verified.algorithm().collective.kind);
        let loaded = registry.loaded().iter().filter(is_for).cloned();
        let several = registry.shape().nodes() > 1;
        let families = built_in.into_iter().chain(loaded).flat_map(|entry| {
            let floor_s_per_gb = self.plan.hardware.floor_s_per_gb(&entry);
            let of = move |variant| Family {
                entry: entry.clone(),
                variant,
                floor_s_per_gb,
                before: None,
            };
            variants(several).into_iter().map(of)
        });
        families.collect()
    }

    /// What the call of `case` takes with whatever comes near the best.
    fn point(&mut self, case: &Case) -> TunePoint {
        let (placement, size_bytes) = (self.placement, case.size_bytes());
        let mut trials: Vec<CandidateTimes> = Vec::new();
        let Some(request) = self.request(case) else {
            return TunePoint {
                case: *case,
                placement,
                present: None,
                trials,
                baseline_us: vec![],
            };
        };
        let Self { plan, selector, families, .. } = self;
        let least_us = |of: &Family| {
            // A second for 10⁹ bytes is a microsecond for 10³.
            let floor_us = of.floor_s_per_gb * size_bytes as f64 / 1_000.0;
            of.before.map_or(floor_us, |(us, _)| us.max(floor_us))
        };
        families.sort_by(|one, other| least_us(one).total_cmp(&least_us(other)));
        let mut best_us = f64::INFINITY;
        for family in families {
            if least_us(family) > FAR_BEHIND * best_us {
                continue;
            }
            let found = family.trials(selector, &plan.hardware, &request);
            let allowed = found.iter().filter(|trial| plan.rule.allows(trial.blocks));
            best_us = allowed.filter_map(CandidateTimes::time_us).fold(best_us, f64::min);
            let is_new = |of: &CandidateTimes| trials.iter().all(|known| known.choice != of.choice);
            let new: Vec<_> = found.into_iter().filter(is_new).collect();
            trials.extend(new);
        }
        TunePoint { case: *case, placement, present: None, trials, baseline_us: vec![] }
    }
}

impl Family {
    /// What a call takes with several numbers of instances: more and more as long as that helps.
    fn trials(
        &mut self,
        selector: &Selector,
        hardware: &Hardware,
        request: &CallShape,
    ) -> Vec<CandidateTimes> {
        let first = self.before.map_or(1, |(_, instances)| instances);
        let mut trials: Vec<CandidateTimes> = Vec::new();
        let mut best: Option<(f64, u32)> = None;
        let mut instances = (first / 2).max(1);
        while instances <= INSTANCES_MAX {
            let variant = Variant { instances, ..self.variant };
            let Some((choice, blocks, us)) = self.time(selector, hardware, request, &variant)
            else {
                break;
            };
            let name = choice.to_string();
            if trials.iter().any(|of| of.choice == name) {
                break;
            }
            let trial = CandidateTimes::new(name, Some(blocks));
            trials.push(CandidateTimes { rounds_us: vec![us], checked: true, ..trial });
            match best {
                // Twice as many as were best did not help.
                Some((least, _)) if us >= least && instances > first => break,
                Some((least, _)) if us >= least => {}
                _ => best = Some((us, choice.variant.instances)),
            }
            instances *= 2;
        }
        self.before = best.or(self.before);
        trials
    }

    /// What it comes to with `variant`, if it can have that: the choice, its thread blocks, and the
    /// time of a call in µs. There may be fewer instances.
    fn time(
        &self,
        selector: &Selector,
        hardware: &Hardware,
        request: &CallShape,
        variant: &Variant,
    ) -> Option<(Choice, u32, f64)> {
        let found = selector.model_variant(&self.entry, request, variant).ok();
        // Another protocol or other links are tried as such.
        let is_meant = |of: &Variant| of.protocol == variant.protocol && of.links == variant.links;
        let (modelled, choice, blocks) = found.filter(|(_, of, _)| is_meant(&of.variant))?;
        Some((choice, blocks, modelled.quick_us(hardware).ok()?))
    }
}

/// Protocols, links and threads; over several nodes packets are not spoken.
fn variants(several_nodes: bool) -> Vec<Variant> {
    let protocols: &[Protocol] = if several_nodes { &[Protocol::Simple] } else { &Protocol::ALL };
    let mut variants = Vec::new();
    for &protocol in protocols {
        let threads = match protocol {
            Protocol::Simple => &SIMPLE_THREADS[..],
            Protocol::Ll | Protocol::Ll128 => &PACKET_THREADS[..],
        };
        for links in Links::ALL.into_iter().filter(|links| links.suit(protocol)) {
            let of = |&threads| Variant { protocol, links, instances: 1, threads };
            variants.extend(threads.iter().map(of));
        }
    }
    variants
}
