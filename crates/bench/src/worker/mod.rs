//! A worker: one rank of one library, on a thread of a process made for it.
//!
//! It answers requests ([`crate::protocol`]) until the other side closes the connection, and then
//! ends, whatever the library is doing. A request that fails is answered with the reason. Ranks
//! that share a GPU share a process, too: the GPU would serve several processes by turns only,
//! while kernels of one run side by side.

mod barrier;
mod buffers;
mod call;
mod check;
mod communicator;
mod compare;
mod device;
mod library;
mod measure;

use std::io::BufReader;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::thread;
use std::time::Instant;

use msccl_fabric::SharedMemory;
use msccl_gpu::ContextGuard;
use rustix::process::{Signal, set_parent_process_death_signal};

use crate::case::Case;
use crate::connection;
use crate::error::Error;
use crate::machine::Place;
use crate::piece::{Piece, Tables};
use crate::placement::Placement;
use crate::protocol::{Answer, Method, Request, from_hex, to_hex};
use crate::registration::Registration;
pub(crate) use barrier::BARRIER_BYTES;
use barrier::Barrier;
use buffers::Buffers;
use communicator::{Communicator, Library};
use device::Device;
use library::UniqueId;
use measure::Measurer;

/// Runs the workers whose connections come over `control`, each on a thread, until all have left.
///
/// # Errors
///
/// `control` is not of [`crate::run()`]'s making, or a connection is broken.
pub fn serve(control: OwnedFd) -> Result<(), Error> {
    // Nobody would end a worker that hangs in a library after its parent has died.
    set_parent_process_death_signal(Some(Signal::KILL))?;
    let mut workers = Vec::new();
    while let Some(connection) = connection::receive_descriptor(&control)? {
        workers.push(thread::spawn(|| work(connection)));
    }
    let mut done = Ok(());
    for worker in workers {
        // A panic has been printed, and the other side sees the connection end.
        done = done.and(worker.join().unwrap_or(Ok(())));
    }
    done
}

/// Answers the requests of `connection`, until it is closed.
fn work(connection: OwnedFd) -> Result<(), Error> {
    let shared = connection::receive_descriptor(&connection)?;
    let stream = UnixStream::from(connection);
    let answers = stream.try_clone()?;
    let mut lines = BufReader::new(stream);
    let tables = Tables::default();
    let mut worker = Worker { shared, opened: None, communicator: None, tables };
    while let Some(request) = connection::receive(&mut lines)? {
        let answer = worker.answer(request);
        let answer = answer.unwrap_or_else(|error| Answer::Failed { text: error.to_string() });
        connection::send(&answers, &answer)?;
    }
    Ok(())
}

/// What a worker has so far.
struct Worker {
    shared: Option<OwnedFd>,
    opened: Option<Opened>,
    communicator: Option<Communicator>,
    /// The bits that earlier calls gave.
    tables: Tables,
}

/// What is there once library and device are open.
struct Opened {
    library: Library,
    device: Device,
    rank: u32,
    ranks: u32,
    buffers: Buffers,
    /// How they are registered.
    registration: Registration,
    barrier: Barrier,
    /// Libraries look for the current device when ranks join.
    _current: Option<ContextGuard<'static>>,
}

/// What a worker is to be.
struct WorkerSpec {
    place: Place,
    rank: u32,
    ranks: u32,
    /// Of each of the two buffers.
    capacity_bytes: u64,
    registration: Registration,
}

impl Worker {
    fn answer(&mut self, request: Request) -> Result<Answer, Error> {
        match request {
            Request::Open {
                library,
                place,
                rank,
                ranks,
                capacity_bytes,
                registration,
                meeting,
            } => {
                let barrier = self.barrier(rank, ranks, meeting.as_deref())?;
                let spec = WorkerSpec { place, rank, ranks, capacity_bytes, registration };
                self.open(&library, spec, barrier)
            }
            Request::MakeId => {
                let UniqueId(bytes) = self.opened()?.library.unique_id()?;
                Ok(Answer::Id { id: to_hex(&bytes) })
            }
            Request::Join { id } => self.join(&id),
            Request::Measure { case, placement, method } => self.measure(case, placement, method),
            Request::Compare { piece, placement, method } => {
                self.compare(&piece, placement, method)
            }
            Request::Choices { case, placement } => {
                let choices = self.joined()?.choices(&case, placement)?;
                Ok(Answer::Choices { choices })
            }
            Request::Served { case, placement } => {
                Ok(Answer::Served { choice: self.joined()?.served(&case, placement) })
            }
            Request::Pin { choice } => {
                self.joined()?.pin(choice.as_deref())?;
                Ok(Answer::Pinned)
            }
            Request::Leave => {
                let communicator = self.communicator.take().ok_or_else(out_of_turn)?;
                let start = Instant::now();
                communicator.destroy()?;
                Ok(Answer::Left { destroy_us: microseconds(start) })
            }
        }
    }

    fn barrier(&mut self, rank: u32, ranks: u32, meeting: Option<&str>) -> Result<Barrier, Error> {
        let shared = self.shared.take().ok_or_else(out_of_turn)?;
        let Some(meeting) = meeting else {
            return Ok(Barrier::new(SharedMemory::open(shared, BARRIER_BYTES)?, ranks));
        };
        Barrier::meet(meeting.parse()?, rank, ranks)
    }

    fn open(
        &mut self,
        library: &Path,
        spec: WorkerSpec,
        barrier: Barrier,
    ) -> Result<Answer, Error> {
        let WorkerSpec { place, rank, ranks, capacity_bytes, registration } = spec;
        let (device, current) = Device::open(place)?;
        let library = Library::open(library)?;
        let version = library.version()?;
        let capacity = usize::try_from(capacity_bytes).unwrap_or(usize::MAX);
        let buffers = Buffers::new(capacity, |bytes| match registration {
            Registration::None => device.allocate(bytes),
            Registration::Local | Registration::Symmetric => library.allocate(device, bytes),
        });
        let buffers =
            buffers.map_err(|error| error.while_doing(format_args!("two buffers on {place}")))?;
        self.opened = Some(Opened {
            library,
            device,
            rank,
            ranks,
            buffers,
            registration,
            barrier,
            _current: current,
        });
        Ok(Answer::Opened { version, reports_what_serves: library.reports_what_serves() })
    }

    fn join(&mut self, id: &str) -> Result<Answer, Error> {
        let id = from_hex(id).map(UniqueId).ok_or_else(|| Error::new("the unique id is cut"))?;
        let Opened { library, device, rank, ranks, registration, ref buffers, .. } =
            *self.opened()?;
        let start = Instant::now();
        let mut communicator = library.join(id, rank, ranks, device)?;
        let init_us = microseconds(start);
        communicator.register(registration, &buffers.all())?;
        self.communicator = Some(communicator);
        Ok(Answer::Joined { init_us })
    }

    fn measure(
        &mut self,
        case: Case,
        placement: Placement,
        method: Method,
    ) -> Result<Answer, Error> {
        let measure = |measurer: Measurer<'_>, _: &mut Tables| measurer.measure();
        self.with_measurer(case, placement, method, measure).map(Answer::Measured)
    }

    fn compare(
        &mut self,
        piece: &Piece,
        placement: Placement,
        method: Method,
    ) -> Result<Answer, Error> {
        let compare =
            |measurer: Measurer<'_>, tables: &mut Tables| measurer.compare_bits(piece, tables);
        self.with_measurer(piece.case, placement, method, compare).map(Answer::Compared)
    }

    /// Does `work` with what it takes to make such calls.
    fn with_measurer<T>(
        &mut self,
        case: Case,
        placement: Placement,
        method: Method,
        work: impl FnOnce(Measurer<'_>, &mut Tables) -> Result<T, Error>,
    ) -> Result<T, Error> {
        let communicator = self.communicator.as_ref().ok_or_else(out_of_turn)?;
        let Opened { device, buffers, barrier, .. } =
            self.opened.as_mut().ok_or_else(out_of_turn)?;
        let (device, redop) = (*device, communicator.redop(case.redop, case.element)?);
        let measurer =
            Measurer { communicator, device, buffers, barrier, case, placement, method, redop };
        let done = work(measurer, &mut self.tables);
        // Whatever came of it: the communicator may be used again.
        let released = communicator.release(redop);
        done.and_then(|done| released.map(|()| done))
    }

    fn joined(&self) -> Result<&Communicator, Error> {
        self.communicator.as_ref().ok_or_else(out_of_turn)
    }

    fn opened(&self) -> Result<&Opened, Error> {
        self.opened.as_ref().ok_or_else(out_of_turn)
    }
}

fn out_of_turn() -> Error {
    Error::new("a worker got a request before those that must come first")
}

/// The time since `start` in µs.
fn microseconds(start: Instant) -> f64 {
    start.elapsed().as_secs_f64() * 1e6
}
