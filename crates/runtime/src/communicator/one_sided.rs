//! One-sided transfers: a rank writes into memory that a peer has shown, and signals it.
//!
//! All ranks open a [`Window`] together, each on memory of its own. Then any of them
//! [puts](Communicator::put_signal) bytes into a peer's memory without its doing, and the peer
//! [waits](Communicator::wait_signals) for as many signals as it expects of each rank. A signal
//! comes after all that its sender has put and signalled to that peer before.
//!
//! Ranks of one node reach one another. On the host: within a process by address, otherwise where
//! the memory can be passed on by a descriptor. On GPUs: where they map one another's memory, by
//! copies in the caller's stream; a signal is a word that the stream writes, or waits for.
//! Everything else is an error in words.

use std::collections::BTreeMap;
use std::os::fd::BorrowedFd;
use std::sync::{Mutex, MutexGuard, PoisonError};

use msccl_collective::Rank;
use msccl_fabric::{Group, Peer, SharedMemory};

use super::Communicator;
use crate::engine::{AwaitedSignals, Engine, ShownMemory, Signal};
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
pub struct Window(Parts);

/// The memory of all ranks.
#[derive(Debug)]
enum Parts {
    /// On the host: by rank.
    Host(Vec<WindowPart>),
    /// On GPUs.
    Gpu {
        /// Which window of its communicator it is.
        number: u64,
        /// What was found so far of what ranks show.
        shown: Mutex<BTreeMap<Rank, ShownMemory>>,
    },
}

/// The part of one rank.
#[derive(Debug)]
struct WindowPart {
    bytes: u64,
    access: Access,
}

/// How a rank reaches the part of another one.
#[derive(Debug)]
enum Access {
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

/// Signals and windows of a rank so far.
#[derive(Default)]
pub(crate) struct SignalCounts {
    /// Signals to each rank.
    sent: Vec<u64>,
    /// Signals of each rank that were waited for.
    taken: Vec<u64>,
    /// Windows.
    windows: u64,
}

impl Communicator {
    /// Whether all ranks of this communicator can put into one another's memory.
    pub fn has_one_sided_transfers(&self) -> bool {
        let inner = &self.inner;
        let reaches = |peer| self.signal_to(self.rank(), peer).is_ok();
        inner.engine.has_one_sided_transfers() && inner.shared_state.ranks().all(reaches)
    }

    /// Shows `memory` to all ranks, each of which calls it, and as often as the others. Ranks on
    /// the host wait for one another.
    ///
    /// # Errors
    ///
    /// Memory of another rank cannot be mapped, or the communicator has failed.
    pub fn open_window(&self, memory: &WindowMemory<'_>) -> Result<Window, Error> {
        self.error().map_or(Ok(()), Err)?;
        let inner = &self.inner;
        let opened = match inner.settings.place {
            PlaceOfRank::Host => Window::open(&inner.group, memory),
            PlaceOfRank::Gpu(_) => {
                let number = {
                    let mut counts = self.counts();
                    counts.windows += 1;
                    counts.windows
                };
                let own = ShownMemory { address: memory.address, bytes: memory.bytes };
                let shown = inner.engine.show(number, own);
                shown.map(|()| Window::of_gpu(number, own, inner.group.rank()))
            }
        };
        opened.map_err(|error| inner.note(error))
    }

    /// Writes into the memory of a peer, then signals it.
    ///
    /// # Errors
    ///
    /// The memory is out of reach, or too short; the communicator is suspended, or has failed.
    pub fn put_signal(&self, put: &Put<'_>, stream: u64) -> Result<(), Error> {
        let Put { from, bytes, peer, window, offset_bytes } = *put;
        let to = self.address(window, peer, offset_bytes, bytes)?;
        let copy = |engine: &dyn Engine| match bytes {
            0 => Ok(()),
            _ => engine.copy(from, to, bytes, stream),
        };
        self.signal_after(copy, peer, stream)
    }

    /// Signals a peer.
    ///
    /// # Errors
    ///
    /// It is out of reach; the communicator is suspended, or has failed.
    pub fn signal(&self, peer: Rank, stream: u64) -> Result<(), Error> {
        self.signal_after(|_| Ok(()), peer, stream)
    }

    /// Does `before`, then signals `peer`.
    fn signal_after(
        &self,
        before: impl FnOnce(&dyn Engine) -> Result<(), Error>,
        peer: Rank,
        stream: u64,
    ) -> Result<(), Error> {
        let inner = &self.inner;
        self.error().map_or(Ok(()), Err)?;
        let signal = self.signal_to(self.rank(), peer)?;
        let _submission = inner.submission.lock().unwrap_or_else(PoisonError::into_inner);
        self.check_resumed()?;
        inner.engine.admit_one_sided(stream)?;
        let mut counts = self.counts();
        let count = SignalCounts::of(&mut counts.sent, peer);
        *count += 1;
        let signalled =
            before(&*inner.engine).and_then(|()| inner.engine.signal(&signal, *count, stream));
        signalled.map_err(|error| inner.note(error))
    }

    /// Waits for signals of peers, beyond all that were waited for before: on a GPU, what comes
    /// later in the stream does.
    ///
    /// # Errors
    ///
    /// A peer is out of reach, or gone; the communicator is suspended, or has failed.
    pub fn wait_signals(&self, expected: &[ExpectedSignals], stream: u64) -> Result<(), Error> {
        let inner = &self.inner;
        self.error().map_or(Ok(()), Err)?;
        let _submission = inner.submission.lock().unwrap_or_else(PoisonError::into_inner);
        self.check_resumed()?;
        inner.engine.admit_one_sided(stream)?;
        let mut taken = self.counts().taken.clone();
        let gone = |peer| self.gone(peer);
        let mut awaited = Vec::new();
        for ExpectedSignals { peer, count } in expected {
            let signal = self.signal_to(*peer, self.rank())?;
            let so_far = SignalCounts::of(&mut taken, *peer);
            *so_far += u64::from(*count);
            awaited.push(AwaitedSignals { peer: *peer, signal, count: *so_far, gone: &gone });
        }
        let came = inner.engine.await_signals(&awaited, stream);
        came.map_err(|error| inner.note(error))?;
        self.counts().taken = taken;
        Ok(())
    }

    fn counts(&self) -> MutexGuard<'_, SignalCounts> {
        self.inner.signals.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// By what one rank signals another.
    fn signal_to(&self, from: Rank, to: Rank) -> Result<Signal<'_>, Error> {
        let shared_state = &self.inner.shared_state;
        if !self.inner.engine.has_one_sided_transfers() {
            let text = "ranks on GPUs have no one-sided transfers here: they need GPUs of one node \
                that map one another's memory";
            return Err(Error::invalid_usage(text));
        }
        let word = shared_state.signals(from, to).ok_or_else(|| {
            let peer = if from == self.rank() { to } else { from };
            let text = if shared_state.nodes().together(self.rank(), peer) {
                format!("{peer} is on a node of more than 256 ranks, which have no signals")
            } else {
                format!(
                    "{peer} is on another node; one-sided transfers reach ranks of the same node, \
                     others with sends and receives"
                )
            };
            Error::invalid_usage(text)
        })?;
        Ok(Signal { shared_state, word })
    }

    /// Where `bytes` bytes from `offset_bytes` on lie in the memory that `peer` shows.
    fn address(
        &self,
        window: &Window,
        peer: Rank,
        offset_bytes: u64,
        bytes: u64,
    ) -> Result<u64, Error> {
        match &window.0 {
            Parts::Host(parts) => part_address(parts, peer, offset_bytes, bytes),
            Parts::Gpu { number, shown } => {
                let mut shown = shown.lock().unwrap_or_else(PoisonError::into_inner);
                let found = match shown.get(&peer) {
                    Some(found) => *found,
                    None => {
                        let found = self.inner.engine.find_shown(peer, *number)?;
                        shown.insert(peer, found);
                        found
                    }
                };
                let ShownMemory { address, bytes: shown_bytes } = found;
                let part = WindowPart { bytes: shown_bytes, access: Access::At(address) };
                part.address(peer, offset_bytes, bytes)
            }
        }
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

impl SignalCounts {
    /// The count of `peer` among `counts`.
    fn of(counts: &mut Vec<u64>, peer: Rank) -> &mut u64 {
        if counts.len() <= peer.index() {
            counts.resize(peer.index() + 1, 0);
        }
        &mut counts[peer.index()]
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
            let access = if peer.same_process(own) {
                Access::At(shown.address)
            } else if !is_other(peer) {
                Access::Not("it is on another node")
            } else if shown.length_bytes == 0 {
                Access::Not("it is not from ncclMemAlloc, and its rank is another process")
            } else {
                let length_bytes = usize::try_from(shown.length_bytes).unwrap_or(usize::MAX);
                let memory = SharedMemory::open(group.receive_fd(peer.rank, TAG)?, length_bytes)?;
                Access::Shared { memory, offset_bytes: shown.offset_bytes }
            };
            Ok(WindowPart { bytes: shown.bytes, access })
        };
        // Every descriptor is taken, even after a failure.
        let parts: Vec<Result<_, Error>> = group.peers().zip(&all).map(part).collect();
        Ok(Self(Parts::Host(parts.into_iter().collect::<Result<_, _>>()?)))
    }

    /// Window `number` of ranks on GPUs, of which rank `me` shows `own`.
    fn of_gpu(number: u64, own: ShownMemory, me: Rank) -> Self {
        Self(Parts::Gpu { number, shown: Mutex::new(BTreeMap::from([(me, own)])) })
    }
}

/// Where `bytes` bytes from `offset_bytes` on lie in the part of `peer`.
fn part_address(
    parts: &[WindowPart],
    peer: Rank,
    offset_bytes: u64,
    bytes: u64,
) -> Result<u64, Error> {
    let part = parts.get(peer.index());
    let part = part.ok_or_else(|| Error::invalid_argument(format!("there is no {peer}")))?;
    part.address(peer, offset_bytes, bytes)
}

impl WindowPart {
    /// Where `bytes` bytes from `offset_bytes` on lie in it, which is the part of `peer`.
    fn address(&self, peer: Rank, offset_bytes: u64, bytes: u64) -> Result<u64, Error> {
        let start = match &self.access {
            Access::At(address) => *address,
            Access::Shared { memory, offset_bytes } => memory.as_ptr().addr() as u64 + offset_bytes,
            Access::Not(why) => {
                let text = format!("the window of {peer} is out of reach: {why}");
                return Err(Error::invalid_usage(text));
            }
        };
        let end = offset_bytes.checked_add(bytes).filter(|end| *end <= self.bytes);
        if end.is_none() {
            return Err(Error::invalid_argument(format!(
                "{bytes} bytes at {offset_bytes} exceed the window of {peer}, which has {}",
                self.bytes
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
        let part = |bytes, access| WindowPart { bytes, access };
        let parts = vec![part(100, Access::At(4096)), part(100, Access::Not("it is a test"))];
        let address = |peer, offset, bytes| part_address(&parts, Rank(peer), offset, bytes);
        assert_eq!(address(0, 60, 40).unwrap(), 4156);
        assert_eq!(address(0, 100, 0).unwrap(), 4196);
        let refused = |peer, offset, bytes, expected: &str| {
            let text = address(peer, offset, bytes).unwrap_err().to_string();
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
