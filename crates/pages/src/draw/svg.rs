//! Drawings as SVG: a small writer, and the layers written with it.

use std::fmt::{self, Write};

use msccl_picture::Escaped;

use super::layers::{Arrow, Layers};

/// An SVG document in the making; coordinates are in pixels.
#[derive(Default)]
pub struct Svg {
    body: String,
}

/// A rectangle in pixels.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Area {
    /// Left edge.
    pub x: f64,
    /// Upper edge.
    pub y: f64,
    /// To the right.
    pub width: f64,
    /// Downwards.
    pub height: f64,
}

/// A line between two points, which leaves them to the side.
#[derive(Clone, PartialEq, Debug)]
pub struct Curve {
    /// Where it starts.
    pub from: (f64, f64),
    /// Where it ends.
    pub to: (f64, f64),
    /// How far to the right it bends at both ends.
    pub bends: (f64, f64),
    /// Its color.
    pub color: &'static str,
    /// How wide it is.
    pub width: f64,
    /// What shows on hovering.
    pub detail: String,
}

/// Only for what is in the picture, also where it stands in a page.
const STYLE: &str = "\
.layers text{font:11px ui-monospace,monospace;fill:#222}
.layers .title{font-weight:bold;font-size:13px}
.layers .row,.layers .caption{fill:#555}
.layers rect{stroke:#8a8a8a;stroke-width:.6}
.layers .band{fill:#fafafa;stroke:none}
.layers .data{stroke:#4a6fa5;stroke-width:1;fill:none;marker-end:url(#head)}
.layers .order{stroke:#b0b0b0;stroke-width:.8;stroke-dasharray:3 2;fill:none;\
marker-end:url(#head)}";

const HEAD: &str = "<defs><marker id=\"head\" viewBox=\"0 0 6 6\" refX=\"6\" refY=\"3\" \
    markerWidth=\"5\" markerHeight=\"5\" orient=\"auto\"><path d=\"M0 0L6 3L0 6z\" \
    fill=\"#666\"/></marker></defs>";

impl Svg {
    fn push(&mut self, element: fmt::Arguments<'_>) {
        // Writing to a string cannot fail.
        let _ = self.body.write_fmt(element);
        self.body.push('\n');
    }

    /// Text whose base line starts at (x, y).
    pub fn text(&mut self, x: f64, y: f64, class: &str, text: &str) {
        self.push(format_args!(
            "<text x=\"{x:.1}\" y=\"{y:.1}\" class=\"{class}\">{}</text>",
            Escaped(text)
        ));
    }

    /// A filled rectangle; `detail` shows on hovering.
    pub fn area(&mut self, area: Area, fill: &str, detail: &str) {
        let Area { x, y, width, height } = area;
        self.push(format_args!(
            "<rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.2}\" height=\"{height:.1}\" \
             fill=\"{fill}\"><title>{}</title></rect>",
            Escaped(detail)
        ));
    }

    /// A background for a row.
    pub fn band(&mut self, area: Area) {
        let Area { x, y, width, height } = area;
        self.push(format_args!(
            "<rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{height:.1}\" \
             class=\"band\"/>"
        ));
    }

    /// A curve from one point to another.
    pub fn arrow(&mut self, from: (f64, f64), to: (f64, f64), class: &str) {
        let (x1, y1) = from;
        let (x2, y2) = to;
        let bend = ((x2 - x1) / 2.0).max(12.0);
        self.push(format_args!(
            "<path class=\"{class}\" d=\"M{x1:.1} {y1:.1}C{:.1} {y1:.1} {:.1} {y2:.1} {x2:.1} \
             {y2:.1}\"/>",
            x1 + bend,
            x2 - bend
        ));
    }

    /// A line without arrow heads.
    pub fn curve(&mut self, curve: &Curve) {
        let Curve { from: (x1, y1), to: (x2, y2), bends: (one, other), color, width, detail } =
            curve;
        self.push(format_args!(
            "<path fill=\"none\" stroke=\"{color}\" stroke-width=\"{width:.1}\" \
             d=\"M{x1:.1} {y1:.1}C{:.1} {y1:.1} {:.1} {y2:.1} {x2:.1} {y2:.1}\">\
             <title>{}</title></path>",
            x1 + one,
            x2 + other,
            Escaped(detail)
        ));
    }

    /// The whole document.
    pub fn document(self, width: f64, height: f64) -> String {
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"layers\" \
             width=\"{width:.0}\" height=\"{height:.0}\" \
             viewBox=\"0 0 {width:.0} {height:.0}\">\n<style>\n{STYLE}\n</style>\n{HEAD}\n\
             <rect width=\"100%\" height=\"100%\" style=\"fill:white;stroke:none\"/>\n{}</svg>\n",
            self.body
        )
    }
}

/// Width of one character of the font, in pixels.
pub const CHARACTER: f64 = 6.7;
/// Space around the picture.
pub const MARGIN: f64 = 16.0;
/// Height of the title.
pub const TITLE: f64 = 28.0;

/// Height of a line of text.
const LINE: f64 = 15.0;
const BOX_HEIGHT: f64 = 18.0;
const BOX_GAP: f64 = 4.0;
const COLUMN_GAP: f64 = 34.0;
const ROW_GAP: f64 = 10.0;

/// Where everything of a [`Layers`] lies.
struct Layout {
    /// Left edge and width of the boxes of each column.
    columns: Vec<(f64, f64)>,
    /// Upper edge of each row, and of what comes after the last.
    tops: Vec<f64>,
    width: f64,
    height: f64,
}

impl Layout {
    fn of(layers: &Layers) -> Self {
        let names = layers.rows.iter().map(|row| row.chars().count()).max().unwrap_or(0);
        let mut left = MARGIN + names as f64 * CHARACTER + 12.0;
        let mut columns = Vec::new();
        for longest in label_lengths(layers) {
            let width = longest as f64 * CHARACTER + 10.0;
            columns.push((left, width));
            left += width + COLUMN_GAP;
        }
        let mut top = MARGIN + TITLE;
        let mut tops = vec![top];
        for height in layers.row_heights() {
            top += f64::from(height) * (BOX_HEIGHT + BOX_GAP) + ROW_GAP;
            tops.push(top);
        }
        let length = |text: &String| text.chars().count() as f64 * CHARACTER + 2.0 * MARGIN;
        let captions = layers.captions.iter().map(length).fold(0.0, f64::max);
        let title = layers.title.chars().count() as f64 * CHARACTER * 1.2 + 2.0 * MARGIN;
        let width = (left - COLUMN_GAP + MARGIN).max(title).max(captions);
        let height = top + layers.captions.len() as f64 * LINE + MARGIN;
        Self { columns, tops, width, height }
    }

    fn area(&self, column: u32, row: u32, place: u32) -> Area {
        let (x, width) = self.columns[column as usize];
        let y = self.tops[row as usize] + f64::from(place) * (BOX_HEIGHT + BOX_GAP) + BOX_GAP / 2.0;
        Area { x, y, width, height: BOX_HEIGHT }
    }
}

/// The longest label of each column, in characters.
fn label_lengths(layers: &Layers) -> Vec<usize> {
    let mut longest = vec![0; layers.columns() as usize];
    for node in &layers.boxes {
        let column = &mut longest[node.column as usize];
        *column = (*column).max(node.label.chars().count());
    }
    longest
}

/// The layers as an SVG document: columns to the right, rows downwards, arrows behind boxes.
pub fn layers(layers: &Layers) -> String {
    let layout = Layout::of(layers);
    let mut svg = Svg::default();
    svg.text(MARGIN, MARGIN + 12.0, "title", &layers.title);
    for (name, edges) in layers.rows.iter().zip(layout.tops.windows(2)) {
        let height = edges[1] - edges[0] - ROW_GAP / 2.0;
        let width = layout.width - 2.0 * MARGIN;
        svg.band(Area { x: MARGIN, y: edges[0] - 2.0, width, height });
        svg.text(MARGIN + 2.0, edges[0] + BOX_HEIGHT - 4.0, "row", name);
    }
    let placed = layers.boxes.iter().zip(layers.places());
    let areas: Vec<Area> =
        placed.map(|(node, place)| layout.area(node.column, node.row, place)).collect();
    for arrow in &layers.arrows {
        draw_arrow(&mut svg, &areas, arrow);
    }
    for (node, area) in layers.boxes.iter().zip(areas) {
        svg.area(area, node.tone.color(), &node.detail);
        svg.text(area.x + 5.0, area.y + 13.0, "", &node.label);
    }
    let below = layout.tops.last().copied().unwrap_or(MARGIN + TITLE) + LINE;
    for (index, caption) in layers.captions.iter().enumerate() {
        svg.text(MARGIN, below + index as f64 * LINE, "caption", caption);
    }
    svg.document(layout.width, layout.height)
}

/// From the right edge of one box to the left edge of another.
fn draw_arrow(svg: &mut Svg, areas: &[Area], arrow: &Arrow) {
    let Arrow { from, to, carries_data } = *arrow;
    let (Some(from), Some(to)) = (areas.get(from), areas.get(to)) else { return };
    let start = (from.x + from.width, from.y + from.height / 2.0);
    let end = (to.x, to.y + to.height / 2.0);
    svg.arrow(start, end, if carries_data { "data" } else { "order" });
}

#[cfg(test)]
mod tests {
    use super::super::layers::{Node, Tone};
    use super::*;

    #[test]
    fn boxes_arrows_and_text_are_well_formed() {
        let node = |column, label: &str| Node {
            column,
            row: 0,
            label: label.to_owned(),
            detail: "a < b & \"c\"".to_owned(),
            tone: Tone::Copy,
        };
        let picture = layers(&Layers {
            title: "t".to_owned(),
            rows: vec!["r0".to_owned()],
            boxes: vec![node(0, "one"), node(1, "two"), node(1, "three")],
            arrows: vec![Arrow { from: 0, to: 2, carries_data: true }],
            captions: vec!["s: send".to_owned()],
        });
        assert_eq!(picture.matches("<title>a &lt; b &amp; &quot;c&quot;</title>").count(), 3);
        assert_eq!(picture.matches("class=\"data\"").count(), 1);
        assert!(picture.contains("class=\"caption\">s: send</text>"), "{picture}");
        assert!(picture.starts_with("<svg ") && picture.ends_with("</svg>\n"));
    }
}
