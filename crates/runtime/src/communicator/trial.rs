//! Measuring what could serve, instead of what does: for those who make tuning tables.

use std::hash::BuildHasher;
use std::sync::PoisonError;

use msccl_collective::DataType;
use rustc_hash::FxBuildHasher;

use super::Communicator;
use super::submit::RecentDecisions;
use crate::call::CallShape;
use crate::call::{Combine, Operation};
use crate::error::Error;
use crate::select::Choice;

impl Communicator {
    /// What serves calls of `operation` with `count` elements a block, first, and then every other
    /// way to serve them on this communicator; all ranks get the same answer. Empty if nothing
    /// serves, as for transfers from rank to rank.
    pub fn choices(
        &self,
        operation: &Operation,
        in_place: bool,
        data_type: DataType,
        count: u64,
    ) -> Vec<Choice> {
        let Some(wanted) = operation.wanted() else { return Vec::new() };
        let reduction = operation.combine().map(Combine::reduction);
        let request = CallShape { wanted, in_place, data_type, reduction, count };
        self.inner.selector.choices(&request)
    }

    /// Thread blocks of such a call that is served by `choice`, on the rank that has most.
    ///
    /// # Errors
    ///
    /// It cannot be served so.
    pub fn blocks(
        &self,
        choice: &Choice,
        operation: &Operation,
        in_place: bool,
        data_type: DataType,
        count: u64,
    ) -> Result<u32, Error> {
        let reduction = operation.combine().map(Combine::reduction);
        let transfer = || Error::invalid_argument("transfers have no choices");
        let wanted = operation.wanted().ok_or_else(transfer)?;
        let request = CallShape { wanted, in_place, data_type, reduction, count };
        self.inner.selector.blocks(choice, &request)
    }

    /// From now on every collective is served by `choice`, exactly so; one that cannot be is an
    /// error. Without a choice, by what overrides and tables say. Every rank calls it with the same
    /// choice between the same calls; calls that were submitted earlier, and graphs of them, stay
    /// as they are.
    pub fn pin(&self, choice: Option<Choice>) {
        let hash = |choice: &Choice| FxBuildHasher.hash_one(choice.to_string());
        self.inner.shared_state.set_settings(choice.as_ref().map_or(0, hash));
        self.inner.selector.pin(choice);
        *self.inner.submission.lock().unwrap_or_else(PoisonError::into_inner) =
            RecentDecisions::default();
    }
}
