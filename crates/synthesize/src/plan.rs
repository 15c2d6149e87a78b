//! From a cluster and a collective to trees, or to paths.

use std::time::Duration;

use msccl_bounds::{Bound, SwitchModel, bound};
use msccl_collective::CollectiveKind;
use msccl_topology::cluster::Cluster;
use num_rational::Ratio;

use crate::alltoall::{self, BoundedExchange, Exchange};
use crate::error::SynthesisError;
use crate::forest::{Forest, Search, Trees, is_connected, lcm};
use crate::forestcoll::ForestCollTrees;
use crate::hierarchy::{Nodes, one_node, one_rail};
use crate::levels::{self, Levels};
use crate::network::{Direction, Network, routed_cluster};
use crate::pack::PackError;
use crate::time_limit::TimeLimit;

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

/// Of more ranks than this, and of several equal nodes, trees are nested.
const FLAT_RANKS_MAX: usize = 128;

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
            _ => format!("{} trees of height {height} or less", self.count()),
        };
        format!("{what}, {} a block", number(self.chunks, "chunk", "chunks"))
    }
}

/// Finds trees for `kind` on `cluster`, or paths for an all-to-all.
///
/// # Errors
///
/// The cluster does not join its GPUs, the collective is none of trees, or nothing was found
/// within the options.
pub fn plan(
    cluster: &Cluster,
    kind: CollectiveKind,
    options: &Options,
) -> Result<Plan, SynthesisError> {
    let planner = Planner::new(cluster, options);
    if kind == CollectiveKind::AllToAll {
        return planner.exchange();
    }
    let phases = planner.phases(kind)?;
    let bound = planner.bound(kind)?;
    let chunks = phases.iter().map(|phase| u128::from(chunks_of(kind, phase))).fold(1, lcm) as u32;
    let phases = phases.into_iter().map(|phase| phase.with_chunks(chunks)).collect();
    Ok(planner.finished(kind, bound, chunks, phases))
}

/// Levels for `kind` on `cluster`, all that there are: for small calls, and for machines of equal
/// nodes. None for collectives and for numbers of ranks that have none.
///
/// # Errors
///
/// Nothing bounds the collective on the cluster.
pub fn level_plans(cluster: &Cluster, kind: CollectiveKind) -> Result<Vec<Plan>, SynthesisError> {
    let options = Options::default();
    let planner = Planner::new(cluster, &options);
    let ranks: Vec<usize> = (0..planner.network.gpus.len()).collect();
    if ranks.len() > FLAT_RANKS_MAX || !is_connected(&planner.network, &ranks) {
        return Ok(Vec::new());
    }
    let bound = planner.bound(kind)?;
    let found = levels::levels(&planner.network, kind, Nodes::of(cluster));
    let plan = |levels: Levels| {
        let chunks = levels.chunks(kind);
        planner.finished(kind, bound.clone(), chunks, vec![Phase::Levels(levels)])
    };
    Ok(found.into_iter().map(plan).collect())
}

/// The plan of trees that somebody else found, for a collective of blocks of all ranks.
///
/// # Errors
///
/// The collective is another one, or nothing bounds it on the cluster.
pub fn plan_of_trees(
    cluster: &Cluster,
    kind: CollectiveKind,
    trees: &ForestCollTrees,
) -> Result<Plan, SynthesisError> {
    let options = Options::default();
    let planner = Planner::new(cluster, &options);
    let ForestCollTrees { chunks, trees } = trees;
    let forest_on = |network: &Network| Forest::new(*chunks, Trees::Listed(trees.clone()), network);
    let (copy, reduce) = (forest_on(&planner.network), forest_on(&planner.reversed));
    let phases = match kind {
        CollectiveKind::AllGather => vec![Phase::Copy(copy)],
        CollectiveKind::ReduceScatter => vec![Phase::Reduce(reduce)],
        CollectiveKind::AllReduce if copy == reduce => vec![Phase::Both(copy)],
        CollectiveKind::AllReduce => vec![Phase::Reduce(reduce), Phase::Copy(copy)],
        CollectiveKind::AllToAll
        | CollectiveKind::Broadcast(_)
        | CollectiveKind::Reduce(_)
        | CollectiveKind::Gather(_)
        | CollectiveKind::Scatter(_) => return Err(SynthesisError::NotOfAllRoots { kind }),
    };
    let bound = planner.bound(kind)?;
    Ok(planner.finished(kind, bound, *chunks, phases))
}

struct Planner<'a> {
    cluster: &'a Cluster,
    /// With what routes use.
    routed: Cluster,
    network: Network,
    reversed: Network,
    options: &'a Options,
    limit: TimeLimit,
}

impl<'a> Planner<'a> {
    fn new(cluster: &'a Cluster, options: &'a Options) -> Self {
        let network = Network::of(cluster);
        let reversed = network.reversed();
        let limit = TimeLimit::from_now(options.time);
        Self { cluster, routed: routed_cluster(cluster), network, reversed, options, limit }
    }

    fn finished(
        &self,
        kind: CollectiveKind,
        bound: Bound,
        chunks: u32,
        phases: Vec<Phase>,
    ) -> Plan {
        Plan {
            kind,
            ranks: self.network.gpus.len() as u32,
            cluster: self.cluster.name().to_owned(),
            bound,
            chunks,
            phases,
            ending: if self.limit.is_over() { Ending::TimeOver } else { Ending::Complete },
        }
    }

    /// Paths for an all-to-all.
    fn exchange(&self) -> Result<Plan, SynthesisError> {
        let kind = CollectiveKind::AllToAll;
        let ranks = self.network.gpus.len();
        if ranks > alltoall::RANKS_MAX {
            return Err(SynthesisError::TooManyRanks {
                kind,
                ranks,
                ranks_max: alltoall::RANKS_MAX,
            });
        }
        let known = self.bound(kind)?;
        let all: Vec<usize> = (0..ranks).collect();
        if !is_connected(&self.network, &all) {
            return Err(SynthesisError::NotRouted);
        }
        let Options { chunks_max, slack, time: _ } = *self.options;
        let effort = alltoall::ExchangeEffort { chunks_max, slack, limit: self.limit };
        let found = alltoall::exchange(&self.network, &self.routed, known, effort);
        let BoundedExchange { bound, exchange } = found;
        let chunks = exchange.chunks;
        Ok(self.finished(kind, bound, chunks, vec![Phase::Exchange(exchange)]))
    }

    fn phases(&self, kind: CollectiveKind) -> Result<Vec<Phase>, SynthesisError> {
        let all = || (0..self.network.gpus.len()).collect();
        Ok(match kind {
            CollectiveKind::AllGather => {
                vec![Phase::Copy(self.forest(kind, all(), Direction::Along)?)]
            }
            CollectiveKind::ReduceScatter => {
                vec![Phase::Reduce(self.forest(kind, all(), Direction::Against)?)]
            }
            CollectiveKind::AllReduce => self.all_reduce()?,
            CollectiveKind::Broadcast(root) => {
                vec![Phase::Copy(self.forest(kind, vec![root.index()], Direction::Along)?)]
            }
            CollectiveKind::Reduce(root) => {
                vec![Phase::Reduce(self.forest(kind, vec![root.index()], Direction::Against)?)]
            }
            CollectiveKind::AllToAll | CollectiveKind::Gather(_) | CollectiveKind::Scatter(_) => {
                return Err(SynthesisError::Unsupported { kind });
            }
        })
    }

    /// A reduce-scatter and an all-gather, on the same trees if these serve both as well.
    fn all_reduce(&self) -> Result<Vec<Phase>, SynthesisError> {
        let all = || (0..self.network.gpus.len()).collect();
        let copy = self.forest(CollectiveKind::AllGather, all(), Direction::Along)?;
        let reduce_bound = self.bound(CollectiveKind::ReduceScatter)?.seconds_per_byte;
        let copy_bound = self.bound(CollectiveKind::AllGather)?.seconds_per_byte;
        let turned = copy.seconds_per_byte_on(&self.reversed);
        if turned * copy_bound <= copy.seconds_per_byte * reduce_bound {
            return Ok(vec![Phase::Both(copy)]);
        }
        let reduce = self.forest(CollectiveKind::ReduceScatter, all(), Direction::Against)?;
        Ok(vec![Phase::Reduce(reduce), Phase::Copy(copy)])
    }

    fn bound(&self, kind: CollectiveKind) -> Result<Bound, SynthesisError> {
        Ok(bound(&self.routed, kind, SwitchModel::Forward)?)
    }

    fn forest(
        &self,
        kind: CollectiveKind,
        roots: Vec<usize>,
        direction: Direction,
    ) -> Result<Forest, SynthesisError> {
        let network = match direction {
            Direction::Along => &self.network,
            Direction::Against => &self.reversed,
        };
        let bound = self.bound(kind)?;
        if !is_connected(network, &roots) {
            return Err(SynthesisError::NotRouted);
        }
        let nodes = Nodes::of(self.cluster).filter(|_| network.gpus.len() > FLAT_RANKS_MAX);
        if let (Some(nodes), true) = (nodes, roots.len() == network.gpus.len()) {
            let across = self.part(&one_rail(self.cluster, nodes), kind, direction)?;
            let within = self.part(&one_node(self.cluster), kind, direction)?;
            return Ok(Forest::nested(across, within, network));
        }
        self.search(network, &bound, roots, direction)
    }

    /// A forest of all ranks of `part`.
    fn part(
        &self,
        part: &Cluster,
        kind: CollectiveKind,
        direction: Direction,
    ) -> Result<Forest, SynthesisError> {
        let network = match direction {
            Direction::Along => Network::of(part),
            Direction::Against => Network::of(part).reversed(),
        };
        let bound = bound(&routed_cluster(part), kind, SwitchModel::Forward)?;
        let roots = (0..network.gpus.len()).collect();
        self.search(&network, &bound, roots, direction)
    }

    fn search(
        &self,
        network: &Network,
        bound: &Bound,
        roots: Vec<usize>,
        direction: Direction,
    ) -> Result<Forest, SynthesisError> {
        let Options { chunks_max, slack, time: _ } = *self.options;
        let limit = self.limit;
        let search = Search { network, direction, roots, bound, chunks_max, slack, limit };
        search.forest().map_err(|error| match error {
            PackError::TimeOver => SynthesisError::TimeOver,
            PackError::NoRoom if limit.is_over() => SynthesisError::TimeOver,
            PackError::NoRoom => SynthesisError::NoTrees { chunks_max },
        })
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

    fn with_chunks(self, chunks: u32) -> Self {
        match self {
            Phase::Reduce(forest) => Phase::Reduce(forest.with_chunks(chunks)),
            Phase::Copy(forest) => Phase::Copy(forest.with_chunks(chunks)),
            Phase::Both(forest) => Phase::Both(forest.with_chunks(chunks)),
            // It is the only phase, so that its chunks are those of the plan.
            Phase::Exchange(_) | Phase::Levels(_) => self,
        }
    }
}

fn chunks_of(kind: CollectiveKind, phase: &Phase) -> u32 {
    match phase {
        Phase::Reduce(forest) | Phase::Copy(forest) | Phase::Both(forest) => forest.chunks,
        Phase::Exchange(exchange) => exchange.chunks,
        Phase::Levels(levels) => levels.chunks(kind),
    }
}
