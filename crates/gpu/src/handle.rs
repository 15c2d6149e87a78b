//! Handles of driver objects: who may make them, how long they live, how they end. A door for
//! `unsafe`.
//!
//! Three types carry what a raw `CUstream` or `CUmodule` does not say:
//!
//! * [`Out`] is the place a driver call writes a new handle to. Only the driver can fill it.
//! * [`Owned`] owns an object and destroys it, with its context entered, exactly once.
//! * [`Handle`] is a handle whose object is alive for a lifetime, because it borrows an owner, or
//!   because someone promised so.
//!
//! Hence a call that takes only `Handle`s and numbers is safe to make.

#![expect(unsafe_code, reason = "holds handles of the driver and destroys what they stand for")]

use std::marker::PhantomData;
use std::ptr;

use cudarc::driver::sys;

use crate::calls::Calls;
use crate::context::Context;
use crate::error::Error;

/// A handle that the driver writes; null until then.
#[repr(transparent)]
pub(crate) struct Out<T>(*mut T);

impl<T> Out<T> {
    /// A place without a handle.
    pub(crate) fn empty() -> Self {
        Self(ptr::null_mut())
    }

    /// The handle as a number, 0 if there is none. Two handles of one object are equal numbers.
    pub(crate) fn address(&self) -> usize {
        self.0.addr()
    }

    /// The handle, used while `self` lives.
    ///
    /// # Safety
    ///
    /// The object must be alive as long as `self` is borrowed.
    pub(crate) unsafe fn handle(&self) -> Handle<'_, T> {
        Handle { raw: self.0, alive: PhantomData }
    }
}

impl Out<sys::CUctx_st> {
    /// The primary context written here, alive because whoever has the `Out` has retained it.
    pub(crate) fn retained(&self) -> Handle<'_, sys::CUctx_st> {
        Handle { raw: self.0, alive: PhantomData }
    }
}

// SAFETY: the driver's objects belong to no thread; its calls may be made from any of them.
unsafe impl<T> Send for Out<T> {}
// SAFETY: as above; the driver locks what it must.
unsafe impl<T> Sync for Out<T> {}

/// A handle whose object is alive for `'a`.
#[repr(transparent)]
pub(crate) struct Handle<'a, T> {
    raw: *mut T,
    alive: PhantomData<&'a Out<T>>,
}

impl<T> Clone for Handle<'_, T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Handle<'_, T> {}

impl<T> Handle<'_, T> {
    /// The handle that `raw` is.
    ///
    /// # Safety
    ///
    /// The object must be alive for the lifetime that the caller chooses, or `raw` a value that
    /// the driver understands without an object, such as a default stream.
    pub(crate) unsafe fn from_raw(raw: *mut T) -> Self {
        Self { raw, alive: PhantomData }
    }

    /// The handle as C has it.
    pub(crate) fn raw(self) -> *mut T {
        self.raw
    }
}

// SAFETY: the driver's objects belong to no thread; its calls may be made from any of them.
unsafe impl<T> Send for Handle<'_, T> {}
// SAFETY: as above; the driver locks what it must.
unsafe impl<T> Sync for Handle<'_, T> {}

/// A kind of object that this crate makes and destroys.
pub(crate) trait Object: Sized {
    /// What an error calls it.
    const NAME: &'static str;

    /// Destroys the object.
    ///
    /// # Safety
    ///
    /// `raw` must be alive and is used never again.
    unsafe fn destroy(calls: &Calls, raw: *mut Self) -> Result<(), Error>;
}

/// An object, its context, and the duty to destroy it.
pub(crate) struct Owned<T: Object> {
    object: Out<T>,
    context: Context,
    /// Whether others need the object for as long as the process runs.
    is_left: bool,
}

impl<T: Object> Owned<T> {
    /// The object that `create` makes with `context` entered.
    pub(crate) fn create(
        context: &Context,
        create: impl FnOnce(&Calls, &mut Out<T>) -> Result<(), Error>,
    ) -> Result<Self, Error> {
        let _entered = context.enter()?;
        let mut object = Out::empty();
        create(context.calls(), &mut object)?;
        if object.0.is_null() {
            return Err(Error::NoHandle { requested: T::NAME });
        }
        Ok(Self { object, context: context.clone(), is_left: false })
    }

    /// Leaves the object to others, and never destroys it.
    pub(crate) fn leave(&mut self) {
        self.is_left = true;
    }

    /// The object's handle.
    pub(crate) fn handle(&self) -> Handle<'_, T> {
        Handle { raw: self.object.0, alive: PhantomData }
    }

    /// The context in which the object was made.
    pub(crate) fn context(&self) -> &Context {
        &self.context
    }
}

impl<T: Object> Drop for Owned<T> {
    fn drop(&mut self) {
        if self.is_left {
            return;
        }
        // A driver that has shut down has taken the object along.
        let Ok(_entered) = self.context.enter() else { return };
        // SAFETY: handles borrow `self`, so that none is left; `drop` runs once.
        let _ = unsafe { T::destroy(self.context.calls(), self.object.0) };
    }
}

/// Says for each kind of object by which call it ends.
macro_rules! ends_by {
    ($($object:ident, $name:literal: $call:ident;)*) => {$(
        impl Object for sys::$object {
            const NAME: &'static str = $name;

            unsafe fn destroy(calls: &Calls, raw: *mut Self) -> Result<(), Error> {
                // SAFETY: promised by the caller.
                unsafe { calls.$call(raw) }
            }
        }
    )*};
}

ends_by! {
    CUstream_st, "a stream": stream_destroy;
    CUevent_st, "an event": event_destroy;
    CUgraph_st, "a graph": graph_destroy;
    CUgraphExec_st, "a graph to launch": graph_exec_destroy;
    CUmod_st, "a module": module_unload;
}
