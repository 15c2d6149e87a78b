//! Work of a call beside what its stream does meanwhile: in a stream of the rank's own, or, where
//! the caller's stream is being captured, in a branch of its graph.

use msccl_gpu::{CapturePoint, Context, Event, Stream};

use super::super::stream_order::{self, CallSite};
use crate::error::Error;
use crate::shared_state::PIECES;

/// How many marks of a branch there may be before one is joined.
const MARKS: usize = PIECES as usize;

/// The stream of a rank's own, and how others come after it, and it after them. One call at a time
/// uses it; between two, callers' streams are in order.
pub(super) struct BranchStream {
    context: Context,
    stream: Stream,
    begin: Event,
    marks: [Event; MARKS],
}

/// A branch that has begun: its work comes after what came before that.
pub(super) enum Branch<'a> {
    Stream(&'a BranchStream),
    /// What its next work comes after.
    Graph(CapturePoint),
}

/// What a branch has done up to somewhere.
pub(super) enum Mark<'a> {
    Stream(&'a BranchStream, &'a Event),
    Graph(CapturePoint),
}

impl BranchStream {
    /// Of the most urgent kind, since peers of the caller wait, too.
    pub fn new(context: &Context) -> Result<Self, Error> {
        let stream = Stream::most_urgent(context)?;
        let marks: Vec<_> =
            (0..MARKS).map(|_| Event::ordering(context)).collect::<Result<_, _>>()?;
        let marks = marks.try_into().map_err(|_| Error::internal("marks are missing"))?;
        Ok(Self { context: context.clone(), stream, begin: Event::ordering(context)?, marks })
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

impl<'a> Branch<'a> {
    /// Has `work` put more into the branch of `site`, where it is sent. Of [`MARKS`] numbers in a
    /// row, `number` says which mark is used again.
    pub fn extend(
        &mut self,
        site: CallSite<'_>,
        number: u64,
        work: impl FnOnce(CallSite<'_>) -> Result<(), Error>,
    ) -> Result<Mark<'a>, Error> {
        match self {
            Self::Stream(of) => {
                let stream = of.stream.borrow();
                work(site.with_stream(stream.as_raw().expose_provenance() as u64))?;
                let mark = of.marks.get(number as usize % MARKS);
                let mark = mark.ok_or_else(|| Error::internal("a mark is missing"))?;
                mark.record(stream)?;
                Ok(Mark::Stream(of, mark))
            }
            Self::Graph(end) => {
                let trunk = site.stream().capture_point()?;
                site.stream().record_after(&[&*end])?;
                work(site)?;
                *end = site.stream().capture_point()?;
                site.stream().record_after(&[&trunk])?;
                Ok(Mark::Graph(end.clone()))
            }
        }
    }
}

impl Mark<'_> {
    /// What comes to `site` from now on comes after what the branch has done, too.
    pub fn join(self, site: CallSite<'_>) -> Result<(), Error> {
        match self {
            Self::Stream(of, mark) => Ok(stream_order::stream(&of.context, site.raw).wait(mark)?),
            Self::Graph(mark) => {
                let trunk = site.stream().capture_point()?;
                Ok(site.stream().record_after(&[&trunk, &mark])?)
            }
        }
    }
}
