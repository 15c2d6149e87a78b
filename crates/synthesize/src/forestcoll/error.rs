//! Why a file has no trees that can be used.

use std::fmt;

/// A complaint about a file: where, what was expected, what was found.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ForestCollError {
    line: usize,
    column: usize,
    expected: String,
    found: String,
}

impl ForestCollError {
    /// About the byte at `offset` of `text`.
    pub(super) fn new(
        text: &str,
        offset: usize,
        expected: impl Into<String>,
        found: impl Into<String>,
    ) -> Self {
        let before = &text.as_bytes()[..offset.min(text.len())];
        let start = before.iter().rposition(|&byte| byte == b'\n').map_or(0, |at| at + 1);
        let is_start_of_char = |byte: &&u8| (**byte & 0xc0) != 0x80;
        let column = 1 + before[start..].iter().filter(is_start_of_char).count();
        let line = 1 + before.iter().filter(|&&byte| byte == b'\n').count();
        Self { line, column, expected: expected.into(), found: clip(&found.into()) }
    }

    /// The line and the column, both counted from 1; columns count characters.
    pub fn place(&self) -> (usize, usize) {
        (self.line, self.column)
    }
}

impl fmt::Display for ForestCollError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ForestCollError { line, column, expected, found } = self;
        write!(f, "line {line}, column {column}: expected {expected}, found {found}")
    }
}

impl std::error::Error for ForestCollError {}

/// A piece of someone's file, short enough for a message.
pub(super) fn clip(text: &str) -> String {
    const CHARS_MAX: usize = 80;
    match text.char_indices().nth(CHARS_MAX) {
        None => text.to_owned(),
        Some((end, _)) => format!("{}…", &text[..end]),
    }
}
