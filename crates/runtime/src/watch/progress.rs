//! How far a rank's calls have come, and since when they stand still.

use std::time::{Duration, Instant};

use crate::board::Board;
use crate::engine::{Engine, Waiting};

/// What was seen at the last look.
pub(super) struct Progress {
    /// Calls up to this sequence are done.
    pub finished: u64,
    /// The last call issued.
    pub issued: u64,
    /// What thread blocks wait for; empty if nothing is under way.
    pub waits: Vec<Waiting>,
    /// Since when it has been so, apart from what was issued.
    pub since: Instant,
}

impl Progress {
    /// Before the first call.
    pub fn new() -> Self {
        Self { finished: 0, issued: 0, waits: Vec::new(), since: Instant::now() }
    }

    /// Looks again.
    pub fn look(&mut self, board: &Board, engine: &dyn Engine) {
        let issued = board.issued(board.me());
        let done = self.finished.max(board.settled());
        let finished = last_finished(engine, done, issued);
        let waits = if finished < issued { engine.waits() } else { Vec::new() };
        if finished >= issued || (finished, &waits) != (self.finished, &self.waits) {
            self.since = Instant::now();
        }
        *self = Self { finished, issued, waits, since: self.since };
    }

    /// Whether calls are under way.
    pub fn is_busy(&self) -> bool {
        self.finished < self.issued
    }

    /// Whether calls are under way, and nothing has changed for that long.
    pub fn stands_still(&self, time: Duration) -> bool {
        self.is_busy() && self.since.elapsed() >= time
    }

    /// Whether some thread block waits, and nothing has changed since `then`, nor for `time`.
    pub fn is_stuck(&self, then: Instant, time: Duration) -> bool {
        !self.waits.is_empty() && self.stands_still(time) && then.elapsed() >= time
    }
}

/// The last of the calls up to `issued` that is done; all up to `done` are.
fn last_finished(engine: &dyn Engine, done: u64, issued: u64) -> u64 {
    if done >= issued || engine.has_finished(issued) {
        return done.max(issued);
    }
    let (mut done, mut open) = (done, issued);
    while open - done > 1 {
        let middle = done + (open - done) / 2;
        match engine.has_finished(middle) {
            true => done = middle,
            false => open = middle,
        }
    }
    done
}

#[cfg(test)]
mod tests {
    use std::thread;

    use msccl_collective::Rank;

    use super::*;
    use crate::board::tests::call;
    use crate::call::Operation;
    use crate::watch::tests::FakeEngine;

    const TICK: Duration = Duration::from_millis(20);

    #[test]
    fn the_last_finished_call_is_found() {
        let engine = FakeEngine::default();
        for issued in 0..20 {
            for finished in 0..=issued {
                engine.finish(finished);
                let found = [0, finished / 2, finished].map(|d| last_finished(&engine, d, issued));
                assert_eq!(found, [finished; 3]);
            }
        }
    }

    #[test]
    fn any_change_is_progress() {
        let (board, engine) = (Board::alone(Rank(0), 2), FakeEngine::default());
        let mut progress = Progress::new();
        let mut still = || {
            progress.look(&board, &engine);
            thread::sleep(TICK);
            let before = progress.stands_still(TICK);
            progress.look(&board, &engine);
            before && progress.stands_still(TICK)
        };
        assert!(!still(), "nothing is under way");
        board.post(1, &call(Operation::AllGather, 1), false);
        still();
        assert!(still());
        board.post(2, &call(Operation::AllGather, 1), false);
        assert!(still(), "a new call does not help an old one");
        engine.finish(1);
        progress.look(&board, &engine);
        assert!(!progress.stands_still(TICK));
        engine.wait_for(2, Rank(1), "tb0 s0 waits for message 1 from r1 on ch0");
        thread::sleep(TICK);
        progress.look(&board, &engine);
        assert!(!progress.stands_still(TICK));
        thread::sleep(TICK);
        progress.look(&board, &engine);
        assert!(progress.is_stuck(progress.since, TICK));
        board.settle(2);
        progress.look(&board, &engine);
        assert!(!progress.is_busy() && progress.waits.is_empty());
    }
}
