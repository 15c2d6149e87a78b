//! One run of an algorithm on one thread, in any order that waits and links allow.

use std::ops::Range;

use msccl_collective::Rank;
use msccl_ir::{Place, Step, StepRef};

use crate::stall::{Blocked, Reason, Stall};
use crate::step::touches_link;
use crate::wiring::{LinkId, TbId, Wiring};

/// How links carry messages in a run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Messages {
    /// Chunks of a counted step that share one message; at least one.
    pub chunks_per_message: u32,
    /// Messages in flight on a link before its sender waits; at least one.
    pub depth: u32,
}

/// What fires at once: one message of a step on each of its links.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Piece {
    /// The thread block.
    pub tb: TbId,
    /// The step in that thread block.
    pub step: u32,
    /// The chunks of the step.
    pub chunks: Range<u32>,
    /// Whether the step ends with this piece.
    pub ends_step: bool,
}

/// How a run ended.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Outcome {
    /// Every thread block has finished. Links that still hold messages are listed with their
    /// number.
    Completed {
        /// Messages that nobody has received.
        leftover: Vec<(LinkId, u32)>,
    },
    /// No thread block can go on.
    Stalled(Stall),
}

/// The policy that picks the thread block that became ready last, and so runs each until it blocks:
/// the fastest one.
pub fn latest_ready(ready: usize) -> usize {
    ready.saturating_sub(1)
}

/// Runs the algorithm to its end or to a standstill.
///
/// `pick` says which of the given number (at least one) of ready thread blocks fires next; `fired`
/// gets every piece, in the order in which they fire, and executes it.
///
/// # Errors
///
/// The first error of `fired`, which ends the run.
pub fn run<E>(
    wiring: &Wiring<'_>,
    messages: Messages,
    mut pick: impl FnMut(usize) -> usize,
    mut fired: impl FnMut(Piece) -> Result<(), E>,
) -> Result<Outcome, E> {
    let mut state = State::new(wiring, messages);
    while !state.ready.is_empty() {
        let chosen = pick(state.ready.len()).min(state.ready.len() - 1);
        let tb = state.ready.swap_remove(chosen);
        if let Some(step) = state.next_step(tb) {
            fired(state.fire(tb, step))?;
            state.ready.push(tb);
        }
    }
    Ok(state.outcome())
}

struct State<'a, 'w> {
    wiring: &'w Wiring<'a>,
    messages: Messages,
    blocks: Vec<Progress>,
    links: Vec<Queue>,
    /// Thread blocks that are not parked; no block stands here twice.
    ready: Vec<TbId>,
    /// Thread blocks parked on a step of this block, with that step.
    waiters: Vec<Vec<(u32, TbId)>>,
}

/// Where a thread block stands.
#[derive(Clone, Copy, Default)]
struct Progress {
    step: u32,
    /// First chunk of the next piece.
    chunk: u32,
    /// How many of the conditions of the next piece are known to hold. Conditions that hold go on
    /// holding: no other block can use up this block's messages or room.
    met: u32,
}

/// How full a link is, and which of its ends is parked on it.
#[derive(Clone, Copy, Default)]
struct Queue {
    in_flight: u32,
    sender_parked: bool,
    receiver_parked: bool,
}

/// One condition for the next piece of a thread block.
#[derive(Clone, Copy)]
enum Condition {
    Step(TbId, u32),
    Message(LinkId),
    Room(LinkId),
    /// A local operand: nothing to wait for.
    None,
}

impl<'a, 'w> State<'a, 'w> {
    fn new(wiring: &'w Wiring<'a>, messages: Messages) -> Self {
        let blocks = wiring.tb_count();
        Self {
            wiring,
            messages,
            blocks: vec![Progress::default(); blocks],
            links: vec![Queue::default(); wiring.links().len()],
            ready: (0..blocks as u32).rev().map(TbId).collect(),
            waiters: vec![Vec::new(); blocks],
        }
    }

    fn step(&self, tb: TbId) -> Option<&'a Step> {
        self.wiring.block(tb).steps.get(self.blocks[tb.index()].step as usize)
    }

    /// The step whose next piece may fire now. Otherwise the block has finished, or is parked on
    /// the first condition that does not hold.
    fn next_step(&mut self, tb: TbId) -> Option<&'a Step> {
        let step = self.step(tb)?;
        let total = condition_count(step);
        let mut met = self.blocks[tb.index()].met;
        while met < total {
            let condition = self.condition(tb, step, met);
            if !self.holds(condition) {
                self.park(tb, condition);
                break;
            }
            met += 1;
        }
        self.blocks[tb.index()].met = met;
        (met == total).then_some(step)
    }

    /// Condition `index` of a step: first its waits, then its sources, then its destinations.
    fn condition(&self, tb: TbId, step: &Step, index: u32) -> Condition {
        let index = index as usize;
        let sources = step.waits.len();
        let destinations = sources + step.sources.len();
        if index < sources {
            let wait = step.waits[index];
            return Condition::Step(self.wiring.tb_id(self.wiring.rank(tb), wait.tb), wait.step.0);
        }
        if index < destinations {
            return self.link_condition(step.sources[index - sources], |from| {
                self.wiring.link_from(tb, from).map(Condition::Message)
            });
        }
        self.link_condition(step.destinations[index - destinations], |to| {
            self.wiring.link_to(tb, to).map(Condition::Room)
        })
    }

    fn link_condition(
        &self,
        place: Place,
        condition: impl Fn(Rank) -> Option<Condition>,
    ) -> Condition {
        match place {
            Place::Local(_) => Condition::None,
            Place::Link(peer) => condition(peer).unwrap_or(Condition::None),
        }
    }

    fn holds(&self, condition: Condition) -> bool {
        match condition {
            Condition::Step(tb, step) => self.blocks[tb.index()].step > step,
            Condition::Message(link) => self.links[link.index()].in_flight > 0,
            Condition::Room(link) => self.links[link.index()].in_flight < self.messages.depth,
            Condition::None => true,
        }
    }

    fn park(&mut self, tb: TbId, condition: Condition) {
        match condition {
            Condition::Step(target, step) => self.waiters[target.index()].push((step, tb)),
            Condition::Message(link) => self.links[link.index()].receiver_parked = true,
            Condition::Room(link) => self.links[link.index()].sender_parked = true,
            Condition::None => {}
        }
    }

    /// Fires the next piece of `step`, whose conditions hold: moves its messages and wakes whom
    /// that frees.
    fn fire(&mut self, tb: TbId, step: &Step) -> Piece {
        let Progress { step: index, chunk, .. } = self.blocks[tb.index()];
        let mut end = step.count;
        if touches_link(step) {
            end = chunk.saturating_add(self.messages.chunks_per_message.max(1)).min(step.count);
            step.receives().for_each(|from| self.take(tb, from));
            step.sends().for_each(|to| self.put(tb, to));
        }
        let ends_step = end == step.count;
        let progress = &mut self.blocks[tb.index()];
        if ends_step {
            *progress = Progress { step: index + 1, ..Progress::default() };
            self.wake_waiters(tb, index);
        } else {
            *progress = Progress { step: index, chunk: end, met: 0 };
        }
        Piece { tb, step: index, chunks: chunk..end, ends_step }
    }

    fn take(&mut self, tb: TbId, from: Rank) {
        let Some(link) = self.wiring.link_from(tb, from) else { return };
        let queue = &mut self.links[link.index()];
        queue.in_flight -= 1;
        if std::mem::take(&mut queue.sender_parked) {
            self.ready.push(self.wiring.links()[link.index()].sender);
        }
    }

    fn put(&mut self, tb: TbId, to: Rank) {
        let Some(link) = self.wiring.link_to(tb, to) else { return };
        let queue = &mut self.links[link.index()];
        queue.in_flight += 1;
        if std::mem::take(&mut queue.receiver_parked) {
            self.ready.push(self.wiring.links()[link.index()].receiver);
        }
    }

    fn wake_waiters(&mut self, tb: TbId, finished: u32) {
        let ready = &mut self.ready;
        self.waiters[tb.index()].retain(|&(step, waiter)| {
            let still_waits = step > finished;
            if !still_waits {
                ready.push(waiter);
            }
            still_waits
        });
    }

    fn outcome(&self) -> Outcome {
        let all = (0..self.blocks.len() as u32).map(TbId);
        let blocked: Vec<_> = all.filter_map(|tb| self.blocked(tb)).collect();
        if !blocked.is_empty() {
            return Outcome::Stalled(Stall { blocked });
        }
        let queues = self.links.iter().enumerate();
        let held = queues.filter(|(_, queue)| queue.in_flight > 0);
        let leftover = held.map(|(link, queue)| (LinkId(link as u32), queue.in_flight)).collect();
        Outcome::Completed { leftover }
    }

    fn blocked(&self, tb: TbId) -> Option<Blocked> {
        let step = self.step(tb)?;
        let Progress { step: index, chunk, .. } = self.blocks[tb.index()];
        let conditions = (0..condition_count(step)).map(|at| self.condition(tb, step, at));
        let missing = conditions.filter(|&condition| !self.holds(condition));
        let reasons = missing.filter_map(|condition| self.reason(condition)).collect();
        let at: StepRef = self.wiring.step_ref(tb, index);
        let messages_done = chunk / self.messages.chunks_per_message.max(1);
        Some(Blocked { at, messages_done, reasons })
    }

    fn reason(&self, condition: Condition) -> Option<(Reason, TbId)> {
        let wiring = self.wiring;
        match condition {
            Condition::Step(tb, step) => {
                let at = wiring.step_ref(tb, step);
                Some((Reason::Signal(msccl_ir::Wait { tb: at.tb, step: at.step }), tb))
            }
            Condition::Message(link) => {
                let sender = wiring.links()[link.index()].sender;
                let channel = wiring.block(sender).channel;
                Some((Reason::Message { from: wiring.rank(sender), channel }, sender))
            }
            Condition::Room(link) => {
                let receiver = wiring.links()[link.index()].receiver;
                let channel = wiring.block(receiver).channel;
                let in_flight = self.links[link.index()].in_flight;
                Some((Reason::Room { to: wiring.rank(receiver), channel, in_flight }, receiver))
            }
            Condition::None => None,
        }
    }
}

fn condition_count(step: &Step) -> u32 {
    (step.waits.len() + step.sources.len() + step.destinations.len()) as u32
}
