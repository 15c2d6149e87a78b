//! The thread that maps what peers lend, and notices when what this rank lent is gone.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::{Duration, Instant};

use msccl_collective::Rank;
use msccl_gpu::{CaptureModeGuard, DevicePtr, IpcMapping};

use super::ledger::{Allocation, ENTRIES};
use super::{Neighbour, Shared};
use crate::error::Error;

/// How often it looks while there is something new, and for how long after.
const BUSY_TICK: Duration = Duration::from_millis(1);
const BUSY: Duration = Duration::from_secs(1);

/// How often it looks otherwise, and whether allocations still live.
const IDLE_TICK: Duration = Duration::from_millis(100);

/// What this rank has mapped of its peers.
pub(super) struct Borrower {
    shared: Arc<Shared>,
    mapped: BTreeMap<(Rank, u32), Mapped>,
}

/// An allocation of a peer.
struct Mapped {
    generation: u64,
    /// Keeps it mapped, where a plain address does not do.
    _mapping: Option<IpcMapping>,
}

impl Borrower {
    pub fn new(shared: Arc<Shared>) -> Self {
        Self { shared, mapped: BTreeMap::new() }
    }

    /// Until the communicator ends.
    pub fn run(mut self) {
        let (mut busy_until, mut checked) = (Instant::now() + BUSY, Instant::now());
        while !self.shared.ends.load(Ordering::Acquire) {
            let news = self.look();
            let now = Instant::now();
            if news {
                busy_until = now + BUSY;
            }
            if now - checked >= IDLE_TICK {
                self.shared.retire_what_is_gone();
                checked = now;
            }
            let asleep = if now < busy_until { BUSY_TICK } else { IDLE_TICK };
            thread::park_timeout(asleep);
            // Woken by a caller with a new buffer: peers will have new ones, too.
            if now.elapsed() < asleep {
                busy_until = now + BUSY;
            }
        }
    }

    /// Maps what is new and unmaps what is gone; whether there was any such.
    fn look(&mut self) -> bool {
        let shared = self.shared.clone();
        let all = shared.peers.iter().flat_map(|peer| (0..ENTRIES).map(move |entry| (peer, entry)));
        let mut news = false;
        for (peer, entry) in all {
            let key = (peer.rank, entry);
            let live = peer.ledger.read(entry);
            let mapped = self.mapped.get(&key).map(|mapped| mapped.generation);
            if live.as_ref().map(|(generation, _)| *generation) == mapped {
                continue;
            }
            news = true;
            // No launch uses the old one any more: see `docs/MEMORY.md`, section 5.
            self.mapped.remove(&key);
            if let Some((generation, allocation)) = live {
                let (address, mapping) = shared.map(peer, &allocation).unzip();
                self.mapped.insert(key, Mapped { generation, _mapping: mapping.flatten() });
                peer.ledger.tell(entry, shared.me, generation, address);
            }
        }
        news
    }
}

impl Shared {
    /// Where `allocation` of `peer` lies for this rank, and what keeps it there.
    fn map(&self, peer: &Neighbour, allocation: &Allocation) -> Option<(u64, Option<IpcMapping>)> {
        match peer.same_process {
            Some(true) => Some((allocation.base, None)),
            Some(false) => None,
            None => {
                let mapping = self.open(allocation).ok()?;
                let whole = mapping.length_bytes() as u64 >= allocation.length_bytes;
                whole.then(|| (mapping.ptr().0, Some(mapping)))
            }
        }
    }

    fn open(&self, allocation: &Allocation) -> Result<IpcMapping, Error> {
        // A caller of this process may be capturing.
        let _relaxed = CaptureModeGuard::relaxed(self.context.device().driver())?;
        Ok(IpcMapping::open(&self.context, &allocation.handle)?)
    }

    /// Allocations whose addresses now name something else, or nothing, are lent no more.
    fn retire_what_is_gone(&self) {
        self.known().lent.retain(|id, entry| {
            let lives = self.context.buffer_id(DevicePtr(entry.base)).is_ok_and(|now| now == *id);
            if !lives {
                self.own.retire(entry.number);
            }
            lives
        });
    }
}
