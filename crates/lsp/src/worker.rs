//! Judgements on threads of their own, so that the server answers while one is on its way.
//!
//! A run that is no longer needed ends at its next step. The steps themselves, of which the proof
//! is the longest, are not interrupted: such a run goes on for a while, and its answer goes
//! nowhere. A new run does not wait for it, unless there are many such.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use crossbeam_channel::Sender;

use crate::host::{Host, Picture, TimelineRequest};
use crate::judgement::{Cancellation, Judgement, Question, judge};

/// Most runs at a time.
const MOST_RUNS: usize = 6;

/// Programs may nest deeply, and are walked by recursion.
const STACK_BYTES: usize = 32 << 20;

/// How often a run that waits for others looks whether it is still needed.
const LOOK_AGAIN: Duration = Duration::from_millis(20);

/// Which run of which text.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RunId {
    /// The name of the text.
    pub name: Arc<str>,
    /// Runs are numbered through.
    pub number: u64,
}

/// What comes back from other threads.
pub enum Event {
    /// A judgement, perhaps the first of two.
    Judged {
        /// Of this run.
        run: RunId,
        /// What was found out; `Err` after a defect, with what is known of it.
        judgement: Result<Box<Judgement>, String>,
    },
    /// A picture, for the request of that number.
    Drawn {
        /// As the server numbers pictures.
        number: u64,
        /// The picture.
        picture: Result<Picture, String>,
    },
}

/// Starts runs.
pub struct Worker {
    events: Sender<Event>,
    running: Arc<Running>,
}

/// How many runs there are.
#[derive(Default)]
struct Running {
    count: Mutex<usize>,
    ended: Condvar,
}

impl Worker {
    /// A worker that reports to `events`.
    pub fn new(events: Sender<Event>) -> Self {
        Self { events, running: Arc::default() }
    }

    /// Starts a run; the answer, or both answers, are events.
    pub fn judge(&self, run: RunId, question: Question, cancellation: Cancellation) {
        let (events, running) = (self.events.clone(), Arc::clone(&self.running));
        let report = events.clone();
        let failed = run.clone();
        let body = move || {
            let Some(_place) = running.enter(&cancellation) else { return };
            let send = |judgement| {
                // Nobody listens once the server has ended.
                let _ = events.send(Event::Judged { run: run.clone(), judgement });
            };
            let mut first = |judgement| send(Ok(Box::new(judgement)));
            let judged =
                catch_unwind(AssertUnwindSafe(|| judge(&question, &cancellation, &mut first)));
            match judged {
                Ok(Ok(judgement)) => send(Ok(Box::new(judgement))),
                Ok(Err(_cancelled)) => {}
                Err(_) => send(Err("the compiler or the verifier has a defect".to_owned())),
            }
        };
        let spawned = thread::Builder::new().stack_size(STACK_BYTES).spawn(body);
        if let Err(error) = spawned {
            let judgement = Err(format!("no thread could be started: {error}"));
            let _ = report.send(Event::Judged { run: failed, judgement });
        }
    }

    /// Draws a timeline.
    pub fn draw(&self, number: u64, host: Arc<dyn Host>, request: TimelineRequest) {
        let events = self.events.clone();
        let report = self.events.clone();
        let body = move || {
            let drawn = catch_unwind(AssertUnwindSafe(|| host.timeline(&request)));
            let defect = |_| Err("the cost model has a defect".to_owned());
            let picture = drawn.unwrap_or_else(defect);
            let _ = events.send(Event::Drawn { number, picture });
        };
        if let Err(error) = thread::Builder::new().stack_size(STACK_BYTES).spawn(body) {
            let picture = Err(format!("no thread could be started: {error}"));
            let _ = report.send(Event::Drawn { number, picture });
        }
    }
}

/// A run that counts.
struct Counted {
    running: Arc<Running>,
}

impl Running {
    /// Waits for its turn; `None` if it is no longer needed.
    fn enter(self: &Arc<Self>, cancellation: &Cancellation) -> Option<Counted> {
        let mut count = self.count.lock().unwrap_or_else(PoisonError::into_inner);
        while *count >= MOST_RUNS {
            if cancellation.is_cancelled() {
                return None;
            }
            let waited = self.ended.wait_timeout(count, LOOK_AGAIN);
            count = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        *count += 1;
        Some(Counted { running: Arc::clone(self) })
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        *self.running.count.lock().unwrap_or_else(PoisonError::into_inner) -= 1;
        self.running.ended.notify_one();
    }
}
