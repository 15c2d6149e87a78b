//! Events that graphs share with streams and other graphs. A door for `unsafe`.
//!
//! A wait for an event or a mark of one that a stream records is an edge of the graph, and nobody
//! outside sees it. Here they are nodes: whenever the graph runs, it waits for the event's latest
//! mark, of streams or of other graphs, and marks the event again.
//!
//! A mark stands beside the work that is recorded: it comes after it, and nothing comes after the
//! mark. So what is recorded later, which moves the mark behind itself, follows what came before
//! without a node between.

#![expect(unsafe_code, reason = "calls functions of the driver for nodes of graphs")]

use std::ptr;

use cudarc::driver::sys;

use crate::error::{CuResult, Error};
use crate::event::Event;
use crate::handle::{Handle, Out};
use crate::stream::EnteredStream;

/// A node of a graph, as the driver names it.
#[repr(transparent)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Node(*mut sys::CUgraphNode_st);

// SAFETY: a name, which belongs to no thread.
unsafe impl Send for Node {}

/// Where a graph that is being recorded marks an event.
#[derive(Debug)]
pub struct GraphMark {
    /// The capture that records it.
    capture: u64,
    node: Node,
    after: Vec<Node>,
}

/// What the next work of a stream that records will come after.
pub(crate) struct Frontier {
    pub capture: u64,
    graph: Out<sys::CUgraph_st>,
    pub nodes: Vec<Node>,
}

impl EnteredStream<'_> {
    /// Lets what this stream records from now on wait, whenever the graph runs, for the latest mark
    /// of `event` by then. An event never marked is not waited for.
    pub fn wait_in_graph(self, event: &Event) -> Result<(), Error> {
        const EXTERNAL: u32 = sys::CUevent_wait_flags::CU_EVENT_WAIT_EXTERNAL as u32;
        self.calls().stream_wait(self.handle(), event.handle(), EXTERNAL)
    }

    /// Has the graph that this stream records mark `event` behind what the stream has recorded so
    /// far. A `mark` that this capture has made before is moved there.
    ///
    /// The event must not be destroyed as long as the graph may be launched
    /// ([`Event::outlive_owner`]).
    pub fn mark_in_graph(self, event: &Event, mark: &mut Option<GraphMark>) -> Result<(), Error> {
        let Frontier { capture, graph, nodes } = self.frontier()?;
        let calls = self.calls();
        // SAFETY: the graph is alive while the stream records it.
        let graph = unsafe { graph.handle() };
        let Some(mark) = mark.as_mut().filter(|mark| mark.capture == capture) else {
            let mut node = Node(ptr::null_mut());
            // SAFETY: the nodes are of this graph, and as many as are said.
            unsafe {
                let (after, count) = (nodes.as_ptr(), nodes.len());
                calls.graph_add_record(&mut node, graph, after, count, event.handle())?;
            }
            *mark = Some(GraphMark { capture, node, after: nodes });
            return Ok(());
        };
        let fresh = without(&nodes, &mark.after);
        let stale = without(&mark.after, &nodes);
        let to = vec![mark.node; fresh.len().max(stale.len())];
        // SAFETY: the nodes are of this graph, for nobody may take nodes out of one that is being
        // recorded; both lists are as long as is said. The old edges are those that were added last
        // time.
        unsafe {
            if !fresh.is_empty() {
                calls.graph_add_edges(graph, fresh.as_ptr(), to.as_ptr(), fresh.len())?;
            }
            if !stale.is_empty() {
                calls.graph_remove_edges(graph, stale.as_ptr(), to.as_ptr(), stale.len())?;
            }
        }
        mark.after = nodes;
        Ok(())
    }

    pub(crate) fn frontier(self) -> Result<Frontier, Error> {
        let (mut status, mut capture, mut graph) = (0, 0, Out::empty());
        let (mut nodes, mut edges, mut count) = (ptr::null(), ptr::null(), 0);
        let (calls, stream): (_, Handle<'_, _>) = (self.calls(), self.handle());
        let plain = calls.capture_frontier(
            stream,
            &mut status,
            &mut capture,
            &mut graph,
            &mut nodes,
            &mut count,
        );
        match plain {
            Err(error) if error.is(CuResult::LOSSY_QUERY) => calls.capture_frontier_with_edges(
                stream,
                &mut status,
                &mut capture,
                &mut graph,
                &mut nodes,
                &mut edges,
                &mut count,
            )?,
            plain => plain?,
        }
        if graph.address() == 0 {
            return Err(Error::NoHandle { requested: "the graph being recorded" });
        }
        let nodes = match nodes.is_null() {
            true => Vec::new(),
            // SAFETY: so many nodes, which the driver keeps until the stream is used again.
            false => unsafe { std::slice::from_raw_parts(nodes, count) }.to_vec(),
        };
        Ok(Frontier { capture, graph, nodes })
    }
}

/// Those of `nodes` that `others` lacks.
fn without(nodes: &[Node], others: &[Node]) -> Vec<Node> {
    nodes.iter().copied().filter(|node| !others.contains(node)).collect()
}
