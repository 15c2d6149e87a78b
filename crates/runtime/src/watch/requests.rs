//! Requests for hang reports: request, answer, and agree on the reporting rank.
//!
//! A request is a number in the shared state that every rank's watch reads. Ranks that request a
//! report within [`YOUNG`] of a request share it, and the lowest of them publishes it; if that one
//! is too late, another one does. So ranks that meet one fault together publish one report.

use std::collections::BTreeMap;
use std::thread;
use std::time::{Duration, Instant};

use msccl_collective::Rank;

use super::answer::Answer;
use super::report::Snapshot;
use super::{TICK, Watched};
use crate::shared_state::{RankState, SharedState};

/// How long a request is shared rather than followed by another one.
const YOUNG: Duration = Duration::from_secs(3);
/// How long ranks may take to answer: a tick, and the patience for a busy machine.
const ANSWERS: Duration = Duration::from_millis(500);
/// How long to wait for other ranks with the same fault.
const OTHER_RANKS: Duration = TICK.saturating_add(Duration::from_millis(50));
/// How long the lowest requesting rank may take to become the reporter.
const TURN: Duration = Duration::from_secs(1);
const PAUSE: Duration = Duration::from_millis(5);

/// The requests that a rank has seen and made.
pub(super) struct ReportRequests {
    /// The latest request, and when it was first seen here.
    latest: (u64, Instant),
    /// The latest request that this rank made or joined.
    claimed: u64,
}

/// A snapshot, and the rank that reports it.
pub(super) struct PublishedReport {
    /// What all ranks were seen to do.
    pub snapshot: Snapshot,
    /// The rank that writes it to its log.
    pub reporter: Rank,
}

impl ReportRequests {
    /// Before the first request.
    pub fn new() -> Self {
        Self { latest: (0, Instant::now()), claimed: 0 }
    }

    /// Answers what was requested, if that is new, with what `own` says.
    pub fn serve(&mut self, shared_state: &SharedState, own: impl FnOnce() -> Answer) {
        let request = shared_state.request();
        if request > self.latest.0 {
            self.latest = (request, Instant::now());
        }
        if shared_state.answered(shared_state.me()) < request {
            shared_state.answer(request, &own().to_text());
        }
    }

    /// Requests answers of all ranks and agrees on the reporter; `own` is this rank's answer.
    pub fn ask(&mut self, watched: &Watched, own: impl Fn() -> Answer) -> PublishedReport {
        let shared_state = &watched.shared_state;
        self.serve(shared_state, &own);
        let (latest, seen) = self.latest;
        let shared = latest > self.claimed && seen.elapsed() < YOUNG;
        let request = if shared { latest } else { shared_state.make_request(latest) };
        self.claimed = request;
        shared_state.claim(request);
        self.serve(shared_state, &own);
        let departed = self.await_answers(watched, request, &own);
        let processes = shared_state.ranks().map(|rank| watched.process(rank));
        let snapshot = Snapshot::look(shared_state, request, processes, &departed);
        let reporter = self.settle(shared_state, request, &own);
        PublishedReport { snapshot, reporter }
    }

    /// Waits until all ranks that are there have answered, but not for long.
    fn await_answers(
        &mut self,
        watched: &Watched,
        request: u64,
        own: impl Fn() -> Answer,
    ) -> BTreeMap<Rank, String> {
        let shared_state = &watched.shared_state;
        let since = self.latest.1;
        loop {
            let departed = watched.group.departed().into_iter();
            let departed: BTreeMap<_, _> =
                departed.map(|of| (of.rank, of.reason.to_string())).collect();
            let silent = |rank: &Rank| shared_state.answered(*rank) < request;
            let there = |rank: &Rank| {
                !departed.contains_key(rank) && shared_state.state(*rank) != RankState::Closed
            };
            let complete = !shared_state.ranks().filter(silent).any(|rank| there(&rank));
            if complete || since.elapsed() >= ANSWERS {
                return departed;
            }
            thread::sleep(PAUSE);
            self.serve(shared_state, &own);
        }
    }

    /// Agrees on the rank that reports on `request`.
    fn settle(
        &mut self,
        shared_state: &SharedState,
        request: u64,
        own: impl Fn() -> Answer,
    ) -> Rank {
        let (since, me) = (Instant::now(), shared_state.me());
        loop {
            if let Some(reporter) = shared_state.reporter(request) {
                return reporter;
            }
            let first = shared_state.claimants(request).first().is_none_or(|rank| *rank >= me);
            if (first && since.elapsed() >= OTHER_RANKS) || since.elapsed() >= TURN {
                return shared_state.become_reporter(request);
            }
            thread::sleep(PAUSE);
            self.serve(shared_state, &own);
        }
    }
}
