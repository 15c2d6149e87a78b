//! Streams and events, captures, and the nodes and edges of their graphs.

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize};
use std::sync::{Mutex, PoisonError};

use super::{INVALID_HANDLE, INVALID_VALUE, OUT_OF_MEMORY, SUCCESS};

/// Streams and events: so many at once.
const OBJECTS: usize = 1024;

/// A stream or an event.
pub struct Object {
    alive: AtomicBool,
    /// The capture that has it, or 0.
    pub capture: AtomicU64,
    /// The node of that capture's graph that it has come to, or 0.
    pub node: AtomicUsize,
}

impl Object {
    const fn new(alive: bool) -> Self {
        let (capture, node) = (AtomicU64::new(0), AtomicUsize::new(0));
        Self { alive: AtomicBool::new(alive), capture, node }
    }
}

impl Object {
    /// Goes on after `nodes`: of several, after an empty one that comes after all of them.
    pub fn come_after(&self, nodes: &[usize]) {
        let node = match nodes {
            [] => 0,
            [node] => *node,
            nodes => add_node(self.capture.load(SeqCst), nodes),
        };
        self.node.store(node, SeqCst);
    }
}

/// Objects of one kind; a handle is `base` and the object's place.
pub struct Objects {
    base: usize,
    pub all: [Object; OBJECTS],
}

impl Objects {
    const fn new(base: usize) -> Self {
        const FREE: Object = Object::new(false);
        Self { base, all: [FREE; OBJECTS] }
    }

    /// A new handle: the lowest that is free.
    pub fn create(&self, handle: &mut usize) -> u32 {
        let is_free = |object: &Object| !object.alive.swap(true, SeqCst);
        let Some(place) = self.all.iter().position(is_free) else { return OUT_OF_MEMORY };
        self.all[place].capture.store(0, SeqCst);
        self.all[place].node.store(0, SeqCst);
        *handle = self.base + place;
        SUCCESS
    }

    pub fn find(&self, handle: usize) -> Option<&Object> {
        let object = self.all.get(handle.checked_sub(self.base)?)?;
        object.alive.load(Relaxed).then_some(object)
    }

    pub fn destroy(&self, handle: usize) -> u32 {
        match self.find(handle) {
            Some(object) => object.alive.store(false, SeqCst),
            None => return INVALID_HANDLE,
        }
        SUCCESS
    }
}

pub static STREAMS: Objects = Objects::new(0x10_0000);
pub static EVENTS: Objects = Objects::new(0x20_0000);
/// The default streams, which always are: null, the legacy one, the calling thread's.
static DEFAULT: Object = Object::new(true);

/// The stream of that handle; several handles stand for the default one.
pub fn stream(handle: usize) -> Option<&'static Object> {
    if handle <= 2 { Some(&DEFAULT) } else { STREAMS.find(handle) }
}

/// Makes `event` a point of the stream of that handle, and of its capture.
pub fn mark(event: usize, handle: usize) -> u32 {
    let (Some(stream), Some(event)) = (stream(handle), EVENTS.find(event)) else {
        return INVALID_HANDLE;
    };
    event.capture.store(stream.capture.load(Relaxed), Relaxed);
    event.node.store(stream.node.load(Relaxed), Relaxed);
    SUCCESS
}

/// The nodes of a graph, and which comes after which.
#[derive(Default)]
pub struct Graph {
    pub nodes: BTreeSet<usize>,
    pub edges: BTreeSet<(usize, usize)>,
}

/// Graphs, by the number of the capture or the handle of what was made of it.
static GRAPHS: Mutex<BTreeMap<u64, Graph>> = Mutex::new(BTreeMap::new());
pub static CAPTURES: AtomicU64 = AtomicU64::new(0);

thread_local! {
    /// Captures that this thread has begun, and that forbid it some calls.
    pub static STRICT_CAPTURES: Cell<u32> = const { Cell::new(0) };
    /// The thread's capture mode.
    pub static MODE: Cell<u32> = const { Cell::new(0) };
}

/// The capture mode in which everything is allowed.
pub const RELAXED: u32 = 2;

/// Whether calls are forbidden that a capture may not see, as allocations are.
pub fn is_strict() -> bool {
    STRICT_CAPTURES.get() > 0 && MODE.get() != RELAXED
}

pub fn graphs<T>(body: impl FnOnce(&mut BTreeMap<u64, Graph>) -> T) -> T {
    body(&mut GRAPHS.lock().unwrap_or_else(PoisonError::into_inner))
}

/// A new node of the graph that the capture `id` records, after the nodes `after`.
pub fn add_node(id: u64, after: &[usize]) -> usize {
    static NODES: AtomicUsize = AtomicUsize::new(1);
    let node = NODES.fetch_add(1, SeqCst);
    graphs(|graphs| {
        let graph = graphs.entry(id).or_default();
        graph.nodes.insert(node);
        graph.edges.extend(after.iter().map(|&before| (before, node)));
    });
    node
}

/// Records a node in `stream`, which comes after what the stream has recorded.
pub fn record(stream: &Object, id: u64) {
    let before = stream.node.load(SeqCst);
    let after = if before == 0 { &[][..] } else { &[before] };
    stream.node.store(add_node(id, after), SeqCst);
}

/// Does `change` with every edge, of which both ends must be nodes of the graph, and fails where
/// that is false.
pub fn change_edges(
    graph: usize,
    [from, to]: [&[usize]; 2],
    change: impl Fn(&mut BTreeSet<(usize, usize)>, (usize, usize)) -> bool,
) -> u32 {
    let changed = graphs(|graphs| {
        let graph = graphs.get_mut(&(graph as u64))?;
        let edges = || from.iter().copied().zip(to.iter().copied());
        let known = edges().all(|(from, to)| [from, to].iter().all(|it| graph.nodes.contains(it)));
        (known && edges().all(|edge| change(&mut graph.edges, edge))).then_some(())
    });
    changed.map_or(INVALID_VALUE, |()| SUCCESS)
}

/// Work in a stream: done, or recorded as a node.
pub fn work(handle: usize, body: impl FnOnce()) -> u32 {
    let Some(stream) = stream(handle) else { return INVALID_HANDLE };
    match stream.capture.load(Relaxed) {
        0 => body(),
        id => record(stream, id),
    }
    SUCCESS
}
