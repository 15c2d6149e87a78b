//! Rails that break: what is reported about them, and what is posted again (the module's
//! documentation says why that is right).

use std::collections::HashSet;

use super::incoming::Incoming;
use super::{Ended, Parting, Report, Session};
use crate::tag::Tag;

impl Session {
    pub(super) fn close_rails_of_peer(&mut self, closed: u16) -> Result<(), Ended> {
        for index in (0..self.rails.len()).filter(|index| closed & (1 << index) != 0) {
            if self.rails[index].open {
                self.close(index, "the peer has given it up")?;
            }
        }
        Ok(())
    }

    /// Posts again what a report says was lost, unless it is a copy of one that was received.
    pub(super) fn settle(&mut self, report: &Report) -> Result<(), String> {
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
    pub(super) fn close(&mut self, index: usize, why: &str) -> Result<(), Ended> {
        let was_lead = self.lead() == Some(index);
        let rail_state = &mut self.rails[index];
        rail_state.open = false;
        rail_state.rail.close();
        rail_state.posts.clear();
        rail_state.signals.clear();
        let rail = rail_state.description.clone();
        self.broken.push((rail.clone(), why.to_owned()));
        if self.lead().is_none() {
            return Err(Ended { rail, why: why.to_owned() });
        }
        self.report_closed();
        if was_lead {
            self.incoming.iter_mut().for_each(Incoming::forget_reported);
            let Parting { said, received, understood: _ } = self.parting;
            received.then(|| self.signal_on_lead(Tag::Understood));
            said.then(|| self.signal_on_lead(Tag::Farewell));
        }
        Ok(())
    }

    fn report_closed(&mut self) {
        let closed = self.rails.iter().enumerate().filter(|(_, rail_state)| !rail_state.open);
        let rails = closed.fold(0, |rails, (index, _)| rails | (1 << index));
        let mut report = vec![Tag::Closed { rails }];
        self.incoming.iter().for_each(|incoming| incoming.report(&mut report));
        report.push(Tag::Reported);
        for rail_state in self.rails.iter_mut().filter(|rail_state| rail_state.open) {
            rail_state.signals.extend(&report);
        }
    }

    pub(super) fn signal_on_lead(&mut self, tag: Tag) {
        if let Some(lead) = self.lead() {
            self.rails[lead].signals.push_back(tag);
        }
    }

    /// The rail for everything but messages.
    pub(super) fn lead(&self) -> Option<usize> {
        self.rails.iter().position(|rail_state| rail_state.open)
    }
}
