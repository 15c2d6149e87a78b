//! Thread blocks and links that are slower than others like them.
//!
//! A thread block is slow if all that it moves is slow. If only what it moves over one link is, or
//! all thread blocks of the link are, the link is slow. A link is also slow if its messages are
//! long on their way. What that costs is what the critical paths lose there.

use std::collections::{BTreeMap, BTreeSet};

use super::paces::{Block, Pace, Paces, Pair, move_place};
use super::{Culprit, Finding, GroupFacts, SourceLine, at_lines, gb_per_s, most, source_line, us};
use crate::report::critical::{PathPiece, PieceKind};
use crate::timeline::SpanRef;

/// What the critical paths lose at a place.
#[derive(Default)]
struct Loss {
    us: f64,
    launches: BTreeSet<usize>,
    by_line: BTreeMap<SourceLine, f64>,
}

impl Loss {
    fn add(&mut self, launch: usize, ns: f64, line: Option<SourceLine>) {
        self.us += ns / 1000.0;
        self.launches.insert(launch);
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

pub(super) fn slow_blocks_and_links(facts: &GroupFacts<'_>) -> Vec<Finding> {
    let paces = Paces::of(facts);
    let mut losses: BTreeMap<Place, Loss> = BTreeMap::new();
    for (number, path) in facts.launches.iter().zip(facts.paths) {
        for piece in path {
            let Some((place, at, expected_ns)) = slow_place(facts, &paces, piece) else { continue };
            let lost_ns = piece.duration_ns() - expected_ns;
            if lost_ns > 0.0 {
                let line = source_line(facts.index, at);
                losses.entry(place).or_default().add(*number, lost_ns, line);
            }
        }
    }
    let finding = |(place, loss): (Place, Loss)| match place {
        Place::Block(block) => block_finding(&paces, block, loss),
        Place::Link(pair) => link_finding(&paces, pair, loss),
    };
    let is_worth = |found: &Finding| found.cost_us / found.calls.max(1) as f64 > facts.least_us;
    losses.into_iter().map(finding).filter(is_worth).collect()
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
            let expected_ns = facts.expected.move_ns(index, at)?;
            let (block, pair) = move_place(facts, at).filter(|_| is_move(facts, at))?;
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

fn is_move(facts: &GroupFacts<'_>, at: SpanRef) -> bool {
    facts.index.timeline.span(at).kind.is_move()
}

fn block_finding(paces: &Paces, block: Block, loss: Loss) -> Finding {
    let (rank, thread_block) = block;
    let Loss { us: cost_us, launches, by_line } = loss;
    let (lines, calls) = (most(&by_line), launches.len());
    let text = format!(
        "thread block {thread_block} of rank {rank} is slow at moving: {}{}; it costs {} a call",
        rates(paces.blocks.get(&block)),
        at_lines(&lines),
        us(cost_us / calls.max(1) as f64),
    );
    Finding { culprit: Culprit::SlowBlock { rank, thread_block }, text, cost_us, calls, lines }
}

fn link_finding(paces: &Paces, pair: Pair, loss: Loss) -> Finding {
    let (from, to) = pair;
    let Loss { us: cost_us, launches, by_line } = loss;
    let (lines, calls) = (most(&by_line), launches.len());
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
