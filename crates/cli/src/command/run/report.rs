//! What `run` says: a table for people, rows for programs.

use msccl_simulate::timeline::text;
use serde::Serialize;

use super::measure::{Effort, Plan, Row, Timing};
use crate::args::RunDevice;
use crate::output::{Output, Paint};
use crate::size::ByteSize;
use crate::table::{Align, Table};
use crate::verdict::words::counted;
use crate::verdict::{Proved, Verdict, VerdictJson};
use msccl_pages::timeline;

/// Rows of the largest timeline that is shown unasked.
const MOST_ROWS: usize = 16;

/// Calls, and what they gave.
pub struct RunReport {
    /// What was requested.
    pub plan: Plan,
    /// What it gave.
    pub rows: Vec<Row>,
    /// What ran it.
    pub device: RunDevice,
    /// Where the first rank of a communicator ran, for people.
    pub place: Option<String>,
}

impl RunReport {
    /// Whether every result was right.
    pub fn is_right(&self) -> bool {
        self.rows.iter().all(Row::is_right)
    }
}

/// Prints what ran, the table, and a timeline of the first call.
pub fn print(proved: &Proved, run: &RunReport, output: &mut Output) {
    let RunReport { plan: _, rows, device, place: _ } = run;
    let answer = if run.is_right() {
        output.paint(Paint::Good, "correct")
    } else {
        output.paint(Paint::Bad, "wrong  ")
    };
    output.line(format_args!("{answer}  {}", setting(proved, run)));
    output.detail("");
    let mut table = Table::new(&[
        ("size", Align::Right),
        ("count", Align::Right),
        ("runs", Align::Right),
        ("rounds", Align::Right),
        ("messages", Align::Right),
        ("min", Align::Right),
        ("median", Align::Right),
        ("GB/s", Align::Right),
        ("result", Align::Left),
    ]);
    rows.iter().for_each(|row| table.row(cells(row)));
    for (index, line) in table.lines().into_iter().enumerate() {
        let line = format!("  {line}");
        let line = if index == 0 { output.paint(Paint::Dim, line) } else { line };
        output.detail(line);
    }
    if let (RunDevice::Host, Some(row)) = (device, rows.first()) {
        print_timeline(proved, row.call.size, output);
    }
}

/// A look at what happens when, if it fits on a screen.
fn print_timeline(proved: &Proved, size: ByteSize, output: &mut Output) {
    if proved.verified.algorithm().thread_blocks().count() > MOST_ROWS {
        return;
    }
    let Ok(found) = timeline::of_verified(proved, size) else { return };
    output.detail("");
    output.detail("what each thread block would do on GPUs, by estimate:");
    text(&found).lines().for_each(|line| output.detail(format_args!("  {line}")));
}

/// On what it ran, and what was compared.
fn setting(proved: &Proved, run: &RunReport) -> String {
    let Plan { data_type, reduction, in_place, .. } = &run.plan;
    let algorithm = proved.verified.algorithm();
    let placement = if *in_place { "in place" } else { "out of place" };
    let operation =
        if algorithm.collective.reduces() { format!("{reduction} of ") } else { String::new() };
    let timings = run.rows.iter().filter_map(|row| row.outcome.as_ref().ok());
    let compared = timings.map(|timing| timing.compared as u64).sum();
    let compared = counted(compared, "output element");
    let runner = runner(run, algorithm.collective.ranks);
    format!("{operation}{data_type}, {placement}, on {runner}; {compared} compared")
}

/// What ran it.
fn runner(run: &RunReport, ranks: u32) -> String {
    match &run.place {
        Some(place) => format!("{}, r0 on {place}", counted(ranks.into(), "rank")),
        None => {
            let timings = run.rows.iter().filter_map(|row| row.outcome.as_ref().ok());
            let workers = timings.filter_map(|timing| timing.effort.workers).max();
            counted(workers.unwrap_or(0) as u64, "host thread")
        }
    }
}

fn cells(row: &Row) -> Vec<String> {
    let head = [row.call.size.to_string(), row.call.count.to_string()];
    let rest = match &row.outcome {
        Ok(timing) => {
            let Timing { min_us, median_us, runs, effort, compared: _ } = timing;
            let Effort { rounds, messages, workers: _ } = effort;
            vec![
                runs.to_string(),
                or_dash(rounds.map(|rounds| rounds.to_string())),
                or_dash(messages.map(|messages| messages.to_string())),
                duration(*min_us),
                duration(*median_us),
                or_dash(row.bandwidth_gb_s().map(|rate| format!("{rate:.3}"))),
                "ok".to_owned(),
            ]
        }
        Err(fault) => {
            let missing = std::iter::repeat_n(or_dash(None), 6);
            missing.chain([fault.clone()]).collect()
        }
    };
    head.into_iter().chain(rest).collect()
}

/// A cell, or what stands where nothing is known.
fn or_dash(cell: Option<String>) -> String {
    cell.unwrap_or_else(|| "-".to_owned())
}

/// Microseconds in a unit that suits them.
fn duration(us: f64) -> String {
    match us {
        us if us >= 1e6 => format!("{:.2} s", us / 1e6),
        us if us >= 1e3 => format!("{:.2} ms", us / 1e3),
        us => format!("{us:.1} µs"),
    }
}

/// The whole report, for programs.
#[derive(Serialize)]
pub struct RunJson<'a> {
    #[serde(flatten)]
    verdict: VerdictJson<'a>,
    device: &'static str,
    correct: bool,
    runs: Vec<RowJson>,
}

#[derive(Serialize)]
struct RowJson {
    bytes: u64,
    count: u64,
    data_type: &'static str,
    reduction: &'static str,
    in_place: bool,
    correct: bool,
    error: Option<String>,
    runs: Option<usize>,
    rounds: Option<usize>,
    messages: Option<u64>,
    workers: Option<usize>,
    compared: Option<usize>,
    min_us: Option<f64>,
    median_us: Option<f64>,
    algorithm_gb_s: Option<f64>,
}

/// The whole report, for programs.
pub fn to_json<'a>(verdict: &'a Verdict, run: &RunReport) -> RunJson<'a> {
    let RunReport { plan, rows, device, place: _ } = run;
    RunJson {
        verdict: verdict.to_json(),
        device: match device {
            RunDevice::Host => "host",
            RunDevice::Cuda => "cuda",
            RunDevice::Ranks => "ranks",
        },
        correct: run.is_right(),
        runs: rows.iter().map(|row| RowJson::of(plan, row)).collect(),
    }
}

impl RowJson {
    fn of(plan: &Plan, row: &Row) -> Self {
        let timing = row.outcome.as_ref().ok();
        Self {
            bytes: row.call.size.0,
            count: row.call.count,
            data_type: plan.data_type.name(),
            reduction: plan.reduction.name(),
            in_place: plan.in_place,
            correct: row.is_right(),
            error: row.outcome.as_ref().err().cloned(),
            runs: timing.map(|timing| timing.runs),
            rounds: timing.and_then(|timing| timing.effort.rounds),
            messages: timing.and_then(|timing| timing.effort.messages),
            workers: timing.and_then(|timing| timing.effort.workers),
            compared: timing.map(|timing| timing.compared),
            min_us: timing.map(|timing| timing.min_us),
            median_us: timing.map(|timing| timing.median_us),
            algorithm_gb_s: row.bandwidth_gb_s(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_choose_their_unit() {
        assert_eq!(
            [0.25, 999.0, 1500.0, 2.5e6].map(duration),
            ["0.2 µs", "999.0 µs", "1.50 ms", "2.50 s"]
        );
    }
}
