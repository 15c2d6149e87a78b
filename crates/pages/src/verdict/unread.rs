//! Results that nobody reads, as warnings: one for each place of the source.

use msccl_syntax::more_at_the_same_place;
use msccl_verify::{UnreadResult, Verified};

use super::{Site, located};
use crate::diagnose::{Located, Warning};
use crate::subject::Provenance;

/// Most places that are reported; a further one says how many are left out.
const MOST_PLACES: usize = 8;

/// The warnings about results of `verified` that nobody reads.
pub fn warnings(file: &str, verified: &Verified, provenance: &Provenance) -> Vec<Warning> {
    let mut places: Vec<Place> = Vec::new();
    for unread in verified.unread_results() {
        let Site { step: _, source } = located(unread.step, provenance);
        let known = places.iter_mut().find(|place| source.is_some() && place.source == source);
        match known {
            Some(place) => place.more += 1,
            None => places.push(Place { source, unread, more: 0 }),
        }
    }
    let left_out = places.len().saturating_sub(MOST_PLACES);
    let mut warnings: Vec<_> =
        places.iter().take(MOST_PLACES).map(|place| place.warning(file)).collect();
    if left_out > 0 {
        let message = format!("{left_out} more results are never read");
        warnings.push(Warning::Whole { file: file.to_owned(), message });
    }
    warnings
}

/// A place of the source, if it is known, and the first step there with an unread result.
struct Place {
    source: Option<(String, u32, u32)>,
    unread: UnreadResult,
    /// Further steps.
    more: usize,
}

impl Place {
    fn warning(&self, file: &str) -> Warning {
        let message = self.unread.to_string();
        let hint = more_at_the_same_place(self.more);
        let Some((file, line, column)) = &self.source else {
            let message = [message].into_iter().chain(hint).collect::<Vec<_>>().join("; ");
            return Warning::Whole { file: file.to_owned(), message };
        };
        let (line, column) = (*line, *column);
        let hints = hint.into_iter().collect();
        let place = Located { line, column, hints, ..Located::of_file(file, message) };
        let severity = "warning";
        let place = Located { end_line: line, end_column: column, severity, ..place };
        Warning::At(Box::new(place))
    }
}
