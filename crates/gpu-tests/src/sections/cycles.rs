//! Nothing grows: making and ending communicators, and making calls, over and over.

use std::fs;
use std::thread;
use std::time::{Duration, Instant};

use msccl_collective::{CollectiveKind, DataType, Rank};

use super::{Bench, Section, every_collective};
use crate::Trouble;
use crate::case::Case;
use crate::machine::Machine;
use crate::tally::Tally;
use crate::world::{RankWorker, settings};

/// Communicators.
pub const CYCLES: Section = Section {
    name: "cycles",
    about: "communicators made and ended: memory, descriptors and threads stay flat",
    run: run_cycles,
};

/// Calls.
pub const CALLS: Section = Section {
    name: "calls",
    about: "very many calls: memory, descriptors and threads stay flat",
    run: run_calls,
};

/// Host memory that may come and go without meaning anything.
const HOST_SLACK_BYTES: i64 = 16 << 20;

/// The same for a GPU, where the driver allots in blocks of 2 MiB.
const GPU_SLACK_BYTES: i64 = 4 << 20;

/// How long what has ended may still show.
const SETTLED_WITHIN: Duration = Duration::from_secs(2);

/// What could leak.
#[derive(Debug)]
struct Usage {
    host_bytes: i64,
    gpu_free_bytes: i64,
    descriptors: usize,
    threads: usize,
}

impl Usage {
    fn now(machine: &Machine) -> Result<Self, Trouble> {
        let pages = fs::read_to_string("/proc/self/statm")?;
        let resident = pages.split(' ').nth(1).ok_or("/proc/self/statm has no second number")?;
        Ok(Self {
            host_bytes: resident.parse::<i64>()? * 4096,
            gpu_free_bytes: machine.free_bytes()? as i64,
            descriptors: fs::read_dir("/proc/self/fd")?.count(),
            threads: fs::read_dir("/proc/self/task")?.count(),
        })
    }

    /// Fails if more is used now than `before`.
    fn check(&self, before: &Usage) -> Result<(), Trouble> {
        let host = self.host_bytes - before.host_bytes;
        let gpu = before.gpu_free_bytes - self.gpu_free_bytes;
        let more = self.descriptors > before.descriptors || self.threads > before.threads;
        if host > HOST_SLACK_BYTES || gpu > GPU_SLACK_BYTES || more {
            return Err(format!("before: {before:?}, after: {self:?}").into());
        }
        Ok(())
    }

    fn growth(&self, before: &Usage) -> String {
        let host = (self.host_bytes - before.host_bytes) >> 10;
        let gpu = (before.gpu_free_bytes - self.gpu_free_bytes) >> 10;
        format!("grew by {host} KiB on the host, {gpu} KiB on a GPU")
    }
}

fn run_cycles(bench: &Bench, tally: &mut Tally) {
    let cycle = || -> Result<(), Trouble> {
        let mut world = bench.world(&settings())?;
        world.run(&Case::of(CollectiveKind::AllReduce), "")
    };
    flat(bench, tally, bench.number(1000, 20), bench.number(20, 5), |_| cycle());
}

fn run_calls(bench: &Bench, tally: &mut Tally) {
    let join = || bench.world(&settings());
    let Some(mut world) = tally.need(|| "a world".to_owned(), join) else { return };
    let cases: Vec<_> =
        every_collective(bench.ranks).into_iter().enumerate().map(of_kind).collect();
    let trial = tally.need(|| "a trial".to_owned(), || world.trial(&cases, ""));
    let Some(trial) = trial else { return };
    // Each piece is a hundred groups of eight calls, after which everybody waits.
    let pieces = bench.number(125, 3);
    flat(bench, tally, pieces, 1, |_| {
        world.run_trial(&trial, |worker: &RankWorker, calls| {
            (0..100).try_for_each(|_| calls.iter().try_for_each(|call| worker.submit(&[*call])))
        })
    });
}

fn of_kind((number, kind): (usize, CollectiveKind)) -> Case {
    let kind = match kind {
        CollectiveKind::Broadcast(_) => CollectiveKind::Broadcast(Rank(0)),
        kind => kind,
    };
    let count = [1, 300, 5000][number % 3];
    Case { count, data_type: DataType::F32, ..Case::of(kind) }
}

/// Does `work` `times` times after `first` times to get used to it; nothing may be left behind.
fn flat(
    bench: &Bench,
    tally: &mut Tally,
    times: usize,
    first: usize,
    mut work: impl FnMut(usize) -> Result<(), Trouble>,
) {
    for number in 0..first {
        if !tally.check(|| format!("number {number} at first"), || work(number)) {
            return;
        }
    }
    let usage = || Usage::now(&bench.machine);
    let Some(before) = tally.need(|| "usage before".to_owned(), usage) else { return };
    for number in 0..times {
        if !tally.check(|| format!("number {number} of {times}"), || work(number)) {
            return;
        }
    }
    let settled = || settled(&usage, &before);
    let Some(after) = tally.need(|| "usage after".to_owned(), settled) else { return };
    tally.remark(after.growth(&before));
    tally.check(|| format!("usage after {times} times"), || after.check(&before));
}

/// What is used when no more is than `before`, or after a while: a thread that has been joined may
/// be there for a moment.
fn settled(usage: &impl Fn() -> Result<Usage, Trouble>, before: &Usage) -> Result<Usage, Trouble> {
    let deadline = Instant::now() + SETTLED_WITHIN;
    loop {
        let after = usage()?;
        if after.check(before).is_ok() || Instant::now() > deadline {
            return Ok(after);
        }
        thread::sleep(Duration::from_millis(20));
    }
}
