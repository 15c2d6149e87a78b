//! Zero-copy registration: exports the caller's buffers to peers, so that links deliver directly.
//! `docs/MEMORY.md`, sections 5 and 6, says why no stale mapping is ever used.
//!
//! A launch that is to have direct links calls [`Registration::views`] for where each peer sees the
//! buffers it was given. Peers map what the [`export_table`] of a rank describes, in a thread of
//! their own ([`importer`]), which begins with the first such launch, and all ranks have the same;
//! until they have mapped it, there is nothing to see, and links go through slots.

mod export;
mod export_table;
mod exports;
mod importer;
mod open_windows;
mod segments;
mod windows;

pub(super) use open_windows::OpenWindowGuard;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use msccl_collective::Rank;
use msccl_fabric::{Group, Peer};
use msccl_gpu::{
    CaptureModeGuard, Context, Device, DevicePtr, IpcHandle, MemoryKind, VmmAllocation,
};
use msccl_plan::launch::{DIRECT_RANKS_MAX, OFFER_SHIFT, View};

use super::links::fail_together;
use crate::error::Error;
use export::{Export, MemoryClass};
use export_table::{Allocation, ExportTable, Handle};
use exports::{KnownAllocations, OutgoingSegment};
use importer::Importer;
use segments::ImportedSegment;

/// Marks the export table's descriptor among others that ranks send.
const TAG: u64 = u64::from_be_bytes(*b"\0\0ledger");

/// How long a patient call waits for peers to map its buffers, from the first call on that had
/// them: one that is being captured, or measured.
const PATIENCE: Duration = Duration::from_millis(100);

/// How long the importer may take to detach segments.
const DETACHED_WITHIN: Duration = Duration::from_secs(10);

/// How often it looks.
const POLL: Duration = Duration::from_micros(200);

/// What a call has that peers could use directly: the caller's memory from an address on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct ExportedBuffers {
    pub address: u64,
    pub length_bytes: u64,
}

/// This rank's allocations, and the peers who map them.
pub(super) struct Registration {
    shared: Arc<RegistrationShared>,
    /// The importer's; nothing if it could not begin, and then all stays staged.
    thread: OnceLock<Option<JoinHandle<()>>>,
}

/// What the calling threads and the importer share.
struct RegistrationShared {
    group: Arc<Group>,
    context: Context,
    me: Rank,
    own: ExportTable,
    peers: Vec<Neighbour>,
    /// Whether every mapping has an id of its own, so that virtual memory can be exported.
    exports_segments: bool,
    exports: Mutex<KnownAllocations>,
    ends: AtomicBool,
    /// What mappings of peers' segments are to have instead of these, once that is requested.
    instead: OnceLock<Arc<VmmAllocation>>,
    /// Whether they have it.
    detached: AtomicBool,
    /// Calls of which every peer could use all that it needed.
    calls: AtomicU64,
}

/// A peer on this host.
struct Neighbour {
    rank: Rank,
    export_table: ExportTable,
    process: Process,
}

/// Where a peer runs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Process {
    /// In this rank's process, on its GPU: what lies anywhere lies there for both.
    SameGpu,
    /// In this rank's process, on another GPU; whether this rank's GPU `has_access` to the peer's
    /// plain allocations.
    Same {
        has_access: bool,
    },
    Other,
}

impl Registration {
    /// Tables for all ranks of `group` on one host, if all have it `enabled`. Every rank calls it.
    pub fn join(
        group: &Arc<Group>,
        context: &Context,
        enabled: bool,
    ) -> Result<Option<Self>, Error> {
        let all = group.all_gather(&[u8::from(enabled && group.ranks() <= DIRECT_RANKS_MAX)])?;
        if all.iter().any(|said| said != &[1]) {
            return Ok(None);
        }
        let own = fail_together(group, ExportTable::create(group.ranks()))?;
        let uuids = group
            .all_gather(&fail_together(group, context.device().uuid().map_err(Error::from))?)?;
        let intra_node = || others(group).filter(|(me, peer)| peer.shares_descriptors(me));
        let descriptor = own.descriptor()?;
        intra_node().try_for_each(|(_, peer)| group.send_fd(peer.rank, TAG, descriptor))?;
        let neighbour = |(me, peer): (&Peer, &Peer)| {
            let descriptor = group.receive_fd(peer.rank, TAG)?;
            let uuid = uuids.get(peer.rank.index());
            let process = match me.same_process(peer) {
                true => within(context, uuid),
                false => Process::Other,
            };
            let export_table = ExportTable::open(descriptor, group.ranks())?;
            Ok(Neighbour { rank: peer.rank, export_table, process })
        };
        let peers =
            fail_together(group, intra_node().map(neighbour).collect::<Result<_, Error>>())?;
        let (group, context, me) = (group.clone(), context.clone(), group.rank());
        let (exports, ends, instead, detached, calls) = Default::default();
        let exports_segments = segments::have_distinct_ids(&context);
        let shared = RegistrationShared {
            group,
            context,
            me,
            own,
            peers,
            exports_segments,
            exports,
            ends,
            instead,
            detached,
            calls,
        };
        let shared = Arc::new(shared);
        Ok(Some(Self { shared, thread: OnceLock::new() }))
    }

    /// The thread that imports what peers export, begun now if it has not.
    fn importer(&self) -> Option<&JoinHandle<()>> {
        let start = || {
            let importer = Importer::new(self.shared.clone());
            let name = format!("msccl-lend-{}", self.shared.me.0);
            thread::Builder::new().name(name).spawn(move || importer.run()).ok()
        };
        self.thread.get_or_init(start).as_ref()
    }

    /// By rank: where it may find this rank's buffers, as far as links need them; nothing where it
    /// has not mapped all of those. A `patient` call waits a little for peers who have not.
    pub fn views(
        &self,
        input: Option<ExportedBuffers>,
        output: Option<ExportedBuffers>,
        patient: bool,
    ) -> [View; DIRECT_RANKS_MAX as usize] {
        let mut views = [View::default(); DIRECT_RANKS_MAX as usize];
        let exports = input.is_some() || output.is_some();
        // Peers import, even if this rank exports nothing.
        self.importer();
        let [input, output] = self.look_up([input, output]);
        if patient {
            self.wait_for_answers([input, output]);
        }
        let mut all = true;
        for peer in &self.shared.peers {
            let seen = |place: BufferPlace| match place {
                BufferPlace::Unneeded => Some(0),
                BufferPlace::Nowhere => None,
                BufferPlace::At(entry, offset) => self.shared.seen_by(peer, &entry, offset),
            };
            let view = seen(input).zip(seen(output)).map(|(input, output)| View { input, output });
            all &= view.is_some();
            if let Some(to) = views.get_mut(peer.rank.index()) {
                *to = view.unwrap_or_default();
            }
        }
        self.shared.calls.fetch_add(u64::from(exports && all), Ordering::Relaxed);
        views
    }

    /// What can take segments of peers away in the end.
    pub fn detacher(&self) -> Detacher {
        self.importer();
        Detacher(self.shared.clone())
    }

    /// Calls so far of which every peer could use all that its links needed.
    pub fn calls(&self) -> u64 {
        self.shared.calls.load(Ordering::Relaxed)
    }

    fn look_up(&self, exported: [Option<ExportedBuffers>; 2]) -> [BufferPlace; 2] {
        let mut exports = self.shared.exports();
        let mut last: Option<Export> = None;
        exported.map(|buffers| {
            let Some(exported) = buffers else { return BufferPlace::Unneeded };
            // In place both lie in one allocation: one question to the driver will do.
            let again = last.and_then(|entry| Some((entry, entry.offset(exported)?)));
            let found = again.or_else(|| exports.windows.find(exported)).or_else(|| {
                let entry = self.entry(&mut exports, exported.address)?;
                Some((entry, entry.offset(exported)?))
            });
            last = found.map(|(entry, _)| entry);
            found.map_or(BufferPlace::Nowhere, |(entry, offset)| BufferPlace::At(entry, offset))
        })
    }

    /// The entry of the allocation in which `address` lies, made now if it is new.
    fn entry(&self, exports: &mut KnownAllocations, address: u64) -> Option<Export> {
        let id = self.shared.context.buffer_id(DevicePtr(address)).ok()?;
        if let Some(entry) = exports.exported.get(&id) {
            return Some(*entry);
        }
        // There may be room later.
        if exports.refused.contains(id) || exports.is_full() {
            return None;
        }
        let entry = self.shared.export(exports, id, DevicePtr(address));
        match entry {
            Some(entry) => {
                exports.exported.insert(id, entry);
                self.wake();
            }
            None => exports.refused.insert(id),
        }
        entry
    }

    fn wake(&self) {
        self.importer().iter().for_each(|thread| thread.thread().unpark());
    }

    fn wait_for_answers(&self, places: [BufferPlace; 2]) {
        for entry in places.iter().filter_map(BufferPlace::entry) {
            let waits_for = |peer| self.shared.answer(peer, &entry).is_none();
            let waits = || self.shared.peers.iter().any(waits_for);
            while entry.since.elapsed() < PATIENCE && waits() {
                thread::sleep(POLL);
            }
        }
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        self.shared.ends.store(true, Ordering::Release);
        if let Some(thread) = self.thread.take().flatten() {
            thread.thread().unpark();
            // A panic of the thread has been reported by the panic hook; there is nothing to add.
            let _ = thread.join();
        }
    }
}

/// What can take segments of peers away in the end.
pub(super) struct Detacher(Arc<RegistrationShared>);

impl Detacher {
    /// Takes the segments of peers from where this rank has mapped them, and puts `instead` there,
    /// which nobody reads: what still writes there harms no peer. Nothing of this rank may be using
    /// them. Whether that was done within some seconds; if not, it may be asked again.
    pub fn detach(&self, instead: &Arc<VmmAllocation>) -> bool {
        self.0.instead.get_or_init(|| instead.clone());
        let since = Instant::now();
        while !self.0.detached.load(Ordering::Acquire) && since.elapsed() < DETACHED_WITHIN {
            thread::sleep(POLL);
        }
        self.0.detached.load(Ordering::Acquire)
    }
}

/// Where a buffer lies.
#[derive(Clone, Copy)]
enum BufferPlace {
    /// No link delivers from it or to it.
    Unneeded,
    /// In no allocation that can be exported.
    Nowhere,
    At(Export, u64),
}

impl BufferPlace {
    fn entry(&self) -> Option<Export> {
        match *self {
            BufferPlace::Unneeded | BufferPlace::Nowhere => None,
            BufferPlace::At(entry, _) => Some(entry),
        }
    }
}

impl RegistrationShared {
    fn exports(&self) -> MutexGuard<'_, KnownAllocations> {
        self.exports.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What `peer` has answered about `entry`.
    fn answer(&self, peer: &Neighbour, entry: &Export) -> Option<u64> {
        self.own.answer(entry.number, peer.rank, entry.generation)
    }

    /// Where `peer` sees the byte at `offset` of `entry`.
    fn seen_by(&self, peer: &Neighbour, entry: &Export, offset: u64) -> Option<u64> {
        let base = self.answer(peer, entry).filter(|base| *base != 0)?;
        let end = base.checked_add(entry.length_bytes)?;
        (end >> OFFER_SHIFT == 0).then_some(base + offset)
    }

    /// Puts the allocation of `address`, of which `id` is the id, into the export table, if it can
    /// be exported and there is room.
    fn export(
        &self,
        exports: &mut KnownAllocations,
        id: u64,
        address: DevicePtr,
    ) -> Option<Export> {
        let number = exports.free_entry()?;
        if let Some(allocation) = self.describe(address).ok().flatten() {
            return self.export_plain(number, id, &allocation);
        }
        let outgoing = self.export_segment(number, id, address)?;
        let entry = outgoing.entry;
        exports.outgoing.push(outgoing);
        Some(entry)
    }

    fn export_plain(&self, number: u32, id: u64, allocation: &Allocation) -> Option<Export> {
        let Allocation { base, length_bytes, handle: _ } = *allocation;
        // The same allocation still: the answer is about this one.
        if !is_at(&self.context, DevicePtr(base), id) {
            return None;
        }
        let generation = self.own.publish(number, allocation);
        let (kind, since) = (MemoryClass::Plain, Instant::now());
        Some(Export { number, generation, base, length_bytes, kind, since })
    }

    /// What becomes entry `number` for the segment of `address`, of which `id` is the id.
    fn export_segment(&self, number: u32, id: u64, address: DevicePtr) -> Option<OutgoingSegment> {
        if !self.exports_segments {
            return None;
        }
        let segment = ImportedSegment::at(&self.context, address, id, self.is_mapped())?;
        let ImportedSegment { base, length_bytes, descriptor } = segment;
        let (generation, since) = (self.own.next_generation(number), Instant::now());
        let (length_bytes, kind) = (length_bytes as u64, MemoryClass::Segment);
        let entry = Export { number, generation, base, length_bytes, kind, since };
        Some(OutgoingSegment { id, entry, descriptor })
    }

    /// Whether some peer maps segments.
    fn is_mapped(&self) -> bool {
        self.peers.iter().any(|peer| peer.process != Process::SameGpu)
    }

    /// Whether some peer is another process.
    fn travels(&self) -> bool {
        self.peers.iter().any(|peer| peer.process == Process::Other)
    }

    /// The allocation of `address`, if peers can map it.
    fn describe(&self, address: DevicePtr) -> Result<Option<Allocation>, msccl_gpu::Error> {
        let _entered = self.context.enter()?;
        let driver = self.context.device().driver();
        // Somebody may be capturing; what happens here has nothing to do with that.
        let _relaxed = CaptureModeGuard::relaxed(driver)?;
        let plain = driver.pointer_info(address)?.is_some_and(|info| {
            let own = info.device == self.context.device().ordinal();
            info.kind == MemoryKind::Device && info.legacy_ipc && own
        });
        if !plain {
            return Ok(None);
        }
        let range = self.context.address_range(address)?;
        let handle = match self.travels() {
            true => self.context.ipc_handle(range.base)?,
            false => IpcHandle([0; 64]),
        };
        let handle = Handle::Plain(handle);
        let length_bytes = range.length_bytes as u64;
        Ok(Some(Allocation { base: range.base.0, length_bytes, handle }))
    }
}

/// Whether `id` names what lies at `base` now. Safe to call while another thread frees that.
fn is_at(context: &Context, base: DevicePtr, id: u64) -> bool {
    context.buffer_id(base).is_ok_and(|now| now == id)
}

/// This rank and each other one.
fn others(group: &Group) -> impl Iterator<Item = (&Peer, &Peer)> {
    let me = group.peer(group.rank());
    let others = group.peers().filter(|peer| peer.rank != group.rank());
    others.filter_map(move |peer| Some((me?, peer)))
}

/// Where a peer of this process is, of which the device is `uuid`.
fn within(context: &Context, uuid: Option<&Vec<u8>>) -> Process {
    let driver = context.device().driver();
    let devices = (0..driver.device_count()).filter_map(|ordinal| driver.device(ordinal).ok());
    let is_it = |of: &Device| of.uuid().is_ok_and(|of| uuid.is_some_and(|uuid| *uuid == of));
    match devices.into_iter().find(is_it) {
        Some(device) if device.ordinal() == context.device().ordinal() => Process::SameGpu,
        Some(device) => Process::Same { has_access: enable_access(context, device) },
        None => Process::Same { has_access: false },
    }
}

/// Whether kernels of `context` can access plain allocations of `device`, from here on.
fn enable_access(context: &Context, device: Device) -> bool {
    device.context().is_ok_and(|peer| context.enable_peer_access(&peer).is_ok())
}
