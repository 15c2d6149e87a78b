//! Which message of a schedule is which one of a plan: the one that carries the same.

use std::collections::{BTreeMap, BTreeSet};

use msccl_collective::{Buffer, CollectiveKind, Contribution, Rank, Slot};
use msccl_ir::Algorithm;
use msccl_machine::LinkId;

use super::clauses::Messages;
use super::plan::StepPlan;
use super::spread::Message;
use super::sum::{SumMessages, Terms};
use super::timing::{Timing, links_of_pairs};
use super::walk::{Values, canonical, walk, wiring};
use crate::network::Direction;
use crate::step_fault::StepFault;

/// What a chunk is the sum of.
type Content = BTreeSet<Contribution>;

/// The steps in which the messages of `algorithm`, the compiled program of `plan`, are sent.
///
/// # Errors
///
/// The messages are not those of the plan.
pub(super) fn timing(plan: &StepPlan, algorithm: &Algorithm) -> Result<Timing, StepFault> {
    let wiring = wiring(algorithm)?;
    let sent = vec![Vec::new(); wiring.links().len()];
    let mut run = Contents { algorithm, sent };
    walk(&wiring, &mut run)?;
    let mut planned = planned(plan);
    let mut timing = Timing::new();
    for (&(from, to), links) in &links_of_pairs(&wiring) {
        let contents = links.iter().flat_map(|link| &run.sent[*link]);
        let steps = contents.map(|content| {
            let steps = planned.get_mut(&(from, to, content.clone()));
            let step = steps.and_then(BTreeSet::pop_first);
            step.ok_or(StepFault::NotPlanned { from, to })
        });
        timing.insert((from, to), steps.collect::<Result<_, _>>()?);
    }
    Ok(timing)
}

/// By sender, receiver and content: the steps.
type Planned = BTreeMap<(u32, u32, Content), BTreeSet<u32>>;

fn planned(plan: &StepPlan) -> Planned {
    let mut planned = Planned::new();
    let mut add = |from: usize, to: usize, content: Content, step: u32| {
        planned.entry((from as u32, to as u32, content)).or_default().insert(step);
    };
    match &plan.messages {
        Messages::Spread(messages) => match plan.direction {
            Direction::Along => {
                for Message { step, block, from, to } in messages {
                    add(*from, *to, [given(plan.kind, *block)].into(), *step);
                }
            }
            Direction::Against => summed(plan, messages, add),
        },
        Messages::Sum(sums) => {
            for (message, content) in sums.messages.iter().zip(contents(sums)) {
                add(message.from, message.to, content, message.step);
            }
        }
    }
    planned
}

/// What a block is at its root.
fn given(kind: CollectiveKind, block: usize) -> Contribution {
    let rank = kind.root().unwrap_or(Rank::from(block));
    Contribution { rank, index: 0 }
}

/// Sums of blocks, which go against the messages.
fn summed(plan: &StepPlan, messages: &[Message], mut add: impl FnMut(usize, usize, Content, u32)) {
    let steps = plan.steps();
    let mut last_first = messages.to_vec();
    last_first.sort_by_key(|message| std::cmp::Reverse(message.step));
    let mut has: BTreeMap<(usize, usize), Content> = BTreeMap::new();
    for Message { step, block, from, to } in last_first {
        let own = |rank: usize| Contribution { rank: Rank::from(rank), index: block as u32 };
        let sent = has.entry((block, to)).or_insert_with(|| [own(to)].into()).clone();
        has.entry((block, from)).or_insert_with(|| [own(from)].into()).extend(&sent);
        add(to, from, sent, steps + 1 - step);
    }
}

/// What each message carries.
fn contents(sums: &SumMessages) -> Vec<Content> {
    let mut contents: Vec<Content> = Vec::new();
    for message in &sums.messages {
        let Terms { own, messages } = &message.terms;
        let own = own.then_some(Contribution { rank: Rank::from(message.from), index: 0 });
        let others = messages.iter().flat_map(|at| contents[*at].iter().copied());
        contents.push(own.into_iter().chain(others).collect());
    }
    contents
}

/// Values are what chunks are sums of.
struct Contents<'a> {
    algorithm: &'a Algorithm,
    /// By link: what was sent.
    sent: Vec<Vec<Content>>,
}

impl Values for Contents<'_> {
    type Value = Content;

    fn at_first(&self, rank: Rank, slot: Slot) -> Content {
        let collective = &self.algorithm.collective;
        let is_here =
            |index: &u32| canonical(self.algorithm, rank, Slot::new(Buffer::Input, *index)) == slot;
        let here = (0..collective.input_chunks(rank)).filter(is_here);
        here.filter_map(|index| collective.given(rank, index)).collect()
    }

    fn add(&self, mut one: Content, other: Content) -> Content {
        one.extend(other);
        one
    }

    fn send(&mut self, link: LinkId, value: &Content) -> Result<Content, StepFault> {
        self.sent[link.index()].push(value.clone());
        Ok(value.clone())
    }
}
