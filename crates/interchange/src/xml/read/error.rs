//! Why a file is not MSCCL XML.

use std::fmt;

use crate::xml::Locus;

/// A complaint about a file that is not MSCCL XML: where, what was expected, what was found, and
/// what to do.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ReadError {
    offset_bytes: usize,
    position: Position,
    locus: Locus,
    expected: String,
    found: String,
    advice: &'static str,
}

/// A line and a column, both counted from 1; columns count characters.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Position {
    pub line: usize,
    pub column: usize,
}

impl Position {
    /// The position of the byte at `offset` of `text`.
    pub(super) fn of(text: &str, offset: usize) -> Self {
        let before = &text.as_bytes()[..offset.min(text.len())];
        let line = 1 + before.iter().filter(|&&byte| byte == b'\n').count();
        let start = before.iter().rposition(|&byte| byte == b'\n').map_or(0, |at| at + 1);
        let is_start_of_char = |byte: &&u8| (**byte & 0xc0) != 0x80;
        Position { line, column: 1 + before[start..].iter().filter(is_start_of_char).count() }
    }
}

impl ReadError {
    pub(super) fn new(
        text: &str,
        offset_bytes: usize,
        locus: Locus,
        expected: impl Into<String>,
        found: impl Into<String>,
        advice: &'static str,
    ) -> Self {
        let position = Position::of(text, offset_bytes);
        let (expected, found) = (expected.into(), found.into());
        Self { offset_bytes, position, locus, expected, found, advice }
    }

    pub(super) fn encoding(offset_bytes: usize, found: &str) -> Self {
        Self {
            offset_bytes,
            position: Position { line: 1, column: 1 + offset_bytes },
            locus: Locus::default(),
            expected: "UTF-8 text".to_owned(),
            found: found.to_owned(),
            advice: "save the file as UTF-8",
        }
    }

    pub(super) fn too_large(found_bytes: usize, most_bytes: usize) -> Self {
        Self {
            offset_bytes: most_bytes,
            position: Position { line: 1, column: 1 },
            locus: Locus::default(),
            expected: format!("a file of at most {most_bytes} bytes"),
            found: format!("{found_bytes} bytes"),
            advice: "an algorithm of this size is beyond every runtime",
        }
    }

    /// Where, in bytes from the start (a byte order mark not counted).
    pub fn offset_bytes(&self) -> usize {
        self.offset_bytes
    }

    /// The line, counted from 1.
    pub fn line(&self) -> usize {
        self.position.line
    }

    /// The column, counted from 1, in characters.
    pub fn column(&self) -> usize {
        self.position.column
    }

    /// The element, by the file's own ids.
    pub fn locus(&self) -> Locus {
        self.locus
    }
}

impl fmt::Display for ReadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ReadError { offset_bytes: _, position, locus, expected, found, advice } = self;
        let Position { line, column } = position;
        write!(f, "line {line}, column {column} ({locus}): expected {expected}, found {found}")?;
        if advice.is_empty() { Ok(()) } else { write!(f, "; {advice}") }
    }
}

impl std::error::Error for ReadError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_count_lines_and_characters() {
        let text = "ab\nç<x";
        assert_eq!(Position::of(text, 0), Position { line: 1, column: 1 });
        assert_eq!(Position::of(text, 5), Position { line: 2, column: 2 });
        assert_eq!(Position::of(text, 99), Position { line: 2, column: 4 });
    }
}
