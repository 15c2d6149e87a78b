//! What befalls other ranks, and when that is the end of this one's calls.
//!
//! A rank that died, aborted, failed or left is in *trouble*. That does no harm to calls to which it has
//! done its part, so trouble alone is not the end. It is, while calls are under way here, when the rank
//!
//! * failed because ranks call different things, even if nothing is under way here; or
//! * died before it issued a collective that was issued here; or
//! * failed, [`GRACE`] ago; or
//! * aborted, [`GRACE`] ago, and had not done its part of the collective that is under way here, or
//!   thread blocks here have waited for it in vain for [`VAIN`]; or
//! * died, and thread blocks here have waited for it in vain for [`VAIN`]; or
//! * left, and thread blocks here have waited for it in vain for [`GRACE`]; or
//! * left before it issued a collective that was issued here, [`VAIN`] ago.
//!
//! Who waits for others than the rank in trouble goes on until one of these fails.
//!
//! An abort is the aborting communicator's own affair as long as nobody needs its rank: whoever
//! aborts when its calls are done has left.
//!
//! Of a rank on another node the board says what was true a moment ago. That it departed is known
//! from the group; what it never issued, only once all that it did is here
//! ([`Board::is_complete`]); and that it gave up before it left may be heard after it left. One
//! that is *leaving* has no more calls to make, but messages of the last ones may be on their way
//! until it departs.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use msccl_collective::Rank;
use msccl_fabric::DepartureReason;

use super::Watched;
use super::failure::{Cause, Failure};
use super::progress::Progress;
use crate::board::compare::first_difference;
use crate::board::{Board, Kind, State};
use crate::engine::Waiting;
use crate::error::{Error, ErrorKind};

/// How long a rank whose peer gave up may go on: its own caller may be about to do the same.
const GRACE: Duration = Duration::from_secs(1);
/// How long a wait for a dead rank counts as one for a message that is on its way, and how long whoever left may be about
/// to be followed.
const VAIN: Duration = Duration::from_millis(500);

/// What has befallen the other ranks.
pub(super) struct Peers {
    troubles: BTreeMap<Rank, (Trouble, Instant)>,
}

/// What has befallen a rank.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Trouble {
    /// Its process ended, or its host did; in the network's words.
    Died(String),
    /// It aborted or failed.
    GaveUp(State, String),
    /// It is about to leave in order; what it has sent may not have come.
    Leaving,
    /// It left in order.
    Left,
}

impl Peers {
    /// All are well.
    pub fn new() -> Self {
        Self { troubles: BTreeMap::new() }
    }

    /// Looks at all ranks; answers the failure of this rank's calls, if there is one.
    pub fn look(&mut self, watched: &Watched, progress: &Progress) -> Option<Failure> {
        let (board, group) = (&watched.board, &watched.group);
        let departed: BTreeMap<_, _> =
            group.departed().into_iter().map(|of| (of.rank, of.reason)).collect();
        for rank in board.ranks().filter(|rank| *rank != board.me()) {
            if let Some(trouble) = Trouble::of(board, rank, departed.get(&rank)) {
                self.note(rank, trouble);
            }
        }
        if let Some(reason) = self.mismatch() {
            return Some(Failure::mismatch(reason.to_owned()));
        }
        let (rank, trouble) = self.cause(|rank, trouble, since| {
            progress.is_busy() && is_fatal(board, rank, trouble, since, progress)
        })?;
        Some(failure(watched, rank, trouble, progress))
    }

    /// Why a rank failed, if it is because ranks call different things.
    fn mismatch(&self) -> Option<&str> {
        self.troubles.values().find_map(|(trouble, _)| match trouble {
            Trouble::GaveUp(State::Mismatched, reason) => Some(reason.as_str()),
            Trouble::Died(_) | Trouble::GaveUp(..) | Trouble::Leaving | Trouble::Left => None,
        })
    }

    /// What befell a rank first counts; but one that is leaving leaves, and one that seems to have
    /// left may turn out to have given up before.
    fn note(&mut self, rank: Rank, trouble: Trouble) {
        let known = self.troubles.entry(rank);
        let (known, since) = known.or_insert_with(|| (trouble.clone(), Instant::now()));
        match (&*known, &trouble) {
            (Trouble::Leaving, Trouble::Leaving) => {}
            (Trouble::Leaving, _) => (*known, *since) = (trouble, Instant::now()),
            (Trouble::Left, _) => *known = trouble,
            (Trouble::Died(_) | Trouble::GaveUp(..), _) => {}
        }
    }

    /// What this rank's calls fail of, if something is `fatal`: a death is the cause of the failures that follow it.
    fn cause(&self, fatal: impl Fn(Rank, &Trouble, Instant) -> bool) -> Option<(Rank, &Trouble)> {
        let fatal = |(rank, (trouble, since)): &(&Rank, &(Trouble, Instant))| {
            fatal(**rank, trouble, *since)
        };
        let died = |trouble: &Trouble| matches!(trouble, Trouble::Died(_));
        let failed = |trouble: &Trouble| {
            matches!(trouble, Trouble::GaveUp(State::Failed | State::TimedOut, _))
        };
        let first = self.troubles.iter().filter(fatal).min_by_key(|(_, (of, _))| !died(of))?;
        let root = self.troubles.iter().find(|(_, (trouble, _))| died(trouble));
        let (rank, (trouble, _)) = root.filter(|_| failed(&first.1.0)).unwrap_or(first);
        Some((*rank, trouble))
    }
}

impl Trouble {
    fn of(board: &Board, rank: Rank, departed: Option<&DepartureReason>) -> Option<Self> {
        let is_near = board.nodes().together(board.me(), rank);
        match (board.state(rank), departed) {
            (State::Running, None) => None,
            (State::Running, Some(DepartureReason::Left)) if !is_near => Some(Self::Left),
            (State::Running, Some(manner)) => Some(Self::Died(manner.to_string())),
            (state @ (State::Aborted | State::Failed | State::TimedOut | State::Mismatched), _) => {
                Some(Trouble::GaveUp(state, board.reason(rank)))
            }
            (State::Closed, None) if !is_near => Some(Trouble::Leaving),
            (State::Closed, _) => Some(Trouble::Left),
        }
    }
}

fn is_fatal(
    board: &Board,
    rank: Rank,
    trouble: &Trouble,
    since: Instant,
    progress: &Progress,
) -> bool {
    let is_behind = board.collectives(rank) < board.collectives(board.me());
    let never_comes = is_behind && board.is_complete(rank);
    let in_vain = |time| {
        let waited_for = progress.waits.iter().any(|waiting| waiting.peer == Some(rank));
        waited_for && progress.is_stuck(since, time)
    };
    match trouble {
        Trouble::Died(_) => never_comes || in_vain(VAIN),
        Trouble::GaveUp(State::Aborted, _) => {
            since.elapsed() >= GRACE && (is_missed(board, rank, progress) || in_vain(VAIN))
        }
        Trouble::GaveUp(..) => since.elapsed() >= GRACE,
        Trouble::Leaving => never_comes && since.elapsed() >= VAIN,
        Trouble::Left => (never_comes && since.elapsed() >= VAIN) || in_vain(GRACE),
    }
}

/// Whether `rank`, which has aborted, had not done its part of the collective that is under way
/// here.
fn is_missed(board: &Board, rank: Rank, progress: &Progress) -> bool {
    let under_way = board.first_from(board.me(), progress.finished + 1);
    match under_way.map(|posted| posted.kind) {
        Some(Kind::Collective { number, .. }) => !board.had_completed(rank, number),
        // Whoever waits for it waits in vain.
        Some(Kind::Transfers { .. }) => false,
        // Which call it is is not known any more.
        None => true,
    }
}

/// That `rank` is dead; `story` is what the network tells of its end.
pub(super) fn death(watched: &Watched, rank: Rank, story: &str) -> String {
    let process = watched.process(rank);
    match story.strip_prefix("has died: ") {
        Some(how) => format!("{rank} ({process}) is dead: {how}"),
        None => format!("{rank} ({process}) {story}"),
    }
}

fn failure(watched: &Watched, rank: Rank, trouble: &Trouble, progress: &Progress) -> Failure {
    let board = &watched.board;
    let call = match board.first_from(board.me(), progress.finished + 1) {
        Some(posted) => posted.to_string(),
        None => "the call under way".to_owned(),
    };
    let mut text = match trouble {
        Trouble::Died(story) => death(watched, rank, story),
        Trouble::GaveUp(state, reason) => format!("{rank} {}: {reason}", state.verb()),
        Trouble::Leaving | Trouble::Left => format!("{rank} has left the communicator"),
    };
    // A reason that another rank gives may say so already.
    let end = format!("; {call} cannot finish");
    if !text.ends_with(&end) {
        if let Some(waiting) = Waiting::most_telling(&progress.waits, Some(rank)) {
            text.push_str(&format!("; on {} {}", board.me(), waiting.text));
        }
        text.push_str(&end);
        // Whoever left may have taken a shorter call for this one, and been through with it.
        if let Some(difference) = first_difference(board) {
            text.push_str(&format!("; {}", difference.advised()));
        }
    }
    let cause = match trouble {
        Trouble::Died(_) => Cause::Death { process: watched.identity(rank) },
        Trouble::GaveUp(state, _) => Cause::of_peer(*state),
        Trouble::Leaving | Trouble::Left => Cause::Other,
    };
    Failure { error: Error::new(ErrorKind::Remote, text), cause }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gave_up() -> Trouble {
        Trouble::GaveUp(State::Failed, "enough".to_owned())
    }

    fn died() -> Trouble {
        Trouble::Died("has died: its connection ended".to_owned())
    }

    #[test]
    fn what_befell_a_rank_first_counts() {
        let mut peers = Peers::new();
        let mut note = |trouble| {
            peers.note(Rank(3), trouble);
            peers.troubles[&Rank(3)].0.clone()
        };
        // That it gave up before it left is heard afterwards.
        assert_eq!(note(Trouble::Left), Trouble::Left);
        assert_eq!(note(gave_up()), gave_up());
        assert_eq!(note(died()), gave_up());
        assert_eq!(note(Trouble::Left), gave_up());
    }

    #[test]
    fn whoever_leaves_is_waited_for_until_it_has_left() {
        let mut peers = Peers::new();
        peers.note(Rank(1), Trouble::Leaving);
        let since = peers.troubles[&Rank(1)].1;
        peers.note(Rank(1), Trouble::Leaving);
        assert_eq!(peers.troubles[&Rank(1)].1, since);
        peers.note(Rank(1), Trouble::Left);
        assert!(peers.troubles[&Rank(1)].1 > since);
        assert_eq!(peers.troubles[&Rank(1)].0, Trouble::Left);
    }

    #[test]
    fn a_death_is_the_cause_of_other_failures() {
        let mut peers = Peers::new();
        for (rank, trouble) in [(1, gave_up()), (2, Trouble::Left), (3, died()), (4, died())] {
            peers.note(Rank(rank), trouble);
        }
        assert_eq!(peers.cause(|_, _, _| true), Some((Rank(3), &died())));
        assert_eq!(peers.cause(|rank, _, _| rank == Rank(1)), Some((Rank(3), &died())));
        assert_eq!(peers.cause(|rank, _, _| rank == Rank(2)), Some((Rank(2), &Trouble::Left)));
        assert_eq!(peers.cause(|_, _, _| false), None);
    }

    /// Rank 1 is of this node, rank 2 of another one.
    #[test]
    fn who_leaves_without_a_word_has_died_unless_the_word_is_under_way() {
        let board = Board::of_nodes(Rank(0), 4, 2);
        let trouble = |rank: u32, manner| Trouble::of(&board, Rank(rank), Some(manner)).unwrap();
        let died = |story: &str| Trouble::Died(story.to_owned());
        assert_eq!(Trouble::of(&board, Rank(1), None), None);
        let left = &DepartureReason::Left;
        assert_eq!(
            (trouble(1, left), trouble(2, left)),
            (died("has left the group"), Trouble::Left)
        );
        for rank in [Rank(1), Rank(2)] {
            let board = Board::of_nodes(Rank(0), 4, 2);
            board.seen_by(rank).mark(State::Closed, "");
            let closed = |manner| Trouble::of(&board, rank, manner);
            let at_once = if rank == Rank(1) { Trouble::Left } else { Trouble::Leaving };
            assert_eq!((closed(None), closed(Some(left))), (Some(at_once), Some(Trouble::Left)));
        }
        let lost = &DepartureReason::Lost("is gone".to_owned());
        assert_eq!((trouble(1, lost), trouble(2, lost)), (died("is gone"), died("is gone")));
        board.seen_by(Rank(1)).mark(State::Failed, "enough");
        assert_eq!(trouble(1, left), gave_up());
    }
}
