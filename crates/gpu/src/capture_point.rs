//! Branches of a graph that a stream records: work that is recorded one after another, and need not
//! be done so. A door for `unsafe`.

#![expect(unsafe_code, reason = "hands nodes of graphs to the driver")]

use cudarc::driver::sys::CUstreamUpdateCaptureDependencies_flags as Flags;

use crate::error::Error;
use crate::graph_mark::Node;
use crate::stream::EnteredStream;

/// A point of what a stream records: all that the next work would come after.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CapturePoint {
    capture: u64,
    nodes: Vec<Node>,
}

impl EnteredStream<'_> {
    /// How far the stream has recorded.
    ///
    /// # Errors
    ///
    /// It records nothing.
    pub fn capture_point(self) -> Result<CapturePoint, Error> {
        let frontier = self.frontier()?;
        Ok(CapturePoint { capture: frontier.capture, nodes: frontier.nodes })
    }

    /// Lets what the stream records from now on come after `points`, and not after anything else
    /// that it has recorded. In the end all branches must have come together again, or the capture
    /// fails.
    ///
    /// # Errors
    ///
    /// A point is of another capture.
    pub fn record_after(self, points: &[&CapturePoint]) -> Result<(), Error> {
        const SET: u32 = Flags::CU_STREAM_SET_CAPTURE_DEPENDENCIES as u32;
        let now = self.frontier()?.capture;
        if points.iter().any(|point| point.capture != now) {
            return Err(Error::NoHandle { requested: "a point of the capture under way" });
        }
        let nodes: Vec<_> = points.iter().flat_map(|point| &point.nodes).copied().collect();
        // SAFETY: nodes of the graph that is being recorded, from which nobody may take any; as
        // many as are said.
        unsafe {
            self.calls().capture_set_frontier(self.handle(), nodes.as_ptr(), nodes.len(), SET)
        }
    }
}
