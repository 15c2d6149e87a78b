//! Why a run cannot go on: who waits for whom.

use std::fmt;

use msccl_collective::{Channel, Rank};
use msccl_ir::{StepRef, Wait};

use crate::wiring::{TbId, Wiring};

/// From how many blocks of a cycle a shorter one is looked for.
const SEARCHED_STARTS: usize = 64;

/// A state in which no thread block can go on although some have not finished.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Stall {
    /// Every thread block that has not finished, in the order of [`TbId`].
    pub blocked: Vec<Blocked>,
}

/// A thread block that cannot go on.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Blocked {
    /// The step at which it stands.
    pub at: StepRef,
    /// How many messages of that step it has exchanged on each of its links.
    pub messages_done: u32,
    /// Everything that it lacks, each with the thread block that could provide it; never empty.
    pub reasons: Vec<(Reason, TbId)>,
}

/// What a thread block waits for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Reason {
    /// The end of a step of the same rank.
    Signal(Wait),
    /// A message.
    Message {
        /// Who would send it.
        from: Rank,
        /// The channel of the link.
        channel: Channel,
    },
    /// Room for a message.
    Room {
        /// Who would make room by receiving.
        to: Rank,
        /// The channel of the link.
        channel: Channel,
        /// Messages that the link holds: as many as it can.
        in_flight: u32,
    },
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Reason::Signal(wait) => write!(f, "waits for the end of {wait}"),
            Reason::Message { from, channel } => {
                write!(f, "waits for a message from {from} on {channel}")
            }
            Reason::Room { to, channel, in_flight } => write!(
                f,
                "waits for room on its link to {to} on {channel} ({in_flight} of {in_flight} \
                 messages in flight)"
            ),
        }
    }
}

impl Stall {
    /// A short chain of thread blocks in which each waits for the next: a cycle, or, where somebody
    /// waits for a block that has finished, that block alone.
    ///
    /// Every entry comes with the reason that leads to the next. Empty only for an empty stall.
    pub fn chain(&self, wiring: &Wiring<'_>) -> Vec<(&Blocked, Reason)> {
        if let Some(dead_end) = self.waits_for_finished(wiring) {
            return vec![dead_end];
        }
        let some_cycle = self.first_cycle(wiring);
        let starts = some_cycle.iter().take(SEARCHED_STARTS);
        let cycles = starts.filter_map(|&start| self.cycle_through(start, wiring));
        cycles.min_by_key(Vec::len).unwrap_or_default()
    }

    /// The cycle reached from the first blocked block by following first reasons.
    fn first_cycle(&self, wiring: &Wiring<'_>) -> Vec<usize> {
        let mut visit_order = vec![usize::MAX; self.blocked.len()];
        let mut path = Vec::new();
        let mut here = 0;
        while let Some(order) = visit_order.get_mut(here) {
            if *order != usize::MAX {
                return path.split_off(*order);
            }
            *order = path.len();
            path.push(here);
            let first = self.blocked[here].reasons.first();
            here = first.and_then(|(_, tb)| self.position(*tb, wiring)).unwrap_or(usize::MAX);
        }
        Vec::new()
    }

    /// A block that waits for something that a finished block would have had to provide.
    fn waits_for_finished(&self, wiring: &Wiring<'_>) -> Option<(&Blocked, Reason)> {
        self.blocked.iter().find_map(|blocked| {
            let mut reasons = blocked.reasons.iter();
            let dead = reasons.find(|(_, tb)| self.position(*tb, wiring).is_none());
            dead.map(|(reason, _)| (blocked, *reason))
        })
    }

    /// The shortest cycle through entry `start`, by breadth-first search.
    fn cycle_through(&self, start: usize, wiring: &Wiring<'_>) -> Option<Vec<(&Blocked, Reason)>> {
        let mut reached_from: Vec<Option<(usize, Reason)>> = vec![None; self.blocked.len()];
        let mut queue = std::collections::VecDeque::from([start]);
        while let Some(here) = queue.pop_front() {
            for &(reason, tb) in &self.blocked[here].reasons {
                let Some(next) = self.position(tb, wiring) else { continue };
                if reached_from[next].is_none() {
                    reached_from[next] = Some((here, reason));
                    queue.push_back(next);
                }
                if next == start {
                    return Some(self.walk_back(start, &reached_from));
                }
            }
        }
        None
    }

    /// The cycle that ends in `start`, from `start` on.
    fn walk_back(
        &self,
        start: usize,
        reached_from: &[Option<(usize, Reason)>],
    ) -> Vec<(&Blocked, Reason)> {
        let mut cycle = Vec::new();
        let mut here = start;
        while let Some((previous, reason)) = reached_from[here] {
            cycle.push((&self.blocked[previous], reason));
            here = previous;
            if here == start {
                break;
            }
        }
        cycle.reverse();
        cycle
    }

    /// The entry of `tb`, if it has not finished.
    fn position(&self, tb: TbId, wiring: &Wiring<'_>) -> Option<usize> {
        let key = (wiring.rank(tb), wiring.tb_index(tb));
        self.blocked.binary_search_by_key(&key, |blocked| (blocked.at.rank, blocked.at.tb)).ok()
    }
}
