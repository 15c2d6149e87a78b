//! What both formats show: processes (ranks), tracks, slices with annotations, counters.

use std::collections::BTreeMap;

use crate::predict::{PlacedPrediction, PredictedStep};
use crate::recording::{KernelDescription, LaunchKind, Work};
use crate::timeline::{Part, RankLaunch, RankTimeline, Span, SpanRef, Timeline};

/// The track of a rank's calls.
pub(super) const CALLS_TRACK: u64 = 0;
/// Tracks of predicted thread blocks begin here; those of recorded ones at 1.
pub(super) const PREDICTED_TRACKS: u64 = 1 << 30;
/// Tracks of counters begin here.
pub(super) const COUNTER_TRACKS: u64 = 1 << 31;

/// A row of a picture.
pub(super) struct TrackName {
    pub rank: usize,
    pub track: u64,
    pub name: String,
}

/// Something with a begin and an end on a track.
#[derive(Clone)]
pub(super) struct Slice {
    pub rank: usize,
    pub track: u64,
    pub name: String,
    pub category: &'static str,
    pub begin_ns: f64,
    pub end_ns: f64,
    pub annotations: Vec<(&'static str, Annotation)>,
    /// The span that it shows, if it shows one.
    pub span: Option<SpanRef>,
}

/// The value of an annotation.
#[derive(Clone)]
pub(super) enum Annotation {
    Number(u64),
    Text(String),
}

/// The rate of the messages from one rank to another changes.
pub(super) struct RateChange {
    pub rank: usize,
    pub to: u32,
    pub time_ns: f64,
    pub gb_per_s: f64,
}

/// `rank 3 of tp (host a)`.
pub(super) fn process_name(rank: &RankTimeline) -> String {
    let header = &rank.header;
    let of = if header.name.is_empty() { String::new() } else { format!(" of {}", header.name) };
    format!("msccl rank {}{of} ({}, process {})", header.rank, header.host, header.process)
}

/// The tracks of all ranks.
pub(super) fn tracks(timeline: &Timeline, predicted: &[PlacedPrediction<'_>]) -> Vec<TrackName> {
    let mut names = Vec::new();
    for (rank, of_rank) in timeline.ranks.iter().enumerate() {
        names.push(TrackName { rank, track: CALLS_TRACK, name: "calls".to_owned() });
        for track in &of_rank.tracks {
            let named = track.named.as_ref().map(|named| named.name.clone());
            let name = named.unwrap_or_else(|| format!("thread block {}", track.track));
            names.push(TrackName { rank, track: u64::from(track.track) + 1, name });
        }
    }
    let mut known = BTreeMap::new();
    for step in predicted.iter().flat_map(|placed| &placed.prediction.steps) {
        let Some(rank) = position(timeline, step.rank) else { continue };
        known.insert((rank, step.thread_block), ());
    }
    names.extend(known.into_keys().map(|(rank, block)| TrackName {
        rank,
        track: PREDICTED_TRACKS + u64::from(block),
        name: format!("thread block {block}, predicted"),
    }));
    names
}

fn position(timeline: &Timeline, rank: u32) -> Option<usize> {
    timeline.ranks.iter().position(|of| of.header.rank == rank)
}

/// The slices of all tracks, by number: of each rank, launches with their spans behind them, then
/// spans of named tracks; behind all ranks, predictions. A slice is made when it is written, as all
/// together need many times the memory of their timeline.
pub(super) struct Slices<'a> {
    timeline: &'a Timeline,
    ranks: Vec<RankSlices>,
    predicted: Vec<Slice>,
}

/// The numbers of the slices of a rank.
struct RankSlices {
    first: usize,
    /// By launch, that of its own slice.
    launches: Vec<usize>,
}

/// What a slice shows.
enum Shown<'a> {
    Launch(usize, &'a RankLaunch),
    /// Of a launch, or of a named track.
    Span(SpanRef, Option<&'a RankLaunch>),
    Predicted(&'a Slice),
}

impl<'a> Slices<'a> {
    pub fn new(timeline: &'a Timeline, predicted: &[PlacedPrediction<'_>]) -> Self {
        let (mut ranks, mut first) = (Vec::new(), 0);
        for rank in &timeline.ranks {
            let number = |(before, launch)| first + before + rank.spans_of(launch).start;
            let launches = rank.launches.iter().enumerate().map(number).collect();
            ranks.push(RankSlices { first, launches });
            first += rank.launches.len() + rank.spans.len();
        }
        let predicted = predictions(timeline, predicted);
        ranks.push(RankSlices { first, launches: Vec::new() });
        Self { timeline, ranks, predicted }
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.ranks.last().map_or(0, |last| last.first) + self.predicted.len()
    }

    /// When a slice begins, and when it ends.
    pub fn times_ns(&self, number: usize) -> [f64; 2] {
        match self.shown(number) {
            Shown::Launch(_, launch) => [launch.begin_ns, launch.end_ns],
            Shown::Span(at, _) => {
                let span = self.timeline.span(at);
                [span.begin_ns, span.end_ns]
            }
            Shown::Predicted(slice) => [slice.begin_ns, slice.end_ns],
        }
    }

    /// A slice.
    pub fn slice(&self, number: usize) -> Slice {
        match self.shown(number) {
            Shown::Launch(rank, launch) => call(rank, &self.timeline.ranks[rank], launch),
            Shown::Span(at, launch) => span(self.timeline, at, launch),
            Shown::Predicted(slice) => slice.clone(),
        }
    }

    fn shown(&self, number: usize) -> Shown<'_> {
        let rank = self.ranks.partition_point(|of| of.first <= number) - 1;
        let RankSlices { first, launches } = &self.ranks[rank];
        let Some(of_rank) = self.timeline.ranks.get(rank) else {
            return Shown::Predicted(&self.predicted[number - first]);
        };
        let launches_before = launches.partition_point(|of| *of <= number);
        let before = launches_before.checked_sub(1).map(|at| (launches[at], &of_rank.launches[at]));
        if let Some((_, launch)) = before.filter(|(own, _)| *own == number) {
            return Shown::Launch(rank, launch);
        }
        let span = number - first - launches_before;
        let launch = before.map(|(_, launch)| launch);
        let launch = launch.filter(|launch| of_rank.spans_of(launch).contains(&span));
        Shown::Span(SpanRef { rank: rank as u32, span: span as u32 }, launch)
    }
}

fn predictions(timeline: &Timeline, predicted: &[PlacedPrediction<'_>]) -> Vec<Slice> {
    let mut slices = Vec::new();
    for PlacedPrediction { launch, prediction } in predicted {
        let Some(begin_ns) = timeline.launches.get(*launch).map(|launch| launch.begin_ns) else {
            continue;
        };
        let steps = prediction.steps.iter();
        slices.extend(steps.filter_map(|step| predicted_step(timeline, begin_ns, step)));
    }
    slices
}

/// The track of a span, in which [`CALLS_TRACK`] is the first.
pub(super) fn track_of(timeline: &Timeline, at: SpanRef) -> u64 {
    track_of_part(part_of(timeline, at))
}

fn track_of_part(part: Option<&Part>) -> u64 {
    part.map_or(0, |part| part.track.into()) + 1
}

fn part_of(timeline: &Timeline, at: SpanRef) -> Option<&Part> {
    let parts = &timeline.ranks[at.rank as usize].parts;
    parts.get(parts.partition_point(|part| part.spans.end <= at.span as usize))
}

fn call(rank: usize, of_rank: &RankTimeline, launch: &RankLaunch) -> Slice {
    let mut annotations = vec![("call", Annotation::Number(launch.call))];
    let mut name = "call".to_owned();
    if let Some(shape) = of_rank.shape(launch) {
        name = format!("{} of {} bytes", shape.collective, shape.bytes);
        let (Work::Plan { kernel, .. } | Work::Exchange { kernel, .. }) = &shape.work;
        let KernelDescription { kind, protocol, delivery, threads } = kernel;
        let text = |text: &String| Annotation::Text(text.clone());
        annotations.extend([
            ("bytes", Annotation::Number(shape.bytes)),
            ("count", Annotation::Number(shape.count)),
            ("data type", text(&shape.data_type)),
            ("placement", text(&shape.placement)),
            ("kernel", text(kind)),
            ("protocol", text(protocol)),
            ("delivery", text(delivery)),
            ("threads", Annotation::Number(u64::from(*threads))),
            ("why", text(&shape.reason)),
        ]);
        annotations.extend(shape.reduction.as_ref().map(|of| ("reduction", text(of))));
    }
    if let Some(plan) = of_rank.plan(launch) {
        name = format!("{name}: {}", plan.algorithm);
        annotations.push(("algorithm", Annotation::Text(plan.algorithm.clone())));
    }
    if of_rank.calls.get(&launch.call).is_some_and(|call| call.launch == LaunchKind::Captured) {
        annotations.push(("launch", Annotation::Text("by a CUDA graph".to_owned())));
    }
    let (begin_ns, end_ns) = (launch.begin_ns, launch.end_ns);
    let (track, category, span) = (CALLS_TRACK, "call", None);
    Slice { rank, track, name, category, begin_ns, end_ns, annotations, span }
}

fn span(timeline: &Timeline, at: SpanRef, launch: Option<&RankLaunch>) -> Slice {
    let rank = at.rank as usize;
    let (of_rank, part) = (&timeline.ranks[rank], part_of(timeline, at));
    let Span { begin_ns, end_ns, kind, step, round, link, bytes } = *timeline.span(at);
    let mut annotations = vec![("step", Annotation::Number(step.into()))];
    let known = launch.and_then(|launch| {
        let step = of_rank.step(launch, part?, step)?;
        Some((of_rank.plan(launch)?, step))
    });
    let mut name = kind.name().to_owned();
    if let Some((plan, step)) = known {
        annotations.push(("does", Annotation::Text(step.text.clone())));
        if let Some(line) = step.line {
            name = format!("{name}, line {line}");
            annotations.push(("line", Annotation::Number(line.into())));
        }
        let program = plan.source.as_ref().unwrap_or(&plan.algorithm);
        annotations.push(("program", Annotation::Text(program.clone())));
    }
    annotations.push(("round", Annotation::Number(round.into())));
    if let Some(link) = link.map(|link| timeline.link(link)) {
        let is_sender = link.from == of_rank.header.rank;
        let peer = if is_sender { link.to } else { link.from };
        annotations.push(("peer", Annotation::Number(peer.into())));
        annotations.push(("link", Annotation::Text(format!("{link}, wire {}", link.wire))));
    }
    if kind.is_move() {
        annotations.push(("bytes", Annotation::Number(bytes)));
    }
    let category = if kind.is_wait() { "wait" } else { "move" };
    let (track, span) = (track_of_part(part), Some(at));
    Slice { rank, track, name, category, begin_ns, end_ns, annotations, span }
}

fn predicted_step(timeline: &Timeline, launch_ns: f64, step: &PredictedStep) -> Option<Slice> {
    let PredictedStep { rank, thread_block, step, round, wait_us: _, begin_us, end_us } = *step;
    let annotations = vec![
        ("step", Annotation::Number(step.into())),
        ("round", Annotation::Number(round.into())),
    ];
    Some(Slice {
        rank: position(timeline, rank)?,
        track: PREDICTED_TRACKS + u64::from(thread_block),
        name: "predicted move".to_owned(),
        category: "predicted",
        begin_ns: launch_ns + begin_us * 1000.0,
        end_ns: launch_ns + end_us * 1000.0,
        annotations,
        span: None,
    })
}

/// The rates of messages while they are sent, by pair of ranks.
pub(super) fn rates(timeline: &Timeline) -> Vec<RateChange> {
    let mut changes: BTreeMap<(usize, u32), Vec<(f64, f64)>> = BTreeMap::new();
    for message in &timeline.messages {
        let sent = timeline.span(message.send);
        let gb_per_s = message.bytes as f64 / sent.duration_ns().max(1.0);
        let to = timeline.link(message.link).to;
        let of_pair = changes.entry((message.send.rank as usize, to)).or_default();
        of_pair.push((sent.begin_ns, gb_per_s));
        of_pair.push((sent.end_ns.max(sent.begin_ns + 1.0), -gb_per_s));
    }
    let mut rates = Vec::new();
    for ((rank, to), mut of_pair) in changes {
        of_pair.sort_by(|one, other| one.0.total_cmp(&other.0));
        let mut gb_per_s = 0.0_f64;
        for (number, (time_ns, change)) in of_pair.iter().enumerate() {
            gb_per_s = f64::max(gb_per_s + change, 0.0);
            let is_last_now = of_pair.get(number + 1).is_none_or(|next| next.0 > *time_ns);
            if is_last_now {
                rates.push(RateChange { rank, to, time_ns: *time_ns, gb_per_s });
            }
        }
    }
    rates
}
