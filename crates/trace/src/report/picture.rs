//! A launch as a picture: a row for each thread block, time to the right.

use std::collections::BTreeMap;
use std::fmt::Write;

use msccl_picture::Escaped;

use super::critical::{PieceKind, path};
use super::index::Index;
use super::moves::Expected;
use crate::predict::Prediction;
use crate::timeline::{SpanKind, SpanRef};

const LABEL_WIDTH: f64 = 110.0;
const CHART_WIDTH: f64 = 1200.0;
const ROW_HEIGHT: f64 = 16.0;
const TOP: f64 = 8.0;
const BOTTOM: f64 = 26.0;

/// Most rows and spans of a picture; one with more cannot be read, and is slow to open.
const ROWS_MAX: usize = 300;
const SPANS_MAX: usize = 20_000;

/// A picture of a launch.
pub(super) struct LaunchPicture {
    pub svg: String,
    /// What is marked, in one sentence.
    pub slowest: Option<String>,
    /// What is left out, in one sentence.
    pub left_out: Option<String>,
}

/// A row of a picture.
enum Row {
    Part { rank: usize, part: usize },
    Predicted { rank: u32, thread_block: u32 },
}

/// Draws a launch; where there is a prediction, it stands below each thread block of the first
/// instance. The slowest step has the class `slowest`.
pub(super) fn picture(
    index: &Index<'_>,
    number: usize,
    expected: &Expected,
    prediction: Option<&Prediction>,
) -> LaunchPicture {
    let launch = &index.timeline.launches[number];
    let (rows, all_rows) = rows(index, number, prediction);
    let predicted_us =
        prediction.map_or(0.0, |of| of.steps.iter().map(|step| step.end_us).fold(0.0, f64::max));
    let total_us = ((launch.end_ns - launch.begin_ns) / 1000.0).max(predicted_us).max(0.001);
    let drawing = Drawing { index, begin_ns: launch.begin_ns, total_us };
    let height = TOP + rows.len() as f64 * ROW_HEIGHT + BOTTOM;
    let width = LABEL_WIDTH + CHART_WIDTH + 20.0;
    let mut svg = format!(
        "<svg class=\"timeline\" xmlns=\"http://www.w3.org/2000/svg\" \
         viewBox=\"0 0 {width} {height}\" preserveAspectRatio=\"none\" height=\"{height}\" \
         font-size=\"10\">\n"
    );
    drawing.scale(&mut svg, height);
    let slowest = slowest(index, number, expected);
    let mut left = SPANS_MAX;
    for (at, row) in rows.iter().enumerate() {
        let y = TOP + at as f64 * ROW_HEIGHT;
        match *row {
            Row::Part { rank, part } => {
                drawing.part(&mut svg, y, rank, part, slowest.as_ref(), &mut left);
            }
            Row::Predicted { rank, thread_block } => {
                let of = prediction.map_or(&[][..], |of| &of.steps);
                let of = of.iter().filter(|it| (it.rank, it.thread_block) == (rank, thread_block));
                let spans = of.map(|step| (step.begin_us, step.end_us, step.step));
                drawing.predicted(&mut svg, y, rank, thread_block, spans, &mut left);
            }
        }
    }
    drawing.path(&mut svg, number, &rows);
    svg.push_str("</svg>\n");
    let mut left_out = Vec::new();
    if all_rows > rows.len() {
        left_out.push(format!("{} of {all_rows} rows are drawn", rows.len()));
    }
    if left == 0 {
        left_out.push(format!("only the first {SPANS_MAX} spans are drawn"));
    }
    let left_out = (!left_out.is_empty()).then(|| left_out.join("; "));
    LaunchPicture { svg, slowest: slowest.map(|of| of.text), left_out }
}

/// The rows that are drawn, and how many there are.
fn rows(index: &Index<'_>, number: usize, prediction: Option<&Prediction>) -> (Vec<Row>, usize) {
    let timeline = index.timeline;
    let mut rows = Vec::new();
    for (rank, of_rank) in timeline.rank_launches(&timeline.launches[number]) {
        for part in of_rank.parts.clone() {
            rows.push(Row::Part { rank, part });
            let place = timeline.ranks[rank].parts[part].place;
            let place = place.filter(|place| place.instance == 0 && prediction.is_some());
            rows.extend(place.map(|place| Row::Predicted {
                rank: index.rank_number(rank as u32),
                thread_block: place.thread_block,
            }));
        }
    }
    let all = rows.len();
    rows.truncate(ROWS_MAX);
    (rows, all)
}

/// The step that is marked.
struct SlowestStep {
    at: SpanRef,
    text: String,
}

/// The piece of the critical path that takes longest, beyond what others like it take.
fn slowest(index: &Index<'_>, number: usize, expected: &Expected) -> Option<SlowestStep> {
    let pieces = path(index, &index.timeline.launches[number]).into_iter();
    let known = pieces.filter_map(|piece| {
        let (at, expected_ns, what) = match piece.kind {
            PieceKind::Begin { .. } => return None,
            PieceKind::Span(at) => (at, expected.move_ns(index, at), "it takes"),
            PieceKind::Transit { link, wait } => {
                let bytes = index.awaited(wait).map_or(0, |message| message.bytes);
                (wait, expected.transit_ns(index, link, bytes), "its message is on its way for")
            }
            PieceKind::Credit { wait, .. } => (wait, None, "it waits for room for"),
            PieceKind::Signal { wait } => (wait, None, "it waits for another thread block for"),
            PieceKind::Turn { wait } => (wait, None, "it waits for its turn for"),
        };
        Some((piece.duration_ns() - expected_ns.unwrap_or(0.0), at, expected_ns, what, piece))
    });
    let (_, at, expected_ns, what, piece) = known.max_by(|one, other| one.0.total_cmp(&other.0))?;
    let placed = index.placed(at)?;
    let line = placed.step.and_then(|step| step.line);
    let line = line.map(|line| format!(", line {line}")).unwrap_or_default();
    let others = expected_ns.map(|ns| format!(", others like it {:.1} µs", ns / 1000.0));
    let text = format!(
        "The slowest step of the critical path is step {} of thread block {} of rank {}{line}: \
         {what} {:.1} µs{}.",
        index.timeline.span(at).step,
        placed.part.place.map_or(placed.part.track, |place| place.thread_block),
        index.rank_number(at.rank),
        piece.duration_ns() / 1000.0,
        others.unwrap_or_default(),
    );
    Some(SlowestStep { at, text })
}

struct Drawing<'a> {
    index: &'a Index<'a>,
    begin_ns: f64,
    total_us: f64,
}

impl Drawing<'_> {
    fn x(&self, us: f64) -> f64 {
        LABEL_WIDTH + us / self.total_us * CHART_WIDTH
    }

    fn us(&self, time_ns: f64) -> f64 {
        (time_ns - self.begin_ns) / 1000.0
    }

    fn scale(&self, svg: &mut String, height: f64) {
        let bottom = height - BOTTOM;
        let power = 10_f64.powf((self.total_us / 10.0).log10().floor());
        let steps = [1.0, 2.0, 5.0, 10.0].map(|factor| factor * power);
        let step_us = steps.into_iter().find(|of| *of >= self.total_us / 10.0).unwrap_or(power);
        let mut tick = 0;
        while f64::from(tick) * step_us <= self.total_us && tick < 20 {
            let us = f64::from(tick) * step_us;
            let (x, y) = (self.x(us), bottom + 14.0);
            let label = format!("{us:.3}");
            let label = label.trim_end_matches('0').trim_end_matches('.');
            let _ = writeln!(
                svg,
                "<line class=\"grid\" x1=\"{x:.1}\" y1=\"{TOP}\" x2=\"{x:.1}\" y2=\"{bottom}\"/>\
                 <text x=\"{x:.1}\" y=\"{y}\" text-anchor=\"middle\">{label} µs</text>"
            );
            tick += 1;
        }
    }

    fn part(
        &self,
        svg: &mut String,
        y: f64,
        rank: usize,
        part: usize,
        slowest: Option<&SlowestStep>,
        left: &mut usize,
    ) {
        let of_rank = &self.index.timeline.ranks[rank];
        let of = &of_rank.parts[part];
        let place = of.place.map_or_else(
            || format!("track {}", of.track),
            |place| match place.instance {
                0 => format!("block {}", place.thread_block),
                instance => format!("block {}, {}", place.thread_block, instance + 1),
            },
        );
        label(svg, y, &format!("rank {} {place}", of_rank.header.rank));
        for span in of.spans.clone() {
            if *left == 0 {
                return;
            }
            *left -= 1;
            let at = SpanRef { rank: rank as u32, span: span as u32 };
            let is_slowest = slowest.is_some_and(|slowest| slowest.at == at);
            self.span(svg, y, at, is_slowest);
        }
    }

    fn span(&self, svg: &mut String, y: f64, at: SpanRef, is_slowest: bool) {
        let span = self.index.timeline.span(at);
        let (begin_us, end_us) = (self.us(span.begin_ns), self.us(span.end_ns));
        let x = self.x(begin_us);
        let width = (self.x(end_us) - x).max(0.3);
        let (rect_y, rect_height) = (y + 2.0, ROW_HEIGHT - 4.0);
        let (class, marked) = (class(span.kind), if is_slowest { " slowest" } else { "" });
        let step = self.index.placed(at).and_then(|placed| placed.step);
        let text = step.map(|step| format!(": {}", step.text)).unwrap_or_default();
        let line = step.and_then(|step| step.line);
        let line = line.map(|line| format!(", line {line}")).unwrap_or_default();
        let link = span.link.map(|link| format!(", link {}", self.index.timeline.link(link)));
        let link = link.unwrap_or_default();
        let bytes =
            if span.kind.is_move() { format!(", {} bytes", span.bytes) } else { String::new() };
        let title = format!(
            "{} s{}{text}{line}{link}{bytes}, round {}: {begin_us:.2} to {end_us:.2} µs",
            span.kind.name(),
            span.step,
            span.round
        );
        let _ = writeln!(
            svg,
            "<rect class=\"{class}{marked}\" x=\"{x:.2}\" y=\"{rect_y}\" width=\"{width:.2}\" \
             height=\"{rect_height}\"><title>{}</title></rect>",
            Escaped(&title)
        );
    }

    fn predicted(
        &self,
        svg: &mut String,
        y: f64,
        rank: u32,
        thread_block: u32,
        steps: impl Iterator<Item = (f64, f64, u32)>,
        left: &mut usize,
    ) {
        label(svg, y, &format!("rank {rank} block {thread_block}: model"));
        for (begin_us, end_us, step) in steps {
            if *left == 0 {
                return;
            }
            *left -= 1;
            let x = self.x(begin_us);
            let width = (self.x(end_us) - x).max(0.3);
            let (rect_y, rect_height) = (y + 4.0, ROW_HEIGHT - 8.0);
            let _ = writeln!(
                svg,
                "<rect class=\"predicted\" x=\"{x:.2}\" y=\"{rect_y}\" width=\"{width:.2}\" \
                 height=\"{rect_height}\"><title>predicted s{step}: {begin_us:.2} to {end_us:.2} µs\
                 </title></rect>"
            );
        }
    }

    /// The critical path: a line through the rows of its spans.
    fn path(&self, svg: &mut String, number: usize, rows: &[Row]) {
        let mut row_of: BTreeMap<(usize, usize), usize> = BTreeMap::new();
        for (at, row) in rows.iter().enumerate() {
            if let Row::Part { rank, part } = *row {
                row_of.insert((rank, part), at);
            }
        }
        let mut points = Vec::new();
        for piece in path(self.index, &self.index.timeline.launches[number]) {
            let (at, is_span) = match piece.kind {
                PieceKind::Span(at) => (at, true),
                PieceKind::Transit { wait, .. }
                | PieceKind::Credit { wait, .. }
                | PieceKind::Signal { wait }
                | PieceKind::Turn { wait } => (wait, false),
                PieceKind::Begin { .. } => continue,
            };
            let part = (at.rank as usize, self.index.part_of(at));
            let Some(row) = row_of.get(&part) else { continue };
            let y = TOP + (*row as f64 + 0.5) * ROW_HEIGHT;
            if is_span {
                points.push(format!("{:.1},{y:.1}", self.x(self.us(piece.begin_ns))));
            }
            points.push(format!("{:.1},{y:.1}", self.x(self.us(piece.end_ns))));
        }
        let _ = writeln!(svg, "<polyline class=\"path\" points=\"{}\"/>", points.join(" "));
    }
}

fn label(svg: &mut String, y: f64, text: &str) {
    let y = y + 11.0;
    let _ = writeln!(svg, "<text x=\"2\" y=\"{y}\">{}</text>", Escaped(text));
}

/// The class of a kind of spans in the style sheet.
pub(super) fn class(kind: SpanKind) -> &'static str {
    match kind {
        SpanKind::WaitRoom => "room",
        SpanKind::WaitData => "data",
        SpanKind::WaitBlock => "block",
        SpanKind::Copy => "copy",
        SpanKind::Reduce => "reduce",
        SpanKind::Finish => "finish",
    }
}
