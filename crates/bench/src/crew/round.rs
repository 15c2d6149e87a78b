//! The answers to one request, as they come in.

use std::time::{Duration, Instant};

use super::Failure;
use crate::protocol::Answer;

/// How long other ranks may take to answer once one has failed: they may wait for it without end.
const GRACE: Duration = Duration::from_secs(3);

/// Who was asked, who has answered, who has failed, and how long to wait for the others.
pub(super) struct Round {
    ranks: Vec<u32>,
    answers: Vec<Option<Answer>>,
    failures: Vec<(u32, String)>,
    is_lost: bool,
    begin: Instant,
    deadline: Instant,
}

impl Round {
    /// `ranks` have been asked, and must answer within `timeout`.
    pub(super) fn new(ranks: &[u32], timeout: Duration) -> Self {
        let begin = Instant::now();
        // A wait beyond what the clock can count is one of a day.
        let deadline = begin.checked_add(timeout);
        let deadline = deadline.unwrap_or(begin + Duration::from_secs(86_400));
        let (ranks, answers) = (ranks.to_vec(), vec![None; ranks.len()]);
        Self { ranks, answers, failures: Vec::new(), is_lost: false, begin, deadline }
    }

    /// How long to wait for more.
    pub(super) fn left(&self) -> Duration {
        self.deadline.saturating_duration_since(Instant::now())
    }

    /// Whether an answer is missing and there is time for it.
    pub(super) fn is_waiting(&self) -> bool {
        self.missing().next().is_some() && !self.left().is_zero()
    }

    /// Ranks that have neither answered nor failed.
    fn missing(&self) -> impl Iterator<Item = u32> {
        let asked = self.ranks.iter().zip(&self.answers);
        let silent = asked.filter(|(_, answer)| answer.is_none()).map(|(rank, _)| *rank);
        silent.filter(|rank| !self.failures.iter().any(|(failed, _)| failed == rank))
    }

    /// `rank` has answered.
    pub(super) fn take(&mut self, rank: u32, answer: Answer) {
        if let Answer::Failed { text } = answer {
            return self.fail(rank, text);
        }
        let place = self.ranks.iter().position(|&asked| asked == rank);
        if let Some(place) = place.and_then(|place| self.answers.get_mut(place)) {
            *place = Some(answer);
        }
    }

    /// `rank` cannot answer any more.
    pub(super) fn lose(&mut self, rank: u32, text: String) {
        self.is_lost = true;
        self.fail(rank, text);
    }

    fn fail(&mut self, rank: u32, text: String) {
        self.failures.push((rank, text));
        self.deadline = self.deadline.min(Instant::now() + GRACE);
    }

    /// The answers in the order of ranks, if all are there.
    pub(super) fn finish(self) -> Result<Vec<Answer>, Failure> {
        let missing: Vec<String> = self.missing().map(|rank| format!("r{rank}")).collect();
        if self.failures.is_empty() && missing.is_empty() {
            return Ok(self.answers.into_iter().flatten().collect());
        }
        let all_refused = !self.is_lost && self.failures.len() == self.ranks.len();
        let mut story = told(self.failures);
        if !missing.is_empty() {
            let seconds = self.begin.elapsed().as_secs_f64();
            story.push(format!("no answer from {} in {seconds:.0} s", missing.join(", ")));
        }
        let story = story.join("; ");
        Err(if all_refused { Failure::Refused(story) } else { Failure::Lost(story) })
    }
}

/// Failures, each text once with all ranks that have it.
fn told(mut failures: Vec<(u32, String)>) -> Vec<String> {
    failures.sort();
    let mut told: Vec<(String, String)> = Vec::new();
    for (rank, text) in failures {
        match told.iter_mut().find(|(_, known)| *known == text) {
            Some((ranks, _)) => ranks.push_str(&format!(", r{rank}")),
            None => told.push((format!("r{rank}"), text)),
        }
    }
    told.into_iter().map(|(ranks, text)| format!("{ranks}: {text}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_waits_long_for_those_who_wait_for_the_dead() {
        let mut round = Round::new(&[0, 1], Duration::from_secs(60));
        round.take(1, Answer::Failed { text: "no room".to_owned() });
        assert!(round.left() <= GRACE && round.is_waiting());
        let lost = Failure::Lost("r1: no room; no answer from r0 in 0 s".to_owned());
        assert_eq!(round.finish(), Err(lost));
    }

    #[test]
    fn failures_are_told_once() {
        let mut round = Round::new(&[0, 1, 2], Duration::from_secs(60));
        for (rank, text) in [(2, "no room"), (0, "no room"), (1, "no time")] {
            round.take(rank, Answer::Failed { text: text.to_owned() });
        }
        assert!(!round.is_waiting());
        let refused = Failure::Refused("r0, r2: no room; r1: no time".to_owned());
        assert_eq!(round.finish(), Err(refused));
    }
}
