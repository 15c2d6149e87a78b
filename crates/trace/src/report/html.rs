//! A report as one page that needs nothing else: no network, no other file.

use std::fmt::Write;

use msccl_picture::Escaped;

use super::findings::{headlines, us};
use super::group::GroupReport;
use super::groups::groups;
use super::index::Index;
use super::moves::Expected;
use super::picture::{LaunchPicture, class, picture};
use super::{Expectations, Report, Times, text};
use crate::timeline::{SpanKind, Timeline};

/// Groups with a picture.
const GROUPS: usize = 4;
/// A launch that takes so much longer than the median is shown, too.
const SLOW: f64 = 1.3;
/// Rows of a table.
const ROWS: usize = 40;

const STYLE: &str = include_str!("page.css");
const SCRIPT: &str = include_str!("page.js");

/// The report, as a page.
pub fn html(report: &Report, timeline: &Timeline, expectations: &Expectations) -> String {
    let index = Index::new(timeline);
    let mut page = format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width\">\n<title>{title}</title>\n\
         <style>\n{STYLE}</style>\n</head>\n<body>\n<h1>{title}</h1>\n<ol class=\"findings\">\n",
        title = Escaped(&report.summary)
    );
    for finding in headlines(&report.findings) {
        let _ = writeln!(page, "<li>{}</li>", Escaped(&finding.text));
    }
    page.push_str("</ol>\n");
    if report.findings.is_empty() {
        page.push_str(
            "<p>Nothing stands out: no rank is late, no link and no block is slow.</p>\n",
        );
    }
    let _ = writeln!(page, "<p>Clocks agree to {}.</p>", us(report.clock.error_us));
    for sentence in report.clock.contradictions.iter().chain(&report.losses) {
        let _ = writeln!(page, "<p class=\"note\">{}</p>", Escaped(sentence));
    }
    legend(&mut page);
    for (number, group) in groups(timeline).iter().enumerate().take(GROUPS) {
        let expected = Expected::of(&index, &group.launches);
        let prediction = expectations.predictions.get(number).and_then(Option::as_ref);
        let Some(of_group) = report.groups.get(number) else { break };
        let _ = writeln!(page, "<h2>{} of {}</h2>", of_group.calls, Escaped(&of_group.name));
        let mut show = |launch: usize, what: &str| {
            let drawn = picture(&index, launch, &expected, prediction);
            put_picture(&mut page, &drawn, what, timeline.launches[launch].call);
        };
        let what = match prediction {
            None => "A call of median duration",
            Some(_) => "The call in which ranks begin nearest together, and the model",
        };
        show(of_group.shown_launch, what);
        let duration_us = |launch: usize| {
            let launch = &timeline.launches[launch];
            (launch.end_ns - launch.begin_ns) / 1000.0
        };
        let slowest = group
            .launches
            .iter()
            .copied()
            .max_by(|one, other| duration_us(*one).total_cmp(&duration_us(*other)));
        let limit_us = SLOW * of_group.duration_us.median;
        if let Some(slowest) = slowest.filter(|launch| duration_us(*launch) > limit_us) {
            show(slowest, "The slowest call");
        }
        tables(&mut page, of_group);
    }
    let _ = writeln!(page, "<h2>All figures</h2>\n<pre>{}</pre>", Escaped(&text(report)));
    let _ = writeln!(page, "<script>\n{SCRIPT}</script>\n</body>\n</html>");
    page
}

fn put_picture(page: &mut String, drawn: &LaunchPicture, what: &str, call: u64) {
    let LaunchPicture { svg, slowest, left_out } = drawn;
    let _ = writeln!(
        page,
        "<h3>{what} (call {call})</h3>\n<div class=\"zoom\">\
         <button data-zoom=\"1.5\">wider</button>\
         <button data-zoom=\"0.667\">narrower</button></div>\n<div class=\"scroll\">{svg}</div>"
    );
    for sentence in [slowest, left_out].into_iter().flatten() {
        let _ = writeln!(page, "<p>{}</p>", Escaped(sentence));
    }
}

fn legend(page: &mut String) {
    page.push_str("<p class=\"legend\">");
    let kinds = [
        SpanKind::Copy,
        SpanKind::Reduce,
        SpanKind::WaitData,
        SpanKind::WaitRoom,
        SpanKind::WaitBlock,
        SpanKind::Finish,
    ];
    for kind in kinds {
        let _ = write!(page, "<span class=\"key {}\"></span>{} ", class(kind), kind.name());
    }
    page.push_str("<span class=\"key slowest\"></span>slowest step ");
    page.push_str("<span class=\"key line\"></span>critical path</p>\n");
}

fn tables(page: &mut String, group: &GroupReport) {
    let mut rows = Vec::new();
    rows.extend(
        group
            .by_line
            .iter()
            .map(|of| (format!("line {} of {}", of.line.line, of.line.program), of.times)),
    );
    rows.extend(group.by_link.iter().map(|of| (format!("link {}→{}", of.from, of.to), of.times)));
    rows.extend(
        group
            .by_block
            .iter()
            .map(|of| (format!("rank {} block {}", of.rank, of.thread_block), of.times)),
    );
    page.push_str(
        "<table><tr><th>time of thread blocks, µs</th><th>data</th><th>room</th><th>block</th>\
         <th>copy</th><th>add</th><th>end</th></tr>\n",
    );
    for (name, times) in rows.iter().take(ROWS) {
        let Times { wait_data_us, wait_room_us, wait_block_us, copy_us, reduce_us, finish_us } =
            times;
        let _ = write!(page, "<tr><td>{}</td>", Escaped(name));
        for us in [wait_data_us, wait_room_us, wait_block_us, copy_us, reduce_us, finish_us] {
            let _ = write!(page, "<td>{us:.1}</td>");
        }
        page.push_str("</tr>\n");
    }
    page.push_str("</table>\n");
}
