//! What rails report: that writes have gone out, and the peer's words.

use super::outgoing::Outgoing;
use super::{Ended, Report, Session};
use crate::rail::{Broken, RailEvent};
use crate::tag::Tag;

impl Session {
    pub(super) fn poll(&mut self) -> Result<bool, Ended> {
        let mut busy = false;
        for index in 0..self.rails.len() {
            if !self.rails[index].open {
                continue;
            }
            let mut events = std::mem::take(&mut self.events);
            let polled = self.rails[index].rail.poll(&mut events);
            busy |= !events.is_empty();
            let mut outcome = Ok(());
            for what in events.drain(..) {
                if outcome.is_ok() {
                    outcome = self.take_note(index, what);
                }
            }
            self.events = events;
            outcome?;
            if let Err(Broken { why }) = polled {
                self.close(index, &why)?;
                busy = true;
            }
        }
        Ok(busy)
    }

    fn take_note(&mut self, index: usize, what: RailEvent) -> Result<(), Ended> {
        match what {
            RailEvent::Sent => {
                if let Some(Some((link, number))) = self.rails[index].posts.pop_front() {
                    self.outgoing[link].sent(number);
                }
                Ok(())
            }
            RailEvent::Arrived { tag, bytes } => {
                let received = self.receive(index, Tag::decode(tag), bytes);
                let describe = || self.rails[index].description.clone();
                match received.map_err(|why| Ended { rail: describe(), why })? {
                    Some(closed) => self.close_rails_of_peer(closed),
                    None => Ok(()),
                }
            }
        }
    }

    /// The peer's word on rail `index`. Answers the rails that it has closed; the text says what is
    /// wrong with it.
    fn receive(&mut self, index: usize, tag: Tag, bytes: u32) -> Result<Option<u16>, String> {
        match tag {
            Tag::Message { link, number } => {
                let incoming = self.incoming.get_mut(usize::from(link));
                incoming.ok_or_else(|| no_link(link))?.arrive(number, bytes)?;
                self.receive_endpoints.wake(usize::from(link));
            }
            Tag::Taken { link, number } => {
                self.outgoing(link)?.peer_took(number)?;
                self.send_endpoints.wake(usize::from(link));
            }
            Tag::Arrived { link, number } => match &mut self.rails[index].report {
                Some(report) => report.arrived.push((link, number)),
                None => self.outgoing(link)?.peer_has(number)?,
            },
            Tag::Ahead { link, number } => self.reported(index)?.ahead.push((link, number)),
            Tag::Closed { rails } => {
                let report = Report { closed: rails, ..Report::default() };
                self.rails[index].report = Some(report);
                return Ok(Some(rails));
            }
            Tag::Reported => {
                let report = std::mem::take(self.reported(index)?);
                self.rails[index].report = None;
                self.settle(&report)?;
            }
            Tag::Farewell => {
                self.parting.received = true;
                self.signal_on_lead(Tag::Understood);
            }
            Tag::Understood => self.parting.understood = true,
        }
        Ok(None)
    }

    pub(super) fn outgoing(&mut self, link: u16) -> Result<&mut Outgoing, String> {
        self.outgoing.get_mut(usize::from(link)).ok_or_else(|| no_link(link))
    }

    fn reported(&mut self, index: usize) -> Result<&mut Report, String> {
        self.rails[index].report.as_mut().ok_or_else(|| "a report has no beginning".to_owned())
    }
}

fn no_link(link: u16) -> String {
    format!("the peer speaks of link {link}, which there is not")
}
