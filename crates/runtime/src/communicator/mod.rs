//! The communicator: one rank's access to the collectives of its group.
//!
//! A [`Communicator`] is made together by all ranks ([`Communicator::join`],
//! [`Communicator::split`], [`Communicator::shrink`]) and then takes calls ([`submit()`]). Its
//! methods may be called from any thread.
//!
//! # Guarantees
//!
//! * Calls are executed in the order in which they are submitted, on all ranks; the result is that
//!   of a proved schedule. What cannot be served is an error, never a wrong answer.
//! * On a GPU a call returns when it is in the caller's stream; on the host when it is done.
//! * Where a peer died or somebody aborted, nothing waits without a report. The first failure is
//!   kept ([`Communicator::error`]) and given to every later call.
//! * A failure never becomes a wrong result. On a GPU calls that are under way stay in their
//!   streams until their owner gives the communicator up
//!   ([`Settings::on_failure`](crate::Settings::on_failure)); on the host they return the error,
//!   and what they wrote is undefined.
//! * Dropping a communicator frees all that it allocated, after its own work is done.
//!
//! All ranks must submit the same calls in the same order, with the same counts, types and
//! operators; whether a rank calls in place is its own affair. What differs fails the communicator
//! within a second ([`crate::shared_state::compare`]); [`crate::Settings::check`] refuses it before
//! it runs.

mod agreement;
mod by_name;
mod carried;
mod collective;
mod estimate;
mod join;
mod observation;
mod one_sided;
mod order;
mod point_to_point;
mod submit;
mod suspension;
mod trial;
mod window;

use std::sync::Arc;
use std::sync::atomic::Ordering;

use msccl_collective::Rank;

use crate::error::Error;
use crate::settings::PlaceOfRank;
use crate::watch::CommunicatorState;

pub use one_sided::{ExpectedSignals, Put};
pub use submit::{Batch, submit};
pub use suspension::MemoryUse;
pub use window::{BufferPlaces, SharedPart, Window, WindowMemory};

/// One rank's access to the collectives of its group. Clones are the same communicator.
#[derive(Clone)]
pub struct Communicator {
    pub(crate) inner: Arc<join::Inner>,
}

impl Communicator {
    /// This rank.
    pub fn rank(&self) -> Rank {
        self.inner.group.rank()
    }

    /// How many ranks there are.
    pub fn ranks(&self) -> u32 {
        self.inner.group.ranks()
    }

    /// A number that all members share and no other communicator has, for logs.
    pub fn id(&self) -> u64 {
        self.inner.group.id()
    }

    /// Collectives so far that were to have [`Links::Direct`](crate::Links::Direct), and were given
    /// buffers which every peer could use, as far as their links needed that; for tests and
    /// measurements.
    pub fn direct_calls(&self) -> u64 {
        self.inner.engine.direct_calls()
    }

    /// Collectives so far that a specialised kernel has served; for tests and measurements.
    pub fn specialised_calls(&self) -> u64 {
        self.inner.engine.specialised_calls()
    }

    /// Collectives so far that copy engines carry, without a kernel; for tests and measurements.
    pub fn carried_calls(&self) -> u64 {
        self.inner.engine.carried_calls()
    }

    /// The next collective that is submitted sets the signal of each block of its output, a word of
    /// four bytes from `address` on: to 0 when it begins, to 1 when the block is there for all that
    /// the device reads. Copy engines set them one by one, if they lie in a window of all ranks at
    /// the same place, as outputs must; then every rank asks for them. Otherwise all are set at the
    /// end. 0 takes the request back.
    ///
    /// # Errors
    ///
    /// The rank is on the host.
    pub fn signal_blocks(&self, address: u64) -> Result<(), Error> {
        if matches!(self.inner.settings.place, PlaceOfRank::Host) {
            return Err(Error::invalid_usage("ranks on the host have no signals of blocks"));
        }
        self.inner.block_signals.store(address, Ordering::Relaxed);
        Ok(())
    }

    /// The next collective that is submitted need not bring the block of its output that comes from
    /// this rank itself, whose content is then undefined. That saves copy engines a copy within the
    /// GPU or a detour; kernels bring it as always. Each rank decides for itself.
    pub fn omit_own_block(&self) {
        self.inner.omits_own_block.store(true, Ordering::Relaxed);
    }

    /// What this rank and its peers are doing now. Asks no peer and does not wait, so that it may
    /// be called while calls are under way.
    pub fn state(&self) -> CommunicatorState {
        self.inner.watch.state()
    }

    /// Whether what is given to `stream` now is captured into a graph, as far as the driver says.
    pub fn is_captured(&self, stream: u64) -> bool {
        self.inner.engine.is_captured(stream)
    }

    /// The first failure, if there was one: of a call, of a peer, or an abort.
    pub fn error(&self) -> Option<Error> {
        self.inner.failure.get().cloned()
    }

    /// Makes everything under way on this rank give up, and every later call fail. Needs no peer
    /// and does not wait.
    pub fn abort(&self, reason: &str) {
        self.inner.abort(reason);
    }

    /// Makes everything under way on this rank give up, waits until it has, and makes every later
    /// call fail. Unlike after [`Communicator::abort`], other communicators can still be made from
    /// this one.
    ///
    /// # Errors
    ///
    /// The device does not report that the work has ended.
    pub fn revoke(&self, reason: &str) -> Result<(), Error> {
        self.inner.watch.abort(reason);
        self.inner.engine.quiesce()
    }

    /// Waits until everything submitted is done, or the communicator has failed.
    ///
    /// # Errors
    ///
    /// The communicator has failed. What was under way then stays until [`Communicator::abort`],
    /// [`Communicator::revoke`] or the end of the communicator.
    pub fn finish(&self) -> Result<(), Error> {
        self.inner.engine.quiesce()?;
        self.error().map_or(Ok(()), Err)
    }
}
