//! Which of the candidates that were measured at a size are best: nearly the fastest, with the
//! fewest thread blocks.
//!
//! A call takes multiprocessors from computation that runs at the same time: one for each thread
//! block, while it runs. So of the candidates within the [margin](Rule::margin) of the fastest
//! those count that have the fewest thread blocks, and of these the fastest. Medians that differ by
//! less than [`ALIKE`], or than rounds scatter, are alike. Candidates whose number of thread blocks
//! is not known count as having more than any other.

use super::data::{CandidateTimes, TunePoint};

/// Differences of this share are no reason for a row of their own.
const ALIKE: f64 = 0.02;
/// Noise may not make worse choices than this acceptable.
const MOST: f64 = 0.10;
/// Times in the screening pass may be off by this share.
const SCREENING_ERROR: f64 = 0.05;

/// What is best.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Rule {
    /// How much longer than the fastest a candidate with fewer thread blocks may take, as a share.
    pub margin: f64,
    /// The most thread blocks that a candidate may have; one whose number is not known is out.
    pub blocks_max: Option<u32>,
}

impl Default for Rule {
    fn default() -> Self {
        Self { margin: 0.03, blocks_max: None }
    }
}

impl Rule {
    /// In a sentence.
    pub fn in_words(&self) -> String {
        let percent = 100.0 * self.margin;
        let most = self.blocks_max.map(|most| format!(" and at most {most} of them"));
        let most = most.unwrap_or_default();
        format!("Within {percent:.1}% of the fastest, that with the fewest thread blocks{most}.")
    }

    /// Whether a candidate with so many thread blocks may be chosen.
    pub(super) fn allows(&self, blocks: Option<u32>) -> bool {
        self.blocks_max.is_none_or(|most| blocks.is_some_and(|blocks| blocks <= most))
    }

    /// The trials of `point` that may be chosen, with their times in µs, fastest first.
    pub(super) fn ranking<'a>(&self, point: &'a TunePoint) -> Vec<(&'a CandidateTimes, f64)> {
        let mut ranking = point.ranking();
        ranking.retain(|(trial, _)| self.allows(trial.blocks));
        ranking
    }

    /// The best trials of `point`, which are alike, with what they lose against the fastest of them
    /// as a share.
    pub(super) fn best<'a>(&self, point: &'a TunePoint) -> Vec<(&'a CandidateTimes, f64)> {
        let nearly = within(self.ranking(point), self.margin);
        let least = nearly.iter().map(|(trial, _)| blocks(trial)).min();
        let frugal = nearly.into_iter().filter(|(trial, _)| Some(blocks(trial)) == least);
        let frugal: Vec<_> = frugal.collect();
        let best_us = frugal.first().map_or(0.0, |(_, us)| *us);
        let alike = within(frugal, ALIKE).into_iter();
        alike.map(|(trial, us)| (trial, us / best_us.max(1e-9) - 1.0)).collect()
    }

    /// Of `timed`, whose times in µs ascend, those with fewer thread blocks than all before them
    /// that may turn out to be within the margin.
    pub(super) fn frugal<'a>(
        &self,
        timed: &[(&'a CandidateTimes, f64)],
    ) -> Vec<&'a CandidateTimes> {
        let allowed = timed.iter().filter(|(trial, _)| self.allows(trial.blocks));
        let mut limit_us = None;
        let mut least = u32::MAX;
        let fewer = allowed.filter(|(trial, us)| {
            let limit_us = *limit_us.get_or_insert(us * (1.0 + self.margin + SCREENING_ERROR));
            let is_fewer = blocks(trial) < least && *us <= limit_us;
            least = least.min(blocks(trial));
            is_fewer
        });
        fewer.map(|(trial, _)| *trial).collect()
    }
}

/// Those of `ranking` that are within `margin` of the first, or as rounds scatter.
fn within(ranking: Vec<(&CandidateTimes, f64)>, margin: f64) -> Vec<(&CandidateTimes, f64)> {
    let Some(&(best, best_us)) = ranking.first() else { return ranking };
    let is_within = |(trial, us): &(&CandidateTimes, f64)| {
        let noise = 2.0 * trial.noise().max(best.noise());
        *us <= best_us * (1.0 + noise.clamp(margin, MOST.max(margin)))
    };
    ranking.into_iter().filter(is_within).collect()
}

fn blocks(trial: &CandidateTimes) -> u32 {
    trial.blocks.unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::super::sample_data::point_with;
    use super::*;

    /// Which of `a`, `b`, … are best, each with its time in µs and its thread blocks.
    #[track_caller]
    fn check(rule: Rule, candidates: &[(f64, u32)], expected: &str) {
        let point = point_with(candidates);
        let best = rule.best(&point);
        let names: String = best.iter().filter_map(|(of, _)| of.choice.chars().last()).collect();
        assert_eq!(names, expected, "{candidates:?}");
    }

    #[test]
    fn few_thread_blocks_are_worth_the_margin() {
        let rule = Rule::default();
        check(rule, &[(100.0, 128), (102.9, 32), (103.1, 8)], "b");
        check(rule, &[(100.0, 128), (102.9, 32), (101.0, 64)], "b");
        check(Rule { margin: 0.04, ..rule }, &[(100.0, 128), (102.9, 32), (103.1, 8)], "c");
        check(Rule { margin: 0.0, ..rule }, &[(100.0, 128), (102.9, 32)], "a");
        // Of as many blocks the fastest, and what is like it.
        check(rule, &[(100.0, 128), (101.0, 32), (102.0, 32), (103.0, 32)], "bcd");
        check(rule, &[(100.0, 128), (100.1, 32), (102.9, 32)], "b");
    }

    #[test]
    fn a_limit_counts_before_the_margin() {
        let rule = Rule { blocks_max: Some(16), ..Rule::default() };
        check(rule, &[(100.0, 128), (150.0, 16), (200.0, 8)], "b");
        check(rule, &[(100.0, 128), (150.0, 17)], "");
        // What is not known is not known to be little.
        check(rule, &[(100.0, 0), (150.0, 16)], "b");
        check(Rule::default(), &[(100.0, 0), (101.0, 128)], "b");
        check(Rule::default(), &[(100.0, 0), (101.0, 0)], "ab");
    }

    #[test]
    fn noise_widens_the_margin() {
        let mut point = point_with(&[(100.0, 128), (106.0, 16)]);
        let chosen = |point: &TunePoint| Rule::default().best(point)[0].0.blocks;
        assert_eq!(chosen(&point), Some(128));
        point.trials[1].rounds_us = vec![106.0, 101.0, 111.0, 102.0, 110.0];
        assert_eq!(chosen(&point), Some(16));
    }

    #[test]
    fn whoever_may_be_within_the_margin_is_looked_at_again() {
        let point = point_with(&[(100.0, 128), (101.0, 128), (103.0, 64), (107.9, 8), (108.1, 4)]);
        let names = |rule: Rule| -> String {
            let frugal = rule.frugal(&point.ranking());
            frugal.iter().filter_map(|trial| trial.choice.chars().last()).collect()
        };
        assert_eq!(names(Rule::default()), "acd");
        assert_eq!(names(Rule { blocks_max: Some(64), ..Rule::default() }), "cde");
    }

    #[test]
    fn rules_have_words() {
        let words = Rule { blocks_max: Some(16), ..Rule::default() }.in_words();
        let expected = "Within 3.0% of the fastest, that with the fewest thread blocks and at most \
                        16 of them.";
        assert_eq!(words, expected);
    }
}
