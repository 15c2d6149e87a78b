//! Wires to ranks on other hosts.
//!
//! To a kernel such a wire is like any other under protocol Simple, except that all of it lies in pinned
//! memory of this host: the kernel's own end, the slots, and the words that the two sides count in. The other
//! side is the proxy: it takes what the kernel has sent to the peer's host, and puts what comes from there
//! into slots.
//!
//! ```text
//! table    msccl_wire_end[2][ranks][wires]        one for all peers; rows of peers on this node are unused
//!          msccl_wire_end                         one that goes nowhere
//! region   one for each peer, for each of its wires:
//!          posted · lengths of messages           out: written by the kernel, read by the proxy
//!          slots                                  the same
//!          taken                                  in: written by the kernel, read by the proxy
//!          slots                                  written by the proxy, read by the kernel
//! ```
//!
//! **Order.** The kernel releases its counts at system scope; the proxy acquires them before it looks at slots. What
//! the proxy writes, or has seen arrive, it releases with the count in the kernel's end, which the kernel acquires
//! at system scope. A slot is written again only after its reader's count says that it was read.
//!
//! A region is made when the first call needs its peer, on this rank and on the peer alike; neither waits
//! for the other: what is sent meanwhile lies in the slots.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use msccl_collective::{Protocol, Rank};
use msccl_gpu::{CaptureModeGuard, Context, PinnedBuffer};
use msccl_plan::Direction;
use msccl_plan::exchange::WireShape;
use msccl_plan::launch::WireEnd;
use msccl_proxy::{Failure, Inlet, Memory, Outlet, Piece, Ports, Proxy};

use super::arena::{End, Layout};
use crate::engine::Waiting;
use crate::error::Error;

/// What the start of every part of a region is a multiple of.
const LINE_BYTES: usize = 128;

const WORD_BYTES: usize = 8;

/// The wires of a rank to ranks on other hosts.
pub(super) struct Remote {
    context: Context,
    proxy: Arc<Proxy>,
    layout: Layout,
    me: Rank,
    table: Arc<PinnedBuffer>,
    /// The peers that have a region.
    reached: Mutex<BTreeMap<Rank, Arc<Region>>>,
}

impl Remote {
    /// No peer has a region yet.
    pub fn new(
        context: &Context,
        proxy: Arc<Proxy>,
        layout: Layout,
        me: Rank,
    ) -> Result<Self, Error> {
        let idle = layout.idle_end() as usize;
        let table = Arc::new(PinnedBuffer::new(context, idle + LINE_BYTES)?);
        // Slots that nobody uses, and a count that nobody reads.
        let nowhere = table.ptr().0 + (idle + LINE_BYTES / 2) as u64;
        for (word, value) in table.words64()[idle / WORD_BYTES..].iter().zip([nowhere, nowhere]) {
            word.store(value, Ordering::Relaxed);
        }
        let (context, reached) = (context.clone(), Mutex::default());
        Ok(Self { context, proxy, layout, me, table, reached })
    }

    /// Where the kernel finds its ends.
    pub fn table(&self) -> u64 {
        self.table.ptr().0
    }

    /// Makes sure that there are wires to and from `peer`, which is on another host. Does not wait for it.
    pub fn reach(&self, peer: Rank) -> Result<(), Error> {
        let mut reached = self.reached.lock().unwrap_or_else(PoisonError::into_inner);
        if reached.contains_key(&peer) {
            return Ok(());
        }
        // Somebody may be capturing; what happens here has nothing to do with that.
        let _relaxed = CaptureModeGuard::relaxed(self.context.device().driver())?;
        let region = Arc::new(Region::new(&self.context, self.layout.wires(Protocol::Simple))?);
        let ports = self.ports(&region, peer);
        self.proxy.connect(peer, ports)?;
        reached.insert(peer, region);
        Ok(())
    }

    /// From or to whom nothing comes or goes any more.
    pub fn failures(&self) -> Vec<Failure> {
        self.proxy.failures()
    }

    /// What the proxy has under way for call number `call`, or waits for.
    pub fn waits(&self, call: u64) -> Vec<Waiting> {
        let waits = self.proxy.waits().into_iter().filter(|wait| !wait.links.is_empty());
        let told = waits.map(|wait| Waiting {
            call,
            peer: Some(wait.peer),
            text: format!("the proxy: {wait}"),
        });
        told.collect()
    }

    /// Lets the kernel's ends of all wires of `peer` point to `region`, and answers the proxy's ends.
    fn ports(&self, region: &Arc<Region>, peer: Rank) -> Ports {
        let wires = 0..region.shape.wires;
        let port = |way, wire| self.port(region, End { owner: self.me, way, peer, wire });
        Ports {
            memory: region.clone(),
            outlets: wires
                .clone()
                .map(|wire| port(Direction::Out, wire) as Box<dyn Outlet>)
                .collect(),
            inlets: wires.map(|wire| port(Direction::In, wire) as Box<dyn Inlet>).collect(),
        }
    }

    fn port(&self, region: &Arc<Region>, end: End) -> Box<Port> {
        let head = region.head(end.way, end.wire);
        let entry = self.layout.entry(Protocol::Simple, end) as usize / WORD_BYTES;
        let base = region.memory.ptr().0;
        let far = match end.way {
            Direction::In => base + head as u64,
            // The proxy must know how long messages are.
            Direction::Out => base + head as u64 + 1,
        };
        let slots = base + region.slots(end.way, end.wire) as u64;
        let WireEnd { slots, far, seen, count } = WireEnd { slots, far, ..WireEnd::default() };
        let port = Port { table: self.table.clone(), region: region.clone(), entry, end };
        for (at, value) in [slots, far, seen, count].into_iter().enumerate() {
            // A kernel that uses them is launched later, which orders the two.
            port.entry_word(at).store(value, Ordering::Relaxed);
        }
        Box::new(port)
    }
}

/// The memory of the wires to and from one peer.
struct Region {
    shape: WireShape,
    memory: PinnedBuffer,
}

impl Region {
    fn new(context: &Context, shape: WireShape) -> Result<Self, Error> {
        let bytes = wire_bytes(shape) * shape.wires as usize;
        Ok(Self { shape, memory: PinnedBuffer::new(context, bytes.max(LINE_BYTES))? })
    }

    /// Where the kernel counts at its end of `wire`.
    fn head(&self, way: Direction, wire: u32) -> usize {
        let start = wire as usize * wire_bytes(self.shape);
        match way {
            Direction::Out => start,
            Direction::In => start + head_bytes(self.shape) + ring_bytes(self.shape),
        }
    }

    fn slots(&self, way: Direction, wire: u32) -> usize {
        let head = match way {
            Direction::Out => head_bytes(self.shape),
            Direction::In => LINE_BYTES,
        };
        self.head(way, wire) + head
    }

    fn slot(&self, way: Direction, wire: u32, message: u64) -> u64 {
        let place = slot_of(self.shape, message) as usize * self.shape.slot_bytes as usize;
        (self.slots(way, wire) + place) as u64
    }
}

impl Memory for Region {
    fn address(&self) -> *mut u8 {
        self.memory.as_mut_ptr()
    }

    fn bytes(&self) -> u64 {
        self.memory.length_bytes() as u64
    }
}

/// What the kernel counts in, and the lengths of the messages in the slots.
fn head_bytes(shape: WireShape) -> usize {
    (WORD_BYTES * (1 + shape.depth as usize)).next_multiple_of(LINE_BYTES)
}

fn ring_bytes(shape: WireShape) -> usize {
    (shape.depth as usize * shape.slot_bytes as usize).next_multiple_of(LINE_BYTES)
}

/// Of one wire in each way.
fn wire_bytes(shape: WireShape) -> usize {
    head_bytes(shape) + LINE_BYTES + 2 * ring_bytes(shape)
}

fn slot_of(shape: WireShape, message: u64) -> u64 {
    message.wrapping_sub(1) % u64::from(shape.depth.max(1))
}

/// The proxy's end of a wire.
struct Port {
    table: Arc<PinnedBuffer>,
    region: Arc<Region>,
    /// The kernel's end, in words from the start of the table.
    entry: usize,
    end: End,
}

impl Port {
    fn entry_word(&self, at: usize) -> &AtomicU64 {
        &self.table.words64()[self.entry + at]
    }

    /// Where the kernel reads the proxy's count.
    fn seen(&self) -> &AtomicU64 {
        self.entry_word(std::mem::offset_of!(WireEnd, seen) / WORD_BYTES)
    }

    /// Word number `at` of what the kernel writes.
    fn head_word(&self, at: usize) -> &AtomicU64 {
        let head = self.region.head(self.end.way, self.end.wire);
        &self.region.memory.words64()[head / WORD_BYTES + at]
    }

    fn slot(&self, message: u64) -> u64 {
        self.region.slot(self.end.way, self.end.wire, message)
    }
}

impl Outlet for Port {
    fn posted(&mut self) -> u64 {
        self.head_word(0).load(Ordering::Acquire)
    }

    fn message(&self, number: u64) -> Piece {
        let length = 1 + slot_of(self.region.shape, number) as usize;
        let bytes = self.head_word(length).load(Ordering::Relaxed);
        let bytes = u32::try_from(bytes).unwrap_or(u32::MAX).min(self.region.shape.slot_bytes);
        Piece { offset: self.slot(number), bytes }
    }

    fn release(&mut self, number: u64) {
        self.seen().store(number, Ordering::Release);
    }
}

impl Inlet for Port {
    fn depth(&self) -> u32 {
        self.region.shape.depth
    }

    fn slot_bytes(&self) -> u32 {
        self.region.shape.slot_bytes
    }

    fn taken(&mut self) -> u64 {
        self.head_word(0).load(Ordering::Acquire)
    }

    fn slot(&self, number: u64) -> u64 {
        Port::slot(self, number)
    }

    fn commit(&mut self, number: u64, _bytes: u32) {
        // The kernel knows how long it is.
        self.seen().store(number, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_of_a_region_lie_apart_and_aligned() {
        for depth in [1, 4, 16, 64] {
            let shape = WireShape { wires: 3, depth, slot_bytes: 384 };
            let words = WORD_BYTES * (1 + depth as usize);
            assert!(head_bytes(shape) >= words && head_bytes(shape).is_multiple_of(LINE_BYTES));
            assert_eq!(ring_bytes(shape), depth as usize * 384);
            let slots: Vec<_> = (1..=2 * u64::from(depth)).map(|n| slot_of(shape, n)).collect();
            assert_eq!(slots[..depth as usize], slots[depth as usize..]);
            assert_eq!(slots[0], 0);
        }
    }
}
