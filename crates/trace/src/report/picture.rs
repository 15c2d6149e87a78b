//! A launch as a picture: a row for each thread block, time to the right.
//!
//! Names of rows are a picture of their own, beside the one that can be scrolled. What stands over
//! time has its place in parts of the width, so that a wider picture has no wider letters.

use std::collections::BTreeMap;
use std::fmt::Write;

use msccl_picture::Escaped;

use super::critical::{PieceKind, path};
use super::deviation::StepError;
use super::index::Index;
use super::moves::Expected;
use super::slowest::{SlowestStep, slowest};
use crate::predict::Prediction;
use crate::timeline::{SpanKind, SpanRef};

const LABEL_WIDTH: f64 = 104.0;
const ROW_HEIGHT: f64 = 17.0;
const TOP: f64 = 4.0;
const BOTTOM: f64 = 24.0;

/// The part of the width that a launch takes; behind it is room for the last time of the scale.
const CHART_PERCENT: f64 = 97.0;

/// Shorter spans are drawn so wide that they can be seen, in parts of the width.
const LEAST_PERCENT: f64 = 0.04;

/// Critical paths of so many pieces are drawn as one line.
const JOINED_PIECES: usize = 200;

/// So many spans have no edges, which would hide them.
const SPANS_WITH_EDGES: usize = 1500;

/// Most rows and spans of a picture; one with more cannot be read, and is slow to open.
const ROWS_MAX: usize = 300;
const SPANS_MAX: usize = 20_000;

/// What is drawn.
#[derive(Clone, Copy)]
pub(super) struct PictureSubject<'a> {
    /// The position of the launch.
    pub launch: usize,
    pub expected: &'a Expected,
    pub prediction: Option<&'a Prediction>,
    /// The first step that deviates from the prediction, if it does so in this launch.
    pub deviating: Option<&'a StepError>,
}

/// A picture of a launch.
pub(super) struct LaunchPicture {
    /// The names of the rows.
    pub labels: String,
    /// The rows.
    pub chart: String,
    /// What is marked, in one sentence.
    pub slowest: Option<String>,
    /// What is left out, in one sentence.
    pub left_out: Option<String>,
}

/// A row of a picture.
#[derive(Clone, Copy)]
enum Row {
    Part { rank: usize, part: usize },
    Predicted { rank: usize, thread_block: u32 },
}

impl Row {
    fn rank(self) -> usize {
        match self {
            Self::Part { rank, part: _ } | Self::Predicted { rank, thread_block: _ } => rank,
        }
    }
}

/// Draws a launch; where there is a prediction, it stands below each thread block of the first
/// instance. The slowest step has the class `slowest`, the first that deviates `deviating`.
pub(super) fn picture(index: &Index<'_>, subject: PictureSubject<'_>) -> LaunchPicture {
    let PictureSubject { launch: number, expected, prediction, deviating: _ } = subject;
    let launch = &index.timeline.launches[number];
    let (rows, all_rows) = rows(index, number, prediction);
    let predicted_us =
        prediction.map_or(0.0, |of| of.steps.iter().map(|step| step.end_us).fold(0.0, f64::max));
    let total_us = ((launch.end_ns - launch.begin_ns) / 1000.0).max(predicted_us).max(0.001);
    let slowest = slowest(index, number, expected);
    let height = TOP + rows.len() as f64 * ROW_HEIGHT + BOTTOM;
    let parts = index
        .timeline
        .rank_launches(launch)
        .flat_map(|(rank, of_rank)| index.timeline.ranks[rank].parts[of_rank.parts.clone()].iter());
    let spans: usize = parts.map(|part| part.spans.len()).sum();
    let edges = if spans > SPANS_WITH_EDGES { " dense" } else { "" };
    let mut drawing = Drawing {
        index,
        subject,
        begin_ns: launch.begin_ns,
        total_us,
        slowest: slowest.as_ref().map(|of: &SlowestStep| of.at),
        spans_left: SPANS_MAX,
        labels: format!(
            "<svg class=\"labels\" xmlns=\"http://www.w3.org/2000/svg\" width=\"{LABEL_WIDTH}\" \
             height=\"{height}\" font-size=\"11\">\n"
        ),
        chart: format!(
            "<svg class=\"chart{edges}\" xmlns=\"http://www.w3.org/2000/svg\" width=\"100%\" \
             height=\"{height}\" font-size=\"11\">\n"
        ),
    };
    drawing.bands(&rows);
    drawing.scale(height - BOTTOM);
    for (at, row) in rows.iter().enumerate() {
        let is_first = at == 0 || rows[at - 1].rank() != row.rank();
        drawing.row(y_of(at), *row, is_first);
    }
    drawing.path(number, &rows, height);
    let Drawing { mut labels, mut chart, spans_left, .. } = drawing;
    labels.push_str("</svg>");
    chart.push_str("</svg>");
    let mut left_out = Vec::new();
    if all_rows > rows.len() {
        left_out.push(format!("{} of {all_rows} rows are drawn", rows.len()));
    }
    if spans_left == 0 {
        left_out.push(format!("only the first {SPANS_MAX} spans are drawn"));
    }
    let left_out = (!left_out.is_empty()).then(|| left_out.join("; "));
    LaunchPicture { labels, chart, slowest: slowest.map(|of| of.text), left_out }
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
            rows.extend(
                place.map(|place| Row::Predicted { rank, thread_block: place.thread_block }),
            );
        }
    }
    let all = rows.len();
    rows.truncate(ROWS_MAX);
    (rows, all)
}

fn y_of(row: usize) -> f64 {
    TOP + row as f64 * ROW_HEIGHT
}

struct Drawing<'a> {
    index: &'a Index<'a>,
    subject: PictureSubject<'a>,
    begin_ns: f64,
    total_us: f64,
    slowest: Option<SpanRef>,
    spans_left: usize,
    labels: String,
    chart: String,
}

impl Drawing<'_> {
    /// A place in the chart, in parts of its width.
    fn x(&self, us: f64) -> f64 {
        us / self.total_us * CHART_PERCENT
    }

    fn us(&self, time_ns: f64) -> f64 {
        (time_ns - self.begin_ns) / 1000.0
    }

    /// Every other rank has another ground.
    fn bands(&mut self, rows: &[Row]) {
        let mut begin = 0;
        for (number, of_rank) in rows.chunk_by(|one, other| one.rank() == other.rank()).enumerate()
        {
            if number % 2 == 1 {
                let (y, height) = (y_of(begin), of_rank.len() as f64 * ROW_HEIGHT);
                let band = format!(
                    "<rect class=\"band\" x=\"0\" y=\"{y}\" width=\"100%\" height=\"{height}\"/>\n"
                );
                self.labels.push_str(&band);
                self.chart.push_str(&band);
            }
            begin += of_rank.len();
        }
    }

    fn scale(&mut self, bottom: f64) {
        let power = 10_f64.powf((self.total_us / 8.0).log10().floor());
        let steps = [1.0, 2.0, 5.0, 10.0].map(|factor| factor * power);
        let step_us = steps.into_iter().find(|of| *of >= self.total_us / 8.0).unwrap_or(power);
        let (unit_us, unit) = if self.total_us < 10_000.0 { (1.0, "µs") } else { (1000.0, "ms") };
        let mut tick = 0;
        while f64::from(tick) * step_us <= self.total_us && tick < 20 {
            let us = f64::from(tick) * step_us;
            let (x, y) = (self.x(us), bottom + 16.0);
            let anchor = if tick == 0 { "start" } else { "middle" };
            let label = format!("{:.3}", us / unit_us);
            let label = label.trim_end_matches('0').trim_end_matches('.');
            let _ = writeln!(
                self.chart,
                "<line class=\"grid\" x1=\"{x:.3}%\" y1=\"{TOP}\" x2=\"{x:.3}%\" y2=\"{bottom}\"/>\
                 <text x=\"{x:.3}%\" y=\"{y}\" text-anchor=\"{anchor}\">{label} {unit}</text>"
            );
            tick += 1;
        }
    }

    fn row(&mut self, y: f64, row: Row, is_first: bool) {
        let name = match row {
            Row::Predicted { .. } => "model".to_owned(),
            Row::Part { rank, part } => {
                let of = &self.index.timeline.ranks[rank].parts[part];
                match of.place {
                    None => format!("track {}", of.track),
                    Some(place) if place.instance == 0 => format!("block {}", place.thread_block),
                    Some(place) => format!("block {}.{}", place.thread_block, place.instance),
                }
            }
        };
        let (text_y, x) = (y + 12.5, LABEL_WIDTH - 8.0);
        if is_first {
            let rank = self.index.rank_number(row.rank() as u32);
            let _ = writeln!(
                self.labels,
                "<text class=\"rank\" x=\"0\" y=\"{text_y}\">rank {rank}</text>"
            );
        }
        let class = if matches!(row, Row::Predicted { .. }) { "model" } else { "row" };
        let _ = writeln!(
            self.labels,
            "<text class=\"{class}\" x=\"{x}\" y=\"{text_y}\" text-anchor=\"end\">{name}</text>"
        );
        match row {
            Row::Part { rank, part } => self.part(y, rank, part),
            Row::Predicted { rank, thread_block } => self.predicted(y, rank, thread_block),
        }
    }

    fn part(&mut self, y: f64, rank: usize, part: usize) {
        for span in self.index.timeline.ranks[rank].parts[part].spans.clone() {
            let at = SpanRef { rank: rank as u32, span: span as u32 };
            self.span(y, at);
        }
    }

    fn span(&mut self, y: f64, at: SpanRef) {
        let span = self.index.timeline.span(at);
        let (begin_us, end_us) = (self.us(span.begin_ns), self.us(span.end_ns));
        let mut class = class(span.kind).to_owned();
        if self.slowest == Some(at) {
            class += " slowest";
        }
        if self.is_deviating(at) {
            class += " deviating";
        }
        let placed = self.index.placed(at);
        let step = placed.and_then(|placed| placed.step);
        let text = step.map(|step| format!(": {}", step.text)).unwrap_or_default();
        let line = step.and_then(|step| step.line);
        let line = line.map(|line| format!(", line {line}")).unwrap_or_default();
        let link = span.link.map(|link| format!(", link {}", self.index.timeline.link(link)));
        let link = link.unwrap_or_default();
        let bytes =
            if span.kind.is_move() { format!(", {} bytes", span.bytes) } else { String::new() };
        let title = format!(
            "rank {}, {} s{}{text}{line}{link}{bytes}, round {}: {begin_us:.2} to {end_us:.2} µs",
            self.index.rank_number(at.rank),
            span.kind.name(),
            span.step,
            span.round
        );
        self.bar(&class, [y + 2.0, ROW_HEIGHT - 4.0], [begin_us, end_us], &title);
    }

    fn predicted(&mut self, y: f64, rank: usize, thread_block: u32) {
        let rank = self.index.rank_number(rank as u32);
        let steps = self.subject.prediction.map_or(&[][..], |of| &of.steps);
        for step in steps.iter().filter(|it| (it.rank, it.thread_block) == (rank, thread_block)) {
            let times_us = [step.begin_us, step.end_us];
            let title = format!(
                "rank {rank}, predicted s{}, round {}: {:.2} to {:.2} µs",
                step.step, step.round, times_us[0], times_us[1]
            );
            self.bar("predicted", [y + 4.0, ROW_HEIGHT - 8.0], times_us, &title);
        }
    }

    fn bar(&mut self, class: &str, [y, height]: [f64; 2], times_us: [f64; 2], title: &str) {
        if self.spans_left == 0 {
            return;
        }
        self.spans_left -= 1;
        let [begin, end] = times_us.map(|us| self.x(us));
        let width = (end - begin).max(LEAST_PERCENT);
        let _ = writeln!(
            self.chart,
            "<rect class=\"{class}\" x=\"{begin:.3}%\" y=\"{y}\" width=\"{width:.3}%\" \
             height=\"{height}\"><title>{}</title></rect>",
            Escaped(title)
        );
    }

    /// Whether a span is a move of the first step that deviates from the prediction.
    fn is_deviating(&self, at: SpanRef) -> bool {
        let span = self.index.timeline.span(at);
        let Some(error) = self.subject.deviating.filter(|_| span.kind.is_move()) else {
            return false;
        };
        let Some(placed) = self.index.placed(at) else { return false };
        let bundled = placed.step.map_or(1, |step| step.bundled.max(1));
        placed.part.place.is_some_and(|place| {
            (place.instance, place.thread_block) == (0, error.thread_block)
                && self.index.rank_number(at.rank) == error.rank
                && span.round == error.round
                && (span.step..span.step.saturating_add(bundled)).contains(&error.step)
        })
    }

    /// The critical path: a line through the rows of its spans.
    fn path(&mut self, number: usize, rows: &[Row], height: f64) {
        let mut row_of: BTreeMap<(usize, usize), usize> = BTreeMap::new();
        for (at, row) in rows.iter().enumerate() {
            if let Row::Part { rank, part } = *row {
                row_of.insert((rank, part), at);
            }
        }
        let pieces = path(self.index, &self.index.timeline.launches[number]);
        // Lines from row to row of very many pieces would hide the rows.
        let joint = if pieces.len() > JOINED_PIECES { 'M' } else { 'L' };
        let mut drawn = String::new();
        for piece in pieces {
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
            let y = y_of(*row) + ROW_HEIGHT / 2.0;
            let [begin, end] =
                [piece.begin_ns, piece.end_ns].map(|time_ns| self.x(self.us(time_ns)));
            let command = if drawn.is_empty() { 'M' } else { joint };
            match is_span {
                true => _ = write!(drawn, "{command}{begin:.3},{y:.1}L{end:.3},{y:.1}"),
                false => _ = write!(drawn, "{command}{end:.3},{y:.1}"),
            }
        }
        let _ = writeln!(
            self.chart,
            "<svg viewBox=\"0 0 100 {height}\" preserveAspectRatio=\"none\">\
             <path class=\"path\" d=\"{drawn}\"/></svg>"
        );
    }
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
