//! A timeline as text, for terminals.

use std::fmt::Write;

use super::{Row, Timeline};

/// Columns of the picture, without the labels.
const COLUMNS: usize = 72;

/// One line for each thread block, a letter for each step: its first letter in MSCCL, as the legend
/// says. Steps shorter than a column share it, and the last of them shows.
pub fn text(timeline: &Timeline) -> String {
    let Timeline { name: _, bytes: _, nodes: _, rows, rounds, total_us } = timeline;
    let mut text = timeline.title();
    if *rounds > 1 {
        let _ = write!(text, " in {rounds} rounds");
    }
    text.push('\n');
    let labels: Vec<_> = rows.iter().map(|row| format!("{} {}", row.rank, row.tb)).collect();
    let width = labels.iter().map(String::len).max().unwrap_or(0);
    for (row, label) in rows.iter().zip(&labels) {
        let _ = writeln!(text, "{label:<width$} |{}|", cells(row, *total_us));
    }
    let _ = writeln!(text, "{:<width$} 0{:>COLUMNS$.1} µs", "", total_us);
    text.push_str("s send  r receive  c copy  + reduce  f receive, copy, send  ");
    text.push_str("a receive, reduce (and copy, send)  * any other  . wait\n");
    text
}

fn cells(row: &Row, total_us: f64) -> String {
    let mut cells = vec![' '; COLUMNS];
    let column = |us: f64| ((us / total_us.max(f64::MIN_POSITIVE)) * COLUMNS as f64) as usize;
    for span in &row.spans {
        let first = column(span.start_us).min(COLUMNS - 1);
        let end = column(span.end_us).clamp(first + 1, COLUMNS);
        cells[first..end].fill(letter(span.kind));
    }
    cells.into_iter().collect()
}

fn letter(kind: msccl_ir::StepKind) -> char {
    use msccl_ir::StepKind;
    match kind {
        StepKind::Nop => '.',
        StepKind::Send => 's',
        StepKind::Recv => 'r',
        StepKind::Copy => 'c',
        StepKind::Reduce => '+',
        StepKind::RecvCopySend => 'f',
        StepKind::RecvReduceCopy | StepKind::RecvReduceSend | StepKind::RecvReduceCopySend => 'a',
        StepKind::Many => '*',
    }
}
