//! Cuts in time: why so many steps are too few, without any search.
//!
//! A cut gives each rank the step after which it counts as *inside*; roots that are inside from the
//! start are those of few blocks, and a rank that is never inside must get all blocks. A block can
//! get out of the inside only by a message from a rank that is inside to one that is not. If links
//! carry fewer of these than there are blocks to get out, the steps are too few. The ranks nearest
//! to a root are such a cut where the farthest rank is too far, and a single rank is one where its
//! links are too few.
//!
//! The best cut for a rank is one of a maximum flow over links and steps.

use std::collections::HashMap;

use msccl_bounds::FlowNetwork;

use super::model::{Goal, StepModel, StepProblem};
use crate::network::Pair;

/// By rank, after which step it is inside; `None`: never.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StepCut {
    /// After which step each rank is inside.
    pub inside_after: Vec<Option<u32>>,
}

/// What a cut shows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Crossing {
    /// Blocks that begin inside, and must get out.
    pub blocks: usize,
    /// The most that messages can carry out.
    pub carried: usize,
}

impl StepCut {
    /// A cut that shows that `steps` are too few for `problem`, if one of those that are tried
    /// does.
    pub(super) fn search(problem: &StepProblem, steps: u32) -> Option<Self> {
        let sources: Vec<Vec<usize>> = match &problem.goal {
            Goal::Spread(roots) => vec![roots.clone()],
            // Contributions can be added up on their way, so that each must get out alone.
            Goal::SumEverywhere => (0..problem.model.ranks).map(|rank| vec![rank]).collect(),
        };
        let destinations = 0..problem.model.ranks;
        let mut cuts = sources.iter().flat_map(|sources| {
            destinations.clone().map(|to| smallest(&problem.model, sources, to, steps))
        });
        cuts.find(|cut| cut.shows(problem, steps))
    }

    /// Whether it shows that `steps` are too few for `problem`: in time linear in the routes of
    /// messages, times the steps.
    pub(super) fn shows(&self, problem: &StepProblem, steps: u32) -> bool {
        let Crossing { blocks, carried } = self.crossing(problem, steps);
        match &problem.goal {
            Goal::Spread(_) => carried < blocks,
            Goal::SumEverywhere => carried == 0 && blocks > 0,
        }
    }

    /// What must get out within `steps`, and what can.
    pub(super) fn crossing(&self, problem: &StepProblem, steps: u32) -> Crossing {
        let none = Crossing { blocks: 0, carried: 0 };
        let model = &problem.model;
        let outside = |rank: usize, step: u32| self.inside_after[rank].is_none_or(|at| at > step);
        let has_outsider = (0..model.ranks).any(|rank| outside(rank, steps));
        if self.inside_after.len() != model.ranks || !has_outsider {
            return none;
        }
        let all: Vec<usize> = (0..model.ranks).collect();
        let roots = match &problem.goal {
            Goal::Spread(roots) => roots,
            Goal::SumEverywhere => &all,
        };
        let blocks = roots.iter().filter(|root| !outside(**root, 0)).count();
        let carried = (1..=steps).map(|step| {
            let pairs = model.pairs.iter();
            let out = pairs.filter(|it| !outside(it.from, step - 1) && outside(it.to, step));
            chunks_over(&out.collect::<Vec<_>>(), model.link_chunks as usize)
        });
        Crossing { blocks, carried: carried.sum() }
    }
}

/// The most chunks that `pairs` carry in a step, if each counts for its most common link.
fn chunks_over(pairs: &[&Pair], link_chunks: usize) -> usize {
    let mut routes_over: HashMap<usize, usize> = HashMap::new();
    for link in pairs.iter().flat_map(|pair| &pair.route) {
        *routes_over.entry(*link).or_default() += 1;
    }
    let mut chosen: HashMap<usize, usize> = HashMap::new();
    for pair in pairs {
        let common = pair.route.iter().max_by_key(|link| (routes_over[link], **link));
        common.into_iter().for_each(|link| *chosen.entry(*link).or_default() += 1);
    }
    chosen.values().map(|pairs| (*pairs).min(link_chunks)).sum()
}

/// The most chunks that a rank sends in one step.
pub(super) fn most_sent(model: &StepModel) -> usize {
    let sent = |rank: usize| {
        let pairs: Vec<&Pair> = model.pairs.iter().filter(|pair| pair.from == rank).collect();
        chunks_over(&pairs, model.link_chunks as usize)
    };
    (0..model.ranks).map(sent).max().unwrap_or(0)
}

/// The smallest cut between the blocks of `sources` and rank `to`, which needs them after `steps`.
fn smallest(model: &StepModel, sources: &[usize], to: usize, steps: u32) -> StepCut {
    let mut flow = TimedFlow::new(model, steps);
    let source = flow.source();
    for root in sources {
        flow.arc(source, flow.rank(*root, 0), 1);
    }
    let sink = flow.rank(to, steps);
    flow.network.set_capacities(&flow.capacities);
    flow.network.send(source, sink, u128::MAX);
    let inside = flow.network.source_side(source);
    let first = |rank: usize| (0..=steps).find(|step| inside[flow.rank(rank, *step)]);
    StepCut { inside_after: (0..model.ranks).map(first).collect() }
}

/// Ranks after each step, and links in each step.
struct TimedFlow {
    network: FlowNetwork,
    capacities: Vec<u128>,
    ranks: usize,
    steps: u32,
}

impl TimedFlow {
    fn new(model: &StepModel, steps: u32) -> Self {
        let StepModel { ranks, pairs, link_count, link_chunks } = model;
        let vertices = (steps as usize + 1) * ranks + 1 + 2 * steps as usize * link_count;
        let network = FlowNetwork::new(vertices);
        let mut flow = Self { network, capacities: Vec::new(), ranks: *ranks, steps };
        for step in 1..=steps {
            let first_link = flow.source() + 1 + 2 * (step as usize - 1) * link_count;
            let [enter, leave] = [0, 1].map(|end| move |link: usize| first_link + 2 * link + end);
            for link in 0..*link_count {
                flow.arc(enter(link), leave(link), u128::from(*link_chunks));
            }
            for rank in 0..*ranks {
                flow.arc(flow.rank(rank, step - 1), flow.rank(rank, step), u128::MAX);
            }
            for Pair { from, to, route } in pairs {
                // A pair has one chunk in a step.
                let (mut at, mut capacity) = (flow.rank(*from, step - 1), 1);
                for link in route {
                    flow.arc(at, enter(*link), capacity);
                    (at, capacity) = (leave(*link), u128::MAX);
                }
                flow.arc(at, flow.rank(*to, step), u128::MAX);
            }
        }
        flow
    }

    fn rank(&self, rank: usize, step: u32) -> usize {
        step as usize * self.ranks + rank
    }

    /// Where blocks come from.
    fn source(&self) -> usize {
        (self.steps as usize + 1) * self.ranks
    }

    fn arc(&mut self, from: usize, to: usize, capacity: u128) {
        self.network.add(from, to);
        self.capacities.push(capacity);
    }
}
