//! Why a file is no topology, and what of a topology is not used.

use std::cell::RefCell;
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
    pub fn new(
        text: &str,
        offset: usize,
        expected: impl Into<String>,
        found: impl Into<String>,
    ) -> Self {
        let before = &text.as_bytes()[..offset.min(text.len())];
        let start = before.iter().rposition(|&byte| byte == b'\n').map_or(0, |at| at + 1);
        let is_start_of_char = |byte: &&u8| (**byte & 0xc0) != 0x80;
        let column = 1 + before[start..].iter().filter(is_start_of_char).count();
        let line = line_of(text, offset);
        Self { line, column, expected: expected.into(), found: clip(&found.into()) }
    }

    /// The line and the column, both counted from 1; columns count characters.
    pub fn place(&self) -> (usize, usize) {
        (self.line, self.column)
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

/// The line of the byte at `offset` of `text`, counted from 1.
fn line_of(text: &str, offset: usize) -> usize {
    let before = &text.as_bytes()[..offset.min(text.len())];
    1 + before.iter().filter(|&&byte| byte == b'\n').count()
}

/// A part of a file that is not used, or not as it stands there.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Note {
    /// The first line that it is about, counted from 1.
    pub line: usize,
    /// About how many elements it is.
    pub times: usize,
    /// What was found, and what is taken instead.
    pub message: String,
}

impl fmt::Display for Note {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Note { line, times, message } = self;
        write!(f, "line {line}: {message}")?;
        if *times > 1 { write!(f, " ({times} times)") } else { Ok(()) }
    }
}

/// Most notes that are kept.
const MOST_NOTES: usize = 64;

/// The notes on one file, each said once.
pub(super) struct Notes<'a> {
    text: &'a str,
    found: RefCell<Vec<Note>>,
}

impl<'a> Notes<'a> {
    /// None yet, about `text`.
    pub(super) fn new(text: &'a str) -> Self {
        Self { text, found: RefCell::default() }
    }

    /// Notes `message` about the byte at `offset`.
    pub(super) fn add(&self, offset: usize, message: String) {
        let mut found = self.found.borrow_mut();
        if let Some(note) = found.iter_mut().find(|note| note.message == message) {
            note.times += 1;
        } else if found.len() < MOST_NOTES {
            found.push(Note { line: line_of(self.text, offset), times: 1, message });
        }
    }

    /// All, in the order of the file.
    pub(super) fn finish(self) -> Vec<Note> {
        let mut found = self.found.into_inner();
        found.sort_by_key(|note| note.line);
        found
    }
}

/// A piece of someone's file, short enough for a message.
pub fn clip(text: &str) -> String {
    const MOST_CHARS: usize = 80;
    match text.char_indices().nth(MOST_CHARS) {
        None => text.to_owned(),
        Some((end, _)) => format!("{}…", &text[..end]),
    }
}
