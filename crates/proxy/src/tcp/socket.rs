//! Sockets that never block, and how long a silent peer is borne with.
//!
//! Buffers are left to the kernel, which lets them grow to megabytes as a connection needs it; sizes that a
//! program sets are held to a smaller limit.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{self, AddressFamily, SocketFlags, SocketType, sockopt};

use super::listener::{PREFACE_BYTES, Preface, REPLY_BYTES};

/// Connections that may wait to be accepted: all ranks of a large job knock at once.
const BACKLOG: i32 = 4096;

/// Questions that a silent peer may leave unanswered.
const PROBES: u32 = 4;

pub(super) fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    let listener = TcpListener::bind(address)?;
    listener.set_nonblocking(true)?;
    net::listen(&listener, BACKLOG)?;
    Ok(listener)
}

/// The peer is asked for a sign of life after half of `silence`, and given up when all of it is over; what
/// was sent must be acknowledged within the same time.
pub(super) fn prepare(stream: &TcpStream, silence: Duration) -> io::Result<()> {
    stream.set_nonblocking(true)?;
    stream.set_nodelay(true)?;
    let idle = (silence / 2).max(Duration::from_secs(1));
    let every = (silence / (2 * PROBES)).max(Duration::from_secs(1));
    sockopt::set_socket_keepalive(stream, true)?;
    sockopt::set_tcp_keepidle(stream, idle)?;
    sockopt::set_tcp_keepintvl(stream, every)?;
    sockopt::set_tcp_keepcnt(stream, PROBES)?;
    let silence_ms = u32::try_from(silence.as_millis()).unwrap_or(u32::MAX);
    sockopt::set_tcp_user_timeout(stream, silence_ms)?;
    Ok(())
}

/// A connection that is being made by this rank.
pub(crate) struct Dial {
    stream: TcpStream,
    to: SocketAddr,
    /// What the peer must hear, then what it must answer.
    preface: [u8; PREFACE_BYTES],
    said: usize,
    expected: [u8; REPLY_BYTES],
    reply: Vec<u8>,
    connected: bool,
}

/// How a dial stands.
pub(crate) enum Dialled {
    /// The peer has not answered yet.
    Waiting(Dial),
    /// The peer has answered rightly.
    Done(TcpStream),
}

impl Dial {
    /// Begins to connect to `to`, which knows this rank by `preface` and shall answer with `reply`.
    pub(crate) fn start(
        to: SocketAddr,
        preface: &Preface,
        reply: u128,
        silence: Duration,
    ) -> io::Result<Self> {
        let family = if to.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        let stream = TcpStream::from(net::socket_with(family, SocketType::STREAM, flags, None)?);
        match net::connect(&stream, &to) {
            Ok(()) | Err(Errno::INPROGRESS | Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        prepare(&stream, silence)?;
        let (preface, expected) = (preface.to_bytes(), reply.to_le_bytes());
        Ok(Self { stream, to, preface, said: 0, expected, reply: Vec::new(), connected: false })
    }

    pub(crate) fn descriptor(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }

    pub(crate) fn wants_to_write(&self) -> bool {
        self.said < self.preface.len()
    }

    /// Goes on as far as that is possible at once.
    pub(crate) fn go_on(mut self) -> io::Result<Dialled> {
        if !self.connected && !self.is_connected()? {
            return Ok(Dialled::Waiting(self));
        }
        while self.said < self.preface.len() {
            match (&self.stream).write(&self.preface[self.said..]) {
                Ok(written) => self.said += written,
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    return Ok(Dialled::Waiting(self));
                }
                Err(error) => return Err(error),
            }
        }
        if !read_up_to(&self.stream, &mut self.reply, self.expected.len())? {
            return Ok(Dialled::Waiting(self));
        }
        match self.reply == self.expected {
            true => Ok(Dialled::Done(self.stream)),
            false => Err(io::Error::new(ErrorKind::InvalidData, "somebody else answers there")),
        }
    }

    fn is_connected(&mut self) -> io::Result<bool> {
        let mut ready = [PollFd::new(&self.stream, PollFlags::OUT)];
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        if poll(&mut ready, Some(&now)).unwrap_or(0) == 0 {
            return Ok(false);
        }
        sockopt::socket_error(&self.stream)??;
        if self.stream.local_addr()? == self.to {
            // Two ends of one socket: the system picked the very port that this rank looks for.
            return Err(ErrorKind::ConnectionRefused.into());
        }
        self.connected = true;
        Ok(true)
    }
}

/// Reads until `bytes` has `length` bytes; false if they have not all come.
pub(super) fn read_up_to(
    mut stream: &TcpStream,
    bytes: &mut Vec<u8>,
    length: usize,
) -> io::Result<bool> {
    let mut piece = [0; PREFACE_BYTES];
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

/// The next connection that waits, if one does.
pub(super) fn accept(
    listener: &TcpListener,
    silence: Duration,
) -> io::Result<Option<(TcpStream, SocketAddr)>> {
    loop {
        match listener.accept() {
            Ok((stream, from)) => {
                prepare(&stream, silence)?;
                return Ok(Some((stream, from)));
            }
            Err(error) => match error.kind() {
                ErrorKind::WouldBlock => return Ok(None),
                // Connections that ended while they waited.
                ErrorKind::ConnectionAborted | ErrorKind::Interrupted => {}
                _ => return Err(error),
            },
        }
    }
}
