//! What befalls other ranks, and when that is the end of this one's calls.
//!
//! A rank that died, aborted, failed or left has a *fault*. That does no harm to calls to which it
//! has done its part, so a fault alone is not the end. It is, while calls are under way here, when
//! the rank
//!
//! * failed because ranks call different things, even if nothing is under way here; or
//! * died before it issued a collective that was issued here; or
//! * failed, [`GRACE`] ago; or
//! * aborted, [`GRACE`] ago, and had not done its part of the collective that is under way here, or
//!   thread blocks here have waited for it without an answer for [`UNANSWERED`]; or
//! * died, and thread blocks here have waited for it without an answer for [`UNANSWERED`]; or
//! * left, and thread blocks here have waited for it without an answer for [`GRACE`]; or
//! * left before it issued a collective that was issued here, [`UNANSWERED`] ago.
//!
//! Who waits for others than the rank with the fault goes on until one of these fails.
//!
//! An abort is the aborting communicator's own affair as long as nobody needs its rank: whoever
//! aborts when its calls are done has left.
//!
//! Of a rank on another node the shared state says what was true a moment ago. That it departed is
//! known from the group; what it never issued, only once all that it did is here
//! ([`SharedState::is_complete`]); and that it gave up before it left may arrive after it left. One
//! that is *leaving* has no more calls to make, but messages of the last ones may be on their way
//! until it departs.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use msccl_collective::Rank;
use msccl_fabric::DepartureReason;

use super::Watched;
use super::failure::{Cause, CommunicatorFailure};
use super::progress::ProgressSnapshot;
use crate::engine::Waiting;
use crate::error::{Error, ErrorKind};
use crate::shared_state::compare::first_difference;
use crate::shared_state::{PostedKind, RankState, Reason, SharedState};

/// How long a rank whose peer gave up may go on: its own caller may be about to do the same.
const GRACE: Duration = Duration::from_secs(1);
/// How long a wait for a dead rank counts as one for a message that is on its way, and how long
/// whoever left may be about to be followed.
const UNANSWERED: Duration = Duration::from_millis(500);

/// What has befallen the other ranks.
pub(super) struct Peers {
    faults: BTreeMap<Rank, (PeerFault, Instant)>,
}

/// What has befallen a rank.
#[derive(Clone, PartialEq, Eq, Debug)]
enum PeerFault {
    /// Its process ended, or its host did, as the network reports.
    Died(DepartureReason),
    /// It aborted or failed.
    GaveUp(RankState, Reason),
    /// It is about to leave in order; what it has sent may not have come.
    Leaving,
    /// It left in order.
    Left,
}

impl Peers {
    /// All are well.
    pub fn new() -> Self {
        Self { faults: BTreeMap::new() }
    }

    /// Looks at all ranks; answers the failure of this rank's calls, if there is one.
    pub fn look(
        &mut self,
        watched: &Watched,
        progress: &ProgressSnapshot,
    ) -> Option<CommunicatorFailure> {
        let (shared_state, group) = (&watched.shared_state, &watched.group);
        let departed: BTreeMap<_, _> =
            group.departed().into_iter().map(|of| (of.rank, of.reason)).collect();
        for rank in shared_state.ranks().filter(|rank| *rank != shared_state.me()) {
            if let Some(fault) = PeerFault::of(shared_state, rank, departed.get(&rank)) {
                self.note(rank, fault);
            }
        }
        if let Some(reason) = self.mismatch() {
            return Some(CommunicatorFailure::mismatch(reason.to_owned()));
        }
        let (rank, fault) = self.cause(|rank, fault, since| {
            progress.is_busy() && is_fatal(shared_state, rank, fault, since, progress)
        })?;
        Some(failure(watched, rank, fault, progress))
    }

    /// Why a rank failed, if it is because ranks call different things.
    fn mismatch(&self) -> Option<&str> {
        self.faults.values().find_map(|(fault, _)| match fault {
            PeerFault::GaveUp(RankState::Mismatched, reason) => Some(reason.words.as_str()),
            PeerFault::Died(_) | PeerFault::GaveUp(..) | PeerFault::Leaving | PeerFault::Left => {
                None
            }
        })
    }

    /// What befell a rank first counts; but one that is leaving leaves, and one that seems to have
    /// left may turn out to have given up before.
    fn note(&mut self, rank: Rank, fault: PeerFault) {
        let known = self.faults.entry(rank);
        let (known, since) = known.or_insert_with(|| (fault.clone(), Instant::now()));
        match (&*known, &fault) {
            (PeerFault::Leaving, PeerFault::Leaving) => {}
            (PeerFault::Leaving, _) => (*known, *since) = (fault, Instant::now()),
            (PeerFault::Left, _) => *known = fault,
            (PeerFault::Died(_) | PeerFault::GaveUp(..), _) => {}
        }
    }

    /// What this rank's calls fail of, if something is `fatal`: a death is the cause of the
    /// failures that follow it.
    fn cause(
        &self,
        fatal: impl Fn(Rank, &PeerFault, Instant) -> bool,
    ) -> Option<(Rank, &PeerFault)> {
        let fatal =
            |(rank, (fault, since)): &(&Rank, &(PeerFault, Instant))| fatal(**rank, fault, *since);
        let died = |fault: &PeerFault| matches!(fault, PeerFault::Died(_));
        let failed = |fault: &PeerFault| {
            matches!(fault, PeerFault::GaveUp(RankState::Failed | RankState::TimedOut, _))
        };
        let first = self.faults.iter().filter(fatal).min_by_key(|(_, (of, _))| !died(of))?;
        let root = self.faults.iter().find(|(_, (fault, _))| died(fault));
        let (rank, (fault, _)) = root.filter(|_| failed(&first.1.0)).unwrap_or(first);
        Some((*rank, fault))
    }
}

impl PeerFault {
    /// The call of which the rank itself says that it cannot finish.
    fn unfinished(&self) -> Option<&str> {
        match self {
            PeerFault::GaveUp(_, reason) => reason.unfinished.as_deref(),
            PeerFault::Died(_) | PeerFault::Leaving | PeerFault::Left => None,
        }
    }

    fn of(
        shared_state: &SharedState,
        rank: Rank,
        departed: Option<&DepartureReason>,
    ) -> Option<Self> {
        let is_intra_node = shared_state.nodes().together(shared_state.me(), rank);
        match (shared_state.state(rank), departed) {
            (RankState::Running, None) => None,
            (RankState::Running, Some(DepartureReason::Left)) if !is_intra_node => Some(Self::Left),
            (RankState::Running, Some(reason)) => Some(Self::Died(reason.clone())),
            (
                state @ (RankState::Aborted
                | RankState::Failed
                | RankState::TimedOut
                | RankState::Mismatched),
                _,
            ) => Some(PeerFault::GaveUp(state, shared_state.reason(rank))),
            (RankState::Closed, None) if !is_intra_node => Some(PeerFault::Leaving),
            (RankState::Closed, _) => Some(PeerFault::Left),
        }
    }
}

fn is_fatal(
    shared_state: &SharedState,
    rank: Rank,
    fault: &PeerFault,
    since: Instant,
    progress: &ProgressSnapshot,
) -> bool {
    let is_behind = shared_state.collectives(rank) < shared_state.collectives(shared_state.me());
    let never_comes = is_behind && shared_state.is_complete(rank);
    let unanswered = |time| {
        let waited_for = progress.waits.iter().any(|waiting| waiting.peer == Some(rank));
        waited_for && progress.is_stuck(since, time)
    };
    match fault {
        PeerFault::Died(_) => never_comes || unanswered(UNANSWERED),
        PeerFault::GaveUp(RankState::Aborted, _) => {
            since.elapsed() >= GRACE
                && (is_needed(shared_state, rank, progress) || unanswered(UNANSWERED))
        }
        PeerFault::GaveUp(..) => since.elapsed() >= GRACE,
        PeerFault::Leaving => never_comes && since.elapsed() >= UNANSWERED,
        PeerFault::Left => (never_comes && since.elapsed() >= UNANSWERED) || unanswered(GRACE),
    }
}

/// Whether `rank`, which has aborted, had not done its part of the collective that is under way
/// here.
fn is_needed(shared_state: &SharedState, rank: Rank, progress: &ProgressSnapshot) -> bool {
    let under_way = shared_state.first_from(shared_state.me(), progress.finished + 1);
    match under_way.map(|posted| posted.kind) {
        Some(PostedKind::Collective { number, .. }) => !shared_state.had_completed(rank, number),
        // Whoever waits for it waits in vain.
        Some(PostedKind::Transfers { .. }) => false,
        // Which call it is is not known any more.
        None => true,
    }
}

/// That `rank` is dead; `reason` is what the network reports of its end.
pub(super) fn death(watched: &Watched, rank: Rank, reason: &DepartureReason) -> String {
    let process = watched.process(rank);
    match reason {
        DepartureReason::Died(how) => format!("{rank} ({process}) is dead: {how}"),
        DepartureReason::Left | DepartureReason::Lost(_) => format!("{rank} ({process}) {reason}"),
    }
}

fn failure(
    watched: &Watched,
    rank: Rank,
    fault: &PeerFault,
    progress: &ProgressSnapshot,
) -> CommunicatorFailure {
    let shared_state = &watched.shared_state;
    let call = match shared_state.first_from(shared_state.me(), progress.finished + 1) {
        Some(posted) => posted.to_string(),
        None => "the call under way".to_owned(),
    };
    let mut text = match fault {
        PeerFault::Died(reason) => death(watched, rank, reason),
        PeerFault::GaveUp(state, reason) => format!("{rank} {}: {reason}", state.verb()),
        PeerFault::Leaving | PeerFault::Left => format!("{rank} has left the communicator"),
    };
    // Another rank may have failed because it cannot finish the same call, and says so.
    let is_said = fault.unfinished() == Some(call.as_str());
    if !is_said {
        if let Some(waiting) = Waiting::most_telling(&progress.waits, Some(rank)) {
            text.push_str(&format!("; on {} {}", shared_state.me(), waiting.text));
        }
        text.push_str(&format!("; {call} cannot finish"));
    }
    // Whoever left may have taken a shorter call for this one, and been through with it.
    let difference = if is_said { None } else { first_difference(shared_state) };
    if let Some(difference) = &difference {
        text.push_str(&format!("; {}", difference.advised()));
    }
    let cause = match fault {
        PeerFault::Died(_) => Cause::Death { process: watched.identity(rank) },
        PeerFault::GaveUp(state, _) => Cause::of_peer(*state),
        PeerFault::Leaving | PeerFault::Left => Cause::Other,
    };
    // Where calls differ, every rank says which of its own cannot finish.
    let unfinished = difference.is_none().then_some(call);
    CommunicatorFailure { error: Error::new(ErrorKind::Remote, text), cause, unfinished }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gave_up() -> PeerFault {
        PeerFault::GaveUp(RankState::Failed, "enough".into())
    }

    fn died() -> PeerFault {
        PeerFault::Died(DepartureReason::Died("its connection ended".to_owned()))
    }

    #[test]
    fn what_befell_a_rank_first_counts() {
        let mut peers = Peers::new();
        let mut note = |fault| {
            peers.note(Rank(3), fault);
            peers.faults[&Rank(3)].0.clone()
        };
        // That it gave up before it left arrives afterwards.
        assert_eq!(note(PeerFault::Left), PeerFault::Left);
        assert_eq!(note(gave_up()), gave_up());
        assert_eq!(note(died()), gave_up());
        assert_eq!(note(PeerFault::Left), gave_up());
    }

    #[test]
    fn whoever_leaves_is_waited_for_until_it_has_left() {
        let mut peers = Peers::new();
        peers.note(Rank(1), PeerFault::Leaving);
        let since = peers.faults[&Rank(1)].1;
        peers.note(Rank(1), PeerFault::Leaving);
        assert_eq!(peers.faults[&Rank(1)].1, since);
        peers.note(Rank(1), PeerFault::Left);
        assert!(peers.faults[&Rank(1)].1 > since);
        assert_eq!(peers.faults[&Rank(1)].0, PeerFault::Left);
    }

    #[test]
    fn a_death_is_the_cause_of_other_failures() {
        let mut peers = Peers::new();
        for (rank, fault) in [(1, gave_up()), (2, PeerFault::Left), (3, died()), (4, died())] {
            peers.note(Rank(rank), fault);
        }
        assert_eq!(peers.cause(|_, _, _| true), Some((Rank(3), &died())));
        assert_eq!(peers.cause(|rank, _, _| rank == Rank(1)), Some((Rank(3), &died())));
        assert_eq!(peers.cause(|rank, _, _| rank == Rank(2)), Some((Rank(2), &PeerFault::Left)));
        assert_eq!(peers.cause(|_, _, _| false), None);
    }

    /// Rank 1 is of this node, rank 2 of another one.
    #[test]
    fn who_leaves_without_a_word_has_died_unless_the_word_is_under_way() {
        let shared_state = SharedState::of_nodes(Rank(0), 4, 2);
        let fault =
            |rank: u32, reason| PeerFault::of(&shared_state, Rank(rank), Some(reason)).unwrap();
        let died = |reason: &DepartureReason| PeerFault::Died(reason.clone());
        assert_eq!(PeerFault::of(&shared_state, Rank(1), None), None);
        let left = &DepartureReason::Left;
        assert_eq!((fault(1, left), fault(2, left)), (died(left), PeerFault::Left));
        for rank in [Rank(1), Rank(2)] {
            let shared_state = SharedState::of_nodes(Rank(0), 4, 2);
            shared_state.seen_by(rank).mark(RankState::Closed, &Reason::default());
            let closed = |reason| PeerFault::of(&shared_state, rank, reason);
            let at_once = if rank == Rank(1) { PeerFault::Left } else { PeerFault::Leaving };
            assert_eq!((closed(None), closed(Some(left))), (Some(at_once), Some(PeerFault::Left)));
        }
        let lost = &DepartureReason::Lost("is gone".to_owned());
        assert_eq!((fault(1, lost), fault(2, lost)), (died(lost), died(lost)));
        shared_state.seen_by(Rank(1)).mark(RankState::Failed, &"enough".into());
        assert_eq!(fault(1, left), gave_up());
    }
}
