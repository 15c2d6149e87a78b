//! What no schedule can beat whose messages take the routes of a machine, and the rates of pairs of
//! ranks with which trees reach it.
//!
//! Where routes share links, a cut of the machine may say too little: it counts every link that
//! leaves it, though no route may use all of them at once. On a DGX-1 each GPU has a PCI link
//! beside its NVLinks, and a cut around it counts both. But whoever has no NVLink to it sends
//! through the link between both processors, which all GPUs share.
//!
//! Trees of all roots at the rate `x` exist on pairs of ranks that have the rates `c` if and only
//! if every cut `j` of ranks is left by as much as it must be (Edmonds). So the optimum is
//!
//! ```text
//! maximise x   where   Σ c(p) over the pairs p whose route takes l ≤ rate(l)    for every link l
//!                      Σ c(p) over the pairs p that cross j ≥ blocks(j) · x     for every cut j
//! ```
//!
//! Its dual has lengths of links and weights of cuts: [`Theorem::Routes`](msccl_bounds::Theorem).
//!
//! ```text
//! minimise Σ rate(l)·length(l)   where   Σ weight(j)·blocks(j) = 1
//!          Σ length(l) over the route of p ≥ Σ weight(j) over what p crosses    for every pair p
//! ```
//!
//! The dual is solved (`program`). Its prices are the rates `c`, and cuts that are left by too
//! little at these rates are found by maximum flows (`cuts`) and get weights, until there is none.
//! An all-reduce has cuts both ways, and partitions beside them: those that are asked for.

mod cuts;
mod program;

use msccl_bounds::{
    Bound, Crossing, Routes, SwitchModel, VertexSet, Witness, witnessed_over_routes,
};
use msccl_collective::CollectiveKind;
use msccl_topology::cluster::{Cluster, VertexIndex};

use self::cuts::{Cuts, RankCrossing};
use self::program::{DualProgram, DualSolution};
use crate::network::Network;
use crate::time_limit::TimeLimit;
use crate::whole::{LARGEST, common_denominator, whole};

/// More ranks than this have too many pairs for the linear program.
const RANKS_MAX: usize = 32;

/// A collective on a machine.
pub(crate) struct RoutedQuestion<'a> {
    /// With what routes use.
    pub cluster: &'a Cluster,
    pub routes: &'a Routes,
    pub network: &'a Network,
    pub reversed: &'a Network,
    pub kind: CollectiveKind,
    pub limit: TimeLimit,
}

/// A bound, and what reaches it.
pub(crate) struct RoutedOptimum {
    pub bound: Bound,
    /// By pair of the network: its rate, where each root sends its block at the rate 1.
    pub rates: Vec<f64>,
}

impl RoutedQuestion<'_> {
    /// The optimum; for an all-reduce, a bound at least as high as that of each of `partitions`.
    /// `None` if there are too many ranks, too little time, or no cuts bound the collective.
    pub fn solve(&self, partitions: &[Vec<VertexSet>]) -> Option<RoutedOptimum> {
        if self.network.gpus.len() > RANKS_MAX {
            return None;
        }
        let cuts = Cuts::of(self)?;
        let mut program = DualProgram::new(self.network, cuts.first());
        for partition in partitions.iter().filter(|_| self.kind == CollectiveKind::AllReduce) {
            program.add(self.crossing_of_partition(partition));
        }
        loop {
            program.improve(self.limit);
            let found = cuts.left_by_too_little(&program.rates_by_block(), self.limit);
            let is_better = found.into_iter().filter(|cut| program.add(cut.clone())).count() > 0;
            if self.limit.is_over() {
                return None;
            }
            if !is_better {
                break;
            }
        }
        let rates = program.rates_by_block();
        let per_root = cuts.blocks_per_root() as f64;
        let bound = self.bound_of(&program.solution())?;
        Some(RoutedOptimum { bound, rates: rates.iter().map(|rate| rate / per_root).collect() })
    }

    fn crossing_of_partition(&self, groups: &[VertexSet]) -> RankCrossing {
        let gpus = &self.network.gpus;
        let ranks = |group: &VertexSet| {
            let is_in = |rank: &usize| group.contains(&VertexIndex(gpus[*rank] as u32));
            (0..gpus.len()).filter(is_in).collect()
        };
        let blocks = 2 * (groups.len() as u64 - 1) * gpus.len() as u64;
        RankCrossing { groups: groups.iter().map(ranks).collect(), blocks }
    }

    /// The bound of lengths and weights in whole numbers.
    fn bound_of(&self, solution: &DualSolution) -> Option<Bound> {
        let DualSolution { weights, lengths } = solution;
        let weighed = weights.iter().map(|weighted| weighted.weight);
        let parts: Vec<f64> = weighed.chain(lengths.iter().copied()).collect();
        let numbers = whole(&parts, common_denominator(&parts).unwrap_or(LARGEST));
        let (whole_weights, whole_lengths) = numbers.split_at(weights.len());
        let weighted = weights.iter().zip(whole_weights).filter(|(_, weight)| **weight > 0);
        let weighted: Vec<(&RankCrossing, u32)> =
            weighted.map(|(of, weight)| (&of.crossing, *weight)).collect();
        let mut links = whole_lengths.to_vec();
        self.lengthen(&weighted, &mut links);
        let crossings = weighted.iter().map(|(of, weight)| self.crossing(of, *weight)).collect();
        let (kind, switches) = (self.kind, SwitchModel::Forward);
        let witness = Witness::Routes { crossings, links };
        let seconds_per_byte =
            witnessed_over_routes(self.cluster, self.routes, kind, switches, &witness).ok()?;
        Some(Bound { kind, switches, seconds_per_byte, witness })
    }

    /// Where rounding made a route too short, makes its first link longer.
    fn lengthen(&self, weighted: &[(&RankCrossing, u32)], links: &mut [u32]) {
        for pair in &self.network.pairs {
            let crossed = weighted.iter().filter(|(of, _)| of.is_crossed(pair));
            let weight: u32 = crossed.map(|(_, weight)| weight).sum();
            let length: u32 = pair.route.iter().map(|link| links[*link]).sum();
            if let Some(first) = pair.route.first() {
                links[*first] += weight.saturating_sub(length);
            }
        }
    }

    fn crossing(&self, of: &RankCrossing, weight: u32) -> Crossing {
        let vertex = |rank: &usize| VertexIndex(self.network.gpus[*rank] as u32);
        let groups = of.groups.iter().map(|ranks| ranks.iter().map(vertex).collect()).collect();
        Crossing { weight, groups }
    }
}
