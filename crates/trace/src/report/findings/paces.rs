//! How fast thread blocks and links are, beside others.
//!
//! What counts is the median of how much longer something takes than the fastest quarter of all
//! that is alike: one thread that loses its processor for a while makes nothing slow. On a busy
//! machine all take longer, so what is slow must take longer than the fastest quarter of the thread
//! blocks, or links, do in their median.

use std::collections::{BTreeMap, BTreeSet};

use super::{GroupFacts, block_of};
use crate::report::moves::transit;
use crate::report::placed::Placed;
use crate::report::statistics::{median, quantile};
use crate::timeline::Span;

/// From sender to receiver.
pub(super) type Pair = (u32, u32);
/// A rank, and a thread block of its plan.
pub(super) type Block = (u32, u32);

/// How much longer than others is slow.
const SLOW: f64 = 1.5;

/// What others reach: a quarter of them are as fast.
const PART: f64 = 0.25;

/// How long something takes, beside what is alike.
#[derive(Default)]
struct Samples {
    /// How much longer each takes.
    factors: Vec<f64>,
    total: Total,
}

/// How long all of something should take.
#[derive(Clone, Copy, Default)]
struct Total {
    expected_ns: f64,
    bytes: u64,
}

impl Total {
    fn add(&mut self, expected_ns: f64, bytes: u64) {
        self.expected_ns += expected_ns;
        self.bytes += bytes;
    }
}

impl Samples {
    fn add(&mut self, factor: f64, expected_ns: f64, bytes: u64) {
        self.factors.push(factor);
        self.total.add(expected_ns, bytes);
    }
}

/// How fast something is.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Pace {
    /// How much longer it takes than what is alike, in the middle.
    factor: f64,
    /// The same of others.
    usual_factor: f64,
    /// Of what is alike.
    expected_gb_per_s: f64,
}

impl Pace {
    /// Whether it takes much longer than others do.
    pub fn is_slow(&self) -> bool {
        self.factor > SLOW * self.usual_factor
    }

    /// What it moves.
    pub fn gb_per_s(&self) -> f64 {
        self.expected_gb_per_s / self.factor.max(f64::MIN_POSITIVE)
    }

    /// What others move.
    pub fn usual_gb_per_s(&self) -> f64 {
        self.expected_gb_per_s / self.usual_factor
    }
}

/// How long messages are on their way.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct TransitPace {
    pace: Pace,
    /// In the middle.
    pub typical_ns: f64,
}

impl TransitPace {
    /// Whether it takes much longer than others do.
    pub fn is_slow(&self) -> bool {
        self.pace.is_slow()
    }

    /// What others take for the same.
    pub fn usual_ns(&self) -> f64 {
        let Pace { factor, usual_factor, expected_gb_per_s: _ } = self.pace;
        self.typical_ns * usual_factor / factor.max(f64::MIN_POSITIVE)
    }
}

/// The paces of things of one kind, each with how much longer its moves take.
fn paces<Key: Ord>(samples: impl Iterator<Item = (Key, Vec<f64>, Total)>) -> BTreeMap<Key, Pace> {
    let pace = |(key, mut factors, total): (Key, Vec<f64>, Total)| {
        let pace = Pace {
            factor: median(&mut factors),
            usual_factor: 1.0,
            expected_gb_per_s: total.bytes as f64 / total.expected_ns.max(1.0),
        };
        (key, pace)
    };
    let mut paces: BTreeMap<Key, Pace> = samples.map(pace).collect();
    let mut factors: Vec<f64> = paces.values().map(|pace| pace.factor).collect();
    let usual_factor = quantile(&mut factors, PART).max(1.0);
    paces.values_mut().for_each(|pace| pace.usual_factor = usual_factor);
    paces
}

/// What moves take. There may be millions: each is kept once, whatever is asked of them.
#[derive(Default)]
struct MoveSamples {
    of_link: BTreeMap<(Block, Option<Pair>), Samples>,
    blocks: BTreeMap<Block, Total>,
    links: BTreeMap<Pair, Total>,
}

impl MoveSamples {
    fn add(&mut self, (block, pair): (Block, Option<Pair>), span: &Span, expected_ns: f64) {
        let (factor, bytes) = (span.duration_ns() / expected_ns.max(1.0), span.bytes);
        self.of_link.entry((block, pair)).or_default().add(factor, expected_ns, bytes);
        self.blocks.entry(block).or_default().add(expected_ns, bytes);
        if let Some(pair) = pair {
            self.links.entry(pair).or_default().add(expected_ns, bytes);
        }
    }

    /// How much longer moves take that are meant.
    fn factors(&self, is_meant: impl Fn(Block, Option<Pair>) -> bool) -> Vec<f64> {
        let meant = self.of_link.iter().filter(|((block, pair), _)| is_meant(*block, *pair));
        let meant: Vec<&[f64]> = meant.map(|(_, samples)| &samples.factors[..]).collect();
        meant.concat()
    }

    fn blocks(&self) -> BTreeMap<Block, Pace> {
        paces(
            self.blocks
                .iter()
                .map(|(key, total)| (*key, self.factors(|block, _| block == *key), *total)),
        )
    }

    fn links(&self) -> BTreeMap<Pair, Pace> {
        paces(
            self.links
                .iter()
                .map(|(key, total)| (*key, self.factors(|_, pair| pair == Some(*key)), *total)),
        )
    }
}

/// How long messages take, by link.
#[derive(Default)]
struct TransitSamples {
    factors: BTreeMap<Pair, Samples>,
    ns: BTreeMap<Pair, Vec<f64>>,
}

impl TransitSamples {
    fn add(&mut self, pair: Pair, ns: f64, expected_ns: f64, bytes: u64) {
        let factor = ns / expected_ns.max(1.0);
        self.factors.entry(pair).or_default().add(factor, expected_ns, bytes);
        self.ns.entry(pair).or_default().push(ns);
    }

    fn paces(mut self) -> BTreeMap<Pair, TransitPace> {
        let factors = self.factors.into_iter();
        let paces = paces(factors.map(|(pair, of)| (pair, of.factors, of.total)));
        let typical = |(pair, pace)| {
            let typical_ns = self.ns.get_mut(&pair).map_or(0.0, |ns| median(ns));
            (pair, TransitPace { pace, typical_ns })
        };
        paces.into_iter().map(typical).collect()
    }
}

/// How fast everything is.
pub(in crate::report) struct Paces {
    /// By thread block.
    pub(super) blocks: BTreeMap<Block, Pace>,
    /// By thread block and by the link that it sends by, else receives from.
    of_link: BTreeMap<(Block, Option<Pair>), Pace>,
    /// Moves by link.
    pub(super) link_moves: BTreeMap<Pair, Pace>,
    /// Messages on their way.
    pub(super) transits: BTreeMap<Pair, TransitPace>,
    /// Those that are slow: critical paths have millions of pieces, and each asks.
    slow_blocks: BTreeSet<Block>,
    slow_links: BTreeSet<Pair>,
}

impl Paces {
    pub fn of(facts: &GroupFacts<'_>) -> Self {
        let index = facts.index;
        let (mut moves, mut transits) = (MoveSamples::default(), TransitSamples::default());
        for placed in index.spans(facts.launches) {
            let span = placed.span;
            if let (Some((bytes, ns)), Some(link)) = (transit(index, placed.at), span.link) {
                let expected_ns = facts.expected.transit_ns(index, link, bytes).unwrap_or(ns);
                let name = index.timeline.link(link);
                transits.add((name.from, name.to), ns, expected_ns, bytes);
            }
            if !span.kind.is_move() {
                continue;
            }
            let Some(place) = move_place(facts, &placed) else { continue };
            let Some(expected_ns) = facts.expected.move_ns(index, &placed) else { continue };
            moves.add(place, span, expected_ns);
        }
        Self::from_samples(moves, transits)
    }

    fn from_samples(moves: MoveSamples, transits: TransitSamples) -> Self {
        let (blocks, link_moves) = (moves.blocks(), moves.links());
        let of_link = moves.of_link.into_iter();
        let mut paces = Self {
            blocks,
            of_link: paces(of_link.map(|(key, of)| (key, of.factors, of.total))),
            link_moves,
            transits: transits.paces(),
            slow_blocks: BTreeSet::new(),
            slow_links: BTreeSet::new(),
        };
        let blocks = paces.blocks.keys().copied();
        paces.slow_blocks = blocks.filter(|block| paces.all_is_slow(*block)).collect();
        let pairs = paces.link_moves.keys().chain(paces.transits.keys()).copied();
        paces.slow_links = pairs.filter(|pair| paces.has_slow_messages(*pair)).collect();
        paces
    }

    /// Whether critical paths lose nothing anywhere.
    pub(super) fn is_nothing_slow(&self) -> bool {
        self.slow_blocks.is_empty() && self.slow_links.is_empty()
    }

    /// Whether all that the thread block moves is slow, and not for a link that is slow for others,
    /// too.
    pub(super) fn is_slow_block(&self, block: Block) -> bool {
        self.slow_blocks.contains(&block)
    }

    /// Whether what goes over a link is slow, whoever moves it, or long on its way.
    pub(super) fn is_slow_link(&self, pair: Pair) -> bool {
        self.slow_links.contains(&pair)
    }

    /// Whether all that the thread block moves is slow, over each link, and not for a link that is
    /// slow for others, too.
    fn all_is_slow(&self, block: Block) -> bool {
        let own = || self.of_link.iter().filter(move |((of, _), _)| *of == block);
        let mut links = own().filter_map(|((_, pair), _)| *pair);
        let is_shared = |pair: Pair| {
            let others = self.of_link.iter();
            let mut others = others.filter(|((of, at), _)| *of != block && *at == Some(pair));
            others.any(|(_, pace)| pace.is_slow())
        };
        own().next().is_some() && own().all(|(_, pace)| pace.is_slow()) && !links.any(is_shared)
    }

    /// Whether what goes over a link is slow, whoever moves it, or long on its way.
    fn has_slow_messages(&self, pair: Pair) -> bool {
        let has_slow_moves = self.link_moves.get(&pair).is_some_and(Pace::is_slow);
        let of_pair = self.of_link.keys().filter(|(_, at)| *at == Some(pair));
        let by_block = of_pair.into_iter().any(|(block, _)| self.is_slow_block(*block));
        let is_late = self.transits.get(&pair).is_some_and(TransitPace::is_slow);
        (has_slow_moves && !by_block) || is_late
    }
}

/// The thread block of a move, and the pair of ranks of its link.
pub(super) fn move_place(
    facts: &GroupFacts<'_>,
    placed: &Placed<'_>,
) -> Option<(Block, Option<Pair>)> {
    let link = placed.span.link.map(|link| facts.index.timeline.link(link));
    Some((block_of(facts.index, placed)?, link.map(|link| (link.from, link.to))))
}
