//! Measuring what could serve, instead of what does: for those who make tuning tables.

use std::hash::BuildHasher;
use std::sync::PoisonError;

use msccl_select::{CallShape, Choice};
use rustc_hash::FxBuildHasher;

use super::Communicator;
use super::collective::RecentDecisions;
use crate::error::Error;

impl Communicator {
    /// What serves calls of `shape`, first, and then every other way to serve them on this
    /// communicator; all ranks get the same answer.
    pub fn choices(&self, shape: &CallShape) -> Vec<Choice> {
        self.inner.selector.choices(shape)
    }

    /// Thread blocks of such a call that is served by `choice`, on the rank that has most.
    ///
    /// # Errors
    ///
    /// It cannot be served so.
    pub fn blocks(&self, choice: &Choice, shape: &CallShape) -> Result<u32, Error> {
        Ok(self.inner.selector.blocks(choice, shape)?)
    }

    /// From now on every collective is served by `choice`, exactly so; one that cannot be is an
    /// error. Without a choice, by what overrides and tables say. Every rank calls it with the same
    /// choice between the same calls; calls that were submitted earlier, and graphs of them, stay
    /// as they are.
    pub fn pin(&self, choice: Option<Choice>) {
        let hash = |choice: &Choice| FxBuildHasher.hash_one(choice.to_string());
        self.inner.shared_state.set_settings(choice.as_ref().map_or(0, hash));
        self.inner.selector.pin(choice);
        self.forget_decisions();
    }

    /// Makes the next call of every shape ask the selector again.
    pub(super) fn forget_decisions(&self) {
        *self.inner.submission.lock().unwrap_or_else(PoisonError::into_inner) =
            RecentDecisions::default();
    }
}
