//! `msccl trace report` and `msccl trace compare`.

use msccl_trace::report::{self, Comparison, Expectations, Report};
use serde::Serialize;

use super::expectations::expectations;
use super::recordings::{CommunicatorRun, read};
use crate::args::{Format, RecordingArgs, TraceCompareArgs, TraceReportArgs};
use crate::artifact;
use crate::exit::Exit;
use crate::failure::{Failure, Result};
use crate::output::Output;

/// A report with the name of its communicator.
#[derive(Serialize)]
struct NamedReport {
    communicator: String,
    name: String,
    #[serde(flatten)]
    report: Report,
}

/// Two runs with their names.
#[derive(Serialize)]
struct NamedComparison {
    first: String,
    second: String,
    #[serde(flatten)]
    comparison: Comparison,
}

/// Says what holds calls up.
pub fn report(args: &TraceReportArgs, output: &mut Output) -> Result<Exit> {
    let mut all = Vec::new();
    for run in read(&args.recordings)? {
        let expected = expectations(&args.predict, &run.timeline, output)?;
        all.push((report::report(&run.timeline, &expected), run, expected));
    }
    // What costs most stands first.
    let cost_us = |report: &Report| report.findings.first().map_or(0.0, |found| found.cost_us);
    all.sort_by(|one, other| cost_us(&other.0).total_cmp(&cost_us(&one.0)));
    if let (Some(path), Some((report, run, expected))) = (&args.html, all.first()) {
        artifact::write_text(path, &report::html(report, &run.timeline, expected))?;
        if all.len() > 1 {
            output.note(format_args!(
                "{path} is about communicator {}; --communicator picks another",
                run.id
            ));
        }
    }
    if let Some(against) = &args.against {
        let (second, ..) = all.first().ok_or_else(|| Failure::new("there is no recording"))?;
        let first = first_report(against, args.recordings.communicator.as_ref())?;
        print_comparison(&report::compare(&first, second), args.report.format, output);
        return Ok(Exit::Success);
    }
    match args.report.format {
        Format::Human => print(&all, output),
        Format::Json => {
            let named = all.into_iter().map(|(report, run, _)| {
                let CommunicatorRun { id, name, timeline: _ } = run;
                NamedReport { communicator: id, name, report }
            });
            output.json_one_or_many(&named.collect::<Vec<_>>());
        }
    }
    Ok(Exit::Success)
}

fn print(all: &[(Report, CommunicatorRun, Expectations)], output: &mut Output) {
    for (number, (report, run, _)) in all.iter().enumerate() {
        if all.len() > 1 {
            let CommunicatorRun { id, name, timeline: _ } = run;
            let blank = if number > 0 { "\n" } else { "" };
            let name = if name.is_empty() { String::new() } else { format!(" ({name})") };
            output.line(format_args!("{blank}communicator {id}{name}"));
        }
        output.line(report::text(report).trim_end());
    }
}

/// Compares runs with the first of them.
pub fn compare(args: &TraceCompareArgs, output: &mut Output) -> Result<Exit> {
    let TraceCompareArgs { runs, communicator, report: how } = args;
    let of_run = |run: &String| first_report(run, communicator.as_ref());
    let (first, others) = match runs.as_slice() {
        [first, others @ ..] if !others.is_empty() => (first, others),
        _ => return Err(Failure::new("expected at least two runs")),
    };
    let before = of_run(first)?;
    let mut named = Vec::new();
    for run in others {
        let comparison = report::compare(&before, &of_run(run)?);
        named.push(NamedComparison { first: first.clone(), second: run.clone(), comparison });
    }
    match how.format {
        Format::Json => output.json_one_or_many(&named),
        Format::Human => {
            for (number, NamedComparison { first, second, comparison }) in named.iter().enumerate()
            {
                if others.len() > 1 {
                    let blank = if number > 0 { "\n" } else { "" };
                    output.line(format_args!("{blank}{first}, then {second}"));
                }
                output.line(report::comparison_text(comparison).trim_end());
            }
        }
    }
    Ok(Exit::Success)
}

/// The report on the communicator of a run that has most launches.
fn first_report(path: &str, communicator: Option<&String>) -> Result<Report> {
    let recordings = vec![path.to_owned()];
    let args = RecordingArgs { recordings, communicator: communicator.cloned() };
    let runs = read(&args)?;
    let run = runs.first().ok_or_else(|| Failure::new("there is no recording"))?;
    Ok(report::report(&run.timeline, &Expectations::default()))
}

fn print_comparison(comparison: &Comparison, format: Format, output: &mut Output) {
    match format {
        Format::Human => output.line(report::comparison_text(comparison).trim_end()),
        Format::Json => output.json(comparison),
    }
}
