//! From the records of one rank to launches, parts and spans, by the clock of its device.

use std::collections::BTreeMap;

use super::ends::RankLinks;
use super::numbers::LinkTable;
use super::part::PartBuild;
use super::raw::{RawPart, launch_counts, raw_parts};
use super::steps::{BlockSteps, StepTable};
use super::{LinkId, LinkName, Part, RankLaunch, RankTimeline, TrackSummary};
use crate::clock::DeviceClock;
use crate::recording::{Call, Recording};

/// The time of the first record, from which times of the rank count until clocks are aligned.
/// Where there is none: when the clock was first read. Far from its readings a clock is not known.
pub(super) fn epoch_ns(recording: &Recording) -> u64 {
    let pieces = recording.tracks.values().flat_map(|track| &track.pieces);
    let records = pieces.filter_map(|piece| piece.records.first());
    let first_ns = records.map(|record| record.time_ns).min();
    let read_ns = || recording.clock.first().map(|sample| sample.device_ns);
    first_ns.or_else(read_ns).unwrap_or(recording.header.start.monotonic_ns)
}

/// The timeline of a rank by its device's clock, and what its parts do at the ends of links.
pub(super) fn join(recording: Recording, links: &mut LinkTable) -> (RankTimeline, RankLinks) {
    let epoch_ns = epoch_ns(&recording);
    let Recording { header, plans, shapes, calls, ending, clock: _, peer_clocks: _, tracks } =
        recording;
    let (tracks, mut raw) = raw_parts(&tracks);
    let calls: BTreeMap<_, _> = calls.into_iter().map(|call| (call.number, call)).collect();
    raw.sort_by_key(|part| (part.call.is_none(), part.begin_ns, part.track));
    let counts = launch_counts(&raw);
    let (of_launches, of_named) = raw.split_at_mut(counts.iter().sum());
    let mut table = StepTable::new(header.rank, &plans, &shapes, links);
    let mut build = PartBuild::new(epoch_ns, of_launches.iter().chain(&*of_named));
    let (launches, mut parts) =
        join_launches(of_launches, &counts, ShownCalls::new(&calls), &mut table, &mut build);
    for part in of_named {
        let link = named_link(&tracks, part.track, &mut table);
        parts.push(named_part(part, link, &mut build));
    }
    let (spans, of_links) = build.finish();
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

/// The calls by the low bits of their numbers, which records show.
struct ShownCalls {
    /// By these bits, in order; of several calls, the last.
    calls: Vec<(u32, ShownCall)>,
    /// Where the one stands that was looked up last.
    at: usize,
}

#[derive(Clone, Copy)]
struct ShownCall {
    number: u64,
    shape: u32,
}

impl ShownCalls {
    fn new(calls: &BTreeMap<u64, Call>) -> Self {
        let shown = |(&number, call): (&u64, &Call)| {
            (number as u32, ShownCall { number, shape: call.shape })
        };
        let mut calls: Vec<_> = calls.iter().map(shown).collect();
        calls.sort_by_key(|(low, _)| *low);
        calls.dedup_by(|next, one| {
            let is_same = next.0 == one.0;
            if is_same {
                *one = *next;
            }
            is_same
        });
        Self { calls, at: 0 }
    }

    /// The call that records show, if it was recorded. Most launches are of the call behind that of
    /// the launch before; replays of a graph, of the same.
    fn find(&mut self, low: u32) -> Option<ShownCall> {
        let is_shown = |at: &usize| self.calls.get(*at).is_some_and(|call| call.0 == low);
        self.at = match [self.at, self.at + 1].into_iter().find(is_shown) {
            Some(near) => near,
            None => self.calls.binary_search_by_key(&low, |call| call.0).ok()?,
        };
        Some(self.calls[self.at].1)
    }
}

/// The launches of a rank and their parts. `counts` says how many of `raw` each has.
fn join_launches(
    mut raw: &mut [RawPart<'_>],
    counts: &[usize],
    mut calls: ShownCalls,
    table: &mut StepTable<'_>,
    build: &mut PartBuild,
) -> (Vec<RankLaunch>, Vec<Part>) {
    let mut launches = Vec::with_capacity(counts.len());
    let mut parts = Vec::with_capacity(raw.len());
    for &count in counts {
        let Some(of_launch) = raw.split_off_mut(..count) else { break };
        of_launch.sort_by_key(|part| part.track);
        let low = of_launch.first().and_then(|part| part.call).unwrap_or(0);
        let known = calls.find(low);
        let call = known.map_or(low.into(), |call| call.number);
        let shape = known.map(|call| call.shape);
        let first = parts.len();
        for part in &*of_launch {
            let steps = table.of(shape, part.track, part.first_step);
            parts.push(build.part(part, launches.len() as u32, &steps));
        }
        let times = |of: fn(&Part) -> f64| parts[first..].iter().map(of);
        let begin_ns = times(|part| part.begin_ns).fold(f64::MAX, f64::min);
        let end_ns = times(|part| part.end_ns).fold(f64::MIN, f64::max);
        launches.push(RankLaunch { call, shape, parts: first..parts.len(), begin_ns, end_ns });
    }
    (launches, parts)
}

/// The link of a named track, if it has one.
fn named_link(tracks: &[TrackSummary], track: u32, table: &mut StepTable<'_>) -> Option<LinkId> {
    let of_track = tracks.iter().find(|of| of.track == track)?;
    let link = of_track.named.as_ref()?.link.as_ref()?;
    let (from, to, protocol) = (link.from, link.to, link.protocol.clone());
    Some(table.link(LinkName { from, to, protocol, wire: link.wire }))
}

fn named_part(raw: &RawPart<'_>, link: Option<LinkId>, build: &mut PartBuild) -> Part {
    let part = build.part(raw, 0, &BlockSteps::default());
    build.spans[part.spans.clone()].iter_mut().for_each(|span| span.link = link);
    part
}
