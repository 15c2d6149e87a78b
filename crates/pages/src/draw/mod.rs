//! Pictures: of DAGs and schedules as layers, of runs as timelines.
//! ! [`layers`] holds boxes at (column, row) joined by arrows, and [`layers::Layers`] is made from
//each ! stage by a module of its own; [`svg`] and [`dot`] write it down. Nothing here decides
//anything ! about what it draws.

pub mod chunks;
pub mod cluster;
pub mod dot;
pub mod instructions;
pub mod json;
pub mod layers;
pub mod levels;
pub mod schedule;
pub mod svg;
pub mod topology;

/// The ranks to show: all, or those named.
#[derive(Clone, Debug, Default)]
pub struct RankFilter {
    named: Vec<u32>,
}

impl RankFilter {
    /// Only `named` ranks, or all if none is named.
    pub fn new(named: &[u32]) -> Self {
        Self { named: named.to_vec() }
    }

    /// Whether `rank` is shown.
    pub fn shows(&self, rank: msccl_collective::Rank) -> bool {
        self.named.is_empty() || self.named.contains(&rank.0)
    }

    /// The first named rank that an algorithm of `ranks` ranks does not have.
    pub fn missing(&self, ranks: u32) -> Option<u32> {
        self.named.iter().copied().find(|&rank| rank >= ranks)
    }
}
