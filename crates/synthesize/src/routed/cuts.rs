//! Cuts that must be left by more than given rates of pairs allow.

use msccl_collective::CollectiveKind;

use super::RoutedQuestion;
use crate::mixed::{Demand, Mixed};
use crate::network::{Direction, Network, Pair};
use crate::time_limit::TimeLimit;

/// Units of capacity in the rate of a block.
const UNITS: u64 = 1 << 30;

/// Ranks that data crosses between.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct RankCrossing {
    /// One group is a cut, which data leaves; several are a partition.
    pub groups: Vec<Vec<usize>>,
    /// How many blocks must cross; a call has one for each rank.
    pub blocks: u64,
}

impl RankCrossing {
    pub fn is_crossed(&self, pair: &Pair) -> bool {
        let group = |rank| self.groups.iter().position(|group| group.contains(&rank));
        let from = group(pair.from);
        from.is_some() && from != group(pair.to)
    }
}

/// All cuts of a collective.
pub(super) struct Cuts<'a> {
    /// Spreads of blocks from roots, and sums of blocks to them.
    spreads: Vec<Spread<'a>>,
    ranks: usize,
    blocks_per_root: u64,
}

/// From every root, its blocks must get to all ranks.
struct Spread<'a> {
    /// With everything turned round, for sums to the roots.
    network: &'a Network,
    direction: Direction,
    roots: Vec<usize>,
}

impl<'a> Cuts<'a> {
    /// Those that the collective of `question` must leave; `None` if it is none of trees.
    pub fn of(question: &RoutedQuestion<'a>) -> Option<Self> {
        let RoutedQuestion { network, reversed, kind, .. } = question;
        let ranks = network.gpus.len();
        let all = || (0..ranks).collect();
        let out = |roots| Spread { network, direction: Direction::Along, roots };
        let back = |roots| Spread { network: reversed, direction: Direction::Against, roots };
        let spreads = match kind {
            CollectiveKind::AllGather => vec![out(all())],
            CollectiveKind::ReduceScatter => vec![back(all())],
            CollectiveKind::Broadcast(root) => vec![out(vec![root.index()])],
            CollectiveKind::Reduce(root) => vec![back(vec![root.index()])],
            // A cut with ranks on both sides has the first one inside or outside.
            CollectiveKind::AllReduce => vec![out(vec![0]), back(vec![0])],
            CollectiveKind::AllToAll | CollectiveKind::Gather(_) | CollectiveKind::Scatter(_) => {
                return None;
            }
        };
        let blocks_per_root = match kind {
            CollectiveKind::AllGather | CollectiveKind::ReduceScatter => 1,
            _ => ranks as u64,
        };
        Some(Self { spreads, ranks, blocks_per_root })
    }

    pub fn blocks_per_root(&self) -> u64 {
        self.blocks_per_root
    }

    /// A cut around all ranks but one.
    pub fn first(&self) -> RankCrossing {
        let spread = &self.spreads[0];
        let last = (0..self.ranks).rev().find(|rank| spread.roots != [*rank]);
        let inside = (0..self.ranks).filter(|rank| Some(*rank) != last).collect();
        self.crossing(spread, inside)
    }

    /// Those that pairs with `rates` leave with too little, where a block needs the rate 1.
    pub fn left_by_too_little(&self, rates: &[f64], limit: TimeLimit) -> Vec<RankCrossing> {
        let units = |rate: &f64| (rate.max(0.0) * UNITS as f64).round() as u64;
        let mut found = Vec::new();
        for spread in &self.spreads {
            let shares = rates.iter().map(units).collect();
            let trees = UNITS * self.blocks_per_root;
            let demand = Demand { roots: spread.roots.clone(), trees };
            let mut mixed = Mixed::only_pairs(spread.network, &demand, shares, limit);
            for inside in mixed.short_sides() {
                let crossing = self.crossing(spread, inside);
                if !found.contains(&crossing) {
                    found.push(crossing);
                }
            }
        }
        found
    }

    /// The cut around the ranks `inside`, as the network of `spread` has it.
    fn crossing(&self, spread: &Spread<'_>, inside: Vec<usize>) -> RankCrossing {
        let roots = spread.roots.iter().filter(|root| inside.contains(root)).count() as u64;
        let side = match spread.direction {
            Direction::Along => inside,
            Direction::Against => (0..self.ranks).filter(|rank| !inside.contains(rank)).collect(),
        };
        RankCrossing { groups: vec![side], blocks: roots * self.blocks_per_root }
    }
}
