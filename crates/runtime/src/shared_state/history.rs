//! What a rank has called so far, as a hash that grows call by call.
//!
//! Two ranks that make the same calls have the same history at every call; where one call differs,
//! histories differ from there on (but for one chance in 2⁶⁴ or so). A collective counts with what
//! all ranks must say alike: operation, root, type, count, how contributions combine (not the
//! scalar of a scaled sum, which is each rank's own), and
//! [settings](super::SharedState::set_settings). It does not count whether it is in place. Messages
//! from one rank to another have a history on both sides, of types and counts alone.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use msccl_collective::Rank;
use rustc_hash::FxHashMap;

use super::record::{self, Contents};
use crate::call::Operation;

/// Bits without a pattern.
const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;
const SALT: u64 = 0xd1b5_4a32_d192_ed03;

/// Where a message goes, as one of both ranks sees it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) enum Direction {
    /// To the other rank.
    Out,
    /// From the other rank.
    In,
}

/// Messages from a rank to another one, as one of both sees them.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) struct Pair {
    /// Who sees them.
    pub rank: Rank,
    /// The other one.
    pub peer: Rank,
    /// Where they go.
    pub direction: Direction,
}

impl Pair {
    /// The pair of an operation of `rank`, if it is a send or a receive.
    pub fn of(rank: Rank, operation: &Operation) -> Option<Self> {
        let (peer, direction) = match *operation {
            Operation::Send(peer) => (peer, Direction::Out),
            Operation::Receive(peer) => (peer, Direction::In),
            _ => return None,
        };
        Some(Self { rank, peer, direction })
    }

    /// Whether it joins two ranks, not one with itself.
    pub fn is_between_ranks(&self) -> bool {
        self.rank != self.peer
    }

    /// Whether its rank sends them.
    pub fn is_sent(self) -> bool {
        self.direction == Direction::Out
    }

    /// The same messages as the other rank sees them.
    pub fn reversed(self) -> Self {
        let direction = match self.direction {
            Direction::Out => Direction::In,
            Direction::In => Direction::Out,
        };
        Self { rank: self.peer, peer: self.rank, direction }
    }

    /// Who sends, and who receives.
    pub fn ends(self) -> [Rank; 2] {
        match self.direction {
            Direction::Out => [self.rank, self.peer],
            Direction::In => [self.peer, self.rank],
        }
    }
}

/// The histories of one rank. One thread at a time extends them.
#[derive(Default)]
pub(super) struct Histories {
    collectives: AtomicU64,
    settings: AtomicU64,
    pairs: Mutex<FxHashMap<Pair, MessageHistory>>,
}

/// The messages of a pair so far.
#[derive(Clone, Copy, Default)]
struct MessageHistory {
    count: u64,
    history: u64,
}

impl Histories {
    /// See [`super::SharedState::set_settings`].
    pub fn set_settings(&self, settings: u64) {
        self.settings.store(settings, Ordering::Relaxed);
    }

    /// What is recorded of the next collective, whose shape is `shape`.
    pub fn collective(&self, sequence: u64, shape: u64, count: u64) -> Contents {
        let settings = self.settings.load(Ordering::Relaxed);
        let before = self.collectives.load(Ordering::Relaxed);
        let history = extended(before, record::common(shape), count ^ settings.rotate_left(32));
        self.collectives.store(history, Ordering::Relaxed);
        Contents { sequence, shape, count, history, extra: settings }
    }

    /// What is recorded of the next message of `pair`.
    pub fn message(&self, pair: Pair, sequence: u64, shape: u64, count: u64) -> Contents {
        let mut pairs = self.pairs.lock().unwrap_or_else(PoisonError::into_inner);
        let messages = pairs.entry(pair).or_default();
        messages.count += 1;
        messages.history = extended(messages.history, record::data_type(shape), count);
        let MessageHistory { count: extra, history } = *messages;
        Contents { sequence, shape, count, history, extra }
    }
}

/// The history after `history` and a call of these two words. Only the last of three
/// multiplications waits for the call before.
fn extended(history: u64, one: u64, other: u64) -> u64 {
    folded(history.rotate_left(1) ^ folded(one ^ SALT) ^ other.wrapping_mul(FACTOR))
}

/// Every bit of the result depends on most bits of `word`.
fn folded(word: u64) -> u64 {
    let product = u128::from(word ^ FACTOR) * u128::from(FACTOR);
    (product as u64) ^ (product >> 64) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_history_depends_on_every_call_and_their_order() {
        let of = |calls: &[[u64; 2]]| {
            calls.iter().fold(0, |history, [one, other]| extended(history, *one, *other))
        };
        let calls = [[1, 0], [0, 1], [1, 1], [1, 2], [2, 1]];
        let mut all: Vec<u64> = Vec::new();
        for first in calls {
            all.push(of(&[first]));
            for second in calls {
                all.push(of(&[first, second]));
                all.extend(calls.map(|third| of(&[first, second, third])));
            }
        }
        let found = all.len();
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), found);
        assert!(!all.contains(&0));
    }

    #[test]
    fn both_ends_of_a_pair_have_one_history() {
        let (one, other) = (Histories::default(), Histories::default());
        let out = Pair { rank: Rank(0), peer: Rank(1), direction: Direction::Out };
        assert_eq!((out.reversed().reversed(), out.reversed().ends()), (out, out.ends()));
        // Operation and peer stand elsewhere in the shape.
        let [send, receive] = [9 | 7 << 8 | 1 << 32, 10 | 7 << 8];
        for count in 1..5 {
            let sent = one.message(out, count, send, count);
            let received = other.message(out.reversed(), 2 * count, receive, count);
            assert_eq!((sent.extra, sent.history), (received.extra, received.history));
        }
        let sent = one.message(out, 9, send, 7);
        let received = other.message(out.reversed(), 9, receive, 8);
        assert_ne!(sent.history, received.history);
    }
}
