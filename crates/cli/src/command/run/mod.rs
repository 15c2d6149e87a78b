//! `msccl run`: compile, prove, run on host threads or GPUs, check the result, time it.

mod measure;
mod ranks;
mod report;

use msccl_bench::ProcessGroup;
use msccl_runtime::Overrides;
use msccl_runtime::oracle::Executor;

use crate::args::{Format, LaunchArgs, RunArgs, RunDevice, TargetName};
use crate::exit::Exit;
use crate::failure::{Failure, Result};
use crate::input::Input;
use crate::launch;
use crate::output::Output;
use crate::progress::Progress;
use crate::subject;
use crate::verdict::{self, Proved, Verdict};

use measure::{Machine, Plan, Row};
use ranks::{Places, Ranks};
use report::RunReport;

/// Runs the algorithm of the file at every requested size, unless it is refused.
pub fn run(args: &RunArgs, output: &mut Output) -> Result<Exit> {
    let group = match args.device {
        RunDevice::Host => None,
        RunDevice::Cuda | RunDevice::Ranks => launch::process_group(args.timeout, output)?,
    };
    let places = launch::fail_together(group.as_ref(), places(args, group.as_ref()))?;
    let verdict = launch::fail_together(group.as_ref(), prove(args, output))?;
    if args.report.format == Format::Human {
        verdict::print(&verdict, output);
    }
    let Verdict::Proved(proved) = &verdict else {
        if args.report.format == Format::Json {
            output.json(&verdict.to_json());
        }
        return Ok(verdict::exit(&verdict));
    };
    let plan = Plan::of(&proved.verified, args).map_err(Failure::new)?;
    let run = match places {
        None => on_threads(proved, plan, output),
        Some(places) => on_ranks(&places, args, group, proved, plan, output),
    }?;
    match args.report.format {
        Format::Human => report::print(proved, &run, output),
        Format::Json => output.json(&report::to_json(&verdict, &run)),
    }
    Ok(if run.is_right() { Exit::Success } else { Exit::Refused })
}

/// Where ranks of a communicator run; nothing if the executor runs them all. It is looked up first,
/// so that nobody waits for a proof where there is no GPU.
fn places(args: &RunArgs, group: Option<&ProcessGroup>) -> Result<Option<Places>> {
    let refuse = |text: &str| Err(Failure::new(text));
    if args.device == RunDevice::Host {
        return match args.gpus.as_slice() {
            [] => Ok(None),
            _ => refuse("--gpus names GPUs, which only --device cuda uses"),
        };
    }
    if args.threads.is_some() {
        return refuse("--threads is for --device host; elsewhere every rank has its own");
    }
    if !matches!(args.target, None | Some(TargetName::Native)) {
        return refuse("our own runtime runs what is proved for it: --target native, or none");
    }
    match args.device {
        RunDevice::Cuda => Places::gpus(&args.gpus, group.map(ProcessGroup::local_rank)).map(Some),
        RunDevice::Host | RunDevice::Ranks => Ok(Some(Places::Host)),
    }
}

fn prove(args: &RunArgs, output: &mut Output) -> Result<Verdict> {
    let progress = Progress::start(format!("compiling {}", args.file), output.is_quiet());
    let input = Input::read(&args.file)?;
    let mut warn = |warning| output.warn(warning);
    let (launch, target) = match args.device {
        RunDevice::Host => (args.launch.clone(), args.target),
        RunDevice::Cuda | RunDevice::Ranks => {
            (without_requests(&args.launch), Some(TargetName::Native))
        }
    };
    let loaded = subject::load(input, &launch, target, &mut warn)?;
    progress.now(format!("proving {}", args.file));
    Ok(verdict::judge(loaded))
}

/// What the compiler gets where protocol and instances are the runtime's affair.
fn without_requests(launch: &LaunchArgs) -> LaunchArgs {
    LaunchArgs { protocol: None, instances: None, ..launch.clone() }
}

/// Runs the calls on the executor.
fn on_threads(proved: &Proved, plan: Plan, output: &Output) -> Result<RunReport> {
    let progress = Progress::start("planning", output.is_quiet());
    let mut executor = Executor::new(&proved.verified)
        .map_err(|error| Failure::new(format!("{}: cannot be planned: {error}", proved.file)))?;
    let rows = measured(&mut executor, &plan, &progress);
    Ok(RunReport { plan, rows, device: RunDevice::Host, place: None })
}

/// Runs the calls on ranks of a communicator.
fn on_ranks(
    places: &Places,
    args: &RunArgs,
    group: Option<ProcessGroup>,
    proved: &Proved,
    plan: Plan,
    output: &mut Output,
) -> Result<RunReport> {
    let LaunchArgs { protocol, instances, .. } = args.launch;
    let overrides = Overrides { protocol, instances, ..Overrides::default() };
    let progress = Progress::start("joining ranks", output.is_quiet());
    let mut ranks = Ranks::join(&proved.verified, places, overrides, args.timeout, group)?;
    let rows = measured(&mut ranks, &plan, &progress);
    drop(progress);
    // If it is rank 0 that is lost, somebody else has to say so.
    output.speak_only_if(ranks.is_speaker());
    for report in ranks.hang_reports() {
        output.note(report);
    }
    Ok(RunReport { plan, rows, device: args.device, place: Some(ranks.place()) })
}

fn measured(machine: &mut dyn Machine, plan: &Plan, progress: &Progress) -> Vec<Row> {
    let row = |call: &measure::Call| {
        progress.now(format!("running {}", call.size));
        measure::measure(machine, plan, *call)
    };
    plan.calls.iter().map(row).collect()
}
