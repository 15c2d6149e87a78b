//! Colors of reports, and rendered diagnostics with them.

use std::fmt;

/// What a piece of text is, for those who see colors.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Paint {
    /// Proved, correct.
    Good,
    /// Refused, wrong, errors.
    Bad,
    /// Worth a second look.
    Warn,
    /// Of lesser weight.
    Dim,
    /// The subject.
    Strong,
}

impl Paint {
    fn code(self) -> &'static str {
        match self {
            Paint::Good => "\x1b[32;1m",
            Paint::Bad => "\x1b[31;1m",
            Paint::Warn => "\x1b[33;1m",
            Paint::Dim => "\x1b[2m",
            Paint::Strong => "\x1b[1m",
        }
    }

    /// `text`, painted if it is to be.
    pub fn on(self, colored: bool, text: &dyn fmt::Display) -> String {
        if colored { format!("{}{text}\x1b[0m", self.code()) } else { text.to_string() }
    }
}

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
