//! Whether what one rank sends is what the other receives.
//!
//! Of each pair of ranks and direction, the last records on both sides are kept here, since a ring
//! in the shared state holds those of all pairs of a rank together. A group of more messages than
//! [`layout::MESSAGES`] leaves only its last records; a pair is compared when both sides have a
//! record of one and the same message.

use std::collections::VecDeque;

use msccl_collective::Rank;
use rustc_hash::FxHashMap;

use super::CallMismatch;
use crate::shared_state::SharedState;
use crate::shared_state::history::Pair;
#[cfg(doc)]
use crate::shared_state::layout;
use crate::shared_state::layout::Ring;
use crate::shared_state::record::{self, Contents};

/// Records of a pair that are kept on a side, while the other side is behind.
const KEPT: usize = 4096;

/// What a rank knows of messages between it and others.
pub(super) struct MessageComparison {
    /// The numbers of the last records that were looked at, by rank.
    seen: Vec<u64>,
    /// As this rank sees the pairs.
    pairs: FxHashMap<Pair, Sides>,
}

/// The last messages of a pair that were not compared yet.
#[derive(Default)]
struct Sides {
    mine: VecDeque<Contents>,
    theirs: VecDeque<Contents>,
}

impl MessageComparison {
    /// Before the first message.
    pub fn new() -> Self {
        Self { seen: Vec::new(), pairs: FxHashMap::default() }
    }

    /// Compares what is new on `shared_state`.
    pub fn look(&mut self, shared_state: &SharedState) -> Option<CallMismatch> {
        let mut touched: Vec<Pair> = Vec::new();
        self.seen.resize(shared_state.ranks as usize, 0);
        for rank in shared_state.ranks() {
            self.gather(shared_state, rank, &mut touched);
        }
        let pairs = &mut self.pairs;
        touched.into_iter().find_map(|pair| pairs.get_mut(&pair)?.compare(pair))
    }

    /// Takes up the new records of `rank`, of another one only those for this rank.
    fn gather(&mut self, shared_state: &SharedState, rank: Rank, touched: &mut Vec<Pair>) {
        let (me, ring) = (shared_state.me(), Ring::Messages);
        let last = shared_state.last_number(rank, ring);
        let Some(seen) = self.seen.get_mut(rank.index()) else { return };
        let before = std::mem::replace(seen, last).max(last.saturating_sub(ring.length()));
        for number in before + 1..=last {
            let Some(contents) = shared_state.read_contents(rank, ring, number) else { continue };
            let call = record::unpack(contents.shape, contents.count);
            let Some(pair) = call.and_then(|(call, _)| Pair::of(rank, &call.operation)) else {
                continue;
            };
            let sides = match (rank == me, pair.peer == me) {
                (true, _) => &mut self.pairs.entry(pair).or_default().mine,
                (false, true) => &mut self.pairs.entry(pair.reversed()).or_default().theirs,
                (false, false) => continue,
            };
            if sides.len() >= KEPT {
                sides.pop_front();
            }
            sides.push_back(contents);
            touched.push(if rank == me { pair } else { pair.reversed() });
        }
    }
}

impl Sides {
    /// Compares the newest message that both sides have; what is alike is forgotten.
    fn compare(&mut self, pair: Pair) -> Option<CallMismatch> {
        let newest = self.both().next_back()?;
        let index = newest[0].extra;
        if newest[0].history == newest[1].history {
            for side in [&mut self.mine, &mut self.theirs] {
                side.retain(|contents| contents.extra > index);
            }
            return None;
        }
        let first = self.both().find(|[mine, theirs]| said(mine) != said(theirs));
        let [from, to] = pair.ends();
        Some(match first {
            Some([mine, theirs]) => {
                let [sent, received] = if pair.is_sent() { [mine, theirs] } else { [theirs, mine] };
                let said = [sent, received].map(|contents| said(&contents));
                CallMismatch::Message { from, to, index: mine.extra, said: Some(said) }
            }
            None => CallMismatch::Message { from, to, index, said: None },
        })
    }

    /// The messages of which both sides have a record, in order.
    fn both(&self) -> impl DoubleEndedIterator<Item = [Contents; 2]> {
        self.mine.iter().filter_map(|mine| {
            let place =
                self.theirs.binary_search_by_key(&mine.extra, |theirs| theirs.extra).ok()?;
            Some([*mine, *self.theirs.get(place)?])
        })
    }
}

/// What a side says of a message, such as `4 f32`.
fn said(contents: &Contents) -> String {
    let call = record::unpack(contents.shape, contents.count);
    call.map_or_else(String::new, |(call, _)| format!("{} {}", call.count, call.data_type))
}
