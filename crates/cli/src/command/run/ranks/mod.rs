//! The algorithm on the ranks of a communicator, as in a job.
//!
//! Ranks are threads that meet on the loopback, or, where a launcher started a process for each,
//! the processes of a [`ProcessGroup`], all of which make the same trials and receive one another's
//! faults. Each phase of a trial (filling buffers, the call itself, comparing) is done by all
//! before the next one begins: where ranks share a GPU, nothing may be allocated or copied while a
//! kernel waits for a rank that has not come.
//!
//! The time of a call is that of the rank that took longest, from when all begin to make it. It
//! holds what the host needs to launch it, and the first call on new terms, which binds the plan,
//! is not timed.

mod fault;
mod memory;
mod places;
mod rank;

use std::sync::{Arc, Barrier};
use std::thread;
use std::time::Duration;

use msccl_bench::ProcessGroup;
use msccl_collective::{Collective, DataType, Rank};
use msccl_environment::Reader;
use msccl_fabric::{Abort, Choice, Filter, UniqueId};
use msccl_registry::Entry;
use msccl_runtime::oracle::CheckedCall;
use msccl_runtime::{Event, EventLog, Overrides, Settings, reference};
use msccl_verify::Verified;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::measure::{Effort, Machine, Run};
use crate::failure::{Failure, Result};
use fault::{Tried, all_or_first};
use memory::BufferLayout;
pub use places::Places;
use rank::LocalRank;

/// How long ranks wait for one another to come.
const JOIN_TIMEOUT: Duration = Duration::from_secs(60);

/// All ranks of a communicator, and the algorithm that they run.
pub struct Ranks {
    local_ranks: Vec<LocalRank>,
    entry: Entry,
    diary: Arc<EventLog>,
    group: Option<ProcessGroup>,
    /// The terms of the last trial: the first one on new terms is not timed.
    warm_for: Option<Terms>,
}

/// What buffers and plans depend on.
type Terms = (DataType, usize, bool);

impl Ranks {
    /// Joins as many ranks as `verified` is for, in `places`, or, of a `group`, the one of this
    /// process. A call that does not move for `timeout` is given up.
    pub fn join(
        verified: &Verified,
        places: &Places,
        overrides: Overrides,
        timeout: Duration,
        group: Option<ProcessGroup>,
    ) -> Result<Self> {
        let diary = Arc::<EventLog>::default();
        let settings = settings(overrides, timeout, diary.clone(), group.is_some());
        let cannot = |error: &dyn std::fmt::Display| {
            Failure::new(format!("ranks cannot join {}: {error}", places.name()))
        };
        let ranks = verified.algorithm().collective.ranks;
        let (id, mine) = match &group {
            None => (UniqueId::create(&settings.fabric).map_err(|error| cannot(&error))?, 0..ranks),
            Some(group) => {
                suits(group, ranks)?;
                let id = group.meeting().map_err(|error| cannot(&error))?;
                (id, group.rank()..group.rank() + 1)
            }
        };
        let local_ranks = on_threads(mine.map(|rank| {
            let mut settings = Settings { place: places.of(rank), ..settings.clone() };
            // Clones of settings share it, and what one rank gives up others need not.
            settings.fabric.abort = Abort::new();
            move || LocalRank::join(id, Rank(rank), ranks, &settings)
        }));
        let (local_ranks, joined) = match all_or_first(local_ranks) {
            Ok(local_ranks) => (local_ranks, Ok(vec![()])),
            Err(fault) => (Vec::new(), Err(fault)),
        };
        of_all(group.as_ref(), joined).map_err(|fault| cannot(&fault))?;
        let entry = Entry::new(verified.algorithm().name.clone(), false, verified.clone());
        Ok(Self { local_ranks, entry, diary, group, warm_for: None })
    }

    /// Where the first rank runs, for people.
    pub fn place(&self) -> String {
        let places = self.diary.collect(|event| match event {
            Event::Ready { rank: Rank(0), place, .. } => Some(place.clone()),
            _ => None,
        });
        places.into_iter().next().unwrap_or_default()
    }

    /// Whether this process speaks for all of its launch, if there is one.
    pub fn is_speaker(&self) -> bool {
        self.group.as_ref().is_none_or(ProcessGroup::is_speaker)
    }

    /// The hang reports of calls that did not get on.
    pub fn hang_reports(&self) -> Vec<String> {
        self.diary.reports()
    }

    /// Makes the call once.
    fn make(&mut self, trial: &CheckedCall) -> std::result::Result<Run, String> {
        let CheckedCall { data_type, reduction, count, seed, .. } = *trial;
        let inputs = reference::inputs(self.collective(), data_type, reduction, count, seed);
        let expected = reference::expected(self.collective(), data_type, reduction, count, &inputs);
        let layouts: Vec<_> =
            (0..self.collective().ranks).map(|rank| self.layout(Rank(rank), trial)).collect();
        self.on_all(|local| {
            let rank = local.rank().index();
            local.fill(layouts[rank], &inputs[rank])
        })?;
        let (together, entry) = (Barrier::new(self.local_ranks.len()), self.entry.clone());
        let times = self.on_all(|local| {
            together.wait();
            local.call(&entry, trial)
        })?;
        let compared = self.on_all(|local| local.compare(&expected, data_type))?;
        Ok(Run {
            elapsed_us: times.into_iter().fold(0.0, f64::max),
            effort: Effort::default(),
            compared: compared.into_iter().sum(),
        })
    }

    /// Does `work` on every rank at once; the first fault in words, or what all gave, by rank.
    fn on_all<T: Send + Serialize + DeserializeOwned>(
        &mut self,
        work: impl Fn(&mut LocalRank) -> Tried<T> + Sync,
    ) -> std::result::Result<Vec<T>, String> {
        let work = &work;
        let mine =
            all_or_first(on_threads(self.local_ranks.iter_mut().map(|local| move || work(local))));
        of_all(self.group.as_ref(), mine)
    }

    /// Whether something holds on all ranks, where `holds` is whether it does in this process; or
    /// why ranks cannot exchange that.
    fn on_every(&self, holds: bool) -> std::result::Result<bool, String> {
        let Some(group) = &self.group else { return Ok(holds) };
        let all = group.exchange(&holds).map_err(|error| error.to_string())?;
        Ok(all.into_iter().all(|holds| holds))
    }

    /// Whether there is memory for the buffers of all ranks.
    fn fits(&self, trial: &CheckedCall) -> bool {
        let layouts = self.local_ranks.iter().map(|local| self.layout(local.rank(), trial).bytes);
        let bytes = layouts.fold(0_usize, usize::saturating_add);
        Vec::<u8>::new().try_reserve_exact(bytes).is_ok()
    }

    fn layout(&self, rank: Rank, trial: &CheckedCall) -> BufferLayout {
        let block_bytes = trial.count.saturating_mul(trial.data_type.size_bytes());
        BufferLayout::of(self.collective(), rank, trial.in_place, block_bytes)
    }

    fn collective(&self) -> &Collective {
        &self.entry.verified.algorithm().collective
    }
}

/// Whether as many ranks were launched as the algorithm is for.
fn suits(group: &ProcessGroup, ranks: u32) -> Result<()> {
    match group.ranks() {
        launched if launched == ranks => Ok(()),
        launched => Err(Failure::new(format!(
            "{launched} ranks were launched, and the algorithm is for {ranks}; give --ranks \
             {launched} if it can be, or launch {ranks}"
        ))),
    }
}

/// What all processes gave, by rank, where `mine` is what this one gave; or the first fault, in
/// words, the same on all.
fn of_all<T: Serialize + DeserializeOwned>(
    group: Option<&ProcessGroup>,
    mine: Tried<Vec<T>>,
) -> std::result::Result<Vec<T>, String> {
    let Some(group) = group else { return mine.map_err(|fault| fault.to_string()) };
    let said = match mine {
        Ok(done) => Said { done, fault: None },
        Err(fault) => Said { done: Vec::new(), fault: Some((fault.is_echo(), fault.to_string())) },
    };
    let (mut all, mut faults) = (Vec::new(), Vec::new());
    let failed = said.fault.is_some();
    let all_said = group.exchange_outcomes(&said, failed).map_err(|error| match said.fault {
        Some((_, fault)) => format!("{fault}; {error}"),
        None => error.to_string(),
    });
    for Said { done, fault } in all_said? {
        all.extend(done);
        faults.extend(fault);
    }
    match faults.into_iter().min_by_key(|(is_echo, _)| *is_echo) {
        Some((_, fault)) => Err(fault),
        None => Ok(all),
    }
}

/// What one process sends the others: what it has done, or its fault and whether that is an echo.
#[derive(Serialize, Deserialize)]
struct Said<T> {
    done: Vec<T>,
    fault: Option<(bool, String)>,
}

/// Settings of ranks that meet on the loopback, unless they were launched; nobody waits for ever.
fn settings(
    overrides: Overrides,
    timeout: Duration,
    diary: Arc<EventLog>,
    launched: bool,
) -> Settings {
    let mut settings =
        Settings { timeout: Some(timeout), overrides, log: diary, ..Settings::default() };
    settings.fabric.interface = if launched {
        msccl_environment::interface(&mut Reader::new(&msccl_environment::lookup))
    } else {
        Choice { filter: Filter::parse("=lo"), family: None }
    };
    settings.fabric.join_timeout = JOIN_TIMEOUT;
    settings.fabric.operation_timeout = Some(JOIN_TIMEOUT);
    settings
}

impl Machine for Ranks {
    fn run(&mut self, trial: &CheckedCall) -> std::result::Result<Run, String> {
        if !self.on_every(self.fits(trial))? {
            return Err(format!("buffers for {} elements exceed the memory", trial.count));
        }
        let terms = Some((trial.data_type, trial.count, trial.in_place));
        if self.warm_for != terms {
            self.make(trial)?;
            self.warm_for = terms;
        }
        self.make(trial)
    }

    /// Clocks differ: rank 0's counts.
    fn ends(&mut self, time_is_up: bool) -> bool {
        let group = self.group.as_ref();
        group.map_or(time_is_up, |group| group.follow(&time_is_up).unwrap_or(true))
    }
}

impl Drop for Ranks {
    /// Ranks leave together, for they may wait for one another.
    fn drop(&mut self) {
        let local_ranks = std::mem::take(&mut self.local_ranks);
        on_threads(local_ranks.into_iter().map(|local| move || drop(local)));
    }
}

/// Runs every task on a thread of its own; the results in the order of the tasks.
fn on_threads<T: Send, F: FnOnce() -> T + Send>(tasks: impl Iterator<Item = F>) -> Vec<T> {
    thread::scope(|scope| {
        let threads: Vec<_> = tasks.map(|task| scope.spawn(task)).collect();
        let join = |thread: thread::ScopedJoinHandle<'_, T>| {
            thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        };
        threads.into_iter().map(join).collect()
    })
}
