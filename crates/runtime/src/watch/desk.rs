//! Asking all ranks, answering those who ask, and settling who tells.
//!
//! A request is a number on the board that every rank's watch looks at. Ranks that want a story within
//! [`YOUNG`] of a request share it, and of them the lowest tells it; if that one does not get to it, another
//! one does. So ranks that run into one trouble together give one story.

use std::collections::BTreeMap;
use std::thread;
use std::time::{Duration, Instant};

use msccl_collective::Rank;

use super::answer::Answer;
use super::story::Scene;
use super::{TICK, Watched};
use crate::board::{Board, State};

/// How long a request is shared rather than followed by another one.
const YOUNG: Duration = Duration::from_secs(3);
/// How long ranks may take to answer: a tick, and the patience for a busy machine.
const ANSWERS: Duration = Duration::from_millis(500);
/// How long ranks with the same trouble are waited for.
const FELLOWS: Duration = TICK.saturating_add(Duration::from_millis(50));
/// How long the lowest rank that would tell may take to do so.
const TURN: Duration = Duration::from_secs(1);
const PAUSE: Duration = Duration::from_millis(5);

/// What a rank has to do with requests.
pub(super) struct Desk {
    /// The latest request, and when it was first seen here.
    latest: (u64, Instant),
    /// The latest request that this rank wanted itself.
    claimed: u64,
}

/// A story, and who tells it.
pub(super) struct Told {
    /// What all ranks were seen to do.
    pub scene: Scene,
    /// Who tells it to its log.
    pub teller: Rank,
}

impl Desk {
    /// Before the first request.
    pub fn new() -> Self {
        Self { latest: (0, Instant::now()), claimed: 0 }
    }

    /// Answers what was requested, if that is new, with what `own` says.
    pub fn serve(&mut self, board: &Board, own: impl FnOnce() -> Answer) {
        let request = board.request();
        if request > self.latest.0 {
            self.latest = (request, Instant::now());
        }
        if board.answered(board.me()) < request {
            board.answer(request, &own().to_text());
        }
    }

    /// Asks all ranks and settles who tells; `own` is what this rank answers.
    pub fn ask(&mut self, watched: &Watched, own: impl Fn() -> Answer) -> Told {
        let board = &watched.board;
        self.serve(board, &own);
        let (latest, seen) = self.latest;
        let shared = latest > self.claimed && seen.elapsed() < YOUNG;
        let request = if shared { latest } else { board.make_request(latest) };
        self.claimed = request;
        board.claim(request);
        self.serve(board, &own);
        let departed = self.await_answers(watched, request, &own);
        let processes = board.ranks().map(|rank| watched.process(rank));
        let scene = Scene::look(board, request, processes, &departed);
        let teller = self.settle(board, request, &own);
        Told { scene, teller }
    }

    /// Waits until all ranks that are there have answered, but not for long.
    fn await_answers(
        &mut self,
        watched: &Watched,
        request: u64,
        own: impl Fn() -> Answer,
    ) -> BTreeMap<Rank, String> {
        let board = &watched.board;
        let asked = self.latest.1;
        loop {
            let departed = watched.group.departed().into_iter();
            let departed: BTreeMap<_, _> =
                departed.map(|of| (of.rank, of.reason.to_string())).collect();
            let silent = |rank: &Rank| board.answered(*rank) < request;
            let there =
                |rank: &Rank| !departed.contains_key(rank) && board.state(*rank) != State::Closed;
            let complete = !board.ranks().filter(silent).any(|rank| there(&rank));
            if complete || asked.elapsed() >= ANSWERS {
                return departed;
            }
            thread::sleep(PAUSE);
            self.serve(board, &own);
        }
    }

    /// Settles who tells the story of `request`.
    fn settle(&mut self, board: &Board, request: u64, own: impl Fn() -> Answer) -> Rank {
        let (since, me) = (Instant::now(), board.me());
        loop {
            if let Some(teller) = board.teller(request) {
                return teller;
            }
            let first = board.claimants(request).first().is_none_or(|rank| *rank >= me);
            if (first && since.elapsed() >= FELLOWS) || since.elapsed() >= TURN {
                return board.become_teller(request);
            }
            thread::sleep(PAUSE);
            self.serve(board, &own);
        }
    }
}
