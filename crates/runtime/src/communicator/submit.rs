//! Submitting calls: alone, or many that may wait for one another.

use std::sync::{Arc, MutexGuard, PoisonError};
use std::thread;

use smallvec::SmallVec;

use super::Communicator;
use super::collective::RecentDecisions;
use super::observation::observed_transfers;
use super::point_to_point::{self, Exchange, exchange_of};
use crate::call::{
    AdmissionError, Admitted, AdmittedCall, Buffers, Call, CollectiveCall, TransferCall,
};
use crate::error::{Error, ErrorKind};
use crate::settings::PlaceOfRank;
use crate::shared_state::check;

/// Calls on one communicator.
#[derive(Clone, Debug)]
pub struct Batch {
    /// The communicator; no other batch of the same submission has it.
    pub communicator: Communicator,
    /// Its calls, in order, as it admitted them.
    pub calls: Vec<AdmittedCall>,
}

impl Batch {
    /// `calls` on `communicator`.
    ///
    /// # Errors
    ///
    /// The communicator has failed, or some call makes no sense.
    pub fn new(communicator: Communicator, calls: &[Call]) -> Result<Self, Error> {
        communicator.error().map_or(Ok(()), Err)?;
        let calls = calls.iter().map(|call| communicator.admit(call)).collect::<Result<_, _>>()?;
        Ok(Self { communicator, calls })
    }
}

/// Most submissions have few of anything; those allocate nothing.
type Few<T> = SmallVec<[T; 4]>;

/// Submits calls on any number of communicators at once; this is what a group of the NCCL C API is.
/// Collectives of a communicator go in their order; its point-to-point calls go together, after
/// them.
///
/// # Errors
///
/// The first call that cannot be served, or the failure of a communicator. Nothing of any batch is
/// executed if sends and receives of a rank to itself do not match in number.
pub fn submit(batches: &[Batch]) -> Result<(), Error> {
    let borrowed =
        batches.iter().map(|Batch { communicator, calls }| BorrowedBatch { communicator, calls });
    submit_all(&borrowed.collect::<Few<_>>())
}

/// A batch whose calls are somebody else's.
#[derive(Clone, Copy)]
struct BorrowedBatch<'a> {
    communicator: &'a Communicator,
    calls: &'a [AdmittedCall],
}

fn submit_all(batches: &[BorrowedBatch<'_>]) -> Result<(), Error> {
    batches.iter().try_for_each(BorrowedBatch::admit)?;
    match batches {
        // By far the most: a call alone.
        [only] => only.submit(),
        _ => submit_together(batches),
    }
}

fn submit_together(batches: &[BorrowedBatch<'_>]) -> Result<(), Error> {
    let _submissions = lock_submissions(batches);
    batches.iter().try_for_each(|batch| batch.communicator.check_resumed())?;
    let posted: Few<PostedBatch> = batches.iter().map(BorrowedBatch::post).collect();
    let agreed =
        batches.iter().zip(&posted).try_for_each(|(batch, posted)| batch.check_arguments(posted));
    if let Err(difference) = agreed {
        batches.iter().zip(&posted).for_each(|(batch, of)| batch.settle(of));
        return Err(difference);
    }
    let on_host = |batch: &BorrowedBatch<'_>| {
        matches!(batch.communicator.inner.settings.place, PlaceOfRank::Host)
    };
    match batches.iter().any(on_host) {
        true => at_once(batches, &posted),
        false => batches
            .iter()
            .zip(&posted)
            .try_for_each(|(batch, of)| batch.execute(of, &mut RecentDecisions::default())),
    }
}

/// What a batch has published in the shared state.
struct PostedBatch {
    /// The number of its first call.
    first: u64,
    /// The number of its last call; its point-to-point calls go under this one, all together.
    last: u64,
    /// The number of its last collective among all collectives.
    last_collective: Option<u64>,
    /// How many collectives it has.
    collectives: u64,
    /// Whether it has point-to-point calls.
    transfers: bool,
}

/// Keeps other submissions off the communicators, in an order in which nobody waits in a circle.
fn lock_submissions<'a>(batches: &[BorrowedBatch<'a>]) -> Few<MutexGuard<'a, RecentDecisions>> {
    let mut batches: Few<&BorrowedBatch<'a>> = batches.iter().collect();
    batches.sort_by_key(|batch| Arc::as_ptr(&batch.communicator.inner).addr());
    batches.into_iter().map(BorrowedBatch::lock_submission).collect()
}

/// Executes batches on threads of their own: calls on the host return when they are done, and these
/// may wait for one another.
fn at_once(batches: &[BorrowedBatch<'_>], posted: &[PostedBatch]) -> Result<(), Error> {
    let results: Vec<Result<(), Error>> = thread::scope(|scope| {
        let threads = batches.iter().zip(posted).map(|(batch, of)| {
            let thread = thread::Builder::new().name("msccl-calls".to_owned());
            thread.spawn_scoped(scope, move || batch.execute(of, &mut RecentDecisions::default()))
        });
        let threads: Vec<_> = threads.collect();
        let lost = || Err(Error::internal("a thread that executed calls panicked"));
        let ended = threads.into_iter().map(|thread| match thread {
            Ok(thread) => thread.join().unwrap_or_else(|_| lost()),
            Err(error) => {
                let text = format!("a thread for the calls of a group cannot be started: {error}");
                Err(Error::new(ErrorKind::System, text))
            }
        });
        ended.collect()
    });
    results.into_iter().collect()
}

impl<'a> BorrowedBatch<'a> {
    /// Whether the calls make sense together, and the communicator takes calls.
    fn admit(&self) -> Result<(), Error> {
        let Self { communicator, calls } = self;
        communicator.error().map_or(Ok(()), Err)?;
        point_to_point::admit(calls, communicator.rank())
    }

    /// Keeps other submissions off the communicator.
    fn lock_submission(&self) -> MutexGuard<'a, RecentDecisions> {
        self.communicator.inner.submission.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Does everything with this batch, which is alone.
    fn submit(&self) -> Result<(), Error> {
        let mut submission = self.lock_submission();
        self.communicator.check_resumed()?;
        let posted = self.post();
        match self.check_arguments(&posted) {
            Ok(()) => self.execute(&posted, &mut submission),
            Err(difference) => {
                self.settle(&posted);
                Err(difference)
            }
        }
    }

    /// Publishes in the shared state what comes.
    fn post(&self) -> PostedBatch {
        let inner = &self.communicator.inner;
        let transfers = self.calls.iter().any(|call| call.transfer().is_some());
        let numbers = self.calls.len() as u64 + u64::from(transfers);
        let first = inner.take_numbers(numbers);
        let (mut last_collective, mut collectives) = (None, 0);
        for (number, call) in (first..).zip(self.calls) {
            if let Admitted::Collective(call) = &call.0 {
                last_collective = Some(inner.shared_state.post(number, call));
                collectives += 1;
            }
        }
        let last = (first + numbers).saturating_sub(1);
        if transfers {
            let transfers = self.calls.iter().filter_map(AdmittedCall::transfer);
            let transfers: Few<TransferCall> = transfers.copied().collect();
            inner.shared_state.post_transfers(last, &transfers);
        }
        PostedBatch { first, last, last_collective, collectives, transfers }
    }

    /// Where arguments are compared: waits until all ranks have posted the same.
    fn check_arguments(&self, posted: &PostedBatch) -> Result<(), Error> {
        let inner = &self.communicator.inner;
        let Some(last) = posted.last_collective.filter(|_| inner.settings.check) else {
            return Ok(());
        };
        let mut numbers = last + 1 - posted.collectives..=last;
        numbers.try_for_each(|number| {
            check::check_arguments(&inner.shared_state, number, &inner.failure)
        })
    }

    /// Publishes in the shared state that nothing more will be executed of it.
    fn settle(&self, posted: &PostedBatch) {
        self.communicator.inner.shared_state.settle(posted.last);
    }

    fn execute(&self, posted: &PostedBatch, recent: &mut RecentDecisions) -> Result<(), Error> {
        let done = match self.calls {
            [only] => self.execute_calls(only.stream(), posted, recent),
            _ => self.execute_in_streams(posted, recent),
        };
        self.settle(posted);
        done.map_err(|error| self.communicator.inner.note(error))
    }

    /// Executes the calls in one of their streams, as if in all of them.
    fn execute_in_streams(
        &self,
        posted: &PostedBatch,
        recent: &mut RecentDecisions,
    ) -> Result<(), Error> {
        let engine = &self.communicator.inner.engine;
        let mut streams: Few<u64> = self.calls.iter().map(AdmittedCall::stream).collect();
        streams.sort_unstable();
        streams.dedup();
        let Some(&stream) = streams.first() else { return Ok(()) };
        engine.join_streams(&streams)?;
        self.execute_calls(stream, posted, recent)?;
        engine.release_streams(&streams)
    }

    fn execute_calls(
        &self,
        stream: u64,
        posted: &PostedBatch,
        recent: &mut RecentDecisions,
    ) -> Result<(), Error> {
        for (number, call) in (posted.first..).zip(self.calls) {
            if let Admitted::Collective(call) = &call.0 {
                let buffers = Buffers { stream, ..call.buffers };
                let call = CollectiveCall { buffers, ..*call };
                self.communicator.collective(&call, number, recent)?;
            }
        }
        match posted.transfers {
            true => self.exchange(stream, posted.last),
            false => Ok(()),
        }
    }

    /// Executes the point-to-point calls, all under `number`.
    fn exchange(&self, stream: u64, number: u64) -> Result<(), Error> {
        let engine = &self.communicator.inner.engine;
        let Exchange { copies, transfers } = exchange_of(self.calls, self.communicator.rank())?;
        if copies.is_empty() && transfers.is_empty() {
            return engine.pass(stream);
        }
        for copy in copies {
            engine.copy(copy.from, copy.to, copy.bytes, stream)?;
        }
        if transfers.is_empty() {
            return Ok(());
        }
        let calls = (self.communicator.rank(), self.calls);
        observed_transfers(&self.communicator.inner.settings, calls, number, || {
            engine.transfers(&transfers, stream, number)
        })
    }
}

impl Communicator {
    /// `call`, if its arguments make sense on this rank: it can be submitted here.
    ///
    /// # Errors
    ///
    /// They do not.
    pub fn admit(&self, call: &Call) -> Result<AdmittedCall, AdmissionError> {
        call.admit(self.rank(), self.ranks())
    }

    /// Submits `calls` on this communicator alone, as [`submit`] does.
    ///
    /// # Errors
    ///
    /// As [`submit`]; or some call makes no sense, and nothing of them is executed.
    pub fn submit(&self, calls: &[Call]) -> Result<(), Error> {
        self.error().map_or(Ok(()), Err)?;
        match calls {
            [only] => self.submit_admitted(&[self.admit(only)?]),
            _ => {
                let calls = calls.iter().map(|call| self.admit(call));
                self.submit_admitted(&calls.collect::<Result<Few<_>, _>>()?)
            }
        }
    }

    /// Submits `calls`, which this communicator has admitted, on it alone, as [`submit`] does.
    ///
    /// # Errors
    ///
    /// As [`submit`].
    pub fn submit_admitted(&self, calls: &[AdmittedCall]) -> Result<(), Error> {
        submit_all(&[BorrowedBatch { communicator: self, calls }])
    }
}
