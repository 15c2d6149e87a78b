//! What holds calls up: findings that name a culprit, and the figures behind them.
//!
//! [`report()`] looks at launches of one shape together. For each it says when ranks arrive, what
//! time goes to by rank, thread block, link and source line, what the critical path is, what the
//! busiest link carries, and how far the run is from a prediction. Its [`Finding`]s come first: a
//! rank that is late, a thread block or a link that is slow, a thread block that two phases share.
//! The most costly one is the first, by what it costs on the critical paths.
//!
//! [`text`], [`html`] and JSON (by `serde`) show a report; [`compare`] compares two.

mod against;
mod arrival;
mod critical;
mod deviation;
mod findings;
mod group;
mod groups;
mod html;
mod index;
mod load;
mod moves;
mod notes;
mod picture;
mod placed;
mod search;
mod shares;
mod slowest;
mod statistics;
mod text;
mod times;
mod turns;

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use crate::clock::{Constraint, ConstraintOrigin};
use crate::predict::Prediction;
use crate::recording::{CallCut, Work};
use crate::timeline::Timeline;

pub use against::{Comparison, GroupComparison, compare, comparison_text};
pub use deviation::{Deviation, PredictionReport, StepError};
pub use findings::{Culprit, Finding, SourceLine};
pub use group::{BlockTimes, GroupReport, LineTimes, LinkTimes, RankArrival, RankTimes, Spread};
pub use html::html;
pub use load::LinkLoad;
pub use shares::{PathShares, PathStep};
pub use text::text;
pub use times::Times;

/// What readers of the JSON can rely on: the number grows when a field changes its meaning or goes.
const SCHEMA: &str = "msccl-trace-report/1";

/// What a run should reach.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Expectations {
    /// By sender and receiver: what the machine can carry from one to the other, in GB/s.
    pub link_gb_per_s: BTreeMap<(u32, u32), f64>,
    /// Predictions, in the order of [`subjects`], as far as there are any.
    pub predictions: Vec<Option<Prediction>>,
}

/// Calls of one shape, of which a prediction may be made.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Subject {
    /// Name of the collective.
    pub collective: String,
    /// Name of the algorithm, if it is known.
    pub algorithm: Option<String>,
    /// Name of the program, if it is known.
    pub source: Option<String>,
    /// Name of the data type.
    pub data_type: String,
    /// Name of the reduction, where there is one.
    pub reduction: Option<String>,
    /// Whether in place or out of place.
    pub placement: String,
    /// Bytes of the larger buffer.
    pub bytes: u64,
    /// How the calls cut their buffers, if they have a plan.
    pub cut: Option<CallCut>,
}

/// What holds calls up.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Report {
    /// Names the format.
    pub schema: &'static str,
    /// What was recorded, in one line.
    pub summary: String,
    /// What to know of the run before its findings are believed, in sentences.
    pub notes: Vec<String>,
    /// What holds calls up, the most costly first.
    pub findings: Vec<Finding>,
    /// Calls of one shape each, those that take most time first.
    pub groups: Vec<GroupReport>,
    /// How well clocks agree.
    pub clock: ClockReport,
    /// What is missing, in sentences.
    pub losses: Vec<String>,
}

impl Report {
    /// Whether calls were looked at, and none is held up.
    fn nothing_stands_out(&self) -> bool {
        self.findings.is_empty() && !self.groups.is_empty()
    }
}

/// How well clocks agree.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct ClockReport {
    /// A bound of the error between any rank and the first, in µs.
    pub error_us: f64,
    /// What could not be met, in sentences.
    pub contradictions: Vec<String>,
}

/// The shapes of the calls in `timeline`, in the order of [`Report::groups`].
pub fn subjects(timeline: &Timeline) -> Vec<Option<Subject>> {
    let subject = |group: &groups::Group| {
        let (rank, shape) = group.shape?;
        let rank = &timeline.ranks[rank];
        let shape = &rank.shapes[&shape];
        let plan = group::plan_of(rank, shape);
        Some(Subject {
            collective: shape.collective.clone(),
            algorithm: plan.map(|plan| plan.algorithm.clone()),
            source: plan.and_then(|plan| plan.source.clone()),
            data_type: shape.data_type.clone(),
            reduction: shape.reduction.clone(),
            placement: shape.placement.clone(),
            bytes: shape.bytes,
            cut: match shape.work {
                Work::Plan { plan: _, kernel: _, cut } => Some(cut),
                Work::Exchange { .. } => None,
            },
        })
    };
    groups::groups(timeline).iter().map(subject).collect()
}

/// What holds the calls of `timeline` up.
pub fn report(timeline: &Timeline, expectations: &Expectations) -> Report {
    let index = index::Index::new(timeline);
    let groups = groups::groups(timeline);
    let (mut findings, mut reports) = (Vec::new(), Vec::new());
    for (number, group) in groups.iter().enumerate() {
        let prediction = expectations.predictions.get(number).and_then(Option::as_ref);
        let (report, found) = group::of_group(&index, group, expectations, prediction);
        reports.push(report);
        findings.extend(found);
    }
    findings.sort_by(|one, other| other.cost_us.total_cmp(&one.cost_us));
    Report {
        schema: SCHEMA,
        summary: summary(timeline, &reports),
        notes: notes::notes(timeline),
        findings,
        groups: reports,
        clock: clock(timeline),
        losses: notes::losses(timeline),
    }
}

fn summary(timeline: &Timeline, groups: &[GroupReport]) -> String {
    let hosts: BTreeSet<_> = timeline.ranks.iter().map(|rank| &rank.header.host).collect();
    let of_ranks = timeline.ranks.first().map_or(0, |rank| rank.header.ranks);
    let (ranks, launches) = (timeline.ranks.len(), timeline.launches.len());
    let begin_ns = timeline.launches.first().map_or(0.0, |launch| launch.begin_ns);
    let ends = timeline.launches.iter().map(|launch| launch.end_ns);
    let lasted_us = (ends.fold(begin_ns, f64::max) - begin_ns) / 1000.0;
    let mut text = format!(
        "{ranks} of {of_ranks} ranks on {}, {} in {}",
        count(hosts.len(), "host"),
        count(launches, "launch"),
        findings::us(lasted_us)
    );
    if let Some(first) = groups.first() {
        text += &format!("; most time in {} of {}", first.calls, first.name);
    }
    text
}

/// `1 host`, `2 hosts`, `3 launches`.
fn count(count: usize, word: &str) -> String {
    let ending = if word.ends_with("ch") { "es" } else { "s" };
    format!("{count} {word}{}", if count == 1 { "" } else { ending })
}

fn clock(timeline: &Timeline) -> ClockReport {
    let error_us =
        timeline.clock.errors_ns.iter().fold(0.0, |most: f64, of| most.max(*of)) / 1000.0;
    let name = |clock: usize| match timeline.ranks.get(clock) {
        Some(rank) => format!("rank {}", rank.header.rank),
        None => "a host".to_owned(),
    };
    let constraint = |of: &Constraint| match of.origin {
        ConstraintOrigin::SameClock => {
            format!("the one clock of {} and {}", name(of.ahead), name(of.behind))
        }
        ConstraintOrigin::Reading => {
            format!("readings of {} and {}", name(of.ahead), name(of.behind))
        }
        ConstraintOrigin::Message => {
            format!("messages from {} to {}", name(of.ahead), name(of.behind))
        }
    };
    let mut contradictions: Vec<String> = Vec::new();
    for found in &timeline.clock.contradictions {
        let circle: Vec<String> = found.circle.iter().map(constraint).collect();
        let missing = findings::us(found.missing_ns / 1000.0);
        let circle = circle.join(", ");
        contradictions.push(format!("clocks contradict each other by {missing}: {circle}"));
    }
    for rank in &timeline.clock.without_readings {
        contradictions.push(format!(
            "the clock of rank {rank} was never read; its times are right to messages alone"
        ));
    }
    ClockReport { error_us, contradictions }
}
