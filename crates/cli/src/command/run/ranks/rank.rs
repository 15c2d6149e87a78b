//! One rank: its communicator, its buffers, its clock.

use std::thread;
use std::time::{Duration, Instant};

use msccl_collective::{CallPlacement, DataType, Rank};
use msccl_fabric::UniqueId;
use msccl_gpu::{Context, Event, Stream};
use msccl_registry::Entry;
use msccl_runtime::oracle::{self, CheckedCall};
use msccl_runtime::{
    self as runtime, Communicator, Error, NamedAlgorithmCall, PlaceOfRank, Settings, reference,
};

use super::fault::{Fault, Tried};
use super::memory::{BufferLayout, Buffers};

/// How often a rank that waits for the end of a call looks.
const POLL: Duration = Duration::from_micros(20);

/// One rank. Fields drop in order: the communicator ends before the memory that its calls use.
pub struct LocalRank {
    communicator: Communicator,
    clock: Clock,
    buffers: Buffers,
}

/// What measures how long a call takes.
enum Clock {
    /// The host's: calls return when they are done.
    Host,
    /// The GPU's: from one event in the stream to another.
    Gpu { stream: Stream, start: Event, end: Event },
}

impl LocalRank {
    /// Joins the group of `id`.
    pub fn join(id: UniqueId, rank: Rank, ranks: u32, settings: &Settings) -> Tried<Self> {
        let joined = || -> Result<Self, Error> {
            let communicator = Communicator::join(&[id], rank, ranks, settings)?;
            let clock = match &settings.place {
                PlaceOfRank::Host => Clock::Host,
                PlaceOfRank::Gpu(context) => Clock::on(context)?,
            };
            Ok(Self { communicator, clock, buffers: Buffers::new(settings.place.clone()) })
        };
        joined().map_err(|error| Fault::Rank(rank, error))
    }

    /// Which rank it is.
    pub fn rank(&self) -> Rank {
        self.communicator.rank()
    }

    /// Prepares the buffers for a call.
    pub fn fill(&mut self, layout: BufferLayout, input: &[u8]) -> Tried<()> {
        let filled = self.buffers.fill(layout, input);
        filled.map_err(|error| self.fault(error.into()))
    }

    /// Makes the call and waits for its end; how long it took, in µs.
    pub fn call(&mut self, entry: &Entry, trial: &CheckedCall) -> Tried<f64> {
        let called = self.timed(entry, trial);
        called.map_err(|error| self.fault(error))
    }

    fn timed(&mut self, entry: &Entry, trial: &CheckedCall) -> Result<f64, Error> {
        let CheckedCall { data_type, reduction, count, in_place, .. } = *trial;
        let (send, receive) = self.buffers.addresses();
        let (count, stream) = (count as u64, self.clock.stream());
        let placement = CallPlacement::from_in_place(in_place);
        let buffers = runtime::Buffers { send, receive, stream };
        let direct = NamedAlgorithmCall { placement, data_type, reduction, count, buffers };
        match &self.clock {
            Clock::Host => {
                let start = Instant::now();
                self.communicator.run(entry, &direct)?;
                Ok(start.elapsed().as_secs_f64() * 1e6)
            }
            Clock::Gpu { stream, start, end } => {
                start.record(stream.borrow())?;
                self.communicator.run(entry, &direct)?;
                end.record(stream.borrow())?;
                self.wait(stream)?;
                Ok(end.elapsed_us(start)?)
            }
        }
    }

    /// Waits until the stream is done, or the communicator has failed.
    fn wait(&self, stream: &Stream) -> Result<(), Error> {
        while !stream.borrow().is_idle()? {
            self.communicator.error().map_or(Ok(()), Err)?;
            thread::sleep(POLL);
        }
        self.communicator.finish()
    }

    /// Compares the output with what is expected of this rank; how many elements that is.
    pub fn compare(&self, expected: &[reference::Promised], data_type: DataType) -> Tried<usize> {
        let output = self.buffers.output().map_err(|error| self.fault(error.into()))?;
        let mut compared = 0;
        for part in expected.iter().filter(|part| part.rank == self.rank()) {
            oracle::compare(part, &output, data_type).map_err(Fault::Wrong)?;
            compared += part.bytes.len() / data_type.size_bytes();
        }
        Ok(compared)
    }

    fn fault(&self, error: Error) -> Fault {
        Fault::Rank(self.rank(), error)
    }
}

impl Clock {
    fn on(context: &Context) -> Result<Self, Error> {
        let (start, end) = (Event::timing(context)?, Event::timing(context)?);
        Ok(Clock::Gpu { stream: Stream::new(context)?, start, end })
    }

    /// The stream, as a call names it; ranks on the host ignore it.
    fn stream(&self) -> u64 {
        match self {
            Clock::Host => 0,
            Clock::Gpu { stream, .. } => stream.borrow().as_raw().addr() as u64,
        }
    }
}
