//! Graphs: recorded work, made ready once and launched many times. A door for `unsafe`.

#![expect(unsafe_code, reason = "calls functions of the driver for graphs")]

use cudarc::driver::sys;

use crate::error::Error;
use crate::handle::Owned;
use crate::stream::StreamRef;

/// Recorded work, destroyed when dropped.
pub struct Graph {
    owned: Owned<sys::CUgraph_st>,
}

impl Graph {
    pub(crate) fn captured_by(stream: StreamRef<'_>) -> Result<Self, Error> {
        let owned = Owned::create(stream.context(), |calls, graph| {
            calls.capture_end(stream.handle(), graph)
        })?;
        Ok(Self { owned })
    }

    /// How many pieces of work it has.
    pub fn nodes(&self) -> Result<usize, Error> {
        let mut count = 0;
        self.owned.context().calls().graph_nodes(self.owned.handle(), None, &mut count)?;
        Ok(count)
    }

    /// Makes the graph ready to be launched. The graph is not needed afterwards.
    pub fn instantiate(&self) -> Result<GraphExec, Error> {
        let owned = Owned::create(self.owned.context(), |calls, exec| {
            calls.graph_instantiate(exec, self.owned.handle(), 0)
        })?;
        Ok(GraphExec { owned })
    }
}

/// A graph that is ready, destroyed when dropped. A launch that is under way is still done.
pub struct GraphExec {
    owned: Owned<sys::CUgraphExec_st>,
}

impl GraphExec {
    /// Does the recorded work when `stream` gets there. Launches of one `GraphExec` run one after
    /// the other.
    ///
    /// # Safety
    ///
    /// Everything that was promised about the recorded launches and copies holds again: memory is
    /// still valid, modules are still loaded.
    pub unsafe fn launch(&self, stream: StreamRef<'_>) -> Result<(), Error> {
        let _entered = stream.context().enter()?;
        // SAFETY: promised by the caller.
        unsafe { stream.context().calls().graph_launch(self.owned.handle(), stream.handle()) }
    }
}
