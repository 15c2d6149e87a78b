//! Running one algorithm by name, whatever would be chosen: for tools and tests, and for custom
//! collectives, which no call of the C API means.

use msccl_registry::Entry;

use super::Communicator;
use crate::call::NamedAlgorithmCall;
use crate::engine::DecidedCall;
use crate::error::Error;
use crate::select::Decision;

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
        let decision = inner.selector.force(entry, call)?;
        let _submission =
            inner.submission.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if call.count == 0 {
            return inner.engine.pass(call.stream);
        }
        let done = self.execute(&decision, call, inner.take_numbers(1));
        done.map_err(|error| inner.note(error))
    }

    /// Executes `call` as was decided, as the call `number`.
    pub(super) fn execute(
        &self,
        decision: &Decision,
        call: &NamedAlgorithmCall,
        number: u64,
    ) -> Result<(), Error> {
        let Decision {
            prepared,
            protocol,
            links,
            exact,
            threads,
            cut,
            detour: _,
            averages: _,
            passed_over: _,
        } = decision;
        let NamedAlgorithmCall {
            in_place: _,
            data_type,
            reduction,
            count: _,
            send,
            receive,
            stream,
        } = *call;
        self.inner.engine.collective(&DecidedCall {
            prepared,
            protocol: *protocol,
            links: *links,
            patient: *exact,
            threads: *threads,
            cut: *cut,
            data_type,
            reduction,
            send,
            receive,
            stream,
            call: number,
        })
    }
}
