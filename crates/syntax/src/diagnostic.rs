//! Diagnostics: what was expected, what was found, where, and what to do.

use crate::Span;

/// A message about a source text.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Diagnostic {
    /// Whether it stops the pipeline.
    pub severity: Severity,
    /// One sentence: what is wrong.
    pub message: String,
    /// Places in the text, the principal one first.
    pub labels: Vec<Label>,
    /// What to do about it.
    pub hints: Vec<String>,
}

/// A place in the text, with a few words about it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Label {
    /// Where.
    pub span: Span,
    /// What is there; may be empty.
    pub text: String,
}

/// How bad it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Severity {
    /// Nothing follows.
    Error,
    /// Worth knowing; the pipeline goes on.
    Warning,
}

impl Diagnostic {
    /// An error at `span`.
    pub fn error(span: Span, message: impl Into<String>) -> Self {
        Self::at(span, Severity::Error, message)
    }

    /// A warning at `span`.
    pub fn warning(span: Span, message: impl Into<String>) -> Self {
        Self::at(span, Severity::Warning, message)
    }

    fn at(span: Span, severity: Severity, message: impl Into<String>) -> Self {
        let labels = vec![Label { span, text: String::new() }];
        Self { severity, message: message.into(), labels, hints: Vec::new() }
    }

    /// The same, with words under the principal caret.
    pub fn saying(mut self, text: impl Into<String>) -> Self {
        if let Some(first) = self.labels.first_mut() {
            first.text = text.into();
        }
        self
    }

    /// The same, with a further place.
    pub fn label(mut self, span: Span, text: impl Into<String>) -> Self {
        self.labels.push(Label { span, text: text.into() });
        self
    }

    /// The same, with a hint.
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hints.push(hint.into());
        self
    }
}
