//! Accepts connections: each passes the handshake and is admitted, or is closed.
//!
//! An **unauthenticated connection** is one that has not passed its [`crate::handshake`] yet. It
//! costs one descriptor and a fixed few bytes, has [`AUTHENTICATION_TIME`] for all of the
//! handshake, and there are only so many at a time ([`unauthenticated_limit`]): by what the job can
//! need and by what descriptors the process may have. Where more come, those that said nothing for
//! a moment must go first; whoever belongs here tries again.

use std::collections::VecDeque;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};

use msccl_collective::Rank;
use rustix::io::Errno;

use crate::descriptors;
use crate::handshake::{
    Challenger, Kind, OPENING_BYTES, PROOF_BYTES, Purpose, Session, check_beginning,
};
use crate::key::Key;
use crate::socket;

/// How long an unauthenticated connection may take for the handshake.
pub(crate) const AUTHENTICATION_TIME: Duration = Duration::from_secs(2);

/// How long an unauthenticated connection is safe from having to make room for another: before its
/// opening, which comes right behind the connection, and after it.
const SILENCE_MIN: Duration = Duration::from_millis(2);
const PROOF_MIN: Duration = Duration::from_millis(500);

/// Connections that are accepted before the caller gets its turn: a flood must not keep it from its
/// peers.
const ACCEPTED_AT_ONCE: usize = 256;

/// How often unauthenticated connections are looked at while there are any.
const TICK: Duration = Duration::from_millis(100);

/// Messages about unauthenticated connections in a second; the others are counted.
const LOGGED_A_SECOND: u32 = 16;

/// How many unauthenticated connections a listener bears with at a time, in a job of `ranks` ranks.
pub(crate) fn unauthenticated_limit(ranks: u32) -> usize {
    let by_need = (ranks as usize).saturating_add(8).min(256);
    let by_limit = descriptors::soft_limit().map_or(256, |limit| limit / 32);
    by_need.min(usize::try_from(by_limit).unwrap_or(256)).max(4)
}

/// A listener and its unauthenticated connections.
pub struct Acceptor {
    listener: TcpListener,
    key: Key,
    kinds: &'static [Kind],
    me: Rank,
    limit: usize,
    /// The oldest first.
    unauthenticated: VecDeque<UnauthenticatedConnection>,
    log_limit: LogLimit,
}

/// A connection whose dialler has proved that it belongs here.
pub struct Admitted {
    /// The connection; nothing behind the handshake was read. It does not block.
    pub stream: TcpStream,
    /// From where.
    pub address: SocketAddr,
    /// Who it is and what it wants.
    pub purpose: Purpose,
    pub(crate) session: Session,
}

/// What [`Acceptor::admit`] has to say.
pub enum Notice {
    /// A connection was closed.
    Closed {
        /// From where it came.
        from: SocketAddr,
        /// What was wrong with it.
        why: String,
    },
    /// So many more were closed since the last notice, without one each.
    ClosedMore(u64),
}

impl Acceptor {
    /// Admits connections of `kinds` for `me` to those who know `key`, in a job of `ranks` ranks.
    pub fn new(
        listener: TcpListener,
        key: Key,
        kinds: &'static [Kind],
        me: Rank,
        ranks: u32,
    ) -> Self {
        let (unauthenticated, log_limit) = (VecDeque::new(), LogLimit::default());
        Self {
            listener,
            key,
            kinds,
            me,
            limit: unauthenticated_limit(ranks),
            unauthenticated,
            log_limit,
        }
    }

    /// Where it listens.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// The job turned out to have `ranks` ranks.
    pub(crate) fn expect(&mut self, ranks: u32) {
        self.limit = unauthenticated_limit(ranks);
    }

    /// What to poll for input.
    pub fn descriptors(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        // Whoever waits for room there must not keep the caller awake.
        let own = (self.unauthenticated.len() < self.limit).then(|| self.listener.as_fd());
        own.into_iter()
            .chain(self.unauthenticated.iter().map(|connection| connection.stream.as_fd()))
    }

    /// Whether there are unauthenticated connections.
    pub fn has_unauthenticated(&self) -> bool {
        !self.unauthenticated.is_empty()
    }

    /// Goes on with all handshakes and accepts no further connection. Returns the admitted ones.
    /// Never waits.
    pub fn finish(&mut self, mut report: impl FnMut(Notice)) -> Vec<Admitted> {
        let mut admitted = Vec::new();
        self.go_on(&mut admitted, &mut report);
        admitted
    }

    /// How long [`Acceptor::admit`] may stay uncalled although nothing comes in.
    pub fn pause(&self) -> Option<Duration> {
        if self.unauthenticated.len() >= self.limit {
            return Some(SILENCE_MIN);
        }
        (!self.unauthenticated.is_empty()).then_some(TICK)
    }

    /// Accepts the connections that wait and goes on with all handshakes. Returns the admitted
    /// ones. Never waits.
    ///
    /// # Errors
    ///
    /// Connections cannot be accepted, for a reason that concerns this process and not who
    /// connects.
    pub fn admit(&mut self, mut report: impl FnMut(Notice)) -> io::Result<Vec<Admitted>> {
        let mut admitted = Vec::new();
        self.go_on(&mut admitted, &mut report);
        let accepted = self.accept(&mut admitted, &mut report);
        if let Some(more) = self.log_limit.suppressed() {
            report(Notice::ClosedMore(more));
        }
        accepted.map(|()| admitted)
    }

    fn accept(
        &mut self,
        admitted: &mut Vec<Admitted>,
        report: &mut impl FnMut(Notice),
    ) -> io::Result<()> {
        for _ in 0..ACCEPTED_AT_ONCE {
            if self.unauthenticated.len() >= self.limit && !self.make_room(report) {
                break;
            }
            match socket::accept(&self.listener) {
                Ok(Some((stream, from))) => {
                    let connection = UnauthenticatedConnection::new(stream, from);
                    self.go_on_with(connection, admitted, report);
                }
                Ok(None) => return Ok(()),
                // Unauthenticated connections must not use up the descriptors of admitted ones.
                Err(error) if descriptors::are_used_up(&error) && self.make_room(report) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    fn go_on(&mut self, admitted: &mut Vec<Admitted>, report: &mut impl FnMut(Notice)) {
        for connection in std::mem::take(&mut self.unauthenticated) {
            self.go_on_with(connection, admitted, report);
        }
    }

    fn go_on_with(
        &mut self,
        mut connection: UnauthenticatedConnection,
        admitted: &mut Vec<Admitted>,
        report: &mut impl FnMut(Notice),
    ) {
        match connection.go_on(&self.key, self.kinds, self.me) {
            Ok(None) => self.unauthenticated.push_back(connection),
            Ok(Some((purpose, session))) => {
                let UnauthenticatedConnection { stream, from: address, .. } = connection;
                admitted.push(Admitted { stream, address, purpose, session });
            }
            Err(why) => self.close(&connection, why, report),
        }
    }

    /// Closes the oldest unauthenticated connection that had its time; false if there is none.
    fn make_room(&mut self, report: &mut impl FnMut(Notice)) -> bool {
        let had =
            |connection: &UnauthenticatedConnection, least| connection.since.elapsed() >= least;
        let unanswered =
            |it: &UnauthenticatedConnection| it.challenger.is_none() && had(it, SILENCE_MIN);
        let found = self.unauthenticated.iter().position(unanswered);
        let found = found.or_else(|| self.unauthenticated.iter().position(|it| had(it, PROOF_MIN)));
        let Some(connection) = found.and_then(|at| self.unauthenticated.remove(at)) else {
            return false;
        };
        let why = "too many connections wait to introduce themselves".to_owned();
        self.close(&connection, why, report);
        true
    }

    fn close(
        &mut self,
        connection: &UnauthenticatedConnection,
        why: String,
        report: &mut impl FnMut(Notice),
    ) {
        if self.log_limit.may_log() {
            report(Notice::Closed { from: connection.from, why });
        }
    }
}

/// A connection during its handshake.
struct UnauthenticatedConnection {
    stream: TcpStream,
    from: SocketAddr,
    since: Instant,
    /// What it has said of the message that it owes.
    said: [u8; OPENING_BYTES],
    length: usize,
    challenger: Option<Challenger>,
}

impl UnauthenticatedConnection {
    fn new(stream: TcpStream, from: SocketAddr) -> Self {
        let (since, said) = (Instant::now(), [0; OPENING_BYTES]);
        Self { stream, from, since, said, length: 0, challenger: None }
    }

    /// Goes on as far as that is possible at once; who it is once that is proved. The text says why
    /// it must go.
    fn go_on(
        &mut self,
        key: &Key,
        kinds: &[Kind],
        me: Rank,
    ) -> Result<Option<(Purpose, Session)>, String> {
        if self.challenger.is_none() {
            if !self.read_up_to(OPENING_BYTES)? {
                check_beginning(&self.said[..self.length])?;
                return self.wait();
            }
            let (challenger, challenge) = Challenger::new(key, kinds, me, &self.said)?;
            // A new connection has room for it.
            let written = self.stream.write(&challenge).map_err(|error| error.to_string())?;
            if written < challenge.len() {
                return Err("it has no room for a challenge".to_owned());
            }
            (self.challenger, self.length) = (Some(challenger), 0);
        }
        if !self.read_up_to(PROOF_BYTES)? {
            return self.wait();
        }
        match &self.challenger {
            Some(known) if known.accepts(&self.said[..PROOF_BYTES], &[]) => {
                Ok(Some((known.purpose(), known.session())))
            }
            Some(_) | None => Err("it does not know the secret of this group".to_owned()),
        }
    }

    fn wait<T>(&self) -> Result<Option<T>, String> {
        match (self.since.elapsed() < AUTHENTICATION_TIME, self.length) {
            (true, _) => Ok(None),
            (false, 0) if self.challenger.is_none() => Err("it said nothing".to_owned()),
            (false, _) => Err("it did not finish its handshake in time".to_owned()),
        }
    }

    /// Whether the message of `length` bytes is there.
    fn read_up_to(&mut self, length: usize) -> Result<bool, String> {
        while self.length < length {
            match self.stream.read(&mut self.said[self.length..length]) {
                Ok(0) => return Err("it ended".to_owned()),
                Ok(read) => self.length += read,
                Err(error) => match error.kind() {
                    ErrorKind::WouldBlock => return Ok(false),
                    ErrorKind::Interrupted => {}
                    _ => return Err(error.to_string()),
                },
            }
        }
        Ok(true)
    }
}

/// Keeps a flood of unauthenticated connections from becoming a flood of messages.
#[derive(Default)]
pub(crate) struct LogLimit {
    second: Option<Instant>,
    logged: u32,
    suppressed: u64,
}

impl LogLimit {
    /// Whether one more message may be logged now; it is counted otherwise.
    pub(crate) fn may_log(&mut self) -> bool {
        if self.second.is_none_or(|second| second.elapsed() >= Duration::from_secs(1)) {
            (self.second, self.logged) = (Some(Instant::now()), 0);
        }
        self.logged = self.logged.saturating_add(1);
        let may = self.logged <= LOGGED_A_SECOND;
        self.suppressed += u64::from(!may);
        may
    }

    /// How many were not logged, once the flood is over or a second has passed.
    pub(crate) fn suppressed(&mut self) -> Option<u64> {
        let over = self.second.is_some_and(|second| second.elapsed() >= Duration::from_secs(1));
        (over && self.suppressed > 0).then(|| std::mem::take(&mut self.suppressed))
    }
}

impl From<Notice> for crate::log::Event {
    fn from(notice: Notice) -> Self {
        match notice {
            Notice::Closed { from, why } => Self::StrayConnection { from: Some(from), why },
            Notice::ClosedMore(count) => Self::StrayConnections { count },
        }
    }
}

/// Whether `error` may pass if whoever dials tries again: the listener had no room, or was busy for
/// too long.
pub(crate) fn may_try_again(error: &io::Error) -> bool {
    let kinds = [ErrorKind::UnexpectedEof, ErrorKind::ConnectionReset, ErrorKind::BrokenPipe];
    kinds.contains(&error.kind()) || error.raw_os_error() == Some(Errno::NOTCONN.raw_os_error())
}
