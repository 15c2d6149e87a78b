//! How fast thread blocks and links are, beside others.
//!
//! What counts is the median of how much longer something takes than the fastest quarter of all
//! that is alike: one thread that loses its processor for a while makes nothing slow. On a busy
//! machine all take longer, so what is slow must take longer than the fastest quarter of the thread
//! blocks, or links, do in their median.

use std::collections::BTreeMap;

use super::{GroupFacts, block_of};
use crate::report::moves::{spans, transit};
use crate::report::statistics::{median, quantile};
use crate::timeline::SpanRef;

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
    ns: Vec<f64>,
    expected_ns: f64,
    bytes: u64,
}

impl Samples {
    fn add(&mut self, ns: f64, expected_ns: f64, bytes: u64) {
        self.factors.push(ns / expected_ns.max(1.0));
        self.ns.push(ns);
        self.expected_ns += expected_ns;
        self.bytes += bytes;
    }
}

/// How fast something is.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Pace {
    /// How much longer it takes than what is alike, in the middle.
    factor: f64,
    /// The same of others.
    usual_factor: f64,
    /// How long it takes, in the middle.
    pub typical_ns: f64,
    /// Of what is alike.
    expected_gb_per_s: f64,
}

impl Pace {
    /// Whether it takes much longer than others do.
    pub fn is_slow(&self) -> bool {
        self.factor > SLOW * self.usual_factor
    }

    /// What others take for the same.
    pub fn usual_ns(&self) -> f64 {
        self.typical_ns * self.usual_factor / self.factor.max(f64::MIN_POSITIVE)
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

/// The paces of things of one kind.
fn paces<Key: Ord>(samples: BTreeMap<Key, Samples>) -> BTreeMap<Key, Pace> {
    let pace = |(key, Samples { mut factors, mut ns, expected_ns, bytes })| {
        let pace = Pace {
            factor: median(&mut factors),
            usual_factor: 1.0,
            typical_ns: median(&mut ns),
            expected_gb_per_s: bytes as f64 / expected_ns.max(1.0),
        };
        (key, pace)
    };
    let mut paces: BTreeMap<Key, Pace> = samples.into_iter().map(pace).collect();
    let mut factors: Vec<f64> = paces.values().map(|pace| pace.factor).collect();
    let usual_factor = quantile(&mut factors, PART).max(1.0);
    paces.values_mut().for_each(|pace| pace.usual_factor = usual_factor);
    paces
}

/// How fast everything is.
pub(super) struct Paces {
    /// By thread block.
    pub blocks: BTreeMap<Block, Pace>,
    /// By thread block and by the link that it sends by, else receives from.
    of_link: BTreeMap<(Block, Option<Pair>), Pace>,
    /// Moves by link.
    pub link_moves: BTreeMap<Pair, Pace>,
    /// Messages on their way.
    pub transits: BTreeMap<Pair, Pace>,
}

impl Paces {
    pub fn of(facts: &GroupFacts<'_>) -> Self {
        let index = facts.index;
        let (mut blocks, mut of_link) = (BTreeMap::<_, Samples>::new(), BTreeMap::new());
        let mut link_moves: BTreeMap<Pair, Samples> = BTreeMap::new();
        let mut transits: BTreeMap<Pair, Samples> = BTreeMap::new();
        for at in spans(index, facts.launches) {
            let span = index.timeline.span(at);
            if let (Some((bytes, ns)), Some(link)) = (transit(index, at), span.link) {
                let expected_ns = facts.expected.transit_ns(index, link, bytes).unwrap_or(ns);
                let name = index.timeline.link(link);
                let of_pair = transits.entry((name.from, name.to)).or_default();
                of_pair.add(ns, expected_ns, bytes);
            }
            if !span.kind.is_move() {
                continue;
            }
            let Some((block, pair)) = move_place(facts, at) else { continue };
            let Some(expected_ns) = facts.expected.move_ns(index, at) else { continue };
            let add =
                |samples: &mut Samples| samples.add(span.duration_ns(), expected_ns, span.bytes);
            add(blocks.entry(block).or_default());
            add(of_link.entry((block, pair)).or_default());
            pair.into_iter().for_each(|pair| add(link_moves.entry(pair).or_default()));
        }
        Self {
            blocks: paces(blocks),
            of_link: paces(of_link),
            link_moves: paces(link_moves),
            transits: paces(transits),
        }
    }

    /// Whether all that the thread block moves is slow, over each link, and not for a link that is
    /// slow for others, too.
    pub fn is_slow_block(&self, block: Block) -> bool {
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
    pub fn is_slow_link(&self, pair: Pair) -> bool {
        let has_slow_moves = self.link_moves.get(&pair).is_some_and(Pace::is_slow);
        let of_pair = self.of_link.keys().filter(|(_, at)| *at == Some(pair));
        let by_block = of_pair.into_iter().any(|(block, _)| self.is_slow_block(*block));
        let is_late = self.transits.get(&pair).is_some_and(Pace::is_slow);
        (has_slow_moves && !by_block) || is_late
    }
}

/// The thread block of a move, and the pair of ranks of its link.
pub(super) fn move_place(facts: &GroupFacts<'_>, at: SpanRef) -> Option<(Block, Option<Pair>)> {
    let span = facts.index.timeline.span(at);
    let link = span.link.map(|link| facts.index.timeline.link(link));
    Some((block_of(facts.index, at)?, link.map(|link| (link.from, link.to))))
}
