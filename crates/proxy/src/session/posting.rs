//! What goes out: first what rails must say before all else, then messages and news of them.

use super::{Ended, Session};
use crate::poll_schedule::Look;
use crate::rail::{Broken, Posted, Write};
use crate::tag::Tag;

/// Messages that one round posts at most, so that no peer keeps others waiting.
const ROUND: usize = 256;

impl Session {
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
        let rail_state = &mut self.rails[index];
        match rail_state.rail.post(write) {
            Ok(Posted::Yes) => {
                rail_state.posts.push_back(message);
                Ok(Posted::Yes)
            }
            Ok(Posted::Full) => Ok(Posted::Full),
            Err(Broken { why }) => self.close(index, &why).map(|()| Posted::Full),
        }
    }

    /// Sends what must go out before all else.
    pub(super) fn flush(&mut self) -> Result<bool, Ended> {
        let mut busy = false;
        for index in 0..self.rails.len() {
            while let Some(tag) = self.rails[index].signals.front().copied() {
                if !self.signal(index, tag)? {
                    break;
                }
                self.rails[index].signals.pop_front();
                busy = true;
            }
        }
        Ok(busy)
    }

    pub(super) fn report_progress(&mut self, look: Look, idle: bool) -> Result<bool, Ended> {
        let links = self.receive_endpoints.begin(look);
        let mark_reported = self.report_progress_of(&links, idle);
        self.receive_endpoints.end(links);
        mark_reported
    }

    fn report_progress_of(&mut self, links: &[usize], idle: bool) -> Result<bool, Ended> {
        let mut busy = false;
        let several = self.rails.len() > 1;
        for &link in links {
            while let Some(news) = self.incoming[link].news(several, idle) {
                let lead = self.lead().filter(|lead| self.rails[*lead].signals.is_empty());
                let Some(lead) = lead else { return Ok(busy) };
                if !self.signal(lead, news)? {
                    return Ok(busy);
                }
                self.incoming[link].mark_reported(news);
                self.receive_endpoints.wake(link);
                busy = true;
            }
        }
        Ok(busy)
    }

    pub(super) fn post_messages(&mut self, look: Look) -> Result<bool, Ended> {
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
        let links = self.send_endpoints.begin(look);
        let posted = self.post_messages_of(&links, left);
        self.send_endpoints.end(links);
        Ok(posted? || left < ROUND)
    }

    /// Posts at most `most` messages of these links, one of each by turns.
    fn post_messages_of(&mut self, links: &[usize], most: usize) -> Result<bool, Ended> {
        let (mut left, mut idle_links) = (most, 0);
        for &link in links.iter().cycle() {
            if left == 0 || idle_links == links.len() {
                break;
            }
            match self.outgoing[link].next() {
                Some(number) => {
                    if !self.post_message(link, number)? {
                        break;
                    }
                    self.send_endpoints.wake(link);
                    (idle_links, left) = (0, left - 1);
                }
                None => idle_links += 1,
            }
        }
        Ok(left < most)
    }

    /// Posts a message on the next rail that has room. False if none has.
    fn post_message(&mut self, link: usize, number: u64) -> Result<bool, Ended> {
        let write = self.outgoing[link].write(number);
        let write = write.map_err(|why| Ended { rail: "before any rail".to_owned(), why })?;
        let (first, rails) = (self.turn, self.rails.len());
        for index in (0..rails).map(|step| (first + step) % rails) {
            let rail_state = &self.rails[index];
            if rail_state.open
                && rail_state.signals.is_empty()
                && self.post(index, &write, Some((link, number)))? == Posted::Yes
            {
                self.outgoing[link].on_its_way(number, index);
                self.turn = (index + 1) % rails;
                return Ok(true);
            }
        }
        Ok(false)
    }
}
