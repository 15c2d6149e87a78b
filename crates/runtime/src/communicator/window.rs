//! Windows: memory that all ranks of a communicator show one another.

use std::collections::BTreeMap;
use std::os::fd::BorrowedFd;
use std::sync::{Arc, Mutex, PoisonError};

use msccl_collective::Rank;
use msccl_fabric::{Group, Peer, SharedMemory};

use super::Communicator;
use crate::engine::{ShownMemory, WindowGuard};
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
    /// Where the buffers of a collective lie that all ranks give it in their windows.
    pub places: BufferPlaces,
}

/// Where ranks put the buffers of one collective in a window.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum BufferPlaces {
    /// Each as it likes.
    #[default]
    Any,
    /// All at the same place, whoever has a buffer there at all: every rank vouches for that.
    Same,
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
    /// Which window of its communicator it is, counted from 1; the same on all ranks.
    number: u64,
    parts: Arc<Parts>,
    /// Keeps the memory of this rank in reach of those on other nodes.
    _guard: Option<Box<dyn WindowGuard>>,
}

/// The memory of all ranks.
#[derive(Debug)]
pub(super) enum Parts {
    /// On the host: by rank.
    Host(Vec<WindowPart>),
    /// On GPUs: what was found so far of what ranks show.
    Gpu(Mutex<BTreeMap<Rank, ShownMemory>>),
}

/// Where a put goes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum PutPlace {
    /// To this address.
    At(u64),
    /// To the window of this number, of a rank on another node.
    Window(u64),
}

/// The part of one rank.
#[derive(Debug)]
pub(super) struct WindowPart {
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
    /// It is on another node, and writes what is sent to it.
    Sent,
    /// It cannot, for this reason.
    Not(&'static str),
}

impl Communicator {
    /// Shows `memory` to all ranks, each of which calls it, and as often as the others. Ranks on
    /// the host wait for one another.
    ///
    /// # Errors
    ///
    /// Memory of another rank cannot be mapped, or the communicator has failed.
    pub fn open_window(&self, memory: &WindowMemory<'_>) -> Result<Window, Error> {
        self.error().map_or(Ok(()), Err)?;
        let inner = &self.inner;
        let number = self.next_window();
        let WindowMemory { address, bytes, shared: _, places } = *memory;
        let own = ShownMemory { address, bytes, export: None };
        let opened = inner.engine.show(number, own).and_then(|guard| {
            let own = ShownMemory { export: guard.as_ref().and_then(|of| of.export()), ..own };
            let parts = match inner.settings.place {
                PlaceOfRank::Host => Parts::Host(open(&inner.group, memory)?),
                PlaceOfRank::Gpu(_) => {
                    Parts::Gpu(Mutex::new(BTreeMap::from([(inner.group.rank(), own)])))
                }
            };
            let parts = Arc::new(parts);
            if places == BufferPlaces::Same {
                inner.windows.open(number, own, &parts);
            }
            Ok(Window { number, parts, _guard: guard })
        });
        opened.map_err(|error| inner.note(error))
    }

    /// Where this rank's program reaches what lies `offset_bytes` into the memory that `peer`
    /// shows; nothing, if it does not. On a GPU it waits until `peer` shows it.
    ///
    /// # Errors
    ///
    /// There is no such rank, its memory is shorter, or the communicator has failed.
    pub fn peer_address(
        &self,
        window: &Window,
        peer: Rank,
        offset_bytes: u64,
    ) -> Result<Option<u64>, Error> {
        let nodes = self.inner.shared_state.nodes();
        if peer.0 < self.ranks() && !nodes.together(self.rank(), peer) {
            return Ok(None);
        }
        match self.place_in(window, peer, offset_bytes, 0) {
            Ok(PutPlace::At(address)) => Ok(Some(address)),
            Ok(PutPlace::Window(_)) => Ok(None),
            Err(error) if error.kind() == ErrorKind::InvalidUsage => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// What `peer` shows as window `number`, of which `shown` has what was found so far.
    pub(super) fn shown_by(
        &self,
        shown: &Mutex<BTreeMap<Rank, ShownMemory>>,
        peer: Rank,
        number: u64,
    ) -> Result<ShownMemory, Error> {
        let mut shown = shown.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(found) = shown.get(&peer) {
            return Ok(*found);
        }
        let found = self.inner.engine.find_shown(peer, number)?;
        shown.insert(peer, found);
        Ok(found)
    }

    /// Where `bytes` bytes from `offset_bytes` on lie in the memory that `peer` shows.
    pub(super) fn place_in(
        &self,
        window: &Window,
        peer: Rank,
        offset_bytes: u64,
        bytes: u64,
    ) -> Result<PutPlace, Error> {
        let number = window.number;
        match &*window.parts {
            Parts::Host(parts) => {
                let part = parts.get(peer.index());
                let part =
                    part.ok_or_else(|| Error::invalid_argument(format!("there is no {peer}")))?;
                part.place(peer, number, offset_bytes, bytes)
            }
            Parts::Gpu(shown) => {
                let ShownMemory { address, bytes: shown_bytes, export: _ } =
                    self.shown_by(shown, peer, number)?;
                let part = WindowPart { bytes: shown_bytes, access: Access::At(address) };
                part.place(peer, number, offset_bytes, bytes)
            }
        }
    }
}

/// The parts of all ranks of `group`, each of which shows its `memory`.
fn open(group: &Group, memory: &WindowMemory<'_>) -> Result<Vec<WindowPart>, Error> {
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
            Access::Sent
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
    parts.into_iter().collect()
}

impl WindowPart {
    /// Where `bytes` bytes from `offset_bytes` on lie in it, which is the part of `peer` in window
    /// `number`.
    fn place(
        &self,
        peer: Rank,
        number: u64,
        offset_bytes: u64,
        bytes: u64,
    ) -> Result<PutPlace, Error> {
        let start = match &self.access {
            Access::At(address) => Some(*address),
            Access::Shared { memory, offset_bytes } => {
                Some(memory.as_ptr().addr() as u64 + offset_bytes)
            }
            Access::Sent => None,
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
        Ok(start.map_or(PutPlace::Window(number), |start| PutPlace::At(start + offset_bytes)))
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
        let WindowMemory { address, bytes, shared, places: _ } = *memory;
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
        let part = |access| WindowPart { bytes: 100, access };
        let parts = [Access::At(4096), Access::Not("it is a test"), Access::Sent].map(part);
        let place =
            |peer: u32, offset, bytes| parts[peer as usize].place(Rank(peer), 7, offset, bytes);
        assert_eq!(place(0, 60, 40).unwrap(), PutPlace::At(4156));
        assert_eq!(place(0, 100, 0).unwrap(), PutPlace::At(4196));
        assert_eq!(place(2, 60, 40).unwrap(), PutPlace::Window(7));
        let refused = |peer, offset, bytes, expected: &str| {
            let text = place(peer, offset, bytes).unwrap_err().to_string();
            assert!(text.contains(expected), "{text}");
        };
        refused(0, 61, 40, "exceed the window of r0, which has 100");
        refused(0, u64::MAX, 2, "exceed the window");
        refused(1, 0, 1, "is out of reach: it is a test");
        refused(2, 61, 40, "exceed the window of r2");
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
