//! Time over size, both axes logarithmic, a line for each algorithm.

use std::fmt::Write;

use msccl_picture::Escaped;

use super::Comparison;

const WIDTH: f64 = 640.0;
const HEIGHT: f64 = 400.0;
const LEFT: f64 = 70.0;
const TOP: f64 = 48.0;
const BELOW: f64 = 44.0;
const LEGEND_LINE: f64 = 16.0;

const COLORS: [&str; 8] =
    ["#1f6feb", "#d9480f", "#2b8a3e", "#862e9c", "#5c5f66", "#c2255c", "#0b7285", "#a97100"];

/// Where sizes and times lie in the picture.
struct Scale {
    /// Logarithms to base 2 of the smallest and the largest size.
    sizes: (f64, f64),
    /// Logarithms to base 10 of the least and the largest time.
    times: (f64, f64),
}

impl Scale {
    fn of(found: &Comparison) -> Self {
        let size = |of: &crate::size::ByteSize| (of.0.max(1) as f64).log2();
        let sizes = found.sizes.iter().map(size);
        let times = found.algorithms.iter().flat_map(|of| of.times.iter().flatten());
        let times = times.map(|time| time.us.max(1e-3).log10());
        let span = |values: Vec<f64>| {
            let least = values.iter().copied().fold(f64::INFINITY, f64::min);
            let most = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            if least < most { (least, most) } else { (least.min(0.0), least.max(0.0) + 1.0) }
        };
        let (least, most) = span(times.collect());
        Self { sizes: span(sizes.collect()), times: (least.floor(), most.ceil()) }
    }

    fn x(&self, bytes: u64) -> f64 {
        let (least, most) = self.sizes;
        LEFT + WIDTH * ((bytes.max(1) as f64).log2() - least) / (most - least)
    }

    fn y(&self, log_us: f64) -> f64 {
        let (least, most) = self.times;
        TOP + HEIGHT * (1.0 - (log_us - least) / (most - least))
    }
}

/// The picture.
pub fn svg(found: &Comparison) -> String {
    let scale = Scale::of(found);
    let legend = TOP + HEIGHT + BELOW;
    let height = legend + LEGEND_LINE * (found.algorithms.len() as f64 + 1.0);
    let width = LEFT + WIDTH + 24.0;
    let (machine, source) = match &found.measured_on {
        Some(machine) => (machine.clone(), "measured"),
        None => (found.hardware.to_string(), "by estimate"),
    };
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" \
         font-family=\"sans-serif\" font-size=\"11\">\n\
         <rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n\
         <text x=\"{LEFT}\" y=\"20\" font-size=\"13\">{}</text>\n\
         <text x=\"{LEFT}\" y=\"38\">µs over size, {source}</text>\n",
        Escaped(&machine)
    );
    grid(&mut svg, found, &scale);
    for (number, of) in found.algorithms.iter().enumerate() {
        let color = COLORS[number % COLORS.len()];
        let pairs = found.sizes.iter().zip(&of.times);
        let points = pairs.filter_map(|(size, time)| {
            let us = time.as_ref().ok()?.us.max(1e-3);
            Some(format!("{:.1},{:.1}", scale.x(size.0), scale.y(us.log10())))
        });
        let points: Vec<_> = points.collect();
        let y = legend + LEGEND_LINE * number as f64;
        let _ = writeln!(
            svg,
            "<polyline points=\"{}\" fill=\"none\" stroke=\"{color}\" stroke-width=\"1.8\"/>\n\
             <rect x=\"{LEFT}\" y=\"{}\" width=\"14\" height=\"3\" fill=\"{color}\"/>\n\
             <text x=\"{}\" y=\"{y}\">{}</text>",
            points.join(" "),
            y - 5.0,
            LEFT + 20.0,
            Escaped(&of.name)
        );
    }
    svg.push_str("</svg>\n");
    svg
}

/// Lines at the sizes, and at powers of ten of a µs.
fn grid(svg: &mut String, found: &Comparison, scale: &Scale) {
    let (bottom, right) = (TOP + HEIGHT, LEFT + WIDTH);
    for size in &found.sizes {
        let x = scale.x(size.0);
        let _ = writeln!(
            svg,
            "<line x1=\"{x:.1}\" y1=\"{TOP}\" x2=\"{x:.1}\" y2=\"{bottom}\" stroke=\"#e4e4e4\"/>\
             <text x=\"{x:.1}\" y=\"{}\" text-anchor=\"middle\">{size}</text>",
            bottom + 16.0
        );
    }
    let (least, most) = scale.times;
    for power in least as i32..=most as i32 {
        let y = scale.y(power.into());
        let _ = writeln!(
            svg,
            "<line x1=\"{LEFT}\" y1=\"{y:.1}\" x2=\"{right}\" y2=\"{y:.1}\" stroke=\"#e4e4e4\"/>\
             <text x=\"{}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
            LEFT - 6.0,
            y + 4.0,
            10_f64.powi(power)
        );
    }
}
