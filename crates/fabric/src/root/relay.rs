//! The root of any but the first of several unique ids: it passes the introductions of its ranks on
//! to the first one's root, which alone judges, and hands that root's answer on to its ranks. So
//! the answers, whose bytes grow with the square of the ranks, leave from as many places as there
//! are ids.

use std::net::TcpStream;
use std::time::Duration;

use msccl_collective::Rank;

use crate::abort::Patience;
use crate::dial;
use crate::error::Error;
use crate::handshake::{Kind, Purpose, Session, Side};
use crate::introduction::{ANSWER_LIMIT_BYTES, Head, Introduction, opened, sealed};
use crate::key::Key;
use crate::membership::first_root_does_not_answer;
use crate::socket;

/// How long one attempt to reach the first root may take.
const ATTEMPT: Duration = Duration::from_millis(500);

/// How much longer than the first root, whose verdict says more, a relay waits.
pub(super) const GRACE: Duration = Duration::from_millis(300);

/// The connection to the first root.
struct Uplink {
    stream: TcpStream,
    session: Session,
    /// How many of the introductions went over it.
    sent: usize,
}

/// What a root passes on, once it knows that it is not the first.
pub(super) struct Relay {
    head: Head,
    introductions: Vec<Introduction>,
    uplink: Option<Uplink>,
    inbox: Vec<u8>,
}

impl Relay {
    pub(super) fn to(head: Head) -> Self {
        Self { head, introductions: Vec::new(), uplink: None, inbox: Vec::new() }
    }

    /// A rank has come; what it says goes to the first root, as if it had said so there.
    pub(super) fn arrive(&mut self, introduction: Introduction) {
        self.introductions.push(Introduction { head: None, ..introduction });
    }

    /// A rank went away again: the first root learns of it by the end of the connection, and of the
    /// others once more.
    pub(super) fn leave(&mut self, rank: Rank) {
        self.introductions.retain(|introduction| introduction.peer.rank != rank);
        self.uplink = None;
    }

    /// The connection to listen to.
    pub(super) fn stream(&self) -> Option<&TcpStream> {
        self.uplink.as_ref().map(|uplink| &uplink.stream)
    }

    /// Passes on what is new, and gives what the first root has answered, if it has. A connection
    /// that fails is made anew.
    pub(super) fn step(&mut self, patience: &Patience) -> Option<Vec<u8>> {
        let attempt = patience.at_most(ATTEMPT);
        let uplink = match self.uplink.take() {
            Some(uplink) => uplink,
            None => self.connect(&attempt)?,
        };
        let Uplink { stream, session, sent } = uplink;
        for (number, introduction) in self.introductions.iter().enumerate().skip(sent) {
            let body = introduction.to_bytes(&session);
            let message = sealed(&session, Side::Dialler, number as u64, &body);
            socket::send_all(&stream, &message, &attempt).ok()?;
        }
        let limit = ANSWER_LIMIT_BYTES;
        let ended = socket::drain(&stream, &mut self.inbox, limit).ok()?;
        let answer = opened(&session, Side::Listener, 0, &self.inbox, limit).ok()?;
        let answer = answer.map(|(body, _)| body.to_vec());
        if answer.is_none() && !ended {
            self.uplink = Some(Uplink { stream, session, sent: self.introductions.len() });
        }
        answer
    }

    fn connect(&mut self, attempt: &Patience) -> Option<Uplink> {
        self.inbox.clear();
        let Head { address, token } = self.head;
        let key = Key::from_secret(&token.to_le_bytes());
        let from = self.introductions.first()?.peer.rank;
        let purpose = Purpose { kind: Kind::Relay, from, to: Rank(0), channel: 0 };
        let stream = socket::connect(address, attempt).ok()?;
        let session = dial::prove(&stream, &key, purpose, attempt).ok()?;
        Some(Uplink { stream, session, sent: 0 })
    }

    pub(super) fn silence(&self, limit: Duration) -> Error {
        first_root_does_not_answer(self.head.address, limit)
    }
}
