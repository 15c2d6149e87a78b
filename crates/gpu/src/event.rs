//! Events: points in streams to wait for, and to measure between.

use cudarc::driver::sys;

use crate::context::Context;
use crate::error::Error;
use crate::handle::{Handle, Owned};
use crate::stream::{StreamRef, done};

/// A point in a stream, destroyed when dropped.
pub struct Event {
    owned: Owned<sys::CUevent_st>,
}

impl Event {
    /// An event for ordering only, the cheaper kind.
    pub fn ordering(context: &Context) -> Result<Self, Error> {
        Self::with_flags(context, sys::CUevent_flags::CU_EVENT_DISABLE_TIMING as u32)
    }

    /// An event that knows when it happened.
    pub fn timing(context: &Context) -> Result<Self, Error> {
        Self::with_flags(context, sys::CUevent_flags::CU_EVENT_DEFAULT as u32)
    }

    fn with_flags(context: &Context, flags: u32) -> Result<Self, Error> {
        let owned = Owned::create(context, |calls, event| calls.event_create(event, flags))?;
        Ok(Self { owned })
    }

    /// Makes this the point that `stream`, of the same context, has reached by now; a point marked
    /// before is forgotten.
    pub fn record(&self, stream: StreamRef<'_>) -> Result<(), Error> {
        stream.entered(|stream| stream.record(self))
    }

    /// Whether the point has been passed; true of an event never recorded.
    pub fn is_done(&self) -> Result<bool, Error> {
        let _entered = self.context().enter()?;
        done(self.context().calls().event_query(self.handle()))
    }

    /// Waits until the point has been passed.
    pub fn synchronize(&self) -> Result<(), Error> {
        let _entered = self.context().enter()?;
        self.context().calls().event_synchronize(self.handle())
    }

    /// The time from `earlier` to this event in microseconds. Both must be of the
    /// [timing](Event::timing) kind and passed; the resolution is about half a microsecond.
    pub fn elapsed_us(&self, earlier: &Event) -> Result<f64, Error> {
        let _entered = self.context().enter()?;
        let mut milliseconds = 0.0;
        let calls = self.context().calls();
        calls.event_elapsed(&mut milliseconds, earlier.handle(), self.handle())?;
        Ok(f64::from(milliseconds) * 1e3)
    }

    /// Never destroys the event: graphs that name it may be launched, or come to their end, after
    /// its owner.
    pub fn outlive_owner(&mut self) {
        self.owned.leave();
    }

    pub(crate) fn handle(&self) -> Handle<'_, sys::CUevent_st> {
        self.owned.handle()
    }

    fn context(&self) -> &Context {
        self.owned.context()
    }
}
