//! What a communicator is doing, as a value: for dumps beside those of frameworks.

use super::WatchShared;
use crate::call::Call;
use crate::shared_state::{PostedCall, PostedKind, SharedState};

/// Calls that are done and are still listed.
const PAST_MAX: u64 = 10;

/// Calls that are not done and are listed.
const PENDING_MAX: u64 = 64;

/// What a communicator is doing, as one of its ranks sees it.
#[derive(Clone, PartialEq, Debug)]
pub struct CommunicatorState {
    /// On how many nodes it is.
    pub nodes: u32,
    /// Ranks of the node of this one.
    pub local_ranks: u32,
    /// The first failure, in words.
    pub failure: Option<String>,
    /// The last calls of this rank that are done, and those that are not, in their order.
    pub calls: Vec<CallState>,
    /// What thread blocks of this rank wait for.
    pub waits: Vec<WaitState>,
    /// Every rank, as it has said of itself.
    pub ranks: Vec<RankSummary>,
}

/// A call of this rank.
#[derive(Clone, PartialEq, Debug)]
pub struct CallState {
    /// Its place among all calls of this rank, from 1.
    pub sequence: u64,
    /// Its number among collectives, which all ranks share; none of sends and receives.
    pub number: Option<u64>,
    /// The call, without its buffers; of sends and receives of a group, the first.
    pub call: Call,
    /// How far it is.
    pub progress: CallProgress,
}

/// How far a call is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CallProgress {
    /// It is done.
    Past,
    /// It is the first that is not done.
    Current,
    /// It comes behind that.
    Pending,
}

/// What a thread block waits for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct WaitState {
    /// The sequence of its call.
    pub sequence: u64,
    /// The rank that could help, if it is another one.
    pub peer: Option<u32>,
    /// In words.
    pub text: String,
}

/// What a rank has said of itself.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RankSummary {
    /// Which.
    pub rank: u32,
    /// `running`, `aborted`, `failed`, `mismatched`, `timed-out` or `closed`.
    pub state: &'static str,
    /// Collectives that it has entered.
    pub collectives: u64,
    /// The last call that it has entered, in words.
    pub last: Option<String>,
}

impl WatchShared {
    /// What the communicator is doing now.
    pub(super) fn state(&self) -> CommunicatorState {
        let shared_state = &*self.watched.shared_state;
        let progress = self.progress();
        let (me, nodes) = (shared_state.me(), shared_state.nodes());
        let waits = progress.waits.iter().map(|waiting| WaitState {
            sequence: waiting.call,
            peer: waiting.peer.map(|rank| rank.0),
            text: waiting.text.clone(),
        });
        let ranks = shared_state.ranks().map(|rank| RankSummary {
            rank: rank.0,
            state: shared_state.state(rank).name(),
            collectives: shared_state.collectives(rank),
            last: shared_state.last(rank).map(|posted| posted.to_string()),
        });
        CommunicatorState {
            nodes: nodes.count() as u32,
            local_ranks: nodes.around(me).len() as u32,
            failure: self.watched.failure.get().map(ToString::to_string),
            calls: calls(shared_state, progress.finished),
            waits: waits.collect(),
            ranks: ranks.collect(),
        }
    }
}

/// Calls of this rank, of which those up to sequence `finished` are done.
fn calls(shared_state: &SharedState, finished: u64) -> Vec<CallState> {
    let me = shared_state.me();
    let last = shared_state.issued(me).min(finished.saturating_add(PENDING_MAX));
    let mut next = (finished + 1).saturating_sub(PAST_MAX).max(1);
    let mut calls = Vec::new();
    let mut is_first = true;
    while let Some(posted) = shared_state.first_from(me, next).filter(|of| of.sequence <= last) {
        let PostedCall { sequence, call, kind, settings: _ } = posted;
        let number = match kind {
            PostedKind::Collective { number, placement: _ } => Some(number),
            PostedKind::Transfers { calls: _ } => None,
        };
        let progress = match sequence <= finished {
            true => CallProgress::Past,
            false if std::mem::take(&mut is_first) => CallProgress::Current,
            false => CallProgress::Pending,
        };
        calls.push(CallState { sequence, number, call, progress });
        next = sequence + 1;
    }
    calls
}
