//! Who is tried where, who enters the rounds, and who stays.
//!
//! *Anchors* are the sizes at which everything is tried: the smallest, each that is [`ANCHOR_FACTOR`] times
//! the last one, and the largest.

use super::data::Point;

/// Anchors lie no further apart, if sizes do not.
const ANCHOR_FACTOR: u64 = 16;
/// How many stay after the first rounds, beside those that always do.
const STAYING: usize = 3;
/// That many times as slow as the best is hopeless at larger sizes, too.
const HOPELESS: f64 = 8.0;

/// The anchors among `sizes`, which ascend, by their numbers.
pub(super) fn anchors(sizes: &[u64]) -> Vec<usize> {
    let mut anchors: Vec<usize> = Vec::new();
    for (index, &size) in sizes.iter().enumerate() {
        let last = anchors.last().map(|&last| sizes[last].saturating_mul(ANCHOR_FACTOR));
        if last.is_none_or(|last| size >= last) || index + 1 == sizes.len() {
            anchors.push(index);
        }
    }
    anchors
}

/// The fastest `most` at a glance.
pub(super) fn at_a_glance(point: &Point, most: usize) -> Vec<String> {
    let sound = point.trials.iter().filter(|trial| trial.fault.is_none());
    let mut seen: Vec<_> = sound.filter_map(|trial| Some((trial, trial.glance_us?))).collect();
    seen.sort_by(|(a, a_us), (b, b_us)| a_us.total_cmp(b_us).then_with(|| a.choice.cmp(&b.choice)));
    seen.into_iter().take(most).map(|(trial, _)| trial.choice.clone()).collect()
}

/// Puts those that did well elsewhere first, after what the library chooses itself: time may end early.
pub(super) fn prefer(point: &mut Point, favourites: &[String]) {
    let present = point.present.clone();
    point.trials.sort_by_key(|trial| {
        let is_favourite = favourites.contains(&trial.choice);
        (present.as_ref() != Some(&trial.choice), !is_favourite)
    });
}

/// What was far behind at a glance.
pub(super) fn hopeless_at(point: &Point) -> Vec<String> {
    let seen = point.trials.iter().filter_map(|trial| Some((trial, trial.glance_us?)));
    let best_us = seen.clone().map(|(_, us)| us).fold(f64::INFINITY, f64::min);
    let behind = seen.filter(|(_, us)| *us > HOPELESS * best_us);
    behind.map(|(trial, _)| trial.choice.clone()).collect()
}

/// The two best of a size, which the next size measures again: ranges grow where they stay good.
pub(super) fn best_of(point: &Point) -> Vec<String> {
    point.ranking().into_iter().take(2).map(|(trial, _)| trial.choice.clone()).collect()
}

/// Who stays after the first rounds: the best, those that were best at the size before, and what the library
/// chooses itself.
pub(super) fn staying(point: &Point, before: &[String]) -> Vec<String> {
    let ranking = point.ranking();
    let ranked = ranking.iter().enumerate().filter(|(place, (trial, _))| {
        let known = before.contains(&trial.choice) || point.present.as_ref() == Some(&trial.choice);
        *place < STAYING || known
    });
    ranked.map(|(_, (trial, _))| trial.choice.clone()).collect()
}

#[cfg(test)]
mod tests {
    use super::super::sample_data::point;
    use super::*;

    #[test]
    fn everything_is_tried_at_sizes_not_too_far_apart() {
        let sizes: Vec<u64> = (10..=30).map(|power| 1 << power).collect();
        assert_eq!(anchors(&sizes), [0, 4, 8, 12, 16, 20]);
        assert_eq!(anchors(&sizes[..7]), [0, 4, 6]);
        assert_eq!(anchors(&[1024, 16384 * 4, 1 << 20]), [0, 1, 2]);
        assert_eq!(anchors(&[8]), [0]);
        assert!(anchors(&[]).is_empty());
    }

    #[test]
    fn the_best_at_a_glance_enter_and_the_best_of_rounds_stay() {
        let mut one = point(10, &[3.0, 2.0, 1.0]);
        assert_eq!(at_a_glance(&one, 2), ["LL 4 512 c", "LL 4 512 b"]);
        one.trials[2].fault = Some("wrong".to_owned());
        assert_eq!(at_a_glance(&one, 2), ["LL 4 512 b", "LL 4 512 a"]);
        assert_eq!(best_of(&one), ["LL 4 512 b", "LL 4 512 a"]);
        one.trials[1].glance_us = Some(1000.0);
        assert_eq!(hopeless_at(&one), ["LL 4 512 b"]);
        prefer(&mut one, &["LL 4 512 c".to_owned()]);
        let order: Vec<_> = one.trials.iter().map(|trial| &trial.choice[9..]).collect();
        assert_eq!(order, ["b", "c", "a"]);
    }
}
