//! What an adversary does, who is another user of the same machine and knows the protocol, but no
//! secret. It runs in a process of its own, and finds by name what to do.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::os::fd::AsFd;
use std::thread;
use std::time::{Duration, Instant};

use msccl_fabric::{CHALLENGE_BYTES, OPENING_BYTES, PROOF_BYTES};
use rustix::fs::MemfdFlags;
use rustix::net::{
    self, AddressFamily, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketAddrUnix,
    SocketFlags, SocketType,
};

/// Kinds of connections, as they cross the wire.
pub const ROOT: u8 = 0;
pub const PEER: u8 = 2;
pub const DESCRIPTOR: u8 = 3;
pub const RAIL: u8 = 4;

/// The version of the protocol.
const VERSION: u16 = 4;

/// At what an attack is aimed.
#[derive(Clone, Debug, Default)]
pub struct Target {
    /// Ports, each with the rank that listens there.
    pub ports: Vec<(u32, u16)>,
    /// Names of unix sockets, each with the rank that listens there.
    pub names: Vec<(u32, String)>,
    /// What one end of a connection has said to the other: what was overheard.
    pub replayed: Vec<u8>,
}

/// An attack: its name, what it does, and what the victims then log.
pub struct Attack {
    pub name: &'static str,
    pub run: fn(&Target),
    pub logged: &'static str,
}

const UNKNOWN: &str = "it does not know the secret of this group";
const SLOW: &str = "it did not finish its handshake in time";
const FOREIGN: &str = "it speaks another protocol";
const OTHER_VERSION: &str = "it speaks another version of the protocol";
const NO_END: &str = "stray connection";

/// At a root, while ranks join.
pub const AT_ROOT: &[Attack] = &[
    Attack { name: "root: impersonate a rank", run: |it| impersonate(it, ROOT), logged: UNKNOWN },
    Attack { name: "root: replay an opening", run: replay, logged: UNKNOWN },
    Attack { name: "root: reflect its own code", run: |it| reflect(it, ROOT), logged: UNKNOWN },
    Attack {
        name: "root: come as another kind",
        run: |it| impersonate(it, PEER),
        logged: "another kind",
    },
    Attack { name: "root: wrong versions", run: |it| versions(it, ROOT), logged: OTHER_VERSION },
    Attack { name: "root: garbage", run: garbage, logged: FOREIGN },
    Attack { name: "root: oversized claim", run: |it| claim(it, ROOT), logged: UNKNOWN },
    Attack { name: "root: slow bytes", run: |it| slow_bytes(it, ROOT), logged: SLOW },
    Attack {
        name: "root: flood of openings",
        run: |it| flood_of_openings(it, ROOT),
        logged: NO_END,
    },
    Attack { name: "root: come and leave", run: |it| come_and_leave(it, ROOT), logged: NO_END },
    Attack { name: "root: flood of silence", run: silence, logged: NO_END },
];

/// At ranks that are connected and work.
pub const AT_RANKS: &[Attack] = &[
    Attack {
        name: "rank: impersonate a rank and leave",
        run: |it| impersonate(it, PEER),
        logged: UNKNOWN,
    },
    Attack { name: "rank: replay an opening", run: replay, logged: UNKNOWN },
    Attack { name: "rank: reflect its own code", run: |it| reflect(it, PEER), logged: UNKNOWN },
    Attack { name: "rank: leave in 21 bytes", run: leave, logged: OTHER_VERSION },
    Attack {
        name: "rank: look for another rank",
        run: other_rank,
        logged: "it looks for another rank",
    },
    Attack { name: "rank: wrong versions", run: |it| versions(it, PEER), logged: OTHER_VERSION },
    Attack { name: "rank: flood of mail", run: |it| claim(it, PEER), logged: UNKNOWN },
    Attack { name: "rank: slow bytes", run: |it| slow_bytes(it, PEER), logged: SLOW },
    Attack {
        name: "rank: flood of openings",
        run: |it| flood_of_openings(it, PEER),
        logged: NO_END,
    },
    Attack { name: "rank: flood of silence", run: silence, logged: NO_END },
    Attack { name: "memory: inject", run: inject, logged: "belongs to user" },
    Attack { name: "memory: flood of connections", run: flood_of_names, logged: NO_END },
];

/// At ranks, as the user to whom they belong.
pub const AS_OWN_USER: &[Attack] =
    &[Attack { name: "memory: inject and cut off", run: inject, logged: UNKNOWN }];

/// At proxies, while they make links.
pub const AT_PROXIES: &[Attack] = &[
    Attack { name: "rail: impersonate a rank", run: impersonate_rails, logged: UNKNOWN },
    Attack { name: "rail: replay an opening", run: replay_rails, logged: UNKNOWN },
];

/// The attack of that name.
pub fn find(name: &str) -> &'static Attack {
    let all = [AT_ROOT, AT_RANKS, AS_OWN_USER, AT_PROXIES];
    all.into_iter().flatten().find(|attack| attack.name == name).unwrap()
}

fn connect(port: u16) -> Option<TcpStream> {
    let stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).ok()?;
    stream.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
    stream.set_write_timeout(Some(Duration::from_secs(5))).unwrap();
    Some(stream)
}

/// A well-formed opening of `version`.
fn opening(version: u16, kind: u8, from: u32, to: u32) -> [u8; OPENING_BYTES] {
    let mut opening = [7; OPENING_BYTES];
    opening[..8].copy_from_slice(b"msccl-hi");
    opening[8..10].copy_from_slice(&version.to_le_bytes());
    opening[10..12].copy_from_slice(&[kind, 0]);
    opening[12..16].copy_from_slice(&from.to_le_bytes());
    opening[16..20].copy_from_slice(&to.to_le_bytes());
    opening[20..24].fill(0);
    opening
}

/// Another rank than `rank`.
fn other(rank: u32) -> u32 {
    u32::from(rank == 0)
}

/// Whether the victim has closed the connection, within a few seconds.
fn is_closed(mut stream: &TcpStream) -> bool {
    let since = Instant::now();
    let mut bytes = [0; 256];
    while since.elapsed() < Duration::from_secs(8) {
        match stream.read(&mut bytes) {
            Ok(0) => return true,
            Ok(_) => {}
            Err(error) => {
                let waits = [std::io::ErrorKind::WouldBlock, std::io::ErrorKind::TimedOut];
                if !waits.contains(&error.kind()) {
                    return true;
                }
            }
        }
    }
    false
}

/// Sends an opening, receives the challenge, answers with `proof` of it and says `more`.
fn handshake(
    stream: &mut TcpStream,
    opening: &[u8],
    proof: impl Fn(&[u8]) -> Vec<u8>,
    more: &[u8],
) {
    let mut challenge = [0; CHALLENGE_BYTES];
    if stream.write_all(opening).is_err() || stream.read_exact(&mut challenge).is_err() {
        return;
    }
    let _ = stream.write_all(&proof(&challenge));
    let _ = stream.write_all(more);
}

/// A message of 21 bytes by which a rank leaves in order.
fn goodbye() -> Vec<u8> {
    let mut frame = vec![7];
    frame.resize(21, 0);
    frame
}

fn impersonate(target: &Target, kind: u8) {
    for &(rank, port) in &target.ports {
        let to = if kind == ROOT { 0 } else { rank };
        for from in [other(rank), 3] {
            let Some(mut stream) = connect(port) else { continue };
            let opening = opening(VERSION, kind, from, to);
            handshake(&mut stream, &opening, |_| vec![1; PROOF_BYTES], &goodbye());
            assert!(is_closed(&stream), "rank {rank} keeps an impostor");
        }
    }
}

fn replay(target: &Target) {
    let (opening, rest) = target.replayed.split_at(OPENING_BYTES);
    let (proof, more) = rest.split_at(PROOF_BYTES);
    for &(rank, port) in &target.ports {
        let Some(mut stream) = connect(port) else { continue };
        handshake(&mut stream, opening, |_| proof.to_vec(), more);
        assert!(is_closed(&stream), "rank {rank} receives something twice");
    }
}

fn impersonate_rails(target: &Target) {
    at_rails(target, |rank| opening(VERSION, RAIL, other(rank), rank).to_vec(), &[1; PROOF_BYTES]);
}

fn replay_rails(target: &Target) {
    let (opening, rest) = target.replayed.split_at(OPENING_BYTES);
    at_rails(target, |_| opening.to_vec(), &rest[..PROOF_BYTES]);
}

/// Waits at all proxies until one takes connections. Whoever is challenged then is closed.
fn at_rails(target: &Target, opening: impl Fn(u32) -> Vec<u8>, proof: &[u8]) {
    let waiting = target.ports.iter().filter_map(|&(rank, port)| {
        let mut stream = connect(port)?;
        stream.write_all(&opening(rank)).ok()?;
        Some((rank, stream))
    });
    let waiting: Vec<_> = waiting.collect();
    let mut challenged = 0;
    for (rank, mut stream) in waiting {
        let mut challenge = [0; CHALLENGE_BYTES];
        if stream.read_exact(&mut challenge).is_ok() {
            challenged += 1;
            let _ = stream.write_all(proof);
            assert!(is_closed(&stream), "the proxy of rank {rank} keeps an impostor");
        }
    }
    assert!(challenged > 0, "no proxy has taken a connection");
}

fn reflect(target: &Target, kind: u8) {
    for &(rank, port) in &target.ports {
        let Some(mut stream) = connect(port) else { continue };
        let opening = opening(VERSION, kind, other(rank), if kind == ROOT { 0 } else { rank });
        handshake(&mut stream, &opening, |challenge| challenge[16..].to_vec(), &goodbye());
        assert!(is_closed(&stream), "rank {rank} takes its own code");
    }
}

fn versions(target: &Target, kind: u8) {
    for &(rank, port) in &target.ports {
        for version in [0, 3, u16::MAX] {
            let Some(mut stream) = connect(port) else { continue };
            let _ = stream.write_all(&opening(version, kind, other(rank), rank));
            assert!(is_closed(&stream), "rank {rank} bears with version {version}");
        }
    }
}

fn garbage(target: &Target) {
    for &(_, port) in &target.ports {
        for bytes in [&b"GET / HTTP/1.1\r\n\r\n"[..], &[0; 4096], &[255; 3]] {
            let Some(mut stream) = connect(port) else { continue };
            let _ = stream.write_all(bytes);
            assert!(is_closed(&stream));
        }
    }
}

/// Claims a long message, and sends much of it, without a proof.
fn claim(target: &Target, kind: u8) {
    let mut mail = u32::MAX.to_le_bytes().to_vec();
    mail.resize(32 << 20, 0);
    for &(rank, port) in &target.ports {
        let Some(mut stream) = connect(port) else { continue };
        let opening = opening(VERSION, kind, other(rank), if kind == ROOT { 0 } else { rank });
        handshake(&mut stream, &opening, |_| vec![0; PROOF_BYTES], &mail);
        assert!(is_closed(&stream));
    }
}

fn slow_bytes(target: &Target, kind: u8) {
    let streams = target.ports.iter().filter_map(|&(rank, port)| {
        let to = if kind == ROOT { 0 } else { rank };
        Some((connect(port)?, opening(VERSION, kind, other(rank), to)))
    });
    let mut streams: Vec<_> = streams.collect();
    for at in 0..OPENING_BYTES {
        for (stream, opening) in &mut streams {
            // The victim may have closed it by now.
            let _ = stream.write_all(&opening[at..at + 1]);
        }
        thread::sleep(Duration::from_millis(70));
    }
    assert!(streams.iter().all(|(stream, _)| is_closed(stream)));
}

fn flood_of_openings(target: &Target, kind: u8) {
    let mut streams = Vec::new();
    for &(rank, port) in &target.ports {
        for _ in 0..400 / target.ports.len() {
            let Some(mut stream) = connect(port) else { continue };
            let to = if kind == ROOT { 0 } else { rank };
            let _ = stream.write_all(&opening(VERSION, kind, other(rank), to));
            streams.push(stream);
        }
    }
    thread::sleep(Duration::from_secs(3));
}

fn come_and_leave(target: &Target, kind: u8) {
    for &(rank, port) in &target.ports {
        for _ in 0..300 {
            let Some(mut stream) = connect(port) else { continue };
            let _ = stream.write_all(&opening(VERSION, kind, other(rank), 0));
        }
    }
    thread::sleep(Duration::from_millis(300));
}

/// Connections that say nothing, in a number that took descriptors from applications once.
fn silence(target: &Target) {
    let each = 2000 / target.ports.len();
    let streams = target.ports.iter().flat_map(|&(_, port)| (0..each).map(move |_| connect(port)));
    let streams: Vec<_> = streams.flatten().collect();
    assert!(streams.len() * 10 > each * target.ports.len() * 9, "held {}", streams.len());
    // Longer than a stranger lives.
    thread::sleep(Duration::from_secs(3));
}

fn leave(target: &Target) {
    for &(rank, port) in &target.ports {
        let Some(mut stream) = connect(port) else { continue };
        // What versions before this one took, with a token that `/proc/net/unix` showed.
        let mut bytes = b"msccl-hi".to_vec();
        bytes.resize(8 + 16 + 4 + 10, 0);
        bytes.extend(goodbye());
        let _ = stream.write_all(&bytes);
        assert!(is_closed(&stream), "rank {rank} takes leave");
    }
}

fn other_rank(target: &Target) {
    for &(rank, port) in &target.ports {
        let Some(mut stream) = connect(port) else { continue };
        let _ = stream.write_all(&opening(VERSION, PEER, rank, 70_000));
        assert!(is_closed(&stream));
    }
}

/// A connection to the unix socket called `name`.
fn connect_to(name: &str) -> Option<rustix::fd::OwnedFd> {
    let flags = SocketFlags::CLOEXEC;
    let socket = net::socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None).unwrap();
    let address = SocketAddrUnix::new_abstract_name(name.as_bytes()).unwrap();
    // The victims may have no room for more.
    rustix::io::ioctl_fionbio(&socket, true).unwrap();
    net::connect(&socket, &address).ok().map(|()| socket)
}

/// Passes memory on that can be cut off, and cuts it off.
fn inject(target: &Target) {
    // A connection that is closed with something unread is reset, and what it sent is lost.
    let mut open = Vec::new();
    for (rank, name) in &target.names {
        let Some(socket) = connect_to(name) else { continue };
        let memory = rustix::fs::memfd_create("adversary", MemfdFlags::CLOEXEC).unwrap();
        rustix::fs::ftruncate(&memory, 1 << 20).unwrap();
        let opening = opening(VERSION, DESCRIPTOR, other(*rank), *rank);
        send(&socket, &opening, &memory);
        thread::sleep(Duration::from_millis(100));
        send(&socket, &[1; PROOF_BYTES + 16], &memory);
        rustix::fs::ftruncate(&memory, 0).unwrap();
        open.push(socket);
    }
    thread::sleep(Duration::from_millis(200));
}

fn send(socket: impl AsFd, bytes: &[u8], memory: impl AsFd) {
    let mut space = [std::mem::MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    let descriptors = [memory.as_fd()];
    control.push(SendAncillaryMessage::ScmRights(&descriptors));
    let bytes = [std::io::IoSlice::new(bytes)];
    // The victim may have closed it.
    let _ = net::sendmsg(socket, &bytes, &mut control, SendFlags::NOSIGNAL);
}

fn flood_of_names(target: &Target) {
    let mut sockets = Vec::new();
    for _ in 0..200 {
        sockets.extend(target.names.iter().filter_map(|(_, name)| connect_to(name)));
    }
    thread::sleep(Duration::from_secs(1));
}
