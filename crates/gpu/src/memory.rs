//! Device memory: allocations, and copies that wait. A door for `unsafe`.
//!
//! A [`DeviceSpan`] is memory of a device that its owner keeps alive, so that reading, writing and
//! filling it is safe: the driver checks addresses, the span checks lengths, and the host waits for
//! the result. Each such call has a stream of its own, for it must not wait for kernels of others:
//! one of them may be waiting for what this call prepares. That fits set-up and tests; who copies
//! often names a stream.

#![expect(unsafe_code, reason = "calls functions of the driver for device memory")]

use std::ops::Range;

use crate::address::DevicePtr;
use crate::calls::Calls;
use crate::context::Context;
use crate::error::Error;
use crate::pinned::PinnedBuffer;
use crate::stream::{Stream, StreamRef};

/// Memory of a device, alive for `'a`.
#[derive(Clone, Copy, Debug)]
pub struct DeviceSpan<'a> {
    context: &'a Context,
    base: DevicePtr,
    length_bytes: usize,
}

impl<'a> DeviceSpan<'a> {
    /// Memory that an owner lends: only what allocates or maps device memory in this crate calls
    /// this, with what it has.
    pub(crate) fn lent(context: &'a Context, base: DevicePtr, length_bytes: usize) -> Self {
        Self { context, base, length_bytes }
    }

    /// Memory that somebody else has allocated.
    ///
    /// # Safety
    ///
    /// From `base` on lie `length_bytes` bytes that the device of `context` may read and write,
    /// alive for `'a`.
    pub unsafe fn from_raw(context: &'a Context, base: DevicePtr, length_bytes: usize) -> Self {
        Self::lent(context, base, length_bytes)
    }

    pub(crate) fn context(self) -> &'a Context {
        self.context
    }

    /// Where it begins.
    pub fn ptr(self) -> DevicePtr {
        self.base
    }

    /// How long it is.
    pub fn length_bytes(self) -> usize {
        self.length_bytes
    }

    /// The bytes of `range`, counted from the beginning of this span.
    pub fn slice(self, range: Range<usize>) -> Result<Self, Error> {
        let length_bytes = range.end.saturating_sub(range.start);
        if range.start > range.end || range.end > self.length_bytes {
            let (offset, bytes) = (range.start, length_bytes);
            return Err(Error::OutOfRange { offset, bytes, length_bytes: self.length_bytes });
        }
        Ok(Self { base: self.base.offset(range.start), length_bytes, ..self })
    }

    /// Writes `bytes` to the beginning of the span, which must be long enough.
    pub fn write(self, bytes: &[u8]) -> Result<(), Error> {
        let to = self.slice(0..bytes.len())?;
        to.in_new_stream(|calls, stream| {
            let from = bytes.as_ptr().cast();
            // SAFETY: both sides have `bytes.len()` bytes and are borrowed until it is done.
            unsafe { calls.copy_to_device(to.base.0, from, bytes.len(), stream.handle()) }
        })
    }

    /// Fills the span with the beginning of `from`, which must be long enough, when `stream` gets
    /// there. Needs no multiprocessor, and waits for no kernel of another stream as long as the
    /// driver has a queue for each.
    pub fn copy_from(self, stream: StreamRef<'_>, from: &PinnedBuffer) -> Result<(), Error> {
        self.within(from)?;
        self.wait_for(stream, |calls| {
            // SAFETY: both sides have that many bytes and are borrowed until it is done; the host
            // sees pinned memory as atomics only.
            unsafe { calls.copy(self.base.0, from.ptr().0, self.length_bytes, stream.handle()) }
        })
    }

    /// The other way round.
    pub fn copy_to(self, stream: StreamRef<'_>, to: &PinnedBuffer) -> Result<(), Error> {
        self.within(to)?;
        self.wait_for(stream, |calls| {
            // SAFETY: as above.
            unsafe { calls.copy(to.ptr().0, self.base.0, self.length_bytes, stream.handle()) }
        })
    }

    fn within(self, pinned: &PinnedBuffer) -> Result<(), Error> {
        let (bytes, length_bytes) = (self.length_bytes, pinned.length_bytes());
        match bytes <= length_bytes {
            true => Ok(()),
            false => Err(Error::OutOfRange { offset: 0, bytes, length_bytes }),
        }
    }

    /// Reads as many bytes as `into` has from the beginning of the span, which must be long enough.
    pub fn read(self, into: &mut [u8]) -> Result<(), Error> {
        let from = self.slice(0..into.len())?;
        from.in_new_stream(|calls, stream| {
            let to = into.as_mut_ptr().cast();
            // SAFETY: both sides have `into.len()` bytes and are borrowed until it is done.
            unsafe { calls.copy_from_device(to, from.base.0, into.len(), stream.handle()) }
        })
    }

    /// Sets every byte and waits until it is done.
    pub fn fill(self, byte: u8) -> Result<(), Error> {
        self.in_new_stream(|calls, stream| {
            // SAFETY: the memory is a device's and alive until it is done.
            unsafe { calls.fill(self.base.0, byte, self.length_bytes, stream.handle()) }
        })
    }

    /// As [`DeviceSpan::wait_for`], with a stream of its own: an urgent one, which has no queue in
    /// common with streams of ordinary priority. In one of those it would wait for whatever comes
    /// first, and so for ever if that is a kernel of a communicator that has failed.
    fn in_new_stream(
        self,
        work: impl FnOnce(&Calls, StreamRef<'_>) -> Result<(), Error>,
    ) -> Result<(), Error> {
        if self.length_bytes == 0 {
            return Ok(());
        }
        let stream = Stream::most_urgent(self.context)?;
        self.wait_for(stream.borrow(), |calls| work(calls, stream.borrow()))
    }

    /// Puts `work` on this span into `stream` and waits until that is idle. There is no work on an
    /// empty span.
    fn wait_for(
        self,
        stream: StreamRef<'_>,
        work: impl FnOnce(&Calls) -> Result<(), Error>,
    ) -> Result<(), Error> {
        if self.length_bytes == 0 {
            return Ok(());
        }
        let _entered = self.context.enter()?;
        work(self.context.calls())?;
        stream.synchronize()
    }
}

/// Memory of a device, freed when dropped. Other processes can open it by an
/// [`IpcHandle`](crate::IpcHandle).
///
/// Freeing waits for the device where it must; it does not wait for kernels of *other* devices.
#[derive(Debug)]
pub struct DeviceBuffer {
    context: Context,
    base: DevicePtr,
    length_bytes: usize,
}

impl DeviceBuffer {
    /// `length_bytes` bytes, at least one, with whatever they held.
    pub fn new(context: &Context, length_bytes: usize) -> Result<Self, Error> {
        let _entered = context.enter()?;
        let mut base = 0;
        context.calls().memory_alloc(&mut base, length_bytes)?;
        Ok(Self { context: context.clone(), base: DevicePtr(base), length_bytes })
    }

    /// `length_bytes` zeros.
    pub fn zeroed(context: &Context, length_bytes: usize) -> Result<Self, Error> {
        let buffer = Self::new(context, length_bytes)?;
        buffer.span().fill(0)?;
        Ok(buffer)
    }

    /// Where it begins; aligned to 256 bytes.
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

impl Drop for DeviceBuffer {
    fn drop(&mut self) {
        // A driver that has shut down has freed it.
        let Ok(_entered) = self.context.enter() else { return };
        let _ = self.context.calls().memory_free(self.base.0);
    }
}
