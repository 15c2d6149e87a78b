//! Diagnostics as text for people.
//!
//! ```text
//! error: expected `in` after the loop variable, found `of`
//!  --> ring.msccl:3:11
//!   |
//! 3 |     for c of 0..N {
//!   |           ^^
//!   |
//!   = hint: write `for i in a..b`
//! ```
//!
//! The principal label is underlined with `^`, further ones with `-`, each on a row of its own with
//! its words. Tabs are drawn as four blanks, wide characters take two columns, and control
//! characters show as `�`, so that carets stand where they should and no text can steer a terminal.
//! Of a very long line only the part around the label is shown. Spans may be empty, may extend over
//! several lines (the first is shown) or lie at the end of the file; one that lies outside of the
//! text is drawn at its end.

mod line;

use crate::{Diagnostic, FileId, Label, Severity, SourceMap};
use line::ShownLine;

impl SourceMap {
    /// One diagnostic, with excerpts of the text; ends with a newline.
    pub fn render(&self, diagnostic: &Diagnostic) -> String {
        let Diagnostic { severity, message, labels, hints } = diagnostic;
        let severity = match severity {
            Severity::Error => "error",
            Severity::Warning => "warning",
        };
        let mut out = format!("{severity}: {message}\n");
        let excerpts = self.excerpts(labels);
        let last_line =
            excerpts.iter().flat_map(|excerpt| &excerpt.rows).map(|row| row.number).max();
        let gutter = last_line.map_or(1, |line| line.to_string().len());
        for (index, excerpt) in excerpts.iter().enumerate() {
            self.excerpt(&mut out, excerpt, index == 0, gutter);
        }
        if !hints.is_empty() && !excerpts.is_empty() {
            out += &format!("{:gutter$} |\n", "");
        }
        for hint in hints {
            let indented = hint.replace('\n', &format!("\n{:gutter$}         ", ""));
            out += &format!("{:gutter$} = hint: {indented}\n", "");
        }
        out
    }

    /// Several diagnostics, a blank line between them.
    pub fn render_all(&self, diagnostics: &[Diagnostic]) -> String {
        let rendered: Vec<_> = diagnostics.iter().map(|found| self.render(found)).collect();
        rendered.join("\n")
    }

    /// The labels by file, that of the principal label first, and by line.
    fn excerpts(&self, labels: &[Label]) -> Vec<Excerpt> {
        let mut excerpts: Vec<Excerpt> = Vec::new();
        for (index, label) in labels.iter().enumerate() {
            let file = label.span.file;
            let place = self.line_column(label.span);
            let mark = Mark { span_index: index, label: label.clone() };
            match excerpts.iter_mut().find(|excerpt| excerpt.file == file) {
                Some(excerpt) => excerpt.add(place.line, mark),
                None => {
                    let mut excerpt =
                        Excerpt { file, line: place.line, column: place.column, rows: Vec::new() };
                    excerpt.add(place.line, mark);
                    excerpts.push(excerpt);
                }
            }
        }
        excerpts
    }

    fn excerpt(&self, out: &mut String, excerpt: &Excerpt, principal: bool, gutter: usize) {
        let Excerpt { file, line, column, rows } = excerpt;
        let arrow = if principal { "-->" } else { ":::" };
        *out += &format!("{:gutter$}{arrow} {}:{line}:{column}\n", "", self.name(*file));
        *out += &format!("{:gutter$} |\n", "");
        let mut previous = None;
        for row in rows {
            if previous.is_some_and(|previous: u32| previous + 1 < row.number) {
                *out += "...\n";
            }
            previous = Some(row.number);
            self.row(out, *file, row, gutter);
        }
    }

    /// A line of the text and its marks.
    fn row(&self, out: &mut String, file: FileId, row: &Row, gutter: usize) {
        let text = self.text(file);
        let spans: Vec<_> = row.marks.iter().map(|mark| mark.label.span).collect();
        let line = ShownLine::around(text, &spans);
        *out += format!("{:>gutter$} | {}", row.number, line.shown).trim_end();
        *out += "\n";
        for mark in &row.marks {
            let (start, width) = line.columns(mark.label.span);
            let sign = if mark.span_index == 0 { "^" } else { "-" };
            let underline = sign.repeat(width);
            let drawn = format!("{:gutter$} | {:start$}{underline} {}", "", "", mark.label.text);
            *out += drawn.trim_end();
            *out += "\n";
        }
    }
}

/// What is shown of one file.
struct Excerpt {
    file: FileId,
    /// The place of its first label.
    line: u32,
    column: u32,
    rows: Vec<Row>,
}

/// A line with labels.
struct Row {
    number: u32,
    marks: Vec<Mark>,
}

/// A label, and its place among all.
struct Mark {
    span_index: usize,
    label: Label,
}

impl Excerpt {
    fn add(&mut self, number: u32, mark: Mark) {
        match self.rows.binary_search_by_key(&number, |row| row.number) {
            Ok(found) => self.rows[found].marks.push(mark),
            Err(place) => self.rows.insert(place, Row { number, marks: vec![mark] }),
        }
    }
}
