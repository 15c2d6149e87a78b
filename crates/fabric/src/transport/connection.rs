//! One connection, as the event loop serves it: bytes in, bytes out, never blocking.

use std::collections::VecDeque;
use std::io::{ErrorKind, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use msccl_collective::Rank;
use rustix::event::PollFlags;

use super::mailbox::ConnectionId;
use crate::departure::DepartureReason;
use crate::endurance::Endurance;
use crate::frame::{Frame, Subject};
use crate::socket;
use crate::wire::Malformed;

/// What one pass takes from one connection at most, so that the others get their turn.
const GULP_BYTES: usize = 4 << 20;

/// How a death shows: the peer's side of the connection has ended. It was reset if the peer had not
/// read all that had come.
const CONNECTION_ENDED: &str = "its connection ended";

/// A connection to a peer that has introduced itself.
pub(super) struct Connection {
    pub(super) id: ConnectionId,
    pub(super) peer: Rank,
    pub(super) stream: TcpStream,
    /// None if it is over already, which its next read reports.
    endurance: Option<Endurance>,
    inbox: Vec<u8>,
    outbox: VecDeque<Arc<Vec<u8>>>,
    /// Bytes of the outbox's first entry that are written.
    written: usize,
    /// Whether the peer said goodbye.
    pub(super) parted: bool,
    /// Whether this side has, and ended its direction.
    closing: bool,
}

/// How a pass over a connection ended.
pub(super) enum Pass {
    Open,
    /// The connection is over.
    Over(DepartureReason),
}

impl Connection {
    /// One that outlasts whatever is shorter than `silence`.
    pub(super) fn new(id: ConnectionId, peer: Rank, stream: TcpStream, silence: Duration) -> Self {
        let (inbox, outbox) = (Vec::new(), VecDeque::new());
        let endurance = Endurance::new(&stream, silence).ok();
        let (written, parted, closing) = (0, false, false);
        Self { id, peer, stream, endurance, inbox, outbox, written, parted, closing }
    }

    /// To be called once a second at least.
    pub(super) fn look_after(&mut self) {
        let Self { endurance, stream, .. } = self;
        endurance.iter_mut().for_each(|endurance| endurance.look_after(stream));
    }

    pub(super) fn post(&mut self, bytes: Arc<Vec<u8>>) {
        self.outbox.push_back(bytes);
    }

    pub(super) fn post_all(&mut self, frames: &[Arc<Vec<u8>>]) {
        self.outbox.extend(frames.iter().cloned());
    }

    /// What to wait for.
    pub(super) fn interest(&self) -> PollFlags {
        match self.outbox.is_empty() {
            true => PollFlags::IN,
            false => PollFlags::IN | PollFlags::OUT,
        }
    }

    /// Writes what the peer has room for. Failures show when reading.
    pub(super) fn write(&mut self) {
        while let Some(first) = self.outbox.front() {
            match (&self.stream).write(&first[self.written..]) {
                Ok(length) => {
                    self.written += length;
                    if self.written == first.len() {
                        self.outbox.pop_front();
                        self.written = 0;
                    }
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(_) => return,
            }
        }
    }

    /// Ends this side's direction once everything is written.
    pub(super) fn part(&mut self) {
        if self.outbox.is_empty() && !self.closing {
            self.closing = true;
            // A peer that is gone already needs no farewell.
            let _ = self.stream.shutdown(Shutdown::Write);
        }
    }

    /// Reads what has come and hands every whole frame to `deliver`.
    pub(super) fn read(&mut self, mut deliver: impl FnMut(Frame)) -> Pass {
        let limit = self.inbox.len() + GULP_BYTES;
        let drained = socket::drain(&self.stream, &mut self.inbox, limit);
        let mut rest = self.inbox.as_slice();
        let parsed = loop {
            match Frame::take(&mut rest) {
                Ok(Some(frame)) if frame.subject == Subject::Goodbye => self.parted = true,
                Ok(Some(frame)) => deliver(frame),
                Ok(None) => break Ok(()),
                Err(malformed) => break Err(malformed),
            }
        };
        let consumed = self.inbox.len() - rest.len();
        self.inbox.drain(..consumed);
        let lost = |description| Pass::Over(DepartureReason::Lost(description));
        let died = || Pass::Over(DepartureReason::Died(CONNECTION_ENDED.to_owned()));
        match (parsed, drained) {
            _ if self.parted => Pass::Over(DepartureReason::Left),
            (Err(Malformed(why)), _) => lost(format!("sent nonsense: {why}")),
            (Ok(()), Ok(false)) => Pass::Open,
            (Ok(()), Ok(true)) => died(),
            (Ok(()), Err(error)) if error.kind() == ErrorKind::ConnectionReset => died(),
            (Ok(()), Err(error)) => lost(format!("is lost: {error}")),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::net::TcpListener;

    use super::*;

    /// A connection, and the peer's end of it.
    fn connection() -> (Connection, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        let connection = Connection::new(ConnectionId(0), Rank(1), stream, Duration::from_secs(40));
        (connection, listener.accept().unwrap().0)
    }

    fn end(mut connection: Connection) -> DepartureReason {
        match connection.read(|frame| panic!("{:?}", frame.subject)) {
            Pass::Over(reason) => reason,
            Pass::Open => panic!("still open"),
        }
    }

    #[test]
    fn a_peer_that_dies_is_told_alike_whatever_it_had_read() {
        let (read, theirs) = connection();
        drop(theirs);
        let died = DepartureReason::Died(CONNECTION_ENDED.to_owned());
        assert_eq!(end(read), died);
        let (unread, mut theirs) = connection();
        (&unread.stream).write_all(&[1, 2]).unwrap();
        theirs.read_exact(&mut [0]).unwrap();
        drop(theirs);
        assert_eq!(end(unread), died);
    }
}
