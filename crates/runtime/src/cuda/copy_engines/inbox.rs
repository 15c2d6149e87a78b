//! Memory of a rank into which its peers copy what it is to combine.
//!
//! It is made when the first call needs it, on all ranks, as all decide alike what carries calls.

use std::sync::OnceLock;

use msccl_collective::Rank;
use msccl_gpu::{CaptureModeGuard, Context, DevicePtr, VmmAllocation, VmmMapping};

use super::super::registration::{OpenWindowGuard, Registration};
use crate::engine::{ShownMemory, WindowGuard as _};
use crate::error::{Error, ErrorKind};

/// Which window it is of those that ranks show; callers' are counted from 1.
const WINDOW: u64 = 0;

/// That of a rank, once it is needed.
pub(super) struct Inbox {
    context: Context,
    ranks: u32,
    /// Room for the contributions of all peers.
    bytes: u64,
    /// Nothing, if some rank has none, or cannot reach all.
    open: OnceLock<Option<OpenInbox>>,
}

/// An inbox, and where those of peers lie.
pub(super) struct OpenInbox {
    me: Rank,
    /// Bytes of a contribution.
    slot_bytes: u64,
    /// By rank: where its inbox begins, as this rank reaches it.
    starts: Vec<u64>,
    _own: OwnInbox,
}

/// Fields drop in order: peers are kept from memory before it is given back.
struct OwnInbox {
    shown: ShownMemory,
    _guard: Option<OpenWindowGuard>,
    _memory: Option<VmmMapping>,
}

impl Inbox {
    /// Of a communicator of so many ranks, with room for `bytes` bytes.
    pub fn new(context: &Context, ranks: u32, bytes: u64) -> Self {
        Self { context: context.clone(), ranks, bytes, open: OnceLock::new() }
    }

    /// The inbox of this rank, `me`, if all have one and reach all. The same on all ranks; waits
    /// for them, the first time.
    pub fn open(&self, registration: &Registration, me: Rank) -> Result<Option<&OpenInbox>, Error> {
        if let Some(open) = self.open.get() {
            return Ok(open.as_ref());
        }
        let own = self.show(registration)?;
        let open = self.find(registration, me, own)?;
        Ok(self.open.get_or_init(|| open).as_ref())
    }

    /// How much memory it has taken so far.
    pub fn held_bytes(&self) -> u64 {
        self.open.get().and_then(Option::as_ref).map_or(0, |_| self.bytes)
    }

    /// Makes memory and shows it to peers; or nothing, where it cannot be had.
    fn show(&self, registration: &Registration) -> Result<OwnInbox, Error> {
        let memory = self.allocate();
        let bytes = self.bytes;
        let shown = |of: &VmmMapping| ShownMemory { address: of.ptr().0, bytes, export: None };
        let shown = memory.as_ref().map(shown);
        let guard = registration.show(WINDOW, shown)?;
        let export = guard.as_ref().and_then(|guard| guard.export());
        let nothing = ShownMemory { address: 0, bytes: 0, export: None };
        let shown = ShownMemory { export, ..shown.unwrap_or(nothing) };
        Ok(OwnInbox { shown, _guard: guard, _memory: memory })
    }

    fn allocate(&self) -> Option<VmmMapping> {
        let device = self.context.device();
        // The first call may be captured.
        let _relaxed = CaptureModeGuard::relaxed(device.driver()).ok()?;
        let bytes = usize::try_from(self.bytes).ok().filter(|bytes| *bytes > 0)?;
        VmmAllocation::new(&self.context, bytes).and_then(|memory| memory.map(&[device])).ok()
    }

    fn find(
        &self,
        registration: &Registration,
        me: Rank,
        own: OwnInbox,
    ) -> Result<Option<OpenInbox>, Error> {
        let shown = (0..self.ranks).map(Rank).map(|rank| match rank == me {
            true => Ok(own.shown),
            false => registration.find_shown(rank, WINDOW),
        });
        let shown = match shown.collect::<Result<Vec<_>, Error>>() {
            Ok(shown) => shown,
            Err(error) if error.kind() == ErrorKind::InvalidUsage => return Ok(None),
            Err(error) => return Err(error),
        };
        if !registration.all_have_mapped(&shown)? {
            return Ok(None);
        }
        let bytes = shown.iter().map(|of| of.bytes).min().unwrap_or(0);
        let slot_bytes = bytes / u64::from(self.ranks.max(2) - 1) / 256 * 256;
        let starts = shown.iter().map(|of| of.address).collect();
        Ok((slot_bytes > 0).then_some(OpenInbox { me, slot_bytes, starts, _own: own }))
    }
}

impl OpenInbox {
    /// Bytes of a contribution: a multiple of the alignment of packs.
    pub fn slot_bytes(&self) -> u64 {
        self.slot_bytes
    }

    /// Where this rank has the contributions of its peers: slot after slot, ascending.
    pub fn own_slots(&self) -> Result<DevicePtr, Error> {
        self.start(self.me).map(DevicePtr)
    }

    /// Where the slot of this rank lies in the inbox of `to`, which has none of its own there.
    pub fn slot_at(&self, to: Rank) -> Result<u64, Error> {
        let slot = u64::from(self.me.0) - u64::from(self.me > to);
        Ok(self.start(to)? + slot * self.slot_bytes)
    }

    fn start(&self, rank: Rank) -> Result<u64, Error> {
        let start = self.starts.get(rank.index()).copied();
        start.ok_or_else(|| Error::internal(format!("{rank} has no inbox")))
    }
}
