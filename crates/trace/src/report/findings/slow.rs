//! Thread blocks and links that are slower than others like them.
//!
//! A thread block is slow if all that it moves is slow. If only what it moves over one link is, or
//! all thread blocks of the link are, the link is slow. A link is also slow if its messages are
//! long on their way. What that costs is what the critical paths lose there.

use std::collections::BTreeMap;

use super::paces::{Block, Pace, Paces, Pair, move_place};
use super::{Culprit, Finding, GroupFacts, at_lines, gb_per_s, most, us};
use crate::report::critical::{PathPiece, PieceKind};
use crate::report::placed::LineName;
use crate::timeline::SpanRef;

/// What critical paths lose at places that are slow.
#[derive(Default)]
pub(in crate::report) struct Losses<'a> {
    at: BTreeMap<Place, Loss<'a>>,
}

/// What the critical paths lose at a place.
#[derive(Default)]
struct Loss<'a> {
    us: f64,
    /// How many launches lose something, and the last of them.
    launches: usize,
    last_launch: Option<usize>,
    by_line: BTreeMap<LineName<'a>, f64>,
}

impl<'a> Loss<'a> {
    /// Launches must come one after the other.
    fn add(&mut self, launch: usize, ns: f64, line: Option<LineName<'a>>) {
        self.us += ns / 1000.0;
        if self.last_launch.replace(launch) != Some(launch) {
            self.launches += 1;
        }
        if let Some(line) = line {
            *self.by_line.entry(line).or_default() += ns;
        }
    }
}

/// Where time is lost.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Place {
    Block(Block),
    Link(Pair),
}

impl<'a> Losses<'a> {
    /// Adds those of the critical path of a launch, one launch after the other.
    pub fn add(
        &mut self,
        facts: &GroupFacts<'a>,
        paces: &Paces,
        launch: usize,
        path: &[PathPiece],
    ) {
        if paces.is_nothing_slow() {
            return;
        }
        for piece in path {
            let Some((place, at, expected_ns)) = slow_place(facts, paces, piece) else { continue };
            let lost_ns = piece.duration_ns() - expected_ns;
            if lost_ns > 0.0 {
                let line = facts.index.placed(at).and_then(|placed| placed.line());
                self.at.entry(place).or_default().add(launch, lost_ns, line);
            }
        }
    }
}

pub(super) fn slow_blocks_and_links(
    facts: &GroupFacts<'_>,
    paces: &Paces,
    losses: Losses<'_>,
) -> Vec<Finding> {
    let finding = |(place, loss): (Place, Loss<'_>)| match place {
        Place::Block(block) => block_finding(paces, block, loss),
        Place::Link(pair) => link_finding(paces, pair, loss),
    };
    let is_worth = |found: &Finding| found.cost_us / found.calls.max(1) as f64 > facts.least_us;
    losses.at.into_iter().map(finding).filter(is_worth).collect()
}

/// What is slow at a piece of a critical path, the span there, and how long others take.
fn slow_place(
    facts: &GroupFacts<'_>,
    paces: &Paces,
    piece: &PathPiece,
) -> Option<(Place, SpanRef, f64)> {
    let index = facts.index;
    match piece.kind {
        PieceKind::Span(at) => {
            let placed = index.placed(at).filter(|placed| placed.span.kind.is_move())?;
            let expected_ns = facts.expected.move_ns(index, &placed)?;
            let (block, pair) = move_place(facts, &placed)?;
            if paces.is_slow_block(block) {
                return Some((Place::Block(block), at, expected_ns));
            }
            let pair = pair.filter(|pair| paces.is_slow_link(*pair))?;
            Some((Place::Link(pair), at, expected_ns))
        }
        PieceKind::Transit { link, wait } => {
            let name = index.timeline.link(link);
            let pair = (name.from, name.to);
            let bytes = index.awaited(wait).map_or(0, |message| message.bytes);
            let expected_ns = facts.expected.transit_ns(index, link, bytes).unwrap_or(0.0);
            paces.is_slow_link(pair).then_some((Place::Link(pair), wait, expected_ns))
        }
        PieceKind::Credit { .. }
        | PieceKind::Signal { .. }
        | PieceKind::Turn { .. }
        | PieceKind::Begin { .. } => None,
    }
}

fn block_finding(paces: &Paces, block: Block, loss: Loss<'_>) -> Finding {
    let (rank, thread_block) = block;
    let Loss { us: cost_us, launches: calls, last_launch: _, by_line } = loss;
    let lines = most(&by_line);
    let text = format!(
        "thread block {thread_block} of rank {rank} is slow at moving: {}{}; it costs {} a call",
        rates(paces.blocks.get(&block)),
        at_lines(&lines),
        us(cost_us / calls.max(1) as f64),
    );
    Finding { culprit: Culprit::SlowBlock { rank, thread_block }, text, cost_us, calls, lines }
}

fn link_finding(paces: &Paces, pair: Pair, loss: Loss<'_>) -> Finding {
    let (from, to) = pair;
    let Loss { us: cost_us, launches: calls, last_launch: _, by_line } = loss;
    let lines = most(&by_line);
    let slowness = match paces.transits.get(&pair) {
        Some(transit) if transit.is_slow() => format!(
            "a message takes {} to arrive, against {} on others",
            us(transit.typical_ns / 1000.0),
            us(transit.usual_ns() / 1000.0),
        ),
        _ => format!("it takes {}", rates(paces.link_moves.get(&pair))),
    };
    let text = format!(
        "link {from}→{to} is slow: {slowness}{}; it costs {} a call",
        at_lines(&lines),
        us(cost_us / calls.max(1) as f64),
    );
    Finding { culprit: Culprit::SlowLink { from, to }, text, cost_us, calls, lines }
}

/// `0.5 GB/s against 8.2 of others`.
fn rates(pace: Option<&Pace>) -> String {
    let (own, others) = pace.map_or((0.0, 0.0), |pace| (pace.gb_per_s(), pace.usual_gb_per_s()));
    format!("{} GB/s against {} of others", gb_per_s(own), gb_per_s(others))
}
