//! How many trees of each root, and which capacity for each pair of ranks.

use std::ops::RangeInclusive;

use msccl_bounds::Bound;
use num_rational::Ratio;

use crate::forest::{Forest, Tree, TreeEdge, Trees, lcm};
use crate::greedy;
use crate::mixed::{Demand, Mixed};
use crate::network::{BYTES_PER_MEGABYTE, Direction, Network};
use crate::pack::{Batch, Edge, PackError, pack};
use crate::share::{Effort, share};
use crate::time_limit::TimeLimit;

/// What is looked for.
pub(crate) struct Search<'a> {
    /// Turned round, if `direction` says so.
    pub network: &'a Network,
    pub direction: Direction,
    pub roots: Vec<usize>,
    /// What no schedule can beat.
    pub bound: &'a Bound,
    /// By pair: a rate with which trees may be at the bound, where each root sends at the rate 1.
    pub rates: Option<&'a [f64]>,
    pub chunks_max: u32,
    /// How far from the bound, in parts of it, few trees may be.
    pub slack: Ratio<u128>,
    pub limit: TimeLimit,
}

/// For so many numbers of trees, shares are looked for that are at the bound. Where none of these
/// has any, more trees seldom do.
const MULTIPLES_MAX: usize = 16;

/// How far from a whole number a rate may be, as part of the trees of a root.
const WHOLE: f64 = 1e-6;

/// Capacities for trees.
#[derive(Clone, Debug)]
pub(crate) struct Found {
    trees: u64,
    /// Units of which so many are 1 MB/s.
    units: Ratio<u128>,
    shares: Vec<u64>,
}

impl Found {
    /// Its time for a byte, up to a factor that all have.
    pub fn time(&self) -> Ratio<u128> {
        self.units / u128::from(self.trees)
    }
}

impl Search<'_> {
    /// The trees of `found`.
    pub fn packed(&self, found: Found) -> Result<Forest, PackError> {
        let Found { trees, units: _, shares } = found;
        let demand = self.demand(trees);
        let batches = pack(self.network, &demand, shares, self.limit)?;
        Ok(self.finished(&demand, &batches))
    }

    /// Trees that take no time to find.
    pub fn at_once(&self) -> Forest {
        let trees = greedy::trees(self.network, &self.roots);
        Forest::new(1, Trees::Listed(trees), self.network)
    }

    /// Whether the trees of `found` are as near to the bound as few trees must be.
    pub fn is_near(&self, found: &Found) -> bool {
        found.time() <= self.units_at_bound() * (Ratio::from_integer(1) + self.slack)
    }

    fn demand(&self, trees: u64) -> Demand {
        Demand { roots: self.roots.clone(), trees }
    }

    /// Units of capacity for 1 MB/s at the bound, for one tree of each root.
    fn units_at_bound(&self) -> Ratio<u128> {
        self.bound.seconds_per_byte * (self.roots.len() as u128 * BYTES_PER_MEGABYTE)
    }

    /// The fewest trees at the bound.
    ///
    /// At the bound, every link that its witness counts is busy with whole trees, so that their
    /// number is a multiple of what makes these capacities whole.
    pub fn exact(&self) -> Option<Found> {
        let units = self.units_at_bound();
        let rates = self.network.rates_of_busy(self.bound, self.direction);
        let step = rates.iter().map(|rate| *(units * u128::from(*rate)).denom()).fold(1, lcm);
        let step = u64::try_from(step).ok().filter(|step| *step <= u64::from(self.chunks_max))?;
        let multiples = || (1..=u64::from(self.chunks_max) / step).map(|times| times * step);
        let at = |trees: u64| units * u128::from(trees);
        let shared = |trees: u64| self.shared(trees, at(trees), Effort::Exact);
        let found = multiples().take(MULTIPLES_MAX).find_map(shared);
        found.or_else(|| multiples().find_map(|trees| self.given(trees, at(trees))))
    }

    /// The capacities of the given rates, if these are whole numbers of trees that fit.
    fn given(&self, trees: u64, units: Ratio<u128>) -> Option<Found> {
        let carried: Vec<f64> = self.rates?.iter().map(|rate| rate * trees as f64).collect();
        if carried.iter().any(|it| (it - it.round()).abs() > WHOLE * trees as f64) {
            return None;
        }
        let shares: Vec<u64> = carried.iter().map(|it| it.round().max(0.0) as u64).collect();
        let (network, demand) = (self.network, self.demand(trees));
        let fits =
            network.loads(&shares).iter().zip(network.units(units)).all(|(it, of)| *it <= of);
        let suffices =
            || Mixed::only_pairs(network, &demand, shares.clone(), self.limit).suffices();
        (fits && suffices()).then_some(Found { trees, units, shares })
    }

    /// The fewest of `trees` that are within the slack of the bound, or else the nearest; `known`,
    /// if that is as near.
    pub fn near(&self, trees: RangeInclusive<u32>, known: Option<Found>) -> Option<Found> {
        let mut best = known;
        for trees in trees.map(u64::from) {
            if best.as_ref().is_some_and(|best| self.is_near(best)) || self.limit.is_over() {
                break;
            }
            let found = self.least(trees, best.as_ref().map(Found::time), Effort::Even);
            best = found.or(best);
        }
        let best = best?;
        let better = self.least(best.trees, Some(best.time()), Effort::Exact);
        Some(better.unwrap_or(best))
    }

    /// The least capacity that suffices for so many trees and is better than `known`.
    fn least(&self, trees: u64, known: Option<Ratio<u128>>, effort: Effort) -> Option<Found> {
        let candidates = self.candidates(trees, known);
        let mut best = None;
        let (mut low, mut high) = (0, candidates.len());
        while low < high && !self.limit.is_over() {
            let middle = usize::midpoint(low, high);
            match self.shared(trees, candidates[middle], effort) {
                Some(found) => {
                    high = middle;
                    best = Some(found);
                }
                None => low = middle + 1,
            }
        }
        best
    }

    /// Units at which some link gets another whole tree, from the bound up to what is better than
    /// `known`.
    fn candidates(&self, trees: u64, known: Option<Ratio<u128>>) -> Vec<Ratio<u128>> {
        let trees_wide = u128::from(trees);
        let least = self.units_at_bound() * trees_wide;
        let most = known.map_or(least * 8, |known| known * trees_wide);
        let mut all = Vec::new();
        for rate in self.network.rates().into_iter().map(u128::from) {
            let first = (least * rate).ceil().to_integer();
            let last = (most * rate).ceil().to_integer();
            // Units beyond what all trees need are of no use to a link.
            let last = last.min(u128::from(self.demand(trees).all()).max(first) + 1);
            all.extend((first..last).map(|units| Ratio::new(units, rate)));
        }
        all.retain(|units| *units < most);
        all.sort_unstable();
        all.dedup();
        all
    }

    fn shared(&self, trees: u64, units: Ratio<u128>, effort: Effort) -> Option<Found> {
        let (network, demand) = (self.network, self.demand(trees));
        let shares = share(network, &demand, &network.units(units), effort, self.limit)?;
        Some(Found { trees, units, shares })
    }

    fn finished(&self, demand: &Demand, batches: &[Batch]) -> Forest {
        let mut next = vec![0; self.network.gpus.len()];
        let mut trees = Vec::with_capacity(batches.len());
        for Batch { root, trees: chunks, edges } in batches {
            let edge = |edge: &Edge| TreeEdge { parent: edge.from as u32, child: edge.to as u32 };
            let edges = edges.iter().map(edge).collect();
            let (first_chunk, chunks) = (next[*root], *chunks as u32);
            next[*root] += chunks;
            trees.push(Tree { root: *root as u32, first_chunk, chunks, edges });
        }
        let chunks = demand.trees as u32;
        Forest::new(chunks, Trees::Listed(trees), self.network)
    }
}
