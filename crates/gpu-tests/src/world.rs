//! A communicator, all of whose ranks are threads of this process.

use std::ops::Range;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use msccl_collective::Rank;
use msccl_fabric::{self as fabric, Abort, Filter, UniqueId};
use msccl_gpu::Stream;
use msccl_runtime::{Call, Choice, Communicator, ErrorKind, EventLog, PlaceOfRank, Settings};

use crate::Trouble;
use crate::case::Case;
use crate::hosts::Hosts;
use crate::kernel_store;
use crate::machine::Machine;
use crate::memory::RankMemory;
use crate::oracle::Oracle;
use crate::trial::Trial;

/// How long a call may stand still before a hang report.
const TIMEOUT: Duration = Duration::from_secs(20);

/// How long ranks wait for one another to join.
const JOIN_TIMEOUT: Duration = Duration::from_secs(60);

/// What a rank says that gave up because another one failed.
const ANOTHER_FAILED: &str = "another rank of the test failed";

/// One rank.
pub struct RankWorker {
    /// Which.
    pub rank: Rank,
    /// Its communicator.
    pub communicator: Communicator,
    /// Where it runs.
    pub place: PlaceOfRank,
    /// Its stream, on a GPU.
    pub stream: Option<Stream>,
    /// Memory for its buffers.
    pub memory: RankMemory,
}

/// All ranks of a communicator, or those that are here.
pub struct World {
    /// The ranks here, in order.
    pub workers: Vec<RankWorker>,
    /// How many ranks there are.
    ranks: u32,
    /// What they said.
    pub event_log: Arc<EventLog>,
    /// What its algorithms give.
    pub oracle: Oracle,
}

/// The settings of every world: ranks meet on the loopback, and nobody waits for ever.
pub fn settings() -> Settings {
    let specialised = kernel_store::of_all();
    let mut settings = Settings { timeout: Some(TIMEOUT), specialised, ..Settings::default() };
    settings.fabric.interface = fabric::Choice { filter: Filter::parse("=lo"), family: None };
    // Ranks that compile come late.
    settings.fabric.join_timeout =
        if kernel_store::is_for_all() { 10 * JOIN_TIMEOUT } else { JOIN_TIMEOUT };
    settings.fabric.operation_timeout = Some(JOIN_TIMEOUT);
    settings
}

impl World {
    /// Joins `ranks` ranks, each with `settings` but for place and log.
    pub fn join(machine: &Machine, ranks: u32, settings: &Settings) -> Result<Self, Trouble> {
        Self::join_on(Hosts::ONE, machine, ranks, settings, &Arc::default())
    }

    /// As [`World::join`], as if the ranks were on `hosts`, and with an event log that may have
    /// entries.
    pub fn join_on(
        hosts: Hosts,
        machine: &Machine,
        ranks: u32,
        settings: &Settings,
        event_log: &Arc<EventLog>,
    ) -> Result<Self, Trouble> {
        let settings = Settings { log: event_log.clone(), ..settings.clone() };
        let workers = workers(hosts, machine, ranks, &settings)?;
        Ok(Self::of(workers, event_log.clone(), Oracle::new(ranks, &settings.files)))
    }

    /// As [`World::join_on`], but only the ranks `here` are of this process; others join `id`
    /// elsewhere.
    pub fn join_part(
        id: UniqueId,
        here: Range<u32>,
        hosts: Hosts,
        machine: &Machine,
        ranks: u32,
        settings: &Settings,
    ) -> Result<Self, Trouble> {
        let event_log = Arc::<EventLog>::default();
        let settings = Settings { log: event_log.clone(), ..settings.clone() };
        let workers = some_workers(id, here, hosts, machine, ranks, &settings)?;
        Ok(Self { workers, ranks, event_log, oracle: Oracle::new(ranks, &settings.files) })
    }

    /// The world of ranks that have joined, all of them.
    pub fn of(workers: Vec<RankWorker>, event_log: Arc<EventLog>, oracle: Oracle) -> Self {
        Self { ranks: workers.len() as u32, workers, event_log, oracle }
    }

    /// How many ranks there are.
    pub fn ranks(&self) -> u32 {
        self.ranks
    }

    /// Does `work` on every rank at once. If it fails on one, the others give up.
    pub fn on_all<T: Send>(
        &mut self,
        work: impl Fn(&mut RankWorker) -> Result<T, Trouble> + Sync,
    ) -> Result<Vec<T>, Trouble> {
        let all: Vec<_> = self.workers.iter().map(|worker| worker.communicator.clone()).collect();
        together(&mut self.workers, &all, work)
    }

    /// Makes one call on all ranks and compares all their memory. `algorithm` is what is known to
    /// serve it; it matters only where sums are rounded.
    pub fn run(&mut self, case: &Case, algorithm: &str) -> Result<(), Trouble> {
        let trial = self.trial(&[*case], algorithm)?;
        self.run_trial(&trial, RankWorker::submit)
    }

    /// Makes the call `case` on all ranks at once, in place on every other one.
    pub fn run_in_both_placements(&mut self, case: &Case) -> Result<(), Trouble> {
        let trial = Trial::of_both_placements(case, self.ranks(), &mut self.oracle)?;
        self.run_trial(&trial, RankWorker::submit)
    }

    /// The calls `cases` for this world.
    pub fn trial(&mut self, cases: &[Case], algorithm: &str) -> Result<Trial, Trouble> {
        Trial::new(cases, self.ranks(), algorithm, &mut self.oracle)
    }

    /// Makes the calls of `trial` on all ranks at once, each by `submit`, and compares all memory.
    pub fn run_trial(
        &mut self,
        trial: &Trial,
        submit: impl Fn(&RankWorker, &[Call]) -> Result<(), Trouble> + Sync,
    ) -> Result<(), Trouble> {
        // Where each rank has its own GPU, or none, they do not wait for one another here: a call
        // must not touch memory of a rank that has not made it yet.
        let early = share_gpus(self.workers.iter().map(|worker| &worker.place));
        if early {
            self.load(trial)?;
        }
        self.on_all(|worker| {
            if !early {
                worker.load(trial)?;
            }
            submit(worker, &worker.calls(trial))?;
            worker.wait()
        })?;
        self.check(trial)
    }

    /// Writes what `trial` needs into the memory of all ranks.
    pub fn load(&mut self, trial: &Trial) -> Result<(), Trouble> {
        self.on_all(|worker| worker.load(trial)).map(drop)
    }

    /// Compares the memory of all ranks with what `trial` must leave.
    pub fn check(&mut self, trial: &Trial) -> Result<(), Trouble> {
        self.on_all(|worker| worker.check(trial)).map(drop)
    }

    /// The ways to serve `case`, few instances first, after the one that would be taken.
    pub fn choices(&self, case: &Case) -> Vec<Choice> {
        let Some(RankWorker { communicator, .. }) = self.workers.first() else { return Vec::new() };
        communicator.choices(&case.shape())
    }

    /// Thread blocks of a rank if `choice` serves `case`; none, if it cannot.
    pub fn blocks(&self, case: &Case, choice: &Choice) -> u32 {
        let Some(RankWorker { communicator, .. }) = self.workers.first() else { return 0 };
        communicator.blocks(choice, &case.shape()).unwrap_or(0)
    }

    /// From now on every collective is served by `choice` and nothing else; without one, as usual.
    pub fn pin(&self, choice: Option<&Choice>) {
        self.workers.iter().for_each(|worker| worker.communicator.pin(choice.cloned()));
    }

    /// Whether a rank has failed, so that there is nothing more to be had from this world.
    pub fn has_failed(&self) -> bool {
        self.workers.iter().any(|worker| worker.communicator.error().is_some())
    }
}

impl Drop for World {
    /// Ranks leave together, for they may wait for one another.
    fn drop(&mut self) {
        let workers = std::mem::take(&mut self.workers);
        on_threads(workers.into_iter().map(|worker| move || drop(worker)));
    }
}

impl RankWorker {
    /// Joins the communicator of `id`, and takes what the rank needs.
    pub fn join(
        id: UniqueId,
        rank: Rank,
        ranks: u32,
        settings: &Settings,
    ) -> Result<Self, Trouble> {
        let communicator = Communicator::join(&[id], rank, ranks, settings)
            .map_err(|error| format!("{rank} could not join: {error}"))?;
        Self::of(communicator, settings.place.clone())
    }

    /// The rank of a communicator that is there already.
    pub fn of(communicator: Communicator, place: PlaceOfRank) -> Result<Self, Trouble> {
        let stream = match &place {
            PlaceOfRank::Host => None,
            PlaceOfRank::Gpu(context) => Some(Stream::new(context)?),
        };
        Ok(Self {
            rank: communicator.rank(),
            communicator,
            memory: RankMemory::new(place.clone()),
            place,
            stream,
        })
    }

    /// Its stream, as a call names it.
    pub fn stream(&self) -> u64 {
        raw(self.stream.as_ref())
    }

    /// Writes what `trial` needs into the rank's memory.
    pub fn load(&mut self, trial: &Trial) -> Result<(), Trouble> {
        self.memory.write(&trial.sheet(self.rank).bytes)
    }

    /// The rank's calls of `trial`, which is loaded, in its own stream.
    pub fn calls(&self, trial: &Trial) -> Vec<Call> {
        trial.calls(self.rank, self.memory.address(), self.stream())
    }

    /// Compares the rank's memory with what `trial` must leave.
    pub fn check(&self, trial: &Trial) -> Result<(), Trouble> {
        let found = self.memory.read(trial.sheet(self.rank).bytes.len())?;
        trial.check(self.rank, &found)
    }

    /// Submits `calls` as one group.
    pub fn submit(&self, calls: &[Call]) -> Result<(), Trouble> {
        Ok(self.communicator.submit(calls)?)
    }

    /// Waits until the stream is done, or the communicator has failed.
    pub fn wait(&self) -> Result<(), Trouble> {
        let Some(stream) = &self.stream else { return self.finish() };
        let start = Instant::now();
        while !stream.borrow().is_idle()? {
            if let Some(error) = self.communicator.error() {
                return Err(error.into());
            }
            if start.elapsed() > 3 * TIMEOUT {
                self.communicator.abort("a test has waited long enough");
            }
            thread::sleep(Duration::from_micros(20));
        }
        self.finish()
    }

    fn finish(&self) -> Result<(), Trouble> {
        Ok(self.communicator.finish()?)
    }
}

/// The ranks of `ranks` ranks, in order, each with `settings` but for its place, as if on `hosts`.
pub fn workers(
    hosts: Hosts,
    machine: &Machine,
    ranks: u32,
    settings: &Settings,
) -> Result<Vec<RankWorker>, Trouble> {
    let id = UniqueId::create(&settings.fabric)?;
    some_workers(id, 0..ranks, hosts, machine, ranks, settings)
}

/// As [`workers`], of the ranks `here`; others join `id` elsewhere.
fn some_workers(
    id: UniqueId,
    here: Range<u32>,
    hosts: Hosts,
    machine: &Machine,
    ranks: u32,
    settings: &Settings,
) -> Result<Vec<RankWorker>, Trouble> {
    first_failure(on_threads(here.map(|rank| {
        let mut settings = Settings { place: machine.place(rank), ..settings.clone() };
        // Clones of settings share it, and what one rank gives up others need not.
        settings.fabric.abort = Abort::new();
        hosts.settle(&mut settings, rank, ranks);
        move || RankWorker::join(id, Rank(rank), ranks, &settings)
    })))
}

/// Does `work` for every rank at once; `ranks` has what each needs. If it fails on one, all of
/// `communicators` are aborted, so that the others give up.
pub fn together<S: Send, T: Send>(
    ranks: &mut [S],
    communicators: &[Communicator],
    work: impl Fn(&mut S) -> Result<T, Trouble> + Sync,
) -> Result<Vec<T>, Trouble> {
    let work = &work;
    first_failure(on_threads(ranks.iter_mut().enumerate().map(|(rank, of_rank)| {
        move || {
            let result = work(of_rank);
            if result.is_err() {
                communicators.iter().for_each(|communicator| communicator.abort(ANOTHER_FAILED));
            }
            result.map_err(|error| Trouble::from(format!("{}: {error}", Rank::from(rank))))
        }
    })))
}

/// Whether two ranks have one GPU. Then nothing may be allocated or copied on it once the first
/// rank has submitted a call: the driver may let it wait for the kernel that waits for the others.
pub fn share_gpus<'a>(places: impl Iterator<Item = &'a PlaceOfRank>) -> bool {
    let gpu = |place: &PlaceOfRank| match place {
        PlaceOfRank::Host => None,
        PlaceOfRank::Gpu(context) => Some(context.device().ordinal()),
    };
    let gpus: Vec<_> = places.filter_map(gpu).collect();
    gpus.iter().any(|gpu| gpus.iter().filter(|other| *other == gpu).count() > 1)
}

/// A stream as a call names it.
pub fn raw(stream: Option<&Stream>) -> u64 {
    stream.map_or(0, |stream| stream.borrow().as_raw().addr() as u64)
}

/// Runs every job on a thread of its own; the results in the order of the jobs.
pub fn on_threads<T: Send, J: FnOnce() -> T + Send>(jobs: impl Iterator<Item = J>) -> Vec<T> {
    thread::scope(|scope| {
        let threads: Vec<_> = jobs.map(|job| scope.spawn(job)).collect();
        let join = |thread: thread::ScopedJoinHandle<'_, T>| match thread.join() {
            Ok(result) => result,
            Err(panic) => std::panic::resume_unwind(panic),
        };
        threads.into_iter().map(join).collect()
    })
}

/// All results, or what went wrong first: ranks that gave up because of others come last.
fn first_failure<T>(results: Vec<Result<T, Trouble>>) -> Result<Vec<T>, Trouble> {
    let mut good = Vec::new();
    let mut bad = Vec::new();
    for result in results {
        match result {
            Ok(value) => good.push(value),
            Err(error) => bad.push(error.to_string()),
        }
    }
    if bad.is_empty() {
        return Ok(good);
    }
    let followers = bad.iter().filter(|text| text.contains(ANOTHER_FAILED)).count();
    if followers < bad.len() {
        bad.retain(|text| !text.contains(ANOTHER_FAILED));
    }
    Err(bad.join("; ").into())
}

/// Whether `error` is one of a communicator, of that kind.
pub fn is_kind(error: &Trouble, kind: ErrorKind) -> bool {
    error.downcast_ref::<msccl_runtime::Error>().is_some_and(|error| error.kind() == kind)
}
