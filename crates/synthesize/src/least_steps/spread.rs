//! Blocks that go to all ranks, as clauses and as a list of messages.
//!
//! The clauses for so many steps can be satisfied if and only if there are messages that bring
//! every block to every rank in these steps. Of the messages of a solution, the clauses leave out
//! what nobody needs: a block that comes to a rank that has it, and a second copy of it in the
//! same step. Leaving these out of messages that do it leaves messages that do it.

use super::cnf::{Cnf, Literal};
use super::model::StepModel;

/// A message: a chunk of a block, in a step.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct Message {
    /// When, from 1.
    pub step: u32,
    /// Which block: a place in the list of roots.
    pub block: usize,
    /// Who sends.
    pub from: usize,
    /// Who receives.
    pub to: usize,
}

/// What is known of a block at a rank after a step.
#[derive(Clone, Copy)]
enum Held {
    Never,
    Always,
    If(Literal),
}

/// A message that may be sent.
struct SpreadChoice {
    message: Message,
    pair: usize,
    is_sent: Literal,
}

/// What the variables of clauses mean.
pub(super) struct SpreadClauses {
    choices: Vec<SpreadChoice>,
}

impl SpreadClauses {
    /// Adds to `cnf` that blocks of `roots` are everywhere after `steps`.
    pub(super) fn new(cnf: &mut Cnf, model: &StepModel, roots: &[usize], steps: u32) -> Self {
        let mut writer = SpreadClauseWriter { cnf, model, steps, choices: Vec::new() };
        for (block, root) in roots.iter().enumerate() {
            writer.block(block, *root);
        }
        writer.capacities();
        Self { choices: writer.choices }
    }

    /// The messages of a solution.
    pub(super) fn messages(&self, is_true: impl Fn(Literal) -> bool) -> Vec<Message> {
        let sent = self.choices.iter().filter(|choice| is_true(choice.is_sent));
        sent.map(|choice| choice.message).collect()
    }
}

struct SpreadClauseWriter<'a> {
    cnf: &'a mut Cnf,
    model: &'a StepModel,
    steps: u32,
    choices: Vec<SpreadChoice>,
}

impl SpreadClauseWriter<'_> {
    /// A block of `root` comes to all ranks.
    fn block(&mut self, block: usize, root: usize) {
        let Self { model, steps, .. } = *self;
        let hops = model.hops_from(root);
        let mut before: Vec<Held> = (0..model.ranks).map(|at| held_at_first(at == root)).collect();
        for step in 1..=steps {
            let mut arrivals: Vec<Vec<Literal>> = vec![Vec::new(); model.ranks];
            for (at, pair) in model.pairs.iter().enumerate().filter(|(_, pair)| pair.to != root) {
                let is_near = hops[pair.from].is_some_and(|hops| hops < step);
                if !is_near {
                    continue;
                }
                let is_sent = self.cnf.fresh();
                if let Held::If(held) = before[pair.from] {
                    self.cnf.add([!is_sent, held]);
                }
                if let Held::If(held) = before[pair.to] {
                    self.cnf.add([!is_sent, !held]);
                }
                arrivals[pair.to].push(is_sent);
                let message = Message { step, block, from: pair.from, to: pair.to };
                self.choices.push(SpreadChoice { message, pair: at, is_sent });
            }
            let is_last = step == steps;
            let after = before.iter().zip(arrivals).map(|(held, arrivals)| {
                self.cnf.at_most(1, &arrivals);
                self.after(*held, &arrivals, is_last)
            });
            before = after.collect();
        }
    }

    /// Whether a rank has a block after a step, where it had it before, or one of the messages
    /// brings it.
    fn after(&mut self, before: Held, arrivals: &[Literal], is_last: bool) -> Held {
        let earlier = match before {
            Held::Always => return Held::Always,
            Held::Never => None,
            Held::If(held) => Some(held),
        };
        if is_last {
            self.cnf.add(earlier.into_iter().chain(arrivals.iter().copied()));
            return Held::Always;
        }
        if arrivals.is_empty() {
            return before;
        }
        let now = self.cnf.fresh();
        let ways = earlier.into_iter().chain(arrivals.iter().copied());
        self.cnf.add(std::iter::once(!now).chain(ways.clone()));
        ways.for_each(|way| self.cnf.add([!way, now]));
        Held::If(now)
    }

    /// No pair carries more than one chunk in a step, and no link more than it can.
    fn capacities(&mut self) {
        let limit = self.model.link_chunks as usize;
        if limit > 1 {
            (0..self.model.pairs.len()).for_each(|pair| self.capacity(&[pair], 1));
        }
        self.model.sharers().iter().for_each(|pairs| self.capacity(pairs, limit));
    }

    fn capacity(&mut self, pairs: &[usize], limit: usize) {
        for step in 1..=self.steps {
            let here = |it: &&SpreadChoice| it.message.step == step && pairs.contains(&it.pair);
            let sent: Vec<Literal> =
                self.choices.iter().filter(here).map(|choice| choice.is_sent).collect();
            self.cnf.at_most(limit, &sent);
        }
    }
}

/// How many literals the clauses have, about.
pub(super) fn size(model: &StepModel, blocks: usize, steps: u32) -> usize {
    // Each message is in some clauses of its own, and counted by each of its links.
    let links = model.pairs.iter().map(|pair| pair.route.len()).sum::<usize>();
    blocks * steps as usize * (10 * model.pairs.len() + 10 * model.link_chunks as usize * links)
}

fn held_at_first(is_root: bool) -> Held {
    if is_root { Held::Always } else { Held::Never }
}

/// Messages found without search: in each step, each pair sends the block that the fewest ranks
/// have, of those that its receiver lacks, while its links have room.
pub(super) fn greedy(model: &StepModel, roots: &[usize]) -> Vec<Message> {
    let mut has: Vec<Vec<bool>> =
        roots.iter().map(|root| (0..model.ranks).map(|at| at == *root).collect()).collect();
    let mut messages = Vec::new();
    for step in 1.. {
        let before = has.clone();
        let mut room = vec![model.link_chunks; model.link_count];
        let mut count: Vec<usize> =
            before.iter().map(|at| at.iter().filter(|it| **it).count()).collect();
        let mut is_idle = true;
        for pair in &model.pairs {
            if pair.route.iter().any(|link| room[*link] == 0) {
                continue;
            }
            let useful = |block: &usize| before[*block][pair.from] && !has[*block][pair.to];
            let Some(block) = (0..roots.len()).filter(useful).min_by_key(|at| count[*at]) else {
                continue;
            };
            pair.route.iter().for_each(|link| room[*link] -= 1);
            has[block][pair.to] = true;
            count[block] += 1;
            messages.push(Message { step, block, from: pair.from, to: pair.to });
            is_idle = false;
        }
        if is_idle {
            break;
        }
    }
    messages
}
