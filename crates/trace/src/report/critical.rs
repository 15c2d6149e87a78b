//! The critical path of a launch: from its end back to what each span waited for.
//!
//! A move and the end of a part wait for the span before. A wait for data was for a message, which
//! is on its way since its sender's move ended; a wait for room for the last move that took from
//! the link; a wait for a thread block for the step that it names. Where what a wait was for is not
//! known, the span before counts.
//!
//! On host threads one thread executes all thread blocks of a rank. A wait that was over while the
//! thread moved something for another thread block waited for its turn since then, and so did a
//! thread block that begins after that.

use super::index::Index;
use crate::timeline::{Launch, LinkId, SpanKind, SpanRef};

/// A piece of the critical path.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct PathPiece {
    pub begin_ns: f64,
    pub end_ns: f64,
    pub kind: PieceKind,
}

/// What a piece of the critical path is.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) enum PieceKind {
    /// A span of which all counts: a move, the end of a part, or a wait for something unknown.
    Span(SpanRef),
    /// A message is on its way to a wait.
    Transit { link: LinkId, wait: SpanRef },
    /// Room of a link is on its way back to a wait.
    Credit { link: LinkId, wait: SpanRef },
    /// A thread block learns that another has ended a step.
    Signal { wait: SpanRef },
    /// The host thread has come back from another thread block.
    Turn { wait: SpanRef },
    /// The path begins: with the begin of this rank's part.
    Begin { rank: usize },
}

impl PathPiece {
    pub fn duration_ns(&self) -> f64 {
        self.end_ns - self.begin_ns
    }
}

/// Waits that are shorter did not wait: it takes as long to look.
const LOOK_NS: f64 = 100.0;

/// The critical path of `launch`, from its begin.
pub(super) fn path(index: &Index<'_>, launch: &Launch) -> Vec<PathPiece> {
    let timeline = index.timeline;
    let lasts = timeline.rank_launches(launch).flat_map(|(rank, of_rank)| {
        let parts = timeline.ranks[rank].parts[of_rank.parts.clone()].iter();
        parts.filter(|part| !part.spans.is_empty()).map(move |part| (rank, part))
    });
    let last = lasts.max_by(|one, other| one.1.end_ns.total_cmp(&other.1.end_ns));
    let Some((rank, part)) = last else { return Vec::new() };
    let mut at = SpanRef { rank: rank as u32, span: part.spans.end as u32 - 1 };
    let mut now_ns = part.end_ns;
    let all = timeline.rank_launches(launch).flat_map(|(rank, of_rank)| {
        timeline.ranks[rank].parts[of_rank.parts.clone()].iter().map(|part| part.spans.len())
    });
    let most = all.sum::<usize>() * 2;
    let mut pieces = Vec::new();
    while pieces.len() < most {
        let cause = cause(index, at, now_ns);
        let (kind, next) = cause.unwrap_or((PieceKind::Span(at), None));
        let span = timeline.span(at);
        let begin_ns = next.map_or(span.begin_ns, |of| timeline.span(of).end_ns).min(now_ns);
        pieces.push(PathPiece { begin_ns, end_ns: now_ns, kind });
        now_ns = begin_ns;
        let first = timeline.ranks[at.rank as usize].parts[index.part_of(at)].spans.start;
        let is_first = at.span as usize == first;
        let before = next.or_else(|| index.turn_before(at, begin_ns).filter(|_| is_first));
        match before {
            Some(before) if next.is_none() => {
                let before_ns = timeline.span(before).end_ns;
                let kind = PieceKind::Turn { wait: at };
                pieces.push(PathPiece { begin_ns: before_ns, end_ns: now_ns, kind });
                (at, now_ns) = (before, before_ns);
            }
            Some(before) => at = before,
            None if !is_first => at.span -= 1,
            None => {
                let kind = PieceKind::Begin { rank: at.rank as usize };
                pieces.push(PathPiece { begin_ns: launch.begin_ns, end_ns: now_ns, kind });
                break;
            }
        }
    }
    pieces.reverse();
    pieces
}

/// What a span waited for: the piece in between, and the span whose end was awaited.
fn cause(index: &Index<'_>, at: SpanRef, now_ns: f64) -> Option<(PieceKind, Option<SpanRef>)> {
    let span = index.timeline.span(at);
    if span.duration_ns() < LOOK_NS {
        return None;
    }
    if let Some(other) = index.turn_of_another(at) {
        return Some((PieceKind::Turn { wait: at }, Some(other)));
    }
    match span.kind {
        SpanKind::Copy | SpanKind::Reduce | SpanKind::Finish => None,
        SpanKind::WaitData => {
            let message = index.awaited(at)?;
            let kind = PieceKind::Transit { link: message.link, wait: at };
            Some((kind, Some(message.send)))
        }
        SpanKind::WaitRoom => {
            let link = span.link?;
            let taken = index.receive_before(link, now_ns)?;
            // What was taken before the wait began had made room already.
            let is_cause = index.timeline.span(taken).end_ns > span.begin_ns;
            is_cause.then_some((PieceKind::Credit { link, wait: at }, Some(taken)))
        }
        SpanKind::WaitBlock => {
            let awaited = index.awaited_step(at, now_ns)?;
            // What ended before the wait began was not waited for.
            let is_cause = index.timeline.span(awaited).end_ns > span.begin_ns;
            is_cause.then_some((PieceKind::Signal { wait: at }, Some(awaited)))
        }
    }
}
