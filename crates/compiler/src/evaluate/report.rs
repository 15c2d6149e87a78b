//! Collecting errors: several at once, each place once.

use msccl_syntax::{Diagnostic, Span};
use rustc_hash::FxHashSet;

use super::budget::MAX_ERRORS;

/// The thing was refused, and the reason is in the [`Report`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Refused;

/// The errors found so far.
#[derive(Default)]
pub(super) struct Report {
    diagnostics: Vec<Diagnostic>,
    places: FxHashSet<Span>,
}

impl Report {
    /// Notes an error, unless its place has one or there are too many.
    #[cold]
    pub fn error(&mut self, diagnostic: Diagnostic) -> Refused {
        let place = diagnostic.labels.first().map(|label| label.span);
        let fresh = place.is_none_or(|span| self.places.insert(span));
        if fresh && !self.is_full() {
            self.diagnostics.push(diagnostic);
        }
        Refused
    }

    /// Notes errors of another stage.
    pub fn extend(&mut self, diagnostics: Vec<Diagnostic>) {
        for diagnostic in diagnostics {
            self.error(diagnostic);
        }
    }

    /// Whether an error at this place would be news.
    pub fn is_news(&self, span: Span) -> bool {
        !self.is_full() && !self.places.contains(&span)
    }

    pub fn is_empty(&self) -> bool {
        self.diagnostics.is_empty()
    }

    /// Whether looking for more errors is of no use.
    pub fn is_full(&self) -> bool {
        self.diagnostics.len() >= MAX_ERRORS
    }

    /// `value` if nothing was refused.
    pub fn check<T>(self, value: T) -> Result<T, Vec<Diagnostic>> {
        if self.diagnostics.is_empty() { Ok(value) } else { Err(self.diagnostics) }
    }

    /// The errors.
    pub fn into_errors(self) -> Vec<Diagnostic> {
        self.diagnostics
    }
}
