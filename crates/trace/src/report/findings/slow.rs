//! Thread blocks and links that are slower than others like them.
//!
//! A thread block is slow if all that it moves is slow. If only what it moves over one link is, or
//! all thread blocks of the link are, the link is slow. A link is also slow if its messages are
//! long on their way.

use std::collections::{BTreeMap, BTreeSet};

use super::{Culprit, Finding, GroupFacts, SourceLine, at_lines, block_of, source_line, us};
use crate::report::critical::PieceKind;
use crate::report::moves::{spans, transit};
use crate::report::statistics::median;
use crate::timeline::SpanRef;

/// How much longer than others is slow.
const SLOW: f64 = 1.5;

/// From sender to receiver.
type Pair = (u32, u32);
/// A rank, and a thread block of its plan.
type Block = (u32, u32);

/// Time that was spent, and that others would have needed.
#[derive(Clone, Copy, Default)]
struct Spent {
    ns: f64,
    expected_ns: f64,
    bytes: u64,
}

impl Spent {
    fn add(&mut self, ns: f64, expected_ns: f64, bytes: u64) {
        self.ns += ns;
        self.expected_ns += expected_ns;
        self.bytes += bytes;
    }

    fn is_slow(&self) -> bool {
        self.ns > SLOW * self.expected_ns
    }

    fn gb_per_s(&self) -> f64 {
        self.bytes as f64 / self.ns.max(1.0)
    }

    fn expected_gb_per_s(&self) -> f64 {
        self.bytes as f64 / self.expected_ns.max(1.0)
    }
}

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

    /// The lines at which most is lost, in their order.
    fn lines(&self) -> Vec<SourceLine> {
        /// A line with less is not named.
        const PART: f64 = 0.2;
        let all: f64 = self.by_line.values().sum();
        let most = self.by_line.iter().filter(|(_, ns)| **ns > PART * all);
        most.map(|(line, _)| line.clone()).collect()
    }
}

pub(super) fn slow_blocks_and_links(facts: &GroupFacts<'_>) -> Vec<Finding> {
    let speeds = Speeds::of(facts);
    let (mut blocks, mut links) = (BTreeMap::new(), BTreeMap::new());
    for (number, path) in facts.launches.iter().zip(facts.paths) {
        for piece in path {
            match piece.kind {
                PieceKind::Span(at) => {
                    let Some(expected_ns) = facts.expected.move_ns(facts.index, at) else {
                        continue;
                    };
                    let lost_ns = piece.duration_ns() - expected_ns;
                    if lost_ns <= 0.0 || !facts.index.timeline.span(at).kind.is_move() {
                        continue;
                    }
                    let line = source_line(facts.index, at);
                    let Some((block, pair)) = move_place(facts, at) else { continue };
                    if speeds.is_slow_block(block) {
                        let loss: &mut Loss = blocks.entry(block).or_default();
                        loss.add(*number, lost_ns, line);
                    } else if let Some(pair) = pair.filter(|pair| speeds.is_slow_link(*pair)) {
                        let loss: &mut Loss = links.entry(pair).or_default();
                        loss.add(*number, lost_ns, line);
                    }
                }
                PieceKind::Transit { link, wait } => {
                    let name = facts.index.timeline.link(link);
                    let pair = (name.from, name.to);
                    let bytes = facts.index.awaited(wait).map_or(0, |message| message.bytes);
                    let expected_ns =
                        facts.expected.transit_ns(facts.index, link, bytes).unwrap_or(0.0);
                    let lost_ns = piece.duration_ns() - expected_ns;
                    if lost_ns > 0.0 && speeds.is_slow_link(pair) {
                        let line = source_line(facts.index, wait);
                        let loss: &mut Loss = links.entry(pair).or_default();
                        loss.add(*number, lost_ns, line);
                    }
                }
                PieceKind::Credit { .. } | PieceKind::Signal { .. } | PieceKind::Begin { .. } => {}
            }
        }
    }
    let blocks = blocks.into_iter().map(|(block, loss)| block_finding(&speeds, block, &loss));
    let links = links.into_iter().map(|(pair, loss)| link_finding(&speeds, pair, &loss));
    let is_worth = |found: &Finding| found.cost_us / found.calls.max(1) as f64 > facts.least_us;
    blocks.chain(links).filter(is_worth).collect()
}

fn block_finding(speeds: &Speeds, block: Block, loss: &Loss) -> Finding {
    let (rank, thread_block) = block;
    let spent = speeds.blocks.get(&block).copied().unwrap_or_default();
    let (gb_per_s, expected) = (spent.gb_per_s(), spent.expected_gb_per_s());
    let (lines, calls) = (loss.lines(), loss.launches.len());
    let text = format!(
        "thread block {thread_block} of rank {rank} is slow at moving: {gb_per_s:.1} GB/s against \
         {expected:.1} of others{}; it costs {} a call",
        at_lines(&lines),
        us(loss.us / calls.max(1) as f64),
    );
    let culprit = Culprit::SlowBlock { rank, thread_block };
    Finding { culprit, text, cost_us: loss.us, calls, lines }
}

fn link_finding(speeds: &Speeds, pair: Pair, loss: &Loss) -> Finding {
    let (from, to) = pair;
    let (lines, calls) = (loss.lines(), loss.launches.len());
    let moves = speeds.link_moves.get(&pair).copied().unwrap_or_default();
    let slowness = match speeds.transits.get(&pair) {
        Some(transit) if transit.is_slow() => format!(
            "a message takes {} to arrive, against {} on others",
            us(transit.typical_ns / 1000.0),
            us(transit.expected_ns / 1000.0),
        ),
        _ => format!(
            "it takes {:.1} GB/s against {:.1} of others",
            moves.gb_per_s(),
            moves.expected_gb_per_s()
        ),
    };
    let text = format!(
        "link {from}→{to} is slow: {slowness}{}; it costs {} a call",
        at_lines(&lines),
        us(loss.us / calls.max(1) as f64),
    );
    Finding { culprit: Culprit::SlowLink { from, to }, text, cost_us: loss.us, calls, lines }
}

/// How long the messages of a link are on their way.
struct Transits {
    typical_ns: f64,
    expected_ns: f64,
}

impl Transits {
    fn is_slow(&self) -> bool {
        self.typical_ns > SLOW * self.expected_ns
    }
}

/// How fast everything is.
struct Speeds {
    blocks: BTreeMap<Block, Spent>,
    /// By thread block and by the link that it sends by, else receives from.
    of_link: BTreeMap<(Block, Option<Pair>), Spent>,
    link_moves: BTreeMap<Pair, Spent>,
    transits: BTreeMap<Pair, Transits>,
}

impl Speeds {
    fn of(facts: &GroupFacts<'_>) -> Self {
        let index = facts.index;
        let (mut blocks, mut of_link) = (BTreeMap::<_, Spent>::new(), BTreeMap::<_, Spent>::new());
        let mut link_moves: BTreeMap<Pair, Spent> = BTreeMap::new();
        let mut transits: BTreeMap<Pair, Vec<(f64, f64)>> = BTreeMap::new();
        for at in spans(index, facts.launches) {
            let span = index.timeline.span(at);
            if let (Some((bytes, ns)), Some(link)) = (transit(index, at), span.link) {
                let expected_ns = facts.expected.transit_ns(index, link, bytes);
                let name = index.timeline.link(link);
                let of_pair = transits.entry((name.from, name.to)).or_default();
                of_pair.push((ns, expected_ns.unwrap_or(0.0)));
            }
            if !span.kind.is_move() {
                continue;
            }
            let Some((block, pair)) = move_place(facts, at) else { continue };
            let Some(expected_ns) = facts.expected.move_ns(index, at) else { continue };
            let add = |spent: &mut Spent| spent.add(span.duration_ns(), expected_ns, span.bytes);
            add(blocks.entry(block).or_default());
            add(of_link.entry((block, pair)).or_default());
            pair.into_iter().for_each(|pair| add(link_moves.entry(pair).or_default()));
        }
        let typical = |(pair, of): (Pair, Vec<(f64, f64)>)| {
            let mut ns: Vec<f64> = of.iter().map(|(ns, _)| *ns).collect();
            let mut expected: Vec<f64> = of.iter().map(|(_, ns)| *ns).collect();
            let typical_ns = median(&mut ns);
            (pair, Transits { typical_ns, expected_ns: median(&mut expected) })
        };
        let transits = transits.into_iter().map(typical).collect();
        Self { blocks, of_link, link_moves, transits }
    }

    /// Whether all that the thread block moves is slow, over each link, and not for a link that is
    /// slow for others, too.
    fn is_slow_block(&self, block: Block) -> bool {
        let own = || self.of_link.iter().filter(move |((of, _), _)| *of == block);
        let mut links = own().filter_map(|((_, pair), _)| *pair);
        let is_shared = |pair: Pair| {
            let others = self.of_link.iter();
            let mut others = others.filter(|((of, at), _)| *of != block && *at == Some(pair));
            others.any(|(_, spent)| spent.is_slow())
        };
        own().next().is_some() && own().all(|(_, spent)| spent.is_slow()) && !links.any(is_shared)
    }

    fn is_slow_link(&self, pair: Pair) -> bool {
        let has_slow_moves = self.link_moves.get(&pair).is_some_and(Spent::is_slow);
        let of_pair = self.of_link.keys().filter(|(_, at)| *at == Some(pair));
        let by_block = of_pair.into_iter().any(|(block, _)| self.is_slow_block(*block));
        let is_late = self.transits.get(&pair).is_some_and(Transits::is_slow);
        (has_slow_moves && !by_block) || is_late
    }
}

/// The thread block of a move, and the pair of ranks of its link.
fn move_place(facts: &GroupFacts<'_>, at: SpanRef) -> Option<(Block, Option<Pair>)> {
    let span = facts.index.timeline.span(at);
    let link = span.link.map(|link| facts.index.timeline.link(link));
    Some((block_of(facts.index, at)?, link.map(|link| (link.from, link.to))))
}
