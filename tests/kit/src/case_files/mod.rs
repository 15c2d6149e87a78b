//! Tests as files: small programs with what is expected of each beside it.
//!
//! A file ends in `.msccl`, or in `.ir` if it holds algorithms in the text form. Its first
//! paragraph is its head: comments that say what it is about, and settings such as
//! `//! stage: parse`. Every other paragraph is a case. Expectations are comments, which the
//! program does not contain when it is run:
//!
//! ```text
//! //! stage: parse
//!
//! fn f(x) x + 1
//! //~     ^ error: expected `=` or `{`, found `x`
//!
//! fn f(x) = x + 1
//! //> fn f (x) = (+ x 1)
//! ```
//!
//! * `//~` with carets: a diagnostic about the line above. Hints and further places follow on lines
//!   of their own. Where carets have no room, `//~ 1:2` gives line and column within the case.
//! * `//>`: a line of what the stage makes of the program.
//!
//! The setting `around` puts every case into another text, at its `…`.
//!
//! [`check`] compares, and rewrites the files where `MSCCL_BLESS` is set.

mod read;
mod render;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use msccl_syntax::{Diagnostic, Severity, SourceMap};

/// A program of a file, and what the file says of all its programs.
pub struct Case<'a> {
    /// The program, with the text around it.
    pub text: String,
    settings: &'a BTreeMap<String, String>,
}

impl Case<'_> {
    /// The value of a setting.
    pub fn setting(&self, name: &str) -> Option<&str> {
        self.settings.get(name).map(String::as_str)
    }
}

/// What became of a case.
#[derive(Default)]
pub struct Outcome {
    /// What was found in the program.
    pub diagnostics: Vec<Found>,
    /// What the stage made of it, in lines.
    pub dump: String,
}

impl Outcome {
    /// The outcome of a stage that either makes something or says what is wrong.
    pub fn new(sources: &SourceMap, made: Result<String, Vec<Diagnostic>>) -> Self {
        match made {
            Ok(dump) => Self { diagnostics: Vec::new(), dump },
            Err(diagnostics) => Self::default().with(sources, &diagnostics),
        }
    }

    /// The same, with further diagnostics.
    pub fn with(mut self, sources: &SourceMap, diagnostics: &[Diagnostic]) -> Self {
        self.diagnostics.extend(diagnostics.iter().map(|one| Found::new(sources, one)));
        self
    }
}

/// A diagnostic as a file shows it.
pub struct Found {
    line: u32,
    column: u32,
    /// In characters, within the line; 1 at least.
    length: u32,
    message: String,
    hints: Vec<String>,
    places: Vec<Place>,
}

/// A further place of a diagnostic.
struct Place {
    line: u32,
    column: u32,
    text: String,
}

impl Found {
    fn new(sources: &SourceMap, diagnostic: &Diagnostic) -> Self {
        let severity = match diagnostic.severity {
            Severity::Error => "error",
            Severity::Warning => "warning",
        };
        let message = format!("{severity}: {}", diagnostic.message);
        let (hints, places) = (diagnostic.hints.clone(), Vec::new());
        let mut found = Self { line: 1, column: 1, length: 1, message, hints, places };
        let Some((first, others)) = diagnostic.labels.split_first() else { return found };
        let start = sources.line_column(first.span);
        let text = sources.text(first.span.file);
        let spanned = text.get(first.span.start as usize..first.span.end as usize);
        let length = spanned.unwrap_or_default().lines().next().unwrap_or_default().chars().count();
        (found.line, found.column, found.length) = (start.line, start.column, length.max(1) as u32);
        if !first.text.is_empty() {
            found.message += &format!(" ({})", first.text);
        }
        found.places.extend(others.iter().map(|label| {
            let at = sources.line_column(label.span);
            Place { line: at.line, column: at.column, text: label.text.clone() }
        }));
        found
    }

    /// The same in a text that begins a line later.
    fn shifted_up(mut self) -> Self {
        self.line -= 1;
        self.places.iter_mut().for_each(|place| place.line -= 1);
        self
    }
}

/// Runs every case of every file below `folder`, and holds what comes of it against the file.
///
/// # Panics
///
/// An expectation is not met, and `MSCCL_BLESS` is not set; or a file is not of the form above.
pub fn check(folder: &Path, run: impl Fn(&Case<'_>) -> Outcome) {
    let files = files(folder);
    assert!(!files.is_empty(), "no file ends in .msccl or .ir below {}", folder.display());
    let wrong: Vec<_> = files.iter().filter_map(|file| check_file(file, &run).err()).collect();
    assert!(wrong.is_empty(), "{}\nMSCCL_BLESS=1 rewrites the files", wrong.join("\n"));
}

fn check_file(path: &Path, run: &impl Fn(&Case<'_>) -> Outcome) -> Result<(), String> {
    let text = fs::read_to_string(path).map_err(|why| format!("{}: {why}", path.display()))?;
    let file = read::file(&text).map_err(|why| format!("{}: {why}", path.display()))?;
    let found = render::file(&file, run);
    if found == text {
        return Ok(());
    }
    if std::env::var_os("MSCCL_BLESS").is_some() {
        return fs::write(path, found).map_err(|why| format!("{}: {why}", path.display()));
    }
    Err(first_difference(path, &text, &found))
}

/// Where two texts first differ, with the lines from there to the end of the paragraph.
fn first_difference(path: &Path, expected: &str, found: &str) -> String {
    let same = expected.lines().zip(found.lines()).take_while(|(one, other)| one == other).count();
    let from = |text: &str| {
        let lines = text.lines().skip(same).take_while(|line| !line.is_empty());
        lines.map(|line| format!("    {line}\n")).collect::<String>()
    };
    let place = format!("{}:{}", path.display(), same + 1);
    format!("{place}: expected\n{}found\n{}", from(expected), from(found))
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).unwrap_or_else(|why| panic!("{}: {why}", folder.display()));
    let mut found = Vec::new();
    for path in entries.map(|entry| entry.unwrap().path()) {
        if path.is_dir() {
            found.extend(files(&path));
        } else if path.extension().is_some_and(|it| it == "msccl" || it == "ir") {
            found.push(path);
        }
    }
    found.sort();
    found
}

#[cfg(test)]
mod tests;
