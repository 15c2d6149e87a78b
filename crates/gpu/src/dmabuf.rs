//! Device memory as a dma-buf: a descriptor by which the kernel lets other PCIe devices, such as network
//! cards, reach it.

use std::os::fd::OwnedFd;

use cudarc::driver::sys::CUdevice_attribute as Attribute;
use cudarc::driver::sys::CUmemRangeHandleType as Kind;

use crate::device::Device;
use crate::error::Error;
use crate::memory::DeviceSpan;

impl Device {
    /// Whether memory of this device can be exported as a dma-buf.
    pub fn supports_dmabuf(self) -> Result<bool, Error> {
        self.flag(Attribute::CU_DEVICE_ATTRIBUTE_DMA_BUF_SUPPORTED)
    }
}

impl DeviceSpan<'_> {
    /// A dma-buf of this memory, which must begin and end at a multiple of the host's page size. The memory must
    /// outlive whatever is done by way of the descriptor.
    pub fn export_dmabuf(self) -> Result<OwnedFd, Error> {
        let _entered = self.context().enter()?;
        let kind = Kind::CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD as u32;
        let (address, bytes) = (self.ptr().0, self.length_bytes());
        let mut descriptor = None;
        self.context().calls().range_handle(&mut descriptor, address, bytes, kind, 0)?;
        descriptor.ok_or(Error::NoHandle { wanted: "a dma-buf" })
    }
}
