//! Whether ranks call the same, found out beside the calls' path, in every job.
//!
//! Two ranks have called the same up to a call if their [histories](super::history) at that call are equal. So a rank
//! compares itself with each other one at the newest collective of which both have a record: one of the last
//! [`layout::COLLECTIVES`], or, where one rank is further ahead than that, one of the last [`layout::CHECKPOINTS`] of
//! which each stands for [`layout::STRIDE`] calls. Once a call differs, all records after it do, so a difference
//! is noticed however late somebody looks; only what differed may be known no longer. Messages from one
//! rank to another are compared the same way, pair by pair ([`Messages`]).
//!
//! Not compared: collectives where all ranks compare them before they run ([`super::check`]), which may refuse a call and
//! go on; whether a call is in place; scalars; empty messages; how messages are grouped, and where they stand among collectives; replays of
//! graphs, whose calls are posted once, when they are captured.

mod difference;
mod messages;

use msccl_collective::Rank;

use super::layout::{self, Ring};
use super::{Board, Posted};
pub(crate) use difference::{Difference, Mismatch};
use messages::Messages;

/// What a rank keeps from one comparison to the next.
pub(crate) struct Comparison {
    /// How many collectives each rank had made, and this one.
    seen: Vec<[u64; 2]>,
    messages: Messages,
}

impl Comparison {
    /// Before the first call.
    pub fn new() -> Self {
        Self { seen: Vec::new(), messages: Messages::new() }
    }

    /// Compares what is new on `board`; answers what this rank and another one call differently.
    pub fn look(&mut self, board: &Board) -> Option<Mismatch> {
        self.collectives(board).or_else(|| self.messages.look(board))
    }

    fn collectives(&mut self, board: &Board) -> Option<Mismatch> {
        let mine = board.collectives(board.me());
        self.seen.resize(board.ranks as usize, [0; 2]);
        let seen = &mut self.seen;
        let is_new = |rank: &Rank| {
            let now = [board.collectives(*rank), mine];
            seen.get_mut(rank.index()).is_some_and(|seen| std::mem::replace(seen, now) != now)
        };
        let new: Vec<Rank> = board.ranks().filter(is_new).collect();
        differing(board, new)
    }
}

/// What this rank and another one call differently, as far as records on `board` tell.
pub(crate) fn mismatch(board: &Board) -> Option<Mismatch> {
    Comparison::new().look(board)
}

/// What this rank and one of `ranks` call differently, among collectives.
fn differing(board: &Board, ranks: Vec<Rank>) -> Option<Mismatch> {
    let me = board.me();
    let found = ranks.into_iter().find_map(|rank| {
        let common = (rank != me).then(|| newest_common(board, rank)).flatten()?;
        (common.mine != common.theirs).then_some((rank, common.number))
    });
    // Looked at last, since calls that all ranks compare first are the rarer case.
    let (rank, number) = found.filter(|_| !board.all_compare())?;
    Some(match first_difference(board) {
        Some(difference) => {
            let is_first = histories_meet(board, difference.number - 1);
            Mismatch::Collectives { difference, is_first }
        }
        None => Mismatch::Forgotten { ranks: [me.min(rank), me.max(rank)], number },
    })
}

/// A collective of which both this rank and another one have a record.
struct Common {
    number: u64,
    mine: u64,
    theirs: u64,
}

fn newest_common(board: &Board, rank: Rank) -> Option<Common> {
    let me = board.me();
    let common = |ring: Ring, number: u64| {
        let mine = board.read_contents(me, ring, number)?.history;
        let theirs = board.read_contents(rank, ring, number)?.history;
        Some(Common { number: number * ring.stride(), mine, theirs })
    };
    [Ring::Collectives, Ring::Checkpoints].into_iter().find_map(|ring| {
        let last = board.last_number(me, ring).min(board.last_number(rank, ring));
        let oldest = last.saturating_sub(ring.length() - 1).max(1);
        (oldest..=last).rev().find_map(|number| common(ring, number))
    })
}

/// Whether all that is known of histories at collective `number` is alike on all ranks, and something is known.
fn histories_meet(board: &Board, number: u64) -> bool {
    let history = |rank| Some(board.read_contents(rank, Ring::Collectives, number)?.history);
    let mut known = board.ranks().filter_map(history);
    number == 0 || known.next().is_some_and(|first| known.all(|other| other == first))
}

/// How the ranks that have posted collective `number` differ, as far as their records are still there.
pub(crate) fn compare(board: &Board, number: u64) -> Option<Difference> {
    let posted = board.ranks().filter_map(|rank| Some((rank, board.collective(rank, number)?)));
    let said = posted.map(|(rank, posted): (Rank, Posted)| (rank, posted.agreement()));
    Difference::among(number, said)
}

/// The first collective on which the ranks differ, among those of which records are there.
pub(crate) fn first_difference(board: &Board) -> Option<Difference> {
    let last = board.ranks().map(|rank| board.collectives(rank)).max()?;
    let oldest = last.saturating_sub(layout::COLLECTIVES - 1).max(1);
    (oldest..=last).find_map(|number| compare(board, number))
}

#[cfg(test)]
mod tests;
