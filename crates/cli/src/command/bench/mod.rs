//! `msccl bench`: libraries side by side, measured and checked.

mod invariant;
mod nccl_tests;
pub(super) mod plan;
mod thresholds;

use std::io::Write;
use std::os::fd::AsFd;

use msccl_bench::{
    Layout, LibraryReport, Machine, Outcome, Placement, Plan, ProcessGroup, Registration, Report,
    ReportJson, Row, RunObserver, SessionObserver, Spread, Step, Workload,
};

use crate::args::BenchArgs;
use crate::artifact;
use crate::clock;
use crate::exit::Exit;
use crate::failure::{Failure, Result};
use crate::launch;
use crate::output::Output;

/// Runs the benchmark and writes what was requested.
pub fn bench(args: &BenchArgs, output: &mut Output) -> Result<Exit> {
    let group = launch::process_group(args.timeout, output)?;
    let group = group.as_ref();
    launch::fail_together(group, expect_to_write(args, group))?;
    let (plan, pairs) = launch::fail_together(group, plan::plan(args, group))?;
    if let Machine::Host { reason: Some(reason) } = &plan.machine {
        output.warn(format_args!("measuring on host memory: {reason}"));
    }
    for note in nccl_tests::notes(args, &plan) {
        output.warn(note);
    }
    if args.invariant {
        return invariant::compare(args, &plan, group, output);
    }
    let layout = Layout::new(&plan.libraries, &plan.method, args.average, args.shows_host_time());
    let (last, rows) = (None, 0);
    let mut reporter = Reporter { args, plan: &plan, layout: &layout, group, output, last, rows };
    let report = match group {
        None => msccl_bench::run(&plan, &mut reporter),
        Some(group) => msccl_bench::run_launched(&plan, group, &mut reporter),
    };
    let thresholds = thresholds::check(args, &report, &pairs);
    reporter.end(&report, &thresholds.lines);
    if group.is_none_or(ProcessGroup::is_speaker) {
        write_files(args, &plan, &report)?;
    }
    let is_good = report.is_good() && report.is_as_requested(&plan.libraries) && thresholds.are_met;
    Ok(if is_good { Exit::Success } else { Exit::Refused })
}

/// Makes sure that the speaker can write what is requested, before anything is measured.
fn expect_to_write(args: &BenchArgs, group: Option<&ProcessGroup>) -> Result<()> {
    let writes = group.is_none_or(ProcessGroup::is_speaker);
    let mut files = [args.json_file(), args.svg.as_ref()].into_iter().flatten().filter(|_| writes);
    files.try_for_each(artifact::expect_to_write)
}

fn write_files(args: &BenchArgs, plan: &Plan, report: &Report) -> Result<()> {
    if let Some(path) = args.json_file() {
        let report = ReportJson::new(plan, report, args.average);
        let text = serde_json::to_string_pretty(&report);
        let text = text.map_err(|error| Failure::new(error.to_string()))?;
        artifact::write_text(path, &format!("{text}\n"))?;
    }
    match (&args.svg, msccl_bench::svg(report, args.average)) {
        (Some(path), Some(picture)) => artifact::write_text(path, &picture),
        (Some(path), None) => {
            let text = format!("nothing was measured that {} could show", path.display());
            Err(Failure::new(text))
        }
        (None, _) => Ok(()),
    }
}

/// Ranks of a benchmark, for the process at the other end of standard input.
pub fn worker() -> Result<Exit> {
    let connection = std::io::stdin().as_fd().try_clone_to_owned();
    let connection = connection.map_err(|error| Failure::new(error.to_string()))?;
    msccl_bench::serve(connection).map_err(|error| Failure::new(error.to_string()))?;
    Ok(Exit::Success)
}

/// Reports what happens while it happens.
struct Reporter<'a> {
    args: &'a BenchArgs,
    plan: &'a Plan,
    layout: &'a Layout,
    group: Option<&'a ProcessGroup>,
    output: &'a mut Output,
    /// The collective of the last row.
    last: Option<Workload>,
    /// How many rows there were.
    rows: usize,
}

impl SessionObserver for Reporter<'_> {
    fn line(&mut self, library: &str, rank: u32, line: &str) {
        self.output.note(format_args!("{library} r{rank}: {line}"));
    }

    fn lost(&mut self, library: &str, reason: &str) {
        // If it is rank 0 that is lost, somebody else has to say so.
        self.output.speak_only_if(self.group.is_none_or(ProcessGroup::is_speaker));
        self.output.error(format_args!("{library} is out: {reason}"));
    }
}

impl RunObserver for Reporter<'_> {
    fn begin(&mut self, libraries: &[LibraryReport]) {
        for line in heading(self.args, self.plan, self.group, libraries) {
            self.output.line(line);
        }
        for line in self.layout.head() {
            self.output.line(line);
        }
        let _ = self.output.made().flush();
    }

    fn row(&mut self, row: &Row) {
        let workload = row.case.workload;
        let all = self.plan.cases.len().max(1);
        if self.plan.cycles != Some(1) && self.rows.is_multiple_of(all) {
            self.output.line(format_args!("# cycle {}", self.rows / all + 1));
            self.last = None;
        }
        self.rows += 1;
        if self.args.collective.0.len() > 1 && self.last.replace(workload) != Some(workload) {
            self.output.line(format_args!("# {workload}"));
        }
        let time = if self.args.of_nccl_tests.timestamps() { clock::now() } else { String::new() };
        self.output.line(format_args!("{}{time}", self.layout.row(row)));
        let _ = self.output.made().flush();
        for placement in Placement::BOTH {
            for (tested, outcome) in self.plan.libraries.iter().zip(row.outcomes(placement)) {
                let trouble = match outcome {
                    Outcome::Measured(measured) => measured.first_wrong(),
                    Outcome::Refused(reason) => Some(reason.as_str()),
                    Outcome::Out => None,
                };
                if let Some(trouble) = trouble {
                    let (name, placement) = (&tested.name, placement.name());
                    let size = row.case.size_bytes();
                    self.output.error(format_args!("{name}, {size} B, {placement}: {trouble}"));
                }
            }
        }
    }
}

impl Reporter<'_> {
    fn end(&mut self, report: &Report, remarks: &[String]) {
        for line in self.layout.foot(report).iter().chain(remarks) {
            self.output.line(line);
        }
        self.output.line(format_args!("# Collective test concluded: {}", self.args.collective));
    }
}

/// How often calls are measured, if more than once.
fn repeats(plan: &Plan) -> String {
    match (plan.repeats, plan.orders) {
        (1, 1) => String::new(),
        (times, 1) => format!(" median of: {times}"),
        (times, orders) => format!(" median of: {times} in {orders} orders"),
    }
}

/// What is measured, on what, and how.
fn heading(
    args: &BenchArgs,
    plan: &Plan,
    group: Option<&ProcessGroup>,
    libraries: &[LibraryReport],
) -> Vec<String> {
    let method = &plan.method;
    let sizes = plan.cases.iter().map(|case| case.size_bytes());
    let (min, max) = (sizes.clone().min().unwrap_or(0), sizes.max().unwrap_or(0));
    let step = match args.growth() {
        Step::Add(bytes) => format!("{bytes}(bytes)"),
        Step::Factor(factor) => format!("{factor}(factor)"),
    };
    let mut lines = vec![
        format!("# Collective test starting: {}", args.collective),
        format!(
            "# nRanks {} minBytes {min} maxBytes {max} step: {step} warmup iters: {} iters: {} \
             agg iters: {} validation: {} graph: {}{}",
            plan.ranks,
            method.warmup,
            method.iterations,
            method.aggregated,
            method.checks,
            method.graph_launches,
            repeats(plan)
        ),
        "#".to_owned(),
    ];
    lines.extend(libraries.iter().map(library_line));
    lines.push("#".to_owned());
    lines.push("# Using devices".to_owned());
    let rank = |rank| {
        let host = group.and_then(|group| group.host_name(rank));
        let host = host.map(|host| format!("{host}: ")).unwrap_or_default();
        format!("#  Rank {rank:2} on {host}{}", plan.machine.describe(rank))
    };
    lines.extend((0..plan.ranks).map(rank));
    lines
}

fn library_line(library: &LibraryReport) -> String {
    let init = Spread::of(&library.init_us);
    let init = init.map(|init| format!(", joined in {:.1} ms", init.max / 1e3)).unwrap_or_default();
    let (name, version) = (&library.name, library.version_name());
    let buffers = match library.registration {
        Registration::None => String::new(),
        text => format!(", {text}"),
    };
    format!("# Library {name}: {version}{init}{buffers}, {}", library.path.display())
}
