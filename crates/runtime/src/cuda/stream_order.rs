//! The order of calls on one communicator, whatever streams they come in. An unsafe boundary.
//!
//! Two calls in one stream are in order already. When the stream changes, the new one waits for the
//! old one: by an event, which within a capture becomes an edge of the graph. The end of every call
//! outside captures is marked at once, since a caller may destroy a stream as soon as a call has
//! returned, and the driver does not survive the use of a stream that is gone.
//!
//! Streams are distinguished by their handles. A new stream may get the handle of one that was
//! destroyed, but the driver keeps what belongs to a destroyed stream until its work is done, so
//! that nothing is left to wait for. The handle of the per-thread default stream stands for another
//! stream on every thread, so a call in it always waits.
//!
//! Whether a stream is being captured is asked before every call: a capture begins without a word
//! to libraries.
//!
//! Graphs keep the same order when they are launched ([`GraphOrder::Launches`]): each begins with a
//! wait for the mark of the last call, whoever made it, and ends with a mark of its own; and once a
//! call was captured, every call outside of captures waits for that mark, since a graph may have
//! run in any stream meanwhile. Communicators of which no call was ever captured pay nothing for
//! it.

#![expect(unsafe_code, reason = "takes streams of callers as raw handles")]

use msccl_gpu::{
    CaptureState, Context, ContextGuard, CuResult, DevicePtr, EnteredStream, Event, GraphMark,
    StreamRef,
};
use msccl_trace::recording::LaunchKind;

use crate::error::{Error, ErrorKind};
use crate::settings::GraphOrder;

/// Where a call goes.
#[derive(Clone, Copy)]
pub(super) struct CallSite<'a> {
    entered: &'a ContextGuard<'a>,
    /// The handle of its stream.
    pub raw: u64,
    /// By which the stream is being captured.
    pub capture: Option<u64>,
    /// Whether a wait stands before the call in its graph, and nothing else of this communicator.
    pub begins_graph: bool,
}

impl<'a> CallSite<'a> {
    /// Where a call in `raw` goes now.
    fn of(entered: &'a ContextGuard<'a>, raw: u64) -> Result<Self, Error> {
        let capture = capture_of(entered_stream(entered, raw))?;
        Ok(Self { entered, raw, capture, begins_graph: false })
    }

    /// How recordings say that it is launched.
    pub fn launch_kind(self) -> LaunchKind {
        if self.capture.is_some() { LaunchKind::Captured } else { LaunchKind::Stream }
    }

    /// The same in another stream, of this library's own.
    pub fn with_stream(self, raw: u64) -> Self {
        Self { raw, ..self }
    }

    /// Its stream.
    pub fn stream(self) -> EnteredStream<'a> {
        entered_stream(self.entered, self.raw)
    }

    /// Whether what comes here comes after what was last sent to `stream`. Of the per-thread
    /// default stream nobody knows whose the last one was.
    pub fn follows(self, stream: u64) -> bool {
        stream == self.raw && stream != PER_THREAD
    }
}

/// A capture in which calls were recorded.
struct CapturedCall {
    capture: u64,
    /// The stream of its last call.
    stream: u64,
    /// Where its graph marks the end of that call, if it does.
    mark: Option<GraphMark>,
}

/// Captures that are known at once. One that goes on after so many others counts as a new one: then
/// its graph waits and marks once more.
const CAPTURES_MAX: usize = 16;

/// The handle that stands for the default stream of whichever thread uses it.
const PER_THREAD: u64 = 2;

/// The order of calls.
pub(super) struct Order {
    context: Context,
    /// The stream of the last call outside captures. A capture between two of them does not change
    /// their order.
    last: Option<u64>,
    /// Marks its end.
    end: Event,
    /// The last captures, the latest last. If there are any, graphs may run at any time.
    captured: Vec<CapturedCall>,
    graphs: GraphOrder,
}

/// The stream that a caller handed over.
pub(super) fn stream(context: &Context, raw: u64) -> StreamRef<'_> {
    let raw = std::ptr::with_exposed_provenance_mut(raw as usize);
    // SAFETY: a caller of the C API hands over a stream of the communicator's device that lives at
    // least as long as the call; whoever keeps one longer marks its end with an event.
    unsafe { StreamRef::from_raw(context, raw) }
}

/// The same, where the context is entered already: one query less for everything that is asked of
/// it.
fn entered_stream<'a>(entered: &'a ContextGuard<'_>, raw: u64) -> EnteredStream<'a> {
    let raw = std::ptr::with_exposed_provenance_mut(raw as usize);
    // SAFETY: as in `stream`.
    unsafe { EnteredStream::from_raw(entered, raw) }
}

/// The capture that records `stream`, if one does.
fn capture_of(stream: EnteredStream<'_>) -> Result<Option<u64>, Error> {
    match stream.capture_state() {
        Ok(CaptureState::None) => Ok(None),
        Ok(CaptureState::Active(id)) => Ok(Some(id)),
        Ok(CaptureState::Invalidated) => {
            Err(Error::new(ErrorKind::Cuda, "the stream's capture has been invalidated"))
        }
        // The legacy stream cannot be asked while others capture, and never captures.
        Err(error) if error.is(CuResult::STREAM_CAPTURE_IMPLICIT) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Whether the stream `raw` is being captured.
pub(super) fn is_captured(entered: &ContextGuard<'_>, raw: u64) -> Result<bool, Error> {
    Ok(capture_of(entered_stream(entered, raw))?.is_some())
}

/// Copies bytes between buffers of callers, when `raw` gets there.
pub(super) fn copy(
    context: &Context,
    from: u64,
    to: u64,
    bytes: u64,
    raw: u64,
) -> Result<(), Error> {
    let (from, to) = (DevicePtr(from), DevicePtr(to));
    // SAFETY: by the C API the buffers live until the call is done, and in graphs as long as those.
    unsafe { stream(context, raw).copy(to, from, bytes as usize)? };
    Ok(())
}

impl Order {
    /// Whether some call was captured, so that graphs may name what calls used.
    pub fn has_captured(&self) -> bool {
        !self.captured.is_empty()
    }

    pub fn new(context: &Context, graphs: GraphOrder) -> Result<Self, Error> {
        let end = Event::ordering(context)?;
        Ok(Self { context: context.clone(), last: None, end, captured: Vec::new(), graphs })
    }

    /// Before a launch in `raw`: what came before comes first.
    pub fn before<'a>(
        &mut self,
        entered: &'a ContextGuard<'a>,
        raw: u64,
    ) -> Result<CallSite<'a>, Error> {
        let site = CallSite::of(entered, raw)?;
        match site.capture {
            None => {
                let last = self.last.replace(raw);
                if self.graphs_may_have_run() || last.is_some_and(|last| !site.follows(last)) {
                    site.stream().wait(&self.end)?;
                }
                Ok(site)
            }
            Some(capture) => self.before_captured(site, capture),
        }
    }

    /// Whether the last mark may be a graph's.
    fn graphs_may_have_run(&self) -> bool {
        match self.graphs {
            GraphOrder::Launches => !self.captured.is_empty(),
            GraphOrder::Users => false,
        }
    }

    #[cold]
    fn before_captured<'a>(
        &mut self,
        site: CallSite<'a>,
        capture: u64,
    ) -> Result<CallSite<'a>, Error> {
        let stream = site.raw;
        if let Some(of) = self.captured.iter_mut().find(|of| of.capture == capture) {
            let last = std::mem::replace(&mut of.stream, stream);
            if last != stream {
                let edge = Event::ordering(&self.context)?;
                entered_stream(site.entered, last).record(&edge)?;
                site.stream().wait(&edge)?;
            }
            return Ok(site);
        }
        if self.captured.len() == CAPTURES_MAX {
            self.captured.remove(0);
        }
        self.captured.push(CapturedCall { capture, stream, mark: None });
        match self.graphs {
            GraphOrder::Launches => {
                self.end.outlive_owner();
                site.stream().wait_in_graph(&self.end)?;
                Ok(CallSite { begins_graph: true, ..site })
            }
            GraphOrder::Users => Ok(site),
        }
    }

    /// After a launch.
    #[inline]
    pub fn after(&mut self, site: CallSite<'_>) -> Result<(), Error> {
        match site.capture {
            None => Ok(site.stream().record(&self.end)?),
            Some(capture) => self.after_captured(site, capture),
        }
    }

    #[cold]
    fn after_captured(&mut self, site: CallSite<'_>, capture: u64) -> Result<(), Error> {
        match self.graphs {
            GraphOrder::Launches => {
                let Self { captured, end, .. } = self;
                let of = captured.iter_mut().find(|of| of.capture == capture);
                of.map_or(Ok(()), |of| Ok(site.stream().mark_in_graph(end, &mut of.mark)?))
            }
            GraphOrder::Users => Ok(()),
        }
    }

    /// Whether all calls are done; never waits, unless some were captured: what graphs do is known
    /// to nobody but the device.
    pub fn is_idle(&self) -> Result<bool, Error> {
        if !self.captured.is_empty() {
            self.context.synchronize()?;
        }
        Ok(self.end.is_done()?)
    }

    /// Lets the first of `streams` wait for what the others hold so far.
    pub fn join(&self, streams: &[u64]) -> Result<(), Error> {
        let Some((&first, others)) = streams.split_first() else { return Ok(()) };
        for &other in others {
            let edge = Event::ordering(&self.context)?;
            edge.record(stream(&self.context, other))?;
            stream(&self.context, first).wait(&edge)?;
        }
        Ok(())
    }

    /// Lets all others wait for what the first of `streams` holds so far.
    pub fn release(&self, streams: &[u64]) -> Result<(), Error> {
        let Some((&first, others)) = streams.split_first() else { return Ok(()) };
        if others.is_empty() {
            return Ok(());
        }
        let edge = Event::ordering(&self.context)?;
        edge.record(stream(&self.context, first))?;
        others.iter().try_for_each(|&other| Ok(stream(&self.context, other).wait(&edge)?))
    }
}
