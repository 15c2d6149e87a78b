//! Virtual memory: physical memory and addresses apart, shared between processes as file
//! descriptors.
//!
//! A [`VmmAllocation`] is physical memory of one device; a [`VmmMapping`] is a range of addresses
//! at which it appears, open to the devices that the mapping names (peer access between contexts
//! does not count here). Physical memory lives as long as an allocation or a mapping, in any
//! process, holds it. All sizes are multiples of [`Device::vmm_granularity`], 2 MiB so far.

use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};

use cudarc::driver::sys;

use crate::address::DevicePtr;
use crate::calls::{Calls, SINGLE};
use crate::context::Context;
use crate::device::Device;
use crate::error::Error;
use crate::memory::DeviceSpan;

/// The kind of handle that travels as a file descriptor.
pub(crate) const POSIX_FILE_DESCRIPTOR: u32 =
    sys::CUmemAllocationHandleType::CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR.0;

impl Device {
    /// The size of which virtual memory's allocations and mappings are multiples, in bytes.
    pub fn vmm_granularity(self) -> Result<usize, Error> {
        const RECOMMENDED: u32 =
            sys::CUmemAllocationGranularity_flags::CU_MEM_ALLOC_GRANULARITY_RECOMMENDED as u32;
        let mut bytes = 0;
        self.calls().physical_granularity(&mut bytes, &properties(self)?, RECOMMENDED)?;
        Ok(bytes)
    }
}

/// Pinned memory of `device` that can be shared, and reached over PCIe where that is possible.
fn properties(device: Device) -> Result<sys::CUmemAllocationProp, Error> {
    let rdma = device.supports_rdma_to_virtual_memory()?;
    Ok(sys::CUmemAllocationProp {
        type_: sys::CUmemAllocationType::CU_MEM_ALLOCATION_TYPE_PINNED,
        requestedHandleTypes:
            sys::CUmemAllocationHandleType::CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
        location: location(device),
        win32HandleMetaData: std::ptr::null_mut(),
        allocFlags: sys::CUmemAllocationProp_st__bindgen_ty_1 {
            compressionType: 0,
            gpuDirectRDMACapable: rdma.into(),
            usage: 0,
            reserved: [0; 4],
        },
    })
}

fn location(device: Device) -> sys::CUmemLocation {
    let type_ = sys::CUmemLocationType::CU_MEM_LOCATION_TYPE_DEVICE;
    sys::CUmemLocation { type_, id: device.raw() }
}

/// Physical memory of a device.
#[derive(Debug)]
pub struct VmmAllocation {
    context: Context,
    handle: u64,
    length_bytes: usize,
}

impl VmmAllocation {
    /// At least `length_bytes` bytes, rounded up to the granularity.
    pub fn new(context: &Context, length_bytes: usize) -> Result<Self, Error> {
        let _entered = context.enter()?;
        let device = context.device();
        let rounded = length_bytes.checked_next_multiple_of(device.vmm_granularity()?);
        // Of the others the driver has less.
        let length_bytes = rounded.unwrap_or(length_bytes);
        let mut handle = 0;
        context.calls().physical_create(&mut handle, length_bytes, &properties(device)?, 0)?;
        Ok(Self { context: context.clone(), handle, length_bytes })
    }

    /// The memory behind `descriptor`, which another process exported, or this one, `length_bytes`
    /// long as that process knows. The descriptor is not needed afterwards.
    pub fn import(
        context: &Context,
        descriptor: BorrowedFd<'_>,
        length_bytes: usize,
    ) -> Result<Self, Error> {
        let _entered = context.enter()?;
        // The descriptor is passed where a pointer would stand; a borrowed one is not negative.
        let descriptor = descriptor.as_raw_fd().unsigned_abs() as usize;
        let mut handle = 0;
        context.calls().physical_import(&mut handle, descriptor, POSIX_FILE_DESCRIPTOR)?;
        Ok(Self { context: context.clone(), handle, length_bytes })
    }

    /// The memory that is mapped at `address`, by anyone in this process: one piece of a range
    /// that may be made of several. `length_bytes` is how long the piece is.
    ///
    /// Nobody may be unmapping the address meanwhile, or the last mapping of the memory while this
    /// value is dropped: with driver 580 either ends the process, or spoils its heap, within
    /// seconds of trying. Other addresses do not matter.
    pub fn mapped_at(
        context: &Context,
        address: DevicePtr,
        length_bytes: usize,
    ) -> Result<Self, Error> {
        let _entered = context.enter()?;
        let mut handle = 0;
        context.calls().physical_of(&mut handle, address.0)?;
        Ok(Self { context: context.clone(), handle, length_bytes })
    }

    /// How long it is.
    pub fn length_bytes(&self) -> usize {
        self.length_bytes
    }

    /// The driver's number of the memory in this process. While this value lives, no other memory
    /// has it, and whoever asks what is mapped somewhere ([`VmmAllocation::mapped_at`]) gets the
    /// same.
    pub fn number(&self) -> u64 {
        self.handle
    }

    /// A file descriptor by which other processes import the memory.
    pub fn export(&self) -> Result<OwnedFd, Error> {
        let _entered = self.context.enter()?;
        let mut descriptor = None;
        let calls = self.context.calls();
        calls.physical_export(&mut descriptor, self.handle, POSIX_FILE_DESCRIPTOR, 0)?;
        descriptor.ok_or(Error::NoHandle { requested: "a file descriptor" })
    }

    /// Maps all of it, to be read and written by `devices`.
    pub fn map(&self, devices: &[Device]) -> Result<VmmMapping, Error> {
        let _entered = self.context.enter()?;
        let mut mapping = VmmMapping::reserve(&self.context, self.length_bytes)?;
        mapping.map_again(self, devices)?;
        Ok(mapping)
    }
}

impl Drop for VmmAllocation {
    fn drop(&mut self) {
        // A driver that has shut down has released it.
        let Ok(_entered) = self.context.enter() else { return };
        let _ = self.context.calls().physical_release(self.handle);
    }
}

/// Addresses at which physical memory appears, given back when dropped.
///
/// Unmapping does not wait for kernels that use the memory. Memory of which this is the last
/// mapping must not be unmapped elsewhere in this process at the same time (see
/// [`VmmAllocation::mapped_at`]).
#[derive(Debug)]
pub struct VmmMapping {
    context: Context,
    base: DevicePtr,
    length_bytes: usize,
    mapped: bool,
    /// How long each piece is by which it was mapped.
    piece_bytes: usize,
}

/// A part of the addresses of a mapping, which is mapped for itself.
struct MappedPiece {
    start: DevicePtr,
    length_bytes: usize,
}

impl VmmMapping {
    /// Whether mappings have buffer ids of their own ([`Context::buffer_id`]) with this driver,
    /// tried out: one that takes the place of another must not have its id. No manual says so.
    pub fn have_ids(context: &Context) -> Result<bool, Error> {
        let _entered = context.enter()?;
        let (one, other) = (VmmAllocation::new(context, 1)?, VmmAllocation::new(context, 1)?);
        let mut place = Self::reserve(context, one.length_bytes)?;
        let mut ids = Vec::new();
        for memory in [&one, &other, &one] {
            place.put(memory)?;
            ids.push(context.buffer_id(place.base)?);
            place.unmap()?;
        }
        let gone = context.buffer_id(place.base).is_err();
        Ok(gone && ids[0] != ids[1] && ids[1] != ids[2] && ids[0] != ids[2])
    }

    /// Maps all of `memory`, which is as long as the addresses; nothing is mapped yet.
    fn put(&mut self, memory: &VmmAllocation) -> Result<(), Error> {
        self.calls().memory_map(self.base.0, self.length_bytes, 0, memory.handle, 0)?;
        (self.mapped, self.piece_bytes) = (true, self.length_bytes);
        Ok(())
    }

    fn reserve(context: &Context, length_bytes: usize) -> Result<Self, Error> {
        let mut base = 0;
        context.calls().address_reserve(&mut base, length_bytes, 0, 0, 0)?;
        let context = context.clone();
        let base = DevicePtr(base);
        Ok(Self { context, base, length_bytes, mapped: false, piece_bytes: length_bytes })
    }

    /// Takes the memory away from the addresses, which stay reserved: nothing lies there until
    /// [`VmmMapping::map_again`]. Nobody may be using it.
    pub fn unmap(&mut self) -> Result<(), Error> {
        let _entered = self.context.enter()?;
        if self.mapped {
            self.unmap_pieces()?;
        }
        self.mapped = false;
        Ok(())
    }

    fn unmap_pieces(&self) -> Result<(), Error> {
        self.pieces(self.piece_bytes)
            .try_for_each(|of| self.calls().memory_unmap(of.start.0, of.length_bytes))
    }

    /// The addresses in pieces of `piece_bytes` bytes, of which the last one may be shorter.
    fn pieces(&self, piece_bytes: usize) -> impl Iterator<Item = MappedPiece> + use<> {
        let (base, length_bytes) = (self.base, self.length_bytes);
        (0..length_bytes).step_by(piece_bytes.max(1)).map(move |at| MappedPiece {
            start: base.offset(at),
            length_bytes: piece_bytes.min(length_bytes - at),
        })
    }

    /// Takes the memory away from the addresses, and puts `memory` there instead, to be read and
    /// written by `device`: again and again, where it is shorter. Nobody may be using the
    /// addresses; who uses them later writes to memory that nobody reads.
    pub fn replace(&mut self, memory: &VmmAllocation, device: Device) -> Result<(), Error> {
        self.unmap()?;
        let _entered = self.context.enter()?;
        let piece_bytes = memory.length_bytes;
        for MappedPiece { start, length_bytes } in self.pieces(piece_bytes) {
            self.calls().memory_map(start.0, length_bytes, 0, memory.handle, 0)?;
        }
        (self.mapped, self.piece_bytes) = (true, piece_bytes);
        self.open_to(device)
    }

    /// Puts all of `memory`, which is as long as the addresses, where other memory was, to be read
    /// and written by `devices`.
    pub fn map_again(&mut self, memory: &VmmAllocation, devices: &[Device]) -> Result<(), Error> {
        let context = self.context.clone();
        let _entered = context.enter()?;
        self.put(memory)?;
        devices.iter().try_for_each(|device| self.open_to(*device))
    }

    /// Lets `device` read and write the memory, too.
    pub fn open_to(&self, device: Device) -> Result<(), Error> {
        let access = sys::CUmemAccessDesc {
            location: location(device),
            flags: sys::CUmemAccess_flags::CU_MEM_ACCESS_FLAGS_PROT_READWRITE,
        };
        let _entered = self.context.enter()?;
        self.calls().memory_access(self.base.0, self.length_bytes, &access, SINGLE)
    }

    /// Where it begins.
    pub fn ptr(&self) -> DevicePtr {
        self.base
    }

    /// How long it is.
    pub fn length_bytes(&self) -> usize {
        self.length_bytes
    }

    /// All of it, to read and write.
    pub fn span(&self) -> DeviceSpan<'_> {
        DeviceSpan::lent(&self.context, self.base, self.length_bytes)
    }

    fn calls(&self) -> &'static Calls {
        self.context.calls()
    }
}

impl Drop for VmmMapping {
    fn drop(&mut self) {
        // A driver that has shut down has forgotten it.
        let Ok(_entered) = self.context.enter() else { return };
        if self.mapped {
            let _ = self.unmap_pieces();
        }
        let _ = self.calls().address_free(self.base.0, self.length_bytes);
    }
}
