//! The parts of launches in the records of a rank, before steps and links are known.

use std::collections::BTreeMap;

use super::{Completeness, TrackSummary};
use crate::record::{Record, RecordKind};
use crate::recording::Track;

/// A part as it was recorded.
pub(super) struct RawPart<'a> {
    pub track: u32,
    /// The low bits of the number of the call; `None` on named tracks.
    pub call: Option<u32>,
    /// The first step of the launch that it belongs to, of those that its call takes.
    pub first_step: u32,
    pub begin_ns: u64,
    /// Those behind its begin.
    pub records: &'a [Record],
    pub completeness: Completeness,
}

/// The parts of all tracks, and what of the tracks is in none.
pub(super) fn raw_parts(tracks: &BTreeMap<u32, Track>) -> (Vec<TrackSummary>, Vec<RawPart<'_>>) {
    let (mut summaries, mut parts) = (Vec::new(), Vec::new());
    for (&number, track) in tracks {
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
fn named_piece(track: u32, records: &[Record]) -> Option<RawPart<'_>> {
    let (first, rest) = records.split_first()?;
    Some(RawPart {
        track,
        call: None,
        first_step: 0,
        begin_ns: first.time_ns,
        records: rest,
        completeness: Completeness::Whole,
    })
}

/// Splits records of a thread block into parts; how many belong to none.
fn split<'a>(track: u32, records: &'a [Record], parts: &mut Vec<RawPart<'a>>) -> u64 {
    let (mut open, mut unassigned): (Option<usize>, u64) = (None, 0);
    let part = |begin: usize, end: usize, completeness| RawPart {
        track,
        call: Some(records[begin].message),
        first_step: records[begin].step,
        begin_ns: records[begin].time_ns,
        records: &records[begin + 1..end],
        completeness,
    };
    for (at, record) in records.iter().enumerate() {
        match (record.kind, open) {
            (RecordKind::Begin, before) => {
                parts.extend(before.map(|begin| part(begin, at, Completeness::Cut)));
                open = Some(at);
            }
            (_, None) => unassigned += 1,
            (RecordKind::End, Some(begin)) => {
                parts.push(part(begin, at + 1, Completeness::Whole));
                open = None;
            }
            (_, Some(_)) => {}
        }
    }
    parts.extend(open.map(|begin| part(begin, records.len(), Completeness::Cut)));
    unassigned
}

/// How many parts each launch has, in order: launches do not overlap, so one ends where a part of
/// another call or a second part of a track begins. All launches that a call takes count as one:
/// each begins with a later step.
pub(super) fn launch_counts(parts: &[RawPart<'_>]) -> Vec<usize> {
    let mut counts: Vec<usize> = Vec::new();
    let mut tracks: Vec<u32> = Vec::new();
    let (mut call, mut first_step) = (None, 0);
    for part in parts.iter().take_while(|part| part.call.is_some()) {
        let is_beside =
            (part.call, part.first_step) == (call, first_step) && !tracks.contains(&part.track);
        let is_next = part.call == call && part.first_step > first_step;
        match counts.last_mut() {
            Some(count) if is_beside || is_next => *count += 1,
            _ => counts.push(1),
        }
        if !is_beside {
            tracks.clear();
            (call, first_step) = (part.call, part.first_step);
        }
        tracks.push(part.track);
    }
    counts
}
