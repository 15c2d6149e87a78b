//! One device, and what can be asked about it without a context.

use std::fmt;

use cudarc::driver::sys::CUdevice_P2PAttribute as P2p;
use cudarc::driver::sys::CUdevice_attribute as Attribute;

use crate::calls::{Calls, NAME_LENGTH, NameBuffer};
use crate::driver::Driver;
use crate::error::Error;

/// A device that this process sees.
#[derive(Clone, Copy)]
pub struct Device {
    driver: &'static Driver,
    raw: i32,
}

/// What a device's code is compiled for: 9.0 of `sm_90`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct ComputeCapability {
    /// 9 of `sm_90`.
    pub major: u32,
    /// 0 of `sm_90`.
    pub minor: u32,
}

/// What one device can do with the memory of another.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PeerCapabilities {
    /// Whether one may read and write the other's memory.
    pub access: bool,
    /// Whether atomic operations on the other's memory are done there, in one step.
    pub native_atomics: bool,
    /// The driver's ranking of the way between them; lower is better.
    pub performance_rank: i32,
}

impl PartialEq for Device {
    fn eq(&self, other: &Self) -> bool {
        self.raw == other.raw
    }
}

impl Eq for Device {}

impl fmt::Debug for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Device({})", self.raw)
    }
}

impl Device {
    pub(crate) fn new(driver: &'static Driver, raw: i32) -> Self {
        Self { driver, raw }
    }

    /// The driver that knows the device.
    pub fn driver(self) -> &'static Driver {
        self.driver
    }

    /// The device's number among those that this process sees.
    pub fn ordinal(self) -> u32 {
        self.raw.unsigned_abs()
    }

    /// The device's name, such as `NVIDIA H200`.
    pub fn name(self) -> Result<String, Error> {
        text(|buffer| self.calls().device_name(buffer, NAME_LENGTH, self.raw))
    }

    /// Where the device sits: domain, bus, device and function, such as `0000:1B:00.0`.
    pub fn pci_bus_id(self) -> Result<String, Error> {
        text(|buffer| self.calls().device_pci_bus_id(buffer, NAME_LENGTH, self.raw))
    }

    /// The device's identity, the same in every process; a MIG slice has its own.
    pub fn uuid(self) -> Result<[u8; 16], Error> {
        let mut uuid = [0; 16];
        self.calls().device_uuid(&mut uuid, self.raw)?;
        Ok(uuid)
    }

    /// How much memory the device has.
    pub fn memory_bytes(self) -> Result<usize, Error> {
        let mut bytes = 0;
        self.calls().device_memory(&mut bytes, self.raw)?;
        Ok(bytes)
    }

    /// What its code must be compiled for.
    pub fn compute_capability(self) -> Result<ComputeCapability, Error> {
        Ok(ComputeCapability {
            major: self.count(Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)?,
            minor: self.count(Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)?,
        })
    }

    /// How many streaming multiprocessors it has.
    pub fn multiprocessors(self) -> Result<u32, Error> {
        self.count(Attribute::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT)
    }

    /// How much dynamic shared memory a block may ask for, at most.
    pub fn max_shared_bytes_per_block(self) -> Result<u32, Error> {
        self.count(Attribute::CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN)
    }

    /// How much shared memory all blocks on a multiprocessor have together, at most.
    pub fn shared_bytes_per_multiprocessor(self) -> Result<u32, Error> {
        self.count(Attribute::CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR)
    }

    /// How much shared memory of each block is the driver's own; 0 before compute capability 8.0.
    pub fn reserved_shared_bytes_per_block(self) -> Result<u32, Error> {
        self.count(Attribute::CU_DEVICE_ATTRIBUTE_RESERVED_SHARED_MEMORY_PER_BLOCK)
    }

    /// How fast its clock counts, in kilohertz.
    pub fn clock_rate_khz(self) -> Result<u32, Error> {
        self.count(Attribute::CU_DEVICE_ATTRIBUTE_CLOCK_RATE)
    }

    /// Whether cooperative launches work.
    pub fn supports_cooperative_launch(self) -> Result<bool, Error> {
        self.flag(Attribute::CU_DEVICE_ATTRIBUTE_COOPERATIVE_LAUNCH)
    }

    /// Whether virtual memory can be shared as a file descriptor.
    pub fn supports_memory_descriptors(self) -> Result<bool, Error> {
        self.flag(Attribute::CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED)
    }

    /// Whether other PCIe devices can reach its virtual memory.
    pub(crate) fn supports_rdma_to_virtual_memory(self) -> Result<bool, Error> {
        self.flag(Attribute::CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED)
    }

    /// Whether kernels of this device can be given access to `peer`'s memory. A device is no peer
    /// of itself.
    pub fn can_access_peer(self, peer: Device) -> Result<bool, Error> {
        let mut can = 0;
        self.calls().device_can_access_peer(&mut can, self.raw, peer.raw)?;
        Ok(can != 0)
    }

    /// What this device can do with the memory of `peer`, which must be another one.
    pub fn peer_capabilities(self, peer: Device) -> Result<PeerCapabilities, Error> {
        let ask = |attribute: P2p| {
            let mut value = 0;
            let attribute = attribute as u32;
            self.calls().device_p2p_attribute(&mut value, attribute, self.raw, peer.raw)?;
            Ok::<_, Error>(value)
        };
        Ok(PeerCapabilities {
            access: ask(P2p::CU_DEVICE_P2P_ATTRIBUTE_ACCESS_SUPPORTED)? != 0,
            native_atomics: ask(P2p::CU_DEVICE_P2P_ATTRIBUTE_NATIVE_ATOMIC_SUPPORTED)? != 0,
            performance_rank: ask(P2p::CU_DEVICE_P2P_ATTRIBUTE_PERFORMANCE_RANK)?,
        })
    }

    pub(crate) fn raw(self) -> i32 {
        self.raw
    }

    pub(crate) fn calls(self) -> &'static Calls {
        self.driver.calls()
    }

    pub(crate) fn count(self, attribute: Attribute) -> Result<u32, Error> {
        let mut value = 0;
        self.calls().device_attribute(&mut value, attribute as u32, self.raw)?;
        Ok(value.unsigned_abs())
    }

    pub(crate) fn flag(self, attribute: Attribute) -> Result<bool, Error> {
        Ok(self.count(attribute)? != 0)
    }
}

/// The text that `write` puts into a buffer, up to its first zero.
fn text(write: impl FnOnce(&mut NameBuffer) -> Result<(), Error>) -> Result<String, Error> {
    let mut buffer: NameBuffer = [0; 128];
    write(&mut buffer)?;
    let text = buffer.split(|byte| *byte == 0).next().unwrap_or_default();
    Ok(String::from_utf8_lossy(text).into_owned())
}
