//! What each step must wait for, without what is implied.
//!
//! A step implies everything before it in its thread block, and everything that those steps waited
//! for. [`Clocks`] keeps, for every thread block of a rank, how far it is known to have come when
//! the next step of another starts (a vector clock over the thread blocks of one rank), so that a
//! wait is written only if nothing implies it. Order through other ranks is not used: it would
//! spare few waits, and every wait kept is a local flag.

use msccl_collective::TbIndex;
use msccl_ir::{Wait, Waits};

/// Vector clocks of the thread blocks of one rank.
#[derive(Debug, Default)]
pub struct Clocks {
    blocks: Vec<Clock>,
}

#[derive(Debug, Default)]
struct Clock {
    /// What the next step knows: for each thread block, how many steps have finished.
    known: Vec<u32>,
    /// `(step, known)`: what the steps from `step` on knew, ascending; absent before any wait.
    history: Vec<(u32, Vec<u32>)>,
}

impl Clocks {
    /// Reduces `needed` to the steps that the next step of `tb`, which is number `step`, has to
    /// wait for, and notes that it does.
    pub fn wait(&mut self, tb: TbIndex, step: u32, needed: &mut Vec<Wait>) -> Waits {
        self.keep_latest(tb, needed);
        if needed.is_empty() {
            return Waits::new();
        }
        let waits: Waits =
            needed.iter().copied().filter(|wait| !self.implied(needed, wait)).collect();
        let mut known = std::mem::take(&mut self.block(tb).known);
        for wait in &waits {
            advance(&mut known, wait.tb, wait.step.0 + 1);
            for (other, &steps) in self.knowledge(*wait).iter().enumerate() {
                advance(&mut known, TbIndex::from(other), steps);
            }
        }
        let clock = self.block(tb);
        clock.history.push((step, known.clone()));
        clock.known = known;
        waits
    }

    /// Leaves, of each other thread block, the last step needed that is not known to have finished.
    fn keep_latest(&mut self, tb: TbIndex, needed: &mut Vec<Wait>) {
        let known = &self.block(tb).known;
        needed.retain(|wait| {
            wait.tb != tb && known.get(wait.tb.index()).copied().unwrap_or(0) <= wait.step.0
        });
        needed.sort_unstable_by(|one, other| (one.tb, other.step).cmp(&(other.tb, one.step)));
        needed.dedup_by_key(|wait| wait.tb);
    }

    /// Whether another step of `needed` knew that `wait` had finished.
    fn implied(&self, needed: &[Wait], wait: &Wait) -> bool {
        needed.iter().any(|other| {
            let steps = self.knowledge(*other).get(wait.tb.index()).copied().unwrap_or(0);
            other.tb != wait.tb && steps > wait.step.0
        })
    }

    /// What was known when `step` had finished.
    fn knowledge(&self, step: Wait) -> &[u32] {
        let Some(clock) = self.blocks.get(step.tb.index()) else { return &[] };
        let later = clock.history.partition_point(|(from, _)| *from <= step.step.0);
        later.checked_sub(1).map_or(&[], |index| &clock.history[index].1)
    }

    fn block(&mut self, tb: TbIndex) -> &mut Clock {
        if self.blocks.len() <= tb.index() {
            self.blocks.resize_with(tb.index() + 1, Clock::default);
        }
        &mut self.blocks[tb.index()]
    }
}

fn advance(known: &mut Vec<u32>, tb: TbIndex, steps: u32) {
    if known.len() <= tb.index() {
        known.resize(tb.index() + 1, 0);
    }
    let entry = &mut known[tb.index()];
    *entry = (*entry).max(steps);
}

#[cfg(test)]
mod tests {
    use msccl_collective::StepIndex;

    use super::*;

    fn wait(tb: u32, step: u32) -> Wait {
        Wait { tb: TbIndex(tb), step: StepIndex(step) }
    }

    fn check(clocks: &mut Clocks, tb: u32, step: u32, needed: &[Wait], expected: &[Wait]) {
        let waits = clocks.wait(TbIndex(tb), step, &mut needed.to_vec());
        assert_eq!(waits.as_slice(), expected);
    }

    #[test]
    fn only_what_is_not_implied_is_waited_for() {
        let mut clocks = Clocks::default();
        check(&mut clocks, 1, 0, &[wait(0, 3), wait(0, 1)], &[wait(0, 3)]);
        // Known from the step before.
        check(&mut clocks, 1, 1, &[wait(0, 2)], &[]);
        // tb1 s1 knew tb0 s3.
        check(&mut clocks, 2, 0, &[wait(0, 3), wait(1, 1)], &[wait(1, 1)]);
        // tb0 has gone on since.
        check(&mut clocks, 2, 1, &[wait(0, 4), wait(1, 1)], &[wait(0, 4)]);
        // Its own steps need no wait.
        check(&mut clocks, 2, 2, &[wait(2, 0)], &[]);
    }
}
