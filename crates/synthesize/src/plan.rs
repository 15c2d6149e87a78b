//! From a cluster and a collective to trees, or to paths.

use std::time::Duration;

use msccl_bounds::Bound;
use msccl_collective::CollectiveKind;
use num_rational::Ratio;

use crate::alltoall::Exchange;
use crate::forest::Forest;
use crate::levels::Levels;

/// What the search may do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Options {
    /// The most chunks of a block, which limits how finely links are shared.
    pub chunks_max: u32,
    /// How far from the bound, in parts of it, a program with fewer chunks may be.
    pub slack: Ratio<u128>,
    /// How long to look for something better.
    pub time: Duration,
}

impl Default for Options {
    fn default() -> Self {
        Self { chunks_max: 16, slack: Ratio::new(1, 200), time: Duration::from_secs(60) }
    }
}

/// How data moves: phases, one after the other for each block.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Plan {
    /// What it does.
    pub kind: CollectiveKind,
    /// How many ranks.
    pub ranks: u32,
    /// What the cluster is called.
    pub cluster: String,
    /// What no schedule over the routes of messages can beat.
    pub bound: Bound,
    /// Chunks of a block.
    pub chunks: u32,
    /// What happens.
    pub phases: Vec<Phase>,
    /// Whether the search was over before it had looked at everything.
    pub ending: Ending,
}

/// How a search ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ending {
    /// It looked at all that it meant to.
    Complete,
    /// The time was over, and this is the best so far.
    TimeOver,
}

/// A part of a plan.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Phase {
    /// Sums go to the roots of trees.
    Reduce(Forest),
    /// Data goes from the roots of trees.
    Copy(Forest),
    /// Sums go to the roots, and back from there on the same trees.
    Both(Forest),
    /// Blocks go from every rank to every other one. It is the only phase.
    Exchange(Exchange),
    /// Ranks exchange in groups, level by level. It is the only phase.
    Levels(Levels),
}

impl Plan {
    /// What the busiest links of the phases take for a byte of a call, together.
    pub fn seconds_per_byte(&self) -> Ratio<u128> {
        let time = |phase: &Phase| match phase {
            Phase::Reduce(forest) | Phase::Copy(forest) => forest.seconds_per_byte,
            Phase::Both(forest) => forest.seconds_per_byte * 2,
            Phase::Exchange(exchange) => exchange.seconds_per_byte,
            Phase::Levels(levels) => levels.seconds_per_byte,
        };
        self.phases.iter().map(time).sum()
    }

    /// The forests.
    pub fn forests(&self) -> impl Iterator<Item = &Forest> {
        self.phases.iter().filter_map(Phase::forest)
    }

    /// Its levels, if it has some.
    pub fn levels(&self) -> Option<&Levels> {
        match &self.phases[..] {
            [Phase::Levels(levels)] => Some(levels),
            _ => None,
        }
    }

    /// How many trees there are, or paths, or levels.
    pub fn count(&self) -> usize {
        let count = |phase: &Phase| match phase {
            Phase::Reduce(forest) | Phase::Copy(forest) | Phase::Both(forest) => {
                forest.trees.count()
            }
            Phase::Exchange(exchange) => exchange.paths.len(),
            Phase::Levels(levels) => levels.levels.len(),
        };
        self.phases.iter().map(count).sum()
    }

    /// The most messages that carry a chunk one after the other in a phase: the height of trees,
    /// the length of paths, the steps of levels.
    pub fn height(&self) -> u32 {
        let height = |phase: &Phase| match phase {
            Phase::Reduce(forest) | Phase::Copy(forest) | Phase::Both(forest) => {
                forest.trees.height()
            }
            Phase::Exchange(exchange) => exchange.hops() as u32,
            Phase::Levels(levels) => levels.steps(self.kind),
        };
        self.phases.iter().map(height).max().unwrap_or(0)
    }

    /// What it is, in short: `23 trees of height 6 or less, 6 chunks a block`.
    pub fn summary(&self) -> String {
        let number = |count: u32, one: &str, more: &str| match count {
            1 => format!("1 {one}"),
            _ => format!("{count} {more}"),
        };
        let height = self.height();
        let what = match &self.phases[..] {
            [Phase::Exchange(exchange)] => {
                let paths = number(exchange.paths.len() as u32, "path", "paths");
                format!("{paths} of {} or less", number(height, "message", "messages"))
            }
            [Phase::Levels(levels)] => {
                let (levels, steps) = (levels.sizes(), number(height, "step", "steps"));
                format!("levels of {levels} ranks in {steps}")
            }
            _ => {
                let trees = number(self.count() as u32, "tree", "trees");
                format!("{trees} of height {height} or less")
            }
        };
        format!("{what}, {} a block", number(self.chunks, "chunk", "chunks"))
    }
}

impl Phase {
    /// Its trees, if it has some.
    pub fn forest(&self) -> Option<&Forest> {
        match self {
            Phase::Reduce(forest) | Phase::Copy(forest) | Phase::Both(forest) => Some(forest),
            Phase::Exchange(_) | Phase::Levels(_) => None,
        }
    }

    /// The same with each chunk cut into as many as make `chunks` a block, a multiple.
    pub(crate) fn with_chunks(self, chunks: u32) -> Self {
        match self {
            Phase::Reduce(forest) => Phase::Reduce(forest.with_chunks(chunks)),
            Phase::Copy(forest) => Phase::Copy(forest.with_chunks(chunks)),
            Phase::Both(forest) => Phase::Both(forest.with_chunks(chunks)),
            // It is the only phase, so that its chunks are those of the plan.
            Phase::Exchange(_) | Phase::Levels(_) => self,
        }
    }

    /// Chunks of a block.
    pub(crate) fn chunks(&self) -> u32 {
        match self {
            Phase::Reduce(forest) | Phase::Copy(forest) | Phase::Both(forest) => forest.chunks,
            Phase::Exchange(exchange) => exchange.chunks,
            Phase::Levels(levels) => levels.chunks,
        }
    }
}
