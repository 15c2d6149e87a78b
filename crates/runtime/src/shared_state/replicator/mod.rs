//! The state replicator: brings what ranks on other nodes post into this node's shared state.
//!
//! Every node has a *leader*: its lowest rank that has not departed. It scans the parts of its
//! node, sends what has changed to the leaders of the other nodes, and stores what these send. Only
//! what changed travels; an idle communicator sends nothing, and a busy one the last few records of
//! each rank, and the last message of each pair of ranks, unless ranks compare arguments or a
//! report is requested: then all records go, and soon. When a leader departs, the next rank of its
//! node takes over, and all leaders send everything once more: what was under way is not lost.
//!
//! **What readers must take into account.** What the shared state holds of a rank elsewhere was
//! true [`PERIOD`] and a moment of the network ago, or examples tenths of a second while a leader
//! changes. It may lack old records. Whoever sees a rank there as running may know from its group
//! that it has departed: then [`SharedState::is_complete`] says whether all that it posted is here,
//! and until then nothing may be concluded from what is not here. Of a node that has departed as a
//! whole that is never known.

mod state_update;
mod update_scan;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use msccl_collective::Rank;
use msccl_fabric::{self as fabric, Group};

use super::SharedState;
use crate::error::{Error, ErrorKind};
use update_scan::UpdateScan;

/// How often a leader looks at its node.
const PERIOD: Duration = Duration::from_millis(10);
/// How often while somebody waits for what it would see.
const URGENT_PERIOD: Duration = Duration::from_micros(200);
/// How often another rank looks whether it has become one.
const SLOW_PERIOD: Duration = Duration::from_millis(100);
/// How long a leader goes on scanning often, once ranks that compare arguments have made a call.
const URGENT_FOR: Duration = Duration::from_millis(50);
/// How long a report takes at most, from its request on.
const REPORT: Duration = Duration::from_secs(2);
/// How long a leader may take to reach another one to which it has no connection: meanwhile it
/// receives nothing, nor can it end.
const CONNECT_LIMIT: Duration = Duration::from_millis(500);
/// Marks messages between leaders.
const TAG: u64 = u64::from_be_bytes(*b"\0\0mirror");

/// The thread by which a rank is or becomes the leader of its node. Dropping it sends what has
/// changed last, and ends the thread.
pub(crate) struct Replicator {
    ends: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Replicator {
    /// Starts to replicate the shared state of all nodes of `group`, if there are several.
    ///
    /// # Errors
    ///
    /// There can be no thread.
    pub fn start(
        group: &Arc<Group>,
        shared_state: &Arc<SharedState>,
    ) -> Result<Option<Self>, Error> {
        let me = shared_state.me();
        if shared_state.nodes().count() < 2 {
            return Ok(None);
        }
        let ends = Arc::new(AtomicBool::new(false));
        let state = ReplicatorState::new(group.clone(), shared_state.clone());
        let thread = thread::Builder::new().name(format!("msccl-mirror-{}", me.0));
        let until = ends.clone();
        let thread = thread.spawn(move || state.run(&until)).map_err(|error| {
            let text = format!(
                "cannot start the thread that replicates the state of other nodes: {error}"
            );
            Error::new(ErrorKind::System, text)
        })?;
        Ok(Some(Self { ends, thread: Some(thread) }))
    }
}

impl Drop for Replicator {
    fn drop(&mut self) {
        self.ends.store(true, Ordering::Release);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            // A panic of the thread has been reported by the panic hook; there is nothing to add.
            let _ = thread.join();
        }
    }
}

/// What the thread keeps from one look to the next.
struct ReplicatorState {
    group: Arc<Group>,
    shared_state: Arc<SharedState>,
    /// The ranks of other nodes.
    elsewhere: Vec<Rank>,
    scan: UpdateScan,
    /// The ranks that had departed at the last look around, and when that was.
    departed: (BTreeSet<Rank>, Instant),
    /// Ranks that cannot be reached, of which the group need not know.
    lost: BTreeSet<Rank>,
    /// The leaders of all nodes, as of then.
    leaders: Vec<Rank>,
    /// The latest request, and when it was first seen.
    request: (u64, Instant),
    /// Until when calls that are compared are to be expected.
    urgent_until: Instant,
}

impl ReplicatorState {
    fn new(group: Arc<Group>, shared_state: Arc<SharedState>) -> Self {
        let (me, now) = (shared_state.me(), Instant::now());
        let elsewhere =
            shared_state.ranks().filter(|rank| !shared_state.nodes().together(me, *rank)).collect();
        let scan = UpdateScan::new(shared_state.nodes().around(me));
        let leaders = shared_state.nodes().leaders().collect();
        Self {
            group,
            shared_state,
            elsewhere,
            scan,
            departed: (BTreeSet::new(), now),
            lost: BTreeSet::new(),
            leaders,
            request: (0, now),
            urgent_until: now,
        }
    }

    fn run(mut self, ends: &AtomicBool) {
        self.connect_leaders();
        let mut next = Instant::now();
        loop {
            let last = ends.load(Ordering::Acquire);
            let is_leader = self.leaders.contains(&self.shared_state.me());
            if last || Instant::now() >= next {
                self.update_leaders();
                if is_leader {
                    self.report(last);
                }
                next = Instant::now() + self.period(is_leader);
            }
            if last {
                return;
            }
            let pause = next.saturating_duration_since(Instant::now());
            if !is_leader {
                thread::park_timeout(pause);
            } else if let Some((from, bytes)) = self.group.receive_any(&self.elsewhere, TAG, pause)
            {
                self.receive(from, &bytes);
            }
        }
    }

    /// Connects to the other leaders while all are there, lest a host that is cut off keep this one
    /// waiting when there is most to send.
    fn connect_leaders(&self) {
        let me = self.shared_state.me();
        let later = self.leaders.iter().filter(|leader| **leader > me);
        for leader in later.filter(|_| self.leaders.contains(&me)) {
            // Whoever cannot be reached is tried again when there are updates.
            let _ = self.group.send_within(*leader, TAG, &state_update::encode(&[]), CONNECT_LIMIT);
        }
    }

    /// Finds out who leads the nodes.
    fn update_leaders(&mut self) {
        if self.departed.1.elapsed() < PERIOD {
            return;
        }
        let departed: BTreeSet<_> = self.group.departed().into_iter().map(|of| of.rank).collect();
        let leaders = self
            .shared_state
            .nodes()
            .present_leaders(&departed.union(&self.lost).copied().collect());
        if leaders != self.leaders {
            // A new leader may not know what was sent to others.
            self.scan = UpdateScan::new(self.shared_state.nodes().around(self.shared_state.me()));
            self.leaders = leaders;
        }
        self.departed = (departed, Instant::now());
    }

    /// Sends the other nodes what has changed on this one; at the `last` time, all of it.
    fn report(&mut self, last: bool) {
        let request = self.shared_state.request();
        if request > self.request.0 {
            self.request = (request, Instant::now());
            self.scan.repeat_records();
        }
        let updates =
            self.scan.look(&self.shared_state, &self.departed.0, last || self.report_is_pending());
        if updates.is_empty() {
            return;
        }
        if self.scan.compares(&self.shared_state) {
            self.urgent_until = Instant::now() + URGENT_FOR;
        }
        let bytes = state_update::encode(&updates);
        let mut undelivered = false;
        for leader in self.leaders.iter().filter(|leader| **leader != self.shared_state.me()) {
            match self.group.send_within(*leader, TAG, &bytes, CONNECT_LIMIT) {
                Ok(()) => {}
                // If it is gone, everything is sent to its successor.
                Err(error) if error.kind() == fabric::ErrorKind::RankLost => {
                    self.lost.insert(*leader);
                }
                Err(_) => undelivered = true,
            }
        }
        if undelivered {
            self.scan = UpdateScan::new(self.shared_state.nodes().around(self.shared_state.me()));
        }
    }

    fn receive(&mut self, from: Rank, bytes: &[u8]) {
        // What cannot be read comes from no leader of this version, and says nothing.
        let Some(updates) = state_update::decode(bytes) else { return };
        for item in &updates {
            item.store(&self.shared_state, from);
        }
    }

    fn report_is_pending(&self) -> bool {
        self.request.0 > 0 && self.request.1.elapsed() < REPORT
    }

    fn period(&self, is_leader: bool) -> Duration {
        let me = self.shared_state.me();
        let checking = |rank: &Rank| self.shared_state.checking(*rank) != 0;
        let agrees = || self.shared_state.nodes().around(me).iter().any(checking);
        match is_leader {
            false => SLOW_PERIOD,
            true if self.report_is_pending() || self.urgent_until > Instant::now() => URGENT_PERIOD,
            true if agrees() => URGENT_PERIOD,
            true => PERIOD,
        }
    }
}

#[cfg(test)]
mod tests;
