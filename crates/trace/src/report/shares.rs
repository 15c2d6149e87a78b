//! Critical paths in figures and words.

use serde::Serialize;

use super::critical::{PathPiece, PieceKind};
use super::index::Index;
use crate::timeline::SpanRef;

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
    /// The thread block of the plan; in an exchange, that of its launch.
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

impl PathShares {
    /// Adds the path of one of so many calls.
    pub(super) fn add(&mut self, index: &Index<'_>, path: &[PathPiece], calls: usize) {
        let part = 1.0 / calls.max(1) as f64 / 1000.0;
        for piece in path {
            let share = match piece.kind {
                PieceKind::Span(at) if index.timeline.span(at).kind.is_move() => &mut self.moves_us,
                PieceKind::Span(_) => &mut self.other_us,
                PieceKind::Transit { .. } => &mut self.transit_us,
                PieceKind::Credit { .. } => &mut self.credit_us,
                PieceKind::Signal { .. } => &mut self.signal_us,
                PieceKind::Turn { .. } => &mut self.turn_us,
                PieceKind::Begin { .. } => &mut self.arrival_us,
            };
            *share += piece.duration_ns() * part;
        }
    }
}

/// A critical path for people.
pub(super) fn steps_of(index: &Index<'_>, launch_ns: f64, path: &[PathPiece]) -> Vec<PathStep> {
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
            thread_block: placed.map(|of| of.part.thread_block()),
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
