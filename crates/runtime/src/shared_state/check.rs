//! Whether all ranks make the same call, before they run it: what `MSCCL_CHECK` asks for.
//!
//! Collectives are compared: operation, root, count, data type, how contributions combine.
//! Point-to-point calls are not: a send of one rank need not stand where its receive stands on the
//! other, so they have no number to be waited for. [`super::compare`] compares these afterwards.

use std::sync::OnceLock;
use std::time::Duration;
use std::{hint, thread};

use super::SharedState;
use super::compare::compare;
#[cfg(doc)]
use super::layout;
use crate::error::Error;
use crate::waiting::Waiting;

/// Looks that a rank takes before it begins to sleep between them.
const YIELDING_LOOKS: u32 = 2000;
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
pub(crate) fn check_arguments(
    shared_state: &SharedState,
    number: u64,
    failure: &OnceLock<Error>,
) -> Result<(), Error> {
    shared_state.set_checking(number);
    let came = await_all(shared_state, number, failure);
    shared_state.set_checking(0);
    came?;
    match compare(shared_state, number) {
        None => Ok(()),
        Some(difference) => Err(Error::invalid_usage(difference.advised())),
    }
}

fn await_all(
    shared_state: &SharedState,
    number: u64,
    failure: &OnceLock<Error>,
) -> Result<(), Error> {
    for rank in shared_state.ranks() {
        let mut looks = 0;
        while shared_state.collectives(rank) < number {
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
        100..YIELDING_LOOKS => thread::yield_now(),
        _ => thread::sleep(PAUSE),
    }
}

/// What this rank waits for in [`check_arguments`], if it does: the ranks that have not come, in
/// its own call of that sequence.
pub(crate) fn waits(shared_state: &SharedState) -> Vec<Waiting> {
    let number = shared_state.checking(shared_state.me());
    let late = shared_state.ranks().filter(|rank| shared_state.collectives(*rank) < number);
    let posted = shared_state.collective(shared_state.me(), number);
    let call =
        posted.map_or_else(|| shared_state.issued(shared_state.me()), |posted| posted.sequence);
    let waiting = |rank| Waiting {
        call,
        peer: Some(rank),
        text: format!("waits for {rank} to make this call, to compare the arguments"),
    };
    late.map(waiting).collect()
}
