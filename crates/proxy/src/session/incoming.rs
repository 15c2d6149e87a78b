//! The near end of a link from the peer: what has arrived, in which order, and what was
//! reported to the peer.

use std::collections::VecDeque;

use crate::endpoint::ReceiveEndpoint;
use crate::tag::{Tag, whole};

/// A link from the peer.
pub(crate) struct Incoming {
    link: u16,
    receive_endpoint: Box<dyn ReceiveEndpoint>,
    depth: u32,
    slot_bytes: u32,
    /// Messages up to which all have arrived; they are committed.
    arrived: u64,
    /// The bytes of messages after `arrived`, the first of which is missing, that have arrived on a
    /// faster rail.
    ahead: VecDeque<Option<u32>>,
    /// What was last reported to the peer about taken messages.
    reported_taken: u64,
    /// What was last reported to the peer about arrived messages.
    reported_arrived: u64,
    /// What was reported to the peer may have been lost with a rail.
    repeat: bool,
}

impl Incoming {
    pub(crate) fn new(link: u16, receive_endpoint: Box<dyn ReceiveEndpoint>) -> Self {
        let (depth, slot_bytes) = (receive_endpoint.depth(), receive_endpoint.slot_bytes());
        let (arrived, reported_taken, reported_arrived) = (0, 0, 0);
        let (ahead, repeat) = (VecDeque::new(), false);
        Self {
            link,
            receive_endpoint,
            depth,
            slot_bytes,
            arrived,
            ahead,
            reported_taken,
            reported_arrived,
            repeat,
        }
    }

    /// Message `number`, cut to 16 bits, has arrived. Commits what is complete in order.
    pub(crate) fn arrive(&mut self, number: u16, bytes: u32) -> Result<(), String> {
        let number = whole(number, self.arrived);
        let Self { link, arrived, depth, slot_bytes, .. } = *self;
        // The peer may count on what was reported to it; the executor may have taken more by now.
        if number <= arrived || number > self.reported_taken + u64::from(depth) {
            return Err(format!(
                "message {number} of link {link} has arrived, of which {arrived} had and {} were \
                 granted",
                self.reported_taken + u64::from(depth)
            ));
        }
        if bytes > slot_bytes {
            return Err(format!(
                "message {number} of link {link} has {bytes} bytes in a slot of {slot_bytes}"
            ));
        }
        let index = (number - arrived - 1) as usize;
        if self.ahead.len() <= index {
            self.ahead.resize(index + 1, None);
        }
        if self.ahead[index].replace(bytes).is_some() {
            return Err(format!("message {number} of link {link} has arrived twice"));
        }
        while let Some(Some(bytes)) = self.ahead.front().copied() {
            self.ahead.pop_front();
            self.arrived += 1;
            self.receive_endpoint.commit(self.arrived, bytes)?;
        }
        Ok(())
    }

    /// What should be reported to the peer: at once if much has changed, otherwise only if `idle`.
    /// `acknowledge` says whether messages must be reported that have arrived and were not taken.
    pub(crate) fn news(&mut self, acknowledge: bool, idle: bool) -> Option<Tag> {
        let (link, taken) = (self.link, self.receive_endpoint.taken());
        let much =
            |change: u64| change > 0 && (idle || change >= u64::from(self.depth).div_ceil(4));
        if much(taken - self.reported_taken) || (self.repeat && taken > 0) {
            return Some(Tag::Taken { link, number: taken as u16 });
        }
        let unsaid = self.arrived - self.reported_arrived.max(taken).min(self.arrived);
        (acknowledge && much(unsaid)).then_some(Tag::Arrived { link, number: self.arrived as u16 })
    }

    /// This will be reported to the peer, as [`Incoming::news`] has given.
    pub(crate) fn mark_reported(&mut self, news: Tag) {
        match news {
            Tag::Taken { number, .. } => {
                self.reported_taken = whole(number, self.reported_taken);
                self.repeat = false;
            }
            _ => self.reported_arrived = self.arrived,
        }
    }

    /// What was reported to the peer may be lost.
    pub(crate) fn forget_reported(&mut self) {
        (self.repeat, self.reported_arrived) = (true, 0);
    }

    /// Appends what has arrived, exactly.
    pub(crate) fn report(&self, report: &mut Vec<Tag>) {
        let link = self.link;
        report.push(Tag::Arrived { link, number: self.arrived as u16 });
        for (number, ahead) in (self.arrived + 1..).zip(&self.ahead) {
            if ahead.is_some() {
                report.push(Tag::Ahead { link, number: number as u16 });
            }
        }
    }

    pub(crate) fn wakes_proxy(&self) -> bool {
        self.receive_endpoint.wakes_proxy()
    }

    /// What is missing, for people; nothing if nothing is.
    pub(crate) fn describe(&mut self) -> Option<String> {
        let Self { link, arrived, .. } = *self;
        let ahead = self.ahead.iter().flatten().count();
        if ahead > 0 {
            let next = arrived + 1;
            return Some(format!(
                "message {next} on link {link} is missing, {ahead} after it have arrived"
            ));
        }
        let waiting = arrived - self.receive_endpoint.taken();
        (waiting == u64::from(self.depth)).then(|| {
            format!(
                "all {waiting} slots of link {link} from the peer are full; message {arrived} \
                     was the last"
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A receive endpoint that cannot show its second message to the executor.
    struct Blind;

    impl ReceiveEndpoint for Blind {
        fn depth(&self) -> u32 {
            4
        }

        fn slot_bytes(&self) -> u32 {
            64
        }

        fn taken(&mut self) -> u64 {
            0
        }

        fn slot(&self, _: u64) -> u64 {
            0
        }

        fn commit(&mut self, number: u64, _: u32) -> Result<(), String> {
            if number < 2 { Ok(()) } else { Err("the flush failed".to_owned()) }
        }
    }

    #[test]
    fn what_cannot_be_committed_is_a_failure() {
        let mut incoming = Incoming::new(0, Box::new(Blind));
        assert_eq!(incoming.arrive(1, 8), Ok(()));
        assert_eq!(incoming.arrive(2, 8), Err("the flush failed".to_owned()));
    }
}
