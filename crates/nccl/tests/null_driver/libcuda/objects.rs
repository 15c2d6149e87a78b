//! Streams and events, captures, and how many nodes their graphs have.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Mutex, PoisonError};

use super::{INVALID_HANDLE, OUT_OF_MEMORY, SUCCESS};

/// Streams and events: so many at once.
const OBJECTS: usize = 1024;

/// A stream or an event.
pub struct Object {
    alive: AtomicBool,
    /// The capture that has it, or 0.
    pub capture: AtomicU64,
}

/// Objects of one kind; a handle is `base` and the object's place.
pub struct Objects {
    base: usize,
    pub all: [Object; OBJECTS],
}

impl Objects {
    const fn new(base: usize) -> Self {
        const FREE: Object = Object { alive: AtomicBool::new(false), capture: AtomicU64::new(0) };
        Self { base, all: [FREE; OBJECTS] }
    }

    /// A new handle: the lowest that is free.
    pub fn create(&self, handle: &mut usize) -> u32 {
        let is_free = |object: &Object| !object.alive.swap(true, SeqCst);
        let Some(place) = self.all.iter().position(is_free) else { return OUT_OF_MEMORY };
        self.all[place].capture.store(0, SeqCst);
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
static DEFAULT: Object = Object { alive: AtomicBool::new(true), capture: AtomicU64::new(0) };

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
    SUCCESS
}

/// Nodes of graphs, by the number of the capture or the handle of what was made of it.
static GRAPHS: Mutex<BTreeMap<u64, usize>> = Mutex::new(BTreeMap::new());
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

pub fn graphs<T>(body: impl FnOnce(&mut BTreeMap<u64, usize>) -> T) -> T {
    body(&mut GRAPHS.lock().unwrap_or_else(PoisonError::into_inner))
}

/// Work in a stream: done, or recorded as a node.
pub fn work(handle: usize, body: impl FnOnce()) -> u32 {
    let Some(stream) = stream(handle) else { return INVALID_HANDLE };
    match stream.capture.load(Relaxed) {
        0 => body(),
        id => graphs(|graphs| *graphs.entry(id).or_default() += 1),
    }
    SUCCESS
}
