//! Laying a plan's links onto the wires of each pair of ranks.
//!
//! The links from one rank to another differ by channel. In ascending order of channels, instance
//! `i` of `k` of link number `n` is wire `n * k + i` of the pair. Sender and receiver see the same
//! channels, since a verified algorithm has both ends of every link; so they agree without a word.

use std::collections::{BTreeMap, BTreeSet};

use msccl_collective::{Channel, Rank};
use msccl_ir::Algorithm;
use msccl_plan::{Direction, Program};

/// Which wires a plan's link ends lie on.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Wiring {
    ends: Vec<WireEnd>,
}

/// One end of a plan's link, as a wire.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct WireEnd {
    /// The rank at the other end.
    pub peer: Rank,
    /// In which direction messages go.
    pub direction: Direction,
    /// Its number among the links of the pair in this direction.
    pub number: u32,
}

impl WireEnd {
    /// The wire of the pair for instance `instance` of `instances`.
    pub fn wire(&self, instance: u32, instances: u32) -> u32 {
        self.number * instances + instance
    }
}

impl Wiring {
    /// How the links of `program` lie.
    pub fn of(program: &Program) -> Self {
        let mut channels: BTreeMap<(Rank, bool), BTreeSet<Channel>> = BTreeMap::new();
        let outward = |direction| direction == Direction::Out;
        for end in program.link_ends() {
            channels.entry((end.peer, outward(end.direction))).or_default().insert(end.channel);
        }
        let number = |peer, direction, channel| {
            let of_pair = channels.get(&(peer, outward(direction)));
            of_pair.map_or(0, |channels| channels.range(..channel).count() as u32)
        };
        let ends = program.link_ends().map(|end| WireEnd {
            peer: end.peer,
            direction: end.direction,
            number: number(end.peer, end.direction, end.channel),
        });
        Self { ends: ends.collect() }
    }

    /// The ends, in the order of the plan's link table.
    pub fn ends(&self) -> &[WireEnd] {
        &self.ends
    }
}

/// The most links that `algorithm` has from one rank to another, of the pairs that `counts` lets
/// count.
pub(crate) fn links_per_pair(algorithm: &Algorithm, counts: impl Fn(Rank, Rank) -> bool) -> u32 {
    let mut links: BTreeMap<(Rank, Rank), u32> = BTreeMap::new();
    for (source, program) in algorithm.ranks.iter().enumerate() {
        for destination in program.thread_blocks.iter().flat_map(|block| &block.sends) {
            *links.entry((Rank::from(source), *destination)).or_default() += 1;
        }
    }
    let counted =
        links.into_iter().filter(|((source, destination), _)| counts(*source, *destination));
    counted.map(|(_, links)| links).max().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use msccl_collective::{CallPlacement, CollectiveKind, Placement};
    use msccl_plan::Plan;
    use msccl_registry::{Registry, Shape};

    use super::*;

    /// Both ends of every link of every built-in all-reduce lie on the same wire, and no two links
    /// of a pair on one.
    #[test]
    fn both_ends_agree() {
        let registry = Registry::new(Shape { ranks: 5, per_node: 5 }, &[]);
        for entry in registry.built_in(CollectiveKind::AllReduce, CallPlacement::OutOfPlace).iter()
        {
            assert_ne!(entry.verified.algorithm().placement, Placement::InPlace);
            let plans = Plan::all(&entry.verified).unwrap();
            let mut ends = BTreeMap::new();
            for plan in &plans {
                let wiring = Wiring::of(plan.program());
                for (end, link) in wiring.ends().iter().zip(plan.program().link_ends()) {
                    let rank = plan.program().rank;
                    let (from, to) = match end.direction {
                        Direction::In => (end.peer, rank),
                        Direction::Out => (rank, end.peer),
                    };
                    let wire = (from, to, end.wire(1, 3));
                    ends.entry(wire).or_insert_with(Vec::new).push(link.channel);
                }
            }
            let paired = |ends: &Vec<Channel>| ends.len() == 2 && ends[0] == ends[1];
            assert!(ends.values().all(paired), "{}", entry.name);
            let most = ends.keys().map(|(_, _, wire)| wire / 3 + 1).max();
            assert_eq!(most, Some(links_per_pair(entry.verified.algorithm(), |_, _| true)));
        }
    }
}
