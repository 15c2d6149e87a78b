//! The first look at a text, character by character, before any recursion.
//!
//! After [`scan`] has succeeded: the file is not too large; brackets are balanced and nest at most
//! [`MAX_NESTING`](crate::limits::MAX_NESTING) deep; strings are closed on their line; every other
//! character belongs to a token of the language. Slips that do not shift the structure (`;`, `&&`,
//! `# comment`) are reported and *mended*: the grammar reads a text of the same length in which
//! they are blanks or the nearest operator, so that one slip does not hide the next error.

mod delimiters;
mod number;
mod slip;

use std::borrow::Cow;
use std::ops::Range;

use crate::limits::MAX_FILE_BYTES;
use crate::{Diagnostic, FileId, Span};
use delimiters::Delimiters;

/// After so many slips the text is not this language, and nothing more is said.
const MAX_SLIPS: usize = 50;

/// What the first look has found.
pub(crate) struct Scan<'t> {
    /// The text for the grammar: as long as the original, slips mended.
    pub text: Cow<'t, str>,
    /// Comments, in order, from `//` to the last character of the line.
    pub comments: Vec<Range<usize>>,
    /// Slips that have been mended.
    pub slips: Vec<Diagnostic>,
}

impl Scan<'_> {
    /// The end of the last token before a place: blanks and comments do not count.
    pub(crate) fn code_before(&self, at: usize) -> usize {
        let mut end = at;
        loop {
            end = self.text[..end].trim_end().len();
            match self.comments.binary_search_by_key(&end, |comment| comment.end) {
                Ok(comment) => end = self.comments[comment].start,
                Err(_) => return end,
            }
        }
    }
}

/// Looks over a text; an error means that parsing it would say nothing true.
pub(crate) fn scan(file: FileId, text: &str) -> Result<Scan<'_>, Vec<Diagnostic>> {
    if text.len() > MAX_FILE_BYTES {
        return Err(vec![too_large(file, text.len())]);
    }
    let mut scanner = Scanner::new(file, text);
    scanner.byte_order_mark();
    while scanner.at < text.len() && !scanner.hopeless() {
        scanner.token();
    }
    scanner.finish()
}

fn too_large(file: FileId, bytes: usize) -> Diagnostic {
    let limit = MAX_FILE_BYTES >> 20;
    let message = format!("the file has {bytes} bytes; at most {limit} MiB are read");
    Diagnostic::error(Span { file, start: 0, end: 0 }, message)
        .hint("let the program compute what it repeats: `for`, `fn` and lists keep it short")
}

struct Scanner<'t> {
    file: FileId,
    text: &'t str,
    at: usize,
    line: Line,
    delimiters: Delimiters,
    comments: Vec<Range<usize>>,
    slips: Vec<Diagnostic>,
    fatal: Vec<Diagnostic>,
    mends: Vec<(Range<usize>, Mend)>,
}

/// Where the current line starts, and how far its first token is indented.
#[derive(Default)]
struct Line {
    start: usize,
    indent: Option<usize>,
}

/// What the grammar reads instead of a slip.
#[derive(Clone, Copy)]
enum Mend {
    /// Blanks.
    Blank,
    /// Zeros: some number.
    Zeros,
    /// This text, padded with blanks.
    Text(&'static str),
}

impl<'t> Scanner<'t> {
    fn new(file: FileId, text: &'t str) -> Self {
        Self {
            file,
            text,
            at: 0,
            line: Line::default(),
            delimiters: Delimiters::new(file),
            comments: Vec::new(),
            slips: Vec::new(),
            fatal: Vec::new(),
            mends: Vec::new(),
        }
    }

    fn rest(&self) -> &'t str {
        &self.text[self.at..]
    }

    fn span(&self, range: &Range<usize>) -> Span {
        Span { file: self.file, start: range.start as u32, end: range.end as u32 }
    }

    fn hopeless(&self) -> bool {
        self.slips.len() > MAX_SLIPS || self.delimiters.hopeless()
    }

    /// Some editors put one at the start of a file; it says nothing.
    fn byte_order_mark(&mut self) {
        if self.text.starts_with('\u{feff}') {
            self.at = '\u{feff}'.len_utf8();
            self.line.start = self.at;
            self.mends.push((0..self.at, Mend::Blank));
        }
    }

    /// Passes one token, comment or run of blanks.
    fn token(&mut self) {
        let rest = self.rest();
        let Some(first) = rest.chars().next() else { return };
        if matches!(first, ' ' | '\t' | '\r' | '\n') {
            return self.blank(first);
        }
        let indent = *self.line.indent.get_or_insert(self.at - self.line.start);
        match first {
            '"' => self.string(),
            '/' if rest.starts_with("//") => {
                let end = self.line_end();
                self.comments.push(self.at..end);
                self.at = end;
            }
            '(' | '[' | '{' => {
                self.delimiters.open(first, self.at, indent);
                self.at += 1;
            }
            ')' | ']' | '}' => {
                let first_on_line = self.at - self.line.start == indent;
                self.delimiters.close(first, self.at, first_on_line.then_some(indent));
                self.at += 1;
            }
            '0'..='9' => self.number(),
            'a'..='z' | 'A'..='Z' | '_' => self.at += word_bytes(rest),
            _ => self.symbol(),
        }
    }

    fn blank(&mut self, blank: char) {
        self.at += 1;
        if blank == '\n' {
            self.line = Line { start: self.at, indent: None };
        }
    }

    /// The end of the line, without blanks before it.
    fn line_end(&self) -> usize {
        let line = self.rest().split('\n').next().unwrap_or_default();
        self.at + line.trim_end().len()
    }

    fn string(&mut self) {
        let mut escaped = false;
        for (offset, byte) in self.rest().bytes().enumerate().skip(1) {
            match byte {
                b'\n' => break,
                b'"' if !escaped => return self.at += offset + 1,
                _ => escaped = byte == b'\\' && !escaped,
            }
        }
        let range = self.at..self.line_end();
        self.at = range.end;
        self.fatal.push(
            Diagnostic::error(self.span(&range), "expected `\"` before the end of the line")
                .saying("this text is not closed"),
        );
    }

    fn number(&mut self) {
        let range = self.at..self.at + number::bytes(self.rest());
        if let Some(wrong) = number::check(&self.text[range.clone()]) {
            let span = self.span(&range);
            self.slip(range.clone(), Mend::Zeros, wrong.at(span));
        }
        self.at = range.end;
    }

    fn symbol(&mut self) {
        let found = slip::find(self.rest());
        let range = self.at..self.at + found.bytes;
        if let Some((mend, message)) = found.wrong {
            let span = self.span(&range);
            self.slip(range.clone(), mend, message.at(span));
        }
        self.at = range.end;
    }

    fn slip(&mut self, range: Range<usize>, mend: Mend, diagnostic: Diagnostic) {
        self.mends.push((range, mend));
        self.slips.push(diagnostic);
    }

    fn finish(mut self) -> Result<Scan<'t>, Vec<Diagnostic>> {
        if self.slips.len() > MAX_SLIPS {
            self.slips.truncate(MAX_SLIPS);
            return Err(self.slips);
        }
        self.fatal.extend(std::mem::take(&mut self.delimiters).finish());
        if !self.fatal.is_empty() {
            self.fatal.extend(self.slips);
            self.fatal.sort_by_key(|diagnostic| diagnostic.labels.first().map(|label| label.span));
            return Err(self.fatal);
        }
        Ok(Scan {
            text: mended(self.text, &self.mends),
            comments: self.comments,
            slips: self.slips,
        })
    }
}

/// The text with each slip replaced by something as long.
fn mended<'t>(text: &'t str, mends: &[(Range<usize>, Mend)]) -> Cow<'t, str> {
    if mends.is_empty() {
        return Cow::Borrowed(text);
    }
    let mut result = String::with_capacity(text.len());
    for (range, mend) in mends {
        result.push_str(&text[result.len()..range.start]);
        let (start, pad) = match mend {
            Mend::Blank => ("", " "),
            Mend::Zeros => ("", "0"),
            Mend::Text(start) => (*start, " "),
        };
        result.push_str(start);
        result.extend(std::iter::repeat_n(pad, range.len() - start.len()));
    }
    result.push_str(&text[result.len()..]);
    Cow::Owned(result)
}

/// A message that does not yet know its place.
struct Wrong {
    message: String,
    hint: Option<&'static str>,
}

impl Wrong {
    fn at(self, span: Span) -> Diagnostic {
        let diagnostic = Diagnostic::error(span, self.message);
        match self.hint {
            Some(hint) => diagnostic.hint(hint),
            None => diagnostic,
        }
    }
}

/// The length of the name, keyword or number that a text begins with.
pub(crate) fn word_bytes(text: &str) -> usize {
    text.bytes().take_while(|byte| byte.is_ascii_alphanumeric() || *byte == b'_').count()
}
