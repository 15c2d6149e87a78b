//! One communicator that is going to fail, and a canary behind the call of every rank: a word that
//! the stream writes when it comes past the call. A door for `unsafe`.

use std::ffi::c_void;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use msccl_collective::Reduction;
use msccl_gpu::{CaptureMode, GraphExec, PinnedBuffer, Stream};
use msccl_runtime::PlaceOfRank;

use super::kinds::{KernelKind, MEMORY_BYTES, probe};
use super::{Failure, Way};
use crate::Trouble;
use crate::sections::graphs::{capture_in, launch_in, stream};
use crate::world::{RankWorker, World, raw};

/// How long a failure may take to be known, and kernels to end once they are released.
const SOON: Duration = Duration::from_secs(20);

/// What a canary holds when the stream has come past it.
const SUNG: u32 = 0x0101_0101;

/// A communicator, and what is behind its calls.
pub struct Planting {
    kind: KernelKind,
    world: World,
    /// By rank of this process.
    canaries: Vec<Canary>,
    gate: Arc<Gate>,
}

/// What goes behind the call of one rank.
struct Canary {
    word: PinnedBuffer,
    /// Kept as long as it may run.
    graph: Option<GraphExec>,
}

/// Keeps streams from what comes behind it.
#[derive(Default)]
struct Gate(AtomicBool);

impl Gate {
    /// Until it is open.
    fn pass(&self) {
        while !self.0.load(Ordering::Acquire) {
            thread::sleep(Duration::from_millis(1));
        }
    }

    /// Puts it into `stream`.
    fn enter(self: &Arc<Self>, stream: &Stream) -> Result<(), Trouble> {
        unsafe extern "C" fn pass(data: *mut c_void) {
            // SAFETY: the count that `enter` gave away.
            let gate = unsafe { Arc::from_raw(data.cast_const().cast::<Gate>()) };
            gate.pass();
        }
        let data = Arc::into_raw(self.clone()).cast_mut().cast();
        // SAFETY: it calls no driver and does not panic; it is called once, as it is never
        // captured.
        unsafe { stream.borrow().call_host(pass, data)? };
        Ok(())
    }
}

impl Planting {
    /// In `world`, of which some ranks may be processes of their own.
    pub fn new(kind: KernelKind, mut world: World) -> Result<Self, Trouble> {
        let canaries = world.on_all(|worker| {
            worker.memory.reserve(MEMORY_BYTES)?;
            let PlaceOfRank::Gpu(context) = &worker.place else { return Err("no GPU".into()) };
            Ok(Canary { word: PinnedBuffer::new(context, 4)?, graph: None })
        })?;
        Ok(Self { kind, world, canaries, gate: Arc::default() })
    }

    /// The rank that the others wait for.
    fn last(&self) -> u32 {
        self.world.ranks() - 1
    }

    /// What it is called in reports.
    pub fn name(&self) -> &'static str {
        self.kind.name
    }

    /// Makes the calls, of which none can be served, or none may end.
    pub fn plant(&mut self, failure: Failure, way: Way) -> Result<(), Trouble> {
        let (last, ranks) = (self.last(), self.world.ranks());
        for (worker, canary) in self.world.workers.iter().zip(&mut self.canaries) {
            if !calls(worker, last, failure, way) {
                continue;
            }
            if way == Way::Late {
                self.gate.enter(stream(worker)?)?;
            }
            canary.follow(worker, way, || {
                let times = if way == Way::Early { 2 } else { 1 };
                let call = self.kind.call(worker, ranks);
                (0..times).try_for_each(|_| worker.submit(&[call]))
            })?;
            if failure == Failure::Mismatch && worker.rank.0 != last {
                worker.submit(&[probe(worker, Reduction::Sum, worker.stream())])?;
            }
        }
        if failure == Failure::Mismatch {
            self.differ()?;
        }
        Ok(())
    }

    /// The last rank calls something else, in a graph that never runs.
    fn differ(&self) -> Result<(), Trouble> {
        let worker = self.world.workers.last().ok_or("there are no ranks")?;
        let PlaceOfRank::Gpu(context) = &worker.place else { return Err("no GPU".into()) };
        let stream = Stream::new(context)?;
        stream.borrow().begin_capture(CaptureMode::ThreadLocal)?;
        let submitted = worker.submit(&[probe(worker, Reduction::Max, raw(Some(&stream)))]);
        stream.borrow().end_capture()?;
        submitted
    }

    /// The last rank, of this process, aborts.
    pub fn abort_last(&self) {
        if let Some(worker) = self.world.workers.last() {
            worker.communicator.abort("planted");
        }
    }

    /// Every rank that called learns that the communicator has failed, and no canary sings until it
    /// is released.
    pub fn check(&mut self, failure: Failure, way: Way) -> Result<(), Trouble> {
        let last = self.last();
        let workers = self.world.workers.iter().zip(&self.canaries);
        let workers: Vec<_> =
            workers.filter(|(worker, _)| calls(worker, last, failure, way)).collect();
        for (worker, _) in &workers {
            until(|| Ok(worker.communicator.error().is_some()), "the failure is not known")?;
        }
        self.gate.0.store(true, Ordering::Release);
        // Whatever could end would have ended.
        thread::sleep(Duration::from_millis(250));
        for (worker, canary) in &workers {
            let rank = worker.rank;
            if canary.has_sung() {
                return Err(format!("{rank}: what is behind the call has run").into());
            }
            if stream(worker)?.borrow().is_idle()? {
                return Err(format!("{rank}: the stream is idle").into());
            }
        }
        workers.iter().for_each(|(worker, _)| worker.communicator.abort("the test releases it"));
        for (worker, canary) in &workers {
            let stream = stream(worker)?.borrow();
            until(|| Ok(stream.is_idle()?), "what was released does not end")?;
            if !canary.has_sung() {
                return Err(format!("{}: what is behind the call was lost", worker.rank).into());
            }
        }
        Ok(())
    }
}

impl Planting {
    /// The kernel faults, and the next call of the driver says so.
    pub fn check_trapped(&self) -> Result<(), Trouble> {
        let worker = self.world.workers.first().ok_or("there are no ranks")?;
        let stream = stream(worker)?.borrow();
        let faulted = || match stream.is_idle() {
            Ok(false) => Ok(false),
            Ok(true) => Err("the stream is idle, and nothing faulted".into()),
            Err(_) => Ok(true),
        };
        until(faulted, "nothing faulted")?;
        let error = worker.communicator.error();
        error.map(drop).ok_or_else(|| "the communicator has not failed".into())
    }
}

impl Drop for Planting {
    fn drop(&mut self) {
        self.gate.0.store(true, Ordering::Release);
        self.world.workers.iter().for_each(|worker| worker.communicator.abort("the test is over"));
    }
}

impl Canary {
    /// Lets `submit` put calls into the stream of `worker`, and itself behind them.
    fn follow(
        &mut self,
        worker: &RankWorker,
        way: Way,
        submit: impl FnOnce() -> Result<(), Trouble>,
    ) -> Result<(), Trouble> {
        let (stream, to) = (stream(worker)?, self.word.ptr());
        let behind = || {
            submit()?;
            // SAFETY: the word lives as long as the planting, which ends when its streams have.
            unsafe { stream.borrow().fill(to, 1, 4)? };
            Ok(())
        };
        match way {
            Way::Eager | Way::Early | Way::Late => behind(),
            Way::Graph => {
                let graph = self.graph.insert(capture_in(stream, behind)?);
                launch_in(stream, graph)
            }
        }
    }

    fn has_sung(&self) -> bool {
        self.word.words32().first().is_some_and(|word| word.load(Ordering::Acquire) == SUNG)
    }
}

/// Whether `worker` makes the planted call: all ranks but the last do, and that one where the call
/// could be served.
fn calls(worker: &RankWorker, last: u32, failure: Failure, way: Way) -> bool {
    worker.rank.0 != last || (failure, way) == (Failure::Mismatch, Way::Late)
}

/// Until `done`, or a while has passed: then `trouble` is the matter.
fn until(done: impl Fn() -> Result<bool, Trouble>, trouble: &str) -> Result<(), Trouble> {
    let start = Instant::now();
    while !done()? {
        if start.elapsed() > SOON {
            return Err(trouble.into());
        }
        thread::sleep(Duration::from_millis(1));
    }
    Ok(())
}
