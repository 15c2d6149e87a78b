//! In which steps the messages of a proved schedule are sent: what is claimed, and its check.

use std::collections::{BTreeMap, HashMap};

use msccl_collective::{Rank, Slot};
use msccl_ir::Algorithm;
use msccl_machine::{LinkId, Wiring};

use super::model::StepModel;
use super::walk::{Values, earliest_steps, walk, wiring};
use crate::step_fault::StepFault;

/// By sender and receiver: the steps in which the sender sends to the receiver, in the order of
/// channels, then of messages.
pub(super) type Timing = BTreeMap<(u32, u32), Vec<u32>>;

/// Whether the messages of `algorithm`, which is proved, can be sent in the steps that `timing`
/// says:
///
/// * each carries what its sender has after the step before;
/// * no rank sends more than one chunk to another in a step, and no link carries more than it can;
/// * by [`BlockOrder::Counts`], none comes later because its thread block has something else to do
///   first.
///
/// It takes time linear in the steps of thread blocks and the routes of messages.
///
/// # Errors
///
/// The first thing that cannot be.
pub(super) fn check(
    algorithm: &Algorithm,
    timing: &Timing,
    model: &StepModel,
    order: BlockOrder,
) -> Result<(), StepFault> {
    check_links(timing, model)?;
    let wiring = wiring(algorithm)?;
    let claimed = by_link(&wiring, timing)?;
    match order {
        BlockOrder::Counts => check_order(&wiring, &claimed)?,
        BlockOrder::IsFree => {}
    }
    let sent = vec![0; claimed.len()];
    walk(&wiring, &mut Times { wiring: &wiring, claimed, sent })
}

/// Whether the order in which a thread block does things counts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum BlockOrder {
    /// It does: nothing may come later than its step.
    Counts,
    /// It does not: where sums are made between messages, thread blocks come to some of them later.
    IsFree,
}

fn check_order(wiring: &Wiring<'_>, claimed: &[Vec<u32>]) -> Result<(), StepFault> {
    for (link, earliest) in earliest_steps(wiring).iter().enumerate() {
        for (&earliest, &step) in earliest.iter().zip(&claimed[link]) {
            if earliest > step {
                let Ends { from, to } = Ends::of(wiring, link);
                return Err(StepFault::HeldUp { from, to, step, earliest });
            }
        }
    }
    Ok(())
}

/// Whether pairs and links carry no more than they can.
fn check_links(timing: &Timing, model: &StepModel) -> Result<(), StepFault> {
    let mut carried: HashMap<(usize, u32), u32> = HashMap::new();
    for (&(from, to), steps) in timing {
        let ends = (from as usize, to as usize);
        let pair = model.pairs.iter().find(|pair| (pair.from, pair.to) == ends);
        let pair = pair.ok_or(StepFault::NoRoute { from, to })?;
        for (at, &step) in steps.iter().enumerate() {
            if steps[..at].contains(&step) {
                return Err(StepFault::Twice { from, to, step });
            }
            for &link in &pair.route {
                let chunks = carried.entry((link, step)).or_default();
                *chunks += 1;
                if *chunks > model.link_chunks {
                    let link_chunks = model.link_chunks;
                    return Err(StepFault::LinkTooBusy { link, step, link_chunks });
                }
            }
        }
    }
    Ok(())
}

/// Who sends on a link, and who receives.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Ends {
    /// Who sends.
    pub from: u32,
    /// Who receives.
    pub to: u32,
}

impl Ends {
    /// Those of a link.
    pub fn of(wiring: &Wiring<'_>, link: usize) -> Self {
        let link = wiring.links()[link];
        Self { from: wiring.rank(link.sender).0, to: wiring.rank(link.receiver).0 }
    }
}

/// The links of each pair, in the order of channels.
pub(super) fn links_of_pairs(wiring: &Wiring<'_>) -> BTreeMap<(u32, u32), Vec<usize>> {
    let mut links: BTreeMap<(u32, u32), Vec<usize>> = BTreeMap::new();
    for link in 0..wiring.links().len() {
        let Ends { from, to } = Ends::of(wiring, link);
        links.entry((from, to)).or_default().push(link);
    }
    let channel = |link: &usize| wiring.block(wiring.links()[*link].sender).channel;
    links.values_mut().for_each(|links| links.sort_by_key(channel));
    links
}

/// How many chunks go over a link.
fn chunks_over(wiring: &Wiring<'_>, link: usize) -> usize {
    let Ends { from: _, to } = Ends::of(wiring, link);
    let steps = wiring.block(wiring.links()[link].sender).steps.iter();
    let over = steps.filter(|step| step.sends().any(|peer| peer == Rank(to)));
    over.map(|step| step.count as usize).sum()
}

/// By link, the steps of its messages.
fn by_link(wiring: &Wiring<'_>, timing: &Timing) -> Result<Vec<Vec<u32>>, StepFault> {
    let mut claimed = vec![Vec::new(); wiring.links().len()];
    let links = links_of_pairs(wiring);
    for (&(from, to), links) in &links {
        let mut steps = timing.get(&(from, to)).map_or(&[][..], Vec::as_slice);
        let found = links.iter().map(|link| chunks_over(wiring, *link)).sum();
        if steps.len() != found {
            return Err(StepFault::OtherMessages { from, to, claimed: steps.len(), found });
        }
        for &link in links {
            let (of_link, rest) = steps.split_at(chunks_over(wiring, link));
            claimed[link] = of_link.to_vec();
            steps = rest;
        }
    }
    match timing.iter().find(|(ends, _)| !links.contains_key(ends)) {
        Some((&(from, to), steps)) => {
            Err(StepFault::OtherMessages { from, to, claimed: steps.len(), found: 0 })
        }
        None => Ok(claimed),
    }
}

/// Values are the steps after which they are there.
struct Times<'w, 'a> {
    wiring: &'w Wiring<'a>,
    /// By link: the steps of its messages.
    claimed: Vec<Vec<u32>>,
    /// By link: how many messages have been sent.
    sent: Vec<usize>,
}

impl Values for Times<'_, '_> {
    type Value = u32;

    fn at_first(&self, _: Rank, _: Slot) -> u32 {
        0
    }

    fn add(&self, one: u32, other: u32) -> u32 {
        one.max(other)
    }

    fn send(&mut self, link: LinkId, value: &u32) -> Result<u32, StepFault> {
        let message = self.sent[link.index()];
        self.sent[link.index()] += 1;
        let step = self.claimed[link.index()].get(message).copied().unwrap_or(0);
        if step <= *value {
            let Ends { from, to } = Ends::of(self.wiring, link.index());
            return Err(StepFault::TooEarly { from, to, step, known_after: *value });
        }
        Ok(step)
    }
}
