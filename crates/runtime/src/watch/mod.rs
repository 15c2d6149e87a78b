//! One background thread per communicator: no silent hang.
//!
//! Ten times a second it
//!
//! * answers other ranks that ask for a story ([`desk`]);
//! * tells who waits for whom when somebody asks ([`request_story`]), when the caller aborts calls that
//!   are under way, and when a call has stood still for as long as the caller lets it;
//! * compares what ranks have called ([`crate::board::compare`]);
//! * makes the communicator fail when ranks have called different things, when a call has stood still that long, or cannot
//!   finish because of what befell another rank ([`peers`]).
//!
//! To *fail* is always the same: the first error is kept, the board shows it to the other ranks, the engine
//! lets nothing that is under way end as if it were done ([`Engine::fail`]). What thread blocks waited for just
//! before is kept for stories. Only an abort by the caller releases what is under way ([`Engine::release`]).
//! Then one rank reports the failure, whose story begins with it ([`failure`]).
//!
//! A call stands still while neither the last finished call nor the engine's waits nor its count of moves change; whether a call
//! that has not begun, behind other work in its stream, stands still is up to the engine
//! ([`Engine::has_finished`]).

mod answer;
mod desk;
mod failure;
mod peers;
mod progress;
mod story;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::{self, JoinHandle, Thread};
use std::time::{Duration, Instant};

use msccl_collective::Rank;
use msccl_fabric::{DepartureReason, Group};

use crate::board::compare::{self, Comparison};
use crate::board::{Board, State};
use crate::engine::Engine;
use crate::error::{Error, ErrorKind};
use crate::settings::{Event, Log};
use answer::Answer;
use desk::Desk;
use failure::{Cause, Failure};
use peers::Peers;
use progress::Progress;

/// How often a watch looks.
const TICK: Duration = Duration::from_millis(100);

/// How long the reason of a failure elsewhere may be under way.
const RUMOUR: Duration = Duration::from_millis(200);

/// How often stories were asked for in this process.
static STORIES: AtomicU64 = AtomicU64::new(0);

/// Makes every communicator of this process tell who waits for whom, within about a second; what
/// several ranks of one communicator would tell is told by one of them. Async-signal-safe.
pub fn request_story() {
    STORIES.fetch_add(1, Ordering::Relaxed);
}

/// What a watch needs of its communicator.
#[derive(Clone)]
pub(crate) struct Watched {
    /// The ranks.
    pub group: Arc<Group>,
    /// Their board.
    pub board: Arc<Board>,
    /// What executes the calls.
    pub engine: Arc<dyn Engine>,
    /// The first failure.
    pub failure: Arc<OnceLock<Error>>,
    /// Hears stories and failures.
    pub log: Arc<dyn Log>,
}

impl Watched {
    /// The process of `rank`, by which all processes of all hosts can be told apart.
    fn identity(&self, rank: Rank) -> String {
        let peer = self.group.peer(rank);
        peer.map_or_else(String::new, |peer| format!("pid {} on {}", peer.pid, peer.host_name))
    }

    /// The process of `rank`, such as `pid 1234`, with its host where there are several.
    fn process(&self, rank: Rank) -> String {
        let Some(peer) = self.group.peer(rank) else { return "no process".to_owned() };
        match self.board.nodes().count() {
            0 | 1 => format!("pid {}", peer.pid),
            _ => format!("pid {} on {}", peer.pid, peer.host_name),
        }
    }
}

/// The watch of a communicator. Dropping it ends its thread and closes this rank's part of the board;
/// what the communicator had under way must be done or given up by then.
pub(crate) struct Watch {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

/// What the thread and the communicator's callers share.
struct Shared {
    watched: Watched,
    timeout: Option<Duration>,
    ends: AtomicBool,
    /// How far calls had come when the communicator failed.
    last_progress: Mutex<Option<Progress>>,
    /// What the thread must tell.
    untold: Mutex<Option<Untold>>,
}

/// What a story must be told of.
enum Untold {
    /// A caller has given up calls under way, for this reason.
    Abort(String),
    /// The communicator has failed, for this reason.
    Failure(String),
}

impl Watch {
    /// Starts to watch; `timeout` is how long a call may stand still.
    pub fn start(watched: Watched, timeout: Option<Duration>) -> Result<Self, Error> {
        let name = format!("msccl-watch-{}", watched.group.rank().0);
        let (ends, last_progress, untold) = Default::default();
        let shared = Arc::new(Shared { watched, timeout, ends, last_progress, untold });
        let rounds = Rounds::new(shared.clone());
        let thread = thread::Builder::new().name(name).spawn(move || rounds.run());
        let thread = thread.map_err(|error| {
            let text = format!("cannot start the thread that watches a communicator: {error}");
            Error::new(ErrorKind::System, text)
        })?;
        Ok(Self { shared, thread: Some(thread) })
    }

    /// The caller gives up: everything under way does so, and every later call fails. If calls were
    /// under way, the story of them is told soon. If none was, this rank leaves in order, and peers
    /// that are still in calls of which it has done its part go on. Does not wait.
    pub fn abort(&self, reason: &str) {
        let busy = self.shared.progress().is_busy();
        let state = if busy { State::Aborted } else { State::Closed };
        let error = Error::new(ErrorKind::Aborted, format!("aborted: {reason}"));
        let is_first = self.shared.stop(error, state, reason);
        let Watched { board, engine, .. } = &self.shared.watched;
        if board.state(board.me()) != State::Closed {
            // It may have failed before.
            engine.release();
        }
        if is_first && busy {
            *lock(&self.shared.untold) = Some(Untold::Abort(reason.to_owned()));
            self.thread().inspect(|thread| thread.unpark());
        }
    }

    /// The communicator has failed: nothing under way goes on, every later call fails with the
    /// first such error. Does not wait.
    pub fn fail(&self, error: Error) {
        self.shared.fail(self.shared.explained(error));
        self.thread().inspect(|thread| thread.unpark());
    }

    fn thread(&self) -> Option<&Thread> {
        self.thread.as_ref().map(JoinHandle::thread)
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.shared.ends.store(true, Ordering::Release);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            // A panic of the thread has been reported by the panic hook; there is nothing to add.
            let _ = thread.join();
        }
        let board = &self.shared.watched.board;
        if board.state(board.me()) == State::Running {
            board.mark(State::Closed, "");
        }
    }
}

impl Shared {
    /// How far calls have come by now.
    fn progress(&self) -> Progress {
        let mut progress = Progress::new();
        progress.look(&self.watched.board, &*self.watched.engine);
        progress
    }

    /// What this rank answers when a story is asked for.
    fn answer(&self) -> Answer {
        let last = lock(&self.last_progress);
        match &*last {
            Some(last) => Answer::new(&self.watched.board, last),
            None => Answer::new(&self.watched.board, &self.progress()),
        }
    }

    /// An error that came by way of the engine, with what is known of its cause. What befell a rank on another
    /// node may be heard a moment later than its links end.
    fn explained(&self, error: Error) -> Failure {
        let mismatch = || {
            let mismatch = compare::mismatch(&self.watched.board)?;
            Some(Failure::mismatch(mismatch.advised()))
        };
        if error.kind() != ErrorKind::Remote {
            return mismatch().unwrap_or_else(|| Failure::other(error));
        }
        let several = self.watched.board.nodes().count() > 1;
        let since = Instant::now();
        loop {
            if let Some(mismatch) = mismatch() {
                return mismatch;
            }
            match self.cause() {
                Some((text, cause)) => {
                    let error = Error::new(ErrorKind::Remote, format!("{text}; {error}"));
                    return Failure { error, cause };
                }
                None if several && since.elapsed() < RUMOUR => thread::sleep(RUMOUR / 20),
                None => return Failure::other(error),
            }
        }
    }

    /// Why other ranks gave up, as far as this one knows: a death is the cause of the failures that follow it.
    fn cause(&self) -> Option<(String, Cause)> {
        let Watched { board, group, .. } = &self.watched;
        let departed = group.departed().into_iter().filter(|of| of.reason != DepartureReason::Left);
        let mut died = departed.filter(|of| board.state(of.rank) == State::Running);
        if let Some(died) = died.next() {
            let text = peers::death(&self.watched, died.rank, &died.reason.to_string());
            return Some((text, Cause::Death { process: self.watched.identity(died.rank) }));
        }
        let gave_up = |rank: &Rank| {
            let state = board.state(*rank);
            state == State::Aborted || state.has_failed()
        };
        let rank = board.ranks().filter(|rank| *rank != board.me()).find(gave_up)?;
        let text = format!("{rank} {}: {}", board.state(rank).verb(), board.reason(rank));
        Some((text, Cause::of_peer(board.state(rank))))
    }

    /// Makes the communicator fail, and says so.
    fn fail(&self, failure: Failure) {
        let text = failure.error.to_string();
        let state = match failure.cause {
            Cause::Mismatch => State::Mismatched,
            Cause::Timeout => State::TimedOut,
            Cause::Death { .. } | Cause::Other => State::Failed,
        };
        if self.stop(failure.error.clone(), state, &text) {
            self.watched.log.event(&Event::Failed(text.clone()));
            if failure.must_be_reported() {
                *lock(&self.untold) = Some(Untold::Failure(text));
            }
        }
    }

    /// Ends the communicator: it takes no more calls, and what is under way does not go on. False if somebody
    /// else had set its failure.
    fn stop(&self, error: Error, state: State, reason: &str) -> bool {
        let mut last = lock(&self.last_progress);
        let finished = last.get_or_insert_with(|| self.progress()).finished;
        let is_running = self.watched.board.state(self.watched.board.me()) == State::Running;
        if is_running && state.has_failed() {
            // Before anybody can learn of the failure.
            self.watched.engine.hold();
        }
        let first = self.watched.failure.set(error).is_ok();
        if is_running {
            let Watched { board, engine, .. } = &self.watched;
            match state {
                State::Aborted => board.mark_aborted(finished, reason),
                _ => board.mark(state, reason),
            }
            match state {
                State::Failed | State::TimedOut | State::Mismatched => engine.fail(),
                State::Running | State::Aborted => engine.release(),
                State::Closed => engine.part(),
            }
        }
        first
    }

    fn has_stopped(&self) -> bool {
        lock(&self.last_progress).is_some()
    }
}

/// What the thread keeps from one look to the next.
struct Rounds {
    shared: Arc<Shared>,
    desk: Desk,
    peers: Peers,
    progress: Progress,
    comparison: Comparison,
    stories: u64,
}

impl Rounds {
    fn new(shared: Arc<Shared>) -> Self {
        let stories = STORIES.load(Ordering::Relaxed);
        let (desk, peers, progress) = (Desk::new(), Peers::new(), Progress::new());
        let comparison = Comparison::new();
        Self { shared, desk, peers, progress, comparison, stories }
    }

    fn run(mut self) {
        loop {
            let last = self.shared.ends.load(Ordering::Acquire);
            self.look();
            if last {
                return;
            }
            thread::park_timeout(TICK);
        }
    }

    fn look(&mut self) {
        let shared = self.shared.clone();
        self.desk.serve(&shared.watched.board, || shared.answer());
        let stories = STORIES.load(Ordering::Relaxed);
        if stories != std::mem::replace(&mut self.stories, stories) {
            self.tell("as asked for", None);
        }
        match shared.watched.failure.get() {
            Some(_) if shared.has_stopped() => {}
            // Whoever has set it need not know of the board.
            Some(error) => {
                shared.stop(error.clone(), State::Failed, &error.to_string());
            }
            None => self.look_for_failure(),
        }
        let untold = lock(&shared.untold).take();
        match untold {
            None => {}
            Some(Untold::Abort(reason)) => {
                self.tell(&format!("this rank gives up ({reason})"), None);
            }
            Some(Untold::Failure(text)) => {
                self.tell("the communicator has failed", Some(&text));
            }
        }
    }

    /// Makes the communicator fail if calls have no chance to finish.
    fn look_for_failure(&mut self) {
        let watched = self.shared.watched.clone();
        self.progress.look(&watched.board, &*watched.engine);
        if let Some(mismatch) = self.comparison.look(&watched.board) {
            return self.shared.fail(Failure::mismatch(mismatch.advised()));
        }
        if let Some(error) = watched.engine.failure() {
            return self.shared.fail(Failure::other(error));
        }
        if let Some(failure) = self.peers.look(&watched, &self.progress) {
            return self.shared.fail(failure);
        }
        let Some(timeout) = self.shared.timeout else { return };
        if self.progress.stands_still(timeout) {
            self.time_out(timeout);
        }
    }

    fn time_out(&mut self, timeout: Duration) {
        let board = &self.shared.watched.board;
        let call = board.first_from(board.me(), self.progress.finished + 1);
        let call = call.map_or_else(|| "a call".to_owned(), |posted| posted.to_string());
        let trouble = format!("{call}, has not moved for {} s", timeout.as_secs_f64());
        let conclusion = self.tell(&trouble, None);
        let error = Error::new(ErrorKind::TimedOut, format!("{trouble}: {conclusion}"));
        self.shared.fail(Failure { error, cause: Cause::Timeout });
    }

    /// Tells who waits for whom because of `reason`, unless a lower rank does; a known `cause` is its conclusion. Answers
    /// the conclusion.
    fn tell(&mut self, reason: &str, cause: Option<&str>) -> String {
        let shared = self.shared.clone();
        let watched = &shared.watched;
        let told = self.desk.ask(watched, || shared.answer());
        let (group, teller) = (&watched.group, told.teller);
        if teller != group.rank() {
            return format!("{} ({teller} tells the whole story)", told.scene.conclusion());
        }
        let headline = format!(
            "who waits for whom among the {} ranks of {:016x}, told by {teller}: {reason}",
            group.ranks(),
            group.id()
        );
        let scene = match cause {
            Some(cause) => told.scene.attributed_to(cause),
            None => told.scene,
        };
        watched.log.event(&Event::Story(scene.tell(&headline, cause)));
        scene.conclusion()
    }
}

/// What a panicking holder left behind is still whole: every change is one assignment.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
pub(crate) mod tests;
