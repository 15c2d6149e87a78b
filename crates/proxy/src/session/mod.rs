//! All links between two ranks, over all rails between them.
//!
//! # Messages
//!
//! Messages of all links go over the rails in turn, whole; whoever has no room is passed over.
//! Message `n` of a link goes into slot `n` modulo depth of the peer's receive endpoint, and is
//! posted only after the peer's executor has taken message `n - depth`: credits, as counts of taken
//! messages, come back on the *lead*, the first rail that is not broken, batched while there is
//! traffic and at once when there is none. The peer commits a link's messages in order, whatever
//! the order of their arrival.
//!
//! A send endpoint's slot is free again when its rail needs the bytes no more and, if there are
//! several rails, the peer has said that the message has arrived; with one rail there is no other
//! on which it could be repeated.
//!
//! # When one of several rails breaks
//!
//! Whoever notices it **closes** the rail and sends a *report* on every rail that it has open,
//! before anything else goes there: which rails it has closed, and for each link exactly which
//! messages have arrived. Whoever reads the first words of a report closes the same rails, and so
//! reports as well. Whoever has read all of a report that names rails which no earlier one did
//! posts again, on open rails, those messages that it had posted on a closed rail and that the
//! report does not list. Other copies of the report are passed over.
//!
//! *Both agree.* As long as one rail is open on both sides, reports go over it. A rail that only
//! one side has closed is named by a report of that side.
//!
//! *Nothing is lost.* A message that was posted on a rail which the peer has closed is either
//! listed by the peer's report or posted again. One that was posted on another rail arrives, or
//! that rail is closed too.
//!
//! *Nothing is delivered twice.* What a report of closed rails does not list can never arrive on
//! these rails, since they were closed before the report was made; so one copy at most of a message
//! arrives. And it may be posted again into the same slot: it was not committed, so the executor
//! has not looked at the slot, and no later message was granted it.
//!
//! *Counts are never stale.* Credits travel on the lead, in order. Whatever the peer posts after a
//! report comes behind that report on its rail, so the first copy that is complete here is no older
//! than anything that was received before. A new lead carries the report that closes the former one
//! before its first credit, which reports all counts anew.
//!
//! *What is not noticed.* A rail on which nothing is posted may be broken without anybody's
//! knowing. Who posts on it learns it and reports it; that a host has died is noticed by the group.
//!
//! # Bounds
//!
//! A link is a bounded queue with one writer and one reader that preserves order, of at least the
//! send endpoint's and at most the send endpoint's and the receive endpoint's depths together.
//! Schedules are proved for queues of the depth of one ring buffer. With longer queues they still
//! end and compute the same: a step that could go on with the shorter queue can go on with the
//! longer one, the steps of a thread block are in fixed order, and what a receive reads depends on
//! the order in its link alone. So every run of the shorter queues is one of the longer ones, and
//! all runs have the same result.

mod closing;
mod completions;
mod incoming;
mod outgoing;
mod posting;

use std::collections::VecDeque;

use incoming::Incoming;
use outgoing::Outgoing;
pub(crate) use outgoing::RemoteEndpoint;

use crate::endpoint::{ReceiveEndpoint, SendEndpoint};
use crate::poll_schedule::{Look, PollSchedule};
use crate::rail::{Rail, RailEvent, Wake};
use crate::tag::Tag;

/// All links between this rank and a peer.
pub(crate) struct Session {
    rails: Vec<RailState>,
    outgoing: Vec<Outgoing>,
    incoming: Vec<Incoming>,
    /// Which send endpoints and which receive endpoints to look at.
    send_endpoints: PollSchedule,
    receive_endpoints: PollSchedule,
    /// Which rail comes next.
    turn: usize,
    /// Messages that wait to be posted again.
    lost: VecDeque<(usize, u64)>,
    /// Rails, as bits, that the peer's reports have closed and settled.
    settled: u16,
    /// Rails that broke since they were last asked for.
    broken: Vec<(String, String)>,
    parting: Parting,
    events: Vec<RailEvent>,
}

/// A rail and what was posted on it.
struct RailState {
    rail: Box<dyn Rail>,
    description: String,
    open: bool,
    /// Posts that were not reported as sent: the message, if it is one.
    posts: VecDeque<Option<(usize, u64)>>,
    /// Reports and farewells that must go out here, in order and before all else.
    signals: VecDeque<Tag>,
    /// The report that is coming in here.
    report: Option<Report>,
}

/// What the peer has reported so far of what has arrived, with numbers as they came.
#[derive(Default)]
struct Report {
    closed: u16,
    arrived: Vec<(u16, u16)>,
    ahead: Vec<(u16, u16)>,
}

/// How far the two are in leaving one another.
#[derive(Clone, Copy, Default, Debug)]
struct Parting {
    said: bool,
    understood: bool,
    received: bool,
}

/// Why a session is over although nobody requested that.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Ended {
    pub(crate) rail: String,
    pub(crate) why: String,
}

impl Session {
    /// Rails are in the same order on both sides, of which there are at least one and at most 16.
    pub(crate) fn new(
        rails: Vec<Box<dyn Rail>>,
        send_endpoints: Vec<(Box<dyn SendEndpoint>, RemoteEndpoint)>,
        receive_endpoints: Vec<Box<dyn ReceiveEndpoint>>,
    ) -> Self {
        let several = rails.len() > 1;
        let outgoing = send_endpoints.into_iter().enumerate();
        let outgoing = outgoing
            .map(|(link, (send_endpoint, far))| {
                Outgoing::new(link as u16, send_endpoint, far, several)
            })
            .collect();
        let incoming = receive_endpoints.into_iter().enumerate();
        let incoming =
            incoming.map(|(link, receive_endpoint)| Incoming::new(link as u16, receive_endpoint));
        let (outgoing, incoming): (Vec<_>, Vec<_>) = (outgoing, incoming.collect());
        Self {
            rails: rails.into_iter().map(RailState::new).collect(),
            send_endpoints: PollSchedule::new(outgoing.len()),
            receive_endpoints: PollSchedule::new(incoming.len()),
            outgoing,
            incoming,
            turn: 0,
            lost: VecDeque::new(),
            settled: 0,
            broken: Vec::new(),
            parting: Parting::default(),
            events: Vec::new(),
        }
    }

    /// Moves everything on, or of the ports those at which `look` has it look; whether anything
    /// happened.
    pub(crate) fn advance(&mut self, look: Look) -> Result<bool, Ended> {
        let mut busy = self.poll()?;
        busy |= self.flush()?;
        if self.parting.received {
            // The peer wants nothing any more but to be understood.
            return Ok(busy);
        }
        if !self.parting.said {
            busy |= self.post_messages(look)?;
        }
        Ok(self.report_progress(look, !busy)? || busy)
    }

    /// Says that this rank leaves, unless the peer does so already. Whoever calls it posts nothing
    /// any more.
    pub(crate) fn say_farewell(&mut self) {
        if !self.parting.said && !self.parting.received {
            self.parting.said = true;
            self.signal_on_lead(Tag::Farewell);
        }
    }

    /// Whether all that lay in send endpoints has gone out, or nobody wants it any more.
    pub(crate) fn is_drained(&mut self) -> bool {
        self.parting.received || self.outgoing.iter_mut().all(Outgoing::is_drained)
    }

    /// Whether the rails can be closed without harm to the peer. Who has said farewell stays until
    /// it is understood; what it has reported since then concerns nobody, but that the peer's
    /// farewell was understood. Who has only received it stays until the peer's device has taken
    /// that, and expects nothing: the peer may be gone, and no device answers for it.
    pub(crate) fn has_parted(&self) -> bool {
        let Parting { said, understood, received } = self.parting;
        let has_nothing_pending = |rail_state: &RailState| {
            !rail_state.open || (rail_state.signals.is_empty() && rail_state.posts.is_empty())
        };
        let owes_nothing = !received || self.rails.iter().all(has_nothing_pending);
        (if said { understood } else { received }) && owes_nothing
    }

    /// Whether the peer has left in order.
    pub(crate) fn peer_has_left(&self) -> bool {
        self.parting.received
    }

    /// Rails that broke since the last call, and why.
    pub(crate) fn take_broken(&mut self) -> Vec<(String, String)> {
        std::mem::take(&mut self.broken)
    }

    /// The rails that carry on.
    pub(crate) fn rails(&self) -> Vec<String> {
        self.rails
            .iter()
            .filter(|rail_state| rail_state.open)
            .map(|rail_state| rail_state.description.clone())
            .collect()
    }

    /// What to poll for each open rail; `None` for one that must be looked at from time to time.
    pub(crate) fn wakes(&self) -> impl Iterator<Item = Option<Wake<'_>>> {
        self.rails
            .iter()
            .filter(|rail_state| rail_state.open)
            .map(|rail_state| rail_state.rail.wake())
    }

    /// Whether every change at a port wakes the proxy.
    pub(crate) fn wakes_proxy(&self) -> bool {
        self.outgoing.iter().all(Outgoing::wakes_proxy)
            && self.incoming.iter().all(Incoming::wakes_proxy)
    }

    /// What is under way and what is waited for, link by link, for people.
    pub(crate) fn describe(&mut self) -> Vec<String> {
        let rails: Vec<_> =
            self.rails.iter().map(|rail_state| rail_state.description.clone()).collect();
        let rails = |index: usize| rails.get(index).cloned().unwrap_or_default();
        let mut lines: Vec<_> =
            self.outgoing.iter_mut().filter_map(|outgoing| outgoing.describe(&rails)).collect();
        lines.extend(self.incoming.iter_mut().filter_map(Incoming::describe));
        lines
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        for rail_state in self.rails.iter_mut().filter(|rail_state| rail_state.open) {
            rail_state.rail.close();
        }
    }
}

impl RailState {
    fn new(rail: Box<dyn Rail>) -> Self {
        let (description, posts, signals) = (rail.describe(), VecDeque::new(), VecDeque::new());
        Self { description, rail, open: true, posts, signals, report: None }
    }
}

#[cfg(test)]
mod tests;
