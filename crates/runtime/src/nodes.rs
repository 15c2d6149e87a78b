//! Which ranks live together.
//!
//! Ranks that can share memory, those of one host and one network namespace, form a *node*. Nodes
//! are numbered by their lowest ranks, and the lowest rank of a node is its *leader*: it makes what
//! the node shares. All ranks of a group find the same nodes.

use std::collections::BTreeSet;
use std::fmt::Write;

use msccl_collective::{Rank, RankList};
use msccl_fabric::Group;
use msccl_registry::Shape;

/// Nodes whose ranks a description spells out.
const NODES_NAMED: usize = 8;

/// The nodes of a communicator.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Nodes {
    /// The ranks of every node, ascending; at least one.
    members: Vec<Vec<Rank>>,
    /// The node of every rank.
    of: Vec<usize>,
}

impl Nodes {
    /// The nodes of `group`.
    pub fn of(group: &Group) -> Self {
        Self::new(group.nodes())
    }

    /// Nodes of `per_node` ranks each, but for the last.
    #[cfg(test)]
    pub fn equal(ranks: u32, per_node: u32) -> Self {
        Self::new((0..ranks).map(|rank| (rank / per_node) as usize).collect())
    }

    /// The nodes whose numbers `of` lists by rank.
    fn new(of: Vec<usize>) -> Self {
        let mut members = vec![Vec::new(); of.iter().max().map_or(0, |last| last + 1)];
        for (rank, node) in of.iter().enumerate() {
            members[*node].push(Rank::from(rank));
        }
        Self { members, of }
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.members.len()
    }

    /// How many ranks the largest one has.
    pub fn largest(&self) -> u32 {
        self.members.iter().map(Vec::len).max().unwrap_or(0) as u32
    }

    /// The ranks that live with `rank`, itself among them, ascending.
    pub fn around(&self, rank: Rank) -> &[Rank] {
        self.of.get(rank.index()).map_or(&[], |node| &self.members[*node])
    }

    /// Whether two ranks live together.
    pub fn together(&self, one: Rank, other: Rank) -> bool {
        self.around(one).contains(&other)
    }

    /// Who leads the node of `rank`.
    pub fn leader(&self, rank: Rank) -> Rank {
        self.around(rank).first().copied().unwrap_or(rank)
    }

    /// Who leads each node.
    pub fn leaders(&self) -> impl Iterator<Item = Rank> {
        self.members.iter().filter_map(|members| members.first().copied())
    }

    /// The leader of each node of which not all ranks are `departed`: the lowest rank that is
    /// present.
    pub fn present_leaders(&self, departed: &BTreeSet<Rank>) -> Vec<Rank> {
        let present = |rank: &&Rank| !departed.contains(rank);
        self.members.iter().filter_map(|members| members.iter().find(present).copied()).collect()
    }

    /// What the communicator looks like to an algorithm. Where nodes differ in size, or the ranks
    /// of a node do not follow one another, every rank counts as a node of its own: that is true
    /// enough for all algorithms.
    pub fn shape(&self) -> Shape {
        let (ranks, nodes) = (self.of.len(), self.count().max(1));
        let per_node = ranks / nodes;
        let in_runs =
            self.of.iter().enumerate().all(|(rank, node)| *node == rank / per_node.max(1));
        let regular = nodes * per_node == ranks && in_runs;
        Shape { ranks: ranks as u32, per_node: if regular { per_node as u32 } else { 1 } }
    }

    /// Which rank lives where, such as `2 nodes: r0-r3 on node7, r4-r7 on node8`.
    pub fn describe(&self, group: &Group) -> String {
        let mut description = format!("{} nodes: ", self.count());
        for (number, members) in self.members.iter().take(NODES_NAMED).enumerate() {
            let comma = if number == 0 { "" } else { ", " };
            let name = members.first().and_then(|rank| group.peer(*rank));
            let name = name.map_or("", |peer| &*peer.host_name);
            let ranks = RankList::new(members.iter().copied());
            let _ = write!(description, "{comma}{ranks} on {name}");
        }
        if self.count() > NODES_NAMED {
            let _ = write!(description, " and {} more", self.count() - NODES_NAMED);
        }
        description
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(of: &[usize], per_node: u32) {
        let nodes = Nodes::new(of.to_vec());
        assert_eq!(nodes.shape(), Shape { ranks: of.len() as u32, per_node }, "{of:?}");
    }

    #[test]
    fn shapes_are_those_of_equal_runs() {
        check(&[0], 1);
        check(&[0, 0, 0], 3);
        check(&[0, 0, 1, 1, 2, 2], 2);
        check(&[0, 1, 2, 3], 1);
        // Uneven, and scattered.
        check(&[0, 0, 1], 1);
        check(&[0, 1, 0, 1], 1);
        check(&[0, 0, 1, 2, 2, 1], 1);
    }

    #[test]
    fn the_lowest_rank_of_a_node_leads_it() {
        let nodes = Nodes::new(vec![0, 1, 0, 1, 2]);
        assert_eq!(nodes.leaders().collect::<Vec<_>>(), [Rank(0), Rank(1), Rank(4)]);
        assert_eq!(nodes.leader(Rank(3)), Rank(1));
        let departed = [Rank(0), Rank(4)].into_iter().collect();
        assert_eq!(nodes.present_leaders(&departed), [Rank(2), Rank(1)]);
        assert_eq!(nodes.around(Rank(2)), [Rank(0), Rank(2)]);
        assert!(nodes.together(Rank(1), Rank(3)) && !nodes.together(Rank(0), Rank(1)));
    }
}
