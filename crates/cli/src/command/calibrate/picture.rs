//! Estimates over measurements, both axes logarithmic, a dot for each point.

use std::fmt::Write;

use msccl_picture::Escaped;

use super::accuracy::PointJson;

const SIDE: f64 = 480.0;
const LEFT: f64 = 64.0;
const TOP: f64 = 44.0;
const BELOW: f64 = 64.0;

/// A colour for each protocol.
const COLORS: [(&str, &str); 3] = [("Simple", "#1f6feb"), ("LL", "#d9480f"), ("LL128", "#2b8a3e")];

/// The picture of `points`, under `title`. Between the lines lie errors of at most a fifth.
pub fn svg(points: &[&PointJson], title: &str) -> String {
    let times = points.iter().flat_map(|of| [of.measured_us, of.estimated_us]);
    let logs: Vec<f64> = times.map(|us| us.max(1e-3).log10()).collect();
    let least = logs.iter().copied().fold(f64::INFINITY, f64::min).min(9.0).floor();
    let most = logs.iter().copied().fold(f64::NEG_INFINITY, f64::max).max(least + 1.0).ceil();
    let scale = |us: f64| SIDE * (us.max(1e-3).log10() - least) / (most - least);
    let (x, y) = (|us: f64| LEFT + scale(us), |us: f64| TOP + SIDE - scale(us));
    let (width, height) = (LEFT + SIDE + 20.0, TOP + SIDE + BELOW);
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" \
         font-family=\"sans-serif\" font-size=\"11\">\n\
         <rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n\
         <text x=\"{LEFT}\" y=\"18\" font-size=\"13\">{}</text>\n\
         <text x=\"{LEFT}\" y=\"34\">estimated over measured µs; dashed: 20 % off</text>\n",
        Escaped(title)
    );
    for power in least as i32..=most as i32 {
        let us = 10_f64.powi(power);
        let (at_x, at_y, right, bottom) = (x(us), y(us), LEFT + SIDE, TOP + SIDE);
        let _ = writeln!(
            svg,
            "<path d=\"M{at_x:.1} {TOP}V{bottom}M{LEFT} {at_y:.1}H{right}\" stroke=\"#e4e4e4\"/>\
             <text x=\"{at_x:.1}\" y=\"{}\" text-anchor=\"middle\">{us}</text>\
             <text x=\"{}\" y=\"{:.1}\" text-anchor=\"end\">{us}</text>",
            bottom + 16.0,
            LEFT - 6.0,
            at_y + 4.0
        );
    }
    let ends = (10_f64.powf(least), 10_f64.powf(most));
    for (factor, dashes) in [(1.0, "none"), (1.2, "4 3"), (1.0 / 1.2, "4 3")] {
        let _ = writeln!(
            svg,
            "<path d=\"M{:.1} {:.1}L{:.1} {:.1}\" stroke=\"#8a8a8a\" \
             stroke-dasharray=\"{dashes}\"/>",
            x(ends.0),
            y(ends.0 * factor),
            x(ends.1),
            y(ends.1 * factor)
        );
    }
    for (number, (protocol, color)) in COLORS.into_iter().enumerate() {
        let at_x = LEFT + 90.0 * number as f64;
        let at_y = TOP + SIDE + 44.0;
        let _ = writeln!(
            svg,
            "<circle cx=\"{at_x}\" cy=\"{}\" r=\"4\" fill=\"{color}\"/>\
             <text x=\"{}\" y=\"{at_y}\">{protocol}</text>",
            at_y - 4.0,
            at_x + 8.0
        );
        for of in points.iter().filter(|of| of.protocol == protocol) {
            let _ = writeln!(
                svg,
                "<circle cx=\"{:.1}\" cy=\"{:.1}\" r=\"1.8\" fill=\"{color}\"/>",
                x(of.measured_us),
                y(of.estimated_us)
            );
        }
    }
    svg.push_str("</svg>\n");
    svg
}
