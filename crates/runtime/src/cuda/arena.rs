//! The memory of wires: what lies where in a rank's arena.
//!
//! An arena holds everything that its rank's peers write: for every wire that comes in, the slots and
//! the tail; for every wire that goes out, the head. All ranks of a communicator have arenas of one
//! layout, so each knows where to write in another's. Beside it lie the counters of both kinds of ends,
//! which only their owner touches.

use msccl_collective::{Protocol, Rank};
use msccl_gpu::DevicePtr;

use crate::engine::{Capacity, WireShape};

/// Bytes from one tail or head to the next: what a link carries at once, so that two do not share it.
const WORD_STRIDE_BYTES: u64 = 32;

/// What the start of every ring of slots is a multiple of.
const SLOT_ALIGNMENT_BYTES: u64 = 128;

/// The layout of an arena.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Layout {
    ranks: u32,
    capacity: Capacity,
    /// Where the part of each protocol begins, in the order of [`Protocol::ALL`], and where it ends.
    parts: [u64; 4],
}

/// A wire between a rank and a peer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Wire {
    /// Under which protocol.
    pub protocol: Protocol,
    /// Its number among those of the pair in its direction.
    pub number: u32,
}

impl Layout {
    pub fn new(ranks: u32, capacity: Capacity) -> Self {
        let mut parts = [0; 4];
        for (position, protocol) in Protocol::ALL.into_iter().enumerate() {
            let shape = capacity.wires(protocol);
            let wires = u64::from(ranks.saturating_sub(1)) * u64::from(shape.wires);
            let bytes = wires * (ring_bytes(shape) + 2 * WORD_STRIDE_BYTES);
            parts[position + 1] = parts[position] + bytes.next_multiple_of(SLOT_ALIGNMENT_BYTES);
        }
        Self { ranks, capacity, parts }
    }

    /// Bytes of an arena; at least one wire's, so that it is never empty.
    pub fn bytes(&self) -> u64 {
        self.parts[3].max(SLOT_ALIGNMENT_BYTES)
    }

    /// Bytes of the counters of one rank.
    pub fn counter_bytes(&self) -> u64 {
        let wires: u32 = Protocol::ALL.iter().map(|&of| self.capacity.wires(of).wires).sum();
        8 * 2 * u64::from(wires) * u64::from(self.ranks)
    }

    /// In the arena of `owner`: the slots of the wire on which it receives from `peer`.
    pub fn slots(&self, owner: Rank, peer: Rank, wire: Wire) -> u64 {
        let shape = self.capacity.wires(wire.protocol);
        self.start(wire.protocol) + self.position(owner, peer, wire) * ring_bytes(shape)
    }

    /// In the arena of `owner`: the tail of that wire.
    pub fn tail(&self, owner: Rank, peer: Rank, wire: Wire) -> u64 {
        self.words(wire.protocol) + self.position(owner, peer, wire) * WORD_STRIDE_BYTES
    }

    /// In the arena of `owner`: the head of the wire on which it sends to `peer`.
    pub fn head(&self, owner: Rank, peer: Rank, wire: Wire) -> u64 {
        let wires = self.wires(wire.protocol);
        let position = wires + self.position(owner, peer, wire);
        self.words(wire.protocol) + position * WORD_STRIDE_BYTES
    }

    /// Among the counters of a rank: that of its end of a wire from (`outgoing`: to) `peer`.
    pub fn counter(&self, peer: Rank, outgoing: bool, wire: Wire) -> u64 {
        let before = Protocol::ALL.into_iter().take_while(|&of| of != wire.protocol);
        let before: u32 = before.map(|of| self.capacity.wires(of).wires).sum();
        let of_protocol = 2 * u64::from(self.ranks) * u64::from(before);
        let way = u64::from(outgoing) * u64::from(self.ranks) + u64::from(peer.0);
        let wires = u64::from(self.capacity.wires(wire.protocol).wires);
        8 * (of_protocol + way * wires + u64::from(wire.number))
    }

    fn start(&self, protocol: Protocol) -> u64 {
        let position = Protocol::ALL.iter().position(|&of| of == protocol);
        self.parts[position.unwrap_or(0)]
    }

    /// Where the tails and heads under `protocol` begin.
    fn words(&self, protocol: Protocol) -> u64 {
        let rings = self.wires(protocol) * ring_bytes(self.capacity.wires(protocol));
        self.start(protocol) + rings
    }

    /// Wires in one direction between a rank and all its peers.
    fn wires(&self, protocol: Protocol) -> u64 {
        let each = self.capacity.wires(protocol).wires;
        u64::from(self.ranks.saturating_sub(1)) * u64::from(each)
    }

    /// The position of a wire among those between `owner` and all its peers in one direction.
    fn position(&self, owner: Rank, peer: Rank, wire: Wire) -> u64 {
        let peer = if peer < owner { peer.0 } else { peer.0.saturating_sub(1) };
        let each = self.capacity.wires(wire.protocol).wires;
        u64::from(peer) * u64::from(each) + u64::from(wire.number)
    }
}

fn ring_bytes(shape: WireShape) -> u64 {
    u64::from(shape.depth) * u64::from(shape.slot_bytes)
}

/// How a rank sees the arenas of all ranks, its own among them.
#[derive(Clone, Debug)]
pub(super) struct View {
    pub layout: Layout,
    pub me: Rank,
    /// Where each rank's arena begins, by rank.
    pub arenas: Vec<DevicePtr>,
    /// Where this rank's counters begin.
    pub counters: DevicePtr,
}

impl View {
    /// This rank's end of a wire from (`outgoing`: to) `peer`, which must be another rank.
    pub fn end(&self, peer: Rank, outgoing: bool, wire: Wire) -> msccl_plan::launch::LinkEnd {
        let Self { layout, me, arenas, counters } = self;
        let arena = |rank: Rank| arenas.get(rank.index()).map_or(0, |arena| arena.0);
        let (receiver, sender) = if outgoing { (peer, *me) } else { (*me, peer) };
        msccl_plan::launch::LinkEnd {
            slots: arena(receiver) + layout.slots(receiver, sender, wire),
            tail: arena(receiver) + layout.tail(receiver, sender, wire),
            head: arena(sender) + layout.head(sender, receiver, wire),
            counter: counters.0 + layout.counter(peer, outgoing, wire),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    /// Nothing in an arena overlaps anything else, and everything lies inside.
    fn check(ranks: u32, capacity: Capacity) {
        let layout = Layout::new(ranks, capacity);
        let owner = Rank(ranks / 2);
        let mut taken = BTreeMap::new();
        let mut counters = BTreeMap::new();
        for protocol in Protocol::ALL {
            let shape = capacity.wires(protocol);
            for peer in (0..ranks).map(Rank).filter(|&peer| peer != owner) {
                for number in 0..shape.wires {
                    let wire = Wire { protocol, number };
                    let slots = layout.slots(owner, peer, wire);
                    assert!(slots.is_multiple_of(SLOT_ALIGNMENT_BYTES));
                    taken.insert(slots, ring_bytes(shape));
                    taken.insert(layout.tail(owner, peer, wire), 8);
                    taken.insert(layout.head(owner, peer, wire), 8);
                    for outgoing in [false, true] {
                        counters.insert(layout.counter(peer, outgoing, wire), 8);
                    }
                }
            }
        }
        let pieces: u32 = Protocol::ALL.iter().map(|&of| capacity.wires(of).wires).sum();
        assert_eq!(taken.len() as u32, 3 * pieces * (ranks - 1));
        assert_eq!(counters.len() as u32, 2 * pieces * (ranks - 1));
        check_apart(&taken, layout.bytes());
        check_apart(&counters, layout.counter_bytes());
    }

    fn check_apart(pieces: &BTreeMap<u64, u64>, end: u64) {
        let next = pieces.keys().skip(1).copied().chain([end]);
        for ((start, length), next) in pieces.iter().zip(next) {
            assert!(start + length <= next);
        }
    }

    #[test]
    fn pieces_of_an_arena_lie_apart() {
        let simple = WireShape { wires: 5, depth: 4, slot_bytes: 256 };
        let ll = WireShape { wires: 3, depth: 8, slot_bytes: 128 };
        let ll128 = WireShape::default();
        for ranks in [2, 3, 8] {
            check(ranks, Capacity { simple, ll, ll128, blocks: 1 });
            check(ranks, Capacity { simple, ll, ll128: ll, blocks: 1 });
        }
    }

    #[test]
    fn a_rank_alone_has_an_arena() {
        let capacity = Capacity {
            simple: WireShape { wires: 5, depth: 4, slot_bytes: 256 },
            ll: WireShape::default(),
            ll128: WireShape::default(),
            blocks: 1,
        };
        assert_eq!(Layout::new(1, capacity).bytes(), SLOT_ALIGNMENT_BYTES);
    }
}
