//! Why a command could not look at its subject: exit 2.

use std::fmt;

use msccl_syntax::Diagnostic;
use serde::Serialize;

use crate::diagnose::Located;

/// Input that could not be read or understood, or options that do not fit it.
#[derive(Debug)]
pub enum Failure {
    /// One sentence says it all.
    Message(String),
    /// Places in source texts; rendered by the caller, which holds them.
    Diagnostics {
        /// For people: excerpts with carets.
        rendered: String,
        /// For programs.
        located: Vec<Located>,
    },
}

/// What a command returns.
pub type Result<T> = std::result::Result<T, Failure>;

impl Failure {
    /// A failure that one sentence describes.
    pub fn new(message: impl Into<String>) -> Self {
        Failure::Message(message.into())
    }

    /// A file that cannot be read as what it seems to be; `place` is the line and column with which
    /// `error` begins, if it has one.
    pub fn at(file: &str, place: Option<(usize, usize)>, error: &dyn fmt::Display) -> Self {
        let text = error.to_string();
        let Some((line, column)) = place else { return Failure::new(format!("{file}: {text}")) };
        let spelled = text.strip_prefix(&format!("line {line}, column {column}"));
        let message = spelled.unwrap_or(&text).trim_start_matches([':', ' ']).to_owned();
        let number = |number: usize| u32::try_from(number).unwrap_or(u32::MAX);
        let (line, column) = (number(line), number(column));
        let located = Located { line, column, ..Located::of_file(file, message) };
        let located = Located { end_line: line, end_column: column, ..located };
        Failure::Diagnostics { rendered: format!("error: {located}"), located: vec![located] }
    }

    /// Diagnostics of a source text.
    pub fn diagnostics(sources: &msccl_syntax::SourceMap, diagnostics: &[Diagnostic]) -> Self {
        let located = diagnostics.iter().map(|it| Located::of(sources, it)).collect();
        Failure::Diagnostics { rendered: sources.render_all(diagnostics), located }
    }

    /// The object that stands for it in JSON: `{"file": …, "error": …}`.
    pub fn to_json<'a>(&'a self, file: &'a str) -> FailureJson<'a> {
        match self {
            Failure::Message(message) => {
                FailureJson { file, error: message.clone(), diagnostics: &[] }
            }
            Failure::Diagnostics { rendered: _, located } => {
                let error = located.first().map_or_else(String::new, |first| first.to_string());
                FailureJson { file, error, diagnostics: located }
            }
        }
    }
}

/// A failure, for programs.
#[derive(Serialize)]
pub struct FailureJson<'a> {
    file: &'a str,
    error: String,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    diagnostics: &'a [Located],
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::Message(message) => f.write_str(message),
            Failure::Diagnostics { rendered, located: _ } => f.write_str(rendered),
        }
    }
}
