//! Making communicators: joining, splitting, shrinking.

use std::fmt;
use std::sync::OnceLock;

use msccl_collective::Rank;
use msccl_fabric::{Group, UniqueId};

use super::Communicator;
use crate::engine::Engine;
use crate::error::{Error, ErrorKind};
use crate::settings::Settings;

pub(crate) struct Inner {
    pub group: Group,
    pub engine: Box<dyn Engine>,
    pub failure: OnceLock<Error>,
}

impl Inner {
    pub fn abort(&self, reason: &str) {
        let _ = self.failure.set(Error::new(ErrorKind::Aborted, reason));
        self.engine.abort();
    }
}

impl fmt::Debug for Communicator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Communicator({:016x}, {} of {})", self.id(), self.rank(), self.ranks())
    }
}

impl Communicator {
    /// Joins the group of `ids` as `rank` of `ranks`, and returns when all ranks have.
    ///
    /// # Errors
    ///
    /// Ranks did not come or do not agree, the place does not exist, memory is exhausted.
    pub fn join(
        ids: &[UniqueId],
        rank: Rank,
        ranks: u32,
        settings: &Settings,
    ) -> Result<Self, Error> {
        let _ = (ids, rank, ranks, settings);
        Err(Error::internal("not yet"))
    }

    /// Splits the communicator by `color`; every rank must call it. Ranks of one color form a
    /// communicator, in which they stand in order of `key`, then of their rank here. No color, no
    /// communicator. `settings` replace those of this communicator, but for the place.
    ///
    /// # Errors
    ///
    /// As for [`Communicator::join`].
    pub fn split(
        &self,
        color: Option<u32>,
        key: i32,
        settings: Option<&Settings>,
    ) -> Result<Option<Self>, Error> {
        let _ = (color, key, settings);
        Err(Error::internal("not yet"))
    }

    /// A communicator without the ranks in `exclude`, which need not be alive; every other rank must
    /// call it with the same ranks. With `abort`, work under way here gives up first, and this
    /// communicator stays usable for nothing but its end.
    ///
    /// # Errors
    ///
    /// As for [`Communicator::join`].
    pub fn shrink(
        &self,
        exclude: &[Rank],
        abort: bool,
        settings: Option<&Settings>,
    ) -> Result<Self, Error> {
        let _ = (exclude, abort, settings);
        Err(Error::internal("not yet"))
    }
}
