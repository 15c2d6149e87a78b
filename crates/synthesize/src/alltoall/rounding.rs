//! Whole chunks on paths over ranks, so that links are about as busy as the linear program allows.
//!
//! At first each chunk takes a path over as few ranks as possible. Then chunks move to other paths,
//! one at a time, while that makes links less busy. The cost of a link grows exponentially with
//! what it would carry for its rate (Aspnes, Azar, Fiat, Plotkin and Waarts 1997), from level to
//! level ever faster, so that in the end only the busiest links count.

use num_rational::Ratio;

use super::graph::RankGraph;
use super::{Exchange, Path};
use crate::time_limit::TimeLimit;

/// What a message costs where the number of messages counts more than all else.
const FEW_MESSAGES: f64 = 1e6;
/// The largest exponent of a cost: costs are finite.
const EXPONENT_MAX: f64 = 600.0;
/// A path is left for one that costs less than this part of it.
const BETTER: f64 = 1.0 - 1e-9;

/// Chunks on paths, and what links carry.
pub(super) struct Rounding<'a> {
    graph: &'a RankGraph<'a>,
    chunks: u32,
    /// By link: of the time that the bound allows, the part that a chunk takes.
    parts: Vec<f64>,
    mean_part: f64,
    /// By link, in chunks.
    loads: Vec<u32>,
    items: Vec<Item>,
}

/// A chunk, and the pairs of its path.
struct Item {
    from: usize,
    to: usize,
    pairs: Vec<usize>,
}

/// What a path costs.
#[derive(Clone, Copy)]
struct Costs {
    /// By how much the cost of a link grows with what it carries.
    exponent: f64,
    /// The cost of a message, as part of that of a link that is as busy as the bound says.
    message: f64,
}

impl<'a> Rounding<'a> {
    /// Chunks without paths, `order` says in which order.
    pub fn new(
        graph: &'a RankGraph<'a>,
        seconds_per_byte: Ratio<u128>,
        chunks: u32,
        order: u64,
    ) -> Self {
        let [time, bytes] = [*seconds_per_byte.numer(), *seconds_per_byte.denom()];
        let bytes_per_s = bytes as f64 / time as f64;
        let chunks_of_call = graph.ranks() as f64 * f64::from(chunks);
        let part = |rate: u64| bytes_per_s / 1e6 / rate.max(1) as f64 / chunks_of_call;
        let links = graph.network.links.iter();
        let parts: Vec<f64> = links.map(|link| part(link.rate_mb_per_s)).collect();
        let mean_part = parts.iter().sum::<f64>() / parts.len().max(1) as f64;
        let loads = vec![0; parts.len()];
        Self { graph, chunks, parts, mean_part, loads, items: items(graph.ranks(), chunks, order) }
    }

    /// A path for each chunk, over as few ranks as possible.
    pub fn over_few_ranks(&mut self, exponent: f64) {
        self.reroute_all(Costs { exponent, message: FEW_MESSAGES }, None);
    }

    /// Moves every chunk to the path that costs least now, as far as there is time. Links that are
    /// far from busy cost less than a message.
    pub fn sweep(&mut self, exponent: f64, limit: TimeLimit) {
        let message = (-exponent / 4.0).exp();
        self.reroute_all(Costs { exponent, message }, Some(limit));
    }

    /// How many ways over pairs a sweep looks at, about.
    pub fn work_of_sweep(&self) -> usize {
        let ranks = self.graph.ranks();
        self.items.len() * (self.graph.network.pairs.len() + ranks * ranks)
    }

    fn reroute_all(&mut self, costs: Costs, limit: Option<TimeLimit>) {
        for item in 0..self.items.len() {
            if limit.is_some_and(TimeLimit::is_over) {
                return;
            }
            self.reroute(item, costs);
        }
    }

    fn reroute(&mut self, item: usize, costs: Costs) {
        let old = std::mem::take(&mut self.items[item].pairs);
        self.add(&old, -1);
        let costs = self.pair_costs(costs);
        let Item { from, to, .. } = self.items[item];
        let ways = self.graph.shortest_ways(from, &costs);
        let new = ways.pairs_to(to, self.graph.network);
        let total = |pairs: &[usize]| pairs.iter().map(|pair| costs[*pair]).sum::<f64>();
        let moves = old.is_empty() || total(&new) < total(&old) * BETTER;
        let chosen = if moves { new } else { old };
        self.add(&chosen, 1);
        self.items[item].pairs = chosen;
    }

    fn pair_costs(&self, Costs { exponent, message }: Costs) -> Vec<f64> {
        let cost = |(load, part): (&u32, &f64)| {
            let busy = f64::from(load + 1) * part;
            part * (exponent * (busy - 1.0)).min(EXPONENT_MAX).exp()
        };
        let costs: Vec<f64> = self.loads.iter().zip(&self.parts).map(cost).collect();
        let costs = self.graph.pair_lengths(&costs).into_iter();
        costs.map(|cost| cost + self.mean_part * message).collect()
    }

    fn add(&mut self, pairs: &[usize], chunks: i32) {
        for link in pairs.iter().flat_map(|pair| &self.graph.network.pairs[*pair].route) {
            self.loads[*link] = self.loads[*link].saturating_add_signed(chunks);
        }
    }

    /// The chunks of a block on one path become neighbours.
    pub fn exchange(&self) -> Exchange {
        let network = self.graph.network;
        let ranks_of = |item: &Item| {
            let ends = item.pairs.iter().map(|pair| network.pairs[*pair].to as u32);
            std::iter::once(item.from as u32).chain(ends).collect::<Vec<u32>>()
        };
        let mut all: Vec<(usize, usize, Vec<u32>)> =
            self.items.iter().map(|item| (item.from, item.to, ranks_of(item))).collect();
        all.sort();
        let mut paths = Vec::new();
        for block in all.chunk_by(|one, other| (one.0, one.1) == (other.0, other.1)) {
            let mut first_chunk = 0;
            for alike in block.chunk_by(|one, other| one.2 == other.2) {
                let chunks = alike.len() as u32;
                paths.push(Path { ranks: alike[0].2.clone(), first_chunk, chunks });
                first_chunk += chunks;
            }
        }
        Exchange::new(self.chunks, paths, network)
    }
}

/// Every chunk of every block. In order 0, neighbours differ in sender and receiver; other orders
/// are without pattern, and the same each time.
fn items(ranks: usize, chunks: u32, order: u64) -> Vec<Item> {
    let distances = (0..chunks).flat_map(|_| 1..ranks);
    let items = distances.flat_map(|distance| {
        let item = move |from| Item { from, to: (from + distance) % ranks, pairs: Vec::new() };
        (0..ranks).map(item)
    });
    let mut items: Vec<Item> = items.collect();
    if order > 0 {
        shuffle(&mut items, order);
    }
    items
}

/// By Fisher and Yates, with numbers by xorshift (Marsaglia 2003).
fn shuffle(items: &mut [Item], seed: u64) {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    for last in (1..items.len()).rev() {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        items.swap(last, (state % (last as u64 + 1)) as usize);
    }
}
