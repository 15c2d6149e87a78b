//! A fair pool: worker threads that take turns at tasks which block on one another.
//!
//! A task runs until it finishes, blocks or has had its share. A blocked task is parked until
//! another one calls [`Pool::wake`] for it. Since only running tasks wake others, the moment at
//! which no task runs and none is ready is exactly a standstill: no timer is needed to see it.

use std::collections::VecDeque;
use std::panic::resume_unwind;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use crate::walk::Advance;

/// How a run ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum RunEnd {
    /// Every task has finished.
    Finished,
    /// Tasks are left, and none of them can go on.
    Standstill,
    /// The deadline has passed.
    TimedOut,
}

/// The states of a task.
mod state {
    pub(super) const PARKED: u8 = 0;
    pub(super) const READY: u8 = 1;
    pub(super) const RUNNING: u8 = 2;
    /// Running, and woken since its turn began: it must have another turn.
    pub(super) const WOKEN: u8 = 3;
    pub(super) const FINISHED: u8 = 4;
}

/// The tasks `0 .. n` of one run.
pub(crate) struct Pool {
    states: Vec<AtomicU8>,
    queue: Mutex<Queue>,
    changed: Condvar,
}

struct Queue {
    ready: VecDeque<usize>,
    running: usize,
    unfinished: usize,
    end: Option<RunEnd>,
}

impl Pool {
    /// `tasks` tasks, all ready, in ascending order.
    pub(crate) fn new(tasks: usize) -> Self {
        let end = (tasks == 0).then_some(RunEnd::Finished);
        let queue = Queue { ready: (0..tasks).collect(), running: 0, unfinished: tasks, end };
        Self {
            states: (0..tasks).map(|_| AtomicU8::new(state::READY)).collect(),
            queue: Mutex::new(queue),
            changed: Condvar::new(),
        }
    }

    /// Gives `task` another turn, unless it has finished or is to have one anyway. What the caller
    /// did before is visible to that turn.
    pub(crate) fn wake(&self, task: usize) {
        let woken = |now| match now {
            state::PARKED => Some(state::READY),
            state::RUNNING => Some(state::WOKEN),
            // An exchange even where nothing changes, for its place in the order of exchanges.
            other => Some(other),
        };
        let before = self.states[task].fetch_update(Ordering::AcqRel, Ordering::Acquire, woken);
        if before == Ok(state::PARKED) {
            self.lock().ready.push_back(task);
            self.changed.notify_one();
        }
    }

    /// Runs all tasks on `workers` threads (at least one, the caller's among them), each with a
    /// state of its own from `worker`; returns how the run ended, and those states.
    pub(crate) fn run<W: Send>(
        &self,
        workers: usize,
        deadline: Option<Instant>,
        worker: impl Fn() -> W + Sync,
        turn: impl Fn(usize, &mut W) -> Advance + Sync,
    ) -> (RunEnd, Vec<W>) {
        let work = || {
            let _ended_by_panic = EndOnPanic(self);
            let mut own = worker();
            while let Some(task) = self.next(deadline) {
                // An exchange, so that this turn sees what wakers did before it began.
                self.states[task].swap(state::RUNNING, Ordering::AcqRel);
                self.finish_advance(task, turn(task, &mut own));
            }
            own
        };
        let states = std::thread::scope(|scope| {
            let others: Vec<_> = (1..workers).map(|_| scope.spawn(work)).collect();
            let mut states = vec![work()];
            for other in others {
                states.push(other.join().unwrap_or_else(|panic| resume_unwind(panic)));
            }
            states
        });
        (self.lock().end.unwrap_or(RunEnd::Standstill), states)
    }

    /// Waits for a ready task; `None` when the run has ended.
    fn next(&self, deadline: Option<Instant>) -> Option<usize> {
        let mut queue = self.lock();
        loop {
            if queue.end.is_none() && deadline.is_some_and(|deadline| Instant::now() >= deadline) {
                self.end(&mut queue, RunEnd::TimedOut);
            }
            if queue.end.is_some() {
                return None;
            }
            if let Some(task) = queue.ready.pop_front() {
                queue.running += 1;
                return Some(task);
            }
            if queue.running == 0 {
                self.end(&mut queue, RunEnd::Standstill);
                return None;
            }
            queue = self.wait(queue, deadline);
        }
    }

    fn finish_advance(&self, task: usize, turn: Advance) {
        let again = match turn {
            Advance::Finished => {
                self.states[task].store(state::FINISHED, Ordering::Release);
                false
            }
            Advance::Yielded => true,
            // Fails exactly if somebody called `wake` during the turn.
            Advance::Blocked => self.states[task]
                .compare_exchange(
                    state::RUNNING,
                    state::PARKED,
                    Ordering::AcqRel,
                    Ordering::Acquire,
                )
                .is_err(),
        };
        let mut queue = self.lock();
        queue.running -= 1;
        if again {
            self.states[task].swap(state::READY, Ordering::AcqRel);
            queue.ready.push_back(task);
        }
        if turn == Advance::Finished {
            queue.unfinished -= 1;
            if queue.unfinished == 0 {
                self.end(&mut queue, RunEnd::Finished);
            }
        }
    }

    fn end(&self, queue: &mut Queue, end: RunEnd) {
        queue.end = Some(end);
        self.changed.notify_all();
    }

    fn wait<'q>(
        &self,
        queue: MutexGuard<'q, Queue>,
        deadline: Option<Instant>,
    ) -> MutexGuard<'q, Queue> {
        let Some(deadline) = deadline else {
            return self.changed.wait(queue).unwrap_or_else(PoisonError::into_inner);
        };
        let left = deadline.saturating_duration_since(Instant::now());
        let waited = self.changed.wait_timeout(queue, left);
        waited.unwrap_or_else(PoisonError::into_inner).0
    }

    /// A worker that panicked left the queue consistent: no code that can panic holds the lock.
    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// LinkEnds the run when its worker panics, so that the others do not wait for it; the panic itself
/// goes on to the caller of [`Pool::run`].
struct EndOnPanic<'a>(&'a Pool);

impl Drop for EndOnPanic<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.end(&mut self.0.lock(), RunEnd::Standstill);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;
    use std::time::Duration;

    use super::*;

    /// Task `t` may finish only after task `t - 1`, which wakes it; they are queued in order, so
    /// the turns are taken backwards to make every task block first.
    fn chain(tasks: usize, workers: usize) -> RunEnd {
        let pool = Pool::new(tasks);
        let finished: Vec<_> = (0..tasks).map(|_| AtomicUsize::new(0)).collect();
        let turn = |task: usize, (): &mut ()| {
            let waits_for = task + 1;
            if waits_for < tasks && finished[waits_for].load(Ordering::Acquire) == 0 {
                return Advance::Blocked;
            }
            finished[task].store(1, Ordering::Release);
            if task > 0 {
                pool.wake(task - 1);
            }
            Advance::Finished
        };
        pool.run(workers, None, || (), turn).0
    }

    #[test]
    fn blocked_tasks_go_on_when_woken() {
        for workers in [1, 2, 8] {
            assert_eq!(chain(500, workers), RunEnd::Finished);
        }
        assert_eq!(chain(0, 2), RunEnd::Finished);
    }

    #[test]
    fn a_standstill_is_seen_at_once() {
        let pool = Pool::new(3);
        let turn = |task, (): &mut ()| if task == 1 { Advance::Finished } else { Advance::Blocked };
        assert_eq!(pool.run(2, None, || (), turn).0, RunEnd::Standstill);
    }

    #[test]
    fn a_deadline_ends_a_run() {
        let pool = Pool::new(2);
        let deadline = Instant::now() + Duration::from_millis(5);
        let end = pool.run(2, Some(deadline), || (), |_, ()| Advance::Yielded);
        assert_eq!(end.0, RunEnd::TimedOut);
    }
}
