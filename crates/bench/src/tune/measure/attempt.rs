//! One measurement of one candidate: a time, or that the candidate is out.

use super::super::data::TunePoint;
use super::{MeasurementSetup, call};
use crate::protocol::Method;
use crate::report::{Average, Measurement, Outcome};
use crate::session::LibrarySession;

/// How often our library may hang or die.
const MOST_LOSSES: u32 = 3;

impl MeasurementSetup<'_> {
    /// The time in µs of candidate number `index`; `None` if it, or the library, is out.
    pub(super) fn time(
        &mut self,
        point: &mut TunePoint,
        index: usize,
        method: Method,
    ) -> Option<f64> {
        let choice = point.trials.get(index)?.choice.clone();
        let why = match self.faults.get(&choice) {
            Some(why) => why.clone(),
            None => match self.attempt(point, &choice, method)? {
                Verdict::Time { us, is_right } => {
                    point.trials[index].checked |= is_right;
                    return Some(us);
                }
                Verdict::Wrong(why) => self.disqualify(point, choice, &why),
                Verdict::Refused(why) => {
                    let ours = self.sessions.first_mut()?;
                    ours.rejoin(self.observer);
                    self.disqualify(point, choice, &why)
                }
                Verdict::Out => {
                    self.revive();
                    self.disqualify(point, choice, "the library was lost over it")
                }
            },
        };
        point.trials[index].fault = Some(why);
        None
    }

    /// Measures `choice`; `None` if the library was out before.
    fn attempt(&mut self, point: &TunePoint, choice: &str, method: Method) -> Option<Verdict> {
        let ours = self.sessions.first_mut().filter(|ours| !ours.is_out())?;
        Some(match ours.pin(Some(choice), self.observer) {
            Ok(()) => verdict(&ours.measure(point.case, point.placement, method, self.observer)),
            Err(_) if ours.is_out() => Verdict::Out,
            Err(why) => Verdict::Wrong(why),
        })
    }

    /// Takes `choice` out, everywhere; why, in words.
    fn disqualify(&mut self, point: &TunePoint, choice: String, why: &str) -> String {
        let why = format!("{}: {why}", call(point));
        self.observer.fault(&choice, &why);
        self.faults.insert(choice, why.clone());
        why
    }

    /// Starts our library again after it hung or died, unless it did so too often.
    fn revive(&mut self) {
        self.losses += 1;
        let tested = self.plan.run.libraries.first();
        if let (Some(tested), Some(ours)) = (tested, self.sessions.first_mut())
            && self.losses <= MOST_LOSSES
        {
            *ours = LibrarySession::new(&self.plan.run, None, tested);
            ours.join(self.observer);
        }
    }
}

/// What became of a measurement.
pub(super) enum Verdict {
    /// It took that many µs, and nothing was found to be wrong.
    Time {
        us: f64,
        /// Whether results were compared.
        is_right: bool,
    },
    /// It is not as it should be, but the library goes on.
    Wrong(String),
    /// It was refused, or failed; the communicator may have failed with it.
    Refused(String),
    /// The library is out.
    Out,
}

/// What `outcome` means for what was measured.
pub(super) fn verdict(outcome: &Outcome) -> Verdict {
    match outcome {
        Outcome::Out => Verdict::Out,
        Outcome::Refused(why) => Verdict::Refused(why.clone()),
        Outcome::Measured(measurement) => match measurement.wrong() {
            wrong @ (None | Some(0)) => {
                Verdict::Time { us: measurement.time_us(Average::Mean), is_right: wrong.is_some() }
            }
            Some(wrong) => Verdict::Wrong(wrong_in_words(wrong, measurement)),
        },
    }
}

fn wrong_in_words(wrong: u64, measurement: &Measurement) -> String {
    format!("{wrong} elements are wrong, first {}", measurement.first_wrong().unwrap_or("unknown"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wrong_results_are_faults_and_missing_ones_are_not() {
        use crate::protocol::Sample;
        let outcome = |wrong| {
            let sample = Sample { time_us: 3.0, wrong, ..Sample::default() };
            verdict(&Outcome::Measured(Measurement { samples: vec![sample], served_by: None }))
        };
        assert!(matches!(outcome(None), Verdict::Time { us: 3.0, is_right: false }));
        assert!(matches!(outcome(Some(0)), Verdict::Time { us: 3.0, is_right: true }));
        assert!(
            matches!(outcome(Some(2)), Verdict::Wrong(why) if why.starts_with("2 elements are"))
        );
    }
}
