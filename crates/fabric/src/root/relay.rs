//! The root of any but the first of several unique ids: it passes the hellos of its ranks on to the first
//! one's root, which alone judges, and hands that root's answer on to its ranks. So the answers, whose
//! bytes grow with the square of the ranks, leave from as many places as there are ids.

use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use crate::abort::Patience;
use crate::error::Error;
use crate::hello::{Hello, with_preface};
use crate::join::ANSWER_LIMIT_BYTES;
use crate::roll::first_root_is_silent;
use crate::socket;

/// How long one attempt to reach the first root may take.
const ATTEMPT: Duration = Duration::from_secs(1);

/// How much longer than the first root, whose verdict says more, a relay waits.
pub(super) const GRACE: Duration = Duration::from_secs(2);

/// Where the root of the first id listens, and its token.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Head {
    pub(crate) address: SocketAddr,
    pub(crate) token: u128,
}

/// What a root passes on, once it knows that it is not the first.
pub(super) struct Relay {
    head: Head,
    hellos: Vec<Hello>,
    /// The connection to the first root, and how many of the hellos went over it.
    uplink: Option<(TcpStream, usize)>,
    inbox: Vec<u8>,
}

impl Relay {
    pub(super) fn to(head: Head) -> Self {
        Self { head, hellos: Vec::new(), uplink: None, inbox: Vec::new() }
    }

    /// A rank has come; what it says goes to the first root, as if it had said so there.
    pub(super) fn arrive(&mut self, hello: Hello) {
        self.hellos.push(Hello { head: None, ..hello });
    }

    /// A rank went away again: the first root hears of it by the end of the connection, and of the
    /// others once more.
    pub(super) fn leave(&mut self, rank: msccl_collective::Rank) {
        self.hellos.retain(|hello| hello.peer.rank != rank);
        self.uplink = None;
    }

    /// The connection to listen to.
    pub(super) fn stream(&self) -> Option<&TcpStream> {
        self.uplink.as_ref().map(|(stream, _)| stream)
    }

    /// Passes on what is new, and answers what the first root has answered, if it has. A connection
    /// that fails is made anew.
    pub(super) fn step(&mut self, patience: &Patience) -> Option<Vec<u8>> {
        let attempt = patience.at_most(ATTEMPT);
        let (stream, sent) = match self.uplink.take() {
            Some(uplink) => uplink,
            None => {
                self.inbox.clear();
                (socket::connect(self.head.address, &attempt).ok()?, 0)
            }
        };
        for hello in &self.hellos[sent..] {
            let message = with_preface(self.head.token, &hello.to_bytes());
            socket::send_all(&stream, &message, &attempt).ok()?;
        }
        let ended = socket::drain(&stream, &mut self.inbox, ANSWER_LIMIT_BYTES).ok()?;
        let length = self.inbox.first_chunk().map(|length| u32::from_le_bytes(*length) as usize);
        if length.is_some_and(|length| self.inbox.len() >= 4 + length) {
            return Some(std::mem::take(&mut self.inbox));
        }
        if !ended {
            self.uplink = Some((stream, self.hellos.len()));
        }
        None
    }

    pub(super) fn silence(&self, limit: Duration) -> Error {
        first_root_is_silent(self.head.address, limit)
    }
}
