//! Whether all ranks make the same call.
//!
//! Collectives are compared: operation, root, count, data type, how contributions combine, and, for
//! collectives without a root, whether they are in place. Point-to-point calls are not: a send of one rank
//! need not stand where its receive stands on the other, so they have no number to be compared by.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::OnceLock;
use std::time::Duration;
use std::{hint, thread};

use msccl_collective::Rank;

use super::{Board, Ranks, layout};
use crate::engine::Waiting;
use crate::error::Error;

/// What to do about a difference.
pub(crate) const ADVICE: &str = "make the same call on all ranks";

/// Sides of a difference that are spelled out.
const SIDES: usize = 6;

/// Looks that a rank takes before it begins to sleep between them.
const HASTY_LOOKS: u32 = 2000;
const PAUSE: Duration = Duration::from_micros(50);

/// What ranks say of one collective, when they do not say the same.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Difference {
    number: u64,
    /// By what they say, in the order of their lowest ranks.
    sides: Vec<(String, BTreeSet<Rank>)>,
}

/// Waits until all ranks have posted collective `number`, and compares.
///
/// What is compared are records, of which only the last [`layout::COLLECTIVES`] of a rank are kept;
/// a call of which a rank's record is gone, because that rank posted as many more since, is
/// not compared with that rank.
///
/// It does not watch for deaths, aborts and time itself: the communicator's [`crate::watch::Watch`]
/// does, sees [`waits`], and sets `failure`. One thread at a time.
///
/// # Errors
///
/// A difference, in the same words on every rank; or `failure`.
pub(crate) fn agree(board: &Board, number: u64, failure: &OnceLock<Error>) -> Result<(), Error> {
    board.set_agreeing(number);
    let came = await_all(board, number, failure);
    board.set_agreeing(0);
    came?;
    match compare(board, number) {
        None => Ok(()),
        Some(difference) => {
            let text = format!("{difference}; {ADVICE}");
            Err(Error::invalid_usage(text))
        }
    }
}

fn await_all(board: &Board, number: u64, failure: &OnceLock<Error>) -> Result<(), Error> {
    for rank in board.ranks() {
        let mut looks = 0;
        while board.collectives(rank) < number {
            if let Some(error) = failure.get() {
                return Err(error.clone());
            }
            rest(looks);
            looks = looks.saturating_add(1);
        }
    }
    Ok(())
}

fn rest(looks: u32) {
    match looks {
        0..100 => hint::spin_loop(),
        100..HASTY_LOOKS => thread::yield_now(),
        _ => thread::sleep(PAUSE),
    }
}

/// What this rank waits for in [`agree`], if it does: the ranks that have not come, in its own
/// call of that sequence.
pub(crate) fn waits(board: &Board) -> Vec<Waiting> {
    let number = board.agreeing(board.me());
    let late = board.ranks().filter(|rank| board.collectives(*rank) < number);
    let posted = board.collective(board.me(), number);
    let call = posted.map_or_else(|| board.issued(board.me()), |posted| posted.sequence);
    let waiting = |rank| Waiting {
        call,
        peer: Some(rank),
        text: format!("waits for {rank} to make this call, to compare the arguments"),
    };
    late.map(waiting).collect()
}

/// How the ranks that have posted collective `number` differ, as far as their records are still there.
pub(crate) fn compare(board: &Board, number: u64) -> Option<Difference> {
    let mut sides: BTreeMap<String, BTreeSet<Rank>> = BTreeMap::new();
    for rank in board.ranks() {
        if let Some(posted) = board.collective(rank, number) {
            sides.entry(posted.agreement()).or_default().insert(rank);
        }
    }
    let mut sides: Vec<_> = sides.into_iter().collect();
    sides.sort_by_key(|(_, ranks)| ranks.first().copied());
    (sides.len() > 1).then_some(Difference { number, sides })
}

/// The first collective on which the ranks differ, among those of which records are there.
pub(crate) fn first_difference(board: &Board) -> Option<Difference> {
    let last = board.ranks().map(|rank| board.collectives(rank)).max()?;
    let oldest = last.saturating_sub(layout::COLLECTIVES - 1).max(1);
    (oldest..=last).find_map(|number| compare(board, number))
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { number, sides } = self;
        write!(f, "call {number} differs: ")?;
        for (position, (said, ranks)) in sides.iter().take(SIDES).enumerate() {
            let semicolon = if position == 0 { "" } else { "; " };
            write!(f, "{semicolon}{}: {said}", Ranks(ranks))?;
        }
        match sides.len().saturating_sub(SIDES) {
            0 => Ok(()),
            more => write!(f, "; and {more} more"),
        }
    }
}
