//! Why a text is no cluster.

use std::fmt;

/// A complaint about a text: where, what was expected, what was found, what to do.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ParseError {
    line: usize,
    column: usize,
    expected: String,
    found: String,
    advice: String,
}

/// A place in a text, both counted from 1, columns in characters.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Position {
    pub line: usize,
    pub column: usize,
}

impl ParseError {
    pub(super) fn new(at: Position, expected: impl Into<String>, found: &str) -> Self {
        let Position { line, column } = at;
        Self { line, column, expected: expected.into(), found: clip(found), advice: String::new() }
    }

    /// The same complaint, and what to do.
    pub(super) fn advise(mut self, advice: impl Into<String>) -> Self {
        self.advice = advice.into();
        self
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

impl fmt::Display for ParseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { line, column, expected, found, advice } = self;
        write!(f, "line {line}, column {column}: expected {expected}, found {found}")?;
        if advice.is_empty() { Ok(()) } else { write!(f, "; {advice}") }
    }
}

impl std::error::Error for ParseError {}

/// A piece of someone's text, short enough for a message.
fn clip(text: &str) -> String {
    const MOST_CHARS: usize = 80;
    match text.char_indices().nth(MOST_CHARS) {
        None => text.to_owned(),
        Some((end, _)) => format!("{}…", &text[..end]),
    }
}
