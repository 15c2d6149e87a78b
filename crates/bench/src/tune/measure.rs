//! How ways to serve calls are measured: at a glance first, then the best of them in rounds.
//!
//! The workers of a library live through the whole run and join once; each measurement only pins another
//! [choice](msccl_runtime::Choice) to their communicators.
//!
//! 1. *At a glance*: at every [anchor](super::field), every way is timed once in a few calls; at sizes between
//!    them, those that did well at the next on both sides, with staged links and with others. What was
//!    hopeless is not tried at larger sizes. Other links are tried after staged ones, where those did well.
//! 2. *In rounds*: at every size the best at a glance, the very best with other links, the best of the size
//!    before and what the library chooses itself take turns, the other library among them; after two rounds only the best go on.
//!
//! Half of the time is for glances. When the time of a size is over, the next one begins; one round is always
//! made, so that very little time is exceeded.
//!
//! Results are compared in full before a way counts at a size: at a glance for calls of up to
//! [`CHECKED_BYTES`], in the first round otherwise. A way that gives a wrong result, fails, or over which
//! the library hangs or dies is out; the library goes on with a new communicator, or new workers.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::budget::Budget;
use super::data::{Data, Point, Trial};
use super::field::{
    anchors, at_a_glance, best_of, counterparts, hopeless_at, prefer, promising, staying,
    to_begin_with,
};
use crate::case::{Case, Placement};
use crate::protocol::Method;
use crate::report::{Average, LibraryReport, Measurement, Outcome, Row};
use crate::run::{Audience, Plan as Run, Team};

/// Calls of up to that size are compared at every glance.
const CHECKED_BYTES: u64 = 1 << 20;
/// How long the timed calls of a glance, and of a round, should take together.
const GLANCE_US: f64 = 2_000.0;
const ROUND_US: f64 = 10_000.0;
/// Most calls that are timed together, and how many of them a graph holds, as in benchmarks.
const MOST_CALLS: u32 = 1000;
const CALLS_IN_GRAPH: u32 = 20;
/// Rounds, and after how many of them who stays.
const ROUNDS: usize = 5;
const FIRST_ROUNDS: usize = 2;
/// How often our library may hang or die.
const MOST_LOSSES: u32 = 3;
/// How many are tried between anchors, and how many enter the rounds.
const GLANCED: usize = 12;
const ENTRANTS: usize = 6;
/// The part of the time for glances that is left to links that are not staged, where there are any.
const FOR_OTHER_LINKS: f64 = 0.3;

/// What to measure.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Our library and, if wanted, one other; the calls by size; ranks and machine. How to measure is
    /// decided here.
    pub run: Run,
    /// In which placements.
    pub placements: Vec<Placement>,
    /// How long it may take, joining apart.
    pub time: Duration,
    /// Whether calls are launched as graphs, which needs GPUs.
    pub graph: bool,
    /// The machine in words.
    pub machine: String,
    /// The day, as `2026-11-21`.
    pub date: String,
    /// The command that measures.
    pub command: String,
}

/// Whoever follows a measurement.
pub trait Watcher {
    /// A process printed a line; `rank` is its first rank.
    fn line(&mut self, library: &str, rank: u32, line: &str);
    /// Ranks have joined, or not.
    fn begin(&mut self, libraries: &[LibraryReport]);
    /// What goes on now.
    fn doing(&mut self, what: &str);
    /// All has been measured at a size.
    fn point(&mut self, point: &Point);
    /// A way is out, everywhere.
    fn fault(&mut self, choice: &str, why: &str);
    /// A library is out.
    fn lost(&mut self, library: &str, reason: &str);
}

/// Measures what `plan` says.
pub fn measure(plan: &Plan, watcher: &mut dyn Watcher) -> Data {
    let mut data = Data::new(plan.machine.clone(), plan.date.clone(), plan.command.clone());
    data.graph = plan.graph;
    data.rival = plan.run.contestants.get(1).map(|rival| rival.name.clone());
    let mut teams: Vec<_> = plan
        .run
        .contestants
        .iter()
        .map(|contestant| Team::new(&plan.run, None, contestant))
        .collect();
    let mut hearing = Hearing { watcher };
    teams.iter_mut().for_each(|team| team.join(&mut hearing));
    let reports: Vec<_> = teams.iter().map(|team| team.report.clone()).collect();
    hearing.watcher.begin(&reports);
    let (faults, failures) = (BTreeMap::new(), Vec::new());
    let mut bench = Bench { plan, teams, hearing, faults, failures, losses: 0 };
    let budget = Budget::of(plan.time);
    for (index, &placement) in plan.placements.iter().enumerate() {
        let budget = budget.part_of(plan.placements.len() - index);
        data.points.extend(bench.placement(placement, budget));
    }
    let Bench { mut teams, mut hearing, faults, mut failures, plan: _, losses: _ } = bench;
    teams.iter_mut().for_each(|team| team.leave(&mut hearing));
    let losses = teams.into_iter().filter_map(|team| {
        let LibraryReport { name, loss, .. } = team.report;
        Some(format!("{name} is out: {}", loss?))
    });
    failures.extend(losses);
    data.failures = failures;
    mark(&mut data.points, &faults);
    data
}

/// What is out anywhere is out everywhere.
fn mark(points: &mut [Point], faults: &BTreeMap<String, String>) {
    for trial in points.iter_mut().flat_map(|point| &mut point.trials) {
        trial.fault = faults.get(&trial.choice).cloned();
    }
}

/// A watcher, as runs know their audience.
struct Hearing<'a> {
    watcher: &'a mut dyn Watcher,
}

impl Audience for Hearing<'_> {
    fn line(&mut self, library: &str, rank: u32, line: &str) {
        self.watcher.line(library, rank, line);
    }

    fn begin(&mut self, _: &[LibraryReport]) {}

    fn row(&mut self, _: &Row) {}

    fn lost(&mut self, library: &str, reason: &str) {
        self.watcher.lost(library, reason);
    }
}

/// The libraries at work, ours first.
struct Bench<'a> {
    plan: &'a Plan,
    teams: Vec<Team<'a>>,
    hearing: Hearing<'a>,
    /// Ways that are out, and why.
    faults: BTreeMap<String, String>,
    failures: Vec<String>,
    /// How often our library was lost.
    losses: u32,
}

impl Bench<'_> {
    /// All sizes in `placement`; as far as our library gets.
    fn placement(&mut self, placement: Placement, budget: Budget) -> Vec<Point> {
        let cases = self.plan.run.cases.clone();
        let mut points: Vec<_> = cases.iter().map(|case| self.open(*case, placement)).collect();
        self.glance_at_all(&mut points, budget.share(0.5));
        for index in 0..points.len() {
            let budget = budget.part_of(points.len() - index);
            let before = index.checked_sub(1).and_then(|before| points.get(before));
            let before = before.map(best_of).unwrap_or_default();
            let Some(point) = points.get_mut(index) else { continue };
            self.doing("measuring", point);
            self.rounds(point, &before, budget);
            if !point.trials.is_empty() {
                self.hearing.watcher.point(point);
            }
        }
        points
    }

    /// A point with every way to serve its call.
    fn open(&mut self, case: Case, placement: Placement) -> Point {
        let choices = match self.teams.first_mut() {
            Some(ours) if !ours.is_out() => ours.choices(case, placement, &mut self.hearing),
            _ => Vec::new(),
        };
        let present = choices.first().cloned();
        let trials = choices.into_iter().map(Trial::of).collect();
        Point { case, placement, present, trials, rival_us: Vec::new() }
    }

    /// Looks at everything where everything is tried, and at the best of it between.
    fn glance_at_all(&mut self, points: &mut [Point], budget: Budget) {
        let sizes: Vec<_> = points.iter().map(|point| point.case.size_bytes()).collect();
        let anchors = anchors(&sizes);
        let mut hopeless = BTreeSet::new();
        let mut favourites = Vec::new();
        for (number, &anchor) in anchors.iter().enumerate() {
            // What lies between is looked at, too, but at little of it.
            let budget = budget.share(0.9).part_of(anchors.len() - number);
            let Some(point) = points.get_mut(anchor) else { continue };
            point.trials.retain(|trial| !hopeless.contains(&trial.choice));
            prefer(point, &favourites);
            self.doing("trying", point);
            self.glance(point, budget);
            favourites = at_a_glance(point, GLANCED);
            hopeless.extend(hopeless_at(point));
        }
        let tried: Vec<_> =
            anchors.iter().map(|&at| (at, at_a_glance(&points[at], GLANCED))).collect();
        let between: Vec<_> = (0..points.len()).filter(|at| !anchors.contains(at)).collect();
        for (number, &at) in between.iter().enumerate() {
            let below = tried.iter().rev().find(|(anchor, _)| *anchor < at);
            let above = tried.iter().find(|(anchor, _)| *anchor > at);
            let near: Vec<_> =
                below.into_iter().chain(above).flat_map(|(_, best)| best.clone()).collect();
            let present = points[at].present.clone();
            let is_near = |choice: &String| near.contains(choice);
            let wanted = |trial: &Trial| {
                is_near(&trial.choice)
                    || counterparts(&trial.choice).iter().any(is_near)
                    || present.as_ref() == Some(&trial.choice)
            };
            points[at].trials.retain(wanted);
            prefer(&mut points[at], &near);
            self.glance(&mut points[at], budget.part_of(between.len() - number));
        }
    }

    /// Times every way once, those whose links are not staged only if they promise something, until the time is over; those
    /// that were not looked at are forgotten.
    fn glance(&mut self, point: &mut Point, budget: Budget) {
        let first = to_begin_with(point);
        let share = if first.len() < point.trials.len() { 1.0 - FOR_OTHER_LINKS } else { 1.0 };
        self.glance_at(point, &first, budget.share(share));
        let then = promising(point);
        self.glance_at(point, &then, budget);
        point.trials.retain(|trial| trial.glance_us.is_some() || trial.fault.is_some());
    }

    /// Times the trials of these numbers once, until the time is over.
    fn glance_at(&mut self, point: &mut Point, trials: &[usize], budget: Budget) {
        let checks = u32::from(point.case.size_bytes() <= CHECKED_BYTES);
        let seen = point.trials.iter().filter_map(|trial| trial.glance_us);
        let mut best_us = seen.reduce(f64::min);
        for &index in trials {
            if budget.is_spent() && best_us.is_some() {
                break;
            }
            let expected_us = best_us.unwrap_or(guess_us(point));
            let method = self.method(GLANCE_US, expected_us, checks);
            let Some(us) = self.time(point, index, method) else { continue };
            point.trials[index].glance_us = Some(us);
            best_us = Some(best_us.map_or(us, |best: f64| best.min(us)));
        }
    }

    /// Lets the best take turns.
    fn rounds(&mut self, point: &mut Point, before: &[String], budget: Budget) {
        let mut entrants = at_a_glance(point, ENTRANTS);
        let others = entrants.first().map(|best| counterparts(best)).unwrap_or_default();
        let more = others.iter().chain(before).chain(&point.present);
        for choice in more.filter(|choice| point.trial(choice).is_some()) {
            if !entrants.contains(choice) {
                entrants.push(choice.clone());
            }
        }
        for round in 0..ROUNDS {
            if round > 0 && budget.is_spent() {
                break;
            }
            if round == FIRST_ROUNDS {
                entrants = staying(point, before);
            }
            for choice in &entrants {
                self.round(point, choice);
            }
            self.rival_round(point);
        }
    }

    /// One turn of one way.
    fn round(&mut self, point: &mut Point, choice: &str) {
        let index = point.trials.iter().position(|trial| trial.choice == choice);
        let Some(index) = index.filter(|&index| point.trials[index].fault.is_none()) else {
            return;
        };
        let checks = u32::from(!point.trials[index].checked);
        let expected_us = point.trials[index].glance_us.unwrap_or(guess_us(point));
        let method = self.method(ROUND_US, expected_us, checks);
        if let Some(us) = self.time(point, index, method) {
            point.trials[index].rounds_us.push(us);
        }
    }

    /// The other library's turn.
    fn rival_round(&mut self, point: &mut Point) {
        let expected_us = point.ranking().first().map_or(guess_us(point), |(_, us)| *us);
        let method = self.method(ROUND_US, expected_us, u32::from(point.rival_us.is_empty()));
        let Some(rival) = self.teams.get_mut(1).filter(|rival| !rival.is_out()) else { return };
        let outcome = rival.measure(point.case, point.placement, method, &mut self.hearing);
        match verdict(&outcome) {
            Verdict::Time { us, is_right: _ } => point.rival_us.push(us),
            Verdict::Out => {}
            Verdict::Wrong(why) | Verdict::Refused(why) => {
                let text = format!("{}, {}: {why}", rival.report.name, call(point));
                if !self.failures.contains(&text) {
                    self.failures.push(text);
                }
            }
        }
    }

    /// The time in µs of way number `index`; `None` if it, or the library, is out.
    fn time(&mut self, point: &mut Point, index: usize, method: Method) -> Option<f64> {
        let choice = point.trials.get(index)?.choice.clone();
        let why = match self.faults.get(&choice) {
            Some(why) => why.clone(),
            None => match self.attempt(point, &choice, method)? {
                Verdict::Time { us, is_right } => {
                    point.trials[index].checked |= is_right;
                    return Some(us);
                }
                Verdict::Wrong(why) => self.disqualify(point, choice, &why),
                Verdict::Refused(why) => {
                    let ours = self.teams.first_mut()?;
                    ours.rejoin(&mut self.hearing);
                    self.disqualify(point, choice, &why)
                }
                Verdict::Out => {
                    self.revive();
                    self.disqualify(point, choice, "the library was lost over it")
                }
            },
        };
        point.trials[index].fault = Some(why);
        None
    }

    /// Measures `choice`; `None` if the library was out before.
    fn attempt(&mut self, point: &Point, choice: &str, method: Method) -> Option<Verdict> {
        let ours = self.teams.first_mut().filter(|ours| !ours.is_out())?;
        Some(match ours.pin(Some(choice), &mut self.hearing) {
            Ok(()) => {
                verdict(&ours.measure(point.case, point.placement, method, &mut self.hearing))
            }
            Err(_) if ours.is_out() => Verdict::Out,
            Err(why) => Verdict::Wrong(why),
        })
    }

    /// Takes `choice` out, everywhere; why, in words.
    fn disqualify(&mut self, point: &Point, choice: String, why: &str) -> String {
        let why = format!("{}: {why}", call(point));
        self.hearing.watcher.fault(&choice, &why);
        self.faults.insert(choice, why.clone());
        why
    }

    /// Starts our library again after it hung or died, unless it did so too often.
    fn revive(&mut self) {
        self.losses += 1;
        let contestant = self.plan.run.contestants.first();
        if let (Some(contestant), Some(ours)) = (contestant, self.teams.first_mut())
            && self.losses <= MOST_LOSSES
        {
            *ours = Team::new(&self.plan.run, None, contestant);
            ours.join(&mut self.hearing);
        }
    }

    /// As many calls of about `call_us` as take `wanted_us` together.
    fn method(&self, wanted_us: f64, call_us: f64, checks: u32) -> Method {
        let calls = (wanted_us / call_us.max(0.1)) as u32;
        let (iterations, graph_launches) = match self.plan.graph {
            false => (calls.clamp(1, MOST_CALLS), 0),
            true => {
                let in_graph = calls.clamp(1, CALLS_IN_GRAPH);
                (in_graph, (calls / in_graph).clamp(1, MOST_CALLS / CALLS_IN_GRAPH))
            }
        };
        Method { iterations, warmup: 1, checks, graph_launches, one_shot: false }
    }

    fn doing(&mut self, what: &str, point: &Point) {
        self.hearing.watcher.doing(&format!("{what} {}", call(point)));
    }
}

/// What became of a measurement.
enum Verdict {
    /// It took that many µs, and nothing was found to be wrong.
    Time {
        us: f64,
        /// Whether results were compared.
        is_right: bool,
    },
    /// It is not as it should be, but the library goes on.
    Wrong(String),
    /// It was refused, or failed; the communicator may have failed with it.
    Refused(String),
    /// The library is out.
    Out,
}

fn verdict(outcome: &Outcome) -> Verdict {
    match outcome {
        Outcome::Out => Verdict::Out,
        Outcome::Refused(why) => Verdict::Refused(why.clone()),
        Outcome::Measured(measurement) => match measurement.wrong() {
            wrong @ (None | Some(0)) => {
                Verdict::Time { us: measurement.time_us(Average::Mean), is_right: wrong.is_some() }
            }
            Some(wrong) => Verdict::Wrong(wrong_in_words(wrong, measurement)),
        },
    }
}

fn wrong_in_words(wrong: u64, measurement: &Measurement) -> String {
    format!("{wrong} elements are wrong, first {}", measurement.first_wrong().unwrap_or("unknown"))
}

/// About how long a call takes, before anything is known: few calls are timed if it is long.
fn guess_us(point: &Point) -> f64 {
    const LATENCY_US: f64 = 20.0;
    const BYTES_PER_US: f64 = 50_000.0;
    LATENCY_US + point.case.size_bytes() as f64 / BYTES_PER_US
}

/// `allreduce of 4096 B, in-place`.
fn call(point: &Point) -> String {
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

    #[test]
    fn wrong_results_are_faults_and_missing_ones_are_not() {
        use crate::protocol::Sample;
        let outcome = |wrong| {
            let sample = Sample { time_us: 3.0, wrong, ..Sample::default() };
            verdict(&Outcome::Measured(Measurement { samples: vec![sample] }))
        };
        assert!(matches!(outcome(None), Verdict::Time { us: 3.0, is_right: false }));
        assert!(matches!(outcome(Some(0)), Verdict::Time { us: 3.0, is_right: true }));
        assert!(
            matches!(outcome(Some(2)), Verdict::Wrong(why) if why.starts_with("2 elements are"))
        );
    }
}
