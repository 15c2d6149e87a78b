//! What a call tries until it is done: look, go on, and wait where nothing moves.

use std::hint;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use msccl_collective::Rank;

use super::interrupt::{Interrupt, Stopped};
use crate::engine::Waiting;
use crate::error::{Error, ErrorKind};

/// How a try ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum AttemptOutcome {
    /// There is nothing left to do.
    Done,
    /// Something moved.
    Moved,
    /// Nothing could move.
    Stuck,
}

/// A call that goes on whenever its peers let it.
pub(super) trait Resumable {
    /// Goes on without waiting.
    ///
    /// # Errors
    ///
    /// What a peer sent is not what this rank expects.
    fn go_on(&mut self) -> Result<AttemptOutcome, Error>;

    /// What it waits for when it is stuck.
    fn waits(&mut self) -> Vec<Waiting>;

    /// Which collective of its rank it is, counted from 1, if it is one.
    fn collective(&self) -> Option<u64>;
}

/// What other threads may read of the call under way.
#[derive(Default)]
pub(super) struct PublishedWaits {
    /// What has been waited for, for some time.
    waits: Mutex<Vec<Waiting>>,
    /// How often something moved, in all calls so far.
    moves: AtomicU64,
}

impl PublishedWaits {
    pub fn waits(&self) -> Vec<Waiting> {
        self.waits.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub fn moves(&self) -> u64 {
        self.moves.load(Ordering::Relaxed)
    }

    fn publish(&self, waits: Vec<Waiting>) {
        *self.waits.lock().unwrap_or_else(PoisonError::into_inner) = waits;
    }

    fn count_move(&self) {
        self.moves.fetch_add(1, Ordering::Relaxed);
    }
}

/// Sees `work` through. A wait that lasts shows on `published`, and that something moves.
///
/// # Errors
///
/// Those of the work; or the interrupt, or that links have failed, with what was awaited.
pub(super) fn see_through(
    work: &mut impl Resumable,
    interrupt: &Interrupt,
    published: &PublishedWaits,
) -> Result<(), Error> {
    let mut pace = Pace::default();
    let outcome = loop {
        // Before the next look, which finds all that these have sent.
        let stopped = match pace.is_time_for_peers() {
            true => interrupt.stopped(),
            false => Vec::new(),
        };
        match work.go_on() {
            Err(error) => break Err(error),
            Ok(AttemptOutcome::Done) => break Ok(()),
            Ok(AttemptOutcome::Moved) => {
                published.count_move();
                if pace.is_long() {
                    published.publish(Vec::new());
                }
                pace = Pace::default();
            }
            Ok(AttemptOutcome::Stuck) => {
                if let Err(error) = interrupt.check() {
                    break Err(while_waiting(error, None, &work.waits()));
                }
                if let Err(error) = check_peers(work, &stopped) {
                    break Err(error);
                }
                // What is missing changes although nothing moves: a step needs messages of several
                // ranks.
                if pace.is_time_to_publish() {
                    let waits = work.waits();
                    if let Err((peer, error)) = interrupt.check_links(&waits) {
                        break Err(while_waiting(error, Some(peer), &waits));
                    }
                    published.publish(waits);
                }
                pace.pause();
            }
        }
    };
    published.publish(Vec::new());
    outcome
}

/// Whether `work`, which is stuck, can still end without those of its peers that had `stopped`
/// before it looked.
fn check_peers(work: &mut impl Resumable, stopped: &[Stopped]) -> Result<(), Error> {
    if stopped.is_empty() {
        return Ok(());
    }
    let (collective, waits) = (work.collective(), work.waits());
    match stopped.iter().find(|stopped| stopped.is_needed(collective, &waits)) {
        None => Ok(()),
        Some(Stopped { rank, .. }) => {
            let error = Error::new(ErrorKind::Remote, format!("{rank} failed or aborted"));
            Err(while_waiting(error, Some(*rank), &waits))
        }
    }
}

/// `error`, of which `failed_peer` is the cause if that is known, and what was waited for.
fn while_waiting(error: Error, failed_peer: Option<Rank>, waits: &[Waiting]) -> Error {
    let Some(waiting) = Waiting::most_telling(waits, failed_peer) else { return error };
    let more = match waits.len() - 1 {
        0 => String::new(),
        more => format!(" ({more} more wait)"),
    };
    Error::new(error.kind(), format!("{error} while {}{more}", waiting.text))
}

/// Looks before the first yield: what a message between two cores takes at most.
const SPINS: u32 = 100;

/// Of the looks before it, those at which peers are looked at.
const PEERS_EVERY: u32 = 16;

/// Looks with a yield in between, before the first sleep.
const YIELDS: u32 = 200;

/// The first sleep, which doubles as the wait goes on, and the longest one.
const SLEEP_US: std::ops::RangeInclusive<u64> = 20..=1000;

/// Sleeps after which a wait is published again.
const PUBLISHED_EVERY: u32 = 16;

/// How long nothing has moved.
#[derive(Default)]
struct Pace {
    looks: u32,
}

impl Pace {
    /// Whether to look at peers that have stopped. Each costs a look at a word, so messages are
    /// looked for more often.
    fn is_time_for_peers(&self) -> bool {
        self.looks > 0 && (self.looks >= SPINS || self.looks.is_multiple_of(PEERS_EVERY))
    }

    /// Whether the wait has lasted long enough to be published.
    fn is_long(&self) -> bool {
        self.looks > SPINS + YIELDS
    }

    /// Whether that is so from the next look on, or has been so for some more sleeps.
    fn is_time_to_publish(&self) -> bool {
        self.looks.checked_sub(SPINS + YIELDS).is_some_and(|sleeps| sleeps % PUBLISHED_EVERY == 0)
    }

    fn pause(&mut self) {
        match self.looks.checked_sub(SPINS) {
            None => hint::spin_loop(),
            Some(yields) if yields < YIELDS => thread::yield_now(),
            Some(sleeps) => {
                let doublings = ((sleeps - YIELDS) / 8).min(16);
                let sleep_us = (SLEEP_US.start() << doublings).min(*SLEEP_US.end());
                thread::sleep(Duration::from_micros(sleep_us));
            }
        }
        self.looks = self.looks.saturating_add(1);
    }
}
