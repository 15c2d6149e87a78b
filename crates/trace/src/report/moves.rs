//! How long moves and messages take, against others that are alike.

use std::collections::BTreeMap;

use super::index::Index;
use super::placed::Placed;
use super::statistics::quantile;
use crate::timeline::{LinkId, SpanRef};

/// What makes moves of one group alike.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct MoveClass {
    distance: Distance,
    reduces: bool,
    sends: usize,
    receives: usize,
    bundled: u32,
    bytes: u64,
}

/// Whether a link leads to another host.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Distance {
    IntraNode,
    InterNode,
}

/// What others that are alike reach: a quarter of them are as fast.
const PART: f64 = 0.25;

/// Below this, clocks and looks decide how long something takes.
const LEAST_NS: f64 = 100.0;

/// How long moves and messages of a group take.
pub(super) struct Expected {
    moves: BTreeMap<MoveClass, f64>,
    /// From the end of a send to the end of the wait for it.
    transits: BTreeMap<(Distance, u64), f64>,
}

impl Expected {
    /// What the moves of `launches` reach.
    pub fn of(index: &Index<'_>, launches: &[usize]) -> Self {
        let mut moves: BTreeMap<MoveClass, Vec<f64>> = BTreeMap::new();
        let mut transits: BTreeMap<(Distance, u64), Vec<f64>> = BTreeMap::new();
        for placed in index.spans(launches) {
            let span = placed.span;
            if span.kind.is_move() {
                if let Some(class) = class(index, &placed) {
                    moves.entry(class).or_default().push(span.duration_ns());
                }
            } else if let Some((bytes, ns)) = transit(index, placed.at) {
                let distance = distance(index, span.link);
                transits.entry((distance, bytes)).or_default().push(ns);
            }
        }
        let expected = |mut of: Vec<f64>| quantile(&mut of, PART).max(LEAST_NS);
        Self {
            moves: moves.into_iter().map(|(class, of)| (class, expected(of))).collect(),
            transits: transits.into_iter().map(|(class, of)| (class, expected(of))).collect(),
        }
    }

    /// How long a move should take.
    pub fn move_ns(&self, index: &Index<'_>, placed: &Placed<'_>) -> Option<f64> {
        self.moves.get(&class(index, placed)?).copied()
    }

    /// How long a message of so many bytes should be on its way over a link.
    pub fn transit_ns(&self, index: &Index<'_>, link: LinkId, bytes: u64) -> Option<f64> {
        self.transits.get(&(distance(index, Some(link)), bytes)).copied()
    }
}

fn distance(index: &Index<'_>, link: Option<LinkId>) -> Distance {
    match link.is_some_and(|link| index.is_inter_node(link)) {
        true => Distance::InterNode,
        false => Distance::IntraNode,
    }
}

fn class(index: &Index<'_>, placed: &Placed<'_>) -> Option<MoveClass> {
    let (step, span) = (placed.step?, placed.span);
    Some(MoveClass {
        distance: distance(index, span.link),
        reduces: step.shape.reduces(),
        sends: step.sends.len(),
        receives: step.receives.len(),
        bundled: step.bundled,
        bytes: span.bytes,
    })
}

/// Bytes of the message that a span waited for, and since when it had been sent.
pub(super) fn transit(index: &Index<'_>, at: SpanRef) -> Option<(u64, f64)> {
    let span = index.timeline.span(at);
    let message = index.awaited(at)?;
    let sent_ns = index.timeline.span(message.send).end_ns;
    // A wait that did not wait says nothing of when the message came; nor does one of a thread that
    // was busy.
    let has_waited = span.duration_ns() > LEAST_NS && index.turn_of_another(at).is_none();
    has_waited.then_some((message.bytes, (span.end_ns - sent_ns).max(0.0)))
}
