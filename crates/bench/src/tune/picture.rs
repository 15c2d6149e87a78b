//! A picture of measurements: time over size, both axes logarithmic. Every candidate that was tried
//! is a thin line, of a colour for each kind of links, what was chosen a bold line with a dot at
//! every size, hollow where links are not staged, and its thread blocks below; the other library
//! and the floor have lines of their own.

use std::fmt::Write;

use msccl_picture::Escaped;
use msccl_runtime::Links;

use super::candidates::links_of;
use super::data::{Data, TunePoint};
use super::decide::{Decision, decide, why};
use super::rule::Rule;
use crate::placement::Placement;
use crate::plot::axis::{Axis, number_label, size_label};

/// A panel's size, and the space around it, in pixels.
const WIDTH: f64 = 620.0;
const HEIGHT: f64 = 420.0;
const LEFT: f64 = 64.0;
const TOP: f64 = 56.0;
const GAP: f64 = 72.0;
const BELOW: f64 = 64.0;

const STYLE: &str = "\
text{font:11px ui-monospace,monospace;fill:#222}
.title{font-weight:bold;font-size:13px}
.tick{fill:#555}
.grid{stroke:#e4e4e4;stroke-width:1}
.frame{fill:none;stroke:#8a8a8a;stroke-width:1}
polyline{fill:none}
.tried{stroke:#1f6feb;stroke-width:.7;opacity:.35}
.direct{stroke:#9c36b5;stroke-width:.7;opacity:.5}
.tried:hover,.direct:hover{stroke-width:2.5;opacity:1}
.chosen{stroke:#1f6feb;stroke-width:3}
.present{stroke:#2b8a3e;stroke-width:1.6;stroke-dasharray:6 3}
.baseline{stroke:#d9480f;stroke-width:2}
.floor{stroke:#5c5f66;stroke-width:1.4;stroke-dasharray:2 3}
circle{fill:#1f6feb;stroke:#1f6feb;stroke-width:1.5}
.hollow{fill:white}";

/// A line of the picture: sizes in bytes with times in µs.
struct Line {
    class: &'static str,
    name: String,
    points: Vec<(f64, f64)>,
}

/// The picture of `data` and of what is chosen by `rule`, a panel for each placement; `None` if
/// nothing was measured.
pub fn picture(data: &Data, rule: &Rule) -> Option<String> {
    let mut body = String::new();
    let placements = data.placements();
    for (number, &placement) in placements.iter().enumerate() {
        let left = LEFT + number as f64 * (WIDTH + GAP);
        panel(data, rule, placement, left, &mut body)?;
    }
    let case = &data.points.first()?.case;
    let calls = if data.graph { "graphs" } else { "calls" };
    let title = format!(
        "{}, {}, {} ranks, {calls}, {}",
        case.workload, case.element, case.ranks, data.machine
    );
    let width = 2.0 * LEFT + placements.len() as f64 * (WIDTH + GAP) - GAP;
    let height = TOP + HEIGHT + BELOW;
    let title = Escaped(&title);
    Some(format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width:.0}\" height=\"{height:.0}\" \
         viewBox=\"0 0 {width:.0} {height:.0}\">\n<style>\n{STYLE}\n</style>\n\
         <rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n\
         <text x=\"{LEFT}\" y=\"22\" class=\"title\">{title}</text>\n{body}</svg>\n"
    ))
}

/// All lines of one placement with their axes; `None` if there is nothing to show.
fn panel(
    data: &Data,
    rule: &Rule,
    placement: Placement,
    left: f64,
    body: &mut String,
) -> Option<()> {
    let points = data.points_of(placement);
    let lines = lines(data, rule, &points);
    let all = || lines.iter().flat_map(|line| &line.points);
    let x = Axis::showing(all().map(|(size, _)| *size), left, left + WIDTH)?;
    let y = Axis::showing(all().map(|(_, us)| *us), TOP + HEIGHT, TOP)?;
    grid(left, x, y, body);
    let title = format!("{}: time of a call (us) over size (bytes)", placement.name());
    text(body, (left, TOP - 10.0), "start", &title);
    for line in &lines {
        let at = |(size, us): &(f64, f64)| format!("{:.1},{:.1}", x.px(*size), y.px(*us));
        let path = line.points.iter().map(at).collect::<Vec<_>>().join(" ");
        let (class, name) = (line.class, Escaped(&line.name));
        // Writing to a string cannot fail; the same for every `write!` below.
        let _ = writeln!(
            body,
            "<polyline class=\"{class}\" points=\"{path}\"><title>{name}</title></polyline>"
        );
    }
    marks(&points, rule, (x, y), body);
    legend(&lines, left, body);
    Some(())
}

/// A mark for what is chosen for each size.
fn marks(points: &[&TunePoint], rule: &Rule, (x, y): (Axis, Axis), body: &mut String) {
    for (point, choice, us) in chosen(points, rule) {
        let size = point.case.size_bytes();
        let (cx, cy) = (x.px(size as f64), y.px(us));
        let busbw = point.case.bandwidth(us).bus_gb_s;
        let blocks = point.trial(&choice).and_then(|trial| trial.blocks);
        let blocks_in_words = blocks.map(|blocks| format!(", {blocks} thread blocks"));
        let blocks_in_words = blocks_in_words.unwrap_or_default();
        let why = why(point, rule, &choice);
        let detail =
            format!("{choice}{blocks_in_words}, {size} B: {us:.2} us, {busbw:.2} GB/s; {why}");
        let detail = Escaped(&detail);
        let is_plain = links_of(&choice) == Links::Staged;
        let class = if is_plain { "" } else { " class=\"hollow\"" };
        let _ = writeln!(
            body,
            "<circle{class} cx=\"{cx:.1}\" cy=\"{cy:.1}\" r=\"3\"><title>{detail}</title></circle>"
        );
        let number = blocks.map(|blocks| blocks.to_string()).unwrap_or_default();
        text(body, (cx, cy + 14.0), "middle", &number);
    }
}

/// Thin lines first, so that the others lie above them.
fn lines(data: &Data, rule: &Rule, points: &[&TunePoint]) -> Vec<Line> {
    let size = |point: &TunePoint| point.case.size_bytes() as f64;
    let line = |class, name: &str, time_us: &dyn Fn(&TunePoint) -> Option<f64>| {
        let timed = points.iter().filter_map(|point| Some((size(point), time_us(point)?)));
        Line { class, name: name.to_owned(), points: timed.collect() }
    };
    let mut names: Vec<&str> =
        points.iter().flat_map(|point| &point.trials).map(|of| &*of.choice).collect();
    names.sort_unstable();
    names.dedup();
    let blocks = |name: &str| points.iter().find_map(|point| point.trial(name)?.blocks);
    let tried = names.into_iter().map(|name| {
        let line = line(class_of(links_of(name)), name, &|point| {
            let trial = point.trial(name)?;
            trial.time_us().or(trial.screening_us)
        });
        let blocks = blocks(name).map(|blocks| format!(", {blocks} thread blocks"));
        Line { name: line.name + &blocks.unwrap_or_default(), ..line }
    });
    let mut lines: Vec<_> = tried.collect();
    if let Some(floor) = data.floor {
        lines.push(line("floor", "floor of the wires", &|point| Some(floor.time_us(&point.case))));
    }
    if let Some(baseline) = &data.baseline {
        lines.push(line("baseline", baseline, &TunePoint::baseline_time_us));
    }
    lines.push(line("present", "without this table", &|point| {
        point.trial(point.present.as_deref()?)?.time_us()
    }));
    let best = chosen(points, rule).into_iter().map(|(point, _, us)| (size(point), us)).collect();
    lines.push(Line { class: "chosen", name: "chosen".to_owned(), points: best });
    lines.retain(|line| !line.points.is_empty());
    lines
}

/// What serves at every point, and its time in µs.
fn chosen<'a>(points: &[&'a TunePoint], rule: &Rule) -> Vec<(&'a TunePoint, String, f64)> {
    let decisions = decide(points, rule);
    let of_one = |Decision { choice, first, last }: &Decision| {
        let time =
            |point: &&'a TunePoint| Some((*point, choice.clone(), point.trial(choice)?.time_us()?));
        points[*first..=*last].iter().filter_map(time).collect::<Vec<_>>()
    };
    decisions.iter().flat_map(of_one).collect()
}

fn grid(left: f64, x: Axis, y: Axis, body: &mut String) {
    let (right, bottom) = (left + WIDTH, TOP + HEIGHT);
    for size in x.sizes() {
        let at = x.px(size);
        let _ = writeln!(
            body,
            "<line x1=\"{at:.1}\" y1=\"{TOP}\" x2=\"{at:.1}\" y2=\"{bottom}\" class=\"grid\"/>"
        );
        text(body, (at, bottom + 16.0), "middle", &size_label(size));
    }
    for tick in y.decades() {
        let at = y.px(tick);
        let _ = writeln!(
            body,
            "<line x1=\"{left}\" y1=\"{at:.1}\" x2=\"{right}\" y2=\"{at:.1}\" class=\"grid\"/>"
        );
        text(body, (left - 6.0, at + 4.0), "end", &number_label(tick));
    }
    let _ = writeln!(
        body,
        "<rect x=\"{left}\" y=\"{TOP}\" width=\"{WIDTH}\" height=\"{HEIGHT}\" class=\"frame\"/>"
    );
}

/// The class of the lines of candidates with such links.
fn class_of(links: Links) -> &'static str {
    match links {
        Links::Staged => "tried",
        Links::Direct => "direct",
        Links::CopyEngine => "copy-engine",
    }
}

/// Which line is which, below a panel; all that was tried with links of one kind is one entry.
fn legend(lines: &[Line], left: f64, body: &mut String) {
    let tried = Links::ALL.into_iter().filter_map(|links| {
        let class = class_of(links);
        let count = lines.iter().filter(|line| line.class == class).count();
        (count > 0).then(|| (class, format!("{count} with {links} links")))
    });
    let is_candidate =
        |line: &&Line| Links::ALL.into_iter().any(|links| line.class == class_of(links));
    let others = lines.iter().filter(|line| !is_candidate(line));
    let others = others.map(|line| (line.class, line.name.clone()));
    let mut x = left;
    let y = TOP + HEIGHT + 42.0;
    for (class, name) in tried.chain(others) {
        let (to, label) = (x + 24.0, x + 30.0);
        let _ = writeln!(body, "<polyline class=\"{class}\" points=\"{x:.1},{y} {to:.1},{y}\"/>");
        text(body, (label, y + 4.0), "start", &name);
        x = label + 6.8 * name.chars().count() as f64 + 14.0;
    }
}

fn text(body: &mut String, (x, y): (f64, f64), anchor: &str, text: &str) {
    let text = Escaped(text);
    let _ = writeln!(
        body,
        "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\" class=\"tick\">{text}</text>"
    );
}

#[cfg(test)]
mod tests {
    use super::super::sample_data::data;
    use super::*;

    #[test]
    fn every_candidate_is_a_line_and_what_is_chosen_is_marked() {
        let picture = picture(&data(), &Rule::default()).unwrap();
        let count = |what: &str| picture.matches(what).count();
        // Three candidates and the others, each again in the legend, where all candidates are one.
        assert_eq!(count("<polyline class=\"tried\""), 3 + 1);
        for class in ["chosen", "present", "baseline", "floor"] {
            assert_eq!(count(&format!("<polyline class=\"{class}\"")), 2, "{class}");
        }
        assert_eq!(count("<circle"), 4);
        for text in [
            "2 × &lt;GPU&gt;",
            "<title>LL staged 4 512 c, 8 thread blocks</title>",
            "LL staged 4 512 c, 8 thread blocks, 4096 B: 1.00 us, 4.10 GB/s; fastest",
            "class=\"tick\">8</text>",
            "out-of-place: time",
            "3 with staged links",
        ] {
            assert!(picture.contains(text), "{text}");
        }
        assert_eq!(count("<"), count(">"));
    }

    #[test]
    fn direct_links_stand_out() {
        let mut data = data();
        let trials = data.points.iter_mut().flat_map(|point| &mut point.trials);
        for trial in trials.filter(|trial| trial.choice.ends_with('a')) {
            trial.choice = "Simple direct 4 512 a".to_owned();
        }
        let picture = picture(&data, &Rule::default()).unwrap();
        let count = |what: &str| picture.matches(what).count();
        assert_eq!(count("<polyline class=\"tried\""), 2 + 1);
        assert_eq!(count("<polyline class=\"direct\""), 1 + 1);
        assert!(picture.contains("1 with direct links"));
        assert_eq!((count("<circle"), count("<circle class=\"hollow\"")), (4, 2));
    }

    #[test]
    fn nothing_measured_is_no_picture() {
        let mut data = data();
        data.points.clear();
        assert_eq!(picture(&data, &Rule::default()), None);
    }
}
