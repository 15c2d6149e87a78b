//! Sockets that never block, and how long a silent peer is borne with.
//!
//! Buffers are left to the kernel, which lets them grow to megabytes as a connection needs it;
//! sizes that a program sets are held to a smaller limit.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};

use msccl_fabric::{CHALLENGE_BYTES, Dialler, Key, Purpose};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{self, AddressFamily, SocketFlags, SocketType, sockopt};

/// Connections that may wait to be accepted: all ranks of a large job knock at once.
const BACKLOG: i32 = 4096;

pub(super) fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    let listener = TcpListener::bind(address)?;
    listener.set_nonblocking(true)?;
    net::listen(&listener, BACKLOG)?;
    Ok(listener)
}

pub(super) fn prepare(stream: &TcpStream) -> io::Result<()> {
    stream.set_nonblocking(true)?;
    stream.set_nodelay(true)?;
    Ok(())
}

/// What the peer says when it takes the connection as a rail.
pub(crate) const WELCOME: [u8; 8] = *b"msccl-ok";

/// How long to wait before another attempt.
const AGAIN_AFTER: Duration = Duration::from_millis(10);

/// How long one attempt may take: the kernel waits longer and longer between its own.
const ATTEMPT: Duration = Duration::from_secs(8);

/// A connection that is being made by this rank.
pub(crate) struct Dial {
    to: SocketAddr,
    key: Key,
    purpose: Purpose,
    attempt: DialAttempt,
}

/// One attempt to connect.
struct DialAttempt {
    since: Instant,
    stream: TcpStream,
    connected: bool,
    dialler: Dialler,
    /// What the peer must receive next, and how much of that is written.
    saying: Vec<u8>,
    said: usize,
    /// What the peer has said of what it owes.
    received: Vec<u8>,
    owes: Owes,
    /// It ended, and another one begins then.
    again_at: Option<Instant>,
}

/// What the peer is to say.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Owes {
    Challenge,
    Welcome,
}

/// How a dial stands.
pub(crate) enum Dialled {
    /// The peer has not answered yet.
    Waiting(Box<Dial>),
    /// The peer has answered rightly.
    Done(TcpStream),
}

impl Dial {
    /// Begins to connect to `to`, which knows `key`, for `purpose`.
    pub(crate) fn start(to: SocketAddr, key: &Key, purpose: Purpose) -> io::Result<Box<Self>> {
        let attempt = DialAttempt::start(to, key, purpose)?;
        Ok(Box::new(Self { to, key: key.clone(), purpose, attempt }))
    }

    pub(crate) fn descriptor(&self) -> BorrowedFd<'_> {
        self.attempt.stream.as_fd()
    }

    pub(crate) fn wants_to_write(&self) -> bool {
        self.attempt.said < self.attempt.saying.len()
    }

    /// Goes on as far as that is possible at once. A peer that had no room or no time, or that no
    /// network leads to at the moment, is tried again.
    pub(crate) fn go_on(mut self: Box<Self>) -> io::Result<Dialled> {
        if let Some(at) = self.attempt.again_at {
            if Instant::now() < at {
                return Ok(Dialled::Waiting(self));
            }
            self.attempt = DialAttempt::start(self.to, &self.key, self.purpose)?;
        }
        match self.attempt.go_on(self.to) {
            Ok(true) => Ok(Dialled::Done(self.attempt.stream)),
            Ok(false) if self.attempt.is_too_late() => {
                self.attempt.again_at = Some(Instant::now());
                Ok(Dialled::Waiting(self))
            }
            Ok(false) => Ok(Dialled::Waiting(self)),
            Err(error) if may_pass(&error) => {
                self.attempt.again_at = Some(Instant::now() + AGAIN_AFTER);
                Ok(Dialled::Waiting(self))
            }
            Err(error) => Err(error),
        }
    }
}

/// Whether the peer may merely have closed a connection for which it had no room, or the network be
/// away.
fn may_pass(error: &io::Error) -> bool {
    use ErrorKind::{BrokenPipe, ConnectionReset, UnexpectedEof};
    use ErrorKind::{HostUnreachable, NetworkUnreachable, TimedOut};
    let closed = [UnexpectedEof, ConnectionReset, BrokenPipe].contains(&error.kind());
    closed || [HostUnreachable, NetworkUnreachable, TimedOut].contains(&error.kind())
}

impl DialAttempt {
    fn start(to: SocketAddr, key: &Key, purpose: Purpose) -> io::Result<Self> {
        let family = if to.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        let stream = TcpStream::from(net::socket_with(family, SocketType::STREAM, flags, None)?);
        // What is not there at the moment is tried again.
        let again_at = match net::connect(&stream, &to).map_err(io::Error::from) {
            Ok(()) => None,
            Err(error) if Errno::from_io_error(&error) == Some(Errno::INPROGRESS) => None,
            Err(error) if error.kind() == ErrorKind::Interrupted => None,
            Err(error) if may_pass(&error) => Some(Instant::now() + AGAIN_AFTER),
            Err(error) => return Err(error),
        };
        prepare(&stream)?;
        let dialler = Dialler::new(key, purpose).map_err(io::Error::other)?;
        let saying = dialler.opening().to_vec();
        let (since, received, owes) = (Instant::now(), Vec::new(), Owes::Challenge);
        let (connected, said) = (false, 0);
        Ok(Self { since, stream, connected, dialler, saying, said, received, owes, again_at })
    }

    fn is_too_late(&self) -> bool {
        !self.connected && self.since.elapsed() > ATTEMPT
    }

    /// Whether the peer has taken the connection.
    fn go_on(&mut self, to: SocketAddr) -> io::Result<bool> {
        if !self.connected && !self.is_connected(to)? {
            return Ok(false);
        }
        if !self.has_said()? {
            return Ok(false);
        }
        if self.owes == Owes::Challenge {
            if !read_up_to(&self.stream, &mut self.received, CHALLENGE_BYTES)? {
                return Ok(false);
            }
            let challenge = self.received.first_chunk();
            let proof = challenge.and_then(|challenge| self.dialler.prove(challenge, &[]));
            self.saying = proof.ok_or_else(somebody_else)?.to_vec();
            (self.said, self.owes) = (0, Owes::Welcome);
            self.received.clear();
            if !self.has_said()? {
                return Ok(false);
            }
        }
        if !read_up_to(&self.stream, &mut self.received, WELCOME.len())? {
            return Ok(false);
        }
        if self.received == WELCOME { Ok(true) } else { Err(somebody_else()) }
    }

    /// Whether all that the peer must receive is written.
    fn has_said(&mut self) -> io::Result<bool> {
        while self.said < self.saying.len() {
            match (&self.stream).write(&self.saying[self.said..]) {
                Ok(written) => self.said += written,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(false),
                Err(error) => return Err(error),
            }
        }
        Ok(true)
    }

    fn is_connected(&mut self, to: SocketAddr) -> io::Result<bool> {
        let mut ready = [PollFd::new(&self.stream, PollFlags::OUT)];
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        if poll(&mut ready, Some(&now)).unwrap_or(0) == 0 {
            return Ok(false);
        }
        sockopt::socket_error(&self.stream)??;
        if self.stream.local_addr()? == to {
            // Two ends of one socket: the system picked the very port that this rank looks for.
            return Err(ErrorKind::ConnectionRefused.into());
        }
        self.connected = true;
        Ok(true)
    }
}

fn somebody_else() -> io::Error {
    io::Error::new(ErrorKind::InvalidData, "somebody else answers there")
}

/// Reads until `bytes` has `length` bytes; false if they have not all come.
fn read_up_to(mut stream: &TcpStream, bytes: &mut Vec<u8>, length: usize) -> io::Result<bool> {
    let mut piece = [0; CHALLENGE_BYTES];
    while bytes.len() < length {
        let room = (length - bytes.len()).min(piece.len());
        match stream.read(&mut piece[..room]) {
            Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
            Ok(read) => bytes.extend(&piece[..read]),
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(false),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(true)
}
