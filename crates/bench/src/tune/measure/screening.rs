//! Screening pass: many candidates, each timed once in a few calls.

use std::collections::BTreeSet;

use super::super::budget::Budget;
use super::super::candidates::{
    anchors, counterparts, fastest_screened, prefer, promising, pruned_at, to_begin_with,
};
use super::super::data::{CandidateTimes, TunePoint};
use super::{CHECKED_BYTES, MeasurementSetup, guess_us};

/// How long the timed calls of a screening should take together.
const SCREENING_US: f64 = 2_000.0;
/// How many are tried between anchors.
const SCREENED: usize = 12;
/// The part of the time for screening that is left to links that are not staged, where there are
/// any.
const FOR_OTHER_LINKS: f64 = 0.3;

impl MeasurementSetup<'_> {
    /// Looks at everything where everything is tried, and at the best of it between.
    pub(super) fn screen_all(&mut self, points: &mut [TunePoint], budget: Budget) {
        let sizes: Vec<_> = points.iter().map(|point| point.case.size_bytes()).collect();
        let anchors = anchors(&sizes);
        let mut pruned = BTreeSet::new();
        let mut favourites = Vec::new();
        for (number, &anchor) in anchors.iter().enumerate() {
            // What lies between is looked at, too, but at little of it.
            let budget = budget.share(0.9).part_of(anchors.len() - number);
            let here = points.get_mut(anchor).filter(|point| !point.trials.is_empty());
            let Some(point) = here else { continue };
            point.trials.retain(|trial| !pruned.contains(&trial.choice));
            prefer(point, &favourites);
            self.doing("trying", point);
            self.screen(point, budget);
            favourites = fastest_screened(point, SCREENED, &self.plan.rule);
            pruned.extend(pruned_at(point));
        }
        self.screen_between(points, &anchors, budget);
    }

    /// Looks at what did well at the anchors on both sides, at all sizes between.
    fn screen_between(&mut self, points: &mut [TunePoint], anchors: &[usize], budget: Budget) {
        let tried: Vec<_> = anchors
            .iter()
            .map(|&at| (at, fastest_screened(&points[at], SCREENED, &self.plan.rule)))
            .collect();
        let between: Vec<_> = (0..points.len()).filter(|at| !anchors.contains(at)).collect();
        for (number, &at) in between.iter().enumerate() {
            let below = tried.iter().rev().find(|(anchor, _)| *anchor < at);
            let above = tried.iter().find(|(anchor, _)| *anchor > at);
            let neighbours: Vec<_> =
                below.into_iter().chain(above).flat_map(|(_, best)| best.clone()).collect();
            let present = points[at].present.clone();
            let is_among_neighbours = |choice: &String| neighbours.contains(choice);
            let is_tried = |trial: &CandidateTimes| {
                is_among_neighbours(&trial.choice)
                    || counterparts(&trial.choice).iter().any(is_among_neighbours)
                    || present.as_ref() == Some(&trial.choice)
            };
            points[at].trials.retain(is_tried);
            prefer(&mut points[at], &neighbours);
            self.screen(&mut points[at], budget.part_of(between.len() - number));
        }
    }

    /// Times every candidate once until the time is over. Those whose links are not staged are
    /// tried only if they are promising. What was not timed is dropped.
    fn screen(&mut self, point: &mut TunePoint, budget: Budget) {
        let first = to_begin_with(point);
        let share = if first.len() < point.trials.len() { 1.0 - FOR_OTHER_LINKS } else { 1.0 };
        self.screen_trials(point, &first, budget.share(share));
        let then = promising(point);
        self.screen_trials(point, &then, budget);
        point.trials.retain(|trial| trial.screening_us.is_some() || trial.fault.is_some());
    }

    /// Times the trials of these numbers once, until the time is over.
    fn screen_trials(&mut self, point: &mut TunePoint, trials: &[usize], budget: Budget) {
        let checks = u32::from(point.case.size_bytes() <= CHECKED_BYTES);
        let seen = point.trials.iter().filter_map(|trial| trial.screening_us);
        let mut best_us = seen.reduce(f64::min);
        for &index in trials {
            if best_us.is_some() && self.is_over(budget) {
                break;
            }
            // Where nothing is known yet, one call says how many there may be: a slow algorithm
            // on a busy machine takes ten thousand times as long as a guess.
            let once = self.method(guess_us(point), guess_us(point), 0);
            let expected_us = best_us.or_else(|| self.time(point, index, once));
            let Some(expected_us) = expected_us else { continue };
            let method = self.method(SCREENING_US, expected_us, checks);
            let Some(us) = self.time(point, index, method) else { continue };
            point.trials[index].screening_us = Some(us);
            best_us = Some(best_us.map_or(us, |best: f64| best.min(us)));
        }
    }
}
