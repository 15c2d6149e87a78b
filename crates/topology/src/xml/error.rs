//! Why a file is no topology.

use std::fmt;

/// A complaint about a file: where, what was expected, what was found.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ReadError {
    line: usize,
    column: usize,
    expected: String,
    found: String,
}

impl ReadError {
    /// About the byte at `offset` of `text`.
    pub(super) fn new(
        text: &str,
        offset: usize,
        expected: impl Into<String>,
        found: impl Into<String>,
    ) -> Self {
        let before = &text.as_bytes()[..offset.min(text.len())];
        let line = 1 + before.iter().filter(|&&byte| byte == b'\n').count();
        let start = before.iter().rposition(|&byte| byte == b'\n').map_or(0, |at| at + 1);
        let is_start_of_char = |byte: &&u8| (**byte & 0xc0) != 0x80;
        let column = 1 + before[start..].iter().filter(is_start_of_char).count();
        Self { line, column, expected: expected.into(), found: clip(&found.into()) }
    }

    /// The line, counted from 1.
    pub fn line(&self) -> usize {
        self.line
    }

    /// The column, counted from 1, in characters.
    pub fn column(&self) -> usize {
        self.column
    }
}

impl fmt::Display for ReadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ReadError { line, column, expected, found } = self;
        write!(f, "line {line}, column {column}: expected {expected}, found {found}")
    }
}

impl std::error::Error for ReadError {}

/// A piece of someone's file, short enough for a message.
fn clip(text: &str) -> String {
    const MOST_CHARS: usize = 80;
    match text.char_indices().nth(MOST_CHARS) {
        None => text.to_owned(),
        Some((end, _)) => format!("{}…", &text[..end]),
    }
}
