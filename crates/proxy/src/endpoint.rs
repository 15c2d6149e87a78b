//! Where links enter and leave the memory of a rank.

use std::os::fd::BorrowedFd;
use std::sync::Arc;

/// Memory in which the ports to one peer lie; rails register all of it with their devices.
///
/// Implementors are unsafe boundaries: [`Memory::address`] must stay mapped as long as the value
/// lives, and the bytes of a slot must belong to the proxy from the moment when the port grants it
/// until the endpoint learns that it is done.
pub trait Memory: Send + Sync {
    /// Where it begins, in this process.
    fn address(&self) -> *mut u8;

    /// How long it is.
    fn bytes(&self) -> u64;

    /// The dma-buf by which devices reach it. Memory that processors do not read and write is
    /// reached in no other way.
    fn dmabuf(&self) -> Option<DmaBuf<'_>> {
        None
    }

    /// How rails that are no device's copy out of and into it; `None` if processors of the host
    /// read and write it.
    fn copies(&self) -> Option<&dyn Copies> {
        None
    }

    /// Where the slots lie, and why there, if that is worth telling.
    fn describe(&self) -> Option<String> {
        None
    }
}

/// Copies out of and into memory that processors do not read and write. Both wait until they are
/// done, but not for executors. Offsets are from the beginning of the memory, and what lies outside
/// is a failure.
pub trait Copies {
    /// Copies what lies at `from` on.
    fn fetch(&self, from: u64, into: &mut [u8]) -> Result<(), String>;

    /// Copies `bytes` to `to` on. Executors see them once the message is committed.
    fn put(&self, to: u64, bytes: &[u8]) -> Result<(), String>;
}

/// Memory as the kernel hands it to devices.
#[derive(Clone, Copy, Debug)]
pub struct DmaBuf<'a> {
    /// The buffer.
    pub descriptor: BorrowedFd<'a>,
    /// Where the memory begins in it.
    pub offset: u64,
}

/// Where links to one peer enter and leave this rank. The peer's receive endpoints are the other
/// ends of these send endpoints, in this order, and the other way round.
pub struct Endpoints {
    /// In which all slots lie.
    pub memory: Arc<dyn Memory>,
    /// Links to the peer.
    pub send_endpoints: Vec<Box<dyn SendEndpoint>>,
    /// Links from the peer.
    pub receive_endpoints: Vec<Box<dyn ReceiveEndpoint>>,
}

/// A message in a slot.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Piece {
    /// Where it begins, from the beginning of the memory.
    pub offset: u64,
    /// How long it is.
    pub bytes: u32,
}

/// Where messages of one link leave this rank: the executor puts them into slots, the proxy takes
/// them. Messages are counted from 1 over the link's life.
pub trait SendEndpoint: Send {
    /// How many messages there are by now; all of them are whole.
    fn posted(&mut self) -> u64;

    /// Message `number`, which was posted and not yet released.
    fn message(&self, number: u64) -> Piece;

    /// The slots of all messages up to `number` are free again.
    fn release(&mut self, number: u64);

    /// Whether a new message wakes the proxy ([`crate::Proxy::doorbell`]); otherwise it looks from
    /// time to time.
    fn wakes_proxy(&self) -> bool {
        false
    }
}

/// Where messages of one link reach this rank: the proxy fills slots, the executor takes them.
/// Messages are counted from 1 over the link's life.
pub trait ReceiveEndpoint: Send {
    /// Messages that fit at once.
    fn depth(&self) -> u32;

    /// Bytes of the longest message.
    fn slot_bytes(&self) -> u32;

    /// How many messages the executor has taken by now; their slots are free.
    fn taken(&mut self) -> u64;

    /// Where message `number` goes, from the beginning of the memory. Messages `depth` apart go to
    /// the same place.
    fn slot(&self, number: u64) -> u64;

    /// Message `number`, of that many bytes, is whole. Called once for each, in order. What arrived
    /// before must be visible to an executor that sees the commitment; a receive endpoint that
    /// cannot see to that fails, and with it the links to the peer.
    fn commit(&mut self, number: u64, bytes: u32) -> Result<(), String>;

    /// Whether a taken message wakes the proxy, as [`SendEndpoint::wakes_proxy`].
    fn wakes_proxy(&self) -> bool {
        false
    }
}
