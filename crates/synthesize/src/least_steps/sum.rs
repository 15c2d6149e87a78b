//! Sums that all ranks get, as clauses and as a list of messages.
//!
//! A message carries the sum of what some ranks have: of its sender's own contribution, if it
//! likes, and of messages that came to its sender in earlier steps. Nothing is ever subtracted, so
//! that no contribution may come twice into a sum that somebody needs. The clauses for so many
//! steps can be satisfied if and only if there are messages after which each rank can add up all
//! contributions.

use super::cnf::{Cnf, Literal};
use super::model::StepModel;
use super::spread::Message;

/// Terms of a sum.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Terms {
    /// Whether what the rank itself has is one of them.
    pub own: bool,
    /// Messages that came to the rank: places in the list of all messages.
    pub messages: Vec<usize>,
}

/// A message with a sum.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct SumMessage {
    /// When, from 1.
    pub step: u32,
    /// Who sends.
    pub from: usize,
    /// Who receives.
    pub to: usize,
    /// What it carries.
    pub terms: Terms,
}

/// Messages, in the order of steps, and what each rank adds up at the end.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct SumMessages {
    /// The messages.
    pub messages: Vec<SumMessage>,
    /// By rank.
    pub results: Vec<Terms>,
}

/// A message that may be sent.
struct SumChoice {
    step: u32,
    pair: usize,
    /// By rank, whether its contribution is in it.
    holds: Vec<Literal>,
    /// Its terms.
    terms: TermChoices,
}

/// Terms that may be in a sum.
struct TermChoices {
    own: Literal,
    messages: Vec<(usize, Literal)>,
}

/// What the variables of clauses mean.
pub(super) struct SumClauses {
    choices: Vec<SumChoice>,
    results: Vec<TermChoices>,
}

impl SumClauses {
    /// Adds to `cnf` that all ranks can add up everything after `steps`.
    pub(super) fn new(cnf: &mut Cnf, model: &StepModel, steps: u32) -> Self {
        let mut writer = SumClauseWriter { cnf, model, choices: Vec::new() };
        for step in 1..=steps {
            let known = writer.choices.len();
            for (at, pair) in model.pairs.iter().enumerate() {
                let holds = writer.fresh_holds();
                let terms = writer.sum(pair.from, known, &holds);
                writer.choices.push(SumChoice { step, pair: at, holds, terms });
            }
        }
        writer.capacities(steps);
        let result = |rank: usize| {
            let holds = writer.fresh_holds();
            holds.iter().for_each(|held| writer.cnf.add([*held]));
            writer.sum(rank, writer.choices.len(), &holds)
        };
        let results = (0..model.ranks).map(result).collect();
        Self { choices: writer.choices, results }
    }

    /// The messages of a solution that somebody needs.
    pub(super) fn messages(
        &self,
        model: &StepModel,
        is_true: impl Fn(Literal) -> bool,
    ) -> SumMessages {
        // A term that holds nothing is none.
        let holds_any = |at: usize| self.choices[at].holds.iter().any(|held| is_true(*held));
        let terms = |of: &TermChoices| {
            let chosen = of.messages.iter().filter(|(_, literal)| is_true(*literal));
            let messages = chosen.map(|(at, _)| *at).filter(|at| holds_any(*at)).collect();
            Terms { own: is_true(of.own), messages }
        };
        let messages = self.choices.iter().map(|choice| SumMessage {
            step: choice.step,
            from: model.pairs[choice.pair].from,
            to: model.pairs[choice.pair].to,
            terms: terms(&choice.terms),
        });
        let results = self.results.iter().map(terms).collect();
        SumMessages { messages: messages.collect(), results }.needed()
    }
}

struct SumClauseWriter<'a> {
    cnf: &'a mut Cnf,
    model: &'a StepModel,
    choices: Vec<SumChoice>,
}

impl SumClauseWriter<'_> {
    /// For each rank, whether its contribution is in a sum.
    fn fresh_holds(&mut self) -> Vec<Literal> {
        (0..self.model.ranks).map(|_| self.cnf.fresh()).collect()
    }

    /// `holds` says of each rank whether its contribution is in a sum at `rank` of terms among the
    /// first `known` messages.
    fn sum(&mut self, rank: usize, known: usize, holds: &[Literal]) -> TermChoices {
        let model = self.model;
        let own = self.cnf.fresh();
        let mut ways: Vec<Vec<Literal>> = vec![Vec::new(); model.ranks];
        ways[rank].push(own);
        let mut messages = Vec::new();
        for at in 0..known {
            if model.pairs[self.choices[at].pair].to != rank {
                continue;
            }
            let is_term = self.cnf.fresh();
            messages.push((at, is_term));
            for (of, ways) in ways.iter_mut().enumerate() {
                let in_message = self.choices[at].holds[of];
                let both = self.cnf.fresh();
                self.cnf.add([!both, is_term]);
                self.cnf.add([!both, in_message]);
                self.cnf.add([!is_term, !in_message, both]);
                ways.push(both);
            }
        }
        for (ways, &held) in ways.iter().zip(holds) {
            self.cnf.at_most(1, ways);
            self.cnf.add(std::iter::once(!held).chain(ways.iter().copied()));
            ways.iter().for_each(|way| self.cnf.add([!*way, held]));
        }
        TermChoices { own, messages }
    }

    /// No link carries more in a step than it can.
    fn capacities(&mut self, steps: u32) {
        let model = self.model;
        let mut sent = Vec::new();
        let limit = model.link_chunks as usize;
        let shared: Vec<Vec<usize>> =
            model.sharers().into_iter().filter(|pairs| pairs.len() > limit).collect();
        for at in 0..self.choices.len() {
            let is_shared = shared.iter().any(|pairs| pairs.contains(&self.choices[at].pair));
            // A message with nothing in it is none.
            let is_sent = is_shared.then(|| {
                let is_sent = self.cnf.fresh();
                let holds = self.choices[at].holds.clone();
                holds.into_iter().for_each(|held| self.cnf.add([!held, is_sent]));
                is_sent
            });
            sent.push(is_sent);
        }
        for pairs in shared {
            for step in 1..=steps {
                let choices = self.choices.iter().zip(&sent);
                let here = choices.filter(|(it, _)| it.step == step && pairs.contains(&it.pair));
                let here: Vec<Literal> = here.filter_map(|(_, is_sent)| *is_sent).collect();
                self.cnf.at_most(limit, &here);
            }
        }
    }
}

/// How many literals the clauses have, about.
pub(super) fn size(model: &StepModel, steps: u32) -> usize {
    // Each message may be a term of each later one of its receiver.
    let messages = model.pairs.len() * steps as usize;
    let terms = messages / model.ranks.max(1) * messages / 2;
    16 * model.ranks * (terms + messages)
}

impl SumMessages {
    /// Everybody sends everybody what it has, by the `messages` that spread a block of each rank,
    /// and adds up.
    pub(super) fn of_spread(ranks: usize, messages: &[Message]) -> Self {
        let mut sorted = messages.to_vec();
        sorted.sort_unstable();
        let arrival = |block: usize, rank: usize| {
            sorted.iter().position(|it| it.block == block && it.to == rank)
        };
        let sums = sorted.iter().map(|it| SumMessage {
            step: it.step,
            from: it.from,
            to: it.to,
            terms: Terms {
                own: it.block == it.from,
                messages: arrival(it.block, it.from).into_iter().collect(),
            },
        });
        let result = |rank: usize| Terms {
            own: true,
            messages: (0..ranks).filter_map(|block| arrival(block, rank)).collect(),
        };
        Self { messages: sums.collect(), results: (0..ranks).map(result).collect() }
    }

    /// The sum goes to `root` by the `messages` that spread a block from there with time and links
    /// turned round, and then from there by others that spread it.
    pub(super) fn over_root(root: usize, ranks: usize, up: &[Message], down: &[Message]) -> Self {
        let last = up.iter().map(|it| it.step).max().unwrap_or(0);
        let turned =
            |it: &Message| Message { step: last + 1 - it.step, from: it.to, to: it.from, ..*it };
        let mut up: Vec<Message> = up.iter().map(turned).collect();
        up.sort_unstable();
        let mut down: Vec<Message> =
            down.iter().map(|it| Message { step: last + it.step, ..*it }).collect();
        down.sort_unstable();
        let came_up = |rank: usize| (0..up.len()).filter(|at| up[*at].to == rank).collect();
        let whole = |rank: usize| {
            if rank == root {
                return Terms { own: true, messages: came_up(root) };
            }
            let arrival = down.iter().position(|it| it.to == rank);
            Terms { own: false, messages: arrival.map(|at| up.len() + at).into_iter().collect() }
        };
        let sum =
            |it: &Message, terms| SumMessage { step: it.step, from: it.from, to: it.to, terms };
        let partial = |it: &Message| sum(it, Terms { own: true, messages: came_up(it.from) });
        let complete = |it: &Message| sum(it, whole(it.from));
        let messages = up.iter().map(partial).chain(down.iter().map(complete));
        Self { messages: messages.collect(), results: (0..ranks).map(whole).collect() }
    }

    /// The last step in which something is sent.
    pub(super) fn steps(&self) -> u32 {
        self.messages.iter().map(|it| it.step).max().unwrap_or(0)
    }

    /// Without messages that are in no result.
    fn needed(self) -> Self {
        let mut is_needed = vec![false; self.messages.len()];
        let mut open: Vec<usize> =
            self.results.iter().flat_map(|terms| &terms.messages).copied().collect();
        while let Some(at) = open.pop() {
            if !std::mem::replace(&mut is_needed[at], true) {
                open.extend(&self.messages[at].terms.messages);
            }
        }
        let mut place = 0;
        let places = is_needed.iter().map(|is_needed| {
            let here = place;
            place += usize::from(*is_needed);
            here
        });
        let places: Vec<usize> = places.collect();
        let moved = |terms: Terms| Terms {
            own: terms.own,
            messages: terms.messages.into_iter().map(|at| places[at]).collect(),
        };
        let kept = self.messages.into_iter().zip(&is_needed).filter(|(_, needed)| **needed);
        let messages = kept.map(|(it, _)| SumMessage { terms: moved(it.terms), ..it });
        Self {
            messages: messages.collect(),
            results: self.results.into_iter().map(moved).collect(),
        }
    }
}
