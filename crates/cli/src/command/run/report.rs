//! What `run` says: a table for people, rows for programs.

use serde::Serialize;

use super::measure::{Plan, Row, Timing};
use crate::output::{Output, Paint};
use crate::table::{Align, Table};
use crate::verdict::human::counted;
use crate::verdict::{Proved, Verdict, VerdictJson};

/// Prints what ran, and the table.
pub fn print(proved: &Proved, plan: &Plan, rows: &[Row], output: &mut Output) {
    let done = rows.iter().all(Row::is_right);
    let answer = if done {
        output.paint(Paint::Good, "correct")
    } else {
        output.paint(Paint::Bad, "wrong  ")
    };
    output.line(format_args!("{answer}  {}", setting(proved, plan, rows)));
    output.detail("");
    let mut table = Table::new(&[
        ("size", Align::Right),
        ("count", Align::Right),
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
}

/// On what it ran, and what was compared.
fn setting(proved: &Proved, plan: &Plan, rows: &[Row]) -> String {
    let Plan { calls: _, data_type, reduction, in_place, iterations, .. } = plan;
    let algorithm = proved.verified.algorithm();
    let timings = || rows.iter().filter_map(|row| row.outcome.as_ref().ok());
    let workers = timings().map(|timing| timing.workers).max().unwrap_or(0);
    let workers = counted(workers as u64, "host thread");
    let placement = if *in_place { "in place" } else { "out of place" };
    let operation =
        if algorithm.collective.reduces() { format!("{reduction} of ") } else { String::new() };
    let runs = counted(u64::from(*iterations), "run");
    let compared = timings().map(|timing| timing.compared as u64).sum();
    let compared = counted(compared, "output element");
    format!(
        "{operation}{data_type}, {placement}, on {workers}; {runs} of each size, {compared} compared"
    )
}

fn cells(row: &Row) -> Vec<String> {
    let head = [row.call.size.to_string(), row.call.count.to_string()];
    let rest = match &row.outcome {
        Ok(timing) => {
            let Timing { min_us, median_us, rounds, messages, workers: _, compared: _ } = timing;
            let bandwidth = row.bandwidth_gb_s().map(|rate| format!("{rate:.2}"));
            vec![
                rounds.to_string(),
                messages.to_string(),
                duration(*min_us),
                duration(*median_us),
                bandwidth.unwrap_or_else(|| "-".to_owned()),
                "ok".to_owned(),
            ]
        }
        Err(fault) => {
            let missing = std::iter::repeat_n(String::from("-"), 5);
            missing.chain([fault.to_string()]).collect()
        }
    };
    head.into_iter().chain(rest).collect()
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
    iterations: u32,
    correct: bool,
    error: Option<String>,
    rounds: Option<usize>,
    messages: Option<u64>,
    workers: Option<usize>,
    compared: Option<usize>,
    min_us: Option<f64>,
    median_us: Option<f64>,
    algorithm_gb_s: Option<f64>,
}

/// The whole report, for programs.
pub fn to_json<'a>(verdict: &'a Verdict, plan: &Plan, rows: &[Row]) -> RunJson<'a> {
    RunJson {
        verdict: verdict.to_json(),
        correct: rows.iter().all(Row::is_right),
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
            iterations: plan.iterations,
            correct: row.is_right(),
            error: row.outcome.as_ref().err().map(ToString::to_string),
            rounds: timing.map(|timing| timing.rounds),
            messages: timing.map(|timing| timing.messages),
            workers: timing.map(|timing| timing.workers),
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
