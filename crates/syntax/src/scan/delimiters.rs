//! Brackets: that they are balanced, and not too deep.
//!
//! Where a `}` is missing, the file's end shows it too late. So each `{` remembers how its line was
//! indented, and the first one whose `}` stands elsewhere is the one that is reported.

use crate::limits::MAX_NESTING;
use crate::{Diagnostic, FileId, Span};

/// Which brackets are open, and what was wrong so far.
#[derive(Default)]
pub(super) struct Delimiters {
    file: FileId,
    open: Vec<Open>,
    suspect: Option<(Open, usize)>,
    diagnostics: Vec<Diagnostic>,
    too_deep: bool,
}

#[derive(Clone, Copy)]
struct Open {
    bracket: char,
    at: usize,
    indent: usize,
}

impl Delimiters {
    pub(super) fn new(file: FileId) -> Self {
        Self { file, ..Self::default() }
    }

    /// Whether going on would say nothing new.
    pub(super) fn hopeless(&self) -> bool {
        self.too_deep || self.diagnostics.len() > super::MAX_SLIPS
    }

    fn span(&self, at: usize) -> Span {
        Span { file: self.file, start: at as u32, end: at as u32 + 1 }
    }

    /// An opening bracket on a line with that indent.
    pub(super) fn open(&mut self, bracket: char, at: usize, indent: usize) {
        if self.open.len() == MAX_NESTING {
            self.too_deep = true;
            let message = format!("brackets nest more than {MAX_NESTING} deep");
            let diagnostic = Diagnostic::error(self.span(at), message)
                .hint("name the inner parts with `let`, or move them into functions");
            return self.diagnostics.push(diagnostic);
        }
        self.open.push(Open { bracket, at, indent });
    }

    /// A closing bracket; `indent` if it is the first thing on its line.
    pub(super) fn close(&mut self, bracket: char, at: usize, indent: Option<usize>) {
        let Some(depth) = self.open.iter().rposition(|open| partner(open.bracket) == bracket)
        else {
            return self.closes_nothing(bracket, at);
        };
        for inner in self.open.split_off(depth + 1) {
            self.mismatched(inner, bracket, at);
        }
        if let Some(open) = self.open.pop()
            && bracket == '}'
            && indent.is_some_and(|indent| indent != open.indent)
        {
            self.suspect.get_or_insert((open, at));
        }
    }

    /// Taken for a slip of the inner bracket, if one is open; else there is nothing to close.
    fn closes_nothing(&mut self, bracket: char, at: usize) {
        match self.open.pop_if(|open| open.bracket != '{') {
            Some(inner) => self.mismatched(inner, bracket, at),
            None => {
                let message = format!("`{bracket}` closes nothing");
                self.diagnostics.push(Diagnostic::error(self.span(at), message));
            }
        }
    }

    fn mismatched(&mut self, open: Open, found: char, at: usize) {
        let message = format!("expected `{}`, found `{found}`", partner(open.bracket));
        let diagnostic = Diagnostic::error(self.span(at), message)
            .label(self.span(open.at), format!("this `{}` is open", open.bracket));
        self.diagnostics.push(diagnostic);
    }

    /// What was wrong, now that the file has ended.
    pub(super) fn finish(mut self) -> Vec<Diagnostic> {
        if self.too_deep {
            return self.diagnostics;
        }
        for open in std::mem::take(&mut self.open).into_iter().rev() {
            let diagnostic = self.unclosed(open);
            self.diagnostics.push(diagnostic);
        }
        self.diagnostics
    }

    fn unclosed(&mut self, open: Open) -> Diagnostic {
        let bracket = open.bracket;
        let message = format!("this `{bracket}` is never closed");
        match self.suspect.take() {
            Some((suspect, closer)) if bracket == '{' => {
                Diagnostic::error(self.span(suspect.at), message)
                    .label(self.span(closer), "this `}` stands where an outer block would end")
                    .hint("close the block with `}`")
            }
            _ => Diagnostic::error(self.span(open.at), message)
                .hint(format!("add `{}` where it ends", partner(bracket))),
        }
    }
}

fn partner(open: char) -> char {
    match open {
        '(' => ')',
        '[' => ']',
        _ => '}',
    }
}
