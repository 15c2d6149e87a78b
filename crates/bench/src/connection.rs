//! A worker's connection to the process that started it: a descriptor first, then lines of JSON.
//!
//! Standard output stays free for what libraries print.

use std::io::{BufRead, BufReader, ErrorKind, IoSlice, IoSliceMut, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;

use msccl_interchange::json;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::error::Error;

/// The byte that a descriptor travels with.
const COMPANION: [u8; 1] = [b'd'];

/// Sends `descriptor` along.
pub(crate) fn send_descriptor(
    stream: &UnixStream,
    descriptor: BorrowedFd<'_>,
) -> Result<(), Error> {
    let descriptors = [descriptor];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    control.push(SendAncillaryMessage::ScmRights(&descriptors));
    sendmsg(stream, &[IoSlice::new(&COMPANION)], &mut control, SendFlags::NOSIGNAL)?;
    Ok(())
}

/// The next descriptor that the other side sent; `None` if it has sent all.
pub(crate) fn receive_descriptor(stream: impl AsFd) -> Result<Option<OwnedFd>, Error> {
    let mut companion = [0; 1];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let mut slices = [IoSliceMut::new(&mut companion)];
    let stranger = "this is how `msccl bench` starts its workers; run `msccl bench` instead";
    let received = recvmsg(stream, &mut slices, &mut control, RecvFlags::CMSG_CLOEXEC);
    let received = received.map_err(|error| Error::new(format!("{stranger} ({error})")))?;
    let descriptor = control.drain().find_map(|message| match message {
        RecvAncillaryMessage::ScmRights(mut descriptors) => descriptors.next(),
        _ => None,
    });
    match descriptor {
        None if received.bytes > 0 => Err(Error::new(stranger)),
        descriptor => Ok(descriptor),
    }
}

/// Writes `message` as one line.
pub(crate) fn send(mut stream: &UnixStream, message: &impl Serialize) -> Result<(), Error> {
    let mut line = serde_json::to_vec(message)?;
    line.push(b'\n');
    Ok(stream.write_all(&line)?)
}

/// Reads one line; `None` if the other side has left.
pub(crate) fn receive<T: DeserializeOwned>(
    lines: &mut BufReader<UnixStream>,
) -> Result<Option<T>, Error> {
    let mut line = String::new();
    match lines.read_line(&mut line) {
        Ok(0) => return Ok(None),
        // It left without reading all that it was sent.
        Err(error) if error.kind() == ErrorKind::ConnectionReset => return Ok(None),
        read => read?,
    };
    let message = json::parse(&line).map(Some);
    message.map_err(|why| {
        Error::new(format!("a message that is not understood: {why} in `{}`", line.trim_end()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use msccl_fabric::SharedMemory;
    use std::sync::atomic::Ordering;

    #[test]
    fn a_descriptor_arrives_before_the_lines() {
        let (here, there) = UnixStream::pair().unwrap();
        let memory = SharedMemory::create(64).unwrap();
        memory.word(0).unwrap().store(9, Ordering::Relaxed);
        send_descriptor(&here, memory.descriptor().unwrap()).unwrap();
        send(&here, &"hello").unwrap();
        drop(here);
        let descriptor = receive_descriptor(&there).unwrap().unwrap();
        let copy = SharedMemory::open(descriptor, 64).unwrap();
        assert_eq!(copy.word(0).unwrap().load(Ordering::Relaxed), 9);
        let mut lines = BufReader::new(there);
        assert_eq!(receive(&mut lines), Ok(Some("hello".to_owned())));
        assert_eq!(receive::<String>(&mut lines), Ok(None));
        assert!(receive_descriptor(lines.get_ref()).unwrap().is_none());
    }

    #[test]
    fn unknown_messages_are_reported() {
        let (here, there) = UnixStream::pair().unwrap();
        (&here).write_all(b"hello\n").unwrap();
        assert!(receive_descriptor(&there).unwrap_err().to_string().contains("msccl bench"));
        let refused = receive::<u32>(&mut BufReader::new(there)).unwrap_err();
        assert!(refused.to_string().contains("`ello`"), "{refused}");
    }
}
