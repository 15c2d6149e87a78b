//! One-sided transfers: a rank writes into memory that a peer has shown, and signals it.
//!
//! All ranks open a [`Window`] together, each on memory of its own. Then any of them
//! [puts](Communicator::put_signal) bytes into a peer's memory without its doing, and the peer
//! [waits](Communicator::wait_signals) for as many signals as it expects of each rank. A signal
//! comes after all that its sender has put and signalled to that peer before.
//!
//! Ranks of one node reach one another, on the host: within a process by address, otherwise where
//! the memory can be passed on by a descriptor. Everything else is an error in words.

use std::os::fd::BorrowedFd;
use std::sync::PoisonError;

use msccl_collective::Rank;
use msccl_fabric::{Group, Peer, SharedMemory};

use super::Communicator;
use crate::engine::AwaitedSignals;
use crate::error::{Error, ErrorKind};
use crate::settings::PlaceOfRank;

/// Marks descriptors of windows among others that ranks send.
const TAG: u64 = u64::from_be_bytes(*b"\0\0window");

/// Memory of a rank that it shows its peers. Whoever passes it vouches that it lives as long as the
/// window.
#[derive(Clone, Copy, Debug)]
pub struct WindowMemory<'a> {
    /// Where it begins.
    pub address: u64,
    /// How long it is.
    pub bytes: u64,
    /// The shared memory of which it is a part, if it is.
    pub shared: Option<SharedPart<'a>>,
}

/// Of which shared memory something is a part.
#[derive(Clone, Copy, Debug)]
pub struct SharedPart<'a> {
    /// By which other processes map the memory.
    pub descriptor: BorrowedFd<'a>,
    /// Where in it the part begins.
    pub offset_bytes: u64,
    /// How long the memory is.
    pub length_bytes: u64,
}

/// Memory of all ranks of a communicator, as one of them reaches it.
#[derive(Debug)]
pub struct Window {
    /// By rank.
    parts: Vec<WindowPart>,
}

/// The part of one rank.
#[derive(Debug)]
struct WindowPart {
    bytes: u64,
    reach: Reach,
}

/// How a rank reaches the part of another one.
#[derive(Debug)]
enum Reach {
    /// It lies at this address.
    At(u64),
    /// It begins in shared memory.
    Shared { memory: SharedMemory, offset_bytes: u64 },
    /// It cannot, for this reason.
    Not(&'static str),
}

/// What a rank puts into the memory of a peer.
#[derive(Clone, Copy, Debug)]
pub struct Put<'a> {
    /// Where the bytes are, on this rank.
    pub from: u64,
    /// How many.
    pub bytes: u64,
    /// Whose memory.
    pub peer: Rank,
    /// What the peer shows.
    pub window: &'a Window,
    /// Where in it, in bytes.
    pub offset_bytes: u64,
}

/// Signals of a peer that a rank waits for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ExpectedSignals {
    /// The peer.
    pub peer: Rank,
    /// How many more.
    pub count: u32,
}

impl Communicator {
    /// Whether ranks of this communicator can put into one another's memory.
    pub fn has_one_sided_transfers(&self) -> bool {
        let inner = &self.inner;
        let peers = inner.shared_state.ranks();
        let is_on_host = matches!(inner.settings.place, PlaceOfRank::Host);
        is_on_host && peers.into_iter().all(|peer| self.signals(self.rank(), peer).is_ok())
    }

    /// Shows `memory` to all ranks, each of which calls it.
    ///
    /// # Errors
    ///
    /// Memory of another rank cannot be mapped, or the communicator has failed.
    pub fn open_window(&self, memory: &WindowMemory<'_>) -> Result<Window, Error> {
        self.error().map_or(Ok(()), Err)?;
        match self.inner.settings.place {
            PlaceOfRank::Host => Window::open(&self.inner.group, memory),
            PlaceOfRank::Gpu(_) => Ok(Window::of_gpus(&self.inner.group)),
        }
        .map_err(|error| self.inner.note(error))
    }

    /// Writes into the memory of a peer, then signals it.
    ///
    /// # Errors
    ///
    /// The memory is out of reach, or too short; the communicator is suspended, or has failed.
    pub fn put_signal(&self, put: &Put<'_>, stream: u64) -> Result<(), Error> {
        let Put { from, bytes, peer, window, offset_bytes } = *put;
        let inner = &self.inner;
        self.error().map_or(Ok(()), Err)?;
        let to = window.address(peer, offset_bytes, bytes)?;
        let word = self.signals(self.rank(), peer)?;
        let _submission = inner.submission.lock().unwrap_or_else(PoisonError::into_inner);
        self.check_resumed()?;
        let copied = if bytes == 0 { Ok(()) } else { inner.engine.copy(from, to, bytes, stream) };
        let signalled = copied.and_then(|()| inner.engine.signal(word, stream));
        signalled.map_err(|error| inner.note(error))
    }

    /// Signals a peer.
    ///
    /// # Errors
    ///
    /// It is out of reach; the communicator is suspended, or has failed.
    pub fn signal(&self, peer: Rank, stream: u64) -> Result<(), Error> {
        let inner = &self.inner;
        self.error().map_or(Ok(()), Err)?;
        let word = self.signals(self.rank(), peer)?;
        let _submission = inner.submission.lock().unwrap_or_else(PoisonError::into_inner);
        self.check_resumed()?;
        inner.engine.signal(word, stream).map_err(|error| inner.note(error))
    }

    /// Waits for signals of peers, beyond all that were waited for before.
    ///
    /// # Errors
    ///
    /// A peer is out of reach, or gone; the communicator is suspended, or has failed.
    pub fn wait_signals(&self, expected: &[ExpectedSignals], stream: u64) -> Result<(), Error> {
        let inner = &self.inner;
        self.error().map_or(Ok(()), Err)?;
        let _submission = inner.submission.lock().unwrap_or_else(PoisonError::into_inner);
        self.check_resumed()?;
        let mut taken = inner.signals_taken.lock().unwrap_or_else(PoisonError::into_inner);
        taken.resize(self.ranks() as usize, 0);
        let mut counts = taken.clone();
        let gone = |peer| self.gone(peer);
        let mut awaited = Vec::new();
        for ExpectedSignals { peer, count } in expected {
            let word = self.signals(*peer, self.rank())?;
            let so_far = &mut counts[peer.index()];
            *so_far += u64::from(*count);
            awaited.push(AwaitedSignals { peer: *peer, word, count: *so_far, gone: &gone });
        }
        let came = inner.engine.await_signals(&awaited, stream);
        came.map_err(|error| inner.note(error))?;
        *taken = counts;
        Ok(())
    }

    /// The word that counts the signals from one rank to another.
    fn signals(&self, from: Rank, to: Rank) -> Result<&std::sync::atomic::AtomicU64, Error> {
        self.inner.shared_state.signals(from, to).ok_or_else(|| {
            let peer = if from == self.rank() { to } else { from };
            let text = if self.inner.shared_state.nodes().together(self.rank(), peer) {
                format!("{peer} is on a node of more than 256 ranks, which have no signals")
            } else {
                format!(
                    "{peer} is on another node; one-sided transfers reach ranks of the same node, \
                     others with sends and receives"
                )
            };
            Error::invalid_usage(text)
        })
    }

    /// Why nothing more comes of `peer`, if so.
    fn gone(&self, peer: Rank) -> Option<Error> {
        if let Some(error) = self.error() {
            return Some(error);
        }
        let departed = self.inner.group.departed().into_iter().find(|of| of.rank == peer)?;
        Some(Error::new(ErrorKind::Remote, format!("{peer} {}", departed.reason)))
    }
}

impl Window {
    fn open(group: &Group, memory: &WindowMemory<'_>) -> Result<Self, Error> {
        let all = group.all_gather(&Shown::of(memory).to_bytes())?;
        let me = group.rank();
        let own = group.peer(me).ok_or_else(|| Error::internal("this rank is no member"))?;
        let is_other = |peer: &Peer| peer.shares_descriptors(own) && !peer.same_process(own);
        if let Some(shared) = memory.shared.filter(|_| memory.bytes > 0) {
            for peer in group.peers().filter(|peer| is_other(peer)) {
                group.send_fd(peer.rank, TAG, shared.descriptor)?;
            }
        }
        let part = |(peer, bytes): (&Peer, &Vec<u8>)| {
            let shown = Shown::from_bytes(bytes).ok_or_else(|| {
                Error::new(ErrorKind::Remote, "what a rank says of its window is too short")
            })?;
            let reach = if peer.same_process(own) {
                Reach::At(shown.address)
            } else if !is_other(peer) {
                Reach::Not("it is on another node")
            } else if shown.length_bytes == 0 {
                Reach::Not("it is not from ncclMemAlloc, and its rank is another process")
            } else {
                let length_bytes = usize::try_from(shown.length_bytes).unwrap_or(usize::MAX);
                let memory = SharedMemory::open(group.receive_fd(peer.rank, TAG)?, length_bytes)?;
                Reach::Shared { memory, offset_bytes: shown.offset_bytes }
            };
            Ok(WindowPart { bytes: shown.bytes, reach })
        };
        // Every descriptor is taken, even after a failure.
        let parts: Vec<Result<_, Error>> = group.peers().zip(&all).map(part).collect();
        Ok(Self { parts: parts.into_iter().collect::<Result<_, _>>()? })
    }

    /// One that no rank reaches.
    fn of_gpus(group: &Group) -> Self {
        let part = |_| WindowPart { bytes: 0, reach: Reach::Not("it is memory of a GPU") };
        Self { parts: group.peers().map(part).collect() }
    }

    /// Where `bytes` bytes from `offset_bytes` on lie in the memory of `peer`.
    fn address(&self, peer: Rank, offset_bytes: u64, bytes: u64) -> Result<u64, Error> {
        let part = self.parts.get(peer.index());
        let part = part.ok_or_else(|| Error::invalid_argument(format!("there is no {peer}")))?;
        let start = match &part.reach {
            Reach::At(address) => *address,
            Reach::Shared { memory, offset_bytes } => memory.as_ptr().addr() as u64 + offset_bytes,
            Reach::Not(why) => {
                let text = format!("the window of {peer} is out of reach: {why}");
                return Err(Error::invalid_usage(text));
            }
        };
        let end = offset_bytes.checked_add(bytes).filter(|end| *end <= part.bytes);
        if end.is_none() {
            return Err(Error::invalid_argument(format!(
                "{bytes} bytes at {offset_bytes} exceed the window of {peer}, which has {}",
                part.bytes
            )));
        }
        Ok(start + offset_bytes)
    }
}

/// What a rank says of the memory that it shows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Shown {
    address: u64,
    bytes: u64,
    offset_bytes: u64,
    /// Of the shared memory; zero, if it is none.
    length_bytes: u64,
}

impl Shown {
    fn of(memory: &WindowMemory<'_>) -> Self {
        let WindowMemory { address, bytes, shared } = *memory;
        let shared = shared.filter(|_| bytes > 0);
        let offset_bytes = shared.map_or(0, |shared| shared.offset_bytes);
        let length_bytes = shared.map_or(0, |shared| shared.length_bytes);
        Self { address, bytes, offset_bytes, length_bytes }
    }

    fn to_bytes(self) -> Vec<u8> {
        let Self { address, bytes, offset_bytes, length_bytes } = self;
        [address, bytes, offset_bytes, length_bytes]
            .into_iter()
            .flat_map(u64::to_le_bytes)
            .collect()
    }

    fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let (words, []) = bytes.as_chunks::<8>() else { return None };
        let &[address, bytes, offset_bytes, length_bytes] = words else { return None };
        let [address, bytes, offset_bytes, length_bytes] =
            [address, bytes, offset_bytes, length_bytes].map(u64::from_le_bytes);
        // A part lies inside.
        let end = offset_bytes.checked_add(bytes)?;
        (length_bytes == 0 || end <= length_bytes).then_some(Self {
            address,
            bytes,
            offset_bytes,
            length_bytes,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn puts_lie_inside() {
        let part = |bytes, reach| WindowPart { bytes, reach };
        let parts = vec![part(100, Reach::At(4096)), part(100, Reach::Not("it is a test"))];
        let window = Window { parts };
        assert_eq!(window.address(Rank(0), 60, 40).unwrap(), 4156);
        assert_eq!(window.address(Rank(0), 100, 0).unwrap(), 4196);
        let refused = |peer, offset, bytes, expected: &str| {
            let text = window.address(Rank(peer), offset, bytes).unwrap_err().to_string();
            assert!(text.contains(expected), "{text}");
        };
        refused(0, 61, 40, "exceed the window of r0, which has 100");
        refused(0, u64::MAX, 2, "exceed the window");
        refused(1, 0, 1, "is out of reach: it is a test");
        refused(2, 0, 1, "there is no r2");
    }

    #[test]
    fn what_ranks_say_is_checked() {
        let shown = Shown { address: 7, bytes: 8, offset_bytes: 16, length_bytes: 24 };
        assert_eq!(Shown::from_bytes(&shown.to_bytes()), Some(shown));
        assert_eq!(Shown::from_bytes(&shown.to_bytes()[1..]), None);
        let beyond = Shown { length_bytes: 23, ..shown };
        assert_eq!(Shown::from_bytes(&beyond.to_bytes()), None);
    }
}
