//! How a running process is asked to record: a Unix socket, and what is said on it.
//!
//! The socket has an abstract name, made of the process's number and of the namespace in which it
//! has this number. Whoever asks says one line, a [`TraceRequest`], and gets one, a
//! [`TraceAnswer`]. Both sides make sure that the other one runs as the same user, and who asks
//! also that it is the process that was meant: anybody may take a name.

use std::fs;
use std::io::{self, Read, Write};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixStream};
use std::time::Duration;

use rustix::net::sockopt;

/// Most bytes of a line.
pub const LINE_BYTES: u64 = 8192;

/// How long one side waits for the other.
pub const PATIENCE: Duration = Duration::from_secs(5);

/// What a process is asked.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum TraceRequest {
    /// To record into this folder from the next call on.
    Start(String),
    /// To record no longer.
    Stop,
}

/// What it answers.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum TraceAnswer {
    /// It does.
    Done,
    /// It does not, for this reason.
    Refused(String),
}

impl TraceRequest {
    /// As it is said.
    pub fn to_line(&self) -> String {
        match self {
            Self::Start(folder) => format!("start {folder}\n"),
            Self::Stop => "stop\n".to_owned(),
        }
    }

    /// What `line` says; nothing if it is no request.
    pub fn from_line(line: &str) -> Option<Self> {
        let line = line.strip_suffix('\n')?;
        let folder = line.strip_prefix("start ").filter(|folder| !folder.is_empty());
        let start = folder.map(|folder| Self::Start(folder.to_owned()));
        start.or_else(|| (line == "stop").then_some(Self::Stop))
    }
}

impl TraceAnswer {
    /// As it is said.
    pub fn to_line(&self) -> String {
        match self {
            Self::Done => "done\n".to_owned(),
            Self::Refused(why) => format!("refused {}\n", why.replace('\n', " ")),
        }
    }

    /// What `line` says; nothing if it is no answer.
    pub fn from_line(line: &str) -> Option<Self> {
        let line = line.strip_suffix('\n')?;
        let refused = line.strip_prefix("refused ").map(|why| Self::Refused(why.to_owned()));
        refused.or_else(|| (line == "done").then_some(Self::Done))
    }
}

/// Where this process listens.
///
/// # Errors
///
/// The system does not say in which namespace it is.
pub fn own_address() -> io::Result<SocketAddr> {
    address("self", std::process::id())
}

/// Asks the process of this number.
///
/// # Errors
///
/// There is no such process, it has no communicators, runs as another user, or does not answer; in
/// words.
pub fn ask(process: u32, request: &TraceRequest) -> Result<TraceAnswer, String> {
    let named = |why: &dyn std::fmt::Display| format!("process {process}: {why}");
    let inside = inner_number(process).map_err(|error| named(&error))?;
    let address = address(&process.to_string(), inside).map_err(|error| named(&error))?;
    let mut stream = UnixStream::connect_addr(&address).map_err(|error| {
        named(&format_args!(
            "nobody listens there ({error}): expected a process that has made a communicator with \
             this library, in the same network namespace"
        ))
    })?;
    check_peer(&stream, Peer::Process(process)).map_err(|why| named(&why))?;
    exchange(&mut stream, request).map_err(|error| named(&error))
}

fn exchange(stream: &mut UnixStream, request: &TraceRequest) -> io::Result<TraceAnswer> {
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    stream.write_all(request.to_line().as_bytes())?;
    let line = read_line(stream)?;
    let other = || io::Error::other(format!("expected an answer, found {line:?}"));
    TraceAnswer::from_line(&line).ok_or_else(other)
}

/// One line of `stream`; what is longer than [`LINE_BYTES`] is cut off.
///
/// # Errors
///
/// It cannot be read, or is no UTF-8.
pub fn read_line(stream: &mut UnixStream) -> io::Result<String> {
    let (mut line, mut byte) = (Vec::new(), [0]);
    while !line.ends_with(b"\n") && line.len() < LINE_BYTES as usize && stream.read(&mut byte)? == 1
    {
        line.extend(byte);
    }
    String::from_utf8(line).map_err(|_| io::Error::from(io::ErrorKind::InvalidData))
}

/// Who is at the other end of a stream.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Peer {
    /// Somebody who asks this process: its own user, or root.
    Asker,
    /// The process of this number, which this one asks: of its own user, unless that is root.
    Process(u32),
}

/// Whether `expected` is at the other end of `stream`.
///
/// # Errors
///
/// It is somebody else; in words.
pub fn check_peer(stream: &UnixStream, expected: Peer) -> Result<(), String> {
    let peer = sockopt::socket_peercred(stream)
        .map_err(|error| format!("the system does not say who is there: {error}"))?;
    let own = rustix::process::geteuid();
    let number = peer.pid.as_raw_nonzero().get().unsigned_abs();
    let is_trusted = match expected {
        Peer::Asker => peer.uid == own || peer.uid.is_root(),
        Peer::Process(_) => peer.uid == own || own.is_root(),
    };
    match expected {
        _ if !is_trusted => {
            let (found, own) = (peer.uid.as_raw(), own.as_raw());
            Err(format!("user {found} is there, expected user {own}"))
        }
        Peer::Process(expected) if expected != number => {
            Err(format!("process {number} is there, expected process {expected}"))
        }
        Peer::Process(_) | Peer::Asker => Ok(()),
    }
}

/// The number that a process has in its own namespace, where it knows itself by it.
fn inner_number(process: u32) -> io::Result<u32> {
    let status = fs::read_to_string(format!("/proc/{process}/status"))?;
    let numbers = status.lines().find_map(|line| line.strip_prefix("NSpid:"));
    let last = numbers.and_then(|numbers| numbers.split_whitespace().last()?.parse().ok());
    Ok(last.unwrap_or(process))
}

/// The socket of the process `of` (below `/proc`), which has the number `inside` in its namespace.
fn address(of: &str, inside: u32) -> io::Result<SocketAddr> {
    let namespace = fs::read_link(format!("/proc/{of}/ns/pid"))?;
    let digits: String = namespace.to_string_lossy().chars().filter(char::is_ascii_digit).collect();
    SocketAddr::from_abstract_name(format!("msccl-trace-{digits}-{inside}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_said_comes_back() {
        for request in [TraceRequest::Start("/tmp/a b".to_owned()), TraceRequest::Stop] {
            assert_eq!(TraceRequest::from_line(&request.to_line()), Some(request));
        }
        for answer in [TraceAnswer::Done, TraceAnswer::Refused("no room".to_owned())] {
            assert_eq!(TraceAnswer::from_line(&answer.to_line()), Some(answer));
        }
        for wrong in ["", "start \n", "start x", "stop", "else\n"] {
            assert_eq!(TraceRequest::from_line(wrong), None, "{wrong:?}");
        }
    }

    #[test]
    fn own_names_are_the_same_from_inside_and_outside() {
        let own = own_address().unwrap();
        let number = std::process::id();
        let seen = address(&number.to_string(), inner_number(number).unwrap()).unwrap();
        assert_eq!(own.as_abstract_name(), seen.as_abstract_name());
    }

    #[test]
    fn a_process_without_communicators_is_an_error() {
        let error = ask(std::process::id(), &TraceRequest::Stop).unwrap_err();
        assert!(error.contains("nobody listens there"), "{error}");
        assert!(ask(u32::MAX, &TraceRequest::Stop).is_err());
    }
}
