//! File descriptors from rank to rank of one host, over unix sockets without a file.
//!
//! The socket's name is known to the ranks of one world alone, since it contains their token, and
//! exists within one network namespace. Every descriptor travels in a connection of its own, as one
//! record, so nothing can be cut or mixed up.

use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::time::Duration;

use msccl_collective::Rank;
use rustix::io::Errno;
use rustix::net::{
    self, AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketAddrUnix, SocketFlags, SocketType,
};

use crate::abort::Patience;
use crate::error::{Error, ErrorKind};
use crate::identity::Peer;
use crate::socket::{self, Failure};
use crate::wire::{Malformed, Reader, Writer};

const PARCEL_BYTES: usize = 16 + 4 + 8 + 8;

/// What a descriptor is addressed to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Parcel {
    pub(super) from: Rank,
    pub(super) group: u64,
    pub(super) tag: u64,
}

/// The name of the socket of rank `rank`.
pub(super) fn name(world: u128, rank: Rank) -> Vec<u8> {
    format!("msccl-{world:032x}-{}", rank.0).into_bytes()
}

/// A socket of that name which takes parcels.
pub(super) fn listen(name: &[u8]) -> Result<OwnedFd, Errno> {
    let door = open()?;
    net::bind(&door, &SocketAddrUnix::new_abstract_name(name)?)?;
    net::listen(&door, 1024)?;
    Ok(door)
}

fn open() -> Result<OwnedFd, Errno> {
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    net::socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)
}

/// The next connection to `door`, if one waits.
pub(super) fn accept(door: &OwnedFd) -> Result<Option<OwnedFd>, Errno> {
    match net::accept_with(door, SocketFlags::NONBLOCK | SocketFlags::CLOEXEC) {
        Ok(connection) => Ok(Some(connection)),
        Err(Errno::AGAIN | Errno::CONNABORTED | Errno::INTR) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Sends `descriptor` to the socket called `name`.
pub(super) fn send(
    name: &[u8],
    world: u128,
    parcel: &Parcel,
    descriptor: BorrowedFd<'_>,
    patience: &Patience,
) -> Result<(), Failure> {
    let connection = connect(name, patience)?;
    let mut writer = Writer::default();
    writer.u128(world);
    writer.u32(parcel.from.0);
    writer.u64(parcel.group);
    writer.u64(parcel.tag);
    let descriptors = [descriptor];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    control.push(SendAncillaryMessage::ScmRights(&descriptors));
    // A fresh connection has room for one record.
    let bytes = [IoSlice::new(&writer.0)];
    net::sendmsg(&connection, &bytes, &mut control, SendFlags::NOSIGNAL)?;
    Ok(())
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
    let what = format!("cannot pass a file descriptor to {}", to.story());
    let error = match failure {
        Failure::Stopped(stop) => Error::stopped(stop, patience, what),
        Failure::Io(error) => {
            let hint = "it must live in the same network namespace and not have ended";
            Error::new(ErrorKind::System, format!("{what}: {error}; {hint}"))
        }
    };
    error.of_ranks([to.rank])
}

/// The parcel that `connection` brings, once it is there.
pub(super) fn receive(
    connection: &OwnedFd,
    world: u128,
) -> Result<Option<(Parcel, OwnedFd)>, Malformed> {
    let record = match Record::read(connection) {
        // Linux looks for a record, and if there is none, whether the sender has left; it may have sent and left between the
        // two. What it sent is there now.
        Ok(Record { length: 0, .. }) => Record::read(connection),
        read => read,
    };
    match record {
        Ok(record) => record.open(world).map(Some),
        Err(Errno::AGAIN | Errno::INTR) => Ok(None),
        Err(_) => Err(Malformed("it cannot be read")),
    }
}

/// What a connection has brought.
struct Record {
    bytes: [u8; PARCEL_BYTES + 1],
    /// How many have come; none: the sender has left.
    length: usize,
    descriptor: Option<OwnedFd>,
}

impl Record {
    fn read(connection: &OwnedFd) -> Result<Self, Errno> {
        let mut bytes = [0; PARCEL_BYTES + 1];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let mut slices = [IoSliceMut::new(&mut bytes)];
        let flags = RecvFlags::CMSG_CLOEXEC;
        let length = net::recvmsg(connection, &mut slices, &mut control, flags)?.bytes;
        let descriptor = control.drain().find_map(|message| match message {
            RecvAncillaryMessage::ScmRights(mut descriptors) => descriptors.next(),
            _ => None,
        });
        Ok(Self { bytes, length, descriptor })
    }

    fn open(self, world: u128) -> Result<(Parcel, OwnedFd), Malformed> {
        let Self { bytes, length, descriptor } = self;
        let mut reader = Reader(bytes.get(..length).unwrap_or_default());
        if reader.u128()? != world {
            return Err(Malformed("it looks for another group"));
        }
        let parcel = Parcel { from: Rank(reader.u32()?), group: reader.u64()?, tag: reader.u64()? };
        reader.end()?;
        let descriptor = descriptor.ok_or(Malformed("it brings no descriptor"))?;
        Ok((parcel, descriptor))
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;
    use std::sync::atomic::{AtomicU64, Ordering};
    use std::thread;

    use super::*;
    use crate::abort::Abort;

    /// The next parcel, asked for without a pause from the moment when its connection is there.
    fn next(door: &OwnedFd, world: u128) -> Result<Parcel, Malformed> {
        let connection = loop {
            if let Some(connection) = accept(door).unwrap() {
                break connection;
            }
        };
        loop {
            if let Some((parcel, _)) = receive(&connection, world)? {
                return Ok(parcel);
            }
        }
    }

    /// Of as many, one to three were lost to a receiver that looked once.
    const PARCELS: u64 = 200_000;

    #[test]
    fn no_parcel_is_lost_whose_sender_leaves_at_once() {
        let world = u128::from(std::process::id());
        let name = name(world, Rank(0));
        let door = listen(&name).unwrap();
        let file = std::fs::File::open("/dev/null").unwrap();
        let parcel = |tag| Parcel { from: Rank(1), group: 7, tag };
        // How many have been taken; the last number says that no more are.
        let taken = AtomicU64::new(0);
        let found = thread::scope(|threads| {
            threads.spawn(|| {
                let patience = Patience::new(&Abort::new(), None);
                for tag in 0..PARCELS {
                    while taken.load(Ordering::Acquire) < tag {}
                    if taken.load(Ordering::Acquire) == u64::MAX {
                        return;
                    }
                    send(&name, world, &parcel(tag), file.as_fd(), &patience).unwrap();
                }
            });
            let found = (0..PARCELS).find_map(|tag| {
                let found = next(&door, world);
                taken.store(tag + 1, Ordering::Release);
                (found != Ok(parcel(tag))).then_some((tag, found))
            });
            taken.store(u64::MAX, Ordering::Release);
            found
        });
        assert_eq!(found, None);
    }
}
