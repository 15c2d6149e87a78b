//! Who is tried where, who enters the rounds, and who stays.
//!
//! *Anchors* are the sizes at which everything is tried: the smallest, each that is
//! [`ANCHOR_FACTOR`] times the last one, and the largest.

use msccl_runtime::{Choice, Links, Variant};

use super::data::{CandidateTimes, TunePoint};
use super::rule::Rule;

/// Anchors lie no further apart, if sizes do not.
const ANCHOR_FACTOR: u64 = 16;
/// How many stay after the first rounds, in addition to those that always do.
const STAYING: usize = 3;
/// That many times as slow as the best is pruned at larger sizes, too.
const PRUNE_FACTOR: f64 = 8.0;
/// With staged links, what takes that many times as long as the best is not tried with others:
/// direct ones save one copy of two.
const PROMISING: f64 = 1.5;

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

/// How links deliver in `choice`; what is no choice of ours leaves them as they are.
pub(super) fn links_of(choice: &str) -> Links {
    choice.parse().map_or(Links::default(), |choice: Choice| choice.variant.links)
}

/// `choice` with every other kind of links.
pub(super) fn counterparts(choice: &str) -> Vec<String> {
    let Ok(choice) = choice.parse::<Choice>() else { return Vec::new() };
    let others = Links::ALL.into_iter().filter(|links| *links != choice.variant.links);
    let with = |links| {
        Choice { variant: Variant { links, ..choice.variant }, ..choice.clone() }.to_string()
    };
    others.map(with).collect()
}

/// The trials to begin with, by their numbers: those with staged links, and what the library
/// chooses itself.
pub(super) fn to_begin_with(point: &TunePoint) -> Vec<usize> {
    let first = |trial: &CandidateTimes| {
        point.present.as_ref() == Some(&trial.choice) || links_of(&trial.choice) == Links::Staged
    };
    let trials = point.trials.iter().enumerate();
    trials.filter(|(_, trial)| first(trial)).map(|(at, _)| at).collect()
}

/// The other trials by their numbers, those first that took least with staged links; without those
/// that took far too long, and without those of which nothing is known.
pub(super) fn promising(point: &TunePoint) -> Vec<usize> {
    let seen: Vec<(Choice, f64)> = point.trials.iter().filter_map(seen).collect();
    let staged: Vec<_> = seen.iter().filter(|(of, _)| of.variant.links == Links::Staged).collect();
    let best_us = seen.iter().map(|(_, us)| *us).fold(f64::INFINITY, f64::min);
    let expected_us = |trial: &CandidateTimes| {
        let choice: Choice = trial.choice.parse().ok()?;
        let untried = choice.variant.links != Links::Staged && trial.screening_us.is_none();
        let alike = staged.iter().filter(|(of, _)| is_alike(of, &choice));
        let distance = |of: &Choice| of.variant.instances.abs_diff(choice.variant.instances);
        let nearest = alike.min_by_key(|(of, _)| distance(of)).filter(|_| untried)?;
        Some(nearest.1).filter(|us| *us <= PROMISING * best_us)
    };
    let trials = point.trials.iter().enumerate();
    let mut promising: Vec<_> =
        trials.filter_map(|(at, of)| Some((at, expected_us(of)?))).collect();
    promising.sort_by(|(_, a), (_, b)| a.total_cmp(b));
    promising.into_iter().map(|(at, _)| at).collect()
}

fn seen(trial: &CandidateTimes) -> Option<(Choice, f64)> {
    let sound = trial.fault.is_none();
    Some((trial.choice.parse().ok()?, trial.screening_us.filter(|_| sound)?))
}

/// Whether they differ in links and instances at most: other links may allow fewer.
fn is_alike(one: &Choice, other: &Choice) -> bool {
    let variant = |of: &Choice| (of.variant.protocol, of.variant.threads);
    one.algorithm == other.algorithm && variant(one) == variant(other)
}

/// The fastest `most` in the screening pass, and those that are nearly as fast with fewer thread
/// blocks.
pub(super) fn fastest_screened(point: &TunePoint, most: usize, rule: &Rule) -> Vec<String> {
    let sound = point.trials.iter().filter(|trial| trial.fault.is_none());
    let mut seen: Vec<_> = sound.filter_map(|trial| Some((trial, trial.screening_us?))).collect();
    seen.sort_by(|(a, a_us), (b, b_us)| a_us.total_cmp(b_us).then_with(|| a.choice.cmp(&b.choice)));
    let fastest = seen.iter().take(most).map(|(trial, _)| *trial);
    names(fastest.chain(rule.frugal(&seen)))
}

/// What `trials` are called, each once.
fn names<'a>(trials: impl Iterator<Item = &'a CandidateTimes>) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for trial in trials {
        if !names.contains(&trial.choice) {
            names.push(trial.choice.clone());
        }
    }
    names
}

/// Puts those that did well elsewhere first, after what the library chooses itself: time may end
/// early.
pub(super) fn prefer(point: &mut TunePoint, favourites: &[String]) {
    let present = point.present.clone();
    point.trials.sort_by_key(|trial| {
        let is_favourite = favourites.contains(&trial.choice);
        (present.as_ref() != Some(&trial.choice), !is_favourite)
    });
}

/// What was much slower in the screening pass.
pub(super) fn pruned_at(point: &TunePoint) -> Vec<String> {
    let seen = point.trials.iter().filter_map(|trial| Some((trial, trial.screening_us?)));
    let best_us = seen.clone().map(|(_, us)| us).fold(f64::INFINITY, f64::min);
    let behind = seen.filter(|(_, us)| *us > PRUNE_FACTOR * best_us);
    behind.map(|(trial, _)| trial.choice.clone()).collect()
}

/// The two fastest of a size and the two best, which the next size measures again: ranges grow
/// where they stay good.
pub(super) fn best_of(point: &TunePoint, rule: &Rule) -> Vec<String> {
    best_of_all(&[point], rule)
}

/// The same of several sizes.
pub(super) fn best_of_all(points: &[&TunePoint], rule: &Rule) -> Vec<String> {
    let of_each = points.iter().flat_map(|&point| {
        let fastest = point.ranking().into_iter().take(2);
        fastest.chain(rule.best(point).into_iter().take(2))
    });
    names(of_each.map(|(trial, _)| trial))
}

/// Who stays after the first rounds: the fastest, those that are nearly as fast with fewer thread
/// blocks, those that were best at the size before, and what the library chooses itself.
pub(super) fn staying(point: &TunePoint, before: &[String], rule: &Rule) -> Vec<String> {
    let ranking = point.ranking();
    let ranked = ranking.iter().enumerate().filter(|(place, (trial, _))| {
        let known = before.contains(&trial.choice) || point.present.as_ref() == Some(&trial.choice);
        *place < STAYING || known
    });
    names(ranked.map(|(_, (trial, _))| *trial).chain(rule.frugal(&ranking)))
}

#[cfg(test)]
mod tests {
    use super::super::sample_data::{point, point_with};
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

    /// Of `candidates`, each with its time in µs or 0, those that are tried first, and then.
    #[track_caller]
    fn check(candidates: &[(&str, f64)], first: &[usize], then: &[usize]) {
        let mut one = point(20, &[]);
        one.present = None;
        let trial = |&(choice, us): &(&str, f64)| CandidateTimes {
            screening_us: Some(us).filter(|us| *us > 0.0),
            ..CandidateTimes::new(choice.to_owned(), None)
        };
        one.trials = candidates.iter().map(trial).collect();
        assert_eq!(to_begin_with(&one), first);
        assert_eq!(promising(&one), then);
    }

    #[test]
    fn direct_links_are_tried_where_staged_ones_do_well() {
        let candidates = [
            ("Simple direct 4 512 a", 0.0),
            ("Simple staged 4 512 a", 12.0),
            ("LL staged 4 512 a", 10.0),
            ("Simple staged 4 512 b", 16.0),
            ("Simple direct 4 512 b", 0.0),
            ("Simple staged 16 512 c", 40.0),
            ("Simple staged 8 512 c", 11.0),
            // 16 of them do not fit.
            ("Simple direct 9 512 c", 0.0),
            ("Simple direct 9 128 c", 0.0),
        ];
        check(&candidates, &[1, 2, 3, 5, 6], &[7, 0]);
        check(&candidates[..1], &[], &[]);
        check(&[("strange", 1.0)], &[0], &[]);
    }

    #[test]
    fn counterparts_differ_in_links() {
        let kinds = Links::ALL.map(|links| format!("Simple {links} 4 512 a b"));
        for one in &kinds {
            let others: Vec<_> = kinds.iter().filter(|kind| *kind != one).cloned().collect();
            assert_eq!(counterparts(one), others);
        }
        assert!(counterparts("strange").is_empty());
    }

    #[test]
    fn the_best_at_a_glance_enter_and_the_best_of_rounds_stay() {
        let mut one = point(10, &[3.0, 2.0, 1.0]);
        let rule = Rule::default();
        assert_eq!(fastest_screened(&one, 2, &rule), ["LL staged 4 512 c", "LL staged 4 512 b"]);
        one.trials[2].fault = Some("wrong".to_owned());
        assert_eq!(fastest_screened(&one, 2, &rule), ["LL staged 4 512 b", "LL staged 4 512 a"]);
        assert_eq!(best_of(&one, &rule), ["LL staged 4 512 b", "LL staged 4 512 a"]);
        one.trials[1].screening_us = Some(1000.0);
        assert_eq!(pruned_at(&one), ["LL staged 4 512 b"]);
        prefer(&mut one, &["LL staged 4 512 c".to_owned()]);
        let order: Vec<_> = one.trials.iter().map(|trial| &trial.choice[16..]).collect();
        assert_eq!(order, ["b", "c", "a"]);
    }

    #[test]
    fn few_thread_blocks_get_their_chance() {
        let times = [100.0, 100.1, 100.2, 100.3, 102.0, 107.0, 120.0];
        let blocks = [128, 128, 128, 128, 32, 16, 8];
        let one = point_with(&times.into_iter().zip(blocks).collect::<Vec<_>>());
        let rule = Rule::default();
        let letters = |names: Vec<String>| names.iter().map(|of| &of[16..]).collect::<String>();
        assert_eq!(letters(fastest_screened(&one, 2, &rule)), "abef");
        assert_eq!(letters(best_of(&one, &rule)), "abe");
        assert_eq!(letters(staying(&one, &[], &rule)), "abcef");
    }
}
