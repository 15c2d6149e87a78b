//! Waits that were not recorded: when data came in calls of a few microseconds.
//!
//! Low-latency kernels record no waits, as that takes as long as what is to be seen. But a move
//! cannot end before the last of the messages that it receives was sent. So it is cut there: what
//! lies before is taken for a wait for that message. That needs one clock. Messages arrive while
//! they are sent, so the wait may be too long by what was left to be sent.

use std::ops::Range;

use super::{LinkId, RankTimeline, Span, SpanKind, SpanRef, Timeline};
use crate::recording::{CallShapeDescription, Work};

/// Kernels that record no waits, as [`crate::recording::KernelDescription::kind`] names them.
const WITHOUT_WAITS: &str = "low-latency";

/// No message.
const NONE: u32 = u32::MAX;

/// A move that is cut at a time, and the message that came then.
struct Cut {
    /// The position of its span.
    moved: u32,
    there_ns: f64,
    /// The position in [`Timeline::messages`].
    message: usize,
    link: LinkId,
}

/// Cuts the moves of launches whose kernels record no waits.
pub(super) fn cut(timeline: &mut Timeline) {
    let ranks = 0..timeline.ranks.len();
    let cuts: Vec<Vec<Cut>> = ranks.map(|rank| cuts(timeline, rank)).collect();
    if cuts.iter().all(Vec::is_empty) {
        return;
    }
    let with_cuts = timeline.ranks.iter_mut().zip(&cuts);
    let places: Vec<Vec<u32>> = with_cuts.map(|(rank, cuts)| apply(rank, cuts)).collect();
    for message in &mut timeline.messages {
        for at in [&mut message.send, &mut message.receive].into_iter().chain(&mut message.wait) {
            at.span = places[at.rank as usize][at.span as usize];
        }
    }
    for cut in cuts.iter().flatten() {
        let message = &mut timeline.messages[cut.message];
        message.wait = Some(SpanRef { span: message.receive.span - 1, ..message.receive });
    }
}

/// What is cut of a rank, in the order of its spans.
fn cuts(timeline: &Timeline, rank: usize) -> Vec<Cut> {
    let of_rank = &timeline.ranks[rank];
    let launches = of_rank.launches.iter();
    let launches = launches.filter(|launch| of_rank.shape(launch).is_some_and(records_no_waits));
    let spans: Vec<Range<usize>> = launches.map(|launch| of_rank.spans_of(launch)).collect();
    if spans.is_empty() {
        return Vec::new();
    }
    let last = last_messages(timeline, rank);
    let cut = |at: usize| {
        let message = last[at] as usize;
        let sent = timeline.messages.get(message)?;
        let sent_ns = timeline.span(sent.send).end_ns;
        let Span { begin_ns, end_ns, .. } = of_rank.spans[at];
        let (moved, there_ns) = (at as u32, sent_ns.min(end_ns));
        (begin_ns < there_ns).then_some(Cut { moved, there_ns, message, link: sent.link })
    };
    spans.into_iter().flatten().filter_map(cut).collect()
}

/// By span of a rank: if it is a move that receives, the message that was sent last.
fn last_messages(timeline: &Timeline, rank: usize) -> Vec<u32> {
    let mut last = vec![NONE; timeline.ranks[rank].spans.len()];
    let sent_ns = |number: u32| timeline.span(timeline.messages[number as usize].send).end_ns;
    for (number, message) in (0..).zip(&timeline.messages) {
        if message.receive.rank as usize != rank {
            continue;
        }
        let known = &mut last[message.receive.span as usize];
        if *known == NONE || sent_ns(number) > sent_ns(*known) {
            *known = number;
        }
    }
    last
}

fn records_no_waits(shape: &CallShapeDescription) -> bool {
    let (Work::Plan { kernel, .. } | Work::Exchange { kernel, .. }) = &shape.work;
    kernel.kind == WITHOUT_WAITS
}

/// Puts a wait before each move that is cut; where each span then is.
fn apply(rank: &mut RankTimeline, cuts: &[Cut]) -> Vec<u32> {
    let count = rank.spans.len();
    let mut places = Vec::with_capacity(count);
    let mut next = cuts.iter().peekable();
    for at in 0..count as u32 {
        let before = places.last().map_or(0, |last| last + 1);
        places.push(before + u32::from(next.next_if(|cut| cut.moved == at).is_some()));
    }
    // From the end, so that no span is overwritten before it has moved: there may be millions, and
    // so there is no second list of them.
    let Some(&last) = rank.spans.last() else { return places };
    rank.spans.resize(count + cuts.len(), last);
    let mut cuts = cuts.iter().rev().peekable();
    for (at, &place) in places.iter().enumerate().rev() {
        let mut span = rank.spans[at];
        if let Some(cut) = cuts.next_if(|cut| cut.moved as usize == at) {
            let (kind, end_ns, link) = (SpanKind::WaitData, cut.there_ns, Some(cut.link));
            rank.spans[place as usize - 1] = Span { kind, end_ns, link, bytes: 0, ..span };
            span.begin_ns = end_ns;
        }
        rank.spans[place as usize] = span;
    }
    // A span begins behind the one before it.
    let start = |at: usize| at.checked_sub(1).map_or(0, |before| places[before] as usize + 1);
    for part in &mut rank.parts {
        part.spans = start(part.spans.start)..start(part.spans.end);
    }
    places
}
