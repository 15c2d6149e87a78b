//! A picture of a report: bus bandwidth and time over size, both axes logarithmic, a line for every
//! library and placement.
//!
//! Only the first collective, type, reduction and root are drawn; what else a report has would make
//! lines that nobody can distinguish. Points show their figures on hovering.

pub(crate) mod axis;

use std::fmt::Write;

use msccl_picture::Escaped;

use crate::case::Case;
use crate::placement::Placement;
use crate::report::{Average, Report};
use axis::{Axis, number_label, size_label};

/// A panel's size, and the space around it, in pixels.
const WIDTH: f64 = 460.0;
const HEIGHT: f64 = 320.0;
const LEFT: f64 = 64.0;
const TOP: f64 = 56.0;
const GAP: f64 = 96.0;
const BELOW: f64 = 52.0;
const LEGEND_LINE: f64 = 18.0;

/// A color for each library, one after the other.
const COLORS: [&str; 6] = ["#1f6feb", "#d9480f", "#2b8a3e", "#862e9c", "#5c5f66", "#c2255c"];

const STYLE: &str = "\
text{font:11px ui-monospace,monospace;fill:#222}
.title{font-weight:bold;font-size:13px}
.tick{fill:#555}
.grid{stroke:#e4e4e4;stroke-width:1}
.frame{fill:none;stroke:#8a8a8a;stroke-width:1}
.line{fill:none;stroke-width:1.8}
.in-place{stroke-dasharray:5 3}";

/// A line of the picture.
struct Series {
    name: String,
    color: &'static str,
    placement: Placement,
    points: Vec<Point>,
}

/// A call of a [`Series`].
#[derive(Clone, Copy)]
struct Point {
    size_bytes: f64,
    time_us: f64,
    bus_gb_s: f64,
}

/// One of the two diagrams.
struct Panel {
    left: f64,
    title: &'static str,
    value: fn(&Point) -> f64,
}

/// The picture of `report`; `None` if nothing was measured.
pub fn svg(report: &Report, average: Average) -> Option<String> {
    let subject = report.rows.first()?.case;
    let series = all_series(report, &subject, average);
    let panels = [
        Panel { left: LEFT, title: "bus bandwidth (GB/s)", value: |point| point.bus_gb_s },
        Panel { left: LEFT + WIDTH + GAP, title: "time (us)", value: |point| point.time_us },
    ];
    let mut body = String::new();
    let title = Escaped(&title(&subject)).to_string();
    // Writing to a string cannot fail; the same for every `write!` below.
    let _ = writeln!(body, "<text x=\"{LEFT}\" y=\"22\" class=\"title\">{title}</text>");
    for panel in &panels {
        panel.draw(&series, &mut body)?;
    }
    legend(&series, &mut body);
    let width = 2.0 * (LEFT + WIDTH) + GAP;
    let height = TOP + HEIGHT + BELOW + LEGEND_LINE * series.len() as f64;
    Some(format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width:.0}\" height=\"{height:.0}\" \
         viewBox=\"0 0 {width:.0} {height:.0}\">\n<style>\n{STYLE}\n</style>\n\
         <rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n{body}</svg>\n"
    ))
}

fn title(subject: &Case) -> String {
    let Case { workload, element, ranks, .. } = subject;
    let redop = subject.redop_name().map(|redop| format!(" {redop}")).unwrap_or_default();
    let root = subject.root_rank().map(|root| format!(", root {root}")).unwrap_or_default();
    format!("{workload}, {element}{redop}{root}, {ranks} ranks")
}

fn all_series(report: &Report, subject: &Case, average: Average) -> Vec<Series> {
    let is_alike = |case: &Case| {
        let Case { count, offset_bytes, .. } = *subject;
        Case { count, offset_bytes, ..*case } == *subject
    };
    let mut all = Vec::new();
    for (index, library) in report.libraries.iter().enumerate() {
        for placement in Placement::BOTH {
            let measured = report.measured(index);
            let measured = measured.filter(|(row, at, _)| *at == placement && is_alike(&row.case));
            let points = measured.map(|(row, _, cell)| Point {
                size_bytes: row.case.size_bytes() as f64,
                time_us: cell.time_us(average),
                bus_gb_s: cell.bandwidth(&row.case, average).bus_gb_s,
            });
            all.push(Series {
                name: format!("{} {}", library.name, placement.name()),
                color: COLORS[index % COLORS.len()],
                placement,
                points: points.filter(|point| point.size_bytes > 0.0).collect(),
            });
        }
    }
    all.retain(|series| !series.points.is_empty());
    all
}

impl Panel {
    /// Frame, grid, labels and lines; `None` if there is nothing to show.
    fn draw(&self, series: &[Series], body: &mut String) -> Option<()> {
        let Self { left, title, value } = *self;
        let points = || series.iter().flat_map(|series| &series.points);
        let x = Axis::showing(points().map(|point| point.size_bytes), left, left + WIDTH)?;
        let y = Axis::showing(points().map(value), TOP + HEIGHT, TOP)?;
        for size in x.sizes() {
            let (at, label) = (x.px(size), size_label(size));
            line(body, (at, TOP), (at, TOP + HEIGHT));
            text(body, (at, TOP + HEIGHT + 16.0), "middle", "tick", &label);
        }
        for tick in y.decades() {
            let (at, label) = (y.px(tick), number_label(tick));
            line(body, (left, at), (left + WIDTH, at));
            text(body, (left - 6.0, at + 4.0), "end", "tick", &label);
        }
        let _ = writeln!(
            body,
            "<rect x=\"{left}\" y=\"{TOP}\" width=\"{WIDTH}\" height=\"{HEIGHT}\" class=\"frame\"/>"
        );
        text(body, (left, TOP - 10.0), "start", "", title);
        let middle = left + WIDTH / 2.0;
        text(body, (middle, TOP + HEIGHT + 34.0), "middle", "", "size (bytes)");
        series.iter().for_each(|series| self.draw_line(series, x, y, body));
        Some(())
    }

    fn draw_line(&self, series: &Series, x: Axis, y: Axis, body: &mut String) {
        let Series { name, color, placement, points } = series;
        let at = |point: &Point| (x.px(point.size_bytes), y.px((self.value)(point)));
        let path: Vec<String> =
            points.iter().map(at).map(|(x, y)| format!("{x:.1},{y:.1}")).collect();
        let (path, class) = (path.join(" "), placement.name());
        let _ = writeln!(
            body,
            "<polyline class=\"line {class}\" stroke=\"{color}\" points=\"{path}\"/>"
        );
        for point in points {
            let ((x, y), Point { size_bytes, time_us, bus_gb_s }) = (at(point), *point);
            let detail = format!("{name}, {size_bytes} B: {time_us:.2} us, {bus_gb_s:.2} GB/s");
            let _ = writeln!(
                body,
                "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"2.6\" fill=\"{color}\"><title>{}</title>\
                 </circle>",
                Escaped(&detail)
            );
        }
    }
}

/// Which line is which, below the panels.
fn legend(series: &[Series], body: &mut String) {
    for (index, Series { name, color, placement, points: _ }) in series.iter().enumerate() {
        let y = TOP + HEIGHT + BELOW + LEGEND_LINE * index as f64;
        let (to, class) = (LEFT + 36.0, placement.name());
        let _ = writeln!(
            body,
            "<line x1=\"{LEFT}\" y1=\"{y}\" x2=\"{to}\" y2=\"{y}\" class=\"line {class}\" \
             stroke=\"{color}\"/>"
        );
        text(body, (LEFT + 44.0, y + 4.0), "start", "", name);
    }
}

/// A line of the grid.
fn line(body: &mut String, (x1, y1): (f64, f64), (x2, y2): (f64, f64)) {
    let _ = writeln!(
        body,
        "<line x1=\"{x1:.1}\" y1=\"{y1:.1}\" x2=\"{x2:.1}\" y2=\"{y2:.1}\" class=\"grid\"/>"
    );
}

fn text(body: &mut String, (x, y): (f64, f64), anchor: &str, class: &str, text: &str) {
    let _ = writeln!(
        body,
        "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\" class=\"{class}\">{}</text>",
        Escaped(text)
    );
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample_report::report;

    #[test]
    fn there_is_a_line_for_every_library_and_placement() {
        let picture = svg(&report(), Average::Mean).unwrap();
        assert!(picture.starts_with("<svg ") && picture.ends_with("</svg>\n"));
        assert_eq!(picture.matches("<polyline").count(), 2 * 4);
        // Three sizes of ours, two of the other out of place, one in place, in both panels.
        assert_eq!(picture.matches("<circle").count(), 2 * (3 + 3 + 2 + 1));
        for text in ["allreduce, float sum, 2 ranks", "nccl in-place", ">1M<", "bus bandwidth"] {
            assert!(picture.contains(text), "{text}");
        }
        assert_eq!(picture.matches('<').count(), picture.matches('>').count());
    }

    #[test]
    fn names_are_escaped() {
        let mut report = report();
        report.libraries[0].name = "<a & b>".to_owned();
        let picture = svg(&report, Average::Mean).unwrap();
        assert!(picture.contains("&lt;a &amp; b&gt; in-place") && !picture.contains("<a &"));
    }

    #[test]
    fn nothing_measured_is_no_picture() {
        let mut report = report();
        report.rows.clear();
        assert_eq!(svg(&report, Average::Mean), None);
    }
}
