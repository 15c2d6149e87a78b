//! The linear program of lengths and weights.
//!
//! A pair may also be made longer by itself, for the rate of the narrowest link of its route. That
//! is never less than to make this link longer, and so changes nothing; but the program has a
//! solution to begin with.

use super::cuts::RankCrossing;
use crate::network::Network;
use crate::simplex::{Column, Row, Simplex, ZERO, tiny};
use crate::time_limit::TimeLimit;

/// What the program decides about.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Variable {
    /// Of a link.
    Length(usize),
    /// By which a pair is longer than its route.
    Extra(usize),
    /// By which a pair is longer than it must be.
    Room,
    /// Of a crossing.
    Weight(usize),
}

/// A variable that is not in the basis.
struct Candidate {
    variable: Variable,
    column: Column,
    cost: f64,
}

pub(super) struct DualProgram<'a> {
    network: &'a Network,
    /// By link: the pairs whose route takes it.
    users: Vec<Vec<usize>>,
    /// By pair: the link with the least rate of its route.
    narrowest: Vec<usize>,
    highest_rate: f64,
    crossings: Vec<RankCrossing>,
    /// A row for each pair, then one for all weights.
    simplex: Simplex<Variable>,
}

/// Weights and lengths.
pub(super) struct DualSolution {
    pub weights: Vec<Weighted>,
    /// By link.
    pub lengths: Vec<f64>,
}

/// A crossing and its weight, above 0.
pub(super) struct Weighted {
    pub crossing: RankCrossing,
    pub weight: f64,
}

impl<'a> DualProgram<'a> {
    /// With one crossing, which must be crossed by some block.
    pub fn new(network: &'a Network, first: RankCrossing) -> Self {
        let mut users = vec![Vec::new(); network.links.len()];
        let mut narrowest = Vec::with_capacity(network.pairs.len());
        for (at, pair) in network.pairs.iter().enumerate() {
            pair.route.iter().for_each(|link| users[*link].push(at));
            let least = pair.route.iter().min_by_key(|link| network.links[**link].rate_mb_per_s);
            narrowest.push(least.copied().unwrap_or(0));
        }
        let highest = network.links.iter().map(|link| link.rate_mb_per_s).max().unwrap_or(1);
        let highest_rate = highest.max(1) as f64;
        let rate = |link: usize| network.links[link].rate_mb_per_s as f64 / highest_rate;
        let row = |(at, pair)| {
            let (sign, cost, label) = if first.is_crossed(pair) {
                (1.0, rate(narrowest[at]), Variable::Extra(at))
            } else {
                (-1.0, 0.0, Variable::Room)
            };
            Row { right: -tiny(at), sign, cost, label }
        };
        let weights = Row { right: 1.0, sign: 1.0, cost: 0.0, label: Variable::Room };
        let rows: Vec<_> = network.pairs.iter().enumerate().map(row).chain([weights]).collect();
        let simplex = Simplex::new(&rows);
        let crossings = vec![first];
        let mut program = Self { network, users, narrowest, highest_rate, crossings, simplex };
        let Candidate { variable, column, cost } = program.weight(0);
        program.simplex.replace(network.pairs.len(), &column, cost, variable);
        program
    }

    fn rate(&self, link: usize) -> f64 {
        self.network.links[link].rate_mb_per_s as f64 / self.highest_rate
    }

    /// The weight of a crossing.
    fn weight(&self, at: usize) -> Candidate {
        let crossing = &self.crossings[at];
        let pairs = self.network.pairs.iter().enumerate();
        let crossed = pairs.filter(|(_, pair)| crossing.is_crossed(pair)).map(|(at, _)| (at, -1.0));
        let column = crossed.chain([(self.network.pairs.len(), crossing.blocks as f64)]).collect();
        Candidate { variable: Variable::Weight(at), column, cost: 0.0 }
    }

    /// Gives `crossing` a weight, if that makes the solution better; whether it does.
    pub fn add(&mut self, crossing: RankCrossing) -> bool {
        self.crossings.push(crossing);
        let candidate = self.weight(self.crossings.len() - 1);
        let is_better = self.gain(&candidate) > ZERO * self.simplex.cost();
        is_better && self.enter(&candidate)
    }

    /// Makes the solution the best with the crossings that were added, or better until the time is
    /// over.
    pub fn improve(&mut self, limit: TimeLimit) {
        while !limit.is_over() {
            let candidates = self.lengths().chain(self.pairs());
            let candidates = candidates.map(|it| (self.gain(&it), it));
            let best = candidates.max_by(|(one, _), (other, _)| one.total_cmp(other));
            match best {
                Some((gain, best)) if gain > ZERO && self.enter(&best) => {}
                _ => break,
            }
        }
    }

    fn lengths(&self) -> impl Iterator<Item = Candidate> {
        let used = self.users.iter().enumerate().filter(|(_, users)| !users.is_empty());
        used.map(|(link, users)| Candidate {
            variable: Variable::Length(link),
            column: users.iter().map(|pair| (*pair, 1.0)).collect(),
            cost: self.rate(link),
        })
    }

    fn pairs(&self) -> impl Iterator<Item = Candidate> {
        self.narrowest.iter().enumerate().flat_map(|(pair, link)| {
            let candidate =
                |variable, number, cost| Candidate { variable, column: vec![(pair, number)], cost };
            [
                candidate(Variable::Extra(pair), 1.0, self.rate(*link)),
                candidate(Variable::Room, -1.0, 0.0),
            ]
        })
    }

    fn gain(&self, candidate: &Candidate) -> f64 {
        self.simplex.gain(&candidate.column, candidate.cost)
    }

    fn enter(&mut self, candidate: &Candidate) -> bool {
        let Candidate { variable, column, cost } = candidate;
        self.simplex.enter(column, *cost, *variable)
    }

    /// By pair: its rate, where a block needs the rate 1.
    pub fn rates_by_block(&self) -> Vec<f64> {
        let (of_pairs, of_block) = self.simplex.prices().split_at(self.network.pairs.len());
        of_pairs.iter().map(|rate| rate / of_block[0].max(f64::MIN_POSITIVE)).collect()
    }

    /// Weights and lengths as they are.
    pub fn solution(&self) -> DualSolution {
        let mut lengths = vec![0.0; self.network.links.len()];
        let mut weights = Vec::new();
        for (variable, value) in self.simplex.solution_of(self.network.pairs.len()) {
            let value = if value > ZERO { value } else { continue };
            match variable {
                Variable::Length(link) => lengths[link] += value,
                Variable::Extra(pair) => lengths[self.narrowest[pair]] += value,
                Variable::Weight(at) => {
                    weights.push(Weighted { crossing: self.crossings[at].clone(), weight: value });
                }
                Variable::Room => {}
            }
        }
        DualSolution { weights, lengths }
    }
}
