//! The near end of a link to the peer: what was posted, on which rail, and what the peer says about
//! it.

use std::collections::VecDeque;

use crate::endpoint::SendEndpoint;
use crate::rail::Write;
use crate::tag::{Tag, whole};

/// The far end of a link: what this rank must know of the peer's receive endpoint.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct RemoteEndpoint {
    /// Bytes of the longest message.
    pub(crate) slot_bytes: u32,
    /// Where each slot lies in the peer's memory; as many as the ring buffer is deep.
    pub(crate) slots: Vec<u64>,
}

/// A link to the peer.
pub(crate) struct Outgoing {
    link: u16,
    send_endpoint: Box<dyn SendEndpoint>,
    far: RemoteEndpoint,
    /// Messages given to rails so far.
    posted: u64,
    /// Messages that the peer's executor has taken: `depth` more may be posted.
    taken: u64,
    /// Messages up to which all have arrived, as far as the peer has said so.
    arrived: u64,
    /// Messages whose slots the send endpoint has back.
    released: u64,
    /// One for each message after `released`, up to `posted`.
    flight: VecDeque<Flight>,
    /// Whether a message may have to be sent again on another rail.
    may_repeat: bool,
}

/// A message on its way.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Flight {
    /// On which rail; none if it was lost and waits to be posted again.
    rail: Option<usize>,
    /// Whether that rail needs its bytes no more.
    sent: bool,
}

impl Outgoing {
    pub(crate) fn new(
        link: u16,
        send_endpoint: Box<dyn SendEndpoint>,
        far: RemoteEndpoint,
        may_repeat: bool,
    ) -> Self {
        let (posted, taken, arrived, released) = (0, 0, 0, 0);
        let flight = VecDeque::new();
        Self { link, send_endpoint, far, posted, taken, arrived, released, flight, may_repeat }
    }

    /// The number of the next message that can be posted: it lies in the send endpoint and the peer
    /// has room for it.
    pub(crate) fn next(&mut self) -> Option<u64> {
        let room = self.posted - self.taken < self.far.slots.len() as u64;
        (room && self.send_endpoint.posted() > self.posted).then_some(self.posted + 1)
    }

    /// How to post message `number`; the text says what is wrong with it.
    pub(crate) fn write(&self, number: u64) -> Result<Write, String> {
        let piece = self.send_endpoint.message(number);
        if piece.bytes > self.far.slot_bytes {
            let Self { link, far, .. } = self;
            return Err(format!(
                "message {number} of link {link} has {} bytes, at most {} fit into a slot of the \
                 peer",
                piece.bytes, far.slot_bytes
            ));
        }
        let turn = ((number - 1) % self.far.slots.len() as u64) as usize;
        let tag = Tag::Message { link: self.link, number: number as u16 }.encode();
        Ok(Write { from: piece.offset, to: self.far.slots[turn], bytes: piece.bytes, tag })
    }

    /// Message `number` was posted on `rail`, for the first time or again.
    pub(crate) fn on_its_way(&mut self, number: u64, rail: usize) {
        let flight = Flight { rail: Some(rail), sent: false };
        if number == self.posted + 1 {
            self.posted = number;
            self.flight.push_back(flight);
        } else if let Some(earlier) = self.flight_of(number) {
            *earlier = flight;
        }
    }

    fn flight_of(&mut self, number: u64) -> Option<&mut Flight> {
        let index = number.checked_sub(self.released + 1)?;
        self.flight.get_mut(usize::try_from(index).ok()?)
    }

    /// The rail needs the bytes of message `number` no more.
    pub(crate) fn sent(&mut self, number: u64) {
        if let Some(flight) = self.flight_of(number) {
            flight.sent = true;
        }
        self.release();
    }

    /// The peer says that its executor has taken all messages up to `number`.
    pub(crate) fn peer_took(&mut self, number: u16) -> Result<(), String> {
        let number = whole(number, self.taken);
        self.check(number, "took")?;
        self.taken = number;
        self.arrived = self.arrived.max(number);
        self.release();
        Ok(())
    }

    /// The peer says that all messages up to `number` have arrived.
    pub(crate) fn peer_has(&mut self, number: u16) -> Result<(), String> {
        let number = whole(number, self.taken);
        self.check(number, "has")?;
        self.arrived = self.arrived.max(number);
        self.release();
        Ok(())
    }

    fn check(&self, number: u64, verb: &str) -> Result<(), String> {
        let Self { link, posted, .. } = self;
        match number <= *posted {
            true => Ok(()),
            false => Err(format!(
                "the peer says that it {verb} message {number} of link {link}, of which {posted} \
                 were posted"
            )),
        }
    }

    /// The whole number of a message that the peer says has arrived ahead of others.
    pub(crate) fn ahead(&self, number: u16) -> u64 {
        whole(number, self.taken)
    }

    /// The peer has closed the rails for which `closed` says so, and has of what was posted on them
    /// only what `ahead` lists beyond what has arrived in order. Answers the messages that are
    /// lost.
    pub(crate) fn settle(
        &mut self,
        closed: impl Fn(usize) -> bool,
        ahead: impl Fn(u64) -> bool,
    ) -> Vec<u64> {
        let mut lost = Vec::new();
        for (number, flight) in (self.released + 1..).zip(&mut self.flight) {
            if !flight.rail.is_some_and(&closed) {
                continue;
            }
            if number <= self.arrived || ahead(number) {
                // A closed rail reads nothing.
                flight.sent = true;
            } else {
                *flight = Flight { rail: None, sent: false };
                lost.push(number);
            }
        }
        self.release();
        lost
    }

    /// Gives back the slots of messages that no rail needs, now or later.
    fn release(&mut self) {
        let before = self.released;
        while self.flight.front().is_some_and(|flight| flight.sent)
            && (!self.may_repeat || self.released < self.arrived)
        {
            self.flight.pop_front();
            self.released += 1;
        }
        if self.released > before {
            self.send_endpoint.release(self.released);
        }
    }

    /// Whether all that lay in the send endpoint has gone out, and arrived as far as rails report.
    pub(crate) fn is_drained(&mut self) -> bool {
        self.flight.is_empty() && self.send_endpoint.posted() == self.posted
    }

    pub(crate) fn wakes_proxy(&self) -> bool {
        self.send_endpoint.wakes_proxy()
    }

    /// What is under way, for people; nothing if nothing is.
    pub(crate) fn describe(&mut self, rails: &dyn Fn(usize) -> String) -> Option<String> {
        let waiting = self.send_endpoint.posted() - self.posted;
        let Self { link, posted, taken, .. } = *self;
        let queue = match (waiting, self.next().is_some()) {
            (0, _) => String::new(),
            (_, true) => format!("{waiting} more wait for room on a rail"),
            (_, false) => format!("{waiting} more wait for slots"),
        };
        if posted == taken {
            return (waiting > 0).then(|| format!("after message {posted} on link {link} {queue}"));
        }
        let number = taken + 1;
        let way = self.whereabouts(number, rails);
        let behind = match posted - number {
            0 => String::new(),
            behind => format!(" with {behind} behind it"),
        };
        let queue = if queue.is_empty() { queue } else { format!("; {queue}") };
        Some(format!(
            "message {number} on link {link} {way}{behind}; the peer has taken {taken}{queue}"
        ))
    }

    /// Where message `number` is, which was posted and not taken.
    fn whereabouts(&mut self, number: u64, rails: &dyn Fn(usize) -> String) -> String {
        let arrived = number <= self.arrived;
        match self.flight_of(number) {
            _ if arrived => "has arrived".to_owned(),
            Some(Flight { rail: Some(rail), sent: _ }) => {
                format!("is on its way over {}", rails(*rail))
            }
            Some(Flight { rail: None, sent: _ }) => {
                "was lost with a rail and waits to be posted again".to_owned()
            }
            None => "was sent".to_owned(),
        }
    }
}
