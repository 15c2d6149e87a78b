//! Places in a text, as the protocol counts them.
//!
//! A [`Position`] is a line and a number of UTF-16 code units, both from 0. Lines end with `\n`,
//! `\r\n` or `\r`, as the protocol says; the compiler's own lines end with `\n` alone, so that the
//! two must not be mixed. Spans of the compiler are bytes, and are converted here alone.

use lsp_types::{Position, Range};
use msccl_syntax::Span;

/// Where the lines of a text start.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LineIndex {
    /// The first byte of each line.
    starts: Vec<usize>,
}

impl LineIndex {
    /// The lines of `text`.
    pub fn new(text: &str) -> Self {
        let bytes = text.as_bytes();
        let ends = (0..bytes.len()).filter(|&at| match bytes[at] {
            b'\n' => true,
            b'\r' => bytes.get(at + 1) != Some(&b'\n'),
            _ => false,
        });
        Self { starts: std::iter::once(0).chain(ends.map(|end| end + 1)).collect() }
    }

    /// The position of a byte. Within a character it is that of the character; beyond the text, its
    /// end. Between `\r` and `\n` it is the end of the line.
    pub fn position(&self, text: &str, at: usize) -> Position {
        let at = floor(text, at);
        let line = self.starts.partition_point(|start| *start <= at) - 1;
        let start = self.starts[line];
        let until = at.min(self.content_end(text, line));
        let character: usize = text[start..until].chars().map(char::len_utf16).sum();
        Position { line: line as u32, character: character as u32 }
    }

    /// The byte at a position. Beyond the end of a line it is that end, without what ends the line;
    /// beyond the last line, the end of the text; between two halves of a character, its start.
    pub fn offset(&self, text: &str, position: Position) -> usize {
        let line = position.line as usize;
        let Some(&start) = self.starts.get(line) else { return text.len() };
        let mut left = position.character as usize;
        for (at, character) in text[start..self.content_end(text, line)].char_indices() {
            let units = character.len_utf16();
            if left < units {
                return start + at;
            }
            left -= units;
        }
        self.content_end(text, line)
    }

    /// The range of a span.
    pub fn range(&self, text: &str, span: Span) -> Range {
        let start = self.position(text, span.start as usize);
        Range { start, end: self.position(text, span.end as usize) }
    }

    /// The end of a line, without `\n`, `\r\n` or `\r`.
    fn content_end(&self, text: &str, line: usize) -> usize {
        let start = self.starts[line];
        let Some(&next) = self.starts.get(line + 1) else { return text.len() };
        let content = &text[start..next];
        let content = content.strip_suffix('\n').unwrap_or(content);
        start + content.strip_suffix('\r').unwrap_or(content).len()
    }
}

/// The start of the character at a byte; the end of the text for a place beyond.
fn floor(text: &str, at: usize) -> usize {
    (0..=at.min(text.len())).rev().find(|place| text.is_char_boundary(*place)).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(line: u32, character: u32) -> Position {
        Position { line, character }
    }

    #[test]
    fn characters_are_counted_in_utf16() {
        let text = "a😀b\r\né\rc\n";
        let index = LineIndex::new(text);
        let check = |at: usize, position: Position| {
            assert_eq!(index.position(text, at), position, "byte {at}");
            assert_eq!(index.offset(text, position), at, "{position:?}");
        };
        check(0, place(0, 0));
        check(1, place(0, 1));
        check(5, place(0, 3));
        check(6, place(0, 4));
        check(8, place(1, 0));
        check(10, place(1, 1));
        check(11, place(2, 0));
        check(13, place(3, 0));
    }

    #[test]
    fn places_that_do_not_exist_are_the_nearest_that_do() {
        let text = "a😀\r\nb";
        let index = LineIndex::new(text);
        assert_eq!(index.offset(text, place(0, 2)), 1, "between the halves of a pair");
        assert_eq!(index.offset(text, place(0, 9)), 5, "beyond the line");
        assert_eq!(index.offset(text, place(7, 0)), text.len(), "beyond the text");
        assert_eq!(index.position(text, 3), place(0, 1), "within a character");
        assert_eq!(index.position(text, 6), place(0, 3), "between CR and LF");
        assert_eq!(index.position(text, 99), place(1, 1));
    }
}
