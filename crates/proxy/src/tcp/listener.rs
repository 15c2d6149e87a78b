//! Where peers knock. Whoever connects proves that it is a rank of the group, by the fabric's
//! handshake for [`Kind::Rail`] connections, and says in it which of its rails this shall be. How
//! many may be about to, and how long that may take, is the [`Acceptor`]'s affair. Nobody is
//! accepted while no links are being made.

use std::io;
use std::net::{SocketAddr, TcpStream};
use std::os::fd::BorrowedFd;
use std::time::{Duration, Instant};

use msccl_collective::Rank;
use msccl_fabric::{Acceptor, Admitted, Key, Kind, Notice};

use super::socket;
use crate::log::{Event, Log};

/// How long it looks away when it could not accept.
const TROUBLE_PAUSE: Duration = Duration::from_millis(100);

/// A peer that has introduced itself.
pub(crate) struct IncomingConnection {
    pub(crate) stream: TcpStream,
    pub(crate) from: Rank,
    pub(crate) rail: u32,
}

/// Whether links are being made.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Expected {
    Somebody,
    Nobody,
}

/// Takes connections of peers.
pub(crate) struct Listener {
    acceptor: Acceptor,
    /// When it could not accept last.
    trouble: Option<Instant>,
}

impl Listener {
    /// Listens at `address` as rank `me` of `ranks`, all of which know `key`.
    pub(crate) fn open(address: SocketAddr, key: Key, me: Rank, ranks: u32) -> io::Result<Self> {
        let listener = socket::listen(address)?;
        let acceptor = Acceptor::new(listener, key, &[Kind::Rail], me, ranks);
        Ok(Self { acceptor, trouble: None })
    }

    pub(crate) fn address(&self) -> io::Result<SocketAddr> {
        self.acceptor.address()
    }

    /// Accepts who waits if somebody is `expected`, and goes on with those that were accepted; the
    /// peers that have introduced themselves.
    pub(crate) fn listen(&mut self, expected: Expected, log: &dyn Log) -> Vec<IncomingConnection> {
        if self.trouble.is_some_and(|trouble| trouble.elapsed() < TROUBLE_PAUSE) {
            return Vec::new();
        }
        self.trouble = None;
        let log_notice = |notice| log.event(&event(notice));
        let admitted = match expected {
            Expected::Somebody => self.acceptor.admit(log_notice),
            Expected::Nobody => Ok(self.acceptor.finish(log_notice)),
        };
        let incoming = admitted.and_then(|admitted| admitted.into_iter().map(incoming).collect());
        incoming.unwrap_or_else(|error: io::Error| {
            let text = format!("connections of peers cannot be accepted: {error}");
            log.event(&Event::Trouble(text));
            self.trouble = Some(Instant::now());
            Vec::new()
        })
    }

    /// Whether connections were accepted that have not introduced themselves.
    pub(crate) fn has_unauthenticated(&self) -> bool {
        self.acceptor.has_unauthenticated()
    }

    /// What to poll for input; nothing while accepting is in trouble.
    pub(crate) fn descriptors(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        let works = self.trouble.is_none();
        self.acceptor.descriptors().filter(move |_| works)
    }
}

fn incoming(admitted: Admitted) -> io::Result<IncomingConnection> {
    let Admitted { stream, purpose, .. } = admitted;
    socket::prepare(&stream)?;
    Ok(IncomingConnection { stream, from: purpose.from, rail: purpose.channel })
}

fn event(notice: Notice) -> Event {
    match notice {
        Notice::Closed { from, why } => Event::StrayConnection { from: Some(from), why },
        Notice::ClosedMore(count) => Event::StrayConnections { count },
    }
}
