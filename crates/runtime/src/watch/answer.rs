//! A rank's answer to a request for a report, as a text in the shared state.
//!
//! The first line is the state, the sequence of the last finished call, and how many waits did not
//! fit. Every further line is one wait: the number of its call, the peer, the text; `-` where there
//! is no number or no peer.

use msccl_collective::Rank;

use super::progress::ProgressSnapshot;
use crate::engine::Waiting;
use crate::shared_state::{ANSWER_BYTES, RankState, SharedState};

/// What a rank knows of itself.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Answer {
    /// What became of it.
    pub state: RankState,
    /// Its calls up to this sequence are done.
    pub finished: u64,
    /// What its thread blocks wait for.
    pub waits: Vec<Wait>,
    /// How many more wait.
    pub omitted: u64,
}

/// What one thread block waits for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Wait {
    /// The number of its call, if that is a collective.
    pub number: Option<u64>,
    /// The rank that could help, if it is another one.
    pub peer: Option<Rank>,
    /// In the engine's words.
    pub text: String,
}

impl Answer {
    /// What this rank of `shared_state` says, whose calls have come as far as `progress`.
    pub fn new(shared_state: &SharedState, progress: &ProgressSnapshot) -> Self {
        let number = |sequence| {
            let posted = shared_state.first_from(shared_state.me(), sequence);
            posted.filter(|posted| posted.sequence == sequence)?.number()
        };
        let wait = |Waiting { call, peer, text }: &Waiting| Wait {
            number: number(*call),
            peer: *peer,
            text: text.replace('\n', " "),
        };
        let state = shared_state.state(shared_state.me());
        let waits = progress.waits.iter().map(wait).collect();
        Self { state, finished: progress.finished, waits, omitted: 0 }
    }

    /// The text, of which everything fits in a shared state.
    pub fn to_text(&self) -> String {
        let Self { state, finished, waits, omitted } = self;
        let head = |omitted| format!("{} {finished} {omitted}\n", state.name());
        let mut room = ANSWER_BYTES - head(u64::MAX).len();
        let mut lines = String::new();
        let mut omitted = *omitted + waits.len() as u64;
        for wait in waits {
            let line = wait.to_line();
            let Some(rest) = room.checked_sub(line.len()) else { break };
            room = rest;
            omitted -= 1;
            lines.push_str(&line);
        }
        head(omitted) + &lines
    }

    /// What [`Answer::to_text`] wrote; `None` for anything else.
    pub fn from_text(text: &str) -> Option<Self> {
        let mut lines = text.lines();
        let mut head = lines.next()?.splitn(3, ' ');
        let state = RankState::from_name(head.next()?)?;
        let (finished, omitted) = (head.next()?.parse().ok()?, head.next()?.parse().ok()?);
        let waits = lines.map(Wait::from_line).collect::<Option<_>>()?;
        Some(Self { state, finished, waits, omitted })
    }
}

impl Wait {
    fn to_line(&self) -> String {
        let Self { number, peer, text } = self;
        let or_dash = |value: Option<u64>| value.map_or_else(|| "-".to_owned(), |v| v.to_string());
        let peer = peer.map(|rank| u64::from(rank.0));
        format!("{} {} {text}\n", or_dash(*number), or_dash(peer))
    }

    fn from_line(line: &str) -> Option<Self> {
        let mut words = line.splitn(3, ' ');
        let number = optional(words.next()?)?;
        let peer = match optional(words.next()?)? {
            Some(rank) => Some(Rank(u32::try_from(rank).ok()?)),
            None => None,
        };
        Some(Self { number, peer, text: words.next()?.to_owned() })
    }
}

/// A number, or none for `-`; `None` for anything else.
fn optional(word: &str) -> Option<Option<u64>> {
    match word {
        "-" => Some(None),
        _ => word.parse().ok().map(Some),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::call::Operation;
    use crate::shared_state::tests::call;

    fn wait(number: Option<u64>, peer: Option<u32>, text: &str) -> Wait {
        Wait { number, peer: peer.map(Rank), text: text.to_owned() }
    }

    #[test]
    fn answers_come_back() {
        let waits = vec![
            wait(Some(41), Some(5), "tb2 s17 waits for message 41 from r5 on ch0 (round 3)"),
            wait(None, Some(0), "the transfer waits for a message from r0"),
            wait(Some(41), None, "tb0 s3 waits for tb1 s2"),
        ];
        for state in [
            RankState::Running,
            RankState::Aborted,
            RankState::Failed,
            RankState::TimedOut,
            RankState::Closed,
        ] {
            let answer = Answer { state, finished: 77, waits: waits.clone(), omitted: 3 };
            assert_eq!(Answer::from_text(&answer.to_text()), Some(answer));
        }
    }

    #[test]
    fn too_many_waits_are_counted() {
        let waits = vec![wait(Some(1), Some(1), &"x".repeat(1000)); 100];
        let answer = Answer { state: RankState::Running, finished: 0, waits, omitted: 0 };
        let text = answer.to_text();
        assert!(text.len() <= ANSWER_BYTES);
        let back = Answer::from_text(&text).unwrap();
        assert_eq!((back.waits.len(), back.omitted), (16, 84));
    }

    #[test]
    fn nonsense_is_no_answer() {
        for text in ["", "running", "running 1", "joyful 1 0", "running x 0", "running 1 0\n- 1"] {
            assert_eq!(Answer::from_text(text), None, "{text}");
        }
    }

    #[test]
    fn waits_belong_to_numbered_collectives() {
        let shared_state = SharedState::alone(Rank(0), 2);
        shared_state.post_messages_of(1, &[call(Operation::Send(Rank(1)), 1)]);
        shared_state.post_call(2, &call(Operation::AllGather, 1), false);
        let waiting = |call| Waiting { call, peer: Some(Rank(1)), text: "tb0\nwaits".to_owned() };
        let mut progress = ProgressSnapshot::new();
        progress.waits = vec![waiting(1), waiting(2), waiting(9)];
        let answer = Answer::new(&shared_state, &progress);
        let expected = [None, Some(1), None].map(|number| wait(number, Some(1), "tb0 waits"));
        assert_eq!(answer.waits, expected);
    }
}
