//! TCP sockets whose every wait is bounded and can be aborted. All sockets here are non-blocking.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::thread;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{self, AddressFamily, SocketFlags, SocketType, sockopt};

use crate::abort::{Patience, Stop};
use crate::endurance;

/// Connections that may wait to be accepted: all ranks of a large job connect at once.
const BACKLOG: i32 = 4096;

/// Before ranks have met: silence after which the system asks whether the other side still lives,
/// between its questions, and how many may stay unanswered. A host that vanished is noticed after
/// about 40 s.
const PROBE_AFTER: Duration = Duration::from_secs(15);
const PROBE_EVERY: Duration = Duration::from_secs(5);
const PROBES: u32 = 5;

/// How long what was sent may stay without an acknowledgement, which the questions above do not
/// cover.
const UNACKNOWLEDGED_MS: u32 = 60_000;

/// How long one attempt to connect may take: the kernel waits longer and longer between its own.
const ATTEMPT: Duration = Duration::from_secs(8);

/// Why a socket operation did not succeed.
#[derive(Debug)]
pub(crate) enum Failure {
    Stopped(Stop),
    Io(io::Error),
}

impl From<Stop> for Failure {
    fn from(stop: Stop) -> Self {
        Self::Stopped(stop)
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

impl From<Errno> for Failure {
    fn from(error: Errno) -> Self {
        Self::Io(error.into())
    }
}

pub(crate) fn timespec(duration: Duration) -> Timespec {
    // Durations here are at most days and always positive, so they fit.
    Timespec::try_from(duration).unwrap_or(Timespec { tv_sec: 1, tv_nsec: 0 })
}

/// Waits until `socket` can do what `flags` say, or has failed.
pub(crate) fn ready(
    socket: &impl AsFd,
    flags: PollFlags,
    patience: &Patience,
) -> Result<(), Failure> {
    loop {
        let mut poll_fd = [PollFd::new(socket, flags)];
        match poll(&mut poll_fd, Some(&timespec(patience.slice()))) {
            Ok(0) | Err(Errno::INTR) => patience.check()?,
            Ok(_) => return Ok(()),
            Err(error) => return Err(error.into()),
        }
    }
}

/// Whether a poll found something on that socket, be it its end.
pub(crate) fn has_news(polled: &PollFd<'_>) -> bool {
    !polled.revents().is_empty()
}

pub(crate) fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    let listener = TcpListener::bind(address)?;
    listener.set_nonblocking(true)?;
    net::listen(&listener, BACKLOG)?;
    Ok(listener)
}

/// The next connection that waits, if one does.
pub(crate) fn accept(listener: &TcpListener) -> io::Result<Option<(TcpStream, SocketAddr)>> {
    loop {
        match listener.accept() {
            // Otherwise it ended while it waited, which is no trouble of the listener's.
            Ok((stream, from)) => {
                if prepare(&stream).is_ok() {
                    return Ok(Some((stream, from)));
                }
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

fn prepare(stream: &TcpStream) -> io::Result<()> {
    stream.set_nonblocking(true)?;
    stream.set_nodelay(true)?;
    sockopt::set_socket_keepalive(stream, true)?;
    sockopt::set_tcp_keepidle(stream, PROBE_AFTER)?;
    sockopt::set_tcp_keepintvl(stream, PROBE_EVERY)?;
    sockopt::set_tcp_keepcnt(stream, PROBES)?;
    sockopt::set_tcp_user_timeout(stream, UNACKNOWLEDGED_MS)?;
    Ok(())
}

/// Connects to `address`, trying again for as long as `patience` lasts while nobody listens there.
pub(crate) fn connect(address: SocketAddr, patience: &Patience) -> Result<TcpStream, Failure> {
    let mut pause = Duration::from_millis(1);
    loop {
        match connect_once(address, patience) {
            Ok(stream) => return Ok(stream),
            Err(Failure::Io(error)) if may_pass(&error) => {
                let waited = sleep(pause, patience);
                // What kept us waiting says more than that the time is over.
                waited.map_err(|stop| match stop {
                    Stop::Aborted => Failure::Stopped(stop),
                    Stop::TimedOut => Failure::Io(error),
                })?;
                pause = (pause * 2).min(Duration::from_millis(100));
            }
            Err(failure) => return Err(failure),
        }
    }
}

/// Whether what `error` says may change by itself: the listener is not there yet.
fn may_pass(error: &io::Error) -> bool {
    use ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset};
    is_unreachable(error)
        || [ConnectionRefused, ConnectionReset, ConnectionAborted].contains(&error.kind())
}

/// Whether `error` says that no network leads there, at the moment.
pub(crate) fn is_unreachable(error: &io::Error) -> bool {
    use ErrorKind::{HostUnreachable, NetworkUnreachable, TimedOut};
    [TimedOut, HostUnreachable, NetworkUnreachable].contains(&error.kind())
}

pub(crate) fn sleep(pause: Duration, patience: &Patience) -> Result<(), Stop> {
    let bound = patience.at_most(pause);
    while bound.check().is_ok() {
        thread::sleep(bound.slice());
    }
    patience.check()
}

/// Connects to `address` if someone listens there.
pub(crate) fn connect_once(address: SocketAddr, patience: &Patience) -> Result<TcpStream, Failure> {
    let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let stream = TcpStream::from(net::socket_with(family, SocketType::STREAM, flags, None)?);
    endurance::hasten(&stream);
    match net::connect(&stream, &address) {
        Ok(()) => {}
        Err(Errno::INPROGRESS | Errno::INTR) => {
            match ready(&stream, PollFlags::OUT, &patience.at_most(ATTEMPT)) {
                Err(Failure::Stopped(Stop::TimedOut)) if patience.check().is_ok() => {
                    return Err(Failure::Io(ErrorKind::TimedOut.into()));
                }
                connected => connected?,
            }
            sockopt::socket_error(&stream)??;
        }
        Err(error) => return Err(error.into()),
    }
    if stream.local_addr()? == stream.peer_addr()? {
        // Two ends of one socket: the system picked the very port that we look for.
        return Err(Failure::Io(ErrorKind::ConnectionRefused.into()));
    }
    prepare(&stream)?;
    Ok(stream)
}

pub(crate) fn send_all(
    mut stream: &TcpStream,
    mut bytes: &[u8],
    patience: &Patience,
) -> Result<(), Failure> {
    while !bytes.is_empty() {
        match stream.write(bytes) {
            Ok(written) => bytes = &bytes[written..],
            Err(error) => match error.kind() {
                ErrorKind::WouldBlock => ready(stream, PollFlags::OUT, patience)?,
                ErrorKind::Interrupted => {}
                _ => return Err(error.into()),
            },
        }
    }
    Ok(())
}

pub(crate) fn receive_exact(
    mut stream: &TcpStream,
    bytes: &mut [u8],
    patience: &Patience,
) -> Result<(), Failure> {
    let mut filled = 0;
    while filled < bytes.len() {
        match stream.read(&mut bytes[filled..]) {
            Ok(0) => return Err(Failure::Io(ErrorKind::UnexpectedEof.into())),
            Ok(read) => filled += read,
            Err(error) => match error.kind() {
                ErrorKind::WouldBlock => ready(stream, PollFlags::IN, patience)?,
                ErrorKind::Interrupted => {}
                _ => return Err(error.into()),
            },
        }
    }
    Ok(())
}

/// Appends what has arrived to `inbox`, up to `limit` bytes in all; true if the other side has
/// ended.
pub(crate) fn drain(mut stream: &TcpStream, inbox: &mut Vec<u8>, limit: usize) -> io::Result<bool> {
    let mut piece = [0; 64 << 10];
    while inbox.len() < limit {
        match stream.read(&mut piece) {
            Ok(0) => return Ok(true),
            Ok(read) => inbox.extend(&piece[..read]),
            Err(error) => match error.kind() {
                ErrorKind::WouldBlock => return Ok(false),
                ErrorKind::Interrupted => {}
                _ => return Err(error),
            },
        }
    }
    Ok(false)
}
