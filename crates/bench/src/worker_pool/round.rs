//! The answers to one request, as they come in.

use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use super::Failure;
use crate::process_group::failures_by_text;
use crate::protocol::Answer;

/// How long other ranks may take to answer once one has failed: they may wait for it without end.
const GRACE: Duration = Duration::from_secs(3);

/// Who got the request, who has answered, who has failed, and how long to wait for the others.
pub(super) struct Round {
    ranks: Vec<u32>,
    answers: Vec<Option<Answer>>,
    failures: Vec<(u32, String)>,
    is_lost: bool,
    begin: Instant,
    deadline: Instant,
}

impl Round {
    /// `ranks` got the request, and must answer within `timeout`.
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
        let requested = self.ranks.iter().zip(&self.answers);
        let silent = requested.filter(|(_, answer)| answer.is_none()).map(|(rank, _)| *rank);
        silent.filter(|rank| !self.failures.iter().any(|(failed, _)| failed == rank))
    }

    /// `rank` has answered.
    pub(super) fn take(&mut self, rank: u32, answer: Answer) {
        if let Answer::Failed { text } = answer {
            return self.fail(rank, text);
        }
        let place = self.ranks.iter().position(|&requested| requested == rank);
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
        self.hurry();
    }

    /// Waits no longer than ranks may take that wait for one which does not come.
    pub(super) fn hurry(&mut self) {
        self.deadline = self.deadline.min(Instant::now() + GRACE);
    }

    /// What has come of it.
    pub(super) fn tally(self) -> Tally {
        let late = self.missing().collect();
        let Self { ranks, answers, failures, is_lost, begin, deadline: _ } = self;
        let answers = ranks.iter().copied().zip(answers);
        let answers = answers.filter_map(|(rank, answer)| Some((rank, answer?))).collect();
        let seconds = begin.elapsed().as_secs_f64();
        Tally { requested: ranks.len(), answers, failures, late, is_lost, seconds }
    }
}

/// What came of a request: of all ranks, or of those in one process, whose tallies add up.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Tally {
    requested: usize,
    answers: Vec<(u32, Answer)>,
    failures: Vec<(u32, String)>,
    late: Vec<u32>,
    is_lost: bool,
    seconds: f64,
}

impl Tally {
    /// That `rank` is lost for a reason that lies outside of its workers.
    pub(crate) fn lost(rank: u32, reason: String) -> Self {
        Self { requested: 1, failures: vec![(rank, reason)], is_lost: true, ..Self::default() }
    }

    /// Whether all have answered, and nobody failed.
    pub(crate) fn is_good(&self) -> bool {
        !self.is_lost && self.failures.is_empty() && self.late.is_empty()
    }

    /// Both.
    pub(crate) fn and(mut self, other: Self) -> Self {
        let Self { requested, answers, failures, late, is_lost, seconds } = other;
        self.requested += requested;
        self.answers.extend(answers);
        self.failures.extend(failures);
        self.late.extend(late);
        self.is_lost |= is_lost;
        self.seconds = self.seconds.max(seconds);
        self
    }

    /// The answers in the order of ranks, if all are there.
    pub(crate) fn verdict(mut self) -> Result<Vec<Answer>, Failure> {
        self.late.sort_unstable();
        let late: Vec<String> = self.late.iter().map(|rank| format!("r{rank}")).collect();
        if self.failures.is_empty() && late.is_empty() {
            self.answers.sort_by_key(|(rank, _)| *rank);
            return Ok(self.answers.into_iter().map(|(_, answer)| answer).collect());
        }
        let all_refused = !self.is_lost && self.failures.len() == self.requested;
        let mut text = failures_by_text(self.failures);
        if !late.is_empty() {
            text.push(format!("no answer from {} in {:.0} s", late.join(", "), self.seconds));
        }
        let text = text.join("; ");
        Err(if all_refused { Failure::Refused(text) } else { Failure::Lost(text) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_waits_long_for_those_who_wait_for_the_dead() {
        let mut round = Round::new(&[0, 1], Duration::from_secs(60));
        round.take(1, Answer::Failed { text: "no memory".to_owned() });
        assert!(round.left() <= GRACE && round.is_waiting());
        let lost = Failure::Lost("r1: no memory; no answer from r0 in 0 s".to_owned());
        assert_eq!(round.tally().verdict(), Err(lost));
    }

    #[test]
    fn failures_are_listed_once() {
        let mut round = Round::new(&[0, 1, 2], Duration::from_secs(60));
        for (rank, text) in [(2, "no memory"), (0, "no memory"), (1, "no time")] {
            round.take(rank, Answer::Failed { text: text.to_owned() });
        }
        assert!(!round.is_waiting());
        let refused = Failure::Refused("r0, r2: no memory; r1: no time".to_owned());
        assert_eq!(round.tally().verdict(), Err(refused));
    }

    #[test]
    fn tallies_of_processes_add_up() {
        let process = |rank: u32, answer: Answer| {
            let mut round = Round::new(&[rank], Duration::from_secs(60));
            round.take(rank, answer);
            round.tally()
        };
        let id = |rank: u32| process(rank, Answer::Id { id: rank.to_string() });
        let refusal = |rank| process(rank, Answer::Failed { text: "no memory".to_owned() });
        let ids = [0, 1].map(|rank| Answer::Id { id: rank.to_string() });
        assert_eq!(id(1).and(id(0)).verdict(), Ok(ids.to_vec()));
        let refused = Failure::Refused("r0, r1: no memory".to_owned());
        assert_eq!(refusal(0).and(refusal(1)).verdict(), Err(refused));
        let lost = Failure::Lost("r1: no memory".to_owned());
        assert_eq!(id(0).and(refusal(1)).verdict(), Err(lost));
        let lost = Failure::Lost("r1: it is gone".to_owned());
        assert_eq!(Tally::lost(1, "it is gone".to_owned()).verdict(), Err(lost));
    }
}
