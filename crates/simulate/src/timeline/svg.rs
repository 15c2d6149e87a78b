//! A timeline as a self-contained SVG picture.

use std::fmt::Write;

use msccl_ir::StepKind;
use msccl_picture::Escaped;

use super::Timeline;
use crate::model::{Row, Span};

const LABEL_WIDTH: f64 = 84.0;
const CHART_WIDTH: f64 = 1000.0;
const ROW_HEIGHT: f64 = 18.0;
const TOP: f64 = 54.0;
const BOTTOM: f64 = 40.0;

/// Most steps drawn; a picture with more is not readable, and slow to open.
const MOST_SPANS: usize = 20_000;

/// The kinds in the order of the legend, with their colours.
const COLOURS: [(StepKind, &str, &str); 10] = [
    (StepKind::Send, "send", "#4878a8"),
    (StepKind::Recv, "receive", "#7fb2d8"),
    (StepKind::Copy, "copy", "#a0a0a0"),
    (StepKind::Reduce, "reduce", "#c8643c"),
    (StepKind::RecvCopySend, "receive, copy, send", "#5aa469"),
    (StepKind::RecvReduceCopy, "receive, reduce, copy", "#e0a030"),
    (StepKind::RecvReduceSend, "receive, reduce, send", "#c87f9f"),
    (StepKind::RecvReduceCopySend, "receive, reduce, copy, send", "#8a5fa8"),
    (StepKind::Many, "several sources or destinations", "#36454f"),
    (StepKind::Nop, "wait", "#dddddd"),
];

/// One row for each thread block, time to the right, a tooltip on every step; where a row is empty,
/// its thread block waits.
pub fn svg(timeline: &Timeline) -> String {
    let Timeline { rows, shown_us: total_us, assumptions, .. } = timeline;
    let height = TOP + rows.len() as f64 * ROW_HEIGHT + BOTTOM;
    let width = LABEL_WIDTH + CHART_WIDTH + 20.0;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" \
         viewBox=\"0 0 {width} {height}\" font-family=\"sans-serif\" font-size=\"11\">\n\
         <rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n\
         <text x=\"8\" y=\"18\" font-size=\"14\">{}</text>\n",
        Escaped(&format!("{}; {assumptions}", timeline.title()))
    );
    legend(&mut svg, rows);
    scale(&mut svg, *total_us, height);
    let mut left = MOST_SPANS;
    for (index, row) in rows.iter().enumerate() {
        let y = TOP + index as f64 * ROW_HEIGHT;
        draw_row(&mut svg, row, y, *total_us, &mut left);
    }
    let all: usize = rows.iter().map(|row| row.spans.len()).sum();
    if all > MOST_SPANS {
        let y = height - 4.0;
        let _ =
            writeln!(svg, "<text x=\"8\" y=\"{y}\">{MOST_SPANS} of {all} steps are drawn</text>");
    }
    svg.push_str("</svg>\n");
    svg
}

fn legend(svg: &mut String, rows: &[Row]) {
    let used = |kind| rows.iter().flat_map(|row| &row.spans).any(|span| span.kind == kind);
    let mut x = 8.0;
    for (_, label, colour) in COLOURS.into_iter().filter(|&(kind, ..)| used(kind)) {
        let text_x = x + 14.0;
        let _ = writeln!(
            svg,
            "<rect x=\"{x}\" y=\"28\" width=\"10\" height=\"10\" fill=\"{colour}\"/>\
             <text x=\"{text_x}\" y=\"37\">{label}</text>"
        );
        x = text_x + 6.5 * label.len() as f64 + 12.0;
    }
}

/// Vertical lines at round times, labelled below the rows.
fn scale(svg: &mut String, total_us: f64, height: f64) {
    let bottom = height - BOTTOM;
    let step_us = round_step(total_us / 10.0);
    let mut tick = 0;
    while f64::from(tick) * step_us <= total_us && tick < 100 {
        let us = f64::from(tick) * step_us;
        let x = x_of(us, total_us);
        let label_y = bottom + 14.0;
        let label = format!("{us:.3}");
        let label = label.trim_end_matches('0').trim_end_matches('.');
        let _ = writeln!(
            svg,
            "<line x1=\"{x:.1}\" y1=\"{TOP}\" x2=\"{x:.1}\" y2=\"{bottom}\" stroke=\"#eee\"/>\
             <text x=\"{x:.1}\" y=\"{label_y}\" text-anchor=\"middle\">{label} µs</text>"
        );
        tick += 1;
    }
}

/// The least of 1, 2 or 5 times a power of ten that is at least `us`.
fn round_step(us: f64) -> f64 {
    let power = 10_f64.powf(us.max(1e-3).log10().floor());
    let steps = [1.0, 2.0, 5.0, 10.0].map(|factor| factor * power);
    steps.into_iter().find(|&step| step >= us).unwrap_or(10.0 * power)
}

fn x_of(us: f64, total_us: f64) -> f64 {
    LABEL_WIDTH + us / total_us.max(f64::MIN_POSITIVE) * CHART_WIDTH
}

fn draw_row(svg: &mut String, row: &Row, y: f64, total_us: f64, left: &mut usize) {
    let Row { rank, tb, channel, spans } = row;
    let label_y = y + 13.0;
    let _ = writeln!(svg, "<text x=\"8\" y=\"{label_y}\">{rank} {tb} {channel}</text>");
    let drawn = spans.len().min(*left);
    *left -= drawn;
    for span in &spans[..drawn] {
        let Span { at, round, kind, wait_us, start_us, end_us, cause: _ } = span;
        let waited_us = start_us - wait_us;
        let x = x_of(*start_us, total_us);
        let width = (x_of(*end_us, total_us) - x).max(0.5);
        let (rect_y, rect_height) = (y + 2.0, ROW_HEIGHT - 4.0);
        let colour = colour(*kind);
        let kind = kind.abbreviation();
        let _ = writeln!(
            svg,
            "<rect x=\"{x:.2}\" y=\"{rect_y}\" width=\"{width:.2}\" height=\"{rect_height}\" \
             fill=\"{colour}\" stroke=\"white\" stroke-width=\"0.3\">\
             <title>{at} {kind}, round {round}: {start_us:.2} to {end_us:.2} µs, \
             after {waited_us:.2} µs of waiting</title></rect>"
        );
    }
}

fn colour(kind: StepKind) -> &'static str {
    let found = COLOURS.iter().find(|&&(other, ..)| other == kind);
    found.map_or("black", |&(_, _, colour)| colour)
}
