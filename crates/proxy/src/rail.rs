//! One way through the network between two ranks: an RDMA queue pair, or what behaves like one.

use std::os::fd::BorrowedFd;

/// A way through the network from this rank to one peer and back.
///
/// A rail connects one piece of memory of this rank with one of the peer. Whoever posts a [`Write`]
/// puts bytes into the *peer's* memory and informs the peer's proxy by a number, the tag.
///
/// # Guarantees
///
/// * Writes of one rail arrive in the order in which they were posted; when the peer is informed of
///   one, its bytes and those of all earlier ones are in memory.
/// * The bytes of a write must not change before [`RailEvent::Sent`] has reported it, or the rail
///   was closed.
/// * Nothing blocks, and nothing arrives twice.
/// * After [`Rail::close`] has returned, nothing that the peer posts on this rail lands any more,
///   and nothing of this rank's memory is read by it.
/// * A rail that reported a failure fails every later call. Which posts have arrived is not known
///   then, whether they were reported as sent or not; the proxies settle that on another rail.
pub trait Rail: Send {
    /// Where it leads, for people: device, port, addresses, queue pair.
    fn describe(&self) -> String;

    /// Posts a write.
    fn post(&mut self, write: &Write) -> Result<Posted, Broken>;

    /// Moves things on, and appends what has happened since the last call; what was appended before
    /// a failure counts.
    fn poll(&mut self, events: &mut Vec<RailEvent>) -> Result<(), Broken>;

    /// Gives the rail up.
    fn close(&mut self);

    /// What to poll in order to sleep until there is something for [`Rail::poll`] to do; `None` if
    /// it must be called from time to time.
    fn wake(&self) -> Option<Wake<'_>> {
        None
    }
}

/// What wakes whoever polls a rail.
#[derive(Clone, Copy, Debug)]
pub struct Wake<'a> {
    /// It becomes readable when something has arrived.
    pub descriptor: BorrowedFd<'a>,
    /// Whether to wait as well until it is writable.
    pub writable: bool,
}

/// Bytes of this rank's memory that are to be in the peer's.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Write {
    /// Where they lie, from the beginning of this rank's memory.
    pub from: u64,
    /// Where they go, from the beginning of the peer's memory.
    pub to: u64,
    /// How many; none is a mere signal.
    pub bytes: u32,
    /// What is reported to the peer.
    pub tag: u32,
}

/// What became of a post.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Posted {
    /// It is on its way.
    Yes,
    /// There is no room now; nothing was done.
    Full,
}

/// What a rail reports.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RailEvent {
    /// The oldest post that was not reported yet needs its memory no more. Whether it has arrived
    /// is another matter: a write to a queue pair has, one to a socket may lie in a buffer on its
    /// way.
    Sent,
    /// A write of the peer has arrived.
    Arrived {
        /// Its tag.
        tag: u32,
        /// How many bytes it brought.
        bytes: u32,
    },
}

/// A rail that carries nothing any more.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Broken {
    /// What happened, with host, device, queue pair, and the network's own words.
    pub why: String,
}
