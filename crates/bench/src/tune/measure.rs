//! How ways to serve calls are measured: at a glance first, then the best of them in rounds.
//!
//! The workers of a library live through the whole run and join once; each measurement only pins another
//! [choice](msccl_runtime::Choice) to their communicators.
//!
//! 1. *At a glance*: at every size that is [`ANCHOR_FACTOR`] times the last such one, and at the largest, every
//!    way is timed once in a few calls; at sizes between them, those that did well at the next on both sides. What was
//!    hopeless is not tried at larger sizes.
//! 2. *In rounds*: at every size the best at a glance, the best of the size before and what the library
//!    chooses itself take turns, the other library among them; after two rounds only the best go on.
//!
//! Half of the time is for glances. When the time of a size is over, the next one begins; one round is always
//! made, so that very little time is exceeded.
//!
//! Results are compared in full before a way counts at a size: at a glance for calls of up to [`CHECKED_BYTES`],
//! in the first round otherwise.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::budget::Budget;
use super::data::{Data, Point, Trial};
use crate::case::{Case, Placement};
use crate::protocol::Method;
use crate::report::{Average, LibraryReport, Measurement, Outcome, Row};
use crate::run::{Audience, Plan as Run, Team};

/// Everything is tried at sizes that lie no further apart.
const ANCHOR_FACTOR: u64 = 16;
/// Calls of up to that size are compared at every glance.
const CHECKED_BYTES: u64 = 1 << 20;
/// How long the timed calls of a glance, and of a round, should take together.
const GLANCE_US: f64 = 2_000.0;
const ROUND_US: f64 = 10_000.0;
/// Most calls in a row, as in benchmarks.
const CALLS: u32 = 20;
/// Rounds, and after how many of them who stays.
const ROUNDS: usize = 5;
const FIRST_ROUNDS: usize = 2;
/// How many are tried between anchors, how many enter the rounds, and how many stay.
const GLANCED: usize = 12;
const ENTRANTS: usize = 6;
const STAYING: usize = 3;
/// That many times as slow as the best is hopeless at larger sizes, too.
const HOPELESS: f64 = 8.0;

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
    let mut teams: Vec<_> =
        plan.run.contestants.iter().map(|contestant| Team::new(&plan.run, contestant)).collect();
    let mut hearing = Hearing { watcher };
    teams.iter_mut().for_each(|team| team.join(&mut hearing));
    let reports: Vec<_> = teams.iter().map(|team| team.report.clone()).collect();
    hearing.watcher.begin(&reports);
    let mut bench = Bench { plan, teams, hearing, faults: BTreeMap::new(), failures: Vec::new() };
    let budget = Budget::of(plan.time);
    for (index, &placement) in plan.placements.iter().enumerate() {
        let budget = budget.part_of(plan.placements.len() - index);
        data.points.extend(bench.placement(placement, budget));
    }
    let Bench { mut teams, mut hearing, faults, mut failures, plan: _ } = bench;
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
            let wanted = |trial: &Trial| {
                near.contains(&trial.choice) || present.as_ref() == Some(&trial.choice)
            };
            points[at].trials.retain(wanted);
            self.glance(&mut points[at], budget.part_of(between.len() - number));
        }
    }

    /// Times every way once, until the time is over; those that were not looked at are forgotten.
    fn glance(&mut self, point: &mut Point, budget: Budget) {
        let checks = u32::from(point.case.size_bytes() <= CHECKED_BYTES);
        let mut best_us = None;
        for index in 0..point.trials.len() {
            if budget.is_spent() && best_us.is_some() {
                break;
            }
            let expected_us = best_us.unwrap_or(guess_us(point));
            let method = self.method(GLANCE_US, expected_us, checks);
            let Some(us) = self.time(point, index, method) else { continue };
            point.trials[index].glance_us = Some(us);
            point.trials[index].checked = checks > 0;
            best_us = Some(best_us.map_or(us, |best: f64| best.min(us)));
        }
        point.trials.retain(|trial| trial.glance_us.is_some() || trial.fault.is_some());
    }

    /// Lets the best take turns.
    fn rounds(&mut self, point: &mut Point, before: &[String], budget: Budget) {
        let mut entrants = at_a_glance(point, ENTRANTS);
        let more = before.iter().chain(&point.present);
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
            point.trials[index].checked = true;
        }
    }

    /// The other library's turn.
    fn rival_round(&mut self, point: &mut Point) {
        let expected_us = point.ranking().first().map_or(guess_us(point), |(_, us)| *us);
        let method = self.method(ROUND_US, expected_us, u32::from(point.rival_us.is_empty()));
        let Some(rival) = self.teams.get_mut(1).filter(|rival| !rival.is_out()) else { return };
        let outcome = rival.measure(point.case, point.placement, method, &mut self.hearing);
        match verdict(&outcome) {
            Verdict::Time(us) => point.rival_us.push(us),
            Verdict::Out => {}
            Verdict::Fault(why) => {
                let text = format!("{}, {}: {why}", rival.report.name, call(point));
                if !self.failures.contains(&text) {
                    self.failures.push(text);
                }
            }
        }
    }

    /// The time in µs of way number `index`; `None` if it, or the library, is out.
    fn time(&mut self, point: &mut Point, index: usize, method: Method) -> Option<f64> {
        let ours = self.teams.first_mut().filter(|ours| !ours.is_out())?;
        let choice = point.trials.get(index)?.choice.clone();
        if let Some(why) = self.faults.get(&choice) {
            point.trials[index].fault = Some(why.clone());
            return None;
        }
        let pinned = ours.pin(Some(&choice), &mut self.hearing);
        let verdict = match pinned {
            Ok(()) => {
                verdict(&ours.measure(point.case, point.placement, method, &mut self.hearing))
            }
            Err(_) if ours.is_out() => Verdict::Out,
            Err(why) => Verdict::Fault(why),
        };
        match verdict {
            Verdict::Time(us) => Some(us),
            Verdict::Out => None,
            Verdict::Fault(why) => {
                let why = format!("{}: {why}", call(point));
                self.hearing.watcher.fault(&choice, &why);
                point.trials[index].fault = Some(why.clone());
                self.faults.insert(choice, why);
                None
            }
        }
    }

    /// As many calls of about `call_us` as take `wanted_us` together.
    fn method(&self, wanted_us: f64, call_us: f64, checks: u32) -> Method {
        let iterations = ((wanted_us / call_us.max(0.1)) as u32).clamp(1, CALLS);
        let launches = wanted_us / (call_us.max(0.1) * f64::from(iterations));
        let graph_launches = if self.plan.graph { (launches as u32).clamp(1, CALLS) } else { 0 };
        Method { iterations, warmup: 1, checks, graph_launches, one_shot: false }
    }

    fn doing(&mut self, what: &str, point: &Point) {
        self.hearing.watcher.doing(&format!("{what} {}", call(point)));
    }
}

/// What became of a measurement.
enum Verdict {
    /// It took that many µs, and nothing was found to be wrong.
    Time(f64),
    /// It is wrong, or was refused.
    Fault(String),
    /// The library is out.
    Out,
}

fn verdict(outcome: &Outcome) -> Verdict {
    match outcome {
        Outcome::Out => Verdict::Out,
        Outcome::Refused(why) => Verdict::Fault(why.clone()),
        Outcome::Measured(measurement) => match measurement.wrong() {
            None | Some(0) => Verdict::Time(measurement.time_us(Average::Mean)),
            Some(wrong) => Verdict::Fault(wrong_in_words(wrong, measurement)),
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

/// The points at which everything is tried; `sizes` ascend.
fn anchors(sizes: &[u64]) -> Vec<usize> {
    let mut anchors: Vec<usize> = Vec::new();
    for (index, &size) in sizes.iter().enumerate() {
        let last = anchors.last().map(|&last| sizes[last].saturating_mul(ANCHOR_FACTOR));
        if last.is_none_or(|last| size >= last) || index + 1 == sizes.len() {
            anchors.push(index);
        }
    }
    anchors
}

/// The fastest `most` at a glance.
fn at_a_glance(point: &Point, most: usize) -> Vec<String> {
    let sound = point.trials.iter().filter(|trial| trial.fault.is_none());
    let mut seen: Vec<_> = sound.filter_map(|trial| Some((trial, trial.glance_us?))).collect();
    seen.sort_by(|(a, a_us), (b, b_us)| a_us.total_cmp(b_us).then_with(|| a.choice.cmp(&b.choice)));
    seen.into_iter().take(most).map(|(trial, _)| trial.choice.clone()).collect()
}

/// Puts those that did well elsewhere first, after what the library chooses itself: time may end early.
fn prefer(point: &mut Point, favourites: &[String]) {
    let present = point.present.clone();
    point.trials.sort_by_key(|trial| {
        let is_favourite = favourites.contains(&trial.choice);
        (present.as_ref() != Some(&trial.choice), !is_favourite)
    });
}

/// What was far behind at a glance.
fn hopeless_at(point: &Point) -> Vec<String> {
    let seen = point.trials.iter().filter_map(|trial| Some((trial, trial.glance_us?)));
    let best_us = seen.clone().map(|(_, us)| us).fold(f64::INFINITY, f64::min);
    let behind = seen.filter(|(_, us)| *us > HOPELESS * best_us);
    behind.map(|(trial, _)| trial.choice.clone()).collect()
}

/// The two best of a size, which the next size measures again: ranges grow where they stay good.
fn best_of(point: &Point) -> Vec<String> {
    point.ranking().into_iter().take(2).map(|(trial, _)| trial.choice.clone()).collect()
}

/// Who stays after the first rounds: the best, those that were best at the size before, and what the library
/// chooses itself.
fn staying(point: &Point, before: &[String]) -> Vec<String> {
    let ranking = point.ranking();
    let ranked = ranking.iter().enumerate().filter(|(place, (trial, _))| {
        let known = before.contains(&trial.choice) || point.present.as_ref() == Some(&trial.choice);
        *place < STAYING || known
    });
    ranked.map(|(_, (trial, _))| trial.choice.clone()).collect()
}

#[cfg(test)]
mod tests {
    use super::super::sample_data::point;
    use super::*;

    #[test]
    fn everything_is_tried_at_sizes_not_too_far_apart() {
        let sizes: Vec<u64> = (10..=30).map(|power| 1 << power).collect();
        assert_eq!(anchors(&sizes), [0, 4, 8, 12, 16, 20]);
        assert_eq!(anchors(&sizes[..7]), [0, 4, 6]);
        assert_eq!(anchors(&[1024, 16384 * 4, 1 << 20]), [0, 1, 2]);
        assert_eq!(anchors(&[8]), [0]);
        assert!(anchors(&[]).is_empty());
    }

    #[test]
    fn the_best_at_a_glance_enter_and_the_best_of_rounds_stay() {
        let mut one = point(10, &[3.0, 2.0, 1.0]);
        assert_eq!(at_a_glance(&one, 2), ["LL 4 512 c", "LL 4 512 b"]);
        one.trials[2].fault = Some("wrong".to_owned());
        assert_eq!(at_a_glance(&one, 2), ["LL 4 512 b", "LL 4 512 a"]);
        assert_eq!(best_of(&one), ["LL 4 512 b", "LL 4 512 a"]);
        one.trials[1].glance_us = Some(1000.0);
        assert_eq!(hopeless_at(&one), ["LL 4 512 b"]);
        prefer(&mut one, &["LL 4 512 c".to_owned()]);
        let order: Vec<_> = one.trials.iter().map(|trial| &trial.choice[9..]).collect();
        assert_eq!(order, ["b", "c", "a"]);
    }

    #[test]
    fn a_fault_anywhere_is_one_everywhere() {
        let mut points = [point(10, &[1.0, 2.0, 3.0]), point(11, &[1.0, 2.0, 3.0])];
        let faults = BTreeMap::from([("LL 4 512 a".to_owned(), "2 elements are wrong".to_owned())]);
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
        assert!(matches!(outcome(None), Verdict::Time(3.0)));
        assert!(matches!(outcome(Some(0)), Verdict::Time(3.0)));
        assert!(
            matches!(outcome(Some(2)), Verdict::Fault(why) if why.starts_with("2 elements are"))
        );
    }
}
