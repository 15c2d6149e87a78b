//! Requests for a report and their answers, in the shared state.
//!
//! Requests are numbered for all ranks together. A rank that needs a report *claims* a request, its
//! own or one that was just made; of those who claim it, one becomes its *reporter*. Nodes settle
//! both for themselves and then take over what is newer elsewhere; so two nodes with requests in
//! the same moment may each have a reporter.

use std::collections::BTreeSet;
use std::sync::atomic::Ordering;

use msccl_collective::Rank;

use super::SharedState;
use super::layout::{Field, REPORTER, REQUEST, Text};

impl SharedState {
    /// The number of the latest request; 0 before the first.
    pub fn request(&self) -> u64 {
        self.word(REQUEST).load(Ordering::Acquire)
    }

    /// Makes a request after `latest`, unless somebody was faster. Answers the latest one.
    pub fn make_request(&self, latest: u64) -> u64 {
        let (made, order) = (latest + 1, Ordering::AcqRel);
        match self.word(REQUEST).compare_exchange(latest, made, order, Ordering::Acquire) {
            Ok(_) => made,
            Err(newer) => newer,
        }
    }

    /// Takes over what another node knows of the latest request.
    pub(super) fn note_request(&self, request: u64) {
        self.word(REQUEST).fetch_max(request, Ordering::AcqRel);
    }

    /// What the header says of the latest reporter.
    pub(super) fn reporter_word(&self) -> u64 {
        self.word(REPORTER).load(Ordering::Acquire)
    }

    /// Takes over the reporter of another node: the later report counts, and of two reporters of
    /// one report the lower rank.
    pub(super) fn note_reporter(&self, word: u64) {
        let order = |word: u64| (word >> 32, std::cmp::Reverse(word as u32));
        let newer = |current| (order(word) > order(current)).then_some(word);
        // Somebody else was faster with what is newer still.
        let _ = self.word(REPORTER).fetch_update(Ordering::AcqRel, Ordering::Acquire, newer);
    }

    /// This rank would report on `request`.
    pub fn claim(&self, request: u64) {
        self.own(Field::Claim).store(request, Ordering::Release);
    }

    /// Who would report on `request`.
    pub fn claimants(&self, request: u64) -> BTreeSet<Rank> {
        let claim = |rank| self.word(Field::Claim.of(rank)).load(Ordering::Acquire);
        self.ranks().filter(|rank| claim(*rank) == request).collect()
    }

    /// Makes this rank the reporter of `request`, unless there is one. Answers who it is.
    pub fn become_reporter(&self, request: u64) -> Rank {
        let current = self.word(REPORTER).load(Ordering::Acquire);
        if let Some(reporter) = reporter_of(current, request) {
            return reporter;
        }
        let (mine, order) = (request << 32 | u64::from(self.me.0), Ordering::AcqRel);
        match self.word(REPORTER).compare_exchange(current, mine, order, Ordering::Acquire) {
            Ok(_) => self.me,
            Err(newer) => reporter_of(newer, request).unwrap_or(self.me),
        }
    }

    /// Who reports on `request`, or on a later one.
    pub fn reporter(&self, request: u64) -> Option<Rank> {
        reporter_of(self.word(REPORTER).load(Ordering::Acquire), request)
    }

    /// This rank answers `request`. One thread at a time.
    pub fn answer(&self, request: u64, text: &str) {
        self.write_text(self.me, Text::Answer, text);
        self.own(Field::Answered).store(request, Ordering::Release);
    }

    /// The latest request that `rank` has answered.
    pub fn answered(&self, rank: Rank) -> u64 {
        self.word(Field::Answered.of(rank)).load(Ordering::Acquire)
    }

    /// What `rank` answered to `request`, or to a later one.
    pub fn answer_of(&self, rank: Rank, request: u64) -> Option<String> {
        let answered = self.answered(rank) >= request;
        answered.then(|| self.read_text(rank, Text::Answer)).flatten()
    }
}

fn reporter_of(word: u64, request: u64) -> Option<Rank> {
    (word >> 32 >= request).then_some(Rank(word as u32))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_of_many_becomes_the_reporter() {
        let first = SharedState::alone(Rank(0), 2);
        let second = first.seen_by(Rank(1));
        assert_eq!((first.request(), first.reporter(1)), (0, None));
        assert_eq!((first.make_request(0), second.make_request(0)), (1, 1));
        [&first, &second].into_iter().for_each(|shared_state| shared_state.claim(1));
        assert_eq!(first.claimants(1).len(), 2);
        assert_eq!((second.become_reporter(1), first.become_reporter(1)), (Rank(1), Rank(1)));
        assert_eq!((first.reporter(1), first.reporter(2)), (Some(Rank(1)), None));
        assert_eq!((first.make_request(1), first.become_reporter(2)), (2, Rank(0)));
        assert_eq!(second.reporter(1), Some(Rank(0)));
    }

    #[test]
    fn what_other_nodes_say_counts_if_it_is_newer() {
        let shared_state = SharedState::alone(Rank(3), 8);
        shared_state.note_request(4);
        shared_state.note_request(2);
        assert_eq!(shared_state.request(), 4);
        let reporters = [(4, 5), (4, 2), (4, 3), (1, 0)].map(|(request, rank): (u64, u64)| {
            shared_state.note_reporter(request << 32 | rank);
            shared_state.reporter(request).map(|rank| rank.0)
        });
        assert_eq!(reporters, [Some(5), Some(2), Some(2), Some(2)]);
        assert_eq!(shared_state.become_reporter(4), Rank(2));
    }

    #[test]
    fn an_answer_is_for_its_request_and_all_before() {
        let shared_state = SharedState::alone(Rank(0), 1);
        assert_eq!(shared_state.answer_of(Rank(0), 1), None);
        shared_state.answer(2, "here");
        assert_eq!(shared_state.answer_of(Rank(0), 1).as_deref(), Some("here"));
        assert_eq!(shared_state.answer_of(Rank(0), 3), None);
    }
}
