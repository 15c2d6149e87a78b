//! Whether ranks call the same, found out beside the calls' path, in every job.
//!
//! Two ranks have called the same up to a call if their [histories](super::history) at that call
//! are equal. So a rank compares itself with each other one at the newest collective of which both
//! have a record: one of the last [`layout::COLLECTIVES`], or, where one rank is further ahead than
//! that, one of the last [`layout::CHECKPOINTS`] of which each stands for [`layout::STRIDE`] calls.
//! Once a call differs, all records after it do, so a difference is noticed however late somebody
//! looks; only what differed may be known no longer. Messages from one rank to another are compared
//! the same way, pair by pair ([`MessageComparison`]).
//!
//! Not compared: collectives where all ranks compare them before they run ([`super::check`]), which
//! may refuse a call and go on; whether a call is in place; scalars; empty messages; how messages
//! are grouped, and where they stand among collectives; replays of graphs, whose calls are posted
//! once, when they are captured.

mod difference;
mod messages;

use msccl_collective::Rank;

use super::layout::{self, Ring};
use super::{PostedCall, SharedState};
pub(crate) use difference::{CallMismatch, Difference};
use messages::MessageComparison;

/// What a rank keeps from one comparison to the next.
pub(crate) struct Comparison {
    /// How many collectives each rank had made, and this one.
    seen: Vec<[u64; 2]>,
    messages: MessageComparison,
}

impl Comparison {
    /// Before the first call.
    pub fn new() -> Self {
        Self { seen: Vec::new(), messages: MessageComparison::new() }
    }

    /// Compares what is new on `shared_state`; answers what this rank and another one call
    /// differently.
    pub fn look(&mut self, shared_state: &SharedState) -> Option<CallMismatch> {
        self.collectives(shared_state).or_else(|| self.messages.look(shared_state))
    }

    fn collectives(&mut self, shared_state: &SharedState) -> Option<CallMismatch> {
        let mine = shared_state.collectives(shared_state.me());
        self.seen.resize(shared_state.ranks as usize, [0; 2]);
        let seen = &mut self.seen;
        let is_new = |rank: &Rank| {
            let now = [shared_state.collectives(*rank), mine];
            seen.get_mut(rank.index()).is_some_and(|seen| std::mem::replace(seen, now) != now)
        };
        let new: Vec<Rank> = shared_state.ranks().filter(is_new).collect();
        differing(shared_state, new)
    }
}

/// What this rank and another one call differently, as far as its records show.
pub(crate) fn mismatch(shared_state: &SharedState) -> Option<CallMismatch> {
    Comparison::new().look(shared_state)
}

/// What this rank and one of `ranks` call differently, among collectives.
fn differing(shared_state: &SharedState, ranks: Vec<Rank>) -> Option<CallMismatch> {
    let me = shared_state.me();
    let found = ranks.into_iter().find_map(|rank| {
        let common = (rank != me).then(|| newest_common(shared_state, rank)).flatten()?;
        (common.mine != common.theirs).then_some((rank, common.number))
    });
    // Looked at last, since calls that all ranks compare first are the rarer case.
    let (rank, number) = found.filter(|_| !shared_state.all_compare())?;
    Some(match first_difference(shared_state) {
        Some(difference) => {
            let is_first = histories_meet(shared_state, difference.number - 1);
            CallMismatch::Collectives { difference, is_first }
        }
        None => CallMismatch::Forgotten { ranks: [me.min(rank), me.max(rank)], number },
    })
}

/// A collective of which both this rank and another one have a record.
struct SharedRecord {
    number: u64,
    mine: u64,
    theirs: u64,
}

fn newest_common(shared_state: &SharedState, rank: Rank) -> Option<SharedRecord> {
    let me = shared_state.me();
    let common = |ring: Ring, number: u64| {
        let mine = shared_state.read_contents(me, ring, number)?.history;
        let theirs = shared_state.read_contents(rank, ring, number)?.history;
        Some(SharedRecord { number: number * ring.stride(), mine, theirs })
    };
    [Ring::Collectives, Ring::Checkpoints].into_iter().find_map(|ring| {
        let last = shared_state.last_number(me, ring).min(shared_state.last_number(rank, ring));
        let oldest = last.saturating_sub(ring.length() - 1).max(1);
        (oldest..=last).rev().find_map(|number| common(ring, number))
    })
}

/// Whether all that is known of histories at collective `number` is alike on all ranks, and
/// something is known.
fn histories_meet(shared_state: &SharedState, number: u64) -> bool {
    let history = |rank| Some(shared_state.read_contents(rank, Ring::Collectives, number)?.history);
    let mut known = shared_state.ranks().filter_map(history);
    number == 0 || known.next().is_some_and(|first| known.all(|other| other == first))
}

/// How the ranks that have posted collective `number` differ, as far as their records are still
/// there.
pub(crate) fn compare(shared_state: &SharedState, number: u64) -> Option<Difference> {
    let posted = shared_state
        .ranks()
        .filter_map(|rank| Some((rank, shared_state.collective(rank, number)?)));
    let said = posted.map(|(rank, posted): (Rank, PostedCall)| (rank, posted.agreement()));
    Difference::among(number, said)
}

/// The first collective on which the ranks differ, among those of which records are there.
pub(crate) fn first_difference(shared_state: &SharedState) -> Option<Difference> {
    let last = shared_state.ranks().map(|rank| shared_state.collectives(rank)).max()?;
    let oldest = last.saturating_sub(layout::COLLECTIVES - 1).max(1);
    (oldest..=last).find_map(|number| compare(shared_state, number))
}

#[cfg(test)]
mod tests;
