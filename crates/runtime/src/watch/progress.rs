//! How far a rank's calls have come, and since when they stand still.
//!
//! An engine that counts its calls says which are done; one that only knows what waits says that
//! all are done while nothing does. So waits come first: calls are under way while somebody waits,
//! whatever the engine's count, and the first call that somebody waits in is the one under way.

use std::time::{Duration, Instant};

use crate::engine::{Engine, Waiting};
use crate::shared_state::{SharedState, check};

/// What was seen at the last look.
pub(super) struct ProgressSnapshot {
    /// Calls up to this sequence are done.
    pub finished: u64,
    /// What is waited for, by thread blocks and for [`check::check_arguments`].
    pub waits: Vec<Waiting>,
    is_busy: bool,
    /// As the engine counts them.
    moves: u64,
    /// Since when it has been so.
    since: Instant,
}

impl ProgressSnapshot {
    /// Before the first call.
    pub fn new() -> Self {
        Self { finished: 0, waits: Vec::new(), is_busy: false, moves: 0, since: Instant::now() }
    }

    /// Looks again.
    pub fn look(&mut self, shared_state: &SharedState, engine: &dyn Engine) {
        let mut waits = check::waits(shared_state);
        waits.extend(engine.waits());
        let issued = shared_state.issued(shared_state.me());
        let finished = match waits.iter().map(|waiting| waiting.call).min() {
            Some(call) => call.saturating_sub(1),
            None => last_finished(engine, shared_state.settled(), issued),
        };
        let is_busy = !waits.is_empty() || finished < issued;
        let moves = engine.moves();
        if !is_busy || (finished, moves, &waits) != (self.finished, self.moves, &self.waits) {
            self.since = Instant::now();
        }
        *self = Self { finished, waits, is_busy, moves, since: self.since };
    }

    /// Whether calls are under way.
    pub fn is_busy(&self) -> bool {
        self.is_busy
    }

    /// Whether calls are under way, and nothing has changed for that long.
    pub fn stands_still(&self, time: Duration) -> bool {
        self.is_busy && self.since.elapsed() >= time
    }

    /// Whether somebody waits, and nothing has changed since `then`, nor for `time`.
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
    use crate::call::Operation;
    use crate::shared_state::tests::call;
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

    /// Looks, waits for a tick, looks again: whether nothing has changed.
    fn is_still(
        progress: &mut ProgressSnapshot,
        shared_state: &SharedState,
        engine: &FakeEngine,
    ) -> bool {
        progress.look(shared_state, engine);
        thread::sleep(TICK);
        progress.look(shared_state, engine);
        progress.stands_still(TICK)
    }

    #[test]
    fn any_change_is_progress() {
        let (shared_state, engine) = (SharedState::alone(Rank(0), 2), FakeEngine::default());
        let mut progress = ProgressSnapshot::new();
        assert!(!is_still(&mut progress, &shared_state, &engine), "nothing is under way");
        shared_state.post_call(1, &call(Operation::AllGather, 1), false);
        assert!(is_still(&mut progress, &shared_state, &engine));
        shared_state.post_call(2, &call(Operation::AllGather, 1), false);
        progress.look(&shared_state, &engine);
        assert!(progress.stands_still(TICK), "a new call does not help an old one");
        engine.finish(1);
        progress.look(&shared_state, &engine);
        assert!(!progress.stands_still(TICK), "a call has finished");
        assert!(is_still(&mut progress, &shared_state, &engine));
        assert!(!progress.is_stuck(progress.since, TICK), "nobody waits");
        engine.wait_for(2, Rank(1), "tb0 s0 waits for message 1 from r1 on ch0");
        progress.look(&shared_state, &engine);
        assert!(!progress.stands_still(TICK), "another message is waited for");
        assert!(is_still(&mut progress, &shared_state, &engine));
        assert!(progress.is_stuck(progress.since, TICK));
        engine.step();
        progress.look(&shared_state, &engine);
        assert!(!progress.stands_still(TICK), "something else has moved");
        engine.finish(1);
        shared_state.settle(2);
        progress.look(&shared_state, &engine);
        assert!(!progress.is_busy());
    }

    /// An engine without a count, in which the second of three calls waits, or a graph does so
    /// again.
    #[test]
    fn waits_count_more_than_counts() {
        let (shared_state, engine) = (SharedState::alone(Rank(0), 2), FakeEngine::default());
        (1..=3).for_each(|sequence| {
            shared_state.post_call(sequence, &call(Operation::AllGather, 1), false);
        });
        engine.finish(3);
        let mut progress = ProgressSnapshot::new();
        assert!(!is_still(&mut progress, &shared_state, &engine));
        engine.wait_for(2, Rank(1), "tb0 s0 waits for message 1 from r1 on ch0");
        assert!(is_still(&mut progress, &shared_state, &engine));
        assert!(progress.is_stuck(progress.since, TICK) && progress.is_busy());
        assert_eq!(progress.finished, 1);
    }
}
