//! What ends the waits of a rank: its own abort, or another rank that gave up.

use std::sync::Arc;

use msccl_collective::Rank;
use msccl_fabric::{Abort, Rings};

use super::far::Far;
use crate::engine::Waiting;
use crate::error::{Error, ErrorKind};

/// The flags of this rank, and the rings by which ranks tell one another.
pub(super) struct Alarm {
    /// Raised by the caller, who may have other uses for it.
    callers: Abort,
    /// Raised by this rank alone.
    own: Abort,
    /// Those on which this rank receives, then those of its peers on its node.
    rings: Vec<Rings>,
    /// Links to other nodes, which may fail.
    far: Option<Arc<Far>>,
}

impl Alarm {
    /// An alarm that raises `own` and watches `callers` as well.
    pub fn new(callers: Abort, own: Abort, rings: Vec<Rings>, far: Option<Arc<Far>>) -> Self {
        Self { callers, own, rings, far }
    }

    /// Ends all waits of this rank, and those of its peers at wires, from now on; those on other nodes learn of it
    /// by the end of their links. Never waits.
    pub fn raise(&self, reason: &str) {
        self.own.raise(reason);
        self.stop_peers();
    }

    /// Ends the waits of the peers of this node at wires.
    pub fn stop_peers(&self) {
        self.rings.iter().for_each(Rings::stop);
    }

    /// Whether waiting still makes sense.
    pub fn check(&self) -> Result<(), Error> {
        if let Some(reason) = self.callers.reason().or(self.own.reason()) {
            return Err(Error::new(ErrorKind::Aborted, format!("aborted ({reason})")));
        }
        // All ranks of a node hold all its rings, so a look at one's own is enough.
        if self.rings.first().is_some_and(Rings::is_stopped) {
            return Err(Error::new(ErrorKind::Remote, "another rank failed or aborted"));
        }
        Ok(())
    }

    /// Whether `waits` can still be answered, as far as links to other nodes go; if not, to whom they have failed.
    pub fn check_links(&self, waits: &[Waiting]) -> Result<(), (Rank, Error)> {
        self.far.as_ref().map_or(Ok(()), |far| far.check(waits))
    }

    /// `waits`, with what links to other nodes do about them.
    pub fn explained(&self, mut waits: Vec<Waiting>) -> Vec<Waiting> {
        if let Some(far) = self.far.as_ref().filter(|_| !waits.is_empty()) {
            far.explain(&mut waits);
        }
        waits
    }
}
