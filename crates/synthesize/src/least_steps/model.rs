//! What a step is: who may send to whom in it, and which links that takes.

use std::collections::{BTreeSet, VecDeque};

use msccl_collective::CollectiveKind;
use msccl_topology::cluster::Cluster;

use crate::error::SynthesisError;
use crate::network::{Direction, Network, Pair};

/// More ranks than this are refused: the search would not end.
pub(super) const RANKS_MAX: usize = 16;

/// Ranks, the pairs of them that a route joins, and what a link carries in a step.
#[derive(Clone, Debug)]
pub(super) struct StepModel {
    /// How many ranks.
    pub ranks: usize,
    /// Who may send to whom, in the order of senders, then of receivers.
    pub pairs: Vec<Pair>,
    /// How many links the cluster has; routes name them by their places.
    pub link_count: usize,
    /// The most chunks that a link carries in one step.
    pub link_chunks: u32,
}

/// What the steps are for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Goal {
    /// Each block, of which this list has the root, goes to all ranks. Sums that go to roots are
    /// this with time and links turned round.
    Spread(Vec<usize>),
    /// All ranks get the sum of what all ranks have.
    SumEverywhere,
}

/// A collective as steps: for sums to roots, everything is turned round.
#[derive(Clone, Debug)]
pub(super) struct StepProblem {
    /// Of the links as they are, or turned round.
    pub model: StepModel,
    /// What the steps are for.
    pub goal: Goal,
    /// Whether links and time are turned round.
    pub direction: Direction,
}

impl StepProblem {
    /// Steps of `kind` on `cluster`, whose links carry at most `link_chunks` chunks in each.
    ///
    /// # Errors
    ///
    /// The collective has no steps here, the root does not exist, there are too few or too many
    /// GPUs, or routes do not join them.
    pub fn new(
        cluster: &Cluster,
        kind: CollectiveKind,
        link_chunks: u32,
    ) -> Result<Self, SynthesisError> {
        let network = Network::of(cluster);
        let ranks = network.gpus.len();
        let gpus = SynthesisError::StepRanks { found: ranks, ranks_max: RANKS_MAX };
        if !(2..=RANKS_MAX).contains(&ranks) {
            return Err(gpus);
        }
        if let Some(root) = kind.root().filter(|root| root.index() >= ranks) {
            return Err(SynthesisError::NoSuchRoot { root, ranks });
        }
        let (goal, direction) = match kind {
            CollectiveKind::AllGather => (Goal::Spread((0..ranks).collect()), Direction::Along),
            CollectiveKind::ReduceScatter => {
                (Goal::Spread((0..ranks).collect()), Direction::Against)
            }
            CollectiveKind::Broadcast(root) => (Goal::Spread(vec![root.index()]), Direction::Along),
            CollectiveKind::Reduce(root) => (Goal::Spread(vec![root.index()]), Direction::Against),
            CollectiveKind::AllReduce => (Goal::SumEverywhere, Direction::Along),
            CollectiveKind::AllToAll | CollectiveKind::Gather(_) | CollectiveKind::Scatter(_) => {
                return Err(SynthesisError::Unsupported { kind });
            }
        };
        let network = match direction {
            Direction::Along => network,
            Direction::Against => network.reversed(),
        };
        let model = StepModel::new(network, link_chunks);
        let problem = Self { model, goal, direction };
        match problem.unreached() {
            Some((from, to)) => {
                let (from, to) = match direction {
                    Direction::Along => (from, to),
                    Direction::Against => (to, from),
                };
                Err(SynthesisError::Disconnected { from, to })
            }
            None => Ok(problem),
        }
    }

    /// The model with its links as they are in the cluster.
    pub fn links_as_they_are(&self) -> StepModel {
        match self.direction {
            Direction::Along => self.model.clone(),
            Direction::Against => self.model.reversed(),
        }
    }

    /// Two ranks of which the second needs what the first has, and no hops lead there.
    fn unreached(&self) -> Option<(usize, usize)> {
        let sources = match &self.goal {
            Goal::Spread(sources) => sources.clone(),
            Goal::SumEverywhere => (0..self.model.ranks).collect(),
        };
        sources.into_iter().find_map(|from| {
            let to = self.model.hops_from(from).iter().position(Option::is_none)?;
            Some((from, to))
        })
    }
}

impl StepModel {
    fn new(network: Network, link_chunks: u32) -> Self {
        let mut pairs = network.pairs;
        pairs.sort_by_key(|pair| (pair.from, pair.to));
        let (ranks, link_count) = (network.gpus.len(), network.links.len());
        Self { ranks, pairs, link_count, link_chunks: link_chunks.max(1) }
    }

    /// The same with every link and every route turned round.
    pub fn reversed(&self) -> Self {
        let pairs = self.pairs.iter().map(|pair| Pair {
            from: pair.to,
            to: pair.from,
            route: pair.route.iter().rev().copied().collect(),
        });
        Self { pairs: pairs.collect(), ..self.clone() }
    }

    /// How many hops each rank is from `from`; none where nothing leads.
    pub fn hops_from(&self, from: usize) -> Vec<Option<u32>> {
        let mut hops = vec![None; self.ranks];
        hops[from] = Some(0);
        let mut open = VecDeque::from([(from, 0)]);
        while let Some((at, count)) = open.pop_front() {
            for pair in self.pairs.iter().filter(|pair| pair.from == at) {
                if hops[pair.to].is_none() {
                    hops[pair.to] = Some(count + 1);
                    open.push_back((pair.to, count + 1));
                }
            }
        }
        hops
    }

    /// By link, the pairs whose routes take it; links that no route takes are left out, and so are
    /// those whose pairs another link has as well.
    pub fn sharers(&self) -> Vec<Vec<usize>> {
        let mut by_link: Vec<Vec<usize>> = vec![Vec::new(); self.link_count];
        for (at, pair) in self.pairs.iter().enumerate() {
            pair.route.iter().for_each(|link| by_link[*link].push(at));
        }
        let distinct: BTreeSet<Vec<usize>> =
            by_link.into_iter().filter(|pairs| !pairs.is_empty()).collect();
        let all: Vec<BTreeSet<usize>> =
            distinct.iter().map(|pairs| pairs.iter().copied().collect()).collect();
        let within = |pairs: &BTreeSet<usize>| {
            all.iter().any(|other| other.len() > pairs.len() && pairs.is_subset(other))
        };
        distinct.into_iter().zip(&all).filter(|(_, set)| !within(set)).map(|(it, _)| it).collect()
    }
}
