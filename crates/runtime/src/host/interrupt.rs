//! What ends the waits of a rank: its own abort, or another rank of its node that has stopped and
//! is still needed.
//!
//! A rank that gives up, fails or ends *stops* its own rings, and no others. With that it says how
//! many collectives it had completed. A peer that waits needs it if it waits for that rank itself,
//! or in a later collective: then it will never have what it waits for, and fails. Who is in a
//! collective that the other has completed goes on, since all that the other had to say is in the
//! rings already.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use msccl_collective::Rank;
use msccl_fabric::{Abort, RingBuffers};

use super::inter_node::InterNode;
use crate::engine::{PARTING, Waiting};
use crate::error::{Error, ErrorKind};

/// The rings of this rank's node.
pub(super) struct NodeRings {
    /// Those on which this rank receives.
    pub own: RingBuffers,
    /// Those on which its peers do.
    pub peers: Vec<(Rank, RingBuffers)>,
}

/// The flags of this rank, and the rings by which ranks notify one another.
pub(super) struct Interrupt {
    /// Raised by the caller, who may have other uses for it.
    callers: Abort,
    /// Raised by this rank alone.
    own: Abort,
    /// Nothing while the rank is suspended.
    rings: Mutex<Option<NodeRings>>,
    /// Links to other nodes, which may fail.
    inter_node: Option<Arc<InterNode>>,
    /// Collectives that this rank has completed.
    completed: AtomicU64,
}

/// A rank of this node that has stopped.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Stopped {
    pub rank: Rank,
    /// Collectives that it had completed.
    pub completed: u64,
}

impl Stopped {
    /// Whether a call that waits for all of `waits`, and is collective number `collective` if it is
    /// one, can never end.
    pub fn is_needed(&self, collective: Option<u64>, waits: &[Waiting]) -> bool {
        let is_behind = collective.is_some_and(|number| self.completed < number);
        is_behind || waits.iter().any(|waiting| waiting.peer == Some(self.rank))
    }
}

impl Interrupt {
    /// An interrupt that raises `own` and watches `callers` as well.
    pub fn new(
        callers: Abort,
        own: Abort,
        rings: NodeRings,
        inter_node: Option<Arc<InterNode>>,
    ) -> Self {
        let rings = Mutex::new(Some(rings));
        Self { callers, own, rings, inter_node, completed: AtomicU64::new(0) }
    }

    /// The rings go: until [`Interrupt::resume`] no peer learns of this rank's end by them.
    pub fn suspend(&self) {
        *self.rings() = None;
    }

    /// From now on ranks notify one another by `rings`.
    pub fn resume(&self, rings: NodeRings) {
        *self.rings() = Some(rings);
        if self.check().is_err() {
            // It was raised while there were none.
            self.stop();
        }
    }

    /// Bytes of the rings on which this rank receives.
    pub fn ring_bytes(&self) -> u64 {
        self.rings().as_ref().map_or(0, |rings| rings.own.bytes() as u64)
    }

    fn rings(&self) -> MutexGuard<'_, Option<NodeRings>> {
        self.rings.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// This rank has done its part of collective number `number`.
    pub fn complete(&self, number: u64) {
        self.completed.store(number, Ordering::Release);
    }

    /// Ends all waits of this rank from now on, and those of peers that need it; those on
    /// other nodes learn of it by the end of their links. Never waits.
    pub fn raise(&self, reason: &str) {
        self.end_waits(reason);
        self.inter_node.iter().for_each(|inter_node| inter_node.abort(reason));
    }

    /// The same, but what was sent to other nodes still arrives there.
    pub fn part(&self, reason: &str) {
        self.end_waits(reason);
        self.inter_node.iter().for_each(|inter_node| inter_node.leave_within(PARTING));
    }

    fn end_waits(&self, reason: &str) {
        self.own.raise(reason);
        self.stop();
    }

    /// Lets the peers of this node know that this rank does nothing more.
    pub fn stop(&self) {
        if let Some(rings) = &*self.rings() {
            rings.own.stop_after(self.completed.load(Ordering::Acquire));
        }
    }

    /// Whether waiting still makes sense, as far as this rank goes.
    pub fn check(&self) -> Result<(), Error> {
        match self.callers.reason().or(self.own.reason()) {
            None => Ok(()),
            Some(reason) => Err(Error::new(ErrorKind::Aborted, format!("aborted ({reason})"))),
        }
    }

    /// The peers on this node that have stopped. What they had sent before is there for whoever
    /// looks after that.
    pub fn stopped(&self) -> Vec<Stopped> {
        let stopped = |(rank, rings): &(Rank, RingBuffers)| {
            let completed = rings.stopped_after()?;
            Some(Stopped { rank: *rank, completed })
        };
        let rings = self.rings();
        rings.iter().flat_map(|rings| &rings.peers).filter_map(stopped).collect()
    }

    /// Whether `waits` can still be answered, as far as links to other nodes go; if not, to whom
    /// they have failed.
    pub fn check_links(&self, waits: &[Waiting]) -> Result<(), (Rank, Error)> {
        self.inter_node.as_ref().map_or(Ok(()), |inter_node| inter_node.check(waits))
    }

    /// `waits`, with what links to other nodes do about them.
    pub fn explained(&self, mut waits: Vec<Waiting>) -> Vec<Waiting> {
        if let Some(inter_node) = self.inter_node.as_ref().filter(|_| !waits.is_empty()) {
            inter_node.explain(&mut waits);
        }
        waits
    }
}
