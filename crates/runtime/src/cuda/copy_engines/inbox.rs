//! Memory of a rank into which its peers copy what it is to combine.

use std::sync::OnceLock;

use msccl_collective::Rank;
use msccl_fabric::Group;
use msccl_gpu::{Context, DevicePtr, VmmAllocation, VmmMapping};

use super::super::registration::{OpenWindowGuard, Registration};
use crate::engine::{ShownMemory, WindowGuard as _};
use crate::error::{Error, ErrorKind};

/// How much room it has for the contributions of all peers. Reductions of more come in rounds, at
/// whose ends links have little to do.
const BYTES: u64 = 256 << 20;

/// Which window it is of those that ranks show; callers' are counted from 1.
const WINDOW: u64 = 0;

/// An inbox, and where those of peers lie.
pub(super) struct Inbox {
    own: ShownMemory,
    ranks: u32,
    _memory: VmmMapping,
    _guard: Option<OpenWindowGuard>,
    /// By rank, as this rank reaches them; nothing, if some rank cannot reach all.
    addresses: OnceLock<Option<Vec<u64>>>,
}

impl Inbox {
    /// Makes that of this rank of `group`, and shows it to all peers. Every rank calls it.
    pub fn open(
        group: &Group,
        context: &Context,
        registration: &Registration,
    ) -> Result<Self, Error> {
        let memory = VmmAllocation::new(context, BYTES as usize)?;
        let memory = memory.map(&[context.device()])?;
        let own = ShownMemory { address: memory.ptr().0, bytes: BYTES, export: None };
        let guard = registration.show(WINDOW, Some(own))?;
        let own = ShownMemory { export: guard.as_ref().and_then(|guard| guard.export()), ..own };
        let (ranks, addresses) = (group.ranks(), OnceLock::new());
        Ok(Self { own, ranks, _memory: memory, _guard: guard, addresses })
    }

    /// Bytes of a contribution: a multiple of the alignment of packs.
    pub fn slot_bytes(&self) -> u64 {
        BYTES / u64::from(self.ranks.max(2) - 1) / 256 * 256
    }

    /// Where this rank has the contributions of its peers: slot after slot, ascending.
    pub fn own_slots(&self) -> DevicePtr {
        DevicePtr(self.own.address)
    }

    /// Where the slot of this rank lies in the inbox of `to`, if all ranks reach all. The same on
    /// all ranks; waits for them, the first time.
    pub fn slot_at(
        &self,
        registration: &Registration,
        me: Rank,
        to: Rank,
    ) -> Result<Option<u64>, Error> {
        let addresses = match self.addresses.get() {
            Some(addresses) => addresses,
            None => {
                let found = self.find(registration, me)?;
                self.addresses.get_or_init(|| found)
            }
        };
        let start = addresses.as_ref().and_then(|of| of.get(to.index()));
        // The owner has no slot of its own.
        let slot = u64::from(me.0) - u64::from(me > to);
        Ok(start.map(|start| start + slot * self.slot_bytes()))
    }

    fn find(&self, registration: &Registration, me: Rank) -> Result<Option<Vec<u64>>, Error> {
        let shown = (0..self.ranks).map(Rank).map(|rank| match rank == me {
            true => Ok(self.own),
            false => registration.find_shown(rank, WINDOW),
        });
        match shown.collect::<Result<Vec<_>, Error>>() {
            Ok(shown) => {
                let all = registration.all_have_mapped(&shown)?;
                Ok(all.then(|| shown.iter().map(|of| of.address).collect()))
            }
            Err(error) if error.kind() == ErrorKind::InvalidUsage => Ok(None),
            Err(error) => Err(error),
        }
    }
}
