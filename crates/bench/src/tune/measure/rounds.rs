//! In rounds: the best take turns.

use super::super::budget::Budget;
use super::super::candidates::{counterparts, fastest_screened, staying};
use super::super::data::TunePoint;
use super::attempt::{Verdict, verdict};
use super::{MeasurementSetup, call, guess_us};

/// How long the timed calls of a round should take together.
const ROUND_US: f64 = 10_000.0;
/// Rounds, and after how many of them who stays.
const ROUNDS: usize = 5;
const FIRST_ROUNDS: usize = 2;
/// How many of the fastest in the screening pass enter the rounds.
const ENTRANTS: usize = 6;

impl MeasurementSetup<'_> {
    /// Lets the best take turns.
    pub(super) fn rounds(&mut self, point: &mut TunePoint, before: &[String], budget: Budget) {
        let mut entrants = self.entrants(point, before);
        for round in 0..ROUNDS {
            if round > 0 && self.is_over(budget) {
                break;
            }
            if round == FIRST_ROUNDS {
                entrants = staying(point, before, &self.plan.rule);
            }
            for choice in &entrants {
                self.round(point, choice);
            }
            self.baseline_round(point);
        }
    }

    /// The fastest in the screening pass, the fastest with other links, the best of the size
    /// `before`, and what the library chooses itself.
    fn entrants(&self, point: &TunePoint, before: &[String]) -> Vec<String> {
        let mut entrants = fastest_screened(point, ENTRANTS, &self.plan.rule);
        let others = entrants.first().map(|best| counterparts(best)).unwrap_or_default();
        let more = others.iter().chain(before).chain(&point.present);
        for choice in more.filter(|choice| point.trial(choice).is_some()) {
            if !entrants.contains(choice) {
                entrants.push(choice.clone());
            }
        }
        entrants
    }

    /// One turn of one candidate.
    fn round(&mut self, point: &mut TunePoint, choice: &str) {
        let index = point.trials.iter().position(|trial| trial.choice == choice);
        let Some(index) = index.filter(|&index| point.trials[index].fault.is_none()) else {
            return;
        };
        let checks = u32::from(!point.trials[index].checked);
        let expected_us = point.trials[index].screening_us.unwrap_or(guess_us(point));
        let method = self.method(ROUND_US, expected_us, checks);
        if let Some(us) = self.time(point, index, method) {
            point.trials[index].rounds_us.push(us);
        }
    }

    /// The other library's turn.
    fn baseline_round(&mut self, point: &mut TunePoint) {
        let expected_us = point.ranking().first().map_or(guess_us(point), |(_, us)| *us);
        let method = self.method(ROUND_US, expected_us, u32::from(point.baseline_us.is_empty()));
        let Some(baseline) = self.sessions.get_mut(1).filter(|baseline| !baseline.is_out()) else {
            return;
        };
        let outcome = baseline.measure(point.case, point.placement, method, self.observer);
        match verdict(&outcome) {
            Verdict::Time { us, is_right: _ } => point.baseline_us.push(us),
            Verdict::Out => {}
            Verdict::Wrong(why) | Verdict::Refused(why) => {
                let text = format!("{}, {}: {why}", baseline.report.name, call(point));
                if !self.failures.contains(&text) {
                    self.failures.push(text);
                }
            }
        }
    }
}
