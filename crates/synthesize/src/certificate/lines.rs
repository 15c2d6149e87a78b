//! The lines of a certificate among the comments of a program.

use super::CertificateError;

/// A line of a certificate.
pub(crate) struct Line<'t> {
    /// From 1.
    pub number: usize,
    /// What stands behind the mark.
    pub words: Vec<&'t str>,
}

impl Line<'_> {
    /// The line is not as `expected`.
    pub fn error(&self, expected: impl Into<String>) -> CertificateError {
        CertificateError::Unreadable {
            line: self.number,
            expected: expected.into(),
            found: self.words.join(" "),
        }
    }
}

/// The lines of `text` that begin with `mark`.
pub(crate) fn marked<'t>(text: &'t str, mark: &str) -> Vec<Line<'t>> {
    let numbered = text.lines().enumerate();
    numbered
        .filter_map(|(at, line)| {
            let words = line.trim_start().strip_prefix(mark)?;
            Some(Line { number: at + 1, words: words.split_whitespace().collect() })
        })
        .collect()
}

/// Reads lines one after another.
pub(crate) struct LineReader<'l, 't> {
    lines: &'l [Line<'t>],
    at: usize,
}

impl<'l, 't> LineReader<'l, 't> {
    /// From the first of `lines` on.
    pub fn new(lines: &'l [Line<'t>]) -> Self {
        Self { lines, at: 0 }
    }

    /// The next line, which is `expected`.
    pub fn next_line(&mut self, expected: &str) -> Result<&'l Line<'t>, CertificateError> {
        let line = self.lines.get(self.at).ok_or_else(|| CertificateError::Unreadable {
            line: self.lines.last().map_or(1, |line| line.number),
            expected: format!("a further line with {expected}"),
            found: "none".to_owned(),
        })?;
        self.at += 1;
        Ok(line)
    }

    /// The next lines that begin with `word`.
    pub fn all(&mut self, word: &str) -> &'l [Line<'t>] {
        let rest = self.rest();
        let count = rest.iter().take_while(|line| line.words.first() == Some(&word)).count();
        self.at += count;
        &rest[..count]
    }

    /// The lines that are still to be read.
    pub fn rest(&self) -> &'l [Line<'t>] {
        &self.lines[self.at..]
    }
}
