//! Device memory across processes by the driver's handles, for plain allocations.
//!
//! A handle names a whole *allocation*, so whoever shares an address inside one sends its offset
//! from [`Context::address_range`] along. A process cannot open its own handle, and memory of a
//! pool or virtual memory has none: [`Driver::pointer_info`](crate::Driver::pointer_info) says so.

use crate::address::DevicePtr;
use crate::context::Context;
use crate::error::Error;
use crate::memory::DeviceSpan;

/// The name of an allocation, to be sent to another process of this host.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[repr(transparent)]
pub struct IpcHandle(pub [u8; 64]);

impl Context {
    /// The name by which other processes open the allocation in which `address` lies.
    pub fn ipc_handle(&self, address: DevicePtr) -> Result<IpcHandle, Error> {
        let _entered = self.enter()?;
        let mut handle = IpcHandle([0; 64]);
        self.calls().ipc_export(&mut handle, address.0)?;
        Ok(handle)
    }
}

/// An allocation of another process, mapped here, unmapped when dropped.
///
/// The other process must keep the allocation as long as anyone uses it. Unmapping does not wait
/// for kernels that use it.
#[derive(Debug)]
pub struct IpcMapping {
    context: Context,
    base: DevicePtr,
    length_bytes: usize,
}

impl IpcMapping {
    /// Maps the allocation that `handle` names for the device of `context`, which gains access to
    /// the allocation's device where the two are different.
    pub fn open(context: &Context, handle: &IpcHandle) -> Result<Self, Error> {
        /// `CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS`, the one flag there is.
        const ENABLE_PEER_ACCESS: u32 = 1;
        let _entered = context.enter()?;
        let mut base = 0;
        context.calls().ipc_open(&mut base, *handle, ENABLE_PEER_ACCESS)?;
        let base = DevicePtr(base);
        let mut mapping = Self { context: context.clone(), base, length_bytes: 0 };
        mapping.length_bytes = context.address_range(base)?.length_bytes;
        Ok(mapping)
    }

    /// Where it begins, in this process.
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
}

impl Drop for IpcMapping {
    fn drop(&mut self) {
        // A driver that has shut down has unmapped it.
        let Ok(_entered) = self.context.enter() else { return };
        let _ = self.context.calls().ipc_close(self.base.0);
    }
}
