//! What a device has reported by itself: ports that went down, queue pairs that it gave up.
//!
//! Taking events asks the kernel, so whoever polls a rail looks only every few milliseconds, for
//! all rails of the device. A port that goes down is remembered and reported with the failure that
//! may follow; alone it breaks no rail, since links come back.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::cause::fatal_event;
use crate::verbs::{Adapter, Event, EventOf, QueuePairId};

/// Time between two looks.
const EVERY: Duration = Duration::from_millis(5);

/// A device and what it has reported.
pub struct Watch {
    adapter: Arc<Adapter>,
    begun: Instant,
    next_look_ns: AtomicU64,
    /// How many events there were that may break a rail.
    fatal: AtomicU64,
    reported: Mutex<Reported>,
}

#[derive(Default)]
struct Reported {
    down: BTreeMap<u8, Instant>,
    device: Option<u32>,
    pairs: HashMap<u32, u32>,
    completions: HashMap<usize, u32>,
}

impl Watch {
    /// Watches a device on which [`Adapter::never_wait_for_events`] was called.
    pub fn new(adapter: Adapter) -> Self {
        Self {
            adapter: Arc::new(adapter),
            begun: Instant::now(),
            next_look_ns: AtomicU64::new(0),
            fatal: AtomicU64::new(0),
            reported: Mutex::default(),
        }
    }

    /// The device.
    pub fn adapter(&self) -> &Arc<Adapter> {
        &self.adapter
    }

    /// Looks, if that is due.
    pub fn look_if_due(&self) {
        let nanoseconds = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        let now = nanoseconds(self.begun.elapsed());
        let due = self.next_look_ns.load(Ordering::Relaxed);
        let next = now + nanoseconds(EVERY);
        let mine = now >= due
            && self
                .next_look_ns
                .compare_exchange(due, next, Ordering::Relaxed, Ordering::Relaxed)
                .is_ok();
        if mine {
            self.look();
        }
    }

    /// Takes all events that there are.
    pub fn look(&self) {
        // Held from before an event is taken until it is noted, so that none is noted after
        // `forget`.
        let mut reported = self.reported();
        while let Some(event) = self.adapter.next_event() {
            reported.take_in(event);
            if fatal_event(event.code).is_some() {
                self.fatal.fetch_add(1, Ordering::Release);
            }
        }
    }

    /// How many events there were that may break a rail; [`Watch::fatal_of`] need not be asked as
    /// long as it stays the same.
    pub fn fatal_count(&self) -> u64 {
        self.fatal.load(Ordering::Acquire)
    }

    /// The event that ends this queue pair, if there was one.
    pub fn fatal_of(&self, queue_pair_id: &QueuePairId) -> Option<u32> {
        let reported = self.reported();
        let of_queues =
            || queue_pair_id.completions.iter().find_map(|at| reported.completions.get(at));
        let code = reported.pairs.get(&queue_pair_id.pair).or_else(of_queues);
        code.copied().or(reported.device)
    }

    /// Since when a port has been down, if it is.
    pub fn down_for(&self, port: u8) -> Option<Duration> {
        self.reported().down.get(&port).map(Instant::elapsed)
    }

    /// A queue pair has ended: another may get its queue_pair_id.
    pub fn forget(&self, queue_pair_id: &QueuePairId) {
        let mut reported = self.reported();
        reported.pairs.remove(&queue_pair_id.pair);
        for place in &queue_pair_id.completions {
            reported.completions.remove(place);
        }
    }

    fn reported(&self) -> MutexGuard<'_, Reported> {
        self.reported.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Verbs' numbers of the two events of ports that matter here.
const PORT_ACTIVE: u32 = 9;
const PORT_ERR: u32 = 10;

impl Reported {
    fn take_in(&mut self, event: Event) {
        let Event { of, code } = event;
        match of {
            EventOf::Port(port) if code == PORT_ERR => {
                self.down.entry(port).or_insert_with(Instant::now);
            }
            EventOf::Port(port) if code == PORT_ACTIVE => {
                self.down.remove(&port);
            }
            EventOf::Device => self.device = Some(code),
            EventOf::Pair(pair) if fatal_event(code).is_some() => {
                self.pairs.entry(pair).or_insert(code);
            }
            EventOf::Completions(place) => {
                self.completions.insert(place, code);
            }
            EventOf::Port(_) | EventOf::Pair(_) | EventOf::Other => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_events_are_those_of_verbs() {
        assert_eq!(PORT_ACTIVE, ibverbs_sys::IBV_EVENT_PORT_ACTIVE);
        assert_eq!(PORT_ERR, ibverbs_sys::IBV_EVENT_PORT_ERR);
    }

    #[test]
    fn a_port_is_down_until_it_is_active_again() {
        let mut reported = Reported::default();
        let event = |code| Event { of: EventOf::Port(2), code };
        reported.take_in(event(PORT_ERR));
        let since = reported.down[&2];
        reported.take_in(event(PORT_ERR));
        assert_eq!(reported.down[&2], since);
        reported.take_in(event(PORT_ACTIVE));
        assert!(reported.down.is_empty());
    }

    #[test]
    fn the_first_fatal_event_of_a_pair_counts_and_mere_news_do_not() {
        let mut reported = Reported::default();
        let event = |code| Event { of: EventOf::Pair(7), code };
        reported.take_in(event(ibverbs_sys::IBV_EVENT_COMM_EST));
        assert!(reported.pairs.is_empty());
        reported.take_in(event(ibverbs_sys::IBV_EVENT_QP_ACCESS_ERR));
        reported.take_in(event(ibverbs_sys::IBV_EVENT_QP_FATAL));
        assert_eq!(reported.pairs[&7], ibverbs_sys::IBV_EVENT_QP_ACCESS_ERR);
    }
}
