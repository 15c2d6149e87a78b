//! The hang report: who waits for whom. One text for all ranks of a communicator.
//!
//! A [`Snapshot`] is what one rank could learn of all ranks. [`WaitGraph`] finds out who holds up
//! whom; [`Snapshot::format`] writes the report: first the conclusion, then what ranks say
//! differently of one call, where every rank is, and what thread blocks wait for. What is alike is
//! said once, and a report has at most some sixty lines whatever the number of ranks.

mod format;
mod wait_graph;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::fmt;

use msccl_collective::Rank;

use super::answer::{Answer, Wait};
use crate::shared_state::compare::{Difference, first_difference};
use crate::shared_state::{PostedCall, RankState, SharedState};
use wait_graph::WaitGraph;

/// What one rank could learn of all.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Snapshot {
    /// All ranks, in order.
    pub ranks: Vec<RankSnapshot>,
    /// The first call on which they differ.
    pub difference: Option<Difference>,
}

/// What could be learned of one rank.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct RankSnapshot {
    /// Its process, such as `pid 1234`.
    pub process: String,
    /// Whether it lives on the node of whoever looks.
    pub is_intra_node: bool,
    /// What became of it.
    pub state: RankState,
    /// Why.
    pub reason: String,
    /// What the network reports of its end, such as `has died: its connection ended`.
    pub departed: Option<String>,
    /// What it says itself.
    pub answer: Option<Answer>,
    /// The number of its last collective.
    pub collectives: u64,
    /// Its last call.
    pub last: Option<PostedCall>,
    /// Its first call that is not done, as far as it has reported.
    pub current: Option<PostedCall>,
}

impl Snapshot {
    /// What the shared state says, once answers to `request` have come; `processes` are of all
    /// ranks.
    pub fn look(
        shared_state: &SharedState,
        request: u64,
        processes: impl IntoIterator<Item = String>,
        departed: &BTreeMap<Rank, String>,
    ) -> Self {
        let rank_snapshot =
            |(rank, process)| RankSnapshot::look(shared_state, request, rank, process, departed);
        let ranks = shared_state.ranks().zip(processes).map(rank_snapshot).collect();
        Self { ranks, difference: first_difference(shared_state) }
    }

    /// What holds up the ranks, in one line.
    pub fn conclusion(&self) -> String {
        self.conclusions(&WaitGraph::of(self)).join("; ")
    }

    /// The same, one by one: what ranks call differently comes first.
    fn conclusions(&self, graph: &WaitGraph<'_>) -> Vec<String> {
        let difference = self.difference.iter().map(Difference::advised);
        difference.chain(graph.conclusions()).collect()
    }

    /// The ranks that failed of `cause`, which the report states first, as they were before.
    /// `cause` begins with the cause itself; what follows is how a rank learned of it.
    pub fn attributed_to(mut self, cause: &str) -> Self {
        let cause = cause.split("; ").next().unwrap_or(cause);
        let failed = |rank_snapshot: &&mut RankSnapshot| rank_snapshot.state.has_failed();
        for rank_snapshot in self.ranks.iter_mut().filter(failed) {
            if rank_snapshot.reason.contains(cause) {
                rank_snapshot.state = RankState::Running;
                rank_snapshot.reason.clear();
            }
        }
        self
    }

    fn rank_snapshot(&self, rank: Rank) -> Option<&RankSnapshot> {
        self.ranks.get(rank.index())
    }

    /// Every rank's waits.
    fn waits(&self) -> impl Iterator<Item = (Rank, &Wait)> {
        let ranks = self.ranks.iter().enumerate();
        ranks.flat_map(|(rank, rank_snapshot)| {
            rank_snapshot.waits().map(move |wait| (Rank::from(rank), wait))
        })
    }
}

impl RankSnapshot {
    fn look(
        shared_state: &SharedState,
        request: u64,
        rank: Rank,
        process: String,
        departed: &BTreeMap<Rank, String>,
    ) -> Self {
        let is_intra_node = shared_state.nodes().together(shared_state.me(), rank);
        let departed = departed.get(&rank).cloned();
        let answer =
            shared_state.answer_of(rank, request).and_then(|text| Answer::from_text(&text));
        let finished = answer.as_ref().map(|answer| answer.finished);
        let current = finished.and_then(|finished| shared_state.first_from(rank, finished + 1));
        let state = answer.as_ref().map_or_else(|| shared_state.state(rank), |answer| answer.state);
        let reason = match state {
            RankState::Running => String::new(),
            RankState::Aborted
            | RankState::Failed
            | RankState::TimedOut
            | RankState::Mismatched
            | RankState::Closed => shared_state.reason(rank).words,
        };
        let (collectives, last) = (shared_state.collectives(rank), shared_state.last(rank));
        Self { process, is_intra_node, state, reason, departed, answer, collectives, last, current }
    }

    fn waits(&self) -> impl Iterator<Item = &Wait> {
        self.answer.iter().flat_map(|answer| &answer.waits)
    }

    /// The number of the collective that it is in.
    fn current_number(&self) -> Option<u64> {
        self.current.as_ref().and_then(PostedCall::number)
    }

    /// What has befallen it as seen by someone who waits for it in call `number`, or in a
    /// point-to-point call.
    fn peer_status(&self, number: Option<u64>) -> PeerStatus<'_> {
        let Self {
            process,
            is_intra_node,
            state,
            reason,
            departed,
            answer,
            collectives,
            last,
            current,
        } = self;
        let last = last.as_ref();
        let answer = match (state, departed, answer) {
            (
                RankState::Aborted
                | RankState::Failed
                | RankState::TimedOut
                | RankState::Mismatched,
                ..,
            ) => {
                return PeerStatus::Ended(*state, reason);
            }
            (RankState::Closed, ..) => return PeerStatus::Left { last },
            (RankState::Running, Some(report), _) => return PeerStatus::Departed { report, last },
            (RankState::Running, None, None) => {
                return PeerStatus::Silent { process, is_intra_node: *is_intra_node, last };
            }
            (RankState::Running, None, Some(answer)) => answer,
        };
        let at = current.as_ref().filter(|current| current.number() != number);
        let entered = number.is_none_or(|number| *collectives >= number);
        match (answer.waits.is_empty(), entered, current) {
            (false, ..) => PeerStatus::Waits { at },
            (true, false, _) => PeerStatus::Absent { last },
            (true, true, Some(_)) => PeerStatus::Busy { at },
            (true, true, None) => PeerStatus::Done { last },
        }
    }
}

/// Why a rank that others wait for does not help them.
#[derive(Clone, Copy, PartialEq, Debug)]
enum PeerStatus<'a> {
    /// It gave up.
    Ended(RankState, &'a str),
    /// It died, or its host did.
    Departed { report: &'a str, last: Option<&'a PostedCall> },
    /// It has left in order.
    Left { last: Option<&'a PostedCall> },
    /// It gave no answer.
    Silent { process: &'a str, is_intra_node: bool, last: Option<&'a PostedCall> },
    /// It has not entered the call.
    Absent { last: Option<&'a PostedCall> },
    /// It waits itself; in another call, if that is known.
    Waits { at: Option<&'a PostedCall> },
    /// It is in the call, or in another one if that is known, but waits for nobody.
    Busy { at: Option<&'a PostedCall> },
    /// It has done all its calls.
    Done { last: Option<&'a PostedCall> },
}

impl PeerStatus<'_> {
    /// As in "r5 …", where `collective` is what others wait in.
    fn describe(&self, collective: &str) -> String {
        let calm = "none of its thread blocks waits: its stream has not come to it, or it computes";
        match self {
            PeerStatus::Ended(state, reason) => format!("has {}: {reason}", state.verb()),
            PeerStatus::Departed { report, last } => format!("{report} ({})", LastCall(*last)),
            PeerStatus::Left { last } => format!("has left the communicator ({})", LastCall(*last)),
            PeerStatus::Silent { process, is_intra_node, last } => {
                let or = if *is_intra_node { "" } else { ", or its host cannot be reached" };
                let last = LastCall(*last);
                format!("did not answer ({process}): its process is stopped or gone{or} ({last})")
            }
            PeerStatus::Absent { last } => {
                format!("has not entered {collective} ({})", LastCall(*last))
            }
            PeerStatus::Waits { at: None } => "waits itself".to_owned(),
            PeerStatus::Waits { at: Some(at) } => format!("waits itself, in {at}"),
            PeerStatus::Busy { at: None } => format!("has issued {collective}, but {calm}"),
            PeerStatus::Busy { at: Some(at) } => format!("is in {at}, but {calm}"),
            PeerStatus::Done { last } => format!(
                "waits for nobody: its calls are over, or have not begun on its GPU ({})",
                LastCall(*last)
            ),
        }
    }
}

/// As in "(its last call was …)".
struct LastCall<'a>(Option<&'a PostedCall>);

impl fmt::Display for LastCall<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            None => f.write_str("it has made no call"),
            Some(posted) => match posted.number() {
                // "its last call was call 40" would stammer.
                Some(number) => write!(f, "its last call was #{number}, {}", posted.call),
                None => write!(f, "its last call was {posted}"),
            },
        }
    }
}
