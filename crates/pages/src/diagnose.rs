//! Diagnostics for people and for editors.

use std::fmt;

use msccl_interchange::xml::Contradiction;
use msccl_syntax::{Diagnostic, Severity, SourceMap, Span};
use serde::Serialize;

/// A diagnostic with its places resolved: what editors read.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Located {
    /// The file.
    pub file: String,
    /// One-based line of the first character.
    pub line: u32,
    /// One-based column, in characters.
    pub column: u32,
    /// One-based line after the last character.
    pub end_line: u32,
    /// One-based column after the last character.
    pub end_column: u32,
    /// `error` or `warning`.
    pub severity: &'static str,
    /// One sentence: what is wrong.
    pub message: String,
    /// Further places with what is there.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub related: Vec<Related>,
    /// What to do about it.
    pub hints: Vec<String>,
}

/// A further place of a diagnostic.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Related {
    /// The file.
    pub file: String,
    /// One-based line.
    pub line: u32,
    /// One-based column, in characters.
    pub column: u32,
    /// What is there.
    pub message: String,
}

impl Located {
    /// `diagnostic`, with the places in `sources` resolved.
    pub fn of(sources: &SourceMap, diagnostic: &Diagnostic) -> Self {
        let Diagnostic { severity, message, labels, hints } = diagnostic;
        let (first, rest) = match labels.split_first() {
            Some((first, rest)) => (Some(first), rest),
            None => (None, &[][..]),
        };
        let (start, end) = first.map_or(((1, 1), (1, 1)), |label| bounds(sources, label.span));
        let saying = first.map(|label| label.text.as_str()).filter(|text| !text.is_empty());
        Self {
            file: first.map_or_else(String::new, |label| sources.name(label.span.file).to_owned()),
            line: start.0,
            column: start.1,
            end_line: end.0,
            end_column: end.1,
            severity: match severity {
                Severity::Error => "error",
                Severity::Warning => "warning",
            },
            message: saying.map_or_else(|| message.clone(), |text| format!("{message}: {text}")),
            related: rest.iter().map(|label| Related::of(sources, label)).collect(),
            hints: hints.clone(),
        }
    }
}

impl Located {
    /// What is wrong and what to do, in one line.
    pub fn message_and_hints(&self) -> String {
        let Located { message, hints, .. } = self;
        let all: Vec<_> = [message].into_iter().chain(hints).map(String::as_str).collect();
        all.join("; ")
    }

    /// Something about a file as a whole.
    pub fn of_file(file: &str, message: String) -> Self {
        Self {
            file: file.to_owned(),
            line: 1,
            column: 1,
            end_line: 1,
            end_column: 1,
            severity: "error",
            message,
            related: Vec::new(),
            hints: Vec::new(),
        }
    }

    /// A contradiction in a file of XML.
    pub fn of_xml(file: &str, contradiction: &Contradiction) -> Self {
        let Contradiction { locus, line, column, message } = contradiction;
        let number = |number: usize| u32::try_from(number).unwrap_or(u32::MAX);
        let (line, column) = (number(*line), number(*column));
        Self {
            file: file.to_owned(),
            line,
            column,
            end_line: line,
            end_column: column,
            severity: "error",
            message: format!("{locus}: {message}"),
            related: Vec::new(),
            hints: Vec::new(),
        }
    }
}

/// What does not keep a file from being used; in one line.
#[derive(Clone)]
pub enum Warning {
    /// At a place.
    At(Box<Located>),
    /// About the file as a whole.
    Whole {
        /// The file.
        file: String,
        /// What.
        message: String,
    },
}

impl Warning {
    /// For editors.
    pub fn into_located(self) -> Located {
        match self {
            Warning::At(located) => *located,
            Warning::Whole { file, message } => {
                Located { severity: "warning", ..Located::of_file(&file, message) }
            }
        }
    }
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Warning::At(located) => {
                let Located { file, line, column, .. } = &**located;
                write!(f, "{file}:{line}:{column}: {}", located.message_and_hints())
            }
            Warning::Whole { file, message } => write!(f, "{file}: {message}"),
        }
    }
}

impl Related {
    fn of(sources: &SourceMap, label: &msccl_syntax::Label) -> Self {
        let (line, column) = bounds(sources, label.span).0;
        let file = sources.name(label.span.file).to_owned();
        Self { file, line, column, message: label.text.clone() }
    }
}

/// Line and column of a span's start and end.
fn bounds(sources: &SourceMap, span: Span) -> ((u32, u32), (u32, u32)) {
    let start = sources.line_column(span);
    let end = sources.line_column(Span { start: span.end, ..span });
    ((start.line, start.column), (end.line, end.column))
}

impl fmt::Display for Located {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Located { file, line, column, message, .. } = self;
        write!(f, "{file}:{line}:{column}: {message}")
    }
}
