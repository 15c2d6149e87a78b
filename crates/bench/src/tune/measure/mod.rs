//! How candidates are measured: all in a screening pass first, then the best of them in rounds.
//!
//! The workers of a library live through the whole run and join once; each measurement only pins
//! another [choice](msccl_runtime::Choice) to their communicators.
//!
//! 1. *Screening pass*: at every [anchor](super::candidates), every candidate is timed once in a
//!    few calls; at sizes between them, those that did well at the next on both sides, with staged
//!    links and with others. What was pruned is not tried at larger sizes. Other links are tried
//!    after staged ones, where those did well.
//! 2. *In rounds*: at every size the fastest in the screening pass and those that are nearly as
//!    fast with fewer thread blocks, the fastest with other links, the best of the size before and
//!    what the library chooses itself take turns, the other library among them; after two rounds
//!    only the best go on.
//! 3. *At boundaries*: between neighbouring sizes that decide differently, sizes in the middle of
//!    what is left, by rounds of what did well at either ([`super::boundaries`]).
//!
//! Half of the time is for screening, and a fifth of what is left for boundaries. When the time of
//! a size is over, the next one begins; one round is always made, so that very little time is
//! exceeded.
//!
//! Results are compared in full before a candidate counts at a size: in the screening pass for
//! calls of up to [`CHECKED_BYTES`], in the first round otherwise. A candidate that gives a wrong
//! result, fails, or over which the library hangs or dies is out; the library goes on with a new
//! communicator, or new workers.

mod attempt;
mod rounds;
mod screening;

use std::collections::BTreeMap;
use std::time::Duration;

use super::boundaries;
use super::budget::Budget;
use super::candidates::best_of;
use super::data::{CandidateTimes, Data, TunePoint};
use super::rule::Rule;
use crate::case::Case;
use crate::placement::Placement;
use crate::process_group::ProcessGroup;
use crate::protocol::{Method, Offer};
use crate::report::LibraryReport;
use crate::session::{LibrarySession, Plan as Run, SessionObserver};

/// Calls of up to that size are compared at every screening.
const CHECKED_BYTES: u64 = 1 << 20;
/// A size at a boundary has one in so many parts of what time is left for boundaries.
const BOUNDARY_PARTS: usize = 8;
/// Most calls that are timed together, and how many of them a graph holds, as in benchmarks.
const MOST_CALLS: u32 = 1000;
const CALLS_IN_GRAPH: u32 = 20;

/// What to measure.
#[derive(Clone, Debug)]
pub struct TunePlan {
    /// Our library and, if requested, one other; the calls by size; ranks and machine. How to
    /// measure is decided here.
    pub run: Run,
    /// In which placements.
    pub placements: Vec<Placement>,
    /// How long it may take, joining apart.
    pub time: Duration,
    /// Whether calls are launched as graphs, which needs GPUs.
    pub graph: bool,
    /// What is best. A candidate that may turn out to be the best takes part in rounds.
    pub rule: Rule,
    /// How many nodes the ranks are on.
    pub nodes: u32,
    /// The machine in words.
    pub machine: String,
    /// The day, as `2026-11-21`.
    pub date: String,
    /// The command that measures.
    pub command: String,
}

/// Whoever follows a measurement.
pub trait TuneObserver: SessionObserver {
    /// Ranks have joined, or not.
    fn begin(&mut self, libraries: &[LibraryReport]);
    /// What goes on now.
    fn doing(&mut self, what: &str);
    /// All has been measured at a size.
    fn point(&mut self, point: &TunePoint);
    /// A candidate is out, everywhere.
    fn fault(&mut self, choice: &str, why: &str);
}

/// Measures what `plan` says; with a `group`, one rank in each process of it, all of which call
/// this with the same plan and get the same measurements.
pub fn measure(
    plan: &TunePlan,
    group: Option<&ProcessGroup>,
    observer: &mut dyn TuneObserver,
) -> Data {
    let mut data = Data::new(plan.machine.clone(), plan.date.clone(), plan.command.clone());
    (data.graph, data.nodes) = (plan.graph, plan.nodes);
    data.baseline = plan.run.libraries.get(1).map(|baseline| baseline.name.clone());
    let mut setup = MeasurementSetup::joined(plan, group, observer);
    let budget = Budget::new(plan.time);
    for (index, &placement) in plan.placements.iter().enumerate() {
        let budget = budget.part_of(plan.placements.len() - index);
        data.points.extend(setup.placement(placement, budget));
    }
    let faults = std::mem::take(&mut setup.faults);
    data.failures = setup.leave();
    mark(&mut data.points, &faults);
    data
}

/// What is out anywhere is out everywhere.
fn mark(points: &mut [TunePoint], faults: &BTreeMap<String, String>) {
    for trial in points.iter_mut().flat_map(|point| &mut point.trials) {
        trial.fault = faults.get(&trial.choice).cloned();
    }
}

/// The libraries at work, ours first.
struct MeasurementSetup<'a> {
    plan: &'a TunePlan,
    group: Option<&'a ProcessGroup>,
    sessions: Vec<LibrarySession<'a>>,
    observer: &'a mut dyn TuneObserver,
    /// Ways that are out, and why.
    faults: BTreeMap<String, String>,
    failures: Vec<String>,
    /// How often our library was lost.
    losses: u32,
}

impl<'a> MeasurementSetup<'a> {
    /// Both libraries, joined if they can be.
    fn joined(
        plan: &'a TunePlan,
        group: Option<&'a ProcessGroup>,
        observer: &'a mut dyn TuneObserver,
    ) -> Self {
        let libraries = plan.run.libraries.iter();
        let mut sessions: Vec<_> =
            libraries.map(|one| LibrarySession::new(&plan.run, group, one)).collect();
        sessions.iter_mut().for_each(|session| session.join(observer));
        let reports: Vec<_> = sessions.iter().map(|session| session.report.clone()).collect();
        observer.begin(&reports);
        let (faults, failures) = (BTreeMap::new(), Vec::new());
        Self { plan, group, sessions, observer, faults, failures, losses: 0 }
    }

    /// Ends both; what failed, in words.
    fn leave(self) -> Vec<String> {
        let Self { mut sessions, observer, mut failures, plan: _, group: _, faults: _, losses: _ } =
            self;
        sessions.iter_mut().for_each(|session| session.leave(observer));
        let losses = sessions.into_iter().filter_map(|session| {
            let LibraryReport { name, loss, .. } = session.report;
            Some(format!("{name} is out: {}", loss?))
        });
        failures.extend(losses);
        failures
    }

    /// All sizes in `placement`, until our library is lost.
    fn placement(&mut self, placement: Placement, budget: Budget) -> Vec<TunePoint> {
        let cases = self.plan.run.cases.clone();
        let mut points: Vec<_> = cases.iter().map(|case| self.open(*case, placement)).collect();
        self.screen_all(&mut points, budget.share(0.5));
        let rounds = budget.share(0.8);
        for index in 0..points.len() {
            let budget = rounds.part_of(points.len() - index);
            let before = index.checked_sub(1).and_then(|before| points.get(before));
            let rule = &self.plan.rule;
            let before = before.map(|before| best_of(before, rule)).unwrap_or_default();
            if let Some(point) = points.get_mut(index) {
                self.settle_size(point, &before, budget);
            }
        }
        let rule = &self.plan.rule;
        boundaries::settle(&mut points, rule, |case, candidates| {
            if self.is_over(budget) {
                return None;
            }
            let mut point = self.open(case, placement);
            let is_served =
                self.settle_size(&mut point, candidates, budget.part_of(BOUNDARY_PARTS));
            is_served.then_some(point)
        });
        points
    }

    /// Measures a size in rounds, those that did well `before` among others. Whether there was any
    /// candidate for it; if not, our library is out.
    fn settle_size(&mut self, point: &mut TunePoint, before: &[String], budget: Budget) -> bool {
        if point.trials.is_empty() {
            return false;
        }
        self.doing("measuring", point);
        self.rounds(point, before, budget);
        self.observer.point(point);
        true
    }

    /// A point with every candidate for its call that the rule allows.
    fn open(&mut self, case: Case, placement: Placement) -> TunePoint {
        let offers = match self.sessions.first_mut() {
            Some(ours) if !ours.is_out() => ours.choices(case, placement, self.observer),
            _ => Vec::new(),
        };
        let present = offers.first().map(|offer| offer.choice.clone());
        let rule = &self.plan.rule;
        let is_allowed =
            |offer: &Offer| present.as_ref() == Some(&offer.choice) || rule.allows(offer.blocks);
        let trial = |Offer { choice, blocks }| CandidateTimes::new(choice, blocks);
        let trials = offers.into_iter().filter(is_allowed).map(trial).collect();
        TunePoint { case, placement, present, trials, baseline_us: Vec::new() }
    }

    /// Whether the time is over. Processes of a group follow the clock of rank 0, so that all
    /// measure the same; when one is lost, it is over for all.
    fn is_over(&self, budget: Budget) -> bool {
        let spent = budget.is_spent();
        self.group.map_or(spent, |group| group.follow(&spent).unwrap_or(true))
    }

    /// As many calls of about `call_us` as take `wanted_us` together.
    fn method(&self, total_us: f64, call_us: f64, checks: u32) -> Method {
        let calls = (total_us / call_us.max(0.1)) as u32;
        let (iterations, graph_launches) = if self.plan.graph {
            let in_graph = calls.clamp(1, CALLS_IN_GRAPH);
            (in_graph, (calls / in_graph).clamp(1, MOST_CALLS / CALLS_IN_GRAPH))
        } else {
            (calls.clamp(1, MOST_CALLS), 0)
        };
        Method { iterations, checks, graph_launches, ..self.plan.run.method }
    }

    fn doing(&mut self, what: &str, point: &TunePoint) {
        self.observer.doing(&format!("{what} {}", call(point)));
    }
}

/// About how long a call takes, before anything is known: few calls are timed if it is long.
fn guess_us(point: &TunePoint) -> f64 {
    const LATENCY_US: f64 = 20.0;
    const BYTES_PER_US: f64 = 50_000.0;
    LATENCY_US + point.case.size_bytes() as f64 / BYTES_PER_US
}

/// `allreduce of 4096 B, in-place`.
fn call(point: &TunePoint) -> String {
    let Case { workload, .. } = &point.case;
    format!("{workload} of {} B, {}", point.case.size_bytes(), point.placement.name())
}

#[cfg(test)]
mod tests {
    use super::super::sample_data::point;
    use super::*;

    #[test]
    fn a_fault_anywhere_is_one_everywhere() {
        let mut points = [point(10, &[1.0, 2.0, 3.0]), point(11, &[1.0, 2.0, 3.0])];
        let faults =
            BTreeMap::from([("LL staged 4 512 a".to_owned(), "2 elements are wrong".to_owned())]);
        mark(&mut points, &faults);
        assert!(points.iter().all(|point| point.trials[0].time_us().is_none()));
        assert!(points.iter().all(|point| point.trials[1].time_us().is_some()));
    }
}
