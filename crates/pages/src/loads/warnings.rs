//! Warnings that need a machine, in words.

use msccl_simulate::warnings::{MessageWays, NicDirection, OneNic, SharedBlock, Warning};
use msccl_topology::cluster::{Cluster, VertexIndex};

use crate::bound::words::{self, name};

/// A warning for people and for programs.
pub struct MachineWarning {
    /// A word for programs.
    pub kind: &'static str,
    /// What is said.
    pub message: String,
}

impl MachineWarning {
    /// `warning`, which is about `cluster`.
    pub fn of(cluster: &Cluster, warning: &Warning) -> Self {
        let (kind, message) = match warning {
            Warning::NoDirectLink(ways) => ("no-direct-link", no_direct_link(cluster, ways)),
            Warning::CrossedRail(ways) => ("crossed-rail", crossed_rail(cluster, ways)),
            Warning::OneNic(one) => ("one-nic", one_nic(cluster, one)),
            Warning::SharedBlock(shared) => ("shared-block", shared_block(shared)),
        };
        Self { kind, message }
    }
}

fn no_direct_link(cluster: &Cluster, ways: &MessageWays) -> String {
    let MessageWays { from, to, way, pairs } = ways;
    let way = spelled(cluster, way);
    format!("{from} sends to {to} without a direct link, by {way}{}", like_it(*pairs))
}

fn crossed_rail(cluster: &Cluster, ways: &MessageWays) -> String {
    let MessageWays { from, to, way, pairs } = ways;
    let way = spelled(cluster, way);
    format!("{from} sends to {to}, which is at another rail, by {way}{}", like_it(*pairs))
}

fn one_nic(cluster: &Cluster, one: &OneNic) -> String {
    let OneNic { node, busy, idle, direction, nodes } = one;
    let verb = match direction {
        NicDirection::Out => "leaves",
        NicDirection::In => "enters",
    };
    let idle = words::names(cluster, &idle.iter().copied().collect());
    let busy = name(cluster, *busy);
    let like = match nodes {
        0 | 1 => String::new(),
        2 => " (likewise at 1 more node)".to_owned(),
        _ => format!(" (likewise at {} more nodes)", nodes - 1),
    };
    format!("all that {verb} node {node} passes {busy}, and nothing passes {idle} that way{like}")
}

fn shared_block(shared: &SharedBlock) -> String {
    let SharedBlock { rank, tb, within, between, blocks } = *shared;
    let like = match blocks {
        1 => String::new(),
        2 => " (so does 1 more thread block)".to_owned(),
        _ => format!(" (so do {} more thread blocks)", blocks - 1),
    };
    format!(
        "{rank} {tb} has steps within the node ({within}) and between nodes ({between}), which \
         cannot overlap{like}; `on channel` gives a phase thread blocks of its own"
    )
}

fn like_it(pairs: usize) -> String {
    match pairs {
        0 | 1 => String::new(),
        2 => " (1 more pair does so)".to_owned(),
        _ => format!(" ({} more pairs do so)", pairs - 1),
    }
}

fn spelled(cluster: &Cluster, way: &[VertexIndex]) -> String {
    way.iter().map(|at| name(cluster, *at)).collect::<Vec<_>>().join(" > ")
}
