//! `msccl run`: compile, prove, run on host threads, check the result, time it.

mod measure;
mod report;

use msccl_runtime::host::Executor;

use crate::args::{Format, RunArgs};
use crate::exit::Exit;
use crate::failure::{Failure, Result};
use crate::input::Input;
use crate::output::Output;
use crate::progress::Progress;
use crate::subject;
use crate::verdict::{self, Proved, Verdict};

use measure::{Plan, Row};

/// Runs the algorithm of the file at every size asked for, unless it is refused.
pub fn run(args: &RunArgs, output: &mut Output) -> Result<Exit> {
    let verdict = prove(args, output)?;
    if args.report.format == Format::Human {
        verdict.print(output);
    }
    let Verdict::Proved(proved) = &verdict else {
        if args.report.format == Format::Json {
            output.json(&verdict.to_json());
        }
        return Ok(verdict.exit());
    };
    let plan = Plan::of(proved.verified.algorithm(), args).map_err(Failure::new)?;
    let rows = execute(proved, &plan, output)?;
    match args.report.format {
        Format::Human => report::print(proved, &plan, &rows, output),
        Format::Json => output.json(&report::to_json(&verdict, &plan, &rows)),
    }
    Ok(if rows.iter().all(Row::is_right) { Exit::Success } else { Exit::Refused })
}

fn prove(args: &RunArgs, output: &mut Output) -> Result<Verdict> {
    let progress = Progress::start(format!("compiling {}", args.file), output.is_quiet());
    let input = Input::read(&args.file)?;
    let mut warn = |warning| output.warn(warning);
    let loaded = subject::load(input, &args.launch, args.target, &mut warn)?;
    progress.now(format!("proving {}", args.file));
    Ok(verdict::judge(loaded))
}

fn execute(proved: &Proved, plan: &Plan, output: &Output) -> Result<Vec<Row>> {
    let progress = Progress::start("planning", output.is_quiet());
    let executor = Executor::new(&proved.verified)
        .map_err(|error| Failure::new(format!("{}: cannot be planned: {error}", proved.file)))?;
    let mut rows = Vec::with_capacity(plan.calls.len());
    for call in &plan.calls {
        progress.now(format!("running {}", call.size));
        rows.push(measure::measure(&executor, plan, *call));
    }
    Ok(rows)
}
