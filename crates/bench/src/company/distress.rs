//! How ranks learn, while they wait for workers of their own, that another one has failed.
//!
//! Workers that wait for one which failed may wait without end, and a rank whose host is cut off is missed by
//! the system a minute later. So a rank that fails tells rank 0, and that tells all, by connections that are
//! there anyway. Every cry bears the number of the exchange that it comes before, lest a late one count for
//! the next.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use msccl_collective::Rank;
use msccl_fabric::Group;

/// The tags of cries on their way to rank 0, and from there to all.
const TO_FIRST: u64 = 1;
const FROM_FIRST: u64 = 2;

/// How often rank 0 looks whether it shall go on listening.
const PAUSE: Duration = Duration::from_millis(100);

/// What is known of failures, shared with the thread that passes them on.
pub(super) struct Distress {
    heard: Arc<Heard>,
    /// On rank 0.
    relay: Option<JoinHandle<()>>,
}

struct Heard {
    group: Arc<Group>,
    /// The number of the exchange that comes next.
    exchange: AtomicU64,
    /// One more than the number of the last exchange before which somebody cried.
    cried: AtomicU64,
    over: AtomicBool,
}

impl Distress {
    pub(super) fn new(group: Arc<Group>) -> Self {
        let (exchange, cried) = (AtomicU64::new(0), AtomicU64::new(0));
        let heard = Arc::new(Heard { group, exchange, cried, over: AtomicBool::new(false) });
        let is_first = heard.group.rank() == Rank(0);
        let relay = is_first.then(|| {
            let heard = heard.clone();
            thread::spawn(move || heard.pass_on())
        });
        Self { heard, relay }
    }

    /// Tells all that this rank has failed.
    pub(super) fn cry(&self) {
        let exchange = self.heard.exchange.load(Ordering::Relaxed);
        match self.heard.group.rank() {
            Rank(0) => self.heard.tell_all(exchange),
            // If rank 0 is gone, the others know that by themselves.
            _ => drop(self.heard.group.send(Rank(0), TO_FIRST, &exchange.to_le_bytes())),
        }
    }

    /// Looks, without waiting, whether somebody has failed since the last exchange.
    pub(super) fn watch(&self) -> Box<dyn Fn() -> bool> {
        let heard = self.heard.clone();
        Box::new(move || heard.is_in_distress())
    }

    /// An exchange is over, and what was cried before it.
    pub(super) fn next(&self) {
        self.heard.exchange.fetch_add(1, Ordering::Relaxed);
    }
}

impl Drop for Distress {
    fn drop(&mut self) {
        self.heard.over.store(true, Ordering::Relaxed);
        // A thread that panicked has said so.
        self.relay.take().map(JoinHandle::join);
    }
}

impl Heard {
    /// On rank 0: what one cries all hear.
    fn pass_on(&self) {
        let others: Vec<Rank> = self.group.peers().skip(1).map(|peer| peer.rank).collect();
        while !self.over.load(Ordering::Relaxed) {
            if let Some((_, cry)) = self.group.receive_any(&others, TO_FIRST, PAUSE) {
                number(&cry).into_iter().for_each(|exchange| self.tell_all(exchange));
            }
        }
    }

    fn tell_all(&self, exchange: u64) {
        if self.cried.fetch_max(exchange + 1, Ordering::Relaxed) > exchange {
            return;
        }
        for peer in self.group.peers().skip(1) {
            // Whoever is gone need not know.
            let _ = self.group.send(peer.rank, FROM_FIRST, &exchange.to_le_bytes());
        }
    }

    fn is_in_distress(&self) -> bool {
        if self.group.rank() != Rank(0) {
            while let Ok(Some(cry)) = self.group.try_receive(Rank(0), FROM_FIRST) {
                let exchange = number(&cry).unwrap_or(0);
                self.cried.fetch_max(exchange + 1, Ordering::Relaxed);
            }
        }
        let cried = self.cried.load(Ordering::Relaxed);
        cried > self.exchange.load(Ordering::Relaxed) || !self.group.departed().is_empty()
    }
}

fn number(bytes: &[u8]) -> Option<u64> {
    bytes.try_into().ok().map(u64::from_le_bytes)
}
