//! Diagnostics: what was expected, what was found, where, and what to do.

use std::collections::HashMap;

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

/// Most diagnostics shown at once.
const MOST: usize = 20;

/// The first diagnostic of every place, with a hint how many more there are; a fault that every
/// rank has is one fault to its author.
pub fn condensed(diagnostics: Vec<Diagnostic>) -> Vec<Diagnostic> {
    let mut kept: Vec<(Diagnostic, usize)> = Vec::new();
    let mut places = HashMap::new();
    for diagnostic in diagnostics {
        let place = diagnostic.labels.first().map(|label| label.span);
        let known = places.get(&place).and_then(|&index: &usize| kept.get_mut(index));
        if let Some((_, more)) = known {
            *more += 1;
        } else if kept.len() < MOST {
            places.insert(place, kept.len());
            kept.push((diagnostic, 0));
        }
    }
    let counted = kept.into_iter().map(|(mut diagnostic, more)| {
        diagnostic.hints.extend(more_at_the_same_place(more));
        diagnostic
    });
    counted.collect()
}

/// The hint that `more` diagnostics of a place are not shown, if any are not.
pub fn more_at_the_same_place(more: usize) -> Option<String> {
    match more {
        0 => None,
        1 => Some("there is 1 more like this at the same place".to_owned()),
        _ => Some(format!("there are {more} more like this at the same place")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::SourceMap;

    #[test]
    fn one_place_is_shown_once() {
        let mut sources = SourceMap::new();
        let file = sources.add("x", "ab");
        let error = |start| Diagnostic::error(Span { file, start, end: start + 1 }, "wrong");
        let kept = condensed(vec![error(0), error(1), error(0), error(0)]);
        assert_eq!(kept.len(), 2);
        assert_eq!(kept[0].hints, ["there are 2 more like this at the same place"]);
        assert!(kept[1].hints.is_empty());
    }
}
