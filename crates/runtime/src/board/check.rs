//! Whether all ranks make the same call, before they run it: what `MSCCL_CHECK` asks for.
//!
//! Collectives are compared: operation, root, count, data type, how contributions combine. Point-to-point calls
//! are not: a send of one rank need not stand where its receive stands on the other, so they have no number
//! to be waited for. [`super::compare`] compares these afterwards.

use std::sync::OnceLock;
use std::time::Duration;
use std::{hint, thread};

use super::Board;
use super::compare::compare;
#[cfg(doc)]
use super::layout;
use crate::engine::Waiting;
use crate::error::Error;

/// Looks that a rank takes before it begins to sleep between them.
const HASTY_LOOKS: u32 = 2000;
const PAUSE: Duration = Duration::from_micros(50);

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
        Some(difference) => Err(Error::invalid_usage(difference.advised())),
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
