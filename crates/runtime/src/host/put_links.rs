//! One-sided transfers between nodes: links to and from ranks of other nodes that carry
//! [messages](super::put_message), and what receives them.
//!
//! A link is a ring each way, among the wires of its pair of ranks ([`super::inter_node`]); so a
//! proxy carries it, over whatever rails the pair has. What comes is written into this rank's
//! windows and counted by whoever [looks](PutLinks::advance): a thread of its own
//! ([`super::put_service`]), or a call that waits for it. So a put ends without the receiver's
//! doing.
//!
//! A signal never waits for room: where there is none it is *owed*, and goes out later, with all
//! that are owed then, since a message says how many there are.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, TryLockError, Weak};

use msccl_collective::Rank;
use msccl_fabric::{Receiver, Sender};

use super::memory::Span;
use super::put_message::{HEADER_BYTES, PutHeader};
use crate::engine::WindowGuard;
use crate::error::{Error, ErrorKind};

/// Messages that a link moves before others have their turn.
const SHARE: u32 = 16;

/// The links of a rank, its windows, and the signals that came.
pub(super) struct PutLinks {
    /// By rank.
    links: Mutex<BTreeMap<Rank, Arc<PutLink>>>,
    /// By number. Whoever writes into one holds them all, so that none goes meanwhile.
    windows: Mutex<Windows>,
    /// Signals of each rank.
    came: Vec<AtomicU64>,
    /// What a peer sent that makes no sense.
    failure: OnceLock<Error>,
}

/// The windows of a rank.
#[derive(Default)]
struct Windows {
    shown: BTreeMap<u64, Span>,
    /// The highest number that was ever shown.
    latest: u64,
}

/// Peers write into a window of this rank as long as it lives.
#[derive(Debug)]
pub(super) struct HostWindow {
    links: Weak<PutLinks>,
    number: u64,
}

impl WindowGuard for HostWindow {}

impl Drop for HostWindow {
    fn drop(&mut self) {
        if let Some(links) = self.links.upgrade() {
            links.hide(self.number);
        }
    }
}

/// A link to and from one rank.
pub(super) struct PutLink {
    outgoing: Mutex<Outgoing>,
    incoming: Mutex<Receiver>,
}

/// A put, of which some bytes may have gone.
#[derive(Clone, Copy)]
pub(super) struct PutRest {
    /// Where its first byte goes, and what it signals at its end.
    pub header: PutHeader,
    /// All of its bytes.
    pub data: Span,
    /// How many have gone.
    pub moved: usize,
}

/// The end of a link by which messages go out.
struct Outgoing {
    sender: Sender,
    /// Signals so far, if the peer was not sent as many.
    owed: Option<u64>,
}

impl PutLinks {
    /// Those of a rank among `ranks`; none yet.
    pub fn new(ranks: u32) -> Self {
        Self {
            links: Mutex::default(),
            windows: Mutex::default(),
            came: (0..ranks).map(|_| AtomicU64::new(0)).collect(),
            failure: OnceLock::new(),
        }
    }

    /// The link to and from `peer` has these ends.
    pub fn add(&self, peer: Rank, sender: Sender, receiver: Receiver) {
        let outgoing = Mutex::new(Outgoing { sender, owed: None });
        let link = PutLink { outgoing, incoming: Mutex::new(receiver) };
        lock(&self.links).insert(peer, Arc::new(link));
    }

    /// The link to and from `peer`, if there is one.
    pub fn to(&self, peer: Rank) -> Option<Arc<PutLink>> {
        lock(&self.links).get(&peer).cloned()
    }

    /// Peers write to `memory` as window `number` until the answer is dropped.
    pub fn show(self: &Arc<Self>, number: u64, memory: Span) -> HostWindow {
        let mut windows = lock(&self.windows);
        windows.shown.insert(number, memory);
        windows.latest = windows.latest.max(number);
        HostWindow { links: Arc::downgrade(self), number }
    }

    /// Nobody writes to window `number` any more. What still comes for it is dropped.
    fn hide(&self, number: u64) {
        lock(&self.windows).shown.remove(&number);
    }

    /// Counts the signals of `peer`, if there is such a rank.
    pub fn came(&self, peer: Rank) -> Option<&AtomicU64> {
        self.came.get(peer.index())
    }

    /// Whether all that came made sense so far.
    pub fn check(&self) -> Result<(), Error> {
        self.failure.get().cloned().map_or(Ok(()), Err)
    }

    /// Nothing comes any more, because of `error`.
    pub fn fail(&self, error: Error) {
        let _ = self.failure.set(error);
    }

    /// Takes what has come, and sends what is owed where there is room; whether anything moved.
    /// Never waits.
    ///
    /// # Errors
    ///
    /// What a peer sent makes no sense, now or before.
    pub fn advance(&self) -> Result<bool, Error> {
        self.check()?;
        let mut moved = false;
        for (peer, link) in self.all() {
            moved |= link.pay();
            // Whoever else takes something takes all.
            if let Some(mut incoming) = link.try_incoming() {
                moved |= self.take(peer, &mut incoming)?;
            }
        }
        Ok(moved)
    }

    /// Takes all that has come.
    ///
    /// # Errors
    ///
    /// As [`PutLinks::advance`].
    pub fn take_all(&self) -> Result<(), Error> {
        self.check()?;
        for (peer, link) in self.all() {
            while self.take(peer, &mut lock(&link.incoming))? {}
        }
        Ok(())
    }

    fn all(&self) -> Vec<(Rank, Arc<PutLink>)> {
        lock(&self.links).iter().map(|(peer, link)| (*peer, Arc::clone(link))).collect()
    }

    /// Whether signals are owed.
    pub fn owes(&self) -> bool {
        lock(&self.links).values().any(|link| lock(&link.outgoing).owed.is_some())
    }

    /// Takes some of what has come from `peer`; whether there was anything.
    fn take(&self, peer: Rank, incoming: &mut Receiver) -> Result<bool, Error> {
        for count in 0..SHARE {
            let Some(message) = incoming.try_peek() else { return Ok(count > 0) };
            let delivered = self.deliver(peer, message.bytes());
            delivered.inspect_err(|error| self.fail(error.clone()))?;
            message.release();
        }
        Ok(true)
    }

    /// Does what a message of `peer` says.
    fn deliver(&self, peer: Rank, message: &[u8]) -> Result<(), Error> {
        let broken = |why: String| {
            let text = format!("expected a one-sided transfer of {peer}, found {why}");
            Error::new(ErrorKind::Remote, text)
        };
        let (header, data) = PutHeader::read(message)
            .ok_or_else(|| broken(format!("a message of {} bytes", message.len())))?;
        let PutHeader { window, offset_bytes, signals } = header;
        if !data.is_empty() {
            lock(&self.windows).write(window, offset_bytes, data).map_err(broken)?;
        }
        if let (1.., Some(came)) = (signals, self.came(peer)) {
            came.fetch_max(signals, Ordering::Release);
        }
        Ok(())
    }
}

impl Windows {
    /// Writes `data` into window `number`, if it is still shown.
    fn write(&self, number: u64, offset_bytes: u64, data: &[u8]) -> Result<(), String> {
        let Some(memory) = self.shown.get(&number) else {
            return match number {
                0 => Err("bytes for no window".to_owned()),
                _ if number > self.latest => Err(format!("bytes for window {number}, unknown yet")),
                _ => Ok(()),
            };
        };
        let start = usize::try_from(offset_bytes).ok();
        let end = start.and_then(|start| start.checked_add(data.len()));
        match start.filter(|_| end.is_some_and(|end| end <= memory.bytes())) {
            Some(start) => memory.write(start, data),
            None => {
                let (bytes, size) = (data.len(), memory.bytes());
                return Err(format!(
                    "{bytes} bytes at {offset_bytes} of window {number}, which has {size}"
                ));
            }
        }
        Ok(())
    }
}

impl PutLink {
    /// The end by which messages come in, unless somebody else takes some now.
    fn try_incoming(&self) -> Option<MutexGuard<'_, Receiver>> {
        match self.incoming.try_lock() {
            Ok(incoming) => Some(incoming),
            Err(TryLockError::Poisoned(incoming)) => Some(incoming.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    /// Sends as much of `rest` as one message has room for, and its signal with the last bytes. How
    /// many bytes went; nothing, if there is no room.
    pub fn send(&self, rest: &PutRest) -> Option<usize> {
        let PutRest { header, data, moved } = *rest;
        let mut outgoing = lock(&self.outgoing);
        let mut slot = outgoing.sender.try_reserve()?;
        let room = slot.bytes();
        let bytes = room.len().saturating_sub(HEADER_BYTES).min(data.bytes() - moved);
        let is_last = moved + bytes == data.bytes();
        let offset_bytes = header.offset_bytes + moved as u64;
        let signals = if is_last { header.signals } else { 0 };
        data.read(moved, &mut PutHeader { offset_bytes, signals, ..header }.write(room)[..bytes]);
        slot.commit(HEADER_BYTES + bytes);
        if is_last {
            outgoing.owed = None;
        }
        Some(bytes)
    }

    /// Sends the signal that makes `signals`, now or later.
    pub fn signal(&self, signals: u64) {
        lock(&self.outgoing).owed = Some(signals);
        self.pay();
    }

    /// Sends what is owed, if anything is and there is room; whether it did.
    fn pay(&self) -> bool {
        let mut outgoing = lock(&self.outgoing);
        let Some(signals) = outgoing.owed else { return false };
        let Some(mut slot) = outgoing.sender.try_reserve() else { return false };
        PutHeader { window: 0, offset_bytes: 0, signals }.write(slot.bytes());
        slot.commit(HEADER_BYTES);
        outgoing.owed = None;
        true
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use msccl_fabric::{RingBufferShape, RingBuffers};

    use super::*;

    const PEER: Rank = Rank(1);

    /// The links of two ranks, by which rank 1 sends to rank 0.
    fn joined() -> (Arc<PutLinks>, Arc<PutLinks>) {
        let shape = RingBufferShape { depth: 2, slot_bytes: 64 };
        let rings = RingBuffers::create(&[shape, shape]).unwrap();
        let (receiver, sender) = (Arc::new(PutLinks::new(2)), Arc::new(PutLinks::new(2)));
        receiver.add(PEER, rings.sender(0).unwrap(), rings.receiver(1).unwrap());
        sender.add(Rank(0), rings.sender(1).unwrap(), rings.receiver(0).unwrap());
        (receiver, sender)
    }

    fn span(bytes: &mut [u8]) -> Span {
        let address = bytes.as_mut_ptr().expose_provenance() as u64;
        Span::of_caller(address, bytes.len() as u64, "a test").unwrap()
    }

    /// Sends `data` to `offset_bytes` of window `window` of rank 0, with signal 1; what rank 0 has
    /// against it, or nothing.
    fn put(window: u64, offset_bytes: u64, data: &mut [u8], links: &[Arc<PutLinks>; 2]) -> String {
        let header = PutHeader { window, offset_bytes, signals: 1 };
        let mut rest = PutRest { header, data: span(data), moved: 0 };
        let link = links[1].to(Rank(0)).unwrap();
        while rest.moved < data.len() {
            match link.send(&rest) {
                Some(bytes) => rest.moved += bytes,
                None => match links[0].advance() {
                    Ok(moved) => assert!(moved),
                    Err(error) => return error.to_string(),
                },
            }
        }
        links[0].take_all().map_or_else(|error| error.to_string(), |()| String::new())
    }

    #[test]
    fn bytes_arrive_before_their_signal() {
        let links: [_; 2] = joined().into();
        let (mut memory, mut data) = ([0; 300], [7; 200]);
        let shown = links[0].show(1, span(&mut memory));
        assert_eq!(put(1, 100, &mut data, &links), "");
        assert_eq!(links[0].came(PEER).unwrap().load(Ordering::Relaxed), 1);
        let mut found = [0; 200];
        span(&mut memory).read(100, &mut found);
        assert_eq!(found, data);
        // What comes for a window that was taken back is dropped.
        drop(shown);
        assert_eq!(put(1, 100, &mut data, &links), "");
    }

    #[test]
    fn nothing_is_written_outside() {
        for (window, offset_bytes, expected) in [
            (1, 100, "1 bytes at 100 of window 1, which has 100"),
            (1, u64::MAX, "1 bytes at 18446744073709551615 of window 1"),
            (0, 0, "bytes for no window"),
            (2, 0, "bytes for window 2, unknown yet"),
        ] {
            let (links, mut memory): ([_; 2], _) = (joined().into(), [0; 100]);
            let _shown = links[0].show(1, span(&mut memory));
            let said = put(window, offset_bytes, &mut [7], &links);
            let expected = format!("expected a one-sided transfer of r1, found {expected}");
            assert!(said.starts_with(&expected), "{said}");
            // From then on nothing comes.
            assert!(links[0].check().is_err() && links[0].advance().is_err());
        }
    }

    #[test]
    fn signals_never_wait() {
        let (receiver, sender) = joined();
        let link = sender.to(Rank(0)).unwrap();
        (1..=10).for_each(|signals| link.signal(signals));
        assert!(sender.owes());
        receiver.take_all().unwrap();
        assert_eq!(receiver.came(PEER).unwrap().load(Ordering::Relaxed), 2);
        assert!(sender.advance().unwrap() && !sender.owes());
        receiver.take_all().unwrap();
        assert_eq!(receiver.came(PEER).unwrap().load(Ordering::Relaxed), 10);
    }
}
