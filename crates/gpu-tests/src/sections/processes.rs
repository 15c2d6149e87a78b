//! Ranks as processes of their own: they must give the same bits, and survive the death of one.
//!
//! The program starts itself once for every rank, with the id of the communicator on the command
//! line.

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, ChildStdout, Command, ExitCode, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use msccl_collective::{CollectiveKind, DataType, Rank};
use msccl_fabric::UniqueId;
use msccl_runtime::{ErrorKind, Links, PlaceOfRank, Settings};

use super::hosts::test_bed::{Patience, RdmaTestBed};
use super::{Bench, Section, direct, every_collective, placements};
use crate::Trouble;
use crate::args::{Args, Device};
use crate::case::Case;
use crate::machine::Machine;
use crate::memory::RankMemory;
use crate::oracle::Oracle;
use crate::tally::Tally;
use crate::trial::Trial;
use crate::world::{RankWorker, is_kind, settings};

/// The section.
pub const SECTION: Section = Section {
    name: "processes",
    about: "ranks in processes of their own: every collective, and the death of one rank",
    run,
};

/// The task of making every kind of call.
const CALLS: &str = "calls";

/// The same over links in host memory.
const HOST_LINKS: &str = "host-links";

/// The same over links that deliver directly, every call several times.
const DIRECT: &str = "direct";

/// The same in virtual memory.
const DIRECT_VIRTUAL: &str = "direct-virtual";

/// The task of outliving the last rank.
const OUTLIVE: &str = "outlive";

/// The same over RDMA, every rank on a host of its own, in the middle of calls.
const OUTLIVE_OVER_RDMA: &str = "outlive-over-rdma";

/// What a rank says when the last one may be killed.
const READY: &str = "ready";

/// How long survivors may take to notice a death.
const SOON: Duration = Duration::from_secs(30);

fn run(bench: &Bench, tally: &mut Tally) {
    tally.check(|| "every collective".to_owned(), || all_succeed(bench, CALLS));
    if bench.machine.has_gpus() {
        tally.check(|| "links in host memory".to_owned(), || all_succeed(bench, HOST_LINKS));
        tally.check(|| "direct links".to_owned(), || all_succeed(bench, DIRECT));
        let name = || "direct links in virtual memory".to_owned();
        tally.check(name, || all_succeed(bench, DIRECT_VIRTUAL));
    }
    tally.check(|| "one rank is killed".to_owned(), || outlive(bench, OUTLIVE));
}

/// The ranks of a communicator, each a process; those that are left are killed at the end.
struct RankProcesses(Vec<(Child, BufReader<ChildStdout>)>);

impl Drop for RankProcesses {
    fn drop(&mut self) {
        for (child, _) in &mut self.0 {
            // It may have ended already.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

impl RankProcesses {
    fn start(bench: &Bench, task: &str) -> Result<Self, Trouble> {
        let id = UniqueId::create(&settings().fabric)?.to_string();
        let device = if bench.machine.has_gpus() { "gpu" } else { "host" };
        let program = std::env::current_exe()?;
        let child = |rank: u32| {
            let mut command = Command::new(&program);
            command.args(["--device", device, "--ranks", &bench.ranks.to_string()]);
            command.args(["--as-rank", &rank.to_string(), "--id", &id, "--task", task]);
            command.args(bench.quick.then_some("--quick"));
            let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn()?;
            let said = child.stdout.take().ok_or("a process without output")?;
            Ok((child, BufReader::new(said)))
        };
        let mut processes = Self(Vec::new());
        for rank in 0..bench.ranks {
            let member: Result<_, Trouble> = child(rank);
            processes.0.push(member?);
        }
        Ok(processes)
    }

    /// Waits for all that are left; the first that did not succeed is the failure.
    fn finish(&mut self) -> Result<(), Trouble> {
        for (rank, (child, said)) in self.0.iter_mut().enumerate() {
            let mut text = String::new();
            said.read_to_string(&mut text)?;
            let status = child.wait()?;
            if !status.success() {
                return Err(format!("r{rank} ended with {status}: {}", text.trim()).into());
            }
        }
        Ok(())
    }
}

fn all_succeed(bench: &Bench, task: &str) -> Result<(), Trouble> {
    RankProcesses::start(bench, task)?.finish()
}

/// Kills a rank in the middle of calls over RDMA; every other rank must say soon who is lost, and
/// where.
pub(super) fn outlive_over_rdma(bench: &Bench) -> Result<(), Trouble> {
    outlive(bench, OUTLIVE_OVER_RDMA)
}

/// Kills the last rank while all others wait for it.
fn outlive(bench: &Bench, task: &str) -> Result<(), Trouble> {
    let mut processes = RankProcesses::start(bench, task)?;
    for (rank, (_, said)) in processes.0.iter_mut().enumerate() {
        let mut line = String::new();
        said.read_line(&mut line)?;
        if line.trim() != READY {
            said.read_to_string(&mut line)?;
            return Err(format!("r{rank} is not ready: {}", line.trim()).into());
        }
    }
    thread::sleep(Duration::from_millis(500));
    let Some((mut victim, _)) = processes.0.pop() else { return Err("there are no ranks".into()) };
    victim.kill()?;
    victim.wait()?;
    let killed = Instant::now();
    processes.finish()?;
    if killed.elapsed() > SOON {
        return Err(format!("it took {:.1} s", killed.elapsed().as_secs_f64()).into());
    }
    Ok(())
}

/// What this process does as one rank; it says what went wrong.
pub fn as_rank(args: &Args, rank: u32) -> ExitCode {
    let outcome = match args.task.as_deref() {
        Some(CALLS) => calls(args, rank, &settings(), RankMemory::new),
        Some(HOST_LINKS) => {
            calls(args, rank, &Settings { peer_memory: false, ..settings() }, RankMemory::new)
        }
        Some(DIRECT) => calls(args, rank, &direct::settings(), RankMemory::new),
        Some(DIRECT_VIRTUAL) => {
            calls(args, rank, &direct::settings(), RankMemory::in_virtual_memory)
        }
        Some(OUTLIVE) => survive(args, rank),
        Some(OUTLIVE_OVER_RDMA) => survive_over_rdma(args, rank),
        other => Err(format!("there is no task {other:?}").into()),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            println!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn worker(args: &Args, rank: u32, settings: &Settings) -> Result<RankWorker, Trouble> {
    let id = args.id.as_deref().unwrap_or_default().parse()?;
    let place = Machine::find(args.device)?.place(rank);
    let settings = Settings { place, ..settings.clone() };
    RankWorker::join(id, Rank(rank), args.ranks, &settings)
}

fn calls(
    args: &Args,
    rank: u32,
    settings: &Settings,
    memory: fn(PlaceOfRank) -> RankMemory,
) -> Result<(), Trouble> {
    let mut worker = worker(args, rank, settings)?;
    worker.memory = memory(worker.place.clone());
    let is_direct = settings.overrides.links == Some(Links::Direct);
    // The first call with some memory may come before peers have mapped it.
    let repeats = if is_direct { 3 } else { 1 };
    let counts: &[usize] =
        if args.quick { &[1003, 60_001] } else { &[1003, 60_001, 1, 0, 1 << 20] };
    let mut oracle = Oracle::new(args.ranks, &[]);
    for kind in every_collective(args.ranks) {
        for &in_place in placements(kind) {
            for (number, &count) in counts.iter().enumerate() {
                let data_type = [DataType::F32, DataType::Bf16, DataType::U8][number % 3];
                let case = Case { count, in_place, data_type, ..Case::of(kind) };
                let trial = Trial::new(&[case], args.ranks, "", &mut oracle)?;
                for _ in 0..repeats {
                    worker.load(&trial)?;
                    // With several ranks on one GPU, nobody may start before all have loaded.
                    barrier(&mut worker, args.device)?;
                    worker.submit(&worker.calls(&trial))?;
                    worker.wait()?;
                    worker.check(&trial)?;
                }
            }
        }
    }
    if is_direct && worker.communicator.direct_calls() == 0 {
        return Err("no call was direct".into());
    }
    Ok(())
}

/// Returns when all ranks have come here, having done nothing on a GPU that others wait for.
fn barrier(worker: &mut RankWorker, device: Device) -> Result<(), Trouble> {
    match device {
        Device::Host => Ok(()),
        Device::Gpu => worker.communicator.split(None, 0, None).map(drop).map_err(Trouble::from),
    }
}

/// Waits for the last rank, which is killed; the call must fail and say that a rank is lost.
fn survive(args: &Args, rank: u32) -> Result<(), Trouble> {
    let mut worker = worker(args, rank, &settings())?;
    let mut oracle = Oracle::new(args.ranks, &[]);
    let trial = Trial::new(&[Case::of(CollectiveKind::AllReduce)], args.ranks, "", &mut oracle)?;
    worker.load(&trial)?;
    println!("{READY}");
    if rank + 1 == args.ranks {
        thread::sleep(Duration::from_secs(3600));
    }
    let outcome = worker.submit(&worker.calls(&trial)).and_then(|()| worker.wait());
    let Err(error) = outcome else { return Err("the call succeeded without the last rank".into()) };
    let kinds = [ErrorKind::Remote, ErrorKind::Aborted];
    if kinds.iter().any(|kind| is_kind(&error, *kind)) {
        return Ok(());
    }
    Err(format!("expected the report of a lost rank, found: {error}").into())
}

/// Makes calls over RDMA until one fails because the last rank is killed, whose host the text must
/// name.
fn survive_over_rdma(args: &Args, rank: u32) -> Result<(), Trouble> {
    let test_bed =
        RdmaTestBed::of(args.ranks).map_err(|there| format!("there are {there} devices"))?;
    let (hosts, mut settings) = (test_bed.hosts(args.ranks), test_bed.settings(Patience::HASTY));
    hosts.settle(&mut settings, rank, args.ranks);
    let mut worker = worker(args, rank, &settings)?;
    let mut oracle = Oracle::new(args.ranks, &[]);
    let case = Case { count: 100_003, ..Case::of(CollectiveKind::AllReduce) };
    let trial = Trial::new(&[case], args.ranks, "", &mut oracle)?;
    worker.load(&trial)?;
    let call = || worker.submit(&worker.calls(&trial)).and_then(|()| worker.wait());
    call()?;
    worker.check(&trial)?;
    println!("{READY}");
    let error = loop {
        if let Err(error) = call() {
            break error;
        }
    };
    let (text, last) = (error.to_string(), args.ranks - 1);
    let (rank, host) = (format!("r{last}"), format!("host{last}"));
    let places = [&rank, &host, "rxe", "queue pair", "the links to r", "waits for"];
    let missing: Vec<_> = places.into_iter().filter(|place| !text.contains(place)).collect();
    match is_kind(&error, ErrorKind::Remote) && missing.is_empty() {
        true => Ok(()),
        false => Err(format!("expected the report of {missing:?} as well, found: {error}").into()),
    }
}
