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
    ends: [Event; 2],
}

/// A branch that has begun: its work comes after what came before that.
pub(super) enum Branch<'a> {
    Stream(&'a BranchStream),
    Graph(CapturePoint),
}

/// A branch whose work is given to the driver, and after which nothing comes yet.
pub(super) enum FullBranch<'a> {
    Stream(&'a BranchStream, Slot),
    Graph(CapturePoint),
}

/// Two branches may be full at once.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Slot {
    Even,
    Odd,
}

impl Slot {
    /// Of the branch of that number.
    pub fn of(number: u64) -> Self {
        match number.is_multiple_of(2) {
            true => Self::Even,
            false => Self::Odd,
        }
    }
}

impl BranchStream {
    /// Of the most urgent kind, since peers of the caller wait, too.
    pub fn new(context: &Context) -> Result<Self, Error> {
        let (_, most_urgent) = context.stream_priorities()?;
        let stream = Stream::with_priority(context, most_urgent)?;
        let event = || Event::ordering(context);
        let (begin, ends) = (event()?, [event()?, event()?]);
        Ok(Self { context: context.clone(), stream, begin, ends })
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

    fn end(&self, slot: Slot) -> &Event {
        let [even, odd] = &self.ends;
        match slot {
            Slot::Even => even,
            Slot::Odd => odd,
        }
    }
}

impl<'a> Branch<'a> {
    /// Has `work` put all that belongs to the branch of `site` where it is sent.
    pub fn fill(
        self,
        site: CallSite<'_>,
        slot: Slot,
        work: impl FnOnce(CallSite<'_>) -> Result<(), Error>,
    ) -> Result<FullBranch<'a>, Error> {
        match self {
            Self::Stream(of) => {
                let stream = of.stream.borrow();
                work(site.with_stream(stream.as_raw().expose_provenance() as u64))?;
                of.end(slot).record(stream)?;
                Ok(FullBranch::Stream(of, slot))
            }
            Self::Graph(begin) => {
                let trunk = site.stream().capture_point()?;
                site.stream().record_after(&[&begin])?;
                work(site)?;
                let branch = site.stream().capture_point()?;
                site.stream().record_after(&[&trunk])?;
                Ok(FullBranch::Graph(branch))
            }
        }
    }
}

impl FullBranch<'_> {
    /// What comes to `site` from now on comes after the branch, too.
    pub fn join(self, site: CallSite<'_>) -> Result<(), Error> {
        match self {
            Self::Stream(of, slot) => {
                Ok(stream_order::stream(&of.context, site.raw).wait(of.end(slot))?)
            }
            Self::Graph(branch) => {
                let trunk = site.stream().capture_point()?;
                Ok(site.stream().record_after(&[&trunk, &branch])?)
            }
        }
    }
}
