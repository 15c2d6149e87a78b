//! From arguments to what is measured.

use msccl_bench::{
    Case, Factor, Machine, Method, Placement, Plan, ProcessGroup, Rounding, Sizes, Step, Sweep,
    Waiting, Workload, tune,
};
use msccl_collective::Placement as Serves;
use msccl_environment::{DevicePreference, Preferences, Reader};

use crate::args::{DeviceName, PlacementName, TuneArgs};
use crate::clock::today;
use crate::command::bench::plan as bench;
use crate::failure::{Failure, Result};
use crate::output::Output;
use crate::size::ByteSize;

/// What `args` request, the same on all ranks of `group`.
pub fn plan(
    args: &TuneArgs,
    collective: Workload,
    group: Option<&ProcessGroup>,
    output: &mut Output,
) -> Result<tune::TunePlan> {
    expect_algorithms(collective)?;
    let device = args.device.unwrap_or_else(|| device(output));
    let machine = match group {
        Some(group) => bench::launched_machine(device, args.gpus, group)?,
        None => bench::machine(device, args.gpus)?,
    };
    if let Machine::Host { reason: Some(reason) } = &machine {
        output.warn(format_args!("measuring on host memory: {reason}"));
    }
    let ranks = match group {
        Some(group) => bench::launched_ranks(args.ranks, args.threads, group)?,
        None => args.ranks.or(machine.gpus()).unwrap_or(bench::USUAL_RANKS),
    };
    let nodes = group.map_or(1, ProcessGroup::nodes);
    if ranks < 2 {
        let text = "there is nothing to tune for one rank; several share a GPU with --ranks";
        return Err(Failure::new(text));
    }
    let placements = placements(args, collective, output)?;
    let on_nodes = if nodes > 1 { format!(" on {nodes} nodes") } else { String::new() };
    let words = format!("{}{on_nodes}", machine.in_words(ranks));
    let graph = !args.eager && machine.gpus().is_some();
    let run = run(args, collective, machine, ranks)?;
    Ok(tune::TunePlan {
        run,
        placements,
        time: args.time,
        graph,
        nodes,
        rule: rule(args),
        machine: words,
        date: today(),
        command: command(),
    })
}

/// Makes sure that there is something to choose from.
pub fn expect_algorithms(collective: Workload) -> Result<()> {
    if matches!(collective, Workload::SendRecv | Workload::HyperCube) {
        let text = format!(
            "expected a collective with algorithms, found {collective}: it is sends and receives"
        );
        return Err(Failure::new(text));
    }
    Ok(())
}

/// What is best.
pub fn rule(args: &TuneArgs) -> tune::Rule {
    tune::Rule { margin: args.margin / 100.0, blocks_max: args.blocks_at_most }
}

/// The calls to look at, each once, by size.
pub fn cases(
    args: &TuneArgs,
    collective: Workload,
    machine: &Machine,
    ranks: u32,
) -> Result<Vec<Case>> {
    if args.root >= ranks {
        let text = format!("there is no rank {}; ranks are 0 to {}", args.root, ranks - 1);
        return Err(Failure::new(text));
    }
    let max_bytes = bench::max_bytes(args.min, args.max, machine)?;
    let step = Step::Factor(Factor::whole(args.factor));
    bench::expect_growth(step, args.min, ByteSize(max_bytes))?;
    let sizes = Sizes { min_bytes: args.min.0, max_bytes, step };
    let sweep = Sweep {
        workload: collective,
        ranks,
        sizes,
        rounding: Rounding::Aligned,
        offset_bytes: None,
        elements: vec![args.element],
        redops: vec![args.op],
        roots: vec![args.root],
    };
    let mut cases = sweep.cases();
    // Small sizes may be rounded to one and the same.
    cases.dedup_by_key(|case| case.count);
    cases.retain(|case| case.count > 0);
    Ok(cases)
}

fn run(args: &TuneArgs, collective: Workload, machine: Machine, ranks: u32) -> Result<Plan> {
    let cases = cases(args, collective, &machine, ranks)?;
    let against: Vec<_> = args.against.iter().cloned().collect();
    Ok(Plan {
        libraries: bench::libraries(args.library.as_ref(), &against, &args.env)?,
        cases,
        ranks,
        machine,
        ranks_per_process: args.threads,
        method: Method {
            iterations: 1,
            aggregated: 1,
            waiting: Waiting::AtEnd,
            warmup: 1,
            checks: 1,
            graph_launches: 0,
            one_shot: false,
        },
        repeats: 1,
        orders: 1,
        cycles: Some(1),
        timeout: args.timeout,
        worker: bench::worker()?,
    })
}

/// The requested placements that can be measured. Of a collective with a root only the root knows
/// whether it is in place, so that tables do not say; and what is not compared is not tuned.
pub fn placements(
    args: &TuneArgs,
    collective: Workload,
    output: &mut Output,
) -> Result<Vec<Placement>> {
    if collective.has_root() {
        return Ok(vec![Placement::OutOfPlace]);
    }
    let requested = args.placement.map(PlacementName::placement);
    if collective.is_checked_in_place() {
        return Ok(match requested {
            Some(Serves::InPlace) => vec![Placement::InPlace],
            Some(Serves::OutOfPlace) => vec![Placement::OutOfPlace],
            Some(Serves::Both) | None => Placement::BOTH.into(),
        });
    }
    let text = format!("{collective} is not tuned in place, where results are not compared");
    match requested {
        Some(Serves::InPlace) => return Err(Failure::new(text)),
        Some(Serves::OutOfPlace) => {}
        Some(Serves::Both) | None => output.warn(text),
    }
    Ok(vec![Placement::OutOfPlace])
}

/// Where buffers lie if it is not said: where the library would put ranks.
fn device(output: &mut Output) -> DeviceName {
    let mut reader = Reader::new(&msccl_environment::lookup);
    let preferences = Preferences::read(&mut reader);
    reader.value_errors().iter().for_each(|value_error| output.warn(value_error));
    match preferences.device {
        DevicePreference::Any => DeviceName::Auto,
        DevicePreference::Host => DeviceName::Host,
        DevicePreference::Cuda => DeviceName::Cuda,
    }
}

/// This command, as one would type it again.
pub fn command() -> String {
    let words = std::env::args_os().skip(1).map(|word| word.to_string_lossy().into_owned());
    let plain = |word: &str| {
        let harmless = |c: char| c.is_ascii_alphanumeric() || "-_./=:,+".contains(c);
        !word.is_empty() && word.chars().all(harmless)
    };
    let quoted = words
        .map(|word| if plain(&word) { word } else { format!("'{}'", word.replace('\'', "'\\''")) });
    ["msccl".to_owned()].into_iter().chain(quoted).collect::<Vec<_>>().join(" ")
}
