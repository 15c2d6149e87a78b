//! In which order host threads move: one thread has all thread blocks of a rank.

use super::search::count_first;
use crate::recording::Engine;
use crate::timeline::RankTimeline;

/// The moves of a rank by their ends, if host threads execute it; else nothing.
pub(super) struct Turns {
    /// Positions in the spans of the rank.
    moves: Vec<u32>,
    /// By launch of the rank: how many of the moves ended before it. What is looked for is near,
    /// wherever in a recording of millions of moves.
    before: Vec<u32>,
}

impl Turns {
    pub fn of(rank: &RankTimeline) -> Self {
        let mut turns = Self { moves: Vec::new(), before: Vec::new() };
        if rank.header.engine != Engine::Host {
            return turns;
        }
        let moves = (0..).zip(&rank.spans).filter(|(_, span)| span.kind.is_move());
        turns.moves = moves.map(|(at, _)| at).collect();
        let end_ns = |at: &u32| rank.spans[*at as usize].end_ns;
        turns.moves.sort_by(|one, other| end_ns(one).total_cmp(&end_ns(other)));
        let mut count = 0;
        for launch in &rank.launches {
            count = turns.count(rank, count, launch.begin_ns);
            turns.before.push(count as u32);
        }
        turns
    }

    /// The last move that ended before `time_ns`, which is in a launch, or anywhere.
    pub fn last(&self, rank: &RankTimeline, launch: Option<usize>, time_ns: f64) -> Option<u32> {
        let near = launch.and_then(|launch| self.before.get(launch)).copied().unwrap_or(0);
        let count = self.count(rank, near as usize, time_ns);
        Some(self.moves[count.checked_sub(1)?])
    }

    /// How many moves ended before `time_ns`, which should be about `near`.
    fn count(&self, rank: &RankTimeline, near: usize, time_ns: f64) -> usize {
        count_first(&self.moves, near, |at| rank.spans[*at as usize].end_ns <= time_ns)
    }
}
