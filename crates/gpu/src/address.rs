//! Addresses of memory that devices can use, and what the driver knows about them.

use std::fmt;

use cudarc::driver::sys::CUpointer_attribute as Raw;

use crate::context::Context;
use crate::driver::Driver;
use crate::error::{CuResult, Error};

/// An address as devices see it.
///
/// A number: having one says nothing about the memory there. Whatever makes a device go to an
/// address is `unsafe` and says what it needs.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
#[repr(transparent)]
pub struct DevicePtr(pub u64);

impl DevicePtr {
    /// The address `bytes` further on.
    #[must_use]
    pub fn offset(self, bytes: usize) -> Self {
        Self(self.0.wrapping_add(bytes as u64))
    }
}

impl fmt::Debug for DevicePtr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#x}", self.0)
    }
}

impl fmt::Display for DevicePtr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

/// Memory from `base` on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AddressRange {
    /// The first byte.
    pub base: DevicePtr,
    /// How many bytes.
    pub length_bytes: usize,
}

/// Where memory lies.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum MemoryKind {
    /// In a device.
    Device,
    /// In the host, pinned.
    Host,
    /// Wherever it was used last.
    Managed,
    /// In a place this crate has no word for.
    Other(u32),
}

/// What the driver knows about an address.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PointerInfo {
    /// Where the memory lies.
    pub kind: MemoryKind,
    /// The number of the device that has it, or for which it was made.
    pub device: u32,
    /// Whether other processes can open it by an [`IpcHandle`](crate::IpcHandle): true of plain
    /// allocations, false of pools and of virtual memory.
    pub legacy_ipc: bool,
    /// Whether it is virtual memory that can be shared as a file descriptor.
    pub descriptor: bool,
}

/// The attributes that this crate asks for; each fits in eight bytes.
#[derive(Clone, Copy)]
#[repr(u32)]
pub(crate) enum PointerAttribute {
    Kind = Raw::CU_POINTER_ATTRIBUTE_MEMORY_TYPE as u32,
    Managed = Raw::CU_POINTER_ATTRIBUTE_IS_MANAGED as u32,
    Device = Raw::CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL as u32,
    LegacyIpc = Raw::CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE as u32,
    BufferId = Raw::CU_POINTER_ATTRIBUTE_BUFFER_ID as u32,
    HandleKinds = Raw::CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES as u32,
}

impl Driver {
    /// What the driver knows about `address`; `None` if it is not memory that devices can use,
    /// such as the host's ordinary memory.
    pub fn pointer_info(&self, address: DevicePtr) -> Result<Option<PointerInfo>, Error> {
        let kind = match self.attribute(PointerAttribute::Kind, address) {
            Err(error) if error.is(CuResult::INVALID_VALUE) => return Ok(None),
            kind => kind? as u32,
        };
        let managed = self.attribute(PointerAttribute::Managed, address)? & 0xff != 0;
        let handle_kinds = self.attribute(PointerAttribute::HandleKinds, address)?;
        Ok(Some(PointerInfo {
            kind: if managed { MemoryKind::Managed } else { memory_kind(kind) },
            device: self.attribute(PointerAttribute::Device, address)? as u32,
            legacy_ipc: self.attribute(PointerAttribute::LegacyIpc, address)? & 0xff != 0,
            descriptor: handle_kinds & u64::from(crate::vmm::POSIX_FILE_DESCRIPTOR) != 0,
        }))
    }

    fn attribute(&self, attribute: PointerAttribute, address: DevicePtr) -> Result<u64, Error> {
        // The driver writes one, four or eight bytes, the least significant first.
        let mut value = 0;
        self.calls().pointer_attribute(&mut value, attribute, address.0)?;
        Ok(value)
    }
}

fn memory_kind(kind: u32) -> MemoryKind {
    match kind {
        1 => MemoryKind::Host,
        2 => MemoryKind::Device,
        other => MemoryKind::Other(other),
    }
}

impl Context {
    /// The number of the allocation in which `address` lies, which no other allocation of this
    /// process ever has: an address that is freed and given to new memory gets a new one. In
    /// virtual memory each mapping has its own.
    ///
    /// It can be asked for at any time, whoever may be freeing the memory.
    pub fn buffer_id(&self, address: DevicePtr) -> Result<u64, Error> {
        let _entered = self.enter()?;
        self.device().driver().attribute(PointerAttribute::BufferId, address)
    }

    /// The whole allocation, or the whole mapped range, in which `address` lies.
    ///
    /// Nobody may be freeing or unmapping it meanwhile: with driver 580 that ends the process now
    /// and then.
    pub fn address_range(&self, address: DevicePtr) -> Result<AddressRange, Error> {
        let _entered = self.enter()?;
        let (mut base, mut length_bytes) = (0, 0);
        self.calls().address_range(&mut base, &mut length_bytes, address.0)?;
        Ok(AddressRange { base: DevicePtr(base), length_bytes })
    }
}
