//! Work of a call beside what its stream does meanwhile: in a stream of the rank's own, or, where
//! the caller's stream is being captured, in a branch of its graph.

use msccl_gpu::{CapturePoint, Context, Event, Stream};

use super::super::stream_order::{self, CallSite};
use crate::error::Error;

/// The stream of a rank's own, and how others come after it, and it after them. One call at a time
/// uses it; between two, callers' streams are in order.
pub(super) struct BranchStream {
    context: Context,
    stream: Stream,
    begin: Event,
    end: Event,
}

/// A branch that has begun: its work comes after what came before that.
pub(super) enum Branch<'a> {
    Stream(&'a BranchStream),
    Graph(CapturePoint),
}

impl BranchStream {
    /// Of the most urgent kind, since peers of the caller wait, too.
    pub fn new(context: &Context) -> Result<Self, Error> {
        let (_, most_urgent) = context.stream_priorities()?;
        let stream = Stream::with_priority(context, most_urgent)?;
        let (begin, end) = (Event::ordering(context)?, Event::ordering(context)?);
        Ok(Self { context: context.clone(), stream, begin, end })
    }

    /// Begins a branch of `site`.
    pub fn begin(&self, site: CallSite<'_>) -> Result<Branch<'_>, Error> {
        if site.capture.is_some() {
            return Ok(Branch::Graph(site.stream().capture_point()?));
        }
        site.stream().record(&self.begin)?;
        self.stream.borrow().wait(&self.begin)?;
        Ok(Branch::Stream(self))
    }
}

impl Branch<'_> {
    /// Has `work` put all that belongs to the branch of `site` into the stream of the handle that
    /// it gets. What comes into the stream of `site` later comes after it, and after what has come
    /// there since the branch began.
    pub fn finish(
        self,
        site: CallSite<'_>,
        work: impl FnOnce(u64) -> Result<(), Error>,
    ) -> Result<(), Error> {
        match self {
            Self::Stream(of) => {
                let stream = of.stream.borrow();
                let done = work(stream.as_raw().expose_provenance() as u64);
                of.end.record(stream)?;
                stream_order::stream(&of.context, site.raw).wait(&of.end)?;
                done
            }
            Self::Graph(begin) => {
                let trunk = site.stream().capture_point()?;
                site.stream().record_after(&[&begin])?;
                let done = work(site.raw);
                let branch = site.stream().capture_point()?;
                site.stream().record_after(&[&trunk, &branch])?;
                done
            }
        }
    }
}
