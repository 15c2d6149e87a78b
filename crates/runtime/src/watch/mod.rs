//! One background thread per communicator: no silent hang.
//!
//! Ten times a second it
//!
//! * answers other ranks that request a report ([`requests`]);
//! * reports who waits for whom on request ([`request_report`]), when the caller aborts calls that
//!   are under way, and when a call has stood still for as long as the caller lets it;
//! * compares what ranks have called ([`crate::shared_state::compare`]);
//! * makes the communicator fail when ranks have called different things, when a call has stood
//!   still that long, or cannot finish because of what befell another rank ([`peers`]).
//!
//! To *fail* is always the same: the first error is kept, the shared state shows it to the other
//! ranks, the engine lets nothing that is under way end as if it were done ([`Engine::fail`]). What
//! thread blocks waited for just before is kept for reports. Only an abort by the caller releases
//! what is under way ([`Engine::release`]). Then one rank reports the failure, whose report begins
//! with it ([`failure`]).
//!
//! A call stands still while neither the last finished call nor the engine's waits nor its count of
//! moves change; whether a call that has not begun, behind other work in its stream, stands still
//! is up to the engine ([`Engine::has_finished`]).

mod answer;
mod failure;
mod peers;
mod progress;
mod report;
mod requests;
mod state;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::{self, JoinHandle, Thread};
use std::time::{Duration, Instant};

use msccl_collective::Rank;
use msccl_fabric::{DepartureReason, Group};

use crate::engine::Engine;
use crate::error::{Error, ErrorKind};
use crate::event::{Event, Log};
use crate::shared_state::compare::{self, Comparison};
use crate::shared_state::{RankState, Reason, SharedState};
use answer::Answer;
use failure::{Cause, CommunicatorFailure};
use peers::Peers;
use progress::ProgressSnapshot;
use requests::ReportRequests;

pub use state::{CallProgress, CallState, CommunicatorState, RankSummary, WaitState};

/// How often a watch looks.
const TICK: Duration = Duration::from_millis(100);

/// How long the reason of a failure elsewhere may be under way.
const CAUSE_DELAY: Duration = Duration::from_millis(200);

/// How often reports were requested in this process.
static REPORTS: AtomicU64 = AtomicU64::new(0);

/// Makes every communicator of this process report who waits for whom, within about a second; if
/// it has several ranks of one communicator, one of them reports. Async-signal-safe.
pub fn request_report() {
    REPORTS.fetch_add(1, Ordering::Relaxed);
}

/// What a watch needs of its communicator.
#[derive(Clone)]
pub(crate) struct Watched {
    /// The ranks.
    pub group: Arc<Group>,
    /// Their shared state.
    pub shared_state: Arc<SharedState>,
    /// What executes the calls.
    pub engine: Arc<dyn Engine>,
    /// The first failure.
    pub failure: Arc<OnceLock<Error>>,
    /// Receives reports and failures.
    pub log: Arc<dyn Log>,
}

impl Watched {
    /// The process of `rank`, unique among all processes of all hosts.
    fn identity(&self, rank: Rank) -> String {
        let peer = self.group.peer(rank);
        peer.map_or_else(String::new, |peer| format!("pid {} on {}", peer.pid, peer.host_name))
    }

    /// The process of `rank`, such as `pid 1234`, with its host where there are several.
    fn process(&self, rank: Rank) -> String {
        let Some(peer) = self.group.peer(rank) else { return "no process".to_owned() };
        match self.shared_state.nodes().count() {
            0 | 1 => format!("pid {}", peer.pid),
            _ => format!("pid {} on {}", peer.pid, peer.host_name),
        }
    }
}

/// The watch of a communicator. Dropping it ends its thread and closes this rank's part of the
/// shared state; what the communicator had under way must be done or given up by then.
pub(crate) struct Watch {
    shared: Arc<WatchShared>,
    thread: Option<JoinHandle<()>>,
}

/// What the thread and the communicator's callers share.
struct WatchShared {
    watched: Watched,
    timeout: Option<Duration>,
    ends: AtomicBool,
    /// How far calls had come when the communicator failed.
    last_progress: Mutex<Option<ProgressSnapshot>>,
    /// What the thread must report.
    unreported: Mutex<Option<Unreported>>,
}

/// What the thread must report.
enum Unreported {
    /// A caller has given up calls under way, for this reason.
    Abort(String),
    /// The communicator has failed, for this reason.
    Failure(String),
}

impl Watch {
    /// Starts to watch; `timeout` is how long a call may stand still.
    pub fn start(watched: Watched, timeout: Option<Duration>) -> Result<Self, Error> {
        let name = format!("msccl-watch-{}", watched.group.rank().0);
        let (ends, last_progress, unreported) = Default::default();
        let shared = Arc::new(WatchShared { watched, timeout, ends, last_progress, unreported });
        let state = WatchState::new(shared.clone());
        let thread = thread::Builder::new().name(name).spawn(move || state.run());
        let thread = thread.map_err(|error| {
            let text = format!("cannot start the thread that watches a communicator: {error}");
            Error::new(ErrorKind::System, text)
        })?;
        Ok(Self { shared, thread: Some(thread) })
    }

    /// The caller gives up: everything under way does so, and every later call fails. If calls were
    /// under way, they are reported soon. If none was, this rank leaves in order, and peers
    /// that are still in calls of which it has done its part go on. Does not wait.
    pub fn abort(&self, reason: &str) {
        let busy = self.shared.progress().is_busy();
        let state = if busy { RankState::Aborted } else { RankState::Closed };
        let error = Error::new(ErrorKind::Aborted, format!("aborted: {reason}"));
        let is_first = self.shared.stop(error, state, &reason.into());
        let Watched { shared_state, engine, .. } = &self.shared.watched;
        if shared_state.state(shared_state.me()) != RankState::Closed {
            // It may have failed before.
            engine.release();
        }
        if is_first && busy {
            *lock(&self.shared.unreported) = Some(Unreported::Abort(reason.to_owned()));
            self.thread().inspect(|thread| thread.unpark());
        }
    }

    /// The communicator has failed: nothing under way goes on, every later call fails with the
    /// first such error. Does not wait.
    pub fn fail(&self, error: Error) {
        self.shared.fail(self.shared.explained(error));
        self.thread().inspect(|thread| thread.unpark());
    }

    /// What the communicator is doing now.
    pub fn state(&self) -> CommunicatorState {
        self.shared.state()
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
        let shared_state = &self.shared.watched.shared_state;
        if shared_state.state(shared_state.me()) == RankState::Running {
            shared_state.mark(RankState::Closed, &Reason::default());
        }
    }
}

impl WatchShared {
    /// How far calls have come by now.
    fn progress(&self) -> ProgressSnapshot {
        let mut progress = ProgressSnapshot::new();
        progress.look(&self.watched.shared_state, &*self.watched.engine);
        progress
    }

    /// This rank's answer to a request for a report.
    fn answer(&self) -> Answer {
        let last = lock(&self.last_progress);
        match &*last {
            Some(last) => Answer::new(&self.watched.shared_state, last),
            None => Answer::new(&self.watched.shared_state, &self.progress()),
        }
    }

    /// An error that came by way of the engine, with what is known of its cause. What befell a rank
    /// on another node may arrive a moment later than its links end.
    fn explained(&self, error: Error) -> CommunicatorFailure {
        let mismatch = || {
            let mismatch = compare::mismatch(&self.watched.shared_state)?;
            Some(CommunicatorFailure::mismatch(mismatch.advised()))
        };
        if error.kind() != ErrorKind::Remote {
            return mismatch().unwrap_or_else(|| CommunicatorFailure::other(error));
        }
        let several = self.watched.shared_state.nodes().count() > 1;
        let since = Instant::now();
        loop {
            if let Some(mismatch) = mismatch() {
                return mismatch;
            }
            match self.cause() {
                Some((text, cause)) => {
                    let error = Error::new(ErrorKind::Remote, format!("{text}; {error}"));
                    return CommunicatorFailure::new(error, cause);
                }
                None if several && since.elapsed() < CAUSE_DELAY => thread::sleep(CAUSE_DELAY / 20),
                None => return CommunicatorFailure::other(error),
            }
        }
    }

    /// Why other ranks gave up, as far as this one knows: a death is the cause of the failures that
    /// follow it.
    fn cause(&self) -> Option<(String, Cause)> {
        let Watched { shared_state, group, .. } = &self.watched;
        let departed = group.departed().into_iter().filter(|of| of.reason != DepartureReason::Left);
        let mut died = departed.filter(|of| shared_state.state(of.rank) == RankState::Running);
        if let Some(died) = died.next() {
            let text = peers::death(&self.watched, died.rank, &died.reason);
            return Some((text, Cause::Death { process: self.watched.identity(died.rank) }));
        }
        let gave_up = |rank: &Rank| {
            let state = shared_state.state(*rank);
            state == RankState::Aborted || state.has_failed()
        };
        let rank = shared_state.ranks().filter(|rank| *rank != shared_state.me()).find(gave_up)?;
        let text =
            format!("{rank} {}: {}", shared_state.state(rank).verb(), shared_state.reason(rank));
        Some((text, Cause::of_peer(shared_state.state(rank))))
    }

    /// Makes the communicator fail, and says so.
    fn fail(&self, failure: CommunicatorFailure) {
        let (text, reason) = (failure.error.to_string(), failure.reason());
        let state = match failure.cause {
            Cause::CallMismatch => RankState::Mismatched,
            Cause::Timeout => RankState::TimedOut,
            Cause::Death { .. } | Cause::Other => RankState::Failed,
        };
        if self.stop(failure.error.clone(), state, &reason) {
            self.watched.log.event(&Event::Failed(text.clone()));
            if failure.must_be_reported() {
                *lock(&self.unreported) = Some(Unreported::Failure(text));
            }
        }
    }

    /// Ends the communicator: it takes no more calls, and what is under way does not go on. False
    /// if somebody else had set its failure.
    fn stop(&self, error: Error, state: RankState, reason: &Reason) -> bool {
        let mut last = lock(&self.last_progress);
        let finished = last.get_or_insert_with(|| self.progress()).finished;
        let is_running =
            self.watched.shared_state.state(self.watched.shared_state.me()) == RankState::Running;
        if is_running && state.has_failed() {
            // Before anybody can learn of the failure.
            self.watched.engine.hold();
        }
        let first = self.watched.failure.set(error).is_ok();
        if is_running {
            let Watched { shared_state, engine, .. } = &self.watched;
            match state {
                RankState::Aborted => shared_state.mark_aborted(finished, reason),
                _ => shared_state.mark(state, reason),
            }
            match state {
                RankState::Failed | RankState::TimedOut | RankState::Mismatched => engine.fail(),
                RankState::Running | RankState::Aborted => engine.release(),
                RankState::Closed => engine.part(),
            }
        }
        first
    }

    fn has_stopped(&self) -> bool {
        lock(&self.last_progress).is_some()
    }
}

/// What the thread keeps from one look to the next.
struct WatchState {
    shared: Arc<WatchShared>,
    requests: ReportRequests,
    peers: Peers,
    progress: ProgressSnapshot,
    comparison: Comparison,
    reports: u64,
}

impl WatchState {
    fn new(shared: Arc<WatchShared>) -> Self {
        let reports = REPORTS.load(Ordering::Relaxed);
        let (requests, peers, progress) =
            (ReportRequests::new(), Peers::new(), ProgressSnapshot::new());
        let comparison = Comparison::new();
        Self { shared, requests, peers, progress, comparison, reports }
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
        self.requests.serve(&shared.watched.shared_state, || shared.answer());
        let reports = REPORTS.load(Ordering::Relaxed);
        if reports != std::mem::replace(&mut self.reports, reports) {
            self.report("as requested", None);
        }
        match shared.watched.failure.get() {
            Some(_) if shared.has_stopped() => {}
            // Whoever has set it need not know of the shared state.
            Some(error) => {
                shared.stop(error.clone(), RankState::Failed, &error.to_string().as_str().into());
            }
            None => self.look_for_failure(),
        }
        let unreported = lock(&shared.unreported).take();
        match unreported {
            None => {}
            Some(Unreported::Abort(reason)) => {
                self.report(&format!("this rank gives up ({reason})"), None);
            }
            Some(Unreported::Failure(text)) => {
                self.report("the communicator has failed", Some(&text));
            }
        }
    }

    /// Makes the communicator fail if calls have no chance to finish.
    fn look_for_failure(&mut self) {
        let watched = self.shared.watched.clone();
        self.progress.look(&watched.shared_state, &*watched.engine);
        if let Some(mismatch) = self.comparison.look(&watched.shared_state) {
            return self.shared.fail(CommunicatorFailure::mismatch(mismatch.advised()));
        }
        if let Some(error) = watched.engine.failure() {
            return self.shared.fail(CommunicatorFailure::other(error));
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
        let shared_state = &self.shared.watched.shared_state;
        let call = shared_state.first_from(shared_state.me(), self.progress.finished + 1);
        let call = call.map_or_else(|| "a call".to_owned(), |posted| posted.to_string());
        let fault = format!("{call}, has not moved for {} s", timeout.as_secs_f64());
        let conclusion = self.report(&fault, None);
        let error = Error::new(ErrorKind::TimedOut, format!("{fault}: {conclusion}"));
        self.shared.fail(CommunicatorFailure::new(error, Cause::Timeout));
    }

    /// Reports who waits for whom because of `reason`, unless a lower rank does; a known `cause` is
    /// its conclusion. Answers the conclusion.
    fn report(&mut self, reason: &str, cause: Option<&str>) -> String {
        let shared = self.shared.clone();
        let watched = &shared.watched;
        let published = self.requests.ask(watched, || shared.answer());
        let (group, reporter) = (&watched.group, published.reporter);
        if reporter != group.rank() {
            return format!(
                "{} ({reporter} logs the full report)",
                published.snapshot.conclusion()
            );
        }
        let headline = format!(
            "who waits for whom among the {} ranks of {:016x}, reported by {reporter}: {reason}",
            group.ranks(),
            group.id()
        );
        let snapshot = match cause {
            Some(cause) => published.snapshot.attributed_to(cause),
            None => published.snapshot,
        };
        watched.log.event(&Event::HangReport(snapshot.format(&headline, cause)));
        snapshot.conclusion()
    }
}

/// What a panicking holder left behind is still whole: every change is one assignment.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
pub(crate) mod tests;
