//! From the records of one rank to launches, parts and spans, by the clock of its device.

use std::collections::{BTreeMap, HashMap};

use super::numbers::{LinkTable, Side};
use super::steps::{BlockSteps, StepFacts, StepTable};
use super::{
    Completeness, LinkId, LinkName, Part, RankLaunch, RankTimeline, Span, SpanKind, TrackSummary,
};
use crate::clock::DeviceClock;
use crate::record::{Record, RecordKind};
use crate::recording::{Recording, Track};

/// One end of a link in a part of a launch: the moves of its messages, in order.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct LinkEndMoves {
    pub link: LinkId,
    pub side: Side,
    /// The launch of the rank.
    pub launch: usize,
    /// The number of the message before the first, if records show it.
    pub base: Option<u32>,
    /// By message, the position of its move in the spans of the rank.
    pub moves: Vec<EndMove>,
}

/// The move of a message at one end.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct EndMove {
    pub span: u32,
    pub wait: Option<u32>,
    pub bytes: u64,
}

/// Waits of a step with several links on one side, of which some had nothing to wait for and left
/// no record: which link each waited for is not recorded.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct OpenWaits {
    pub side: Side,
    /// The positions of the waits in the spans of the rank, in order.
    pub waits: Vec<u32>,
    /// The links of the step.
    pub links: Vec<LinkId>,
    /// The position of the move.
    pub moved: u32,
}

/// What a rank did at the ends of its links.
#[derive(Default)]
pub(super) struct RankLinks {
    pub ends: Vec<LinkEndMoves>,
    pub open: Vec<OpenWaits>,
}

/// A part as it was recorded.
struct RawPart {
    track: u32,
    /// The low bits of the number of the call; `None` on named tracks.
    call: Option<u32>,
    begin_ns: u64,
    records: Vec<Record>,
    completeness: Completeness,
}

/// The time of the first record, from which times of the rank count until clocks are aligned.
pub(super) fn epoch_ns(recording: &Recording) -> u64 {
    let pieces = recording.tracks.values().flat_map(|track| &track.pieces);
    let records = pieces.filter_map(|piece| piece.records.first());
    records.map(|record| record.time_ns).min().unwrap_or(0)
}

/// The timeline of a rank by its device's clock, and what its parts do at the ends of links.
pub(super) fn join(recording: Recording, links: &mut LinkTable) -> (RankTimeline, RankLinks) {
    let epoch_ns = epoch_ns(&recording);
    let (tracks, mut raw) = raw_parts(&recording);
    let Recording { header, plans, shapes, calls, ending, clock: _, peer_clocks: _, tracks: _ } =
        recording;
    let calls: BTreeMap<_, _> = calls.into_iter().map(|call| (call.number, call)).collect();
    let mut numbers: HashMap<u32, u64> = HashMap::new();
    for number in calls.keys() {
        numbers.insert(*number as u32, *number);
    }
    raw.sort_by_key(|part| (part.call.is_none(), part.begin_ns, part.track));
    let counts = launch_counts(&raw);
    let (mut launches, mut parts, mut spans) = (vec![], vec![], vec![]);
    let mut of_links = RankLinks::default();
    let mut table = StepTable::new(header.rank, &plans, &shapes, links);
    let mut raw = raw.into_iter();
    for count in counts {
        let mut of_launch: Vec<RawPart> = raw.by_ref().take(count).collect();
        of_launch.sort_by_key(|part| part.track);
        let low = of_launch.first().and_then(|part| part.call).unwrap_or(0);
        let call = numbers.get(&low).copied().unwrap_or(low.into());
        let shape = calls.get(&call).map(|call| call.shape);
        let first = parts.len();
        for part in of_launch {
            let steps = table.of(shape, part.track);
            let mut build = PartBuild::new(launches.len(), epoch_ns, &steps, &mut spans);
            let built = build.part(&part);
            of_links.ends.append(&mut build.links.ends);
            of_links.open.append(&mut build.links.open);
            parts.push(built);
        }
        let times = |of: fn(&Part) -> f64| parts[first..].iter().map(of);
        let begin_ns = times(|part| part.begin_ns).fold(f64::MAX, f64::min);
        let end_ns = times(|part| part.end_ns).fold(f64::MIN, f64::max);
        launches.push(RankLaunch { call, shape, parts: first..parts.len(), begin_ns, end_ns });
    }
    for part in raw {
        let link = tracks.iter().find(|of| of.track == part.track);
        let link = link.and_then(|of| of.named.as_ref()?.link.as_ref()).map(|of| {
            let (from, to, protocol) = (of.from, of.to, of.protocol.clone());
            table.link(LinkName { from, to, protocol, wire: of.wire })
        });
        parts.push(named_part(&part, epoch_ns, link, &mut spans));
    }
    let clock = DeviceClock::same();
    let rank = RankTimeline {
        header,
        plans,
        shapes,
        calls,
        tracks,
        launches,
        parts,
        spans,
        ending,
        clock,
    };
    (rank, of_links)
}

/// The parts of all tracks, and what of the tracks is in none.
fn raw_parts(recording: &Recording) -> (Vec<TrackSummary>, Vec<RawPart>) {
    let (mut summaries, mut parts) = (Vec::new(), Vec::new());
    for (&number, track) in &recording.tracks {
        let Track { named, pieces, lost } = track;
        let mut unassigned = 0;
        for piece in pieces {
            if named.is_some() {
                parts.extend(named_piece(number, &piece.records));
            } else {
                unassigned += split(number, &piece.records, &mut parts);
            }
        }
        let summary = TrackSummary { track: number, named: named.clone(), lost: *lost, unassigned };
        summaries.push(summary);
    }
    (summaries, parts)
}

/// What a named track did without a loss. Its first record has no span.
fn named_piece(track: u32, records: &[Record]) -> Option<RawPart> {
    let (first, rest) = records.split_first()?;
    Some(RawPart {
        track,
        call: None,
        begin_ns: first.time_ns,
        records: rest.to_vec(),
        completeness: Completeness::Whole,
    })
}

/// Splits records of a thread block into parts; how many belong to none.
fn split(track: u32, records: &[Record], parts: &mut Vec<RawPart>) -> u64 {
    let (mut open, mut unassigned): (Option<RawPart>, u64) = (None, 0);
    for record in records {
        match (record.kind, &mut open) {
            (RecordKind::Begin, before) => {
                parts.extend(before.take());
                open = Some(RawPart {
                    track,
                    call: Some(record.message),
                    begin_ns: record.time_ns,
                    records: Vec::new(),
                    completeness: Completeness::Cut,
                });
            }
            (_, None) => unassigned += 1,
            (RecordKind::End, Some(part)) => {
                part.records.push(*record);
                part.completeness = Completeness::Whole;
                parts.extend(open.take());
            }
            (_, Some(part)) => part.records.push(*record),
        }
    }
    parts.extend(open);
    unassigned
}

/// How many parts each launch has, in order: launches do not overlap, so one ends where a part of
/// another call or a second part of a track begins.
fn launch_counts(parts: &[RawPart]) -> Vec<usize> {
    let mut counts: Vec<usize> = Vec::new();
    let mut tracks: Vec<u32> = Vec::new();
    let mut call = None;
    for part in parts.iter().take_while(|part| part.call.is_some()) {
        match counts.last_mut() {
            Some(count) if part.call == call && !tracks.contains(&part.track) => *count += 1,
            _ => {
                counts.push(1);
                tracks.clear();
                call = part.call;
            }
        }
        tracks.push(part.track);
    }
    counts
}

fn named_part(raw: &RawPart, epoch_ns: u64, link: Option<LinkId>, spans: &mut Vec<Span>) -> Part {
    let steps = BlockSteps::default();
    let mut build = PartBuild::new(0, epoch_ns, &steps, spans);
    let part = build.part(raw);
    spans[part.spans.clone()].iter_mut().for_each(|span| span.link = link);
    part
}

/// A part while its records are read.
struct PartBuild<'a> {
    launch: usize,
    epoch_ns: u64,
    steps: &'a BlockSteps,
    spans: &'a mut Vec<Span>,
    links: RankLinks,
    /// What the ends of links had before the launch, as far as that was recorded.
    counts: HashMap<(LinkId, Side), u32>,
    /// By step: its moves so far.
    moves: HashMap<u32, u32>,
    /// Waits of the step at hand: the position of the span, and the number of the message.
    waits: Vec<(usize, u32)>,
}

impl<'a> PartBuild<'a> {
    fn new(launch: usize, epoch_ns: u64, steps: &'a BlockSteps, spans: &'a mut Vec<Span>) -> Self {
        Self {
            launch,
            epoch_ns,
            steps,
            spans,
            links: RankLinks::default(),
            counts: HashMap::new(),
            moves: HashMap::new(),
            waits: Vec::new(),
        }
    }

    fn part(&mut self, raw: &RawPart) -> Part {
        let epoch_ns = self.epoch_ns;
        let time = |time_ns: u64| time_ns.saturating_sub(epoch_ns) as f64;
        let begin_ns = time(raw.begin_ns);
        let first = self.spans.len();
        let mut last_ns = begin_ns;
        for record in &raw.records {
            if record.kind == RecordKind::Count {
                let end = self.steps.link(record.step);
                self.counts.extend(end.map(|end| (end, record.message)));
                continue;
            }
            // A clock that is read by several threads may step back by a tick.
            let end_ns = time(record.time_ns).max(last_ns);
            let mut span = Span {
                begin_ns: last_ns,
                end_ns,
                kind: SpanKind::Finish,
                step: record.step,
                round: 0,
                link: None,
                bytes: 0,
            };
            let at = self.spans.len();
            match record.kind {
                RecordKind::WaitRoom => {
                    span.kind = SpanKind::WaitRoom;
                    self.waits.push((at, record.message));
                }
                RecordKind::WaitData => {
                    span.kind = SpanKind::WaitData;
                    self.waits.push((at, record.message));
                }
                RecordKind::WaitBlock => {
                    span.kind = SpanKind::WaitBlock;
                    self.waits.push((at, 0));
                }
                RecordKind::Move => self.end_move(&mut span, at, record.message),
                RecordKind::Begin | RecordKind::End | RecordKind::Count => {}
            }
            self.spans.push(span);
            last_ns = end_ns;
        }
        Part {
            track: raw.track,
            place: self.steps.place,
            spans: first..self.spans.len(),
            begin_ns,
            end_ns: last_ns,
            completeness: raw.completeness,
        }
    }

    /// Fills in the span of a move, and those of the waits before it.
    fn end_move(&mut self, span: &mut Span, at: usize, message: u32) {
        span.kind = SpanKind::Copy;
        let waits = std::mem::take(&mut self.waits);
        let steps = self.steps;
        let Some(step) = steps.step(span.step) else { return };
        let before = self.moves.entry(span.step).or_default();
        let facts = step.move_facts(*before);
        *before += 1;
        span.kind = if step.reduces { SpanKind::Reduce } else { SpanKind::Copy };
        (span.round, span.bytes) = (facts.round, facts.bytes);
        span.link = step.sends.first().or(step.receives.first()).copied();
        let moved = EndMove { span: at as u32, wait: None, bytes: facts.bytes };
        for side in [Side::Receive, Side::Send] {
            self.advance(step, side, moved, &waits, message);
        }
        for (at, _) in waits {
            self.spans[at].round = facts.round;
        }
    }

    /// One message more on each link of one side of a step.
    fn advance(
        &mut self,
        step: &StepFacts,
        side: Side,
        moved: EndMove,
        waits: &[(usize, u32)],
        message: u32,
    ) {
        let (links, kind, has_number) = match side {
            Side::Receive => (&step.receives, SpanKind::WaitData, step.sends.is_empty()),
            Side::Send => (&step.sends, SpanKind::WaitRoom, true),
        };
        let waits = waits.iter().filter(|(at, _)| self.spans[*at].kind == kind).copied();
        let waits: Vec<(usize, u32)> = waits.collect();
        // All waits were recorded, or those that did not have to wait were left out.
        let is_complete = waits.len() == links.len();
        if !is_complete && links.len() > 1 && !waits.is_empty() {
            let waits = waits.iter().map(|(at, _)| *at as u32).collect();
            let links = links.clone();
            self.links.open.push(OpenWaits { side, waits, links, moved: moved.span });
        }
        for (position, &link) in links.iter().enumerate() {
            let wait = match is_complete {
                true => Some(waits[position]),
                false if links.len() == 1 => waits.last().copied(),
                false => None,
            };
            if let Some((at, _)) = wait {
                self.spans[at].link = Some(link);
            }
            let launch = self.launch;
            let end = self.end(link, side, launch);
            let shown = match wait {
                Some((_, number)) if is_complete || links.len() == 1 => Some(number),
                _ if position == 0 && has_number => Some(message),
                _ => None,
            };
            // 0 is no number: it was not recorded.
            if let (None, Some(number @ 1..)) = (end.base, shown) {
                end.base = Some(number.wrapping_sub(end.moves.len() as u32 + 1));
            }
            let wait = wait.map(|(at, _)| at as u32).filter(|_| side == Side::Receive);
            end.moves.push(EndMove { wait, ..moved });
        }
    }

    fn end(&mut self, link: LinkId, side: Side, launch: usize) -> &mut LinkEndMoves {
        let base = self.counts.get(&(link, side)).copied();
        let ends = &mut self.links.ends;
        let known = ends.iter().position(|end| end.link == link && end.side == side);
        let at = known.unwrap_or_else(|| {
            ends.push(LinkEndMoves { link, side, launch, base, moves: Vec::new() });
            ends.len() - 1
        });
        &mut ends[at]
    }
}
