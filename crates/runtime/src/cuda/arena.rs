//! The memory of wires: what lies where in a rank's arena.
//!
//! An arena holds everything that its rank's peers write: under each protocol, the slots of every wire
//! that comes in, and a table with this rank's ends of all wires; beside the ends under Simple, what peers
//! offer for direct delivery. All ranks of a communicator have arenas of one layout, so each knows where
//! to write in another's.

use msccl_collective::{Protocol, Rank};
use msccl_gpu::DevicePtr;
use msccl_plan::Direction;
use msccl_plan::exchange::WireShape;
use msccl_plan::launch::{Offer, WireEnd};

use crate::engine::Capacity;

/// What the start of every ring of slots, and of every table, is a multiple of.
const ALIGNMENT_BYTES: u64 = 128;

const END_BYTES: u64 = size_of::<WireEnd>() as u64;
// A kernel finds an offer as far from the first as the end is from the first end.
const _: () = assert!(size_of::<Offer>() == size_of::<WireEnd>());

/// The layout of an arena.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Layout {
    ranks: u32,
    capacity: Capacity,
    /// Where the part of each protocol begins, in the order of [`Protocol::ALL`], and where it ends.
    parts: [u64; 4],
}

/// One end of a wire, as its owner names it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct End {
    pub owner: Rank,
    pub way: Direction,
    pub peer: Rank,
    /// The wire's number among those of the pair in its direction.
    pub wire: u32,
}

impl End {
    /// The other end of the same wire.
    fn far(self) -> Self {
        let way = match self.way {
            Direction::In => Direction::Out,
            Direction::Out => Direction::In,
        };
        Self { owner: self.peer, way, peer: self.owner, wire: self.wire }
    }
}

impl Layout {
    pub fn new(ranks: u32, capacity: Capacity) -> Self {
        let mut layout = Self { ranks, capacity, parts: [0; 4] };
        for (position, protocol) in Protocol::ALL.into_iter().enumerate() {
            let bytes = layout.rings_bytes(protocol) + layout.table_bytes(protocol);
            let end = layout.parts[position] + bytes.next_multiple_of(ALIGNMENT_BYTES);
            layout.parts[position + 1] = end;
        }
        layout
    }

    /// Ranks of the communicator.
    pub fn ranks(&self) -> u32 {
        self.ranks
    }

    /// Bytes of an arena.
    pub fn bytes(&self) -> u64 {
        (self.offers() + self.table_bytes(Protocol::Simple)).max(ALIGNMENT_BYTES)
    }

    /// In an arena: what belongs to its rank's ends of wires under Simple of direct delivery, one
    /// [`Offer`] for each end.
    pub fn offers(&self) -> u64 {
        self.parts[3]
    }

    /// In an arena: its rank's ends of wires under `protocol`, `[2][ranks][wires]`.
    pub fn table(&self, protocol: Protocol) -> u64 {
        self.start(protocol) + self.rings_bytes(protocol)
    }

    /// Bytes of that table.
    pub fn table_bytes(&self, protocol: Protocol) -> u64 {
        2 * u64::from(self.ranks) * u64::from(self.wires(protocol).wires) * END_BYTES
    }

    /// In the arena of its owner: an end.
    fn end(&self, protocol: Protocol, end: End) -> u64 {
        let way = match end.way {
            Direction::In => 0,
            Direction::Out => u64::from(self.ranks),
        };
        let row = way + u64::from(end.peer.0);
        let wires = u64::from(self.wires(protocol).wires);
        self.table(protocol) + (row * wires + u64::from(end.wire)) * END_BYTES
    }

    /// In the arena of `owner`: the slots of the wire on which it receives from `peer`.
    fn slots(&self, protocol: Protocol, owner: Rank, peer: Rank, wire: u32) -> u64 {
        // A rank has no wires to itself.
        let peer = if peer < owner { peer.0 } else { peer.0.saturating_sub(1) };
        let shape = self.wires(protocol);
        let position = u64::from(peer) * u64::from(shape.wires) + u64::from(wire);
        self.start(protocol) + position * ring_bytes(shape)
    }

    /// All wires under `protocol`.
    pub fn wires(&self, protocol: Protocol) -> WireShape {
        self.capacity.wires(protocol)
    }

    fn start(&self, protocol: Protocol) -> u64 {
        let position = Protocol::ALL.iter().position(|&of| of == protocol);
        self.parts[position.unwrap_or(0)]
    }

    /// Bytes of all slots of a rank under `protocol`.
    fn rings_bytes(&self, protocol: Protocol) -> u64 {
        let shape = self.wires(protocol);
        let wires = u64::from(self.ranks.saturating_sub(1)) * u64::from(shape.wires);
        wires * ring_bytes(shape)
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
}

impl View {
    /// Where this rank's ends of wires under `protocol` lie.
    pub fn table(&self, protocol: Protocol) -> u64 {
        self.arena(self.me) + self.layout.table(protocol)
    }

    /// Where what peers offer for wires under Simple lies.
    pub fn offers(&self) -> u64 {
        self.arena(self.me) + self.layout.offers()
    }

    /// What that table holds before the first launch.
    pub fn initial_table(&self, protocol: Protocol) -> Vec<WireEnd> {
        let wires = self.layout.wires(protocol).wires;
        let ends = [Direction::In, Direction::Out].into_iter().flat_map(|way| {
            (0..self.layout.ranks).map(Rank).flat_map(move |peer| {
                (0..wires).map(move |wire| End { owner: self.me, way, peer, wire })
            })
        });
        ends.map(|end| self.initial(protocol, end)).collect()
    }

    fn initial(&self, protocol: Protocol, end: End) -> WireEnd {
        let End { owner, way, peer, wire } = end;
        if owner == peer {
            return WireEnd::default();
        }
        let (receiver, sender) = match way {
            Direction::In => (owner, peer),
            Direction::Out => (peer, owner),
        };
        let slots = self.layout.slots(protocol, receiver, sender, wire);
        let far = self.layout.end(protocol, end.far());
        WireEnd {
            slots: self.arena(receiver) + slots,
            far: self.arena(peer) + far + std::mem::offset_of!(WireEnd, seen) as u64,
            ..WireEnd::default()
        }
    }

    fn arena(&self, rank: Rank) -> u64 {
        self.arenas.get(rank.index()).map_or(0, |arena| arena.0)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    /// Nothing in an arena overlaps anything else, everything lies inside, and ends know each other.
    fn check(ranks: u32, capacity: Capacity) {
        let layout = Layout::new(ranks, capacity);
        let arenas: Vec<_> =
            (0..u64::from(ranks)).map(|rank| DevicePtr((rank + 1) << 40)).collect();
        let view = |me| View { layout, me, arenas: arenas.clone() };
        let owner = Rank(ranks / 2);
        let mut pieces = BTreeMap::new();
        for protocol in Protocol::ALL {
            let shape = capacity.wires(protocol);
            pieces.insert(layout.table(protocol), layout.table_bytes(protocol));
            let table = view(owner).initial_table(protocol);
            for peer in (0..ranks).map(Rank).filter(|&peer| peer != owner) {
                let theirs = view(peer).initial_table(protocol);
                for wire in 0..shape.wires {
                    let at = |way: u32, peer: Rank| {
                        ((way * ranks + peer.0) * shape.wires + wire) as usize
                    };
                    let (mine, far) = (table[at(0, peer)], theirs[at(1, owner)]);
                    let start = view(owner).arena(owner);
                    pieces.insert(mine.slots - start, ring_bytes(shape));
                    assert_eq!(mine.slots, far.slots);
                    let seen = |of: Rank, index: usize| {
                        view(of).table(protocol) + index as u64 * END_BYTES + 16
                    };
                    assert_eq!(mine.far, seen(peer, at(1, owner)));
                    assert_eq!(far.far, seen(owner, at(0, peer)));
                }
            }
        }
        pieces.insert(layout.offers(), layout.table_bytes(Protocol::Simple));
        pieces.retain(|_, length| *length > 0);
        let next = pieces.keys().skip(1).copied().chain([layout.bytes()]);
        for ((start, length), next) in pieces.iter().zip(next) {
            assert!(start.is_multiple_of(ALIGNMENT_BYTES) && start + length <= next);
        }
    }

    #[test]
    fn pieces_of_an_arena_lie_apart() {
        let simple = WireShape { wires: 5, depth: 4, slot_bytes: 256 };
        let ll = WireShape { wires: 3, depth: 8, slot_bytes: 128 };
        let ll128 = WireShape::default();
        for ranks in [2, 3, 8] {
            check(ranks, Capacity { simple, ll, ll128, blocks: 1, threads: [1; 3] });
            check(ranks, Capacity { simple, ll, ll128: ll, blocks: 1, threads: [1; 3] });
        }
    }
}
