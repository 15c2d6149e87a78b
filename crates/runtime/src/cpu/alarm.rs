//! What ends the waits of a rank: its own abort, or another rank that gave up.

use msccl_fabric::{Abort, Rings};

use crate::error::{Error, ErrorKind};

/// The flags of this rank, and the rings by which ranks tell one another.
pub(super) struct Alarm {
    /// Raised by the caller, who may have other uses for it.
    callers: Abort,
    /// Raised by this rank alone.
    own: Abort,
    /// Those on which this rank receives, then those of its peers.
    rings: Vec<Rings>,
}

impl Alarm {
    /// An alarm that watches `callers` as well.
    pub fn new(callers: Abort, rings: Vec<Rings>) -> Self {
        Self { callers, own: Abort::new(), rings }
    }

    /// Ends all waits of this rank, and those of its peers at wires, from now on. Never waits.
    pub fn raise(&self, reason: &str) {
        self.own.raise(reason);
        self.stop_peers();
    }

    /// Ends the waits of the peers at wires.
    pub fn stop_peers(&self) {
        self.rings.iter().for_each(Rings::stop);
    }

    /// Whether waiting still makes sense.
    pub fn check(&self) -> Result<(), Error> {
        if let Some(reason) = self.callers.reason().or(self.own.reason()) {
            return Err(Error::new(ErrorKind::Aborted, format!("aborted ({reason})")));
        }
        // All ranks hold all rings, so a look at one's own is enough.
        if self.rings.first().is_some_and(Rings::is_stopped) {
            return Err(Error::new(ErrorKind::Remote, "another rank failed or aborted"));
        }
        Ok(())
    }
}
