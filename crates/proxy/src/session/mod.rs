//! All links between two ranks, over all rails between them.
//!
//! # Messages
//!
//! Messages of all links go over the rails in turn, whole; whoever has no room is passed over. Message `n`
//! of a link goes into slot `n` modulo depth of the peer's inlet, and is posted only after the peer's
//! executor has taken message `n - depth`: credits, as counts of taken messages, come back on the *lead*,
//! the first rail that is not broken, batched while there is traffic and at once when there is none. The
//! peer commits a link's messages in order, whatever the order of their arrival.
//!
//! An outlet's slot is free again when its rail needs the bytes no more and, if there are several rails,
//! the peer has said that the message has arrived; with one rail there is no other on which it could be
//! repeated.
//!
//! # When one of several rails breaks
//!
//! Whoever notices it **closes** the rail and sends a *report* on every rail that it has open, before
//! anything else goes there: which rails it has closed, and for each link exactly which messages have
//! arrived. Whoever reads the first words of a report closes the same rails, and so reports as well.
//! Whoever has read all of a report that names rails which no earlier one did posts again, on open rails,
//! those messages that it had posted on a closed rail and that the report does not list. Other copies of
//! the report are passed over.
//!
//! *Both agree.* As long as one rail is open on both sides, reports go over it. A rail that only one side
//! has closed is named by a report of that side.
//!
//! *Nothing is lost.* A message that was posted on a rail which the peer has closed is either listed by the
//! peer's report or posted again. One that was posted on another rail arrives, or that rail is closed too.
//!
//! *Nothing is delivered twice.* What a report of closed rails does not list can never arrive on these
//! rails, since they were closed before the report was made; so one copy at most of a message arrives. And
//! it may be posted again into the same slot: it was not committed, so the executor has not looked at the
//! slot, and no later message was granted it.
//!
//! *Counts are never stale.* Credits travel on the lead, in order. Whatever the peer posts after a report
//! comes behind that report on its rail, so the first copy that is complete here is no older than anything
//! that was heard before. A new lead carries the report that closes the former one before its first credit,
//! which tells all counts anew.
//!
//! *What is not noticed.* A rail on which nothing is posted may be broken without anybody's knowing. Who
//! posts on it learns it and tells; that a host has died is noticed by the group.
//!
//! # Bounds
//!
//! A link is a bounded queue with one writer and one reader that preserves order, of at least the outlet's
//! and at most the outlet's and the inlet's depths together. Schedules are proved for queues of the depth
//! of one ring. With longer queues they still end and compute the same: a step that could go on with the
//! shorter queue can go on with the longer one, the steps of a thread block are in fixed order, and what a
//! receive reads depends on the order in its link alone. So every run of the shorter queues is one of the
//! longer ones, and all runs have the same result.

mod incoming;
mod outgoing;

use std::collections::{HashSet, VecDeque};

use incoming::Incoming;
pub(crate) use outgoing::FarInlet;
use outgoing::Outgoing;

use crate::attention::{Attention, Look};
use crate::port::{Inlet, Outlet};
use crate::rail::{Broken, Happened, Posted, Rail, Wake, Write};
use crate::tag::Tag;

/// Messages that one round posts at most, so that no peer keeps others waiting.
const ROUND: usize = 256;

/// All links between this rank and a peer.
pub(crate) struct Session {
    ways: Vec<Way>,
    outgoing: Vec<Outgoing>,
    incoming: Vec<Incoming>,
    /// Which outlets and which inlets to look at.
    outlets: Attention,
    inlets: Attention,
    /// Which rail comes next.
    turn: usize,
    /// Messages that wait to be posted again.
    lost: VecDeque<(usize, u64)>,
    /// Rails, as bits, that the peer's reports have closed and settled.
    settled: u16,
    /// Rails that broke since they were last asked for.
    broken: Vec<(String, String)>,
    parting: Parting,
    happened: Vec<Happened>,
}

/// A rail and what was posted on it.
struct Way {
    rail: Box<dyn Rail>,
    story: String,
    open: bool,
    /// Posts that were not reported as sent: the message, if it is one.
    posts: VecDeque<Option<(usize, u64)>>,
    /// Reports and farewells that must go out here, in order and before all else.
    signals: VecDeque<Tag>,
    /// The report that is coming in here.
    report: Option<Report>,
}

/// What the peer has told so far of what has arrived, with numbers as they came.
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
    heard: bool,
}

/// Why a session is over although nobody wanted that.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Ended {
    pub(crate) rail: String,
    pub(crate) why: String,
}

impl Session {
    /// Rails are in the same order on both sides, of which there are at least one and at most 16.
    pub(crate) fn new(
        rails: Vec<Box<dyn Rail>>,
        outlets: Vec<(Box<dyn Outlet>, FarInlet)>,
        inlets: Vec<Box<dyn Inlet>>,
    ) -> Self {
        let several = rails.len() > 1;
        let outgoing = outlets.into_iter().enumerate();
        let outgoing = outgoing
            .map(|(link, (outlet, far))| Outgoing::new(link as u16, outlet, far, several))
            .collect();
        let incoming = inlets.into_iter().enumerate();
        let incoming = incoming.map(|(link, inlet)| Incoming::new(link as u16, inlet));
        let (outgoing, incoming): (Vec<_>, Vec<_>) = (outgoing, incoming.collect());
        Self {
            ways: rails.into_iter().map(Way::new).collect(),
            outlets: Attention::new(outgoing.len()),
            inlets: Attention::new(incoming.len()),
            outgoing,
            incoming,
            turn: 0,
            lost: VecDeque::new(),
            settled: 0,
            broken: Vec::new(),
            parting: Parting::default(),
            happened: Vec::new(),
        }
    }

    /// Moves everything on, or of the ports those at which `look` has it look; whether anything happened.
    pub(crate) fn advance(&mut self, look: Look) -> Result<bool, Ended> {
        let mut busy = self.poll()?;
        busy |= self.flush()?;
        if self.parting.heard {
            // The peer wants nothing any more but to be understood.
            return Ok(busy);
        }
        if !self.parting.said {
            busy |= self.post_messages(look)?;
        }
        Ok(self.tell_news(look, !busy)? || busy)
    }

    fn poll(&mut self) -> Result<bool, Ended> {
        let mut busy = false;
        for index in 0..self.ways.len() {
            if !self.ways[index].open {
                continue;
            }
            let mut happened = std::mem::take(&mut self.happened);
            let polled = self.ways[index].rail.poll(&mut happened);
            busy |= !happened.is_empty();
            let mut outcome = Ok(());
            for what in happened.drain(..) {
                if outcome.is_ok() {
                    outcome = self.take_note(index, what);
                }
            }
            self.happened = happened;
            outcome?;
            if let Err(Broken { why }) = polled {
                self.close(index, &why)?;
                busy = true;
            }
        }
        Ok(busy)
    }

    fn take_note(&mut self, index: usize, what: Happened) -> Result<(), Ended> {
        match what {
            Happened::Sent => {
                if let Some(Some((link, number))) = self.ways[index].posts.pop_front() {
                    self.outgoing[link].sent(number);
                }
                Ok(())
            }
            Happened::Arrived { tag, bytes } => {
                let heard = self.hear(index, Tag::decode(tag), bytes);
                let story = || self.ways[index].story.clone();
                match heard.map_err(|why| Ended { rail: story(), why })? {
                    Some(closed) => self.close_as_told(closed),
                    None => Ok(()),
                }
            }
        }
    }

    /// The peer's word on rail `index`. Answers the rails that it has closed; the text says what is wrong
    /// with it.
    fn hear(&mut self, index: usize, tag: Tag, bytes: u32) -> Result<Option<u16>, String> {
        match tag {
            Tag::Message { link, number } => {
                let incoming = self.incoming.get_mut(usize::from(link));
                incoming.ok_or_else(|| no_link(link))?.arrive(number, bytes)?;
                self.inlets.wake(usize::from(link));
            }
            Tag::Taken { link, number } => {
                self.outgoing(link)?.peer_took(number)?;
                self.outlets.wake(usize::from(link));
            }
            Tag::Arrived { link, number } => match &mut self.ways[index].report {
                Some(report) => report.arrived.push((link, number)),
                None => self.outgoing(link)?.peer_has(number)?,
            },
            Tag::Ahead { link, number } => self.reported(index)?.ahead.push((link, number)),
            Tag::Closed { rails } => {
                let report = Report { closed: rails, ..Report::default() };
                self.ways[index].report = Some(report);
                return Ok(Some(rails));
            }
            Tag::Reported => {
                let report = std::mem::take(self.reported(index)?);
                self.ways[index].report = None;
                self.settle(&report)?;
            }
            Tag::Farewell => {
                self.parting.heard = true;
                self.signal_on_lead(Tag::Understood);
            }
            Tag::Understood => self.parting.understood = true,
        }
        Ok(None)
    }

    fn outgoing(&mut self, link: u16) -> Result<&mut Outgoing, String> {
        self.outgoing.get_mut(usize::from(link)).ok_or_else(|| no_link(link))
    }

    fn reported(&mut self, index: usize) -> Result<&mut Report, String> {
        self.ways[index].report.as_mut().ok_or_else(|| "a report has no beginning".to_owned())
    }

    fn close_as_told(&mut self, closed: u16) -> Result<(), Ended> {
        for index in (0..self.ways.len()).filter(|index| closed & (1 << index) != 0) {
            if self.ways[index].open {
                self.close(index, "the peer has given it up")?;
            }
        }
        Ok(())
    }

    /// Posts again what a report says was lost, unless it is a copy of one that was heard.
    fn settle(&mut self, report: &Report) -> Result<(), String> {
        let Report { closed, arrived, ahead } = report;
        if closed & !self.settled == 0 {
            return Ok(());
        }
        self.settled |= closed;
        for &(link, number) in arrived {
            self.outgoing(link)?.peer_has(number)?;
        }
        let mut listed = HashSet::new();
        for &(link, number) in ahead {
            listed.insert((usize::from(link), self.outgoing(link)?.ahead(number)));
        }
        for (link, outgoing) in self.outgoing.iter_mut().enumerate() {
            let closed = |rail: usize| closed & (1 << rail) != 0;
            let lost = outgoing.settle(closed, |number| listed.contains(&(link, number)));
            self.lost.extend(lost.into_iter().map(|number| (link, number)));
        }
        Ok(())
    }

    /// Gives a rail up, and reports if another is left.
    fn close(&mut self, index: usize, why: &str) -> Result<(), Ended> {
        let was_lead = self.lead() == Some(index);
        let way = &mut self.ways[index];
        way.open = false;
        way.rail.close();
        way.posts.clear();
        way.signals.clear();
        let rail = way.story.clone();
        self.broken.push((rail.clone(), why.to_owned()));
        if self.lead().is_none() {
            return Err(Ended { rail, why: why.to_owned() });
        }
        self.report_closed();
        if was_lead {
            self.incoming.iter_mut().for_each(Incoming::forget_told);
            let Parting { said, heard, understood: _ } = self.parting;
            heard.then(|| self.signal_on_lead(Tag::Understood));
            said.then(|| self.signal_on_lead(Tag::Farewell));
        }
        Ok(())
    }

    fn report_closed(&mut self) {
        let closed = self.ways.iter().enumerate().filter(|(_, way)| !way.open);
        let rails = closed.fold(0, |rails, (index, _)| rails | (1 << index));
        let mut report = vec![Tag::Closed { rails }];
        self.incoming.iter().for_each(|incoming| incoming.report(&mut report));
        report.push(Tag::Reported);
        for way in self.ways.iter_mut().filter(|way| way.open) {
            way.signals.extend(&report);
        }
    }

    fn signal_on_lead(&mut self, tag: Tag) {
        if let Some(lead) = self.lead() {
            self.ways[lead].signals.push_back(tag);
        }
    }

    /// The rail for everything but messages.
    fn lead(&self) -> Option<usize> {
        self.ways.iter().position(|way| way.open)
    }

    /// Posts a write that is no message. False if there is no room.
    fn signal(&mut self, index: usize, tag: Tag) -> Result<bool, Ended> {
        let write = Write { from: 0, to: 0, bytes: 0, tag: tag.encode() };
        Ok(self.post(index, &write, None)? == Posted::Yes)
    }

    fn post(
        &mut self,
        index: usize,
        write: &Write,
        message: Option<(usize, u64)>,
    ) -> Result<Posted, Ended> {
        let way = &mut self.ways[index];
        match way.rail.post(write) {
            Ok(Posted::Yes) => {
                way.posts.push_back(message);
                Ok(Posted::Yes)
            }
            Ok(Posted::Full) => Ok(Posted::Full),
            Err(Broken { why }) => self.close(index, &why).map(|()| Posted::Full),
        }
    }

    /// Sends what must go out before all else.
    fn flush(&mut self) -> Result<bool, Ended> {
        let mut busy = false;
        for index in 0..self.ways.len() {
            while let Some(tag) = self.ways[index].signals.front().copied() {
                if !self.signal(index, tag)? {
                    break;
                }
                self.ways[index].signals.pop_front();
                busy = true;
            }
        }
        Ok(busy)
    }

    fn tell_news(&mut self, look: Look, idle: bool) -> Result<bool, Ended> {
        let links = self.inlets.begin(look);
        let told = self.tell_news_of(&links, idle);
        self.inlets.end(links);
        told
    }

    fn tell_news_of(&mut self, links: &[usize], idle: bool) -> Result<bool, Ended> {
        let mut busy = false;
        let several = self.ways.len() > 1;
        for &link in links {
            while let Some(news) = self.incoming[link].news(several, idle) {
                let lead = self.lead().filter(|lead| self.ways[*lead].signals.is_empty());
                let Some(lead) = lead else { return Ok(busy) };
                if !self.signal(lead, news)? {
                    return Ok(busy);
                }
                self.incoming[link].told(news);
                self.inlets.wake(link);
                busy = true;
            }
        }
        Ok(busy)
    }

    fn post_messages(&mut self, look: Look) -> Result<bool, Ended> {
        let mut left = ROUND;
        while left > 0
            && let Some(&(link, number)) = self.lost.front()
        {
            if !self.post_message(link, number)? {
                return Ok(left < ROUND);
            }
            self.lost.pop_front();
            left -= 1;
        }
        let links = self.outlets.begin(look);
        let posted = self.post_messages_of(&links, left);
        self.outlets.end(links);
        Ok(posted? || left < ROUND)
    }

    /// Posts at most `most` messages of these links, one of each by turns.
    fn post_messages_of(&mut self, links: &[usize], most: usize) -> Result<bool, Ended> {
        let (mut left, mut quiet) = (most, 0);
        for &link in links.iter().cycle() {
            if left == 0 || quiet == links.len() {
                break;
            }
            match self.outgoing[link].next() {
                Some(number) => {
                    if !self.post_message(link, number)? {
                        break;
                    }
                    self.outlets.wake(link);
                    (quiet, left) = (0, left - 1);
                }
                None => quiet += 1,
            }
        }
        Ok(left < most)
    }

    /// Posts a message on the next rail that has room. False if none has.
    fn post_message(&mut self, link: usize, number: u64) -> Result<bool, Ended> {
        let write = self.outgoing[link].write(number);
        let write = write.map_err(|why| Ended { rail: "before any rail".to_owned(), why })?;
        let (first, rails) = (self.turn, self.ways.len());
        for index in (0..rails).map(|step| (first + step) % rails) {
            let way = &self.ways[index];
            if way.open
                && way.signals.is_empty()
                && self.post(index, &write, Some((link, number)))? == Posted::Yes
            {
                self.outgoing[link].on_its_way(number, index);
                self.turn = (index + 1) % rails;
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Says that this rank leaves, unless the peer does so already. Whoever calls it posts nothing any more.
    pub(crate) fn say_farewell(&mut self) {
        if !self.parting.said && !self.parting.heard {
            self.parting.said = true;
            self.signal_on_lead(Tag::Farewell);
        }
    }

    /// Whether all that lay in outlets has gone out, or nobody wants it any more.
    pub(crate) fn is_drained(&mut self) -> bool {
        self.parting.heard || self.outgoing.iter_mut().all(Outgoing::is_drained)
    }

    /// Whether the rails can be closed without harm to the peer. Who has said farewell stays until it is
    /// understood; what it has told since then concerns nobody, but that the peer's farewell was understood. Who
    /// has only heard it stays until the peer's device has taken that, and expects nothing: the peer may be
    /// gone, and no device answers for it.
    pub(crate) fn has_parted(&self) -> bool {
        let Parting { said, understood, heard } = self.parting;
        let silent = |way: &Way| !way.open || (way.signals.is_empty() && way.posts.is_empty());
        let owes_nothing = !heard || self.ways.iter().all(silent);
        (if said { understood } else { heard }) && owes_nothing
    }

    /// Whether the peer has left in order.
    pub(crate) fn peer_has_left(&self) -> bool {
        self.parting.heard
    }

    /// Rails that broke since the last call, and why.
    pub(crate) fn take_broken(&mut self) -> Vec<(String, String)> {
        std::mem::take(&mut self.broken)
    }

    /// The rails that carry on.
    pub(crate) fn rails(&self) -> Vec<String> {
        self.ways.iter().filter(|way| way.open).map(|way| way.story.clone()).collect()
    }

    /// What to poll for each open rail; `None` for one that must be looked at from time to time.
    pub(crate) fn wakes(&self) -> impl Iterator<Item = Option<Wake<'_>>> {
        self.ways.iter().filter(|way| way.open).map(|way| way.rail.wake())
    }

    /// Whether every change at a port wakes the proxy.
    pub(crate) fn rings(&self) -> bool {
        self.outgoing.iter().all(Outgoing::rings) && self.incoming.iter().all(Incoming::rings)
    }

    /// What is under way and what is waited for, link by link, for people.
    pub(crate) fn story(&mut self) -> Vec<String> {
        let ways: Vec<_> = self.ways.iter().map(|way| way.story.clone()).collect();
        let rails = |index: usize| ways.get(index).cloned().unwrap_or_default();
        let mut lines: Vec<_> =
            self.outgoing.iter_mut().filter_map(|outgoing| outgoing.story(&rails)).collect();
        lines.extend(self.incoming.iter_mut().filter_map(Incoming::story));
        lines
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        for way in self.ways.iter_mut().filter(|way| way.open) {
            way.rail.close();
        }
    }
}

impl Way {
    fn new(rail: Box<dyn Rail>) -> Self {
        let (story, posts, signals) = (rail.story(), VecDeque::new(), VecDeque::new());
        Self { story, rail, open: true, posts, signals, report: None }
    }
}

fn no_link(link: u16) -> String {
    format!("the peer speaks of link {link}, which there is not")
}

#[cfg(test)]
mod tests;
