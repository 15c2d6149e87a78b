//! Complaints that do not stop the reading: contradictions and warnings.

use std::collections::BTreeMap;
use std::fmt;

use super::error::Position;
use crate::xml::{Dialect, Locus};

/// Something that is well-formed MSCCL XML and yet run right by no interpreter.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Contradiction {
    /// The element, by the file's own ids.
    pub locus: Locus,
    /// The line, counted from 1.
    pub line: usize,
    /// The column, counted from 1, in characters.
    pub column: usize,
    /// What is wrong, and what to do.
    pub message: String,
}

impl fmt::Display for Contradiction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Contradiction { locus, line, column, message } = self;
        write!(f, "line {line}, column {column} ({locus}): {message}")
    }
}

/// Why the runtime of one dialect does not load the file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Demand {
    /// Whose runtime.
    pub dialect: Dialect,
    /// What it demands, and where.
    pub reason: Contradiction,
}

/// How many contradictions are kept.
const MOST: usize = 64;

/// What has been noted so far.
#[derive(Default)]
pub(super) struct Notes {
    contradictions: Vec<(usize, Locus, String)>,
    /// How many contradictions there were, kept or not.
    found: usize,
    warnings: BTreeMap<String, usize>,
    missing: BTreeMap<(&'static str, &'static str), usize>,
    demands: BTreeMap<(Dialect, String), (usize, Locus)>,
}

impl Notes {
    /// Notes a contradiction at byte `offset`.
    pub(super) fn contradiction(
        &mut self,
        offset: usize,
        locus: Locus,
        message: impl Into<String>,
    ) {
        self.found += 1;
        if self.contradictions.len() < MOST {
            self.contradictions.push((offset, locus, message.into()));
        }
    }

    /// Notes why the runtime of `dialect` does not load the file; the same reason is noted once.
    pub(super) fn demand(&mut self, dialect: Dialect, offset: usize, locus: Locus, why: String) {
        if self.demands.len() < MOST {
            self.demands.entry((dialect, why)).or_insert((offset, locus));
        }
    }

    /// Why runtimes do not load the file, each with its dialect.
    pub(super) fn demands(&self, text: &str) -> Vec<Demand> {
        let all = self.demands.iter().map(|((dialect, message), &(offset, locus))| {
            let Position { line, column } = Position::of(text, offset);
            let reason = Contradiction { locus, line, column, message: message.clone() };
            Demand { dialect: *dialect, reason }
        });
        all.collect()
    }

    /// How many contradictions there were so far. Later checks are left out where earlier ones
    /// failed, so that no contradiction is merely the consequence of another.
    pub(super) fn found(&self) -> usize {
        self.found
    }

    /// Notes a warning; the same warning is counted, not repeated.
    pub(super) fn warning(&mut self, message: String) {
        if self.warnings.len() < MOST || self.warnings.contains_key(&message) {
            *self.warnings.entry(message).or_default() += 1;
        }
    }

    /// Notes that an attribute was taken to have its default.
    pub(super) fn missing(&mut self, element: &'static str, attribute: &'static str) {
        *self.missing.entry((element, attribute)).or_default() += 1;
    }

    /// The contradictions in the order of the file, and the warnings.
    pub(super) fn finish(self, text: &str) -> (Vec<Contradiction>, Vec<String>) {
        let Notes { mut contradictions, found: _, warnings, missing, demands: _ } = self;
        contradictions.sort_by_key(|&(offset, ..)| offset);
        let located = contradictions.into_iter().map(|(offset, locus, message)| {
            let Position { line, column } = Position::of(text, offset);
            Contradiction { locus, line, column, message }
        });
        let missing = missing.into_iter().map(|((element, attribute), times)| {
            let message =
                format!("<{element}> has no `{attribute}`, which the interpreters demand");
            (message, times)
        });
        let warnings = missing.chain(warnings).map(|(message, times)| match times {
            1 => message,
            _ => format!("{message} ({times} times)"),
        });
        (located.collect(), warnings.collect())
    }
}
