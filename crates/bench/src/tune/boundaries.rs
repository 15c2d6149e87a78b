//! Where one choice ends and another begins.
//!
//! Between two measured sizes a table has what is best at the larger one. Powers of two lie so far
//! apart that this can cost a quarter: all-gathers of 600 to 960 KiB went by what is best at 1 MiB
//! (`docs/results/2026-11-24-2xh100.md`). So sizes between two neighbours that decide differently
//! are measured, too, each in the middle of what is left, until neighbours lie close together. Only
//! what did well at one of the two takes part.
//!
//! Not looked for: a third candidate that is best between two which decide alike, or differently.

use super::candidates::best_of_all;
use super::data::TunePoint;
use super::decide::{by_point, decide};
use super::rule::Rule;
use crate::case::Case;

/// Below that latency decides, which hardly changes from one power of two to the next.
const SMALL_BYTES: u64 = 32 << 10;
/// Sizes no further apart than that share of the smaller one are close together.
const CLOSE: u64 = 8;
/// Blocks of sizes between others are multiples of that, as those of powers of two are.
const GRAIN_BYTES: u64 = 256;

/// Measures between neighbours among `points`, which ascend, that decide differently by `rule`, and
/// puts what `measure` gives among them. `measure` gets a call and the candidates that are to take
/// part; it gives nothing when it is to end.
pub(super) fn settle(
    points: &mut Vec<TunePoint>,
    rule: &Rule,
    mut measure: impl FnMut(Case, &[String]) -> Option<TunePoint>,
) {
    while let Some((at, case)) = open_boundary(points, rule) {
        let candidates = best_of_all(&[&points[at], &points[at + 1]], rule);
        match measure(case, &candidates) {
            Some(point) => points.insert(at + 1, point),
            None => return,
        }
    }
}

/// The first of `points` that decides differently from the next one and does not lie close to it,
/// and the call in the middle between the two.
fn open_boundary(points: &[TunePoint], rule: &Rule) -> Option<(usize, Case)> {
    let all: Vec<_> = points.iter().collect();
    let decisions = decide(&all, rule);
    let chosen = by_point(&all, &decisions);
    let mut neighbours = points.windows(2).zip(chosen.windows(2)).enumerate();
    neighbours.find_map(|(at, (points, chosen))| match (points, chosen) {
        ([smaller, larger], [Some(before), Some(after)]) if before != after => {
            Some((at, between(&smaller.case, &larger.case)?))
        }
        _ => None,
    })
}

/// The call in the middle between two, if they are not close together.
fn between(smaller: &Case, larger: &Case) -> Option<Case> {
    let small_bytes = smaller.size_bytes();
    let apart_bytes = larger.size_bytes().saturating_sub(small_bytes);
    let are_close = apart_bytes <= small_bytes / CLOSE || small_bytes < SMALL_BYTES;
    if are_close { None } else { middle(smaller, larger) }
}

/// The call halfway between two, if there is another one.
fn middle(smaller: &Case, larger: &Case) -> Option<Case> {
    let grain = (GRAIN_BYTES / smaller.element.size_bytes()).max(1);
    let count = smaller.count + larger.count.checked_sub(smaller.count)? / 2;
    let count = count - count % grain;
    (count > smaller.count && count < larger.count).then_some(Case { count, ..*smaller })
}

#[cfg(test)]
mod tests {
    use super::super::sample_data::point;
    use super::*;

    /// Of the calls between 2 to the power `first` and `last` bytes, which powers of two were
    /// measured at: `a` takes 5 µs up to `until` bytes and 9 beyond, `b` always 7. Which sizes are
    /// measured, at most `most`, and where `a` ends.
    fn check((first, last): (u32, u32), until: u64, most: usize, expected: (&[u64], u64)) {
        let times = |bytes: u64| [if bytes <= until { 5.0 } else { 9.0 }, 7.0];
        let mut points: Vec<_> =
            (first..=last).map(|power| point(power, &times(1 << power))).collect();
        let mut measured = Vec::new();
        settle(&mut points, &Rule::default(), |case, candidates| {
            assert_eq!(candidates.len(), 2, "{candidates:?}");
            let of_case = TunePoint { case, ..point(20, &times(case.size_bytes())) };
            (measured.len() < most).then(|| measured.push(case.size_bytes()))?;
            Some(of_case)
        });
        let all: Vec<_> = points.iter().collect();
        assert!(all.is_sorted_by_key(|point| point.case.size_bytes()));
        let end = decide(&all, &Rule::default()).first().map(|of| of.last);
        let end_bytes = end.map_or(0, |end| points[end].case.size_bytes());
        assert_eq!((measured.as_slice(), end_bytes), expected, "{until}");
    }

    const KIB: u64 = 1 << 10;

    #[test]
    fn boundaries_are_found_between_powers_of_two() {
        let halves = [768 * KIB, 896 * KIB, 960 * KIB];
        check((18, 21), 980 * KIB, 9, (&halves, 960 * KIB));
        check((18, 21), 700 * KIB, 9, (&[768 * KIB, 640 * KIB, 704 * KIB], 640 * KIB));
        check((18, 21), 520 * KIB, 9, (&[768 * KIB, 640 * KIB, 576 * KIB], 512 * KIB));
    }

    #[test]
    fn where_nothing_changes_nothing_is_measured() {
        check((18, 21), 8 << 20, 9, (&[], 2 << 20));
        // Or where it is small.
        check((10, 16), 3 << 10, 9, (&[], 2 << 10));
    }

    #[test]
    fn it_ends_when_time_is_over() {
        check((18, 21), 980 * KIB, 1, (&[768 * KIB], 768 * KIB));
        check((18, 21), 980 * KIB, 0, (&[], 512 * KIB));
    }
}
