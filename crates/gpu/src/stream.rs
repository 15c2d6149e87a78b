//! Streams: our own, and those of callers. A door for `unsafe`.
//!
//! A [`Stream`] is owned; a [`StreamRef`] is a stream that lives long enough, whoever owns it, and
//! has all the operations. Callers of a library hand over streams as raw pointers, among them
//! three that are no objects: null (the *legacy* default stream, as most programs are built), 1
//! (legacy, said outright) and 2 (the calling thread's own default stream). What they mean depends
//! on the context, hence a `StreamRef` names one and enters it.

#![expect(unsafe_code, reason = "takes streams of callers as raw handles")]

use std::ffi::c_void;

use cudarc::driver::sys;

use crate::address::DevicePtr;
use crate::calls::Calls;
use crate::context::{Context, ContextGuard};
use crate::error::{CuResult, Error};
use crate::event::Event;
use crate::handle::{Handle, Out, Owned};

/// The raw pointer that names the legacy default stream.
const LEGACY_ADDRESS: usize = 1;

/// The raw pointer that names the calling thread's default stream.
const PER_THREAD_ADDRESS: usize = 2;

/// A stream that does not wait for the legacy default stream, destroyed when dropped.
///
/// Dropping waits for nothing: work already in the stream is still done.
pub struct Stream {
    owned: Owned<sys::CUstream_st>,
}

impl Stream {
    /// A new stream of ordinary priority.
    pub fn new(context: &Context) -> Result<Self, Error> {
        Self::with_priority(context, 0)
    }

    /// A new stream of the greatest priority of `context`. The driver has queues of their own for
    /// streams of each priority, as far as is known: what is in such a stream does not wait for
    /// kernels in streams of ordinary priority.
    pub fn most_urgent(context: &Context) -> Result<Self, Error> {
        let (_, most_urgent) = context.stream_priorities()?;
        Self::with_priority(context, most_urgent)
    }

    /// A new stream; see [`Context::stream_priorities`] for the range.
    pub fn with_priority(context: &Context, priority: i32) -> Result<Self, Error> {
        const NON_BLOCKING: u32 = sys::CUstream_flags::CU_STREAM_NON_BLOCKING as u32;
        let owned = Owned::create(context, |calls, stream| {
            calls.stream_create(stream, NON_BLOCKING, priority)
        })?;
        Ok(Self { owned })
    }

    /// The stream, to be used.
    pub fn borrow(&self) -> StreamRef<'_> {
        StreamRef { context: self.owned.context(), handle: self.owned.handle() }
    }
}

/// A stream that lives as long as `'a`.
#[derive(Clone, Copy)]
pub struct StreamRef<'a> {
    context: &'a Context,
    handle: Handle<'a, sys::CUstream_st>,
}

impl<'a> StreamRef<'a> {
    /// The legacy default stream of `context`.
    pub fn legacy(context: &'a Context) -> Self {
        Self::default_stream(context, LEGACY_ADDRESS)
    }

    /// The default stream that the calling thread has in `context`.
    pub fn per_thread(context: &'a Context) -> Self {
        Self::default_stream(context, PER_THREAD_ADDRESS)
    }

    fn default_stream(context: &'a Context, address: usize) -> Self {
        // SAFETY: the driver knows the two numbers and looks for no object there.
        unsafe { Self::from_raw(context, std::ptr::without_provenance_mut(address)) }
    }

    /// The stream that a caller handed over as a `cudaStream_t` or `CUstream`.
    ///
    /// # Safety
    ///
    /// `raw` is null, 1, 2, or a stream of `context` that lives as long as `'a`.
    pub unsafe fn from_raw(context: &'a Context, raw: *mut c_void) -> Self {
        // SAFETY: promised by the caller; the three numbers need no object.
        Self { context, handle: unsafe { Handle::from_raw(raw.cast()) } }
    }

    /// The stream as C has it.
    pub fn as_raw(self) -> *mut c_void {
        self.handle.raw().cast()
    }

    /// The context it belongs to, or was said to.
    pub fn context(self) -> &'a Context {
        self.context
    }

    /// Whether the stream is one of its context, as far as the driver can say. A default stream
    /// is one of every context.
    pub fn belongs_to_context(self) -> Result<bool, Error> {
        let _entered = self.context.enter()?;
        let mut context = Out::empty();
        self.context.calls().stream_context(self.handle, &mut context)?;
        Ok(context.address() == self.context.address())
    }

    /// Waits until everything in the stream is done.
    pub fn synchronize(self) -> Result<(), Error> {
        let _entered = self.context.enter()?;
        self.context.calls().stream_synchronize(self.handle)
    }

    /// Whether everything in the stream is done.
    pub fn is_idle(self) -> Result<bool, Error> {
        let _entered = self.context.enter()?;
        done(self.context.calls().stream_query(self.handle))
    }

    /// Lets work that comes later in this stream wait for `event`'s latest recording. An event
    /// never recorded is not waited for.
    pub fn wait(self, event: &Event) -> Result<(), Error> {
        self.entered(|stream| stream.wait(event))
    }

    /// Does what `ask` asks of this stream, with its context entered.
    pub(crate) fn entered<T>(
        self,
        ask: impl FnOnce(EnteredStream<'_>) -> Result<T, Error>,
    ) -> Result<T, Error> {
        let entered = self.context.enter()?;
        ask(EnteredStream { entered: &entered, handle: self.handle })
    }

    /// Copies `bytes` bytes between any memory that devices can use, when the stream gets there.
    ///
    /// # Safety
    ///
    /// Both ranges stay valid, and nobody else uses what is written or writes what is read, until
    /// the copy is done, and again whenever a graph that captured it runs.
    pub unsafe fn copy(self, to: DevicePtr, from: DevicePtr, bytes: usize) -> Result<(), Error> {
        let _entered = self.context.enter()?;
        // SAFETY: promised by the caller.
        unsafe { self.context.calls().copy(to.0, from.0, bytes, self.handle) }
    }

    /// Sets `bytes` bytes from `to` on, when the stream gets there.
    ///
    /// # Safety
    ///
    /// As for [`StreamRef::copy`].
    pub unsafe fn fill(self, to: DevicePtr, byte: u8, bytes: usize) -> Result<(), Error> {
        let _entered = self.context.enter()?;
        // SAFETY: promised by the caller.
        unsafe { self.context.calls().fill(to.0, byte, bytes, self.handle) }
    }

    /// Has a thread of the driver call `call` with `data` when the stream gets there.
    ///
    /// # Safety
    ///
    /// `call` must not call the driver and must not unwind; it must be sound to call with `data`
    /// from any thread, once, and again whenever a graph that captured it runs.
    pub unsafe fn call_host(
        self,
        call: unsafe extern "C" fn(*mut c_void),
        data: *mut c_void,
    ) -> Result<(), Error> {
        let _entered = self.context.enter()?;
        // SAFETY: promised by the caller.
        unsafe { self.context.calls().stream_call_host(self.handle, call, data) }
    }

    pub(crate) fn handle(self) -> Handle<'a, sys::CUstream_st> {
        self.handle
    }
}

/// A stream whose context is current on this thread as long as `'a`, so that what is asked of it is
/// one call of the driver. For paths on which every call counts; otherwise [`StreamRef`] says the
/// same with less ado.
#[derive(Clone, Copy)]
pub struct EnteredStream<'a> {
    entered: &'a ContextGuard<'a>,
    handle: Handle<'a, sys::CUstream_st>,
}

impl<'a> EnteredStream<'a> {
    /// The stream that a caller handed over as a `cudaStream_t` or `CUstream`.
    ///
    /// # Safety
    ///
    /// `raw` is null, 1, 2, or a stream of the entered context that lives as long as `'a`.
    pub unsafe fn from_raw(entered: &'a ContextGuard<'a>, raw: *mut c_void) -> Self {
        // SAFETY: promised by the caller; the three numbers need no object.
        Self { entered, handle: unsafe { Handle::from_raw(raw.cast()) } }
    }

    /// As [`StreamRef::wait`].
    pub fn wait(self, event: &Event) -> Result<(), Error> {
        self.calls().stream_wait(self.handle, event.handle(), 0)
    }

    /// As [`Event::record`].
    pub fn record(self, event: &Event) -> Result<(), Error> {
        self.calls().event_record(event.handle(), self.handle)
    }

    /// Writes `value` to the eight bytes at `address` when the stream gets there; whoever sees it
    /// sees all that the stream has written before.
    ///
    /// # Safety
    ///
    /// The bytes are aligned and stay valid until then, and whoever else uses them reckons with it.
    pub unsafe fn write_word(self, address: DevicePtr, value: u64) -> Result<(), Error> {
        const AFTER_ALL_WRITES: u32 = 0;
        // SAFETY: promised by the caller.
        unsafe { self.calls().stream_write_word(self.handle, address.0, value, AFTER_ALL_WRITES) }
    }

    /// Lets what comes later in the stream wait until the eight bytes at `address` are at least
    /// `value`, in a circle of numbers.
    ///
    /// # Safety
    ///
    /// The bytes are aligned and stay valid until then.
    pub unsafe fn await_word(self, address: DevicePtr, value: u64) -> Result<(), Error> {
        const AT_LEAST: u32 = 0;
        // SAFETY: promised by the caller.
        unsafe { self.calls().stream_await_word(self.handle, address.0, value, AT_LEAST) }
    }

    pub(crate) fn calls(self) -> &'static Calls {
        self.entered.context().calls()
    }

    pub(crate) fn handle(self) -> Handle<'a, sys::CUstream_st> {
        self.handle
    }
}

/// What a query says: done, not done, or failed.
pub(crate) fn done(answer: Result<(), Error>) -> Result<bool, Error> {
    match answer {
        Err(error) if error.is(CuResult::NOT_READY) => Ok(false),
        answer => answer.map(|()| true),
    }
}
