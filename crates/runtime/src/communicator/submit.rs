//! Submitting calls: alone, or many that may wait for one another.

use std::num::NonZeroU32;
use std::sync::{Arc, MutexGuard, PoisonError};
use std::thread;

use msccl_collective::Reduction;
use smallvec::SmallVec;

use super::Communicator;
use super::point_to_point::{self, Exchange, exchange_of};
use crate::call::CallShape;
use crate::call::{Blocks, Call, Combine, NamedAlgorithmCall, Scalar};
use crate::engine::{ScaleBy, Scaling};
use crate::error::{Error, ErrorKind};
use crate::event::Event;
use crate::recent::Recent;
use crate::select::{Decision, PlacementFallback};
use crate::settings::PlaceOfRank;
use crate::shared_state::check;
use crate::walk::reciprocal;

/// Calls on one communicator.
#[derive(Clone, Debug)]
pub struct Batch {
    /// The communicator; no other batch of the same submission has it.
    pub communicator: Communicator,
    /// Its calls, in order.
    pub calls: Vec<Call>,
}

/// The shapes of the last calls of a communicator, and what serves them: calls often come with the
/// same few shapes, and then nothing is looked up.
pub type RecentDecisions = Recent<(CallShape, Arc<Decision>), 4>;

/// Most submissions have few of anything; those allocate nothing.
type Few<T> = SmallVec<[T; 4]>;

/// Submits calls on any number of communicators at once; this is what a group of the NCCL C API is.
/// Collectives of a communicator go in their order; its point-to-point calls go together, after
/// them.
///
/// # Errors
///
/// The first call that cannot be served, or the failure of a communicator. Nothing of any batch is
/// executed if some call's arguments are wrong.
pub fn submit(batches: &[Batch]) -> Result<(), Error> {
    let lent =
        batches.iter().map(|Batch { communicator, calls }| BorrowedBatch { communicator, calls });
    submit_all(&lent.collect::<Few<_>>())
}

/// A batch whose calls are somebody else's.
#[derive(Clone, Copy)]
struct BorrowedBatch<'a> {
    communicator: &'a Communicator,
    calls: &'a [Call],
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
    /// Whether all calls make sense, and the communicator takes calls.
    fn admit(&self) -> Result<(), Error> {
        let Self { communicator, calls } = self;
        communicator.error().map_or(Ok(()), Err)?;
        calls.iter().try_for_each(|call| communicator.admit(call))?;
        point_to_point::admit(calls, communicator.rank())
    }

    /// Keeps other submissions off the communicator.
    fn lock_submission(&self) -> MutexGuard<'a, RecentDecisions> {
        self.communicator.inner.submission.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Does everything with this batch, which is alone.
    fn submit(&self) -> Result<(), Error> {
        let mut submission = self.lock_submission();
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
        let is_transfer = |call: &&Call| call.operation.wanted().is_none();
        let transfers = self.calls.iter().any(|call| is_transfer(&call));
        let numbers = self.calls.len() as u64 + u64::from(transfers);
        let first = inner.take_numbers(numbers);
        let (mut last_collective, mut collectives) = (None, 0);
        for (number, call) in (first..).zip(self.calls) {
            if call.operation.wanted().is_some() {
                let in_place = self.communicator.is_in_place(call);
                last_collective = inner.shared_state.post(number, call, in_place);
                collectives += 1;
            }
        }
        let last = (first + numbers).saturating_sub(1);
        if transfers {
            let transfers: Few<Call> = self.calls.iter().filter(is_transfer).copied().collect();
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
            [only] => self.execute_calls(only.stream, posted, recent),
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
        let mut streams: Few<u64> = self.calls.iter().map(|call| call.stream).collect();
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
            if call.operation.wanted().is_some() {
                self.communicator.collective(&Call { stream, ..*call }, number, recent)?;
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
        match transfers.is_empty() {
            true => Ok(()),
            false => engine.transfers(&transfers, stream, number),
        }
    }
}

impl Communicator {
    /// Submits `calls` on this communicator alone, as [`submit`] does.
    ///
    /// # Errors
    ///
    /// As [`submit`].
    pub fn submit(&self, calls: &[Call]) -> Result<(), Error> {
        submit_all(&[BorrowedBatch { communicator: self, calls }])
    }

    fn is_in_place(&self, call: &Call) -> bool {
        call.is_in_place(self.rank())
    }

    /// Whether the arguments of `call` make sense.
    fn admit(&self, call: &Call) -> Result<(), Error> {
        let ranks = self.ranks();
        if let Some(rank) = call.operation.peer().filter(|rank| rank.0 >= ranks) {
            let text = format!("{call}: there is no rank {rank} among {ranks}");
            return Err(Error::invalid_argument(text));
        }
        let bytes = call.block_bytes()?.checked_mul(u64::from(ranks));
        if bytes.is_none_or(|bytes| bytes > i64::MAX as u64) {
            return Err(Error::invalid_argument(format!("{call}: the buffers exceed memory")));
        }
        let Blocks { input, output } = call.blocks(self.rank(), ranks);
        let missing = |blocks: u64, address: u64| blocks != 0 && call.count != 0 && address == 0;
        if missing(input, call.send) || missing(output, call.receive) {
            return Err(Error::invalid_argument(format!("{call}: a buffer is NULL")));
        }
        Ok(())
    }

    /// Executes a collective.
    fn collective(
        &self,
        call: &Call,
        number: u64,
        recent: &mut RecentDecisions,
    ) -> Result<(), Error> {
        if call.count == 0 {
            return self.inner.engine.pass(call.stream);
        }
        let call = self.scaled(call)?;
        if self.ranks() == 1 {
            return self.alone(&call);
        }
        let Some(wanted) = call.operation.wanted() else { return Ok(()) };
        let Call { operation, data_type, count, send, receive, stream } = call;
        let (in_place, reduction) = (self.is_in_place(&call), operation.combine());
        let reduction = reduction.map(Combine::reduction);
        let request = CallShape { wanted, in_place, data_type, reduction, count };
        let decision = self.decide(&call, &request, recent)?;
        if reduction == Some(Reduction::Avg) && !decision.averages {
            return self.average_apart(&call, number);
        }
        let reduction = reduction.unwrap_or(Reduction::Sum);
        let named =
            NamedAlgorithmCall { in_place, data_type, reduction, count, send, receive, stream };
        match decision.detour {
            PlacementFallback::None => self.execute(decision, &named, number),
            PlacementFallback::InPlace => self.run_in_place(&call, decision, &named, number),
            PlacementFallback::OutOfPlace => self.run_out_of_place(&call, decision, &named, number),
        }
    }

    /// What serves `call`, which is a `request`: as the last time, if one of the last calls was of the
    /// same shape.
    fn decide<'a>(
        &self,
        call: &Call,
        request: &CallShape,
        recent: &'a mut RecentDecisions,
    ) -> Result<&'a Decision, Error> {
        let choose = || {
            let (decision, is_new) = self.inner.selector.choose(request)?;
            if is_new {
                self.tell(call, request, &decision);
            }
            Ok::<_, Error>((*request, decision))
        };
        let (_, decision) = recent.find_or_make(|(of, _)| of == request, choose)?;
        Ok(decision)
    }

    /// Executes `call`, which is out of place, by an algorithm that runs in place.
    fn run_in_place(
        &self,
        call: &Call,
        decision: &Decision,
        named: &NamedAlgorithmCall,
        number: u64,
    ) -> Result<(), Error> {
        let NamedAlgorithmCall { send, receive, stream, .. } = *named;
        let (block, engine) = (call.block_bytes()?, &self.inner.engine);
        let own = block * u64::from(self.rank().0);
        let Blocks { input, output } = call.blocks(self.rank(), self.ranks());
        if input <= output {
            // Only an all-gather reads less than it writes: the own block.
            let to = if input < output { receive + own } else { receive };
            engine.copy(send, to, block * input, stream)?;
            return self.execute(
                decision,
                &NamedAlgorithmCall { send: to, in_place: true, ..*named },
                number,
            );
        }
        // The caller's input stays as it is. What was scaled lies in a copy already.
        let to = engine.scratch(block * input)?;
        if send != to {
            engine.copy(send, to, block * input, stream)?;
        }
        let aside = NamedAlgorithmCall { send: to, receive: to + own, in_place: true, ..*named };
        self.execute(decision, &aside, number)?;
        engine.copy(to + own, receive, block * output, stream)
    }

    /// Executes `call`, which is in place, by an algorithm that runs out of place.
    fn run_out_of_place(
        &self,
        call: &Call,
        decision: &Decision,
        named: &NamedAlgorithmCall,
        number: u64,
    ) -> Result<(), Error> {
        let engine = &self.inner.engine;
        let bytes = call.block_bytes()? * call.blocks(self.rank(), self.ranks()).input;
        let to = engine.scratch(bytes)?;
        engine.copy(named.send, to, bytes, named.stream)?;
        self.execute(decision, &NamedAlgorithmCall { send: to, in_place: false, ..*named }, number)
    }

    /// An average by an algorithm that does not say at which steps it could be formed: inputs are
    /// scaled before it, or outputs divided after it.
    fn average_apart(&self, call: &Call, number: u64) -> Result<(), Error> {
        let Some(ranks) = NonZeroU32::new(self.ranks()) else { return Ok(()) };
        let (data_type, mut apart) = (call.data_type, RecentDecisions::default());
        let combined = |combine| Call { operation: call.operation.combined(combine), ..*call };
        if data_type.is_float() {
            let scalar = Scalar::Immediate(u64::from_le_bytes(reciprocal(data_type, ranks)));
            return self.collective(&combined(Combine::Scaled(scalar)), number, &mut apart);
        }
        self.collective(&combined(Combine::Plain(Reduction::Sum)), number, &mut apart)?;
        let elements = call.count * call.blocks(self.rank(), self.ranks()).output;
        if elements == 0 {
            return Ok(());
        }
        let (from, to, by) = (call.receive, call.receive, ScaleBy::Divisor(ranks));
        self.inner.engine.scale(&Scaling { from, to, elements, data_type, by }, call.stream)
    }

    /// Says what serves a shape of call, once for every way of serving it.
    fn tell(&self, call: &Call, request: &CallShape, decision: &Decision) {
        let inner = &self.inner;
        let place = if request.in_place { "in place" } else { "out of place" };
        let call = format!("{call} {place} ({} bytes)", request.bytes(self.ranks()));
        for reason in &decision.passed_over {
            inner.log(&Event::PassedOver { call: call.clone(), reason: reason.clone() });
        }
        inner.log(&Event::Serves { call, by: decision.describe() });
    }

    /// The call with its inputs scaled, if it asks for that: it then reads what was set aside.
    fn scaled(&self, call: &Call) -> Result<Call, Error> {
        let Some(Combine::Scaled(scalar)) = call.operation.combine() else { return Ok(*call) };
        let blocks = call.blocks(self.rank(), self.ranks()).input;
        let elements = call.count * blocks;
        let engine = &self.inner.engine;
        let to = engine.scratch(elements * call.data_type.size_bytes() as u64)?;
        let (from, data_type, by) = (call.send, call.data_type, ScaleBy::Scalar(scalar));
        engine.scale(&Scaling { from, to, elements, data_type, by }, call.stream)?;
        Ok(Call { send: to, ..*call })
    }

    /// A collective of one rank: what it contributes is the result.
    fn alone(&self, call: &Call) -> Result<(), Error> {
        if call.send == call.receive {
            return self.inner.engine.pass(call.stream);
        }
        self.inner.engine.copy(call.send, call.receive, call.block_bytes()?, call.stream)
    }
}
