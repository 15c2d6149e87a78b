//! One line as it is drawn: which characters stand in which columns.

use unicode_width::UnicodeWidthChar;

use crate::Span;
use crate::source::floor;

/// How many columns of a long line are shown.
const WINDOW: usize = 120;

/// How many columns before the first label are shown of a long line.
const LEAD: usize = 40;

const TAB: &str = "    ";

/// A line, or a part of it, as it is drawn.
pub(super) struct ShownLine {
    /// The text to draw.
    pub shown: String,
    /// For each byte offset in the file where a character starts: its column. The last entry is the
    /// end of what is shown.
    columns: Vec<(usize, usize)>,
}

impl ShownLine {
    /// The line of a text on which the spans start.
    pub(super) fn around(text: &str, spans: &[Span]) -> Self {
        let first = spans.iter().map(|span| span.start as usize).min().unwrap_or(0);
        let first = floor(text, first);
        let start = text[..first].rfind('\n').map_or(0, |newline| newline + 1);
        let end = text[first..].find('\n').map_or(text.len(), |newline| first + newline);
        Self::draw(text, start, end, first)
    }

    /// Draws bytes `start..end`, or the part around `first` if that is too long.
    fn draw(text: &str, start: usize, end: usize, first: usize) -> Self {
        let is_long = end - start > WINDOW;
        let from = if is_long { floor(text, first.saturating_sub(LEAD).max(start)) } else { start };
        let to = if is_long { floor(text, (from + WINDOW).min(end)) } else { end };
        let mut line = Self { shown: String::new(), columns: Vec::new() };
        let mut column = 0;
        if from > start {
            line.shown.push('…');
            column = 1;
        }
        for (offset, character) in text[from..to].trim_end_matches('\r').char_indices() {
            line.columns.push((from + offset, column));
            column += line.push(character);
        }
        line.columns.push((to, column));
        if to < end {
            line.shown.push('…');
        }
        line
    }

    /// Draws a character; its width.
    fn push(&mut self, character: char) -> usize {
        match character.width() {
            _ if character == '\t' => {
                self.shown.push_str(TAB);
                TAB.len()
            }
            Some(width) if !turns_text(character) => {
                self.shown.push(character);
                width
            }
            Some(_) | None => {
                self.shown.push('\u{fffd}');
                1
            }
        }
    }

    /// The first column of a span, and how many it covers; at least one.
    pub(super) fn columns(&self, span: Span) -> (usize, usize) {
        let start = span.start as usize;
        let starting = self.columns.partition_point(|(place, _)| *place <= start).saturating_sub(1);
        let ending = self.columns.partition_point(|(place, _)| *place < span.end as usize);
        let (start, end) = (self.column(starting), self.column(ending));
        (start, end.saturating_sub(start).max(1))
    }

    /// The column of a character of the line, or the end of the line.
    fn column(&self, index: usize) -> usize {
        let found = self.columns.get(index).or(self.columns.last());
        found.map_or(0, |(_, column)| *column)
    }
}

/// Whether a character changes the direction in which text is drawn.
fn turns_text(character: char) -> bool {
    let marks = ['\u{61c}', '\u{200e}', '\u{200f}'];
    marks.contains(&character)
        || ('\u{202a}'..='\u{202e}').contains(&character)
        || ('\u{2066}'..='\u{2069}').contains(&character)
}
