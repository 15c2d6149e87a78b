//! The report on calls of one shape.

use std::collections::BTreeMap;

use serde::Serialize;

use super::Expectations;
use super::arrival::{Arrival, arrival};
use super::critical::{PathPiece, PieceKind, path};
use super::deviation::{PredictionReport, compare_with};
use super::findings::{Finding, GroupFacts, SourceLine, findings};
use super::groups::Group;
use super::index::Index;
use super::moves::Expected;
use super::statistics::{median, quantile};
use super::times::{PlacedTimes, Times, placed_times};
use crate::predict::Prediction;
use crate::recording::{CallShapeDescription, PlanDescription, Work};
use crate::timeline::{RankTimeline, SpanRef};

/// Calls of one shape.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct GroupReport {
    /// Collective, size and algorithm.
    pub name: String,
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

/// What a link carries.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct LinkLoad {
    /// The rank that sends.
    pub from: u32,
    /// The rank that receives.
    pub to: u32,
    /// Bytes of a call.
    pub bytes: u64,
    /// Over the duration of a call, in GB/s.
    pub gb_per_s: f64,
    /// What the machine can carry, if it is known, in GB/s.
    pub can_carry_gb_per_s: Option<f64>,
}

/// What critical paths consist of, in µs a call.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize)]
pub struct PathShares {
    /// Until the rank at which the path begins has arrived.
    pub arrival_us: f64,
    /// Moves.
    pub moves_us: f64,
    /// Messages on their way.
    pub transit_us: f64,
    /// Room on its way back.
    pub credit_us: f64,
    /// From one thread block to another.
    pub signal_us: f64,
    /// Host threads on their way back from other thread blocks.
    pub turn_us: f64,
    /// Waits of unknown cause, and the ends of parts.
    pub other_us: f64,
}

/// A piece of a critical path.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct PathStep {
    /// What happens.
    pub what: String,
    /// The rank.
    pub rank: u32,
    /// The thread block of the plan.
    pub thread_block: Option<u32>,
    /// The step.
    pub step: Option<u32>,
    /// The line of its program.
    pub line: Option<u32>,
    /// Since the begin of the launch.
    pub begin_us: f64,
    /// Since the begin of the launch.
    pub end_us: f64,
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
        launches.iter().filter_map(|at| arrival(index, &timeline.launches[*at])).collect();
    let paths: Vec<_> = launches.iter().map(|at| path(index, &timeline.launches[*at])).collect();
    let expected = Expected::of(index, launches);
    let names = Names::of(index, group);
    let facts = GroupFacts {
        index,
        launches,
        paths: &paths,
        expected: &expected,
        least_us: (LEAST_PART * duration_us.median).max(LEAST_US),
        name: &names.name,
    };
    let findings = findings(&facts);
    let shown = shown(index, launches, &durations_us, prediction);
    let shown_launch = launches[shown];
    let PlacedTimes { all, by_rank, by_block, by_link, by_line } = placed_times(index, launches);
    let line = |((program, line), times)| LineTimes { line: SourceLine { program, line }, times };
    let prediction = prediction.map(|of| compare_with(index, shown_launch, of));
    let Names { name, kernel, reason, program, bytes } = names;
    let report = GroupReport {
        name,
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
        path_shares: PathShares::of(index, &paths),
        shown_launch,
        shown_call: timeline.launches[shown_launch].call,
        path: steps_of(index, timeline.launches[shown_launch].begin_ns, &paths[shown]),
        prediction,
    };
    (report, findings)
}

/// The launch that is shown: one of median duration; beside a prediction, for which all ranks begin
/// at once, the one in which they nearly do.
fn shown(
    index: &Index<'_>,
    launches: &[usize],
    durations_us: &[f64],
    prediction: Option<&Prediction>,
) -> usize {
    let typical_us = median(&mut durations_us.to_vec());
    let distance = |at: usize| match prediction {
        None => (durations_us[at] - typical_us).abs(),
        Some(_) => {
            let arrival = arrival(index, &index.timeline.launches[launches[at]]);
            arrival.map_or(0.0, |arrival| arrival.skew_ns)
        }
    };
    let nearest =
        (0..launches.len()).min_by(|one, other| distance(*one).total_cmp(&distance(*other)));
    nearest.unwrap_or(0)
}

/// How a group is called.
struct Names {
    name: String,
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
                kernel: String::new(),
                reason: String::new(),
                program: None,
                bytes: 0,
            };
        };
        let (Work::Plan { kernel, .. } | Work::Exchange { kernel, .. }) = &shape.work;
        let plan = plan_of(rank, shape);
        let algorithm = plan.map(|plan| format!(" by {}", plan.algorithm)).unwrap_or_default();
        Self {
            name: format!("{} of {}{algorithm}", shape.collective, size(shape.bytes)),
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

fn busiest(
    index: &Index<'_>,
    launches: &[usize],
    duration_us: f64,
    expectations: &Expectations,
) -> Option<LinkLoad> {
    let timeline = index.timeline;
    let mut carried: BTreeMap<(u32, u32), u64> = BTreeMap::new();
    let counted: std::collections::BTreeSet<_> = launches.iter().collect();
    let mut launch_of: Vec<Vec<Option<usize>>> =
        timeline.ranks.iter().map(|rank| vec![None; rank.launches.len()]).collect();
    for (number, launch) in timeline.launches.iter().enumerate() {
        for (rank, of_rank) in launch.of_rank.iter().enumerate() {
            of_rank.iter().for_each(|of_rank| launch_of[rank][*of_rank] = Some(number));
        }
    }
    for message in &timeline.messages {
        let rank = message.send.rank as usize;
        let part = index.part_of(message.send);
        let of_rank = timeline.ranks[rank].launches.partition_point(|of| of.parts.end <= part);
        let launch = launch_of[rank].get(of_rank).copied().flatten();
        if launch.is_some_and(|launch| counted.contains(&launch)) {
            let link = timeline.link(message.link);
            *carried.entry((link.from, link.to)).or_default() += message.bytes;
        }
    }
    let can_carry = |pair: &(u32, u32)| expectations.link_gb_per_s.get(pair).copied();
    let load = |(pair, bytes): (&(u32, u32), &u64)| *bytes as f64 / can_carry(pair).unwrap_or(1.0);
    let (pair, bytes) = carried.iter().max_by(|one, other| load(*one).total_cmp(&load(*other)))?;
    let bytes = bytes / launches.len().max(1) as u64;
    let gb_per_s = bytes as f64 / (duration_us * 1000.0).max(1.0);
    let (from, to) = *pair;
    Some(LinkLoad { from, to, bytes, gb_per_s, can_carry_gb_per_s: can_carry(pair) })
}

impl PathShares {
    fn of(index: &Index<'_>, paths: &[Vec<PathPiece>]) -> Self {
        let mut shares = Self::default();
        let part = 1.0 / paths.len().max(1) as f64 / 1000.0;
        for piece in paths.iter().flatten() {
            let share = match piece.kind {
                PieceKind::Span(at) if index.timeline.span(at).kind.is_move() => {
                    &mut shares.moves_us
                }
                PieceKind::Span(_) => &mut shares.other_us,
                PieceKind::Transit { .. } => &mut shares.transit_us,
                PieceKind::Credit { .. } => &mut shares.credit_us,
                PieceKind::Signal { .. } => &mut shares.signal_us,
                PieceKind::Turn { .. } => &mut shares.turn_us,
                PieceKind::Begin { .. } => &mut shares.arrival_us,
            };
            *share += piece.duration_ns() * part;
        }
        shares
    }
}

/// A critical path for people.
fn steps_of(index: &Index<'_>, launch_ns: f64, path: &[PathPiece]) -> Vec<PathStep> {
    let us = |time_ns: f64| (time_ns - launch_ns) / 1000.0;
    let step = |piece: &PathPiece| {
        let link = |link| index.timeline.link(link);
        let (what, at) = match piece.kind {
            PieceKind::Span(at) => (span_text(index, at), Some(at)),
            PieceKind::Transit { link: of, wait } => {
                (format!("message on its way, {}", link(of)), Some(wait))
            }
            PieceKind::Credit { link: of, wait } => {
                (format!("room on its way back, {}", link(of)), Some(wait))
            }
            PieceKind::Signal { wait } => ("signal of another thread block".to_owned(), Some(wait)),
            PieceKind::Turn { wait } => ("turn after another thread block".to_owned(), Some(wait)),
            PieceKind::Begin { .. } => ("arrives".to_owned(), None),
        };
        let rank = match (piece.kind, at) {
            (PieceKind::Begin { rank }, _) => rank as u32,
            (_, Some(at)) => at.rank,
            (_, None) => 0,
        };
        let placed = at.and_then(|at| index.placed(at));
        PathStep {
            what,
            rank: index.rank_number(rank),
            thread_block: placed.and_then(|of| Some(of.part.place?.thread_block)),
            step: placed.and_then(|of| Some(of.step?.index)),
            line: placed.and_then(|of| of.step?.line),
            begin_us: us(piece.begin_ns),
            end_us: us(piece.end_ns),
        }
    };
    path.iter().map(step).collect()
}

fn span_text(index: &Index<'_>, at: SpanRef) -> String {
    let span = index.timeline.span(at);
    let step = index.placed(at).and_then(|placed| placed.step);
    let text = step.map(|step| format!(" {}", step.text)).unwrap_or_default();
    format!("{}{text}", span.kind.name())
}
