//! Levels: what few messages can do, level by level.
//!
//! The number of a rank has digits: of sizes `n0, n1, …`, whose product is the number of ranks,
//! inner first. The ranks that differ in one digit are a group, and a level is an exchange in all
//! its groups at once. Levels in the order of digits are a reduce-scatter, in the other order an
//! all-gather, both one after the other an all-reduce. With two ranks in each group that is
//! halving and doubling, with one level all pairs, with nodes as outer digit a hierarchical
//! algorithm.
//!
//! In an all-reduce, the groups of a level may instead send each other everything that they have
//! ([`LevelKind::Exchange`]): one message instead of two one after the other, and more bytes.
//!
//! Levels are equal for all ranks. Trees (`forest`) share links of different rates better, and take
//! more messages.

mod write;

use std::collections::HashSet;

use msccl_collective::CollectiveKind;
use num_rational::Ratio;

use crate::hierarchy::Nodes;
use crate::network::Network;

pub(crate) use write::text;

/// The most levels. With three, 64 ranks have groups of four.
const LEVELS_MAX: usize = 3;

/// Levels, inner first.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Levels {
    /// Their sizes multiply to the number of ranks.
    pub levels: Vec<Level>,
    /// Chunks of a block; of an all-reduce, of the whole buffer.
    pub chunks: u32,
    /// What the busiest link takes for a byte of a call.
    pub seconds_per_byte: Ratio<u128>,
}

/// What ranks do that differ in one digit of their number.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Level {
    /// Ranks of a group.
    pub size: u32,
    /// The difference between neighbours of a group.
    pub stride: u32,
    /// What they do.
    pub kind: LevelKind,
}

/// What the ranks of a group do with the part that they have in common.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LevelKind {
    /// Each gets a share of it: its sum on the way to the last level, and its data on the way back.
    Scatter,
    /// Each sends all of it to every other one, and adds up.
    Exchange,
}

impl Levels {
    /// Messages that come one after the other.
    pub fn steps(&self, kind: CollectiveKind) -> u32 {
        let steps = |level: &Level| match (kind, level.kind) {
            (CollectiveKind::AllReduce, LevelKind::Scatter) => 2,
            _ => 1,
        };
        self.levels.iter().map(steps).sum()
    }

    /// Their sizes, inner first: `8 × 2`.
    pub fn sizes(&self) -> String {
        let sizes: Vec<_> = self.levels.iter().map(|level| level.size.to_string()).collect();
        sizes.join(" × ")
    }

    /// Chunks that each rank sends to each other one: by the sender, then by the receiver.
    fn sent(&self, kind: CollectiveKind, ranks: usize) -> Vec<u128> {
        let mut sent = vec![0; ranks * ranks];
        let mut part = u128::from(self.chunks);
        for Level { size, stride, kind: of_level } in &self.levels {
            let (size, stride) = (*size as usize, *stride as usize);
            let each = match (kind, of_level) {
                (CollectiveKind::AllReduce, LevelKind::Exchange) => part,
                (CollectiveKind::AllReduce, LevelKind::Scatter) => {
                    part /= size as u128;
                    2 * part
                }
                _ => (ranks / (size * stride)) as u128,
            };
            for from in 0..ranks {
                let digit = from / stride % size;
                let group = (0..size).filter(|other| *other != digit);
                for to in group.map(|other| from + other * stride - digit * stride) {
                    sent[from * ranks + to] += each;
                }
            }
        }
        sent
    }
}

/// All levels for `kind` over the GPUs of `network`, which are so many nodes: those whose messages
/// have routes, and where a node is a product of levels.
pub(crate) fn levels(network: &Network, kind: CollectiveKind, nodes: Option<Nodes>) -> Vec<Levels> {
    let ranks = network.gpus.len();
    let kinds: &[LevelKind] = match kind {
        CollectiveKind::AllReduce => &[LevelKind::Scatter, LevelKind::Exchange],
        CollectiveKind::AllGather | CollectiveKind::ReduceScatter => &[LevelKind::Scatter],
        CollectiveKind::AllToAll
        | CollectiveKind::Broadcast(_)
        | CollectiveKind::Reduce(_)
        | CollectiveKind::Gather(_)
        | CollectiveKind::Scatter(_) => return Vec::new(),
    };
    let mut all = Vec::new();
    extend(&mut Vec::new(), ranks as u32, kinds, &mut all);
    all.retain(|levels| nodes.is_none_or(|nodes| has_boundary(levels, nodes)));
    let routed: HashSet<usize> =
        network.pairs.iter().map(|pair| pair.from * ranks + pair.to).collect();
    let of = |levels: Vec<Level>| {
        let (chunks, chunks_of_call) = match kind {
            CollectiveKind::AllReduce => (parts(&levels), parts(&levels)),
            _ => (1, ranks as u32),
        };
        let mut levels = Levels { levels, chunks, seconds_per_byte: Ratio::from_integer(0) };
        let sent = levels.sent(kind, ranks);
        let is_routed = (0..).zip(&sent).all(|(pair, sent)| *sent == 0 || routed.contains(&pair));
        levels.seconds_per_byte = network.seconds_per_byte(&sent, chunks_of_call.into());
        is_routed.then_some(levels)
    };
    all.into_iter().filter_map(of).collect()
}

/// In how many parts `levels` cut what all ranks have in common.
fn parts(levels: &[Level]) -> u32 {
    let scattered = levels.iter().filter(|level| level.kind == LevelKind::Scatter);
    scattered.map(|level| level.size).product()
}

/// Every way to go on with `levels` so that `left` times as many ranks are reached.
fn extend(levels: &mut Vec<Level>, left: u32, kinds: &[LevelKind], all: &mut Vec<Vec<Level>>) {
    if left == 1 && !levels.is_empty() {
        all.push(levels.clone());
    }
    if left == 1 || levels.len() == LEVELS_MAX {
        return;
    }
    let stride = levels.last().map_or(1, |level| level.stride * level.size);
    for size in (2..=left).filter(|size| left.is_multiple_of(*size)) {
        for &kind in kinds {
            levels.push(Level { size, stride, kind });
            extend(levels, left / size, kinds, all);
            levels.pop();
        }
    }
}

/// Whether no level joins ranks of a node with some of others that have another place there.
fn has_boundary(levels: &[Level], nodes: Nodes) -> bool {
    levels.iter().any(|level| level.stride * level.size == nodes.per_node)
}

#[cfg(test)]
mod tests {
    use super::*;
    use msccl_topology::cluster::presets::preset;
    use msccl_topology::cluster::repeat::repeat;

    fn found(name: &str, nodes: u32, kind: CollectiveKind) -> Vec<Levels> {
        let cluster = repeat(&preset(name).unwrap(), nodes).unwrap();
        levels(&Network::of(&cluster), kind, Nodes::of(&cluster))
    }

    #[test]
    fn levels_multiply_to_the_ranks() {
        let all = found("hgx-h100-8", 1, CollectiveKind::AllReduce);
        // 8, 2 × 4, 4 × 2, 2 × 2 × 2, each level of either kind.
        assert_eq!(all.len(), 2 + 4 + 4 + 8);
        assert!(
            all.iter().all(|of| of.levels.iter().map(|level| level.size).product::<u32>() == 8)
        );
        assert_eq!(found("hgx-h100-8", 1, CollectiveKind::AllGather).len(), 4);
    }

    #[test]
    fn nodes_are_a_boundary() {
        let all = found("hgx-h100-8", 2, CollectiveKind::AllGather);
        let sizes: Vec<_> = all.iter().map(Levels::sizes).collect();
        assert_eq!(sizes, ["2 × 4 × 2", "4 × 2 × 2", "8 × 2"]);
    }

    /// Behind one switch, all that is scattered is optimal, and exchanges send more.
    #[test]
    fn exchanges_send_more_in_fewer_steps() {
        let all = found("hgx-h100-8", 1, CollectiveKind::AllReduce);
        let of = |kind| all.iter().find(|of| of.levels.len() == 1 && of.levels[0].kind == kind);
        let (scatter, exchange) =
            (of(LevelKind::Scatter).unwrap(), of(LevelKind::Exchange).unwrap());
        assert_eq!(exchange.seconds_per_byte, scatter.seconds_per_byte * 4);
        assert_eq!(scatter.steps(CollectiveKind::AllReduce), 2);
        assert_eq!(exchange.steps(CollectiveKind::AllReduce), 1);
    }
}
