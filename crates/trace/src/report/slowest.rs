//! The step that holds one launch up most.

use super::critical::{PieceKind, path};
use super::index::Index;
use super::moves::Expected;
use crate::timeline::SpanRef;

/// The step that is marked in a picture.
pub(super) struct SlowestStep {
    pub at: SpanRef,
    /// What is so, in one sentence.
    pub text: String,
}

/// The piece of the critical path that takes longest, beyond what others like it take.
pub(super) fn slowest(
    index: &Index<'_>,
    number: usize,
    expected: &Expected,
) -> Option<SlowestStep> {
    let pieces = path(index, &index.timeline.launches[number]).into_iter();
    let known = pieces.filter_map(|piece| {
        let (at, expected_ns, what) = match piece.kind {
            PieceKind::Begin { .. } => return None,
            PieceKind::Span(at) => {
                let placed = index.placed(at);
                let expected_ns = placed.and_then(|placed| expected.move_ns(index, &placed));
                (at, expected_ns, "it takes")
            }
            PieceKind::Transit { link, wait } => {
                let bytes = index.awaited(wait).map_or(0, |message| message.bytes);
                (wait, expected.transit_ns(index, link, bytes), "its message is on its way for")
            }
            PieceKind::Credit { wait, .. } => (wait, None, "it waits for room for"),
            PieceKind::Signal { wait } => (wait, None, "it waits for another thread block for"),
            PieceKind::Turn { wait } => (wait, None, "it waits for its turn for"),
        };
        Some((piece.duration_ns() - expected_ns.unwrap_or(0.0), at, expected_ns, what, piece))
    });
    let (_, at, expected_ns, what, piece) = known.max_by(|one, other| one.0.total_cmp(&other.0))?;
    let placed = index.placed(at)?;
    let line = placed.step.and_then(|step| step.line);
    let line = line.map(|line| format!(", line {line}")).unwrap_or_default();
    let others = expected_ns.map(|ns| format!(", others like it {:.1} µs", ns / 1000.0));
    let text = format!(
        "The slowest step of the critical path is step {} of thread block {} of rank {}{line}: \
         {what} {:.1} µs{}.",
        index.timeline.span(at).step,
        placed.part.thread_block(),
        index.rank_number(at.rank),
        piece.duration_ns() / 1000.0,
        others.unwrap_or_default(),
    );
    Some(SlowestStep { at, text })
}
