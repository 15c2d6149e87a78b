//! The algorithm on the ranks of a communicator: the way that a job takes, in one process.
//!
//! Ranks are threads that meet on the loopback. Each phase of a trial (filling buffers, the call itself,
//! comparing) is done by all before the next one begins: where ranks share a GPU, nothing may be
//! allocated or copied while a kernel waits for a rank that has not come.

mod diary;
mod memory;
mod places;
mod seat;

use std::fmt;
use std::sync::{Arc, Barrier};
use std::thread;
use std::time::Duration;

use msccl_collective::{Collective, DataType, Rank};
use msccl_fabric::{Abort, Choice, Filter, UniqueId};
use msccl_registry::{Entry, Fingerprint};
use msccl_runtime::host::{Mismatch, Trial};
use msccl_runtime::{Error, ErrorKind, Settings, Wish, reference};
use msccl_verify::Verified;

use super::measure::{Effort, Machine, Run};
use crate::failure::{Failure, Result};
use diary::Diary;
use memory::Layout;
pub use places::Places;
use seat::Seat;

/// How long ranks wait for one another to come.
const JOIN_TIMEOUT: Duration = Duration::from_secs(60);

/// All ranks of a communicator, and the algorithm that they run.
pub struct Ranks {
    seats: Vec<Seat>,
    entry: Entry,
    diary: Arc<Diary>,
    /// The terms of the last trial: the first one on new terms is not timed.
    warm_for: Option<Terms>,
}

/// What buffers and plans depend on.
type Terms = (DataType, usize, bool);

/// Why a trial failed.
enum Fault {
    /// A rank could not do its part.
    Rank(Rank, Error),
    /// An output is wrong.
    Wrong(Mismatch),
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Fault::Rank(rank, error) => write!(f, "{rank}: {error}"),
            Fault::Wrong(mismatch) => mismatch.fmt(f),
        }
    }
}

impl Fault {
    /// Whether it is but a consequence of what befell another rank.
    fn is_echo(&self) -> bool {
        matches!(self, Fault::Rank(_, error) if error.kind() == ErrorKind::Remote)
    }
}

impl Ranks {
    /// Joins as many ranks as `verified` is for, in `places`. A call that does not move for `timeout`
    /// is given up.
    pub fn join(
        verified: &Verified,
        places: &Places,
        wish: Wish,
        timeout: Duration,
    ) -> Result<Self> {
        let diary = Arc::<Diary>::default();
        let ranks = verified.algorithm().collective.ranks;
        let mut settings =
            Settings { timeout: Some(timeout), wish, log: diary.clone(), ..Settings::default() };
        settings.fabric.interface = Choice { filter: Filter::parse("=lo"), family: None };
        settings.fabric.join_timeout = JOIN_TIMEOUT;
        settings.fabric.operation_timeout = Some(JOIN_TIMEOUT);
        let cannot = |error: &dyn fmt::Display| {
            Failure::new(format!("ranks cannot join {}: {error}", places.name()))
        };
        let id = UniqueId::create(&settings.fabric).map_err(|error| cannot(&error))?;
        let seats = on_threads((0..ranks).map(|rank| {
            let mut settings = Settings { place: places.of(rank), ..settings.clone() };
            // Clones of settings share it, and what one rank gives up others need not.
            settings.fabric.abort = Abort::new();
            move || Seat::join(id, Rank(rank), ranks, &settings)
        }));
        let seats = all_or_first(seats).map_err(|fault| cannot(&fault))?;
        let name = verified.algorithm().name.clone();
        let fingerprint = Fingerprint::of(verified.algorithm());
        let verified = Arc::new(verified.clone());
        let entry = Entry { name, loaded: false, verified, fingerprint };
        Ok(Self { seats, entry, diary, warm_for: None })
    }

    /// Where the ranks run, for people.
    pub fn place(&self) -> String {
        self.diary.place()
    }

    /// What was told of calls that did not get on.
    pub fn stories(&self) -> Vec<String> {
        self.diary.stories()
    }

    fn collective(&self) -> &Collective {
        &self.entry.verified.algorithm().collective
    }

    /// Makes the call once.
    fn make(&mut self, trial: &Trial) -> std::result::Result<Run, Fault> {
        let Trial { data_type, reduction, count, seed, .. } = *trial;
        let inputs = reference::inputs(self.collective(), data_type, reduction, count, seed);
        let expected = reference::expected(self.collective(), data_type, reduction, count, &inputs);
        let layouts: Vec<_> =
            self.seats.iter().map(|seat| self.layout(seat.rank(), trial)).collect();
        self.on_all(|seat| {
            let rank = seat.rank().index();
            seat.fill(layouts[rank], &inputs[rank])
        })?;
        let (together, entry) = (Barrier::new(self.seats.len()), self.entry.clone());
        let times = self.on_all(|seat| {
            together.wait();
            seat.call(&entry, trial)
        })?;
        let compared = self.on_all(|seat| seat.compare(&expected, data_type))?;
        Ok(Run {
            elapsed_us: times.into_iter().fold(0.0, f64::max),
            effort: Effort::default(),
            compared: compared.into_iter().sum(),
        })
    }
}

impl Ranks {
    /// Does `work` on every rank at once.
    fn on_all<T: Send>(
        &mut self,
        work: impl Fn(&mut Seat) -> std::result::Result<T, Fault> + Sync,
    ) -> std::result::Result<Vec<T>, Fault> {
        let work = &work;
        all_or_first(on_threads(self.seats.iter_mut().map(|seat| move || work(seat))))
    }

    /// Whether there is memory for the buffers of all ranks.
    fn fits(&self, trial: &Trial) -> std::result::Result<(), String> {
        let layouts = self.seats.iter().map(|seat| self.layout(seat.rank(), trial).bytes);
        let bytes = layouts.fold(0_usize, usize::saturating_add);
        let fits = Vec::<u8>::new().try_reserve_exact(bytes).is_ok();
        let text = || format!("buffers for {} elements exceed the memory", trial.count);
        if fits { Ok(()) } else { Err(text()) }
    }

    fn layout(&self, rank: Rank, trial: &Trial) -> Layout {
        let block_bytes = trial.count.saturating_mul(trial.data_type.size_bytes());
        Layout::of(self.collective(), rank, trial.in_place, block_bytes)
    }
}

impl Machine for Ranks {
    fn run(&mut self, trial: &Trial) -> std::result::Result<Run, String> {
        self.fits(trial)?;
        let terms = Some((trial.data_type, trial.count, trial.in_place));
        if self.warm_for != terms {
            self.make(trial).map_err(|fault| fault.to_string())?;
            self.warm_for = terms;
        }
        self.make(trial).map_err(|fault| fault.to_string())
    }
}

impl Drop for Ranks {
    /// Ranks leave together, for they may wait for one another.
    fn drop(&mut self) {
        let seats = std::mem::take(&mut self.seats);
        on_threads(seats.into_iter().map(|seat| move || drop(seat)));
    }
}

/// Runs every job on a thread of its own; the results in the order of the jobs.
fn on_threads<T: Send, J: FnOnce() -> T + Send>(jobs: impl Iterator<Item = J>) -> Vec<T> {
    thread::scope(|scope| {
        let threads: Vec<_> = jobs.map(|job| scope.spawn(job)).collect();
        let join = |thread: thread::ScopedJoinHandle<'_, T>| {
            thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        };
        threads.into_iter().map(join).collect()
    })
}

/// All results, or the first failure; those that other ranks caused come last.
fn all_or_first<T>(
    results: Vec<std::result::Result<T, Fault>>,
) -> std::result::Result<Vec<T>, Fault> {
    let (mut good, mut bad) = (Vec::new(), Vec::new());
    for result in results {
        match result {
            Ok(value) => good.push(value),
            Err(fault) => bad.push(fault),
        }
    }
    match bad.into_iter().min_by_key(Fault::is_echo) {
        Some(fault) => Err(fault),
        None => Ok(good),
    }
}
