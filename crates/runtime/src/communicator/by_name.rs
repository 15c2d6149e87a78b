//! Running one algorithm by name, whatever would be chosen: for tools and tests, and for custom
//! collectives, which no call of the C API means.

use msccl_collective::CollectiveKind;
use msccl_registry::Entry;
use msccl_select::NamedAlgorithmShape;

use super::Communicator;
use super::observation::observed;
use crate::call::{CallTag, NamedAlgorithmCall};
use crate::engine::{CallRequest, DecidedCall};
use crate::error::Error;

impl Communicator {
    /// Runs `entry` on this rank; every rank calls it with the same algorithm and terms, between
    /// the same calls. Protocol and instances are the algorithm's own, unless
    /// [`crate::Settings::overrides`] says otherwise.
    ///
    /// # Errors
    ///
    /// The algorithm does not serve such a call, or the communicator fails.
    pub fn run(&self, entry: &Entry, call: &NamedAlgorithmCall) -> Result<(), Error> {
        self.error().map_or(Ok(()), Err)?;
        let inner = &self.inner;
        let NamedAlgorithmCall { placement, data_type, reduction, count, buffers } = *call;
        let shape = NamedAlgorithmShape { placement, data_type, reduction, count };
        let decision = inner.selector.force(entry, &shape)?;
        let _submission =
            inner.submission.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        self.check_resumed()?;
        if count == 0 {
            return inner.engine.pass(buffers.stream);
        }
        let number = inner.take_numbers(1);
        let collective = &entry.verified.algorithm().collective;
        let kind = CollectiveKind::of(&collective.kind);
        let chunks = u64::from(collective.loop_chunks().div_ceil(collective.chunks.max(1)));
        let request = CallRequest {
            collective: kind.map_or("custom", CollectiveKind::name),
            placement,
            count,
            bytes: count.saturating_mul(data_type.size_bytes() as u64).saturating_mul(chunks),
        };
        let decision = &decision;
        let decided = DecidedCall { decision, data_type, reduction, buffers, number, request };
        let executed = observed(&inner.settings, CallTag::default(), &decided, || {
            inner.engine.collective(&decided)
        });
        executed.map_err(|error| inner.note(error))
    }
}
