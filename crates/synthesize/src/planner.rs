//! How trees, paths or levels for a collective are looked for, and what shows how good they are.

use msccl_bounds::{Bound, SwitchModel, VertexSet, Witness, bound};
use msccl_collective::CollectiveKind;
use msccl_simulate::all_routes;
use msccl_topology::cluster::Cluster;
use num_rational::Ratio;

use crate::alltoall::{self, BoundedExchange};
use crate::error::SynthesisError;
use crate::forest::{Forest, Trees, is_connected, lcm};
use crate::forestcoll::ForestCollTrees;
use crate::hierarchy::{Nodes, one_node, one_rail};
use crate::levels::{self, Levels};
use crate::network::{Direction, Network, routed_cluster};
use crate::plan::{Ending, Options, Phase, Plan};
use crate::routed::{RoutedOptimum, RoutedQuestion};
use crate::search::{Found, Search};
use crate::time_limit::TimeLimit;

/// Of more ranks than this, and of several equal nodes, trees are nested.
const FLAT_RANKS_MAX: usize = 128;

/// So many trees of a root are tried before linear programming says what they can reach.
const FEW_TREES: u32 = 16;

/// The most ranks whose trees are nested: routes of all pairs are kept in memory.
const NESTED_RANKS_MAX: usize = 1024;

/// The most ranks with a list of trees: that of each root names all ranks.
const LISTED_RANKS_MAX: usize = 512;

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
    check_ranks(cluster, kind)?;
    let planner = Planner::new(cluster, options);
    if kind == CollectiveKind::AllToAll {
        return planner.exchange();
    }
    let BoundedPhases { bound, phases } = planner.phases(kind)?;
    let chunks = phases.iter().map(|phase| u128::from(phase.chunks())).fold(1, lcm) as u32;
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
        let chunks = levels.chunks;
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

/// What no schedule can beat, and phases.
struct BoundedPhases {
    bound: Bound,
    phases: Vec<Phase>,
}

/// What no schedule can beat, and trees.
struct BoundedForest {
    bound: Bound,
    forest: Forest,
}

/// A search for the plan of a collective on a cluster.
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

    fn phases(&self, kind: CollectiveKind) -> Result<BoundedPhases, SynthesisError> {
        let all = || (0..self.network.gpus.len()).collect();
        let (phase, roots, direction): (fn(Forest) -> Phase, _, _) = match kind {
            CollectiveKind::AllGather => (Phase::Copy, all(), Direction::Along),
            CollectiveKind::ReduceScatter => (Phase::Reduce, all(), Direction::Against),
            CollectiveKind::AllReduce => return self.all_reduce(),
            CollectiveKind::Broadcast(root) => (Phase::Copy, vec![root.index()], Direction::Along),
            CollectiveKind::Reduce(root) => (Phase::Reduce, vec![root.index()], Direction::Against),
            CollectiveKind::AllToAll | CollectiveKind::Gather(_) | CollectiveKind::Scatter(_) => {
                return Err(SynthesisError::Unsupported { kind });
            }
        };
        let BoundedForest { bound, forest } = self.forest(kind, roots, direction)?;
        Ok(BoundedPhases { bound, phases: vec![phase(forest)] })
    }

    /// A reduce-scatter and an all-gather, on the same trees if these serve both as well.
    fn all_reduce(&self) -> Result<BoundedPhases, SynthesisError> {
        let all = || (0..self.network.gpus.len()).collect();
        let copy = self.forest(CollectiveKind::AllGather, all(), Direction::Along)?;
        let BoundedForest { bound: copy_bound, forest: copy } = copy;
        let turned = copy.seconds_per_byte_on(&self.reversed);
        let reduce_bound = self.bound_below(CollectiveKind::ReduceScatter, turned)?;
        let [copy_least, reduce_least] =
            [copy_bound, reduce_bound].map(|bound| bound.seconds_per_byte);
        let mut seconds_per_byte = copy.seconds_per_byte;
        let phases = if turned * copy_least <= copy.seconds_per_byte * reduce_least {
            seconds_per_byte *= 2;
            vec![Phase::Both(copy)]
        } else {
            let reduce = self.forest(CollectiveKind::ReduceScatter, all(), Direction::Against)?;
            seconds_per_byte += reduce.forest.seconds_per_byte;
            vec![Phase::Reduce(reduce.forest), Phase::Copy(copy)]
        };
        let bound = self.bound_below(CollectiveKind::AllReduce, seconds_per_byte)?;
        Ok(BoundedPhases { bound, phases })
    }

    /// What no schedule can beat, of which one is known that takes `reached`.
    fn bound_below(
        &self,
        kind: CollectiveKind,
        reached: Ratio<u128>,
    ) -> Result<Bound, SynthesisError> {
        let known = self.bound(kind)?;
        if reached <= known.seconds_per_byte * (Ratio::from_integer(1) + self.options.slack) {
            return Ok(known);
        }
        Ok(self.over_routes(&known).map_or(known, |optimum| optimum.bound))
    }

    /// The optimum over the routes of messages, if it is known. Its bound is `known`, unless
    /// another one shows more: a cut is plainer.
    fn over_routes(&self, known: &Bound) -> Option<RoutedOptimum> {
        let Self { cluster, routed, network, reversed, options: _, limit } = self;
        let routes = &all_routes(cluster);
        let (kind, limit) = (known.kind, *limit);
        let question = RoutedQuestion { cluster: routed, routes, network, reversed, kind, limit };
        let RoutedOptimum { bound, rates } = question.solve(&partitions(routed, &known.witness))?;
        let shows_more = bound.seconds_per_byte > known.seconds_per_byte;
        Some(RoutedOptimum { bound: if shows_more { bound } else { known.clone() }, rates })
    }

    fn bound(&self, kind: CollectiveKind) -> Result<Bound, SynthesisError> {
        Ok(bound(&self.routed, kind, SwitchModel::Forward)?)
    }

    fn forest(
        &self,
        kind: CollectiveKind,
        roots: Vec<usize>,
        direction: Direction,
    ) -> Result<BoundedForest, SynthesisError> {
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
            return Ok(BoundedForest { bound, forest: Forest::nested(across, within, network) });
        }
        Ok(self.search(network, bound, roots, direction))
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
        let search = self.search_at(&network, &bound, None, roots, direction);
        let found = search.exact().or_else(|| search.near(1..=search.chunks_max, None));
        Ok(self.packed(&search, found))
    }

    fn search_at<'s>(
        &self,
        network: &'s Network,
        bound: &'s Bound,
        rates: Option<&'s [f64]>,
        roots: Vec<usize>,
        direction: Direction,
    ) -> Search<'s> {
        let Options { chunks_max, slack, time: _ } = *self.options;
        Search { network, direction, roots, bound, rates, chunks_max, slack, limit: self.limit }
    }

    /// Trees at the bound, or near to it. Where none are found near to the bound of cuts, routes
    /// may not reach it, or rates of pairs that reach it are hard to find.
    fn search(
        &self,
        network: &Network,
        known: Bound,
        roots: Vec<usize>,
        direction: Direction,
    ) -> BoundedForest {
        let cuts_show = known.seconds_per_byte;
        let first = self.search_at(network, &known, None, roots.clone(), direction);
        let few = if first.slack > Ratio::from_integer(0) { FEW_TREES } else { 0 };
        let few = few.min(first.chunks_max);
        let found = first.exact().or_else(|| first.near(1..=few, None));
        if found.as_ref().is_some_and(|found| first.is_near(found)) {
            let forest = self.packed(&first, found);
            return BoundedForest { bound: known, forest };
        }
        let optimum = self.over_routes(&known);
        let (bound, rates) = optimum.map_or((known, None), |it| (it.bound, Some(it.rates)));
        let second = self.search_at(network, &bound, rates.as_deref(), roots, direction);
        let tried = if bound.seconds_per_byte == cuts_show { few } else { 0 };
        let best = second.exact().or_else(|| second.near(tried + 1..=second.chunks_max, found));
        let forest = self.packed(&second, best);
        BoundedForest { bound, forest }
    }

    /// The trees of `found`, or those that are found at once.
    fn packed(&self, search: &Search<'_>, found: Option<Found>) -> Forest {
        let packed = found.and_then(|found| search.packed(found).ok());
        packed.unwrap_or_else(|| search.at_once())
    }
}

/// Whether a program for so many ranks can be found, compiled and proved in some memory and time.
fn check_ranks(cluster: &Cluster, kind: CollectiveKind) -> Result<(), SynthesisError> {
    let ranks = cluster.gpus().count();
    let is_nested = Nodes::of(cluster).is_some() && kind.root().is_none();
    let ranks_max = match kind {
        CollectiveKind::AllToAll => alltoall::RANKS_MAX,
        _ if is_nested => NESTED_RANKS_MAX,
        _ => LISTED_RANKS_MAX,
    };
    if ranks > ranks_max {
        return Err(SynthesisError::TooManyRanks { kind, ranks, ranks_max });
    }
    Ok(())
}

/// Partitions that may bound an all-reduce over routes: single GPUs, and that of `witness`.
fn partitions(cluster: &Cluster, witness: &Witness) -> Vec<Vec<VertexSet>> {
    let mut all = vec![cluster.gpus().map(|gpu| VertexSet::from([gpu])).collect()];
    if let Witness::Partition { groups } = witness {
        all.push(groups.clone());
    }
    all
}
