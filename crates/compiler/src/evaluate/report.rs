//! Collecting errors and warnings: several at once, each place once.

use msccl_syntax::{Diagnostic, Span};
use rustc_hash::FxHashSet;

use super::budget::{MAX_ERRORS, MAX_WARNINGS};

/// The thing was refused, and the reason is in the [`Report`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Refused;

/// The errors and warnings found so far.
#[derive(Default)]
pub(super) struct Report {
    diagnostics: Vec<Diagnostic>,
    places: FxHashSet<Span>,
    warnings: Vec<Diagnostic>,
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

    /// Notes a warning, unless its place has one or there are too many.
    #[cold]
    pub fn warning(&mut self, diagnostic: Diagnostic) {
        let place = |of: &Diagnostic| of.labels.first().map(|label| label.span);
        let is_known = self.warnings.iter().any(|of| place(of) == place(&diagnostic));
        if !is_known && self.warnings.len() < MAX_WARNINGS {
            self.warnings.push(diagnostic);
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

    /// The warnings, if nothing was refused.
    pub fn check(self) -> Result<Vec<Diagnostic>, Vec<Diagnostic>> {
        if self.is_empty() { Ok(self.warnings) } else { Err(self.into_errors()) }
    }

    /// The errors, then the warnings, which may say why.
    pub fn into_errors(self) -> Vec<Diagnostic> {
        let Self { diagnostics: mut all, places: _, warnings } = self;
        all.extend(warnings);
        all
    }
}
