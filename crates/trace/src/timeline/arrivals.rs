//! Waits that were not recorded: when data came in calls of a few microseconds.
//!
//! Low-latency kernels record no waits, as that takes as long as what is to be seen. But a move
//! cannot end before the last of the messages that it receives was sent. So it is cut there: what
//! lies before is taken for a wait for that message. That needs one clock. Messages arrive while
//! they are sent, so the wait may be too long by what was left to be sent.

use std::collections::HashMap;

use super::{LinkId, RankTimeline, Span, SpanKind, SpanRef, Timeline};
use crate::recording::{CallShapeDescription, Work};

/// Kernels that record no waits, as [`crate::recording::KernelDescription::kind`] names them.
const WITHOUT_WAITS: &str = "low-latency";

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
    let last = last_messages(timeline);
    let ranks = 0..timeline.ranks.len();
    let cuts: Vec<Vec<Cut>> = ranks.map(|rank| cuts(timeline, rank, &last)).collect();
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

/// By move that receives, the message that was sent last.
fn last_messages(timeline: &Timeline) -> HashMap<SpanRef, usize> {
    let mut last: HashMap<SpanRef, usize> = HashMap::new();
    let sent_ns = |number: usize| timeline.span(timeline.messages[number].send).end_ns;
    for (number, message) in timeline.messages.iter().enumerate() {
        let known = last.entry(message.receive).or_insert(number);
        if sent_ns(number) > sent_ns(*known) {
            *known = number;
        }
    }
    last
}

/// What is cut of a rank, in the order of its spans.
fn cuts(timeline: &Timeline, rank: usize, last: &HashMap<SpanRef, usize>) -> Vec<Cut> {
    let of_rank = &timeline.ranks[rank];
    let launches = of_rank.launches.iter();
    let launches = launches.filter(|launch| of_rank.shape(launch).is_some_and(records_no_waits));
    let parts = launches.flat_map(|launch| &of_rank.parts[launch.parts.clone()]);
    let cut = |at: usize| {
        let (moved, rank) = (at as u32, rank as u32);
        let message = *last.get(&SpanRef { rank, span: moved })?;
        let sent = &timeline.messages[message];
        let sent_ns = timeline.span(sent.send).end_ns;
        let Span { begin_ns, end_ns, .. } = of_rank.spans[at];
        let there_ns = sent_ns.min(end_ns);
        (begin_ns < there_ns).then_some(Cut { moved, there_ns, message, link: sent.link })
    };
    let mut cuts: Vec<Cut> = parts.flat_map(|part| part.spans.clone()).filter_map(cut).collect();
    cuts.sort_by_key(|cut| cut.moved);
    cuts
}

fn records_no_waits(shape: &CallShapeDescription) -> bool {
    let (Work::Plan { kernel, .. } | Work::Exchange { kernel, .. }) = &shape.work;
    kernel.kind == WITHOUT_WAITS
}

/// Puts a wait before each move that is cut; where each span then is.
fn apply(rank: &mut RankTimeline, cuts: &[Cut]) -> Vec<u32> {
    let before = std::mem::take(&mut rank.spans);
    let (mut places, mut starts) = (Vec::with_capacity(before.len()), Vec::new());
    let mut cuts = cuts.iter().peekable();
    for (at, mut span) in (0..).zip(before) {
        starts.push(rank.spans.len());
        if let Some(cut) = cuts.next_if(|cut| cut.moved == at) {
            let (kind, end_ns, link) = (SpanKind::WaitData, cut.there_ns, Some(cut.link));
            rank.spans.push(Span { kind, end_ns, link, bytes: 0, ..span });
            span.begin_ns = end_ns;
        }
        places.push(rank.spans.len() as u32);
        rank.spans.push(span);
    }
    starts.push(rank.spans.len());
    for part in &mut rank.parts {
        part.spans = starts[part.spans.start]..starts[part.spans.end];
    }
    places
}
