//! Host memory that devices use too. A door for `unsafe`.
//!
//! Pinned memory is ordinary, cached memory (never write-combined: the host polls it). Since a
//! device may write it at any time, the host sees it as atomic words and never as plain bytes.

#![expect(unsafe_code, reason = "makes host memory that devices write to")]

use std::ffi::c_void;
use std::ptr::{self, NonNull};
use std::slice;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use cudarc::driver::sys;

use crate::address::DevicePtr;
use crate::context::Context;
use crate::error::Error;

/// Zeroed host memory, mapped for every device of the process, freed when dropped.
#[derive(Debug)]
pub struct PinnedBuffer {
    context: Context,
    memory: NonNull<c_void>,
    length_bytes: usize,
    base: DevicePtr,
}

// SAFETY: the memory belongs to no thread, and is reached only as atomics or through raw pointers.
unsafe impl Send for PinnedBuffer {}
// SAFETY: as above.
unsafe impl Sync for PinnedBuffer {}

impl PinnedBuffer {
    /// `length_bytes` zeros, at least one.
    pub fn new(context: &Context, length_bytes: usize) -> Result<Self, Error> {
        let _entered = context.enter()?;
        let mut memory = ptr::null_mut();
        let flags = sys::CU_MEMHOSTALLOC_DEVICEMAP | sys::CU_MEMHOSTALLOC_PORTABLE;
        context.calls().host_alloc(&mut memory, length_bytes, flags)?;
        let memory = NonNull::new(memory).ok_or(Error::NoHandle { requested: "pinned memory" })?;
        // SAFETY: the driver has just given these bytes to nobody but us.
        unsafe { memory.cast::<u8>().write_bytes(0, length_bytes) };
        let context = context.clone();
        let mut buffer = Self { context, memory, length_bytes, base: DevicePtr::default() };
        buffer.base = device_ptr(&buffer.context, memory)?;
        Ok(buffer)
    }

    /// As long as `words`, which it holds.
    pub fn of_words(context: &Context, words: &[u32]) -> Result<Self, Error> {
        let buffer = Self::new(context, size_of_val(words))?;
        let places = buffer.words32().iter().zip(words);
        places.for_each(|(to, word)| to.store(*word, Ordering::Relaxed));
        Ok(buffer)
    }

    /// Where devices find it.
    pub fn ptr(&self) -> DevicePtr {
        self.base
    }

    /// Where the host finds it. Reading or writing through the pointer is a race unless the
    /// devices are known to be elsewhere.
    pub fn as_mut_ptr(&self) -> *mut u8 {
        self.memory.as_ptr().cast()
    }

    /// How long it is.
    pub fn length_bytes(&self) -> usize {
        self.length_bytes
    }

    /// All of its whole 32-bit words.
    pub fn words32(&self) -> &[AtomicU32] {
        // SAFETY: the memory is page-aligned, initialised and alive; atomics may be shared.
        unsafe { slice::from_raw_parts(self.memory.as_ptr().cast(), self.length_bytes / 4) }
    }

    /// All of its whole 64-bit words.
    pub fn words64(&self) -> &[AtomicU64] {
        // SAFETY: the memory is page-aligned, initialised and alive; atomics may be shared.
        unsafe { slice::from_raw_parts(self.memory.as_ptr().cast(), self.length_bytes / 8) }
    }
}

impl Drop for PinnedBuffer {
    fn drop(&mut self) {
        // A driver that has shut down has freed it.
        let Ok(_entered) = self.context.enter() else { return };
        // SAFETY: allocated by `new`, freed once, and borrowed by nobody.
        let _ = unsafe { self.context.calls().host_free(self.memory.as_ptr()) };
    }
}

/// Host memory of somebody else, mapped for every device of the process as long as this lives.
#[derive(Debug)]
pub struct RegisteredMemory {
    context: Context,
    memory: NonNull<c_void>,
    base: DevicePtr,
}

// SAFETY: the memory is never touched through this type; the driver may be called from any thread.
unsafe impl Send for RegisteredMemory {}
// SAFETY: as above.
unsafe impl Sync for RegisteredMemory {}

impl RegisteredMemory {
    /// Pins `length_bytes` bytes from `memory` on, such as a mapping shared between processes.
    ///
    /// # Safety
    ///
    /// The memory stays mapped until this is dropped, and whoever uses it reckons with devices that
    /// read and write it.
    pub unsafe fn new(
        context: &Context,
        memory: NonNull<u8>,
        length_bytes: usize,
    ) -> Result<Self, Error> {
        let _entered = context.enter()?;
        let memory = memory.cast::<c_void>();
        let flags = sys::CU_MEMHOSTREGISTER_DEVICEMAP | sys::CU_MEMHOSTREGISTER_PORTABLE;
        // SAFETY: promised by the caller.
        unsafe { context.calls().host_register(memory.as_ptr(), length_bytes, flags)? };
        let context = context.clone();
        let mut registered = Self { context, memory, base: DevicePtr::default() };
        registered.base = device_ptr(&registered.context, memory)?;
        Ok(registered)
    }

    /// Where devices find it.
    pub fn ptr(&self) -> DevicePtr {
        self.base
    }
}

impl Drop for RegisteredMemory {
    fn drop(&mut self) {
        // A driver that has shut down has forgotten it.
        let Ok(_entered) = self.context.enter() else { return };
        // SAFETY: registered by `new`, unregistered once, and still mapped.
        let _ = unsafe { self.context.calls().host_unregister(self.memory.as_ptr()) };
    }
}

/// Where devices find pinned `memory`. The context must be entered.
fn device_ptr(context: &Context, memory: NonNull<c_void>) -> Result<DevicePtr, Error> {
    let mut address = 0;
    // SAFETY: the driver looks the pointer up and does not follow it.
    unsafe { context.calls().host_device_pointer(&mut address, memory.as_ptr(), 0)? };
    Ok(DevicePtr(address))
}
