//! Making the wires: every rank's arena, mapped by all ranks. An unsafe boundary.
//!
//! Arenas lie in the memory of their ranks' GPUs, and travel as descriptors of virtual memory,
//! which works alike between GPUs, between processes, within one process and on one GPU. Where some
//! rank cannot map another's of its node, all arenas lie in host memory that the GPUs reach;
//! slower, and without LL128, whose lines the way there may tear.
//!
//! A rank that is suspended has given up the memory of arenas on GPUs, and kept their addresses,
//! which graphs name. What comes back is empty, as new wires are. Host memory stays.
//!
//! The memory of wires between nodes is [`super::inter_node`]'s.

#![expect(unsafe_code, reason = "hands memory of other ranks to devices")]

use std::os::fd::AsFd;
use std::ptr::NonNull;
use std::sync::atomic::Ordering;
use std::sync::{Mutex, MutexGuard, PoisonError};

use msccl_collective::{Protocol, Rank};
use msccl_fabric::{Group, SharedMemory};
use msccl_gpu::{Context, DevicePtr, RegisteredMemory, VmmAllocation, VmmMapping};
use msccl_plan::launch::WireEnd;
use msccl_select::ArenaLocation;

use super::arena::{Layout, View};
use crate::error::{Error, ErrorKind};

/// Tags of what ranks send one another.
const DEVICE_ARENA: u64 = 0x6172_656e_6131;
const HOST_ARENA: u64 = 0x6172_656e_6132;

/// Why there are no wires.
#[derive(Debug)]
pub(super) enum WireError {
    /// Some rank cannot map another's arena.
    Unmappable(Error),
    /// Anything else, such as exhausted memory.
    Failed(Error),
}

impl WireError {
    pub fn into_error(self) -> Error {
        match self {
            WireError::Unmappable(error) | WireError::Failed(error) => error,
        }
    }
}

impl From<Error> for WireError {
    fn from(error: Error) -> Self {
        WireError::Failed(error)
    }
}

/// A rank's wires: its own arena, and the mapped arenas of its peers.
pub(super) struct WireMemory {
    pub view: View,
    /// Keeps the mappings, by rank.
    arenas: Mutex<Vec<Arena>>,
}

/// An arena as this rank has mapped it.
enum Arena {
    Device(VmmMapping),
    Host(HostArena),
    /// Of a rank on another node: not mapped.
    Elsewhere,
}

impl Arena {
    fn ptr(&self) -> DevicePtr {
        match self {
            Arena::Device(mapping) => mapping.ptr(),
            Arena::Host(arena) => arena.registered.ptr(),
            Arena::Elsewhere => DevicePtr::default(),
        }
    }

    /// Writes `bytes` at `offset`, which is a multiple of eight; nobody uses the arena yet.
    fn write(&self, offset: u64, bytes: &[u8]) -> Result<(), Error> {
        let offset = offset as usize;
        match self {
            Arena::Device(mapping) => {
                let end = offset + bytes.len();
                Ok(mapping.span().slice(offset..end)?.write(bytes)?)
            }
            Arena::Host(arena) => {
                for (at, word) in bytes.as_chunks().0.iter().enumerate() {
                    let to = arena.memory.word(offset + 8 * at);
                    let to = to.ok_or_else(|| Error::internal("a table exceeds its arena"))?;
                    to.store(u64::from_ne_bytes(*word), Ordering::Relaxed);
                }
                Ok(())
            }
            Arena::Elsewhere => Err(Error::internal("another host's arena is not mapped")),
        }
    }
}

/// Fields drop in order: the registration ends before the mapping.
struct HostArena {
    registered: RegisteredMemory,
    memory: SharedMemory,
}

impl WireMemory {
    /// The wires of this rank under `layout`, those to other nodes with their ends in the table
    /// `inter_node_table`. Every rank of `group` calls it, in the same `place`; on failure of one,
    /// all fail, and in the same way.
    pub fn make(
        group: &Group,
        context: &Context,
        layout: Layout,
        inter_node_table: u64,
        place: ArenaLocation,
    ) -> Result<Self, WireError> {
        let bytes = usize::try_from(layout.bytes()).unwrap_or(usize::MAX);
        let maker = ArenaMaker { group, context, layout: &layout, bytes };
        let arenas = match place {
            ArenaLocation::Device => maker.on_device()?,
            ArenaLocation::Host => maker.on_host()?,
        };
        let pointers = arenas.iter().map(Arena::ptr).collect();
        let view = View { layout, me: group.rank(), arenas: pointers, inter_node_table };
        write_tables(group, &view, &arenas)?;
        Ok(Self { view, arenas: Mutex::new(arenas) })
    }

    /// Gives up the memory of arenas on GPUs. No rank may be using its wires.
    pub fn suspend(&self) -> Result<(), Error> {
        self.arenas().iter_mut().try_for_each(|arena| match arena {
            Arena::Device(mapping) => Ok(mapping.unmap()?),
            Arena::Host(_) | Arena::Elsewhere => Ok(()),
        })
    }

    /// Makes again what [`WireMemory::suspend`] gave up, at the same addresses. Every rank of
    /// `group` calls it.
    pub fn resume(&self, group: &Group, context: &Context) -> Result<(), Error> {
        let mut arenas = self.arenas();
        let is_on_device = arenas.iter().any(|arena| matches!(arena, Arena::Device(_)));
        if !is_on_device {
            return Ok(());
        }
        let (layout, bytes) = (&self.view.layout, self.view.layout.bytes() as usize);
        let maker = ArenaMaker { group, context, layout, bytes };
        maker.on_device_again(&mut arenas)?;
        write_tables(group, &self.view, &arenas)
    }

    /// Bytes of GPU memory that [`WireMemory::suspend`] gives up.
    pub fn device_bytes(&self) -> u64 {
        let arenas = self.arenas();
        match arenas.get(self.view.me.index()) {
            Some(Arena::Device(mapping)) => mapping.length_bytes() as u64,
            Some(Arena::Host(_) | Arena::Elsewhere) | None => 0,
        }
    }

    fn arenas(&self) -> MutexGuard<'_, Vec<Arena>> {
        self.arenas.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Writes the ends of this rank's wires into its arena. Every rank of `group` calls it.
fn write_tables(group: &Group, view: &View, arenas: &[Arena]) -> Result<(), Error> {
    let own = arenas.get(view.me.index());
    let written = Protocol::ALL.iter().try_for_each(|&protocol| {
        let table: Vec<_> = view.initial_table(protocol).into_iter().flat_map(end_bytes).collect();
        own.map_or(Ok(()), |arena| arena.write(view.layout.table(protocol), &table))
    });
    // Nobody writes into a table before its owner has.
    fail_together(group, written)
}

/// Makes arenas of `bytes` bytes.
struct ArenaMaker<'a> {
    group: &'a Group,
    context: &'a Context,
    layout: &'a Layout,
    bytes: usize,
}

impl ArenaMaker<'_> {
    fn on_device(&self) -> Result<Vec<Arena>, WireError> {
        let Self { group, context, layout: _, bytes } = *self;
        let own = VmmAllocation::new(context, bytes).and_then(|allocation| {
            let mapping = allocation.map(&[context.device()])?;
            mapping.span().fill(0)?;
            Ok((allocation.export()?, mapping))
        });
        let (descriptor, mapping) = fail_together(group, own.map_err(Error::from))?;
        self.send_descriptor(DEVICE_ARENA, &descriptor)?;
        let mut own = Some(Arena::Device(mapping));
        let mapped = self.each(&mut own, |peer| {
            let descriptor = group.receive_fd(peer, DEVICE_ARENA)?;
            let granularity = context.device().vmm_granularity()?;
            let bytes = bytes.next_multiple_of(granularity);
            let allocation = VmmAllocation::import(context, descriptor.as_fd(), bytes)?;
            Ok(Arena::Device(allocation.map(&[context.device()])?))
        });
        fail_together(group, mapped).map_err(WireError::Unmappable)
    }

    /// Fills `arenas`, whose memory was given up, with new memory.
    fn on_device_again(&self, arenas: &mut [Arena]) -> Result<(), Error> {
        let Self { group, context, layout: _, bytes } = *self;
        let devices = [context.device()];
        let own = VmmAllocation::new(context, bytes).and_then(|allocation| {
            if let Some(Arena::Device(mapping)) = arenas.get_mut(group.rank().index()) {
                mapping.map_again(&allocation, &devices)?;
                mapping.span().fill(0)?;
            }
            allocation.export()
        });
        let descriptor = fail_together(group, own.map_err(Error::from))?;
        self.send_descriptor(DEVICE_ARENA, &descriptor)?;
        let again = arenas.iter_mut().zip((0..).map(Rank)).map(|(arena, rank)| match arena {
            Arena::Device(mapping) if rank != group.rank() => {
                let descriptor = group.receive_fd(rank, DEVICE_ARENA)?;
                let length_bytes = mapping.length_bytes();
                let allocation = VmmAllocation::import(context, descriptor.as_fd(), length_bytes)?;
                Ok(mapping.map_again(&allocation, &devices)?)
            }
            Arena::Device(_) | Arena::Host(_) | Arena::Elsewhere => Ok(()),
        });
        // Every descriptor is taken, even after a failure.
        let again: Vec<Result<(), Error>> = again.collect();
        fail_together(group, again.into_iter().collect())
    }

    fn on_host(&self) -> Result<Vec<Arena>, WireError> {
        let Self { group, bytes, .. } = *self;
        let memory = fail_together(group, SharedMemory::create(bytes).map_err(Error::from))?;
        self.send_descriptor(HOST_ARENA, &memory.descriptor().map_err(Error::from)?)?;
        let own = self.register(memory);
        let mut own = Some(fail_together(group, own)?);
        let mapped = self.each(&mut own, |peer| {
            let descriptor = group.receive_fd(peer, HOST_ARENA)?;
            self.register(SharedMemory::open(descriptor, bytes)?)
        });
        Ok(fail_together(group, mapped)?)
    }

    fn register(&self, memory: SharedMemory) -> Result<Arena, Error> {
        let start = NonNull::new(memory.as_ptr())
            .ok_or_else(|| Error::internal("shared memory lies at address 0"))?;
        // SAFETY: the mapping lives in the same value and is dropped after the registration; only
        // kernels use the memory, by the rules of links.
        let registered = unsafe { RegisteredMemory::new(self.context, start, memory.len()) };
        Ok(Arena::Host(HostArena { registered: registered?, memory }))
    }

    /// Sends this rank's descriptor to all others of its node.
    fn send_descriptor(&self, tag: u64, descriptor: &impl AsFd) -> Result<(), Error> {
        let me = self.group.rank();
        let is_on_node = |peer: &Rank| *peer != me && self.layout.is_intra_node(*peer);
        for peer in (0..self.group.ranks()).map(Rank).filter(is_on_node) {
            self.group.send_fd(peer, tag, descriptor)?;
        }
        Ok(())
    }

    /// The arenas of all ranks: `own`, and what `map` gives for each peer of the node. Every
    /// descriptor is taken, even after a failure.
    fn each(
        &self,
        own: &mut Option<Arena>,
        map: impl Fn(Rank) -> Result<Arena, Error>,
    ) -> Result<Vec<Arena>, Error> {
        let me = self.group.rank();
        let arenas =
            (0..self.group.ranks()).map(Rank).map(|rank| match own.take_if(|_| rank == me) {
                Some(own) => Ok(own),
                None if !self.layout.is_intra_node(rank) => Ok(Arena::Elsewhere),
                None => {
                    map(rank).map_err(|error| error.while_doing(format_args!("mapping {rank}")))
                }
            });
        let arenas: Vec<_> = arenas.collect();
        arenas.into_iter().collect()
    }
}

/// The bytes of an end as `msccl_wire_end` has them.
fn end_bytes(end: WireEnd) -> impl Iterator<Item = u8> {
    let WireEnd { slots, far, seen, count } = end;
    [slots, far, seen, count].into_iter().flat_map(u64::to_le_bytes)
}

/// Whether all ranks were as lucky as this one; if not, all get an error that says who was not.
pub(super) fn fail_together<T>(group: &Group, mine: Result<T, Error>) -> Result<T, Error> {
    let said = mine.as_ref().err().map(ToString::to_string).unwrap_or_default();
    let all = group.all_gather(said.as_bytes())?;
    let value = mine?;
    let unlucky = all.iter().enumerate().find(|(_, said)| !said.is_empty());
    match unlucky {
        None => Ok(value),
        Some((rank, said)) => {
            let text = format!("{}: {}", Rank::from(rank), String::from_utf8_lossy(said));
            Err(Error::new(ErrorKind::Cuda, text))
        }
    }
}
