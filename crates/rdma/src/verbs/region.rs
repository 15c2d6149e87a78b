//! An unsafe boundary: lets devices access memory.

#![expect(unsafe_code, reason = "registers memory by address")]

use std::ffi::c_void;
use std::ptr::NonNull;
use std::sync::Arc;

use ibverbs_sys as ffi;

use super::{Adapter, Refused};

/// Memory that a device may read and peers may write to.
pub struct Region {
    memory: NonNull<ffi::ibv_mr>,
    _adapter: Arc<Adapter>,
    address: u64,
    bytes: u64,
    mapped: Mapped,
}

/// Whether the processor can read a region.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mapped {
    /// It is memory of this process.
    Yes,
    /// It is a device's, known by a descriptor.
    No,
}

// SAFETY: libibverbs lets any thread use a region, also at the same time.
unsafe impl Send for Region {}
// SAFETY: as above.
unsafe impl Sync for Region {}

const ACCESS: i32 = (ffi::ibv_access_flags::IBV_ACCESS_LOCAL_WRITE.0
    | ffi::ibv_access_flags::IBV_ACCESS_REMOTE_WRITE.0) as i32;

impl Region {
    /// Registers memory of this process.
    ///
    /// # Errors
    /// What the kernel said.
    ///
    /// # Safety
    /// The `bytes` bytes at `address` must be mapped, readable and writable until the region ends.
    pub unsafe fn new(
        adapter: &Arc<Adapter>,
        address: *mut c_void,
        bytes: u64,
    ) -> Result<Self, Refused> {
        let length = usize::try_from(bytes).unwrap_or(usize::MAX);
        // SAFETY: the domain is alive; the caller vouches for the memory.
        let memory = unsafe { ffi::ibv_reg_mr(adapter.domain(), address, length, ACCESS) };
        let memory = NonNull::new(memory).ok_or_else(|| Refused::by_errno("ibv_reg_mr"))?;
        let address = address.addr() as u64;
        Ok(Self { memory, _adapter: Arc::clone(adapter), address, bytes, mapped: Mapped::Yes })
    }

    /// Registers memory that stays mapped for ever.
    #[cfg(test)]
    pub fn of_leaked(adapter: &Arc<Adapter>, bytes: usize) -> Result<Self, Refused> {
        let memory = vec![0_u8; bytes].leak();
        // SAFETY: it is never given back.
        unsafe { Self::new(adapter, memory.as_mut_ptr().cast(), bytes as u64) }
    }

    /// Registers `bytes` bytes from `offset` on of the dma-buf `descriptor`, known to peers by
    /// `address`.
    ///
    /// # Errors
    /// What the kernel said; [`Refused::is_unsupported`] if it or the device does not offer that.
    pub fn of_dmabuf(
        adapter: &Arc<Adapter>,
        descriptor: i32,
        offset: u64,
        bytes: u64,
        address: u64,
    ) -> Result<Self, Refused> {
        let length = usize::try_from(bytes).unwrap_or(usize::MAX);
        // SAFETY: the domain is alive; the kernel checks the descriptor and its range, and keeps
        // what is behind it.
        let memory = unsafe {
            ffi::ibv_reg_dmabuf_mr(adapter.domain(), offset, length, address, descriptor, ACCESS)
        };
        let memory = NonNull::new(memory).ok_or_else(|| Refused::by_errno("ibv_reg_dmabuf_mr"))?;
        Ok(Self { memory, _adapter: Arc::clone(adapter), address, bytes, mapped: Mapped::No })
    }

    /// Where it begins, as peers must say.
    pub fn address(&self) -> u64 {
        self.address
    }

    /// How long it is.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Whether the processor can read it.
    pub fn mapped(&self) -> Mapped {
        self.mapped
    }

    /// What peers must show to write to it.
    pub fn remote_key(&self) -> u32 {
        // SAFETY: it lives until `self` ends, and nobody writes to it.
        unsafe { (*self.memory.as_ptr()).rkey }
    }

    pub(super) fn local_key(&self) -> u32 {
        // SAFETY: as in `remote_key`.
        unsafe { (*self.memory.as_ptr()).lkey }
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        // SAFETY: it was registered, is ended once, and its domain is alive.
        unsafe { ffi::ibv_dereg_mr(self.memory.as_ptr()) };
    }
}
