//! Device memory as a dma-buf: a descriptor by which the kernel lets other PCIe devices, such as
//! network cards, reach it; and when kernels see what these have written.

use std::os::fd::OwnedFd;

use cudarc::driver::sys;
use cudarc::driver::sys::CUdevice_attribute as Attribute;
use cudarc::driver::sys::CUmemRangeHandleType as Kind;

use crate::context::Context;
use crate::device::Device;
use crate::error::Error;
use crate::memory::DeviceSpan;

/// When a kernel that runs sees what another PCIe device has written into its device's memory, once
/// the host has learnt of the write and signalled the kernel.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RemoteWrites {
    /// At once.
    Ordered,
    /// After [`Context::flush_remote_writes`].
    Flushed,
    /// The driver promises nothing.
    Unordered,
}

impl RemoteWrites {
    /// As the driver has it: how far writes are ordered natively, and which flushes there are.
    fn of(ordering: u32, flushes: u32) -> Self {
        const OWNER: u32 =
            sys::CUGPUDirectRDMAWritesOrdering::CU_GPU_DIRECT_RDMA_WRITES_ORDERING_OWNER as u32;
        const HOST: u32 =
            sys::CUflushGPUDirectRDMAWritesOptions::CU_FLUSH_GPU_DIRECT_RDMA_WRITES_OPTION_HOST
                as u32;
        match (ordering >= OWNER, flushes & HOST != 0) {
            (true, _) => Self::Ordered,
            (false, true) => Self::Flushed,
            (false, false) => Self::Unordered,
        }
    }
}

impl Context {
    /// Waits until all that other PCIe devices have written is visible to kernels of this device,
    /// which may run.
    pub fn flush_remote_writes(&self) -> Result<(), Error> {
        use sys::CUflushGPUDirectRDMAWritesTarget as Target;
        const CURRENT: u32 = Target::CU_FLUSH_GPU_DIRECT_RDMA_WRITES_TARGET_CURRENT_CTX as u32;
        const OWNER: u32 =
            sys::CUflushGPUDirectRDMAWritesScope::CU_FLUSH_GPU_DIRECT_RDMA_WRITES_TO_OWNER as u32;
        let _entered = self.enter()?;
        self.calls().flush_remote_writes(CURRENT, OWNER)
    }
}

impl Device {
    /// When kernels see what other PCIe devices write.
    pub fn remote_writes(self) -> Result<RemoteWrites, Error> {
        let ordering =
            self.count(Attribute::CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WRITES_ORDERING)?;
        let flushes =
            self.count(Attribute::CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_FLUSH_WRITES_OPTIONS)?;
        Ok(RemoteWrites::of(ordering, flushes))
    }

    /// Whether memory of this device can be exported as a dma-buf.
    pub fn supports_dmabuf(self) -> Result<bool, Error> {
        self.flag(Attribute::CU_DEVICE_ATTRIBUTE_DMA_BUF_SUPPORTED)
    }
}

impl DeviceSpan<'_> {
    /// A dma-buf of this memory, which must begin and end at a multiple of the host's page size.
    /// The memory must outlive whatever is done by way of the descriptor.
    pub fn export_dmabuf(self) -> Result<OwnedFd, Error> {
        let _entered = self.context().enter()?;
        let kind = Kind::CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD as u32;
        let (address, bytes) = (self.ptr().0, self.length_bytes());
        let mut descriptor = None;
        self.context().calls().range_handle(&mut descriptor, address, bytes, kind, 0)?;
        descriptor.ok_or(Error::NoHandle { requested: "a dma-buf" })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_orders_writes_natively_needs_no_flush() {
        let all = [(0, 0), (0, 2), (0, 1), (0, 3), (100, 0), (200, 1)];
        let all = all.map(|(ordering, flushes)| RemoteWrites::of(ordering, flushes));
        use RemoteWrites::{Flushed, Ordered, Unordered};
        assert_eq!(all, [Unordered, Unordered, Flushed, Flushed, Ordered, Ordered]);
    }
}
