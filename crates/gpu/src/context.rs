//! A device's primary context: shared with everyone in the process, entered and left.
//!
//! The CUDA runtime, and with it PyTorch, uses each device's *primary* context, so this crate uses
//! no other. A thread has one *current* context, from which the runtime derives its current
//! device; a library that leaves another one behind moves its caller to another device. Hence
//! [`Context::enter`]: it makes our context current and gives a guard that puts back what was
//! there, on every way out. Everything in this crate that needs a current context enters its own;
//! entering again what is current already costs one cheap query, so code that makes many calls
//! enters once around them, and where even that query counts, asks an
//! [`EnteredStream`](crate::EnteredStream). Nobody keeps in mind what is current beyond a guard:
//! the caller may change it between any two calls.

use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

use cudarc::driver::sys;

use crate::calls::Calls;
use crate::capture::CaptureModeGuard;
use crate::device::Device;
use crate::error::{CuResult, Error};
use crate::handle::{Handle, Out};
use crate::memory::DeviceBuffer;
use crate::pinned::PinnedBuffer;

/// A device's primary context, kept alive. Clones share it.
///
/// The last clone gives the context back to the driver, which destroys it when nobody else in the
/// process holds it. A context that must outlive everything belongs in a `static`: giving it back
/// while the process ends races with the driver's own shutdown.
#[derive(Clone)]
pub struct Context(Arc<Retained>);

struct Retained {
    device: Device,
    raw: Out<sys::CUctx_st>,
}

impl Drop for Retained {
    fn drop(&mut self) {
        // A driver that has shut down needs nothing back.
        let _ = self.device.calls().primary_release(self.device.raw());
    }
}

impl fmt::Debug for Context {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Context(device {})", self.device().ordinal())
    }
}

impl Device {
    /// The device's primary context, made now if nobody in the process has used the device yet.
    pub fn context(self) -> Result<Context, Error> {
        let mut raw = Out::empty();
        self.calls().primary_retain(&mut raw, self.raw())?;
        Ok(Context(Arc::new(Retained { device: self, raw })))
    }

    /// Whether somebody in the process holds the primary context.
    pub fn has_active_context(self) -> Result<bool, Error> {
        let (mut flags, mut active) = (0, 0);
        self.calls().primary_state(self.raw(), &mut flags, &mut active)?;
        Ok(active != 0)
    }
}

/// While it lives, its context is current on this thread; then what was current before is again.
///
/// Guards on one thread must end in the reverse of the order in which they began, as local
/// variables do.
#[must_use = "the context is current only as long as the guard lives"]
pub struct ContextGuard<'a> {
    context: &'a Context,
    pushed: bool,
    stays_on_its_thread: PhantomData<*const ()>,
}

impl ContextGuard<'_> {
    pub(crate) fn context(&self) -> &Context {
        self.context
    }
}

impl Drop for ContextGuard<'_> {
    fn drop(&mut self) {
        if self.pushed {
            // Fails only when the driver has shut down, and then no context is current anyway.
            let _ = self.context.calls().context_pop(&mut Out::empty());
        }
    }
}

impl Context {
    /// Makes this context current on the calling thread for as long as the guard lives.
    pub fn enter(&self) -> Result<ContextGuard<'_>, Error> {
        let mut current = Out::empty();
        self.calls().context_current(&mut current)?;
        let pushed = current.address() != self.0.raw.address();
        if pushed {
            self.calls().context_push(self.handle())?;
        }
        Ok(ContextGuard { context: self, pushed, stays_on_its_thread: PhantomData })
    }

    /// The device whose context this is.
    pub fn device(&self) -> Device {
        self.0.device
    }

    /// Waits until the device has done everything asked of it in this context, by anyone. Ends
    /// every capture of a stream that is under way, with an error.
    pub fn synchronize(&self) -> Result<(), Error> {
        let _entered = self.enter()?;
        self.calls().context_synchronize()
    }

    /// The same where a stream may be being captured, which [`Context::synchronize`] would end:
    /// drivers free memory when nothing on the device can use it any more, and a capture is no work
    /// that is under way. Meanwhile they take no calls of other threads of the process
    /// (`docs/decisions/013-copy-engines.md`): what the device does must not wait for any.
    pub fn synchronize_beside_captures(&self) -> Result<(), Error> {
        let _relaxed = CaptureModeGuard::relaxed(self.device().driver())?;
        let freed = DeviceBuffer::new(self, 1).map(drop);
        // The device may have no memory left, which is why somebody frees some.
        freed.or_else(|_| PinnedBuffer::new(self, 1).map(drop))
    }

    /// How much of the device's memory is free, in bytes, and how much there is.
    pub fn memory_info(&self) -> Result<(usize, usize), Error> {
        let _entered = self.enter()?;
        let (mut free, mut total) = (0, 0);
        self.calls().memory_info(&mut free, &mut total)?;
        Ok((free, total))
    }

    /// Lets kernels of this context use memory that was allocated plainly in `peer`, another
    /// device's context. Doing it again is no error. Virtual memory is not covered: each mapping
    /// names its devices itself.
    pub fn enable_peer_access(&self, peer: &Context) -> Result<(), Error> {
        let _entered = self.enter()?;
        match self.calls().context_enable_peer(peer.handle(), 0) {
            Err(error) if error.is(CuResult::PEER_ACCESS_ALREADY_ENABLED) => Ok(()),
            result => result,
        }
    }

    /// The range of stream priorities: the least and the most urgent, which is the lesser number.
    pub fn stream_priorities(&self) -> Result<(i32, i32), Error> {
        let _entered = self.enter()?;
        let (mut least, mut greatest) = (0, 0);
        self.calls().stream_priorities(&mut least, &mut greatest)?;
        Ok((least, greatest))
    }

    pub(crate) fn calls(&self) -> &'static Calls {
        self.device().calls()
    }

    /// The context as a number, to compare it with others.
    pub(crate) fn address(&self) -> usize {
        self.0.raw.address()
    }

    fn handle(&self) -> Handle<'_, sys::CUctx_st> {
        self.0.raw.retained()
    }
}
