//! The memory of FIFO entries: pinned memory of the host, or memory of the GPU.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use msccl_gpu::{CaptureModeGuard, Context, DevicePtr, DeviceSpan, Error, PinnedBuffer};
use msccl_gpu::{RemoteWrites, VmmAllocation, VmmMapping};
use msccl_proxy::{Copies, DmaBuf, Memory};

use super::super::copier::Copier;

/// Memory of slots.
pub(super) enum FifoMemory {
    /// In the host.
    Host {
        memory: PinnedBuffer,
        /// Why not in the GPU.
        why: String,
    },
    /// In the GPU.
    Gpu(GpuFifo),
}

/// Memory of the GPU that devices for RDMA reach, if they can.
pub(super) struct GpuFifo {
    context: Context,
    mapping: VmmMapping,
    /// None where the driver has no dma-bufs; then no device reaches the memory.
    dmabuf: Option<OwnedFd>,
    /// Whether what devices have written must be flushed before kernels see it.
    flushed: bool,
    copier: Arc<Copier>,
}

impl FifoMemory {
    /// In host memory, for the reason `why`.
    pub fn in_host(context: &Context, bytes: usize, why: String) -> Result<Self, Error> {
        Ok(Self::Host { memory: PinnedBuffer::new(context, bytes)?, why })
    }

    /// In GPU memory, out of and into which `copier` copies if need be; the text says why that is
    /// not possible.
    pub fn in_gpu(context: &Context, bytes: usize, copier: &Arc<Copier>) -> Result<Self, String> {
        let flushed = match context.device().remote_writes().map_err(text)? {
            RemoteWrites::Ordered => false,
            RemoteWrites::Flushed => true,
            RemoteWrites::Unordered => {
                return Err("the GPU does not say when kernels see what devices write".to_owned());
            }
        };
        GpuFifo::new(context, bytes, flushed, copier.clone()).map(Self::Gpu).map_err(text)
    }

    /// Where kernels find it.
    pub fn ptr(&self) -> DevicePtr {
        match self {
            Self::Host { memory, .. } => memory.ptr(),
            Self::Gpu(slots) => slots.mapping.ptr(),
        }
    }

    /// Lets kernels see what devices have written, as soon as they see what this thread releases
    /// next.
    pub fn settle(&self) -> Result<(), String> {
        match self {
            Self::Gpu(slots) if slots.flushed => slots.flush().map_err(text),
            Self::Gpu(_) | Self::Host { .. } => Ok(()),
        }
    }
}

impl GpuFifo {
    fn new(
        context: &Context,
        bytes: usize,
        flushed: bool,
        copier: Arc<Copier>,
    ) -> Result<Self, Error> {
        let mapping = VmmAllocation::new(context, bytes)?.map(&[context.device()])?;
        let has_dmabuf = context.device().supports_dmabuf()?;
        let dmabuf = has_dmabuf.then(|| mapping.span().export_dmabuf()).transpose()?;
        Ok(Self { context: context.clone(), mapping, dmabuf, flushed, copier })
    }

    fn flush(&self) -> Result<(), Error> {
        let _relaxed = CaptureModeGuard::relaxed(self.context.device().driver())?;
        self.context.flush_remote_writes()
    }

    /// The `bytes` bytes at `offset`.
    fn span(&self, offset: u64, bytes: usize) -> Result<DeviceSpan<'_>, Error> {
        let start = usize::try_from(offset).unwrap_or(usize::MAX);
        self.mapping.span().slice(start..start.saturating_add(bytes))
    }
}

impl Memory for FifoMemory {
    fn address(&self) -> *mut u8 {
        match self {
            Self::Host { memory, .. } => memory.as_mut_ptr(),
            Self::Gpu(slots) => std::ptr::without_provenance_mut(slots.mapping.ptr().0 as usize),
        }
    }

    fn bytes(&self) -> u64 {
        match self {
            Self::Host { memory, .. } => memory.length_bytes() as u64,
            Self::Gpu(slots) => slots.mapping.length_bytes() as u64,
        }
    }

    fn dmabuf(&self) -> Option<DmaBuf<'_>> {
        match self {
            Self::Host { .. } => None,
            Self::Gpu(slots) => {
                slots.dmabuf.as_ref().map(|file| DmaBuf { descriptor: file.as_fd(), offset: 0 })
            }
        }
    }

    fn copies(&self) -> Option<&dyn Copies> {
        match self {
            Self::Host { .. } => None,
            Self::Gpu(slots) => Some(slots),
        }
    }

    fn describe(&self) -> Option<String> {
        Some(match self {
            Self::Host { why, .. } => format!("host memory ({why})"),
            Self::Gpu(GpuFifo { flushed: false, .. }) => "GPU memory".to_owned(),
            Self::Gpu(GpuFifo { flushed: true, .. }) => "GPU memory (flushed)".to_owned(),
        })
    }
}

impl Copies for GpuFifo {
    fn fetch(&self, from: u64, into: &mut [u8]) -> Result<(), String> {
        let span = self.span(from, into.len());
        span.and_then(|span| self.copier.fetch(span, into)).map_err(text)
    }

    fn put(&self, to: u64, bytes: &[u8]) -> Result<(), String> {
        self.span(to, bytes.len()).and_then(|span| self.copier.put(span, bytes)).map_err(text)
    }
}

fn text(error: Error) -> String {
    error.to_string()
}
