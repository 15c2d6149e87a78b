//! Failures, planted at every kind of kernel: nothing behind a call that fails runs before its
//! owner releases it.
//!
//! Ranks wait for the last one, which never comes: its process is killed, time runs out, it aborts,
//! it calls something else, or it is on another host that is lost. Behind every call stands a
//! canary. Several communicators fail at the same time, one for each kind of kernel; few enough for
//! each to have a queue of the device for itself.

mod kinds;
mod planting;

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, ExitCode, Stdio};
use std::sync::Arc;
use std::time::Duration;

use msccl_collective::{CollectiveKind, Rank};
use msccl_fabric::UniqueId;
use msccl_gpu::Nvrtc;
use msccl_registry::{Registry, Shape};
use msccl_runtime::{OnFailure, Settings, specialised_kernels};

use super::{Bench, Section};
use crate::Trouble;
use crate::args::Args;
use crate::case::Case;
use crate::hosts::Hosts;
use crate::kernel_store;
use crate::machine::Machine;
use crate::tally::Tally;
use crate::world::{World, settings};
use kinds::{KINDS, KernelKind};
use planting::Planting;

/// The section.
pub const SECTION: Section = Section {
    name: "failure-containment",
    about: "failures planted at every kind of kernel: nothing behind the call runs before its \
        release",
    run,
};

/// How the tasks of this section's processes begin.
pub const TASK: &str = "canary-";

/// The task of the process that is killed.
const VICTIM: &str = "canary-victim";

/// The task of a process whose kernels fault.
const TRAPPED: &str = "canary-trapped";

/// What the victim says when it has joined.
const READY: &str = "ready";

/// Communicators that fail at the same time.
const TOGETHER: usize = 6;

/// What befalls the last rank.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Failure {
    /// Its process is killed.
    Killed,
    /// It does not come in time.
    Timeout,
    /// It aborts.
    Aborted,
    /// It calls something else.
    Mismatch,
    /// Its process, on another host, is killed, and the links to it end.
    LinkLost,
}

/// How calls are made.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Way {
    /// One call.
    Eager,
    /// One call in a graph.
    Graph,
    /// Two calls, of which the second may begin early.
    Early,
    /// One call that its stream comes to when the failure is known.
    Late,
}

const FAILURES: [Failure; 5] =
    [Failure::Timeout, Failure::Aborted, Failure::Mismatch, Failure::Killed, Failure::LinkLost];

const WAYS: [Way; 4] = [Way::Eager, Way::Graph, Way::Early, Way::Late];

fn run(bench: &Bench, tally: &mut Tally) {
    if !bench.machine.has_gpus() {
        return tally.skip("on the host calls return the error");
    }
    let kinds = kinds(bench, tally);
    for repeat in 0..bench.seconds.unwrap_or(1) {
        for failure in FAILURES {
            // A call that its stream has not come to waits for nobody: only a mismatch is known
            // before.
            let can_be = |way: &Way| *way != Way::Late || failure == Failure::Mismatch;
            for way in WAYS.into_iter().filter(can_be) {
                let serves =
                    |kind: &&KernelKind| failure != Failure::LinkLost || kind.crosses_nodes();
                let kinds: Vec<_> = kinds.iter().filter(serves).copied().collect();
                for some in kinds.chunks(TOGETHER) {
                    let round = FailureRound { bench, failure, way, repeat };
                    round.play(some, tally);
                }
            }
        }
    }
    tally.check(|| "a kernel faults, if it is to".to_owned(), || trapped(bench));
    let goes_on = || bench.world(&settings())?.run(&Case::of(CollectiveKind::AllReduce), "");
    tally.check(|| "a new communicator afterwards".to_owned(), goes_on);
}

/// The kinds that can be had; specialised ones are compiled.
fn kinds(bench: &Bench, tally: &mut Tally) -> Vec<KernelKind> {
    let compiler = Nvrtc::find(kernel_store::compiler());
    if let Err(why) = &compiler {
        tally.skip(format!("no specialised kernels: {why}"));
    }
    let usable = |kind: &&KernelKind| compiler.is_ok() || !kind.is_specialised();
    let kinds: Vec<_> = KINDS.iter().filter(usable).copied().collect();
    let shape = Shape { ranks: bench.ranks, per_node: bench.ranks };
    let registry = Arc::new(Registry::new(shape, &[]));
    for kind in kinds.iter().filter(|kind| kind.is_specialised()) {
        let of_rank = |rank| {
            specialised_kernels(
                &registry,
                Rank(rank),
                &[CollectiveKind::AllReduce],
                &kind.overrides(),
                None,
                false,
            )
        };
        let kernels: Vec<_> = (0..bench.ranks).flat_map(of_rank).collect();
        kernel_store::fill(&bench.machine, &kernels, tally);
    }
    kinds
}

/// One failure of several communicators.
struct FailureRound<'a> {
    bench: &'a Bench,
    failure: Failure,
    way: Way,
    repeat: u64,
}

impl FailureRound<'_> {
    fn play(&self, kinds: &[KernelKind], tally: &mut Tally) {
        let Self { failure, way, repeat, .. } = *self;
        let describe = |what: &str| format!("{failure:?}, {way:?}, {what}, round {repeat}");
        let begin = || self.begin(kinds);
        let Some((mut plantings, mut victim)) = tally.need(|| describe("begin"), begin) else {
            return;
        };
        for planting in &mut plantings {
            let name = planting.name();
            tally.need(|| describe(name), || planting.plant(failure, way));
        }
        // Kernels have begun, where they can.
        std::thread::sleep(Duration::from_millis(50));
        if failure == Failure::Aborted {
            plantings.iter().for_each(Planting::abort_last);
        }
        if let Some(victim) = &mut victim {
            tally.need(|| describe("the victim"), || victim.kill());
        }
        for planting in &mut plantings {
            let name = planting.name();
            tally.check(|| describe(name), || planting.check(failure, way));
        }
    }

    /// All communicators, and the process of their last ranks if that is to be killed.
    fn begin(&self, kinds: &[KernelKind]) -> Result<(Vec<Planting>, Option<Victim>), Trouble> {
        let Self { bench, failure, .. } = *self;
        if !matches!(failure, Failure::Killed | Failure::LinkLost) {
            let world = |kind: &KernelKind| bench.world(&self.settings(kind));
            let planted = kinds.iter().map(|kind| Planting::new(*kind, world(kind)?));
            return Ok((planted.collect::<Result<_, _>>()?, None));
        }
        let hosts = if failure == Failure::LinkLost { Hosts::pretended(2) } else { Hosts::ONE };
        let ids = kinds.iter().map(|_| UniqueId::create(&settings().fabric));
        let ids = ids.collect::<Result<Vec<_>, _>>()?;
        let mut victim = Victim::start(bench, &ids, kinds, hosts)?;
        let here = 0..bench.ranks - 1;
        let planted = kinds.iter().zip(&ids).map(|(kind, id)| {
            let settings = self.settings(kind);
            let (machine, ranks) = (&bench.machine, bench.ranks);
            let world = World::join_part(*id, here.clone(), hosts, machine, ranks, &settings)?;
            Planting::new(*kind, world)
        });
        let planted = planted.collect::<Result<_, _>>()?;
        victim.await_ready()?;
        Ok((planted, Some(victim)))
    }

    fn settings(&self, kind: &KernelKind) -> Settings {
        let limit = if self.failure == Failure::Timeout { 300 } else { 60_000 };
        let timeout = Some(Duration::from_millis(limit));
        Settings { timeout, early_start: self.way == Way::Early, ..kind.settings() }
    }
}

/// The process of the last rank of several communicators.
struct Victim(Child);

impl Victim {
    fn start(
        bench: &Bench,
        ids: &[UniqueId],
        kinds: &[KernelKind],
        hosts: Hosts,
    ) -> Result<Self, Trouble> {
        let mut command = Command::new(std::env::current_exe()?);
        let ids: Vec<_> = ids.iter().map(UniqueId::to_string).collect();
        let names: Vec<_> = kinds.iter().map(|kind| kind.name).collect();
        let task = format!("{VICTIM}/{}/{}", hosts.count, names.join("/"));
        command.args(["--ranks", &bench.ranks.to_string(), "--id", &ids.join("/")]);
        command.args(["--as-rank", &(bench.ranks - 1).to_string(), "--task", &task]);
        Ok(Self(command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn()?))
    }

    /// Until it has joined all communicators.
    fn await_ready(&mut self) -> Result<(), Trouble> {
        let said = self.0.stdout.take().ok_or("a process without output")?;
        let mut line = String::new();
        BufReader::new(said).read_line(&mut line)?;
        if line.trim() == READY { Ok(()) } else { Err(format!("the victim: {line}").into()) }
    }

    fn kill(&mut self) -> Result<(), Trouble> {
        self.0.kill()?;
        self.0.wait()?;
        Ok(())
    }
}

impl Drop for Victim {
    fn drop(&mut self) {
        // It may have been killed already.
        let _ = self.kill();
    }
}

/// What this process does as the victim, or as the one whose kernels fault.
pub fn as_rank(args: &Args, rank: u32, task: &str) -> ExitCode {
    let outcome = match task.strip_prefix(VICTIM) {
        Some(which) => be_victim(args, rank, which),
        None => be_trapped(args),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            println!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn be_victim(args: &Args, rank: u32, which: &str) -> Result<(), Trouble> {
    let mut words = which.split('/').skip(1);
    let hosts = Hosts::pretended(words.next().ok_or("no hosts")?.parse()?);
    let machine = Machine::find(args.device)?;
    let ids = args.id.as_deref().unwrap_or_default().split('/');
    let mut worlds = Vec::new();
    for (name, id) in words.zip(ids) {
        let kind = KINDS.iter().find(|kind| kind.name == name).ok_or("no such kind")?;
        let (here, settings) = (rank..rank + 1, kind.settings());
        let id = id.parse()?;
        worlds.push(World::join_part(id, here, hosts, &machine, args.ranks, &settings)?);
    }
    println!("{READY}");
    std::thread::sleep(Duration::from_secs(3600));
    Ok(())
}

/// A process of its own, as its context is lost.
fn trapped(bench: &Bench) -> Result<(), Trouble> {
    let mut command = Command::new(std::env::current_exe()?);
    command.args(["--ranks", &bench.ranks.to_string(), "--as-rank", "0", "--task", TRAPPED]);
    let output = command.stdin(Stdio::null()).output()?;
    if output.status.success() {
        return Ok(());
    }
    Err(String::from_utf8_lossy(&output.stdout).trim().to_owned().into())
}

/// Ranks wait in vain; the next call of the driver must say so.
fn be_trapped(args: &Args) -> Result<(), Trouble> {
    let machine = Machine::find(args.device)?;
    let settings = Settings {
        timeout: Some(Duration::from_millis(300)),
        on_failure: OnFailure::Trap,
        ..KINDS[0].settings()
    };
    let mut planting = Planting::new(KINDS[0], World::join(&machine, args.ranks, &settings)?)?;
    planting.plant(Failure::Timeout, Way::Eager)?;
    let outcome = planting.check_trapped();
    // What is left cannot be freed.
    std::mem::forget(planting);
    outcome
}
