//! The importer: the thread that maps what peers export, and withdraws exports of freed memory.

use std::collections::BTreeMap;
use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::{Duration, Instant};

use msccl_collective::Rank;
use msccl_gpu::{CaptureModeGuard, DevicePtr, IpcHandle, IpcMapping, VmmAllocation, VmmMapping};

use super::export_table::{Allocation, EXPORTS_MAX, Handle};
use super::exports::{KnownAllocations, OutgoingSegment};
use super::{Neighbour, Process, RegistrationShared, is_at};
use crate::error::Error;

/// How often it looks while there is something new, and for how long after.
const BUSY_TICK: Duration = Duration::from_millis(1);
const BUSY: Duration = Duration::from_secs(1);

/// How often it looks otherwise, and whether allocations still live.
const IDLE_TICK: Duration = Duration::from_millis(100);

/// Marks descriptors of segments among others that ranks send, beside the entry and its generation.
const TAG: u64 = 0x6c65 << 48;

/// The tag of the descriptor for `entry` in `generation`.
fn tag(entry: u32, generation: u64) -> u64 {
    TAG | u64::from(entry) << 32 | (generation & u64::from(u32::MAX))
}

/// What keeps an allocation of a peer mapped.
enum Mapping {
    Plain { _kept: IpcMapping },
    Segment(VmmMapping),
}

/// What this rank has mapped of its peers.
pub(super) struct Importer {
    shared: Arc<RegistrationShared>,
    mapped: BTreeMap<(Rank, u32), Mapping>,
    /// The generations of every peer's entries that have been looked at.
    seen: Vec<[u64; EXPORTS_MAX as usize]>,
}

impl Importer {
    pub fn new(shared: Arc<RegistrationShared>) -> Self {
        let seen = vec![[0; EXPORTS_MAX as usize]; shared.peers.len()];
        Self { shared, mapped: BTreeMap::new(), seen }
    }

    /// Until the communicator ends.
    pub fn run(mut self) {
        let (mut busy_until, mut checked) = (Instant::now() + BUSY, Instant::now());
        while !self.shared.ends.load(Ordering::Acquire) {
            if let Some(instead) = self.shared.instead.get().cloned() {
                return self.detach(&instead);
            }
            self.shared.publish_segments();
            let has_changed = self.look();
            let now = Instant::now();
            if has_changed {
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

    /// Puts `instead` where segments of peers are mapped, and keeps that until the end. From here
    /// on nothing is mapped.
    fn detach(mut self, instead: &VmmAllocation) {
        let device = self.shared.context.device();
        let segments = self.mapped.values_mut().filter_map(|mapping| match mapping {
            Mapping::Plain { _kept: _ } => None,
            Mapping::Segment(segment) => Some(segment),
        });
        // A caller of this process may be capturing.
        let relaxed = CaptureModeGuard::relaxed(device.driver());
        let replaced: Vec<_> = segments.map(|segment| segment.replace(instead, device)).collect();
        drop(relaxed);
        let is_detached = replaced.iter().all(Result::is_ok);
        self.shared.detached.store(is_detached, Ordering::Release);
        while !self.shared.ends.load(Ordering::Acquire) {
            thread::park_timeout(IDLE_TICK);
        }
    }

    /// Maps what is new and unmaps what is gone; whether there was any such.
    fn look(&mut self) -> bool {
        let Self { shared, mapped, seen } = self;
        let mut has_changed = false;
        for (peer, seen) in shared.peers.iter().zip(seen) {
            for (entry, seen) in (0..).zip(seen) {
                let generation = peer.export_table.generation(entry);
                if generation == *seen {
                    continue;
                }
                has_changed = true;
                // No launch uses the old one any more: see `docs/MEMORY.md`, section 5.
                mapped.remove(&(peer.rank, entry));
                shared.forget(peer, entry, *seen + 1..generation);
                match peer.export_table.read(entry) {
                    // It is gone, unless it is being replaced.
                    None if generation.is_multiple_of(2) => *seen = generation,
                    None => {}
                    Some((generation, allocation)) => {
                        // Its descriptor may still be on its way.
                        let found = shared.map(peer, entry, generation, &allocation);
                        let Some(found) = found else { continue };
                        let (address, mapping) = found.unzip();
                        mapped.extend(mapping.flatten().map(|of| ((peer.rank, entry), of)));
                        peer.export_table.set_answer(entry, shared.me, generation, address);
                        *seen = generation;
                    }
                }
            }
        }
        has_changed
    }
}

impl RegistrationShared {
    /// Drops the descriptors of `generations` that were gone before this rank looked: they keep
    /// memory. Plain allocations have none.
    fn forget(&self, peer: &Neighbour, entry: u32, generations: Range<u64>) {
        for generation in generations.filter(|generation| !generation.is_multiple_of(2)) {
            drop(self.group.try_receive_fd(peer.rank, tag(entry, generation)));
        }
    }

    /// Where `allocation`, in `entry` of `peer`, lies for this rank, and what keeps it there, or
    /// that it cannot; `None` if that is not known yet.
    fn map(
        &self,
        peer: &Neighbour,
        entry: u32,
        generation: u64,
        allocation: &Allocation,
    ) -> Option<Option<(u64, Option<Mapping>)>> {
        let Allocation { base, length_bytes, handle } = *allocation;
        match (handle, peer.process) {
            (_, Process::SameGpu) => Some(Some((base, None))),
            (Handle::Plain(_), Process::Same { has_access }) => {
                Some(has_access.then_some((base, None)))
            }
            (Handle::Plain(handle), Process::Other) => {
                let mapping = self.open(&handle).ok();
                let whole = mapping.filter(|of| of.length_bytes() as u64 >= length_bytes);
                Some(
                    whole.map(|mapping| (mapping.ptr().0, Some(Mapping::Plain { _kept: mapping }))),
                )
            }
            // Within a process, too: a handle that the owner may be giving back must not be mapped
            // (`docs/MEMORY.md`, section 6).
            (Handle::Segment, Process::Same { .. } | Process::Other) => {
                let descriptor = self.group.try_receive_fd(peer.rank, tag(entry, generation));
                let Some(descriptor) = descriptor.transpose()?.ok() else { return Some(None) };
                let mapping = self.import(descriptor.as_fd(), length_bytes as usize).ok();
                Some(mapping.map(|mapping| (mapping.ptr().0, Some(Mapping::Segment(mapping)))))
            }
        }
    }

    fn open(&self, handle: &IpcHandle) -> Result<IpcMapping, Error> {
        // A caller of this process may be capturing.
        let _relaxed = CaptureModeGuard::relaxed(self.context.device().driver())?;
        Ok(IpcMapping::open(&self.context, handle)?)
    }

    /// Maps a peer's segment, for this rank's GPU.
    fn import(&self, descriptor: BorrowedFd<'_>, length_bytes: usize) -> Result<VmmMapping, Error> {
        // A caller of this process may be capturing.
        let _relaxed = CaptureModeGuard::relaxed(self.context.device().driver())?;
        let segment = VmmAllocation::import(&self.context, descriptor, length_bytes)?;
        Ok(segment.map(&[self.context.device()])?)
    }

    /// Puts new segments into the export table, after those who map them have been sent their
    /// descriptors.
    fn publish_segments(&self) {
        let outgoing = std::mem::take(&mut self.exports().outgoing);
        for OutgoingSegment { id: _, entry, descriptor } in outgoing {
            let sent = descriptor.iter().all(|descriptor| {
                let tag = tag(entry.number, entry.generation);
                let mapping = self.peers.iter().filter(|peer| peer.process != Process::SameGpu);
                mapping
                    .map(|peer| self.group.send_fd(peer.rank, tag, descriptor))
                    .all(|sent| sent.is_ok())
            });
            // Who was not sent it would wait for it.
            if sent {
                let (base, length_bytes) = (entry.base, entry.length_bytes);
                let segment = Allocation { base, length_bytes, handle: Handle::Segment };
                self.own.publish(entry.number, &segment);
            }
        }
    }

    /// Allocations whose addresses now name something else, or nothing, are exported no more. Of
    /// what their caller may be freeing nothing is asked but ids: other questions may end the
    /// process (`docs/MEMORY.md`, section 6).
    fn retire_what_is_gone(&self) {
        let mut exports = self.exports();
        let KnownAllocations { exported, refused: _, outgoing, windows } = &mut *exports;
        exported.retain(|id, entry| {
            let lives = is_at(&self.context, DevicePtr(entry.base), *id);
            if !lives {
                outgoing.retain(|waiting| waiting.id != *id);
                windows.forget(entry.number);
                self.own.retire(entry.number);
            }
            lives
        });
    }
}
