//! Rendered diagnostics with colors.

use crate::output::Paint;

/// Rendered diagnostics with their heads and carets painted.
pub fn painted(rendered: &str, paint: impl Fn(Paint, &str) -> String) -> String {
    let lines = rendered.lines().map(|line| {
        let head = [("error:", Paint::Bad), ("warning:", Paint::Warn)].into_iter();
        let head = head.filter_map(|(head, tone)| Some((head, line.strip_prefix(head)?, tone)));
        match head.into_iter().next() {
            Some((head, rest, tone)) => {
                format!("{}{}", paint(tone, head), paint(Paint::Strong, rest))
            }
            None if is_caret_row(line) => paint(Paint::Bad, line),
            None => line.to_owned(),
        }
    });
    lines.collect::<Vec<_>>().join("\n")
}

/// Whether a line of a rendered diagnostic underlines the principal place.
fn is_caret_row(line: &str) -> bool {
    let row = line.trim_start().strip_prefix('|').map(str::trim_start);
    row.is_some_and(|row| row.starts_with('^'))
}
