//! A report as one page that needs nothing else: no network, no other file.

use std::fmt::Write;

use msccl_picture::Escaped;

use super::deviation::{PredictionReport, StepError};
use super::findings::{headlines, short, us};
use super::group::GroupReport;
use super::groups::groups;
use super::index::Index;
use super::moves::Expected;
use super::picture::{LaunchPicture, PictureSubject, class, picture};
use super::{Expectations, Report, Times, text};
use crate::timeline::{SpanKind, Timeline};

/// Groups with a picture.
const GROUPS: usize = 4;
/// A launch that takes so much longer than the median is shown, too.
const SLOW: f64 = 1.3;
/// Rows of a table of one kind.
const ROWS: usize = 12;

const STYLE: &str = include_str!("page.css");
const SCRIPT: &str = include_str!("page.js");

/// The report, as a page.
pub fn html(report: &Report, timeline: &Timeline, expectations: &Expectations) -> String {
    let mut page = format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <title>What holds calls up</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n<main>\n\
         <h1>What holds calls up</h1>\n<p class=\"summary\">{}; clocks agree to {}</p>\n",
        Escaped(&report.summary),
        us(report.clock.error_us),
    );
    findings(&mut page, report);
    legend(&mut page, expectations);
    let index = Index::new(timeline);
    for (number, group) in groups(timeline).iter().enumerate().take(GROUPS) {
        let Some(of_group) = report.groups.get(number) else { break };
        let _ = writeln!(page, "<h2>{} of {}</h2>", of_group.calls, Escaped(&of_group.name));
        let prediction = expectations.predictions.get(number).and_then(Option::as_ref);
        let expected = Expected::of(&index, &group.launches);
        let deviation = of_group.prediction.as_ref().and_then(|of| of.first_deviation.as_ref());
        let mut show = |launch: usize, what: &str| {
            let deviating = deviation.filter(|_| launch == of_group.shown_launch);
            let deviating = deviating.map(|of| &of.step);
            let subject = PictureSubject { launch, expected: &expected, prediction, deviating };
            let call = timeline.launches[launch].call;
            put_picture(&mut page, &picture(&index, subject), what, call);
        };
        let what = match prediction {
            None => "A call of median duration",
            Some(_) => "The call in which ranks begin nearest together, and the model",
        };
        show(of_group.shown_launch, what);
        if let Some(slowest) = slowest_launch(timeline, &group.launches, of_group) {
            show(slowest, "The slowest call");
        }
        of_group.prediction.iter().for_each(|of| predicted(&mut page, of));
        times(&mut page, of_group);
    }
    let _ = writeln!(
        page,
        "<details>\n<summary>All figures</summary>\n<pre tabindex=\"0\">{}</pre>\n</details>\n\
         </main>\n<script>\n{SCRIPT}</script>\n</body>\n</html>",
        Escaped(&text(report))
    );
    page
}

fn findings(page: &mut String, report: &Report) {
    notes(page, &report.notes);
    if report.nothing_stands_out() {
        page.push_str(
            "<p>Nothing stands out: no rank is late, no link and no block is slow.</p>\n",
        );
    }
    if !report.findings.is_empty() {
        page.push_str("<ol class=\"findings\">\n");
        for finding in headlines(&report.findings) {
            let _ = writeln!(page, "<li>{}</li>", Escaped(&finding.text));
        }
        page.push_str("</ol>\n");
    }
    notes(page, report.clock.contradictions.iter().chain(&report.losses));
}

fn notes<'a>(page: &mut String, sentences: impl IntoIterator<Item = &'a String>) {
    for sentence in sentences {
        let _ = writeln!(page, "<p class=\"note\">{}</p>", Escaped(sentence));
    }
}

/// The launch of a group that takes longest, if it takes much longer than the median.
fn slowest_launch(
    timeline: &Timeline,
    launches: &[usize],
    of_group: &GroupReport,
) -> Option<usize> {
    let duration_us = |launch: usize| {
        let launch = &timeline.launches[launch];
        (launch.end_ns - launch.begin_ns) / 1000.0
    };
    let by_duration =
        |one: &usize, other: &usize| duration_us(*one).total_cmp(&duration_us(*other));
    let slowest = launches.iter().copied().max_by(by_duration)?;
    (duration_us(slowest) > SLOW * of_group.duration_us.median).then_some(slowest)
}

fn put_picture(page: &mut String, drawn: &LaunchPicture, what: &str, call: u64) {
    let LaunchPicture { labels, chart, slowest, left_out } = drawn;
    let _ = writeln!(
        page,
        "<section class=\"picture\">\n<div class=\"head\"><h3>{what} (call {call})</h3>\n\
         <div class=\"zoom\"><button data-zoom=\"0.667\" aria-label=\"narrower\">−</button>\n\
         <button data-zoom=\"1.5\" aria-label=\"wider\">+</button>\n\
         <button data-zoom=\"0\">all</button></div></div>\n\
         <div class=\"timeline\">{labels}\n\
         <div class=\"scroll\" tabindex=\"0\">{chart}</div></div>\n\
         <p class=\"detail\" aria-live=\"polite\"></p>"
    );
    for sentence in [slowest, left_out].into_iter().flatten() {
        let _ = writeln!(page, "<p>{}</p>", Escaped(sentence));
    }
    page.push_str("</section>\n");
}

fn legend(page: &mut String, expectations: &Expectations) {
    let kinds = [
        SpanKind::Copy,
        SpanKind::Reduce,
        SpanKind::WaitData,
        SpanKind::WaitRoom,
        SpanKind::WaitBlock,
        SpanKind::Finish,
    ];
    let mut keys: Vec<_> = kinds.map(|kind| (class(kind), kind.name())).into();
    keys.extend([("slowest", "slowest step"), ("line", "critical path")]);
    if expectations.predictions.iter().any(Option::is_some) {
        keys.extend([("predicted", "predicted"), ("deviating", "first step that deviates")]);
    }
    page.push_str("<ul class=\"legend\">\n");
    for (class, name) in keys {
        let _ = writeln!(page, "<li><span class=\"key {class}\"></span>{name}</li>");
    }
    page.push_str("</ul>\n");
}

/// The steps whose moves differ most from what the model predicts.
fn predicted(page: &mut String, prediction: &PredictionReport) {
    let _ = writeln!(
        page,
        "<h3>Predicted: {}, measured: {}</h3>\n<p class=\"quiet\">{}</p>",
        us(prediction.predicted_us),
        us(prediction.measured_us),
        Escaped(&prediction.assumptions)
    );
    if let Some(deviation) = &prediction.first_deviation {
        let _ = writeln!(page, "<p>{}</p>", Escaped(&deviation.text));
    }
    page.push_str(
        "<div class=\"scroll\" tabindex=\"0\"><table class=\"errors\"><tr><th>moves that differ \
         most, µs</th><th>line</th><th>round</th><th>measured</th><th>predicted</th>\
         <th>ends later by</th></tr>\n",
    );
    for step in prediction.worst_moves().into_iter().take(ROWS) {
        let StepError { rank, thread_block, step: number, round, line, .. } = step;
        let line = line.map_or_else(String::new, |line| line.to_string());
        let _ = writeln!(
            page,
            "<tr><td>rank {rank} block {thread_block} step {number}</td><td>{line}</td>\
             <td>{round}</td><td>{:.2}</td><td>{:.2}</td><td>{:.2}</td></tr>",
            step.measured_move_us(),
            step.predicted_move_us(),
            step.end_error_us()
        );
    }
    page.push_str("</table></div>\n");
}

/// What time goes to, by rank, line, link and thread block: the most of each first.
fn times(page: &mut String, group: &GroupReport) {
    let ranks = group.by_rank.iter().map(|of| (format!("rank {}", of.rank), of.times));
    let lines = group
        .by_line
        .iter()
        .map(|of| (format!("line {} of {}", of.line.line, short(&of.line.program)), of.times));
    let links = group.by_link.iter().map(|of| (format!("link {}→{}", of.from, of.to), of.times));
    let blocks = group.by_block.iter();
    let blocks = blocks.map(|of| (format!("rank {} block {}", of.rank, of.thread_block), of.times));
    page.push_str(
        "<div class=\"scroll\" tabindex=\"0\"><table class=\"times\"><tr>\
         <th>time of thread blocks, \
         µs</th><th>parts</th><th>data</th><th>room</th><th>block</th><th>copy</th><th>add</th>\
         <th>end</th></tr>\n",
    );
    for rows in [ranks.collect(), lines.collect(), links.collect(), blocks.collect::<Vec<_>>()] {
        let mut rows: Vec<(String, Times)> = rows;
        rows.sort_by(|one, other| other.1.all_us().total_cmp(&one.1.all_us()));
        rows.iter().take(ROWS).for_each(|(name, times)| times_row(page, name, times));
    }
    page.push_str("</table></div>\n");
}

fn times_row(page: &mut String, name: &str, times: &Times) {
    let Times { wait_data_us, wait_room_us, wait_block_us, copy_us, reduce_us, finish_us } = *times;
    let parts = [
        (SpanKind::WaitData, wait_data_us),
        (SpanKind::WaitRoom, wait_room_us),
        (SpanKind::WaitBlock, wait_block_us),
        (SpanKind::Copy, copy_us),
        (SpanKind::Reduce, reduce_us),
        (SpanKind::Finish, finish_us),
    ];
    let _ = write!(page, "<tr><td>{}</td><td><span class=\"bar\">", Escaped(name));
    let all_us = times.all_us().max(f64::MIN_POSITIVE);
    for (kind, us) in parts.iter().filter(|(_, us)| *us > 0.0) {
        let (class, percent) = (class(*kind), 100.0 * us / all_us);
        let _ = write!(
            page,
            "<span class=\"key {class}\" style=\"width:{percent:.1}%;margin:0\"></span>"
        );
    }
    page.push_str("</span></td>");
    for (_, us) in parts {
        let _ = write!(page, "<td>{us:.1}</td>");
    }
    page.push_str("</tr>\n");
}
