//! File descriptors from rank to rank of one host, over unix sockets without a file.
//!
//! Everybody in a network namespace sees the names of such sockets. A rank's is made of the key of
//! its world, so it reveals nothing and cannot be foreseen; still it is no secret. What guards a
//! rank is that the other end's process runs as the same user, which the system says, and that both
//! ends pass a [`crate::handshake`], whose proof is also over what the descriptor is addressed to.
//! Until then a message takes no descriptor in.
//!
//! Every descriptor travels in a connection of its own, in one record, so nothing can be cut or
//! mixed up. The receiver says whether it has it: a descriptor for which a process has no room is
//! lost, and both ends learn that at once.

use std::io::{self, ErrorKind, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use msccl_collective::Rank;
use rustix::event::PollFlags;
use rustix::io::Errno;
use rustix::net::{
    self, AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags,
    SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketAddrUnix, SocketFlags, SocketType,
    sockopt,
};

use crate::abort::Patience;
use crate::acceptor::{AUTHENTICATION_TIME, may_try_again};
use crate::descriptors;
use crate::dial::impostor;
use crate::error::{Error, ErrorKind as Kind};
use crate::handshake::{
    self, CHALLENGE_BYTES, Challenger, Dialler, OPENING_BYTES, PROOF_BYTES, Purpose,
};
use crate::identity::Peer;
use crate::key::Key;
use crate::socket::{self, Failure};
use crate::wire::{Malformed, Reader, Writer};

const DESCRIPTOR_TAG_BYTES: usize = 8 + 8;

/// The record of a descriptor: the proof, then the descriptor tag.
const RECORD_BYTES: usize = PROOF_BYTES + DESCRIPTOR_TAG_BYTES;

/// What the receiver says at last.
const TAKEN: u8 = 1;
const NO_ROOM: u8 = 2;

/// What a descriptor is addressed to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct DescriptorTag {
    pub(super) group: u64,
    pub(super) tag: u64,
}

impl DescriptorTag {
    fn to_bytes(self) -> Vec<u8> {
        let Self { group, tag } = self;
        let mut writer = Writer::default();
        writer.u64(group);
        writer.u64(tag);
        writer.0
    }

    fn from_bytes(bytes: &[u8]) -> Result<Self, Malformed> {
        let mut reader = Reader(bytes);
        let label = Self { group: reader.u64()?, tag: reader.u64()? };
        reader.end()?;
        Ok(label)
    }
}

/// The name of the socket of rank `rank` in the world of `key`.
pub(super) fn name(key: &Key, rank: Rank) -> Vec<u8> {
    let name = key.mac("socket name", &[&rank.0.to_le_bytes()]);
    name[..16].iter().flat_map(|byte| format!("{byte:02x}").into_bytes()).collect()
}

/// A socket of that name which takes descriptors.
pub(super) fn listen(name: &[u8]) -> Result<OwnedFd, Errno> {
    let listener = open()?;
    net::bind(&listener, &SocketAddrUnix::new_abstract_name(name)?)?;
    net::listen(&listener, 1024)?;
    Ok(listener)
}

fn open() -> Result<OwnedFd, Errno> {
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    net::socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)
}

/// The next connection to `listener`, if one waits.
pub(super) fn accept(listener: &OwnedFd) -> io::Result<Option<OwnedFd>> {
    match net::accept_with(listener, SocketFlags::NONBLOCK | SocketFlags::CLOEXEC) {
        Ok(connection) => Ok(Some(connection)),
        Err(Errno::AGAIN | Errno::CONNABORTED | Errno::INTR) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Whether the process at the other end of `connection` runs as the user of this one; the text says
/// who does if not.
fn is_own_user(connection: impl AsFd) -> Result<(), String> {
    let own = rustix::process::geteuid();
    match sockopt::socket_peercred(connection) {
        Ok(peer) if peer.uid == own => Ok(()),
        Ok(peer) => Err(format!(
            "its process {} belongs to user {}, expected user {}",
            peer.pid.as_raw_nonzero(),
            peer.uid.as_raw(),
            own.as_raw()
        )),
        Err(error) => Err(format!("the system does not say whose it is: {error}")),
    }
}

// The sending end.

/// What a descriptor is sent with.
pub(super) struct Delivery<'a> {
    pub(super) key: &'a Key,
    pub(super) from: Rank,
    pub(super) to: Rank,
    pub(super) label: DescriptorTag,
}

/// How a delivery ended.
#[derive(PartialEq, Eq, Debug)]
pub(super) enum Delivered {
    /// The receiver has it.
    Taken,
    /// The receiver's process has no room for it.
    NoRoom,
}

/// Sends `descriptor`. `is_gone` says whether the receiver has departed.
pub(super) fn send(
    delivery: &Delivery<'_>,
    descriptor: BorrowedFd<'_>,
    patience: &Patience,
    is_gone: impl Fn() -> bool,
) -> Result<Delivered, Failure> {
    let name = name(delivery.key, delivery.to);
    loop {
        match attempt(&name, delivery, descriptor, patience, &is_gone) {
            // The receiver had no time for it; nobody listens any more if it has ended.
            Err(Failure::Io(error)) if may_try_again(&error) && !is_gone() => {
                socket::sleep(Duration::from_millis(2), patience)?;
            }
            other => return other,
        }
    }
}

fn attempt(
    name: &[u8],
    delivery: &Delivery<'_>,
    descriptor: BorrowedFd<'_>,
    patience: &Patience,
    is_gone: impl Fn() -> bool,
) -> Result<Delivered, Failure> {
    let Delivery { key, from, to, label } = *delivery;
    let connection = connect(name, patience)?;
    is_own_user(&connection).map_err(|why| io::Error::new(ErrorKind::PermissionDenied, why))?;
    let purpose = Purpose { kind: handshake::Kind::Descriptor, from, to, channel: 0 };
    let dialler = Dialler::new(key, purpose).map_err(io::Error::other)?;
    // A fresh connection has room for these records.
    net::send(&connection, dialler.opening(), SendFlags::NOSIGNAL)?;
    let mut challenge = [0; CHALLENGE_BYTES];
    let length = await_record(&connection, &mut challenge, patience, &is_gone)?;
    let label = label.to_bytes();
    let proof = if length == CHALLENGE_BYTES { dialler.prove(&challenge, &label) } else { None };
    let record = [&proof.ok_or_else(impostor)?[..], &label].concat();
    let descriptors = [descriptor];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    control.push(SendAncillaryMessage::ScmRights(&descriptors));
    net::sendmsg(&connection, &[IoSlice::new(&record)], &mut control, SendFlags::NOSIGNAL)?;
    let mut reply = [0];
    match await_record(&connection, &mut reply, patience, &is_gone)? {
        1 if reply == [TAKEN] => Ok(Delivered::Taken),
        1 if reply == [NO_ROOM] => Ok(Delivered::NoRoom),
        _ => Err(impostor().into()),
    }
}

/// Waits for a record and puts it into `bytes`; its length.
fn await_record(
    connection: &OwnedFd,
    bytes: &mut [u8],
    patience: &Patience,
    is_gone: impl Fn() -> bool,
) -> Result<usize, Failure> {
    loop {
        match receive_record(connection, bytes)? {
            Some(0) => return Err(io::Error::from(ErrorKind::UnexpectedEof).into()),
            Some(length) => return Ok(length),
            None if is_gone() => return Err(io::Error::from(ErrorKind::NotConnected).into()),
            None => {
                let slice = patience.at_most(patience.slice());
                match socket::ready(connection, PollFlags::IN, &slice) {
                    Ok(()) => {}
                    Err(Failure::Stopped(_)) => patience.check()?,
                    Err(failure) => return Err(failure),
                }
            }
        }
    }
}

/// The next record, without any descriptors; none: the other end has left; nothing: it has not
/// come.
fn receive_record(connection: &OwnedFd, bytes: &mut [u8]) -> io::Result<Option<usize>> {
    // Linux looks for a record, and if there is none, whether the sender has left; it may have sent
    // and left between the two. What it sent is there now.
    for _ in 0..2 {
        match net::recv(connection, &mut *bytes, RecvFlags::empty()) {
            Ok((0, _)) => {}
            Ok((length, _)) => return Ok(Some(length)),
            Err(Errno::AGAIN | Errno::INTR) => return Ok(None),
            Err(error) => return Err(error.into()),
        }
    }
    Ok(Some(0))
}

fn connect(name: &[u8], patience: &Patience) -> Result<OwnedFd, Failure> {
    let address = SocketAddrUnix::new_abstract_name(name)?;
    loop {
        let connection = open()?;
        match net::connect(&connection, &address) {
            Ok(()) => return Ok(connection),
            // Too many wait to be accepted.
            Err(Errno::AGAIN | Errno::INTR) => socket::sleep(Duration::from_millis(1), patience)?,
            Err(error) => return Err(error.into()),
        }
    }
}

/// That a descriptor did not reach `to`.
pub(super) fn undelivered(failure: Failure, to: &Peer, patience: &Patience) -> Error {
    let what = format!("cannot pass a file descriptor to {}", to.describe());
    let error = match failure {
        Failure::Stopped(stop) => Error::stopped(stop, patience, what),
        Failure::Io(error) => {
            let hint = "it must live in the same network namespace, run as the same user and not \
                        have ended";
            Error::io(Kind::System, what, error, hint)
        }
    };
    error.of_ranks([to.rank])
}

/// That `to` had no room for a descriptor.
pub(super) fn no_room(to: &Peer) -> Error {
    let text = format!(
        "cannot pass a file descriptor to {}: its process has no file descriptors left; raise its \
         limit (ulimit -n)",
        to.describe()
    );
    Error::new(Kind::System, text).of_ranks([to.rank])
}

// The receiving end.

/// A connection by which a descriptor may come.
pub(super) struct DescriptorChannel {
    connection: OwnedFd,
    since: Instant,
    challenger: Option<Challenger>,
}

/// What a descriptor channel has received.
pub(super) struct ReceivedDescriptors {
    pub(super) from: Rank,
    pub(super) label: DescriptorTag,
    /// None: this process had no room for it.
    pub(super) descriptor: Option<OwnedFd>,
}

impl AsFd for DescriptorChannel {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.connection.as_fd()
    }
}

impl DescriptorChannel {
    /// A connection that was accepted; the text says why it is not borne with.
    pub(super) fn new(connection: OwnedFd) -> Result<Self, String> {
        is_own_user(&connection)?;
        Ok(Self { connection, since: Instant::now(), challenger: None })
    }

    /// Since when it is there.
    pub(super) fn age(&self) -> Duration {
        self.since.elapsed()
    }

    /// Goes on as far as that is possible at once; the text says why it must go.
    pub(super) fn go_on(
        &mut self,
        key: &Key,
        me: Rank,
    ) -> Result<Option<ReceivedDescriptors>, String> {
        if self.challenger.is_none() {
            let mut opening = [0; OPENING_BYTES];
            match receive_record(&self.connection, &mut opening).map_err(|why| why.to_string())? {
                Some(0) => return Err("it ended".to_owned()),
                Some(OPENING_BYTES) => {}
                Some(_) => return Err("it speaks another protocol".to_owned()),
                None => return self.wait(),
            }
            let kinds = [handshake::Kind::Descriptor];
            let (challenger, challenge) = Challenger::new(key, &kinds, me, &opening)?;
            let sent = net::send(&self.connection, &challenge, SendFlags::NOSIGNAL);
            sent.map_err(|error| error.to_string())?;
            self.challenger = Some(challenger);
        }
        let Some(challenger) = &self.challenger else { return Ok(None) };
        match Record::read(&self.connection).map_err(|why| why.to_string())? {
            None => self.wait(),
            Some(record) => {
                let received = record.open(challenger)?;
                let reply = if received.descriptor.is_some() { TAKEN } else { NO_ROOM };
                // A sender that has left in the meantime needs no answer.
                let _ = net::send(&self.connection, &[reply], SendFlags::NOSIGNAL);
                Ok(Some(received))
            }
        }
    }

    fn wait<T>(&self) -> Result<Option<T>, String> {
        match self.since.elapsed() < AUTHENTICATION_TIME {
            true => Ok(None),
            false => Err("it did not finish its handshake in time".to_owned()),
        }
    }
}

/// What a connection has received.
struct Record {
    bytes: [u8; RECORD_BYTES + 1],
    /// How many have come; none: the sender has left.
    length: usize,
    descriptor: Option<OwnedFd>,
    /// Whether the system has dropped a descriptor for which there was no room.
    dropped: bool,
}

impl Record {
    /// The record, if it has come.
    fn read(connection: &OwnedFd) -> io::Result<Option<Self>> {
        let once = || match Self::read_once(connection) {
            Ok(record) => Ok(Some(record)),
            Err(Errno::AGAIN | Errno::INTR) => Ok(None),
            Err(error) => Err(error.into()),
        };
        match once()? {
            // As in `receive_record`.
            Some(Self { length: 0, .. }) => once(),
            read => Ok(read),
        }
    }

    fn read_once(connection: &OwnedFd) -> Result<Self, Errno> {
        let mut bytes = [0; RECORD_BYTES + 1];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let mut slices = [IoSliceMut::new(&mut bytes)];
        let flags = RecvFlags::CMSG_CLOEXEC;
        let received = net::recvmsg(connection, &mut slices, &mut control, flags)?;
        let (length, dropped) = (received.bytes, received.flags.contains(ReturnFlags::CTRUNC));
        let descriptor = control.drain().find_map(|message| match message {
            RecvAncillaryMessage::ScmRights(mut descriptors) => descriptors.next(),
            _ => None,
        });
        Ok(Self { bytes, length, descriptor, dropped })
    }

    fn open(self, challenger: &Challenger) -> Result<ReceivedDescriptors, String> {
        let Self { bytes, length, descriptor, dropped } = self;
        if length == 0 {
            return Err("it ended".to_owned());
        }
        let record = bytes.get(..length).filter(|_| length == RECORD_BYTES);
        let (proof, label) = record.ok_or("it speaks another protocol")?.split_at(PROOF_BYTES);
        if !challenger.accepts(proof, label) {
            return Err("it does not know the secret of this group".to_owned());
        }
        let label = DescriptorTag::from_bytes(label).map_err(|Malformed(why)| why)?;
        if descriptor.is_none() && !dropped {
            return Err("it brings no descriptor".to_owned());
        }
        Ok(ReceivedDescriptors { from: challenger.purpose().from, label, descriptor })
    }
}

/// That a descriptor of `from` was lost here.
pub(super) fn lost(from: &Peer) -> Error {
    let text =
        format!("a file descriptor of {} was lost: {}", from.describe(), descriptors::used_up());
    Error::new(Kind::System, text)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};
    use std::thread;

    use super::*;
    use crate::abort::Abort;

    fn key() -> Key {
        Key::from_secret(&std::process::id().to_le_bytes())
    }

    /// The next descriptor tag, asked for without a pause from the moment when its connection is
    /// there.
    fn next(listener: &OwnedFd, key: &Key) -> Result<DescriptorTag, String> {
        let mut descriptor_channel = loop {
            if let Some(connection) = accept(listener).unwrap() {
                break DescriptorChannel::new(connection)?;
            }
        };
        loop {
            if let Some(received) = descriptor_channel.go_on(key, Rank(0))? {
                return Ok(received.label);
            }
        }
    }

    const PARCELS: u64 = 20_000;

    #[test]
    fn no_descriptor_is_lost() {
        let key = key();
        let listener = listen(&name(&key, Rank(0))).unwrap();
        let file = std::fs::File::open("/dev/null").unwrap();
        let label = |tag| DescriptorTag { group: 7, tag };
        let done = AtomicU64::new(0);
        thread::scope(|threads| {
            threads.spawn(|| {
                let patience = Patience::new(&Abort::new(), Some(Duration::from_secs(60)));
                for tag in 0..PARCELS {
                    let (from, to, key) = (Rank(1), Rank(0), &key);
                    let delivery = Delivery { key, from, to, label: label(tag) };
                    let sent = send(&delivery, file.as_fd(), &patience, || false).unwrap();
                    assert_eq!(sent, Delivered::Taken);
                    done.store(tag + 1, Ordering::Release);
                }
            });
            for tag in 0..PARCELS {
                assert_eq!(next(&listener, &key), Ok(label(tag)));
            }
        });
        assert_eq!(done.load(Ordering::Acquire), PARCELS);
    }

    #[test]
    fn names_reveal_nothing_and_differ() {
        let names = [name(&key(), Rank(0)), name(&key(), Rank(1))];
        assert_ne!(names[0], names[1]);
        assert!(names.iter().all(|name| name.len() == 32));
    }

    #[test]
    fn whoever_does_not_know_the_key_brings_nothing_and_gets_nothing() {
        let (key, other) = (key(), Key::from_secret(b"guess"));
        // A process of another group that has found the name by looking.
        let found = name(&key, Rank(5));
        let listener = listen(&found).unwrap();
        let connection = connect(&found, &Patience::new(&Abort::new(), None)).unwrap();
        let purpose =
            Purpose { kind: handshake::Kind::Descriptor, from: Rank(1), to: Rank(5), channel: 0 };
        let dialler = Dialler::new(&other, purpose).unwrap();
        net::send(&connection, dialler.opening(), SendFlags::NOSIGNAL).unwrap();
        let mut descriptor_channel =
            DescriptorChannel::new(accept(&listener).unwrap().unwrap()).unwrap();
        assert!(descriptor_channel.go_on(&key, Rank(5)).unwrap().is_none());
        let mut challenge = [0; CHALLENGE_BYTES];
        assert_eq!(receive_record(&connection, &mut challenge).unwrap(), Some(CHALLENGE_BYTES));
        assert_eq!(dialler.prove(&challenge, &[]), None);
        net::send(&connection, &[0; RECORD_BYTES], SendFlags::NOSIGNAL).unwrap();
        let refused = descriptor_channel.go_on(&key, Rank(5)).map(drop).unwrap_err();
        assert_eq!(refused, "it does not know the secret of this group");
    }
}
