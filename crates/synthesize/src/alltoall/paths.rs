//! The fewest chunks of a block whose paths are near enough to the bound.

use num_rational::Ratio;

use super::Exchange;
use super::graph::RankGraph;
use super::rounding::Rounding;
use crate::time_limit::TimeLimit;

/// By how much the exponent of costs grows from level to level.
const SHARPER: f64 = 1.25;
/// The exponent at first, and at the last level.
const EXPONENTS: [f64; 2] = [4.0, 400.0];
/// Sweeps over all chunks at a level.
const SWEEPS: usize = 2;
/// Orders of chunks that are tried.
const ORDERS: u64 = 8;
/// How many ways over pairs all searches together may look at, about.
const WORK_MAX: usize = 4_000_000_000;

/// What is looked for.
pub(super) struct PathSearch<'a> {
    pub graph: &'a RankGraph<'a>,
    /// What no schedule can beat.
    pub seconds_per_byte: Ratio<u128>,
    pub chunks_max: u32,
    /// How far from the bound, in parts of it, few chunks may be.
    pub slack: Ratio<u128>,
    pub limit: TimeLimit,
}

impl PathSearch<'_> {
    /// The fewest chunks within the slack of the bound, or else the nearest that was found.
    pub fn exchange(&self) -> Exchange {
        let mut best = self.start(1, 0).exchange();
        let mut work = 0;
        for chunks in 1..=self.chunks_max {
            for order in 0..ORDERS {
                if self.is_enough(&best) || self.limit.is_over() || work > WORK_MAX {
                    return best;
                }
                let found = self.searched(chunks, order, &mut work);
                if found.seconds_per_byte < best.seconds_per_byte {
                    best = found;
                }
            }
        }
        best
    }

    fn is_enough(&self, exchange: &Exchange) -> bool {
        let slack = Ratio::from_integer(1) + self.slack;
        exchange.seconds_per_byte <= self.seconds_per_byte * slack
    }

    fn start(&self, chunks: u32, order: u64) -> Rounding<'_> {
        let mut rounding = Rounding::new(self.graph, self.seconds_per_byte, chunks, order);
        rounding.over_few_ranks(EXPONENTS[0]);
        rounding
    }

    /// The best of all levels.
    fn searched(&self, chunks: u32, order: u64, work: &mut usize) -> Exchange {
        let mut rounding = self.start(chunks, order);
        let mut best = rounding.exchange();
        let mut exponent = EXPONENTS[0];
        while exponent <= EXPONENTS[1] && !self.is_enough(&best) && !self.limit.is_over() {
            for _ in 0..SWEEPS {
                rounding.sweep(exponent, self.limit);
                *work += rounding.work_of_sweep();
            }
            let found = rounding.exchange();
            if found.seconds_per_byte < best.seconds_per_byte {
                best = found;
            }
            exponent *= SHARPER;
        }
        best
    }
}
