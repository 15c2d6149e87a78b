//! The part of connecting that is over RDMA: from what both ranks have said of their ports to
//! rails, or to the reason why there are none.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::attempt::{Meeting, RailAttempt};
use super::handshake::{Introduction, Offers, Verdict, receive};
use super::{AttemptFailed, AttemptResult, ConnectAttempt, ConnectContext, Stage};
use crate::log::Event;
use crate::rail::Rail;
use crate::rdma::{Devices, Refusal, Registered};

/// What the messages of the group are tagged with.
const OFFERS_TAG: u64 = u64::from_le_bytes(*b"prxoffer");
const VERDICT_TAG: u64 = u64::from_le_bytes(*b"prxverdt");

/// How long devices of the peer may not answer before others are tried: a network that reroutes
/// comes back within seconds. The kernel takes about a second for each try.
const UNANSWERED_MAX: Duration = Duration::from_secs(10);

/// What a rank brings along for rails over RDMA.
pub(crate) struct Verbs {
    pub(crate) devices: Arc<Devices>,
    /// The memory, with the devices that the introduction calls near.
    pub(crate) _registered: Registered,
}

impl ConnectAttempt {
    /// Offers the peer ends for the next ports that can be tried, if there are any; turns to TCP
    /// otherwise.
    pub(super) fn offer(
        &mut self,
        context: ConnectContext<'_>,
        theirs: Introduction,
    ) -> Result<AttemptResult, AttemptFailed> {
        let (Some(pairs), Some(verbs)) = (self.untried.pop_front(), &self.verbs) else {
            let why = self.tried.join("; ");
            return self.start_sockets(context, theirs, why);
        };
        let attempt = RailAttempt::begin(&verbs.devices, &self.endpoints.memory, &pairs);
        for why in attempt.troubles() {
            context.log.event(&Event::Trouble(format!("a device is not used: {why}")));
        }
        self.joining_since = Some(Instant::now());
        self.send(context, OFFERS_TAG, &attempt.offers())?;
        self.stage = Stage::Offering { theirs, attempt };
        Ok(AttemptResult::NotYet(true))
    }

    pub(super) fn meet(
        &mut self,
        context: ConnectContext<'_>,
        theirs: Introduction,
        attempt: RailAttempt,
    ) -> Result<AttemptResult, AttemptFailed> {
        let Some(offers) = receive::<Offers>(context.group, self.peer, OFFERS_TAG)? else {
            self.stage = Stage::Offering { theirs, attempt };
            return Ok(AttemptResult::NotYet(false));
        };
        match attempt.meet(offers, theirs.rdma.as_deref().unwrap_or_default()) {
            Ok(meeting) => self.connect_rdma(context, theirs, meeting),
            Err(why) => self.say(context, theirs, Err(why)),
        }
    }

    /// Connects rails. A device of the peer that does not answer is tried again: its link may be
    /// down for a moment.
    pub(super) fn connect_rdma(
        &mut self,
        context: ConnectContext<'_>,
        theirs: Introduction,
        mut meeting: Meeting,
    ) -> Result<AttemptResult, AttemptFailed> {
        match meeting.go_on() {
            Ok(()) => self.say(context, theirs, Ok(meeting.into_rails())),
            Err(Refusal::Unanswered(_)) if self.is_young() => {
                self.stage = Stage::Connecting { theirs, meeting };
                Ok(AttemptResult::NotYet(false))
            }
            Err(refusal) => self.say(context, theirs, Err(refusal.text())),
        }
    }

    /// Reports to the peer whether rails are connected here.
    fn say(
        &mut self,
        context: ConnectContext<'_>,
        theirs: Introduction,
        rails: Result<Vec<Box<dyn Rail>>, String>,
    ) -> Result<AttemptResult, AttemptFailed> {
        let rdma = rails.as_ref().map(|_| ()).map_err(Clone::clone);
        self.send(context, VERDICT_TAG, &Verdict { rdma })?;
        self.stage = Stage::Judging { theirs, rails };
        Ok(AttemptResult::NotYet(true))
    }

    /// Whether the peer's devices may still come to answer.
    fn is_young(&self) -> bool {
        self.joining_since.is_some_and(|since| since.elapsed() < UNANSWERED_MAX)
    }

    pub(super) fn judge(
        &mut self,
        context: ConnectContext<'_>,
        theirs: Introduction,
        rails: Result<Vec<Box<dyn Rail>>, String>,
    ) -> Result<AttemptResult, AttemptFailed> {
        let Some(verdict) = receive::<Verdict>(context.group, self.peer, VERDICT_TAG)? else {
            self.stage = Stage::Judging { theirs, rails };
            return Ok(AttemptResult::NotYet(false));
        };
        match (rails, verdict.rdma) {
            (Ok(rails), Ok(())) => {
                let why = match &self.tried[..] {
                    [] => "RDMA on both hosts".to_owned(),
                    tried => format!("RDMA on both hosts; not by distance: {}", tried.join("; ")),
                };
                Ok(self.done(&theirs, rails, why))
            }
            (Err(why), _) => self.try_next(context, theirs, why),
            (_, Err(why)) => self.try_next(context, theirs, format!("the peer: {why}")),
        }
    }

    /// Other ports than those that cannot be joined, for the reason `why`.
    fn try_next(
        &mut self,
        context: ConnectContext<'_>,
        theirs: Introduction,
        why: String,
    ) -> Result<AttemptResult, AttemptFailed> {
        if !self.tried.contains(&why) {
            self.tried.push(why);
        }
        self.offer(context, theirs)
    }
}
