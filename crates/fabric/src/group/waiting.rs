//! A wait for another rank between two operations of all, which is reported to the hub when it
//! lasts: it then knows who keeps whom from coming.

use std::cell::Cell;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use msccl_collective::Rank;

use super::Group;
use crate::frame::{Frame, Subject};
use crate::transport::Member;

/// One wait. One that fails is not said to have ended: the group is of no more use, and the hub may
/// still ask.
pub(super) struct Waiting<'a> {
    group: &'a Group,
    awaited: Rank,
    since: Instant,
    reported: Cell<bool>,
}

impl<'a> Waiting<'a> {
    /// Shorter waits are not reported.
    pub(super) const UNREPORTED_TIME: Duration = Duration::from_millis(300);

    /// A wait of this rank of `group` for `awaited`.
    pub(super) fn new(group: &'a Group, awaited: &Member) -> Self {
        let (since, reported) = (Instant::now(), Cell::new(false));
        Self { group, awaited: awaited.world, since, reported }
    }

    /// It is still under way.
    pub(super) fn lasts(&self) {
        let in_setup = self.group.in_setup.load(Ordering::Relaxed);
        if in_setup && !self.reported.get() && self.since.elapsed() >= Self::UNREPORTED_TIME {
            self.reported.set(true);
            self.report(self.awaited);
        }
    }

    /// It has ended well.
    pub(super) fn end(self) {
        if self.reported.get() {
            self.report(self.group.transport.me());
        }
    }

    fn report(&self, awaited: Rank) {
        let (transport, id) = (&self.group.transport, self.group.id);
        match self.group.me {
            Rank(0) => transport.state().note_wait(id, transport.me(), awaited),
            _ => {
                let (subject, number) = (Subject::Waiting, u64::from(awaited.0));
                let frame = Frame { subject, group: id, number, body: Vec::new() };
                // A hub that is gone asks nobody.
                let _ = transport.post(&self.group.members[0], frame.to_bytes());
            }
        }
    }
}
