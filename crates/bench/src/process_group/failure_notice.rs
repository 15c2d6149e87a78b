//! How ranks learn, while they wait for workers of their own, that another one has failed.
//!
//! Workers that wait for one which failed may wait without end, and the system reports a host that
//! is cut off only after a minute. So a rank that fails sends a notice to rank 0, which publishes
//! it to all. Every notice has the number of the exchange that it comes before, so that a late one
//! does not count for the next.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use msccl_collective::Rank;
use msccl_fabric::Group;

/// The tags of notices to rank 0, and of those from there to all.
const TO_FIRST: u64 = 1;
const FROM_FIRST: u64 = 2;

/// How often rank 0 looks whether it shall go on listening.
const PAUSE: Duration = Duration::from_millis(100);

/// Whether something has happened elsewhere that may keep workers from answering.
pub(crate) type Alarm = Box<dyn Fn() -> bool>;

/// What is known of failures, shared with the thread that passes them on.
pub(super) struct FailureNotice {
    notices: Arc<Notices>,
    /// On rank 0.
    relay: Option<JoinHandle<()>>,
}

struct Notices {
    group: Arc<Group>,
    /// The number of the exchange that comes next.
    exchange: AtomicU64,
    /// One more than the number of the last exchange before which a notice came.
    noticed: AtomicU64,
    over: AtomicBool,
}

impl FailureNotice {
    pub(super) fn new(group: Arc<Group>) -> Self {
        let (exchange, noticed) = (AtomicU64::new(0), AtomicU64::new(0));
        let notices = Arc::new(Notices { group, exchange, noticed, over: AtomicBool::new(false) });
        let is_first = notices.group.rank() == Rank(0);
        let relay = is_first.then(|| {
            let notices = notices.clone();
            thread::spawn(move || notices.pass_on())
        });
        Self { notices, relay }
    }

    /// Reports to all that this rank has failed.
    pub(super) fn send(&self) {
        let exchange = self.notices.exchange.load(Ordering::Relaxed);
        match self.notices.group.rank() {
            Rank(0) => self.notices.publish(exchange),
            // If rank 0 is gone, the others know that by themselves.
            _ => drop(self.notices.group.send(Rank(0), TO_FIRST, &exchange.to_le_bytes())),
        }
    }

    /// Whether a rank has failed since the last exchange; does not wait.
    pub(super) fn watch(&self) -> Alarm {
        let notices = self.notices.clone();
        Box::new(move || notices.has_failure())
    }

    /// An exchange is over, and what was noticed before it.
    pub(super) fn next(&self) {
        self.notices.exchange.fetch_add(1, Ordering::Relaxed);
    }
}

impl Drop for FailureNotice {
    fn drop(&mut self) {
        self.notices.over.store(true, Ordering::Relaxed);
        // A thread that panicked has said so.
        self.relay.take().map(JoinHandle::join);
    }
}

impl Notices {
    /// On rank 0: publishes the notice of any rank.
    fn pass_on(&self) {
        let others: Vec<Rank> = self.group.peers().skip(1).map(|peer| peer.rank).collect();
        while !self.over.load(Ordering::Relaxed) {
            if let Some((_, notice)) = self.group.receive_any(&others, TO_FIRST, PAUSE) {
                number(&notice).into_iter().for_each(|exchange| self.publish(exchange));
            }
        }
    }

    fn publish(&self, exchange: u64) {
        if self.noticed.fetch_max(exchange + 1, Ordering::Relaxed) > exchange {
            return;
        }
        for peer in self.group.peers().skip(1) {
            // Whoever is gone need not know.
            let _ = self.group.send(peer.rank, FROM_FIRST, &exchange.to_le_bytes());
        }
    }

    fn has_failure(&self) -> bool {
        if self.group.rank() != Rank(0) {
            while let Ok(Some(notice)) = self.group.try_receive(Rank(0), FROM_FIRST) {
                let exchange = number(&notice).unwrap_or(0);
                self.noticed.fetch_max(exchange + 1, Ordering::Relaxed);
            }
        }
        let noticed = self.noticed.load(Ordering::Relaxed);
        noticed > self.exchange.load(Ordering::Relaxed) || !self.group.departed().is_empty()
    }
}

fn number(bytes: &[u8]) -> Option<u64> {
    bytes.try_into().ok().map(u64::from_le_bytes)
}
