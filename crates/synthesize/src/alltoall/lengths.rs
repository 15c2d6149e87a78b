//! Lengths of links that prove how long an all-to-all takes at least.

use msccl_bounds::{Bound, SwitchModel, Witness, witnessed};
use msccl_collective::CollectiveKind;
use msccl_topology::cluster::Cluster;

use super::graph::{RankGraph, ShortestWays};
use super::mix::Mix;
use crate::simplex::Column;
use crate::time_limit::TimeLimit;
use crate::whole::{LARGEST, common_denominator, whole};

/// Lengths that prove as much, up to this part, are as good. The last ones are in few proportions.
const ALIKE: f64 = 1e-9;
/// Columns of all ranks are made so often at most.
const ROUNDS_MAX: usize = 4000;

/// The linear program, solved or as far as there was time. Times are as if the fastest link
/// carried one block a unit of time.
pub(super) struct Solution {
    /// What the mix of trees takes.
    #[cfg_attr(not(test), expect(dead_code, reason = "tests hold it against `bound`"))]
    pub time: f64,
    /// What lengths show that everything takes.
    #[cfg_attr(not(test), expect(dead_code, reason = "tests hold it against `time`"))]
    pub bound: f64,
    /// By link: these lengths.
    pub lengths: Vec<f64>,
}

/// The solution for the ranks of `graph`, which are joined.
pub(super) fn solve(graph: &RankGraph<'_>, limit: TimeLimit) -> Solution {
    let program = Program::new(graph);
    let rates = program.rates();
    let start = program.trees(&program.inverse_rates());
    let mut mix = Mix::new(&rates, &start.columns);
    let (mut bound, mut best) = (start.bound, program.inverse_rates());
    for _ in 0..ROUNDS_MAX {
        while !limit.is_over() && mix.make_room() {}
        let prices = &mix.prices()[..rates.len()];
        let lengths: Vec<f64> = prices.iter().map(|price| price.max(0.0)).collect();
        let trees = program.trees(&lengths);
        if trees.bound >= bound * (1.0 - ALIKE) {
            (bound, best) = (trees.bound, lengths);
        }
        let improved = trees.columns.iter().filter(|tree| mix.improve(tree)).count();
        if improved == 0 || limit.is_over() {
            break;
        }
    }
    Solution { time: mix.time(), bound, lengths: program.by_link(&best) }
}

/// The bound of `lengths` on `cluster`, in whole numbers; `None` if they show nothing.
pub(super) fn bound_of(lengths: &[f64], cluster: &Cluster) -> Option<Bound> {
    let candidates = [common_denominator(lengths), Some(LARGEST)].into_iter().flatten();
    let bounds = candidates.filter_map(|largest| {
        let kind = CollectiveKind::AllToAll;
        let witness = Witness::Lengths { links: whole(lengths, largest) };
        let switches = SwitchModel::Forward;
        let seconds_per_byte = witnessed(cluster, kind, switches, &witness).ok()?;
        Some(Bound { kind, switches, seconds_per_byte, witness })
    });
    bounds.reduce(
        |one, other| if other.seconds_per_byte > one.seconds_per_byte { other } else { one },
    )
}

/// The linear program, over the links that some route takes.
struct Program<'a> {
    graph: &'a RankGraph<'a>,
    /// By row: the link.
    links: Vec<usize>,
    /// By link: its row.
    rows: Vec<Option<usize>>,
}

/// A tree of each rank, and what the lengths behind them prove.
struct TreesOfAll {
    columns: Vec<Column>,
    bound: f64,
}

impl<'a> Program<'a> {
    fn new(graph: &'a RankGraph<'a>) -> Self {
        let mut rows = vec![None; graph.network.links.len()];
        let mut links = Vec::new();
        for &link in graph.network.pairs.iter().flat_map(|pair| &pair.route) {
            if rows[link].is_none() {
                rows[link] = Some(links.len());
                links.push(link);
            }
        }
        Self { graph, links, rows }
    }

    /// By row, as parts of the highest one.
    fn rates(&self) -> Vec<f64> {
        let rate = |link: &usize| self.graph.network.links[*link].rate_mb_per_s as f64;
        let highest = self.links.iter().map(rate).fold(1.0, f64::max);
        self.links.iter().map(|link| rate(link) / highest).collect()
    }

    fn inverse_rates(&self) -> Vec<f64> {
        self.rates().iter().map(|rate| 1.0 / rate).collect()
    }

    fn by_link(&self, lengths: &[f64]) -> Vec<f64> {
        self.rows.iter().map(|row| row.map_or(0.0, |row| lengths[row])).collect()
    }

    /// The shortest ways from every rank.
    fn trees(&self, lengths: &[f64]) -> TreesOfAll {
        let pair_lengths = self.graph.pair_lengths(&self.by_link(lengths));
        let offered: f64 = self.rates().iter().zip(lengths).map(|(rate, it)| rate * it).sum();
        let mut distances = 0.0;
        let mut columns = Vec::with_capacity(self.graph.ranks());
        for rank in 0..self.graph.ranks() {
            let ways = self.graph.shortest_ways(rank, &pair_lengths);
            distances += ways.distances.iter().sum::<f64>();
            columns.push(self.column(rank, &ways));
        }
        TreesOfAll { columns, bound: distances / offered }
    }

    fn column(&self, rank: usize, ways: &ShortestWays) -> Column {
        let mut loads = vec![0_u32; self.links.len()];
        let network = self.graph.network;
        for to in 0..self.graph.ranks() {
            for pair in ways.pairs_to(to, network) {
                let rows = network.pairs[pair].route.iter().filter_map(|link| self.rows[*link]);
                rows.for_each(|row| loads[row] += 1);
            }
        }
        let loaded = loads.iter().enumerate().filter(|(_, load)| **load > 0);
        let of_links = loaded.map(|(row, load)| (row, -f64::from(*load)));
        of_links.chain([(self.links.len() + rank, 1.0)]).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use msccl_topology::cluster::degrade::{slow, without};
    use msccl_topology::cluster::presets::preset;

    use super::*;
    use crate::network::{Network, routed_cluster};

    fn solved(cluster: &Cluster) -> Solution {
        let network = Network::of(cluster);
        solve(&RankGraph::new(&network), TimeLimit::from_now(Duration::from_secs(600)))
    }

    /// A mix of trees and lengths that meet are both the optimum: neither can be wrong unnoticed.
    #[test]
    fn the_mix_and_the_bound_of_its_lengths_meet() {
        let dgx1 = preset("dgx1-v100").unwrap();
        let odd = slow(&without(&dgx1, "gpu0-gpu1").unwrap(), "gpu2-gpu3=0.3").unwrap();
        for cluster in [preset("mi300x-8").unwrap(), preset("pcie-pairs-4").unwrap(), dgx1, odd] {
            let Solution { time, bound, lengths } = solved(&cluster);
            assert!((time - bound).abs() < 1e-5 * bound, "{}: {time}, {bound}", cluster.name());
            let shown = bound_of(&lengths, &routed_cluster(&cluster)).unwrap();
            msccl_bounds::check(&routed_cluster(&cluster), &shown).unwrap();
        }
    }
}
