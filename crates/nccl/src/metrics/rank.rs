//! What one rank of one communicator counts.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use msccl_runtime::{
    BlockSpan, ObservedCollective, ObservedPlace, ObservedRank, ObservedTransfers, TransferWay,
};

use super::totals::{Timed, Totals};
use crate::launched::LaunchedCalls;

/// The counts of one rank.
pub struct RankMetrics {
    /// That the program gave the communicator.
    pub(super) name: Option<String>,
    counts: Mutex<Counts>,
}

/// Of one rank.
#[derive(Clone, Default, Debug)]
pub(super) struct Counts {
    /// Nothing before the ranks have met.
    pub identity: Option<Identity>,
    /// By name of the collective.
    pub totals: BTreeMap<&'static str, Totals>,
    /// Of thread blocks, as far as calls are recorded.
    pub waiting: Duration,
    /// The same.
    pub moving: Duration,
    pub failures: u64,
    pub last: Option<LastCall>,
    /// Whether the communicator has ended.
    pub has_ended: bool,
    running: Option<RunningCall>,
    /// On a GPU.
    launched: LaunchedCalls<CollectiveBlocks>,
}

/// Who counts.
#[derive(Clone, Debug)]
pub(super) struct Identity {
    pub communicator: u64,
    pub rank: u32,
    pub ranks: u32,
    pub nodes: u32,
    pub host: String,
    place: ObservedPlace,
}

/// The call that began last.
#[derive(Clone, Copy, Debug)]
pub(super) struct LastCall {
    pub number: u64,
    pub collective: &'static str,
    pub bytes: u64,
    pub began: SystemTime,
}

/// A call that is being executed.
#[derive(Clone, Debug)]
struct RunningCall {
    began: Instant,
    parts: Vec<Part>,
}

/// A collective; or all sends of a group, or all its receives.
#[derive(Clone, Copy, Debug)]
struct Part {
    collective: &'static str,
    calls: u64,
    bytes: u64,
}

/// A collective on a GPU, whose thread blocks report when they have ended.
#[derive(Clone, Debug)]
struct CollectiveBlocks {
    part: Part,
    blocks: u32,
    /// Of this run of it; a graph runs more than once.
    ended: u32,
    begin_ns: u64,
    end_ns: u64,
}

impl RankMetrics {
    /// Of a communicator to which the program gave `name`.
    pub fn new(name: Option<&str>) -> Self {
        Self { name: name.map(str::to_owned), counts: Mutex::default() }
    }

    /// The ranks have met.
    pub fn joined(&self, rank: &ObservedRank<'_>) {
        let ObservedRank { communicator, rank, ranks, nodes, host, place } = *rank;
        let (rank, host) = (rank.0, host.to_owned());
        self.counts().identity = Some(Identity { communicator, rank, ranks, nodes, host, place });
    }

    /// A collective begins.
    pub fn collective_begins(&self, call: &ObservedCollective<'_>) {
        let ObservedCollective { number, collective, bytes, thread_blocks, .. } = *call;
        let mut counts = self.counts();
        let part = Part { collective, calls: 1, bytes };
        counts.begin(number, vec![part]);
        if counts.identity.as_ref().is_some_and(|of| of.place == ObservedPlace::Gpu) {
            counts.launched.push(number, CollectiveBlocks::new(part, thread_blocks));
        }
    }

    /// The sends and receives of a group begin.
    pub fn transfers_begin(&self, call: &ObservedTransfers<'_>) {
        let part = |way, collective| {
            let own = call.transfers.iter().filter(move |transfer| transfer.way == way);
            let (calls, bytes) = (own.clone().count() as u64, own.map(|of| of.bytes).sum());
            Part { collective, calls, bytes }
        };
        let parts = [part(TransferWay::Send, "send"), part(TransferWay::Receive, "recv")];
        let parts = parts.into_iter().filter(|part| part.calls > 0).collect();
        self.counts().begin(call.number, parts);
    }

    /// What began last is over, or has failed.
    pub fn ends(&self, succeeded: bool) {
        let mut counts = self.counts();
        let Some(RunningCall { began, parts }) = counts.running.take() else { return };
        if !succeeded {
            counts.failures += 1;
            return;
        }
        let returns_when_done =
            counts.identity.as_ref().is_some_and(|of| of.place == ObservedPlace::Host);
        if returns_when_done {
            let time = began.elapsed();
            parts.into_iter().for_each(|part| counts.time(part, time));
        }
    }

    /// A thread block has ended.
    pub fn block(&self, span: &BlockSpan) {
        let BlockSpan { call, block: _, begin_ns, end_ns, waiting_ns, moving_ns } = *span;
        let mut counts = self.counts();
        counts.waiting += Duration::from_nanos(waiting_ns);
        counts.moving += Duration::from_nanos(moving_ns);
        let launched = counts.launched.get_mut(call);
        let ended = launched.and_then(|blocks| blocks.block(begin_ns, end_ns));
        if let Some((part, time)) = ended {
            counts.time(part, time);
        }
    }

    /// The communicator has ended.
    pub fn end(&self) {
        self.counts().has_ended = true;
    }

    /// Whether the communicator has ended.
    pub(super) fn has_ended(&self) -> bool {
        self.counts().has_ended
    }

    /// What is counted now, to be written.
    pub(super) fn take(&self) -> Counts {
        let mut counts = self.counts();
        let taken = counts.clone();
        counts.totals.values_mut().for_each(Totals::written);
        taken
    }

    fn counts(&self) -> MutexGuard<'_, Counts> {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Counts {
    fn begin(&mut self, number: u64, parts: Vec<Part>) {
        let Some(first) = parts.first() else { return };
        let Part { collective, bytes, .. } = *first;
        self.last = Some(LastCall { number, collective, bytes, began: SystemTime::now() });
        for part in &parts {
            let totals = self.totals.entry(part.collective).or_default();
            totals.count(part.calls, part.bytes);
        }
        self.running = Some(RunningCall { began: Instant::now(), parts });
    }

    /// `part` has taken `time`.
    fn time(&mut self, part: Part, time: Duration) {
        let Part { collective, calls, bytes } = part;
        self.totals.entry(collective).or_default().time(Timed { calls, bytes, time });
    }
}

impl CollectiveBlocks {
    fn new(part: Part, blocks: u32) -> Self {
        Self { part, blocks, ended: 0, begin_ns: u64::MAX, end_ns: 0 }
    }

    /// A thread block has ended; how long the call took, if it was the last one.
    fn block(&mut self, begin_ns: u64, end_ns: u64) -> Option<(Part, Duration)> {
        self.begin_ns = self.begin_ns.min(begin_ns);
        self.end_ns = self.end_ns.max(end_ns);
        self.ended += 1;
        if self.ended < self.blocks {
            return None;
        }
        let time = Duration::from_nanos(self.end_ns.saturating_sub(self.begin_ns));
        (self.ended, self.begin_ns, self.end_ns) = (0, u64::MAX, 0);
        Some((self.part, time))
    }
}
