//! A timeline as text, for terminals.

use std::fmt::Write;

use super::{Busiest, Timeline};
use crate::model::{Cause, Row};

/// Columns of the picture, without the labels.
const COLUMNS: usize = 72;

/// First what the estimate assumes, then one line for each thread block, a letter for each step:
/// its first letter in MSCCL, as the legend says; at last what holds the call up. Steps shorter
/// than a column share it, and the last of them shows.
pub fn text(timeline: &Timeline) -> String {
    let Timeline { assumptions, service, rows, rounds, shown_rounds, shown_us, .. } = timeline;
    let mut text = format!("assumes {assumptions}\n{}; {service}\n", timeline.title());
    if rounds > shown_rounds {
        let _ = writeln!(text, "the first {shown_rounds} of {rounds} rounds:");
    } else if *rounds > 1 {
        let _ = writeln!(text, "{rounds} rounds:");
    }
    let labels: Vec<_> = rows.iter().map(|row| format!("{} {}", row.rank, row.tb)).collect();
    let width = labels.iter().map(String::len).max().unwrap_or(0);
    for (row, label) in rows.iter().zip(&labels) {
        let busy = row.spans.iter().map(|span| span.end_us - span.start_us).sum::<f64>();
        let percent = 100.0 * busy / shown_us.max(f64::MIN_POSITIVE);
        let _ = writeln!(text, "{label:<width$} |{}| {percent:3.0} %", cells(row, *shown_us));
    }
    let _ = writeln!(text, "{:<width$} 0{:>COLUMNS$.1} µs, busy", "", shown_us);
    text.push_str("s send  r receive  c copy  + reduce  f receive, copy, send\n");
    text.push_str("a receive, reduce (and copy, send)  n nothing  * any other  . waits\n");
    text.push_str(&holds_up(timeline));
    text
}

/// The busiest link, and what the chain of steps that ends last waits for.
fn holds_up(timeline: &Timeline) -> String {
    let Timeline { critical, busiest, shown_us, .. } = timeline;
    let mut text = String::new();
    if let Some(Busiest { link, share }) = busiest {
        let _ = writeln!(text, "busiest link: {link}, {:.0} % of the time", 100.0 * share);
    }
    let count = |is: fn(&Cause) -> bool| critical.iter().filter(|step| is(&step.cause)).count();
    let moving: f64 = critical.iter().map(|step| step.end_us - step.start_us).sum();
    let steps = critical.len();
    let messages = count(|cause| matches!(cause, Cause::Message(_)));
    let room = count(|cause| matches!(cause, Cause::Room(_)));
    let others = count(|cause| matches!(cause, Cause::Step(_)));
    let _ = writeln!(
        text,
        "longest chain: {steps} steps, busy for {moving:.1} of {shown_us:.1} µs\n\
         waits in it: {messages} for a message, {room} for room in a link, {others} for another \
         thread block"
    );
    text
}

fn cells(row: &Row, total_us: f64) -> String {
    let mut cells = vec![' '; COLUMNS];
    let column = |us: f64| ((us / total_us.max(f64::MIN_POSITIVE)) * COLUMNS as f64) as usize;
    for span in &row.spans {
        let waits = column(span.wait_us).min(COLUMNS - 1);
        let first = column(span.start_us).min(COLUMNS - 1);
        let end = column(span.end_us).clamp(first + 1, COLUMNS);
        cells[waits..first].iter_mut().filter(|cell| **cell == ' ').for_each(|cell| *cell = '.');
        cells[first..end].fill(letter(span.kind));
    }
    cells.into_iter().collect()
}

fn letter(kind: msccl_ir::StepKind) -> char {
    use msccl_ir::StepKind;
    match kind {
        StepKind::Nop => 'n',
        StepKind::Send => 's',
        StepKind::Recv => 'r',
        StepKind::Copy => 'c',
        StepKind::Reduce => '+',
        StepKind::RecvCopySend => 'f',
        StepKind::RecvReduceCopy | StepKind::RecvReduceSend | StepKind::RecvReduceCopySend => 'a',
        StepKind::Many => '*',
    }
}
