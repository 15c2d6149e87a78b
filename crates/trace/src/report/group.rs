//! The report on calls of one shape.

use std::collections::BTreeMap;

use serde::Serialize;

use super::Expectations;
use super::arrival::{Arrival, arrival};
use super::critical::{PathPiece, path};
use super::deviation::{PredictionReport, compare_with};
use super::findings::{Finding, GroupFacts, Losses, Paces, SourceLine, findings, short};
use super::groups::Group;
use super::index::Index;
use super::load::{LinkLoad, busiest};
use super::moves::Expected;
use super::placed::LineName;
use super::shares::{PathShares, PathStep, steps_of};
use super::statistics::{median, quantile};
use super::times::{PlacedTimes, Times, placed_times};
use crate::predict::Prediction;
use crate::recording::{CallShapeDescription, PlanDescription, Work};
use crate::timeline::RankTimeline;

/// Calls of one shape.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct GroupReport {
    /// Collective, size and algorithm.
    pub name: String,
    /// Name of the data type, if it is known.
    pub data_type: Option<String>,
    /// Name of the reduction, where there is one.
    pub reduction: Option<String>,
    /// `in place` or `out of place`, if it is known.
    pub placement: Option<String>,
    /// Kernel, protocol and delivery.
    pub kernel: String,
    /// Why they are chosen.
    pub reason: String,
    /// The name of the program, if it is known.
    pub program: Option<String>,
    /// Bytes of the larger buffer.
    pub bytes: u64,
    /// How many launches there are.
    pub calls: usize,
    /// From the first begin to the last end.
    pub duration_us: Spread,
    /// From the first arrival of a rank to the last.
    pub skew_us: Spread,
    /// How often each rank arrives last, and how late it is then.
    pub last: Vec<RankArrival>,
    /// What the time of all thread blocks goes to.
    pub times: Times,
    /// The same by rank.
    pub by_rank: Vec<RankTimes>,
    /// The same by thread block.
    pub by_block: Vec<BlockTimes>,
    /// The same by link.
    pub by_link: Vec<LinkTimes>,
    /// The same by source line.
    pub by_line: Vec<LineTimes>,
    /// The link that carries most.
    pub busiest_link: Option<LinkLoad>,
    /// What the critical paths of all launches consist of, on average.
    pub path_shares: PathShares,
    /// The position of the launch that is shown: one of median duration; beside a prediction, the
    /// one in which ranks begin nearest together.
    pub shown_launch: usize,
    /// The number of its call.
    pub shown_call: u64,
    /// Its critical path.
    pub path: Vec<PathStep>,
    /// What a model predicts, if it was requested.
    pub prediction: Option<PredictionReport>,
}

/// How values are spread.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize)]
pub struct Spread {
    /// The least.
    pub least: f64,
    /// The middle one.
    pub median: f64,
    /// 99 of 100 are not greater.
    pub p99: f64,
    /// The greatest.
    pub most: f64,
}

/// How a rank arrives.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct RankArrival {
    /// The rank.
    pub rank: u32,
    /// How often it is last.
    pub times: usize,
    /// How late it is then, against the median of the others; in the middle, in µs.
    pub late_us: f64,
}

/// The time of a rank.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct RankTimes {
    /// The rank.
    pub rank: u32,
    /// What its time goes to.
    #[serde(flatten)]
    pub times: Times,
}

/// The time of a thread block, in all instances.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct BlockTimes {
    /// The rank.
    pub rank: u32,
    /// The thread block of the plan.
    pub thread_block: u32,
    /// What its time goes to.
    #[serde(flatten)]
    pub times: Times,
}

/// The time that both ends of a link spend on it.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct LinkTimes {
    /// The rank that sends.
    pub from: u32,
    /// The rank that receives.
    pub to: u32,
    /// What the time goes to.
    #[serde(flatten)]
    pub times: Times,
}

/// The time that steps of a line take.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct LineTimes {
    /// The line.
    #[serde(flatten)]
    pub line: SourceLine,
    /// What their time goes to.
    #[serde(flatten)]
    pub times: Times,
}

/// The plan of a shape, if it has one that is known.
pub(super) fn plan_of<'a>(
    rank: &'a RankTimeline,
    shape: &CallShapeDescription,
) -> Option<&'a PlanDescription> {
    match &shape.work {
        Work::Plan { plan, kernel: _, cut: _ } => rank.plans.get(plan),
        Work::Exchange { .. } => None,
    }
}

/// The part of a call's duration below which nothing is worth a word, and the least of it.
const LEAST_PART: f64 = 0.03;
const LEAST_US: f64 = 0.5;

/// The report on a group, and what holds it up.
pub(super) fn of_group(
    index: &Index<'_>,
    group: &Group,
    expectations: &Expectations,
    prediction: Option<&Prediction>,
) -> (GroupReport, Vec<Finding>) {
    let timeline = index.timeline;
    let launches = &group.launches;
    let durations_us = launches.iter().map(|number| {
        let launch = &timeline.launches[*number];
        (launch.end_ns - launch.begin_ns) / 1000.0
    });
    let durations_us: Vec<f64> = durations_us.collect();
    let duration_us = Spread::of(durations_us.clone());
    let arrivals: Vec<_> =
        launches.iter().map(|at| arrival(index, &timeline.launches[*at])).collect();
    let expected = Expected::of(index, launches);
    let names = Names::of(index, group);
    let facts = GroupFacts {
        index,
        launches,
        arrivals: &arrivals,
        expected: &expected,
        least_us: (LEAST_PART * duration_us.median).max(LEAST_US),
        name: &names.name,
    };
    let shown_launch = launches[shown(&arrivals, &durations_us, prediction)];
    let paces = Paces::of(&facts);
    let GroupPaths { shares, losses, shown } = paths(&facts, &paces, shown_launch);
    let findings = findings(&facts, &paces, losses);
    let arrivals: Vec<Arrival> = arrivals.into_iter().flatten().collect();
    let PlacedTimes { all, by_rank, by_block, by_link, by_line } = placed_times(index, launches);
    let line = |(line, times): (LineName<'_>, Times)| LineTimes { line: line.into(), times };
    let prediction = prediction.map(|of| compare_with(index, shown_launch, of));
    let Names { name, data_type, reduction, placement, kernel, reason, program, bytes } = names;
    let report = GroupReport {
        name,
        data_type,
        reduction,
        placement,
        kernel,
        reason,
        program,
        bytes,
        calls: launches.len(),
        duration_us,
        skew_us: Spread::of(arrivals.iter().map(|of| of.skew_ns / 1000.0).collect()),
        last: last_ranks(index, &arrivals),
        times: all,
        by_rank: by_rank.into_iter().map(|(rank, times)| RankTimes { rank, times }).collect(),
        by_block: by_block
            .into_iter()
            .map(|((rank, thread_block), times)| BlockTimes { rank, thread_block, times })
            .collect(),
        by_link: by_link
            .into_iter()
            .map(|((from, to), times)| LinkTimes { from, to, times })
            .collect(),
        by_line: by_line.into_iter().map(line).collect(),
        busiest_link: busiest(index, launches, duration_us.median, expectations),
        path_shares: shares,
        shown_launch,
        shown_call: timeline.launches[shown_launch].call,
        path: steps_of(index, timeline.launches[shown_launch].begin_ns, &shown),
        prediction,
    };
    (report, findings)
}

/// What the critical paths of a group say.
struct GroupPaths<'a> {
    shares: PathShares,
    losses: Losses<'a>,
    /// That of the launch that is shown.
    shown: Vec<PathPiece>,
}

/// Looks at one critical path after the other: all together may need more memory than the
/// recordings.
fn paths<'a>(facts: &GroupFacts<'a>, paces: &Paces, shown_launch: usize) -> GroupPaths<'a> {
    let index = facts.index;
    let (shares, losses, shown) = (PathShares::default(), Losses::default(), Vec::new());
    let mut of_group = GroupPaths { shares, losses, shown };
    for &number in facts.launches {
        let path = path(index, &index.timeline.launches[number]);
        of_group.shares.add(index, &path, facts.launches.len());
        of_group.losses.add(facts, paces, number, &path);
        if number == shown_launch {
            of_group.shown = path;
        }
    }
    of_group
}

/// The launch that is shown: one of median duration; beside a prediction, for which all ranks begin
/// at once, the one in which they nearly do.
fn shown(
    arrivals: &[Option<Arrival>],
    durations_us: &[f64],
    prediction: Option<&Prediction>,
) -> usize {
    let typical_us = median(&mut durations_us.to_vec());
    let distance = |at: usize| match prediction {
        None => (durations_us[at] - typical_us).abs(),
        Some(_) => arrivals[at].map_or(0.0, |arrival| arrival.skew_ns),
    };
    let nearest =
        (0..durations_us.len()).min_by(|one, other| distance(*one).total_cmp(&distance(*other)));
    nearest.unwrap_or(0)
}

/// How a group is called.
struct Names {
    name: String,
    data_type: Option<String>,
    reduction: Option<String>,
    placement: Option<String>,
    kernel: String,
    reason: String,
    program: Option<String>,
    bytes: u64,
}

impl Names {
    fn of(index: &Index<'_>, group: &Group) -> Self {
        let known = group.shape.map(|(rank, shape)| {
            let rank = &index.timeline.ranks[rank];
            (rank, &rank.shapes[&shape])
        });
        let Some((rank, shape)) = known else {
            return Self {
                name: "calls of unknown shape".to_owned(),
                data_type: None,
                reduction: None,
                placement: None,
                kernel: String::new(),
                reason: String::new(),
                program: None,
                bytes: 0,
            };
        };
        let (Work::Plan { kernel, .. } | Work::Exchange { kernel, .. }) = &shape.work;
        let plan = plan_of(rank, shape);
        let algorithm =
            plan.map(|plan| format!(" by {}", short(&plan.algorithm))).unwrap_or_default();
        Self {
            name: format!("{} of {}{algorithm}", shape.collective, size(shape.bytes)),
            data_type: Some(shape.data_type.clone()),
            reduction: shape.reduction.clone(),
            placement: Some(shape.placement.clone()),
            kernel: format!("{}, {}, {}", kernel.kind, kernel.protocol, kernel.delivery),
            reason: shape.reason.clone(),
            program: plan.and_then(|plan| plan.source.clone()),
            bytes: shape.bytes,
        }
    }
}

/// `4 MiB`, `1000 bytes`.
pub(super) fn size(bytes: u64) -> String {
    let units = [(30, "GiB"), (20, "MiB"), (10, "KiB")];
    let unit =
        units.into_iter().find(|(bits, _)| bytes >= 1 << bits && bytes.is_multiple_of(1 << bits));
    unit.map_or_else(
        || format!("{bytes} bytes"),
        |(bits, unit)| format!("{} {unit}", bytes >> bits),
    )
}

impl Spread {
    fn of(mut values: Vec<f64>) -> Self {
        let mut at = |part| quantile(&mut values, part);
        Self { least: at(0.0), median: at(0.5), p99: at(0.99), most: at(1.0) }
    }
}

fn last_ranks(index: &Index<'_>, arrivals: &[Arrival]) -> Vec<RankArrival> {
    let mut by_rank: BTreeMap<u32, Vec<f64>> = BTreeMap::new();
    for of in arrivals {
        by_rank.entry(index.rank_number(of.last as u32)).or_default().push(of.late_ns / 1000.0);
    }
    let arrival = |(rank, mut late_us): (u32, Vec<f64>)| RankArrival {
        rank,
        times: late_us.len(),
        late_us: median(&mut late_us),
    };
    let mut last: Vec<_> = by_rank.into_iter().map(arrival).collect();
    last.sort_by_key(|of| std::cmp::Reverse(of.times));
    last
}
