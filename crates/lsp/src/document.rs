//! Texts that an editor has open.

use std::sync::Arc;

use lsp_types::{Position, Range, TextDocumentContentChangeEvent};

use crate::line_index::LineIndex;

/// One version of an open text. Copies are cheap.
#[derive(Clone, Debug)]
pub struct Document {
    /// Its name among the sources: the path, or the identifier if it is no file.
    pub name: Arc<str>,
    /// As the editor counts versions.
    pub version: i32,
    /// The text.
    pub text: Arc<str>,
    /// Its lines.
    pub lines: Arc<LineIndex>,
}

impl Document {
    /// A text that was opened.
    pub fn new(name: impl Into<Arc<str>>, version: i32, text: String) -> Self {
        let lines = Arc::new(LineIndex::new(&text));
        Self { name: name.into(), version, text: text.into(), lines }
    }

    /// The text after `changes`, which become version `version`.
    pub fn change(&mut self, version: i32, changes: Vec<TextDocumentContentChangeEvent>) {
        for TextDocumentContentChangeEvent { range, range_length: _, text } in changes {
            let text = match range {
                None => text,
                Some(range) => self.spliced(range, &text),
            };
            *self = Self::new(Arc::clone(&self.name), version, text);
        }
        self.version = version;
    }

    /// The text with `range` replaced. A range that ends before it starts counts the other way.
    fn spliced(&self, range: Range, new: &str) -> String {
        let (one, other) = (self.offset(range.start), self.offset(range.end));
        let (start, end) = (one.min(other), one.max(other));
        let mut text = String::with_capacity(self.text.len() - (end - start) + new.len());
        text.push_str(&self.text[..start]);
        text.push_str(new);
        text.push_str(&self.text[end..]);
        text
    }

    /// The byte at a position.
    pub fn offset(&self, position: Position) -> usize {
        self.lines.offset(&self.text, position)
    }

    /// The position of a byte.
    pub fn position(&self, at: usize) -> Position {
        self.lines.position(&self.text, at)
    }

    /// The range of bytes of this text.
    pub fn range_of(&self, bytes: std::ops::Range<usize>) -> Range {
        Range { start: self.position(bytes.start), end: self.position(bytes.end) }
    }
}
