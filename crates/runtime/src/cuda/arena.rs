//! The memory of wires: what lies where in a rank's arena.
//!
//! An arena holds everything that its rank's peers write: under each protocol, the slots of every
//! wire that comes in, and a table with this rank's ends of all wires; beside the ends under
//! Simple, what peers offer for direct delivery. All ranks of a node have arenas of one layout, so
//! each knows where to write in another's. Ranks elsewhere have rows in the tables, which say where
//! the ends of wires to them lie ([`super::inter_node`]), and nothing more.

use std::sync::Arc;

use msccl_collective::{Protocol, Rank};
use msccl_gpu::DevicePtr;
use msccl_plan::Direction;
use msccl_plan::exchange::WireShape;
use msccl_plan::launch::{Offer, WireEnd};
use msccl_select::{Capacity, TRANSFER_WIRES};

/// What the start of every ring of slots, and of every table, is a multiple of.
const ALIGNMENT_BYTES: u64 = 128;

const END_BYTES: u64 = size_of::<WireEnd>() as u64;
// A kernel finds an offer as far from the first as the end is from the first end.
const _: () = assert!(size_of::<Offer>() == size_of::<WireEnd>());

/// The layout of an arena.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Layout {
    /// Which ranks are on this node, by rank.
    intra_node: Arc<[bool]>,
    capacity: Capacity,
    /// Where the part of each protocol begins, in the order of [`Protocol::ALL`], and where it
    /// ends.
    parts: [u64; 4],
}

/// One end of a wire, as its owner names it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct ArenaEnd {
    pub owner: Rank,
    pub direction: Direction,
    pub peer: Rank,
    /// The wire's number among those of the pair in its direction.
    pub wire: u32,
}

impl ArenaEnd {
    /// The other end of the same wire.
    fn other_end(self) -> Self {
        let direction = match self.direction {
            Direction::In => Direction::Out,
            Direction::Out => Direction::In,
        };
        Self { owner: self.peer, direction, peer: self.owner, wire: self.wire }
    }
}

impl Layout {
    /// For the ranks of a communicator of which those are on this node for which `intra_node` says
    /// so.
    pub fn new(intra_node: &[bool], capacity: Capacity) -> Self {
        let mut layout = Self { intra_node: intra_node.into(), capacity, parts: [0; 4] };
        for (position, protocol) in Protocol::ALL.into_iter().enumerate() {
            let bytes = layout.rings_bytes(protocol) + layout.table_bytes(protocol);
            let end = layout.parts[position] + bytes.next_multiple_of(ALIGNMENT_BYTES);
            layout.parts[position + 1] = end;
        }
        layout
    }

    /// Ranks of the communicator.
    pub fn ranks(&self) -> u32 {
        self.intra_node.len() as u32
    }

    /// Which ranks are on this node, by rank.
    pub fn intra_node(&self) -> &[bool] {
        &self.intra_node
    }

    /// Whether `rank` is on this node.
    pub fn is_intra_node(&self, rank: Rank) -> bool {
        self.intra_node.get(rank.index()).copied().unwrap_or(false)
    }

    /// The place of `rank`, which is on this node, among the ranks there.
    fn place(&self, rank: Rank) -> u64 {
        self.intra_node.iter().take(rank.index()).filter(|&&is_here| is_here).count() as u64
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
        2 * u64::from(self.ranks()) * u64::from(self.wires(protocol).wires) * END_BYTES
    }

    /// In the arena of its owner: an end.
    fn end(&self, protocol: Protocol, end: ArenaEnd) -> u64 {
        self.table(protocol) + self.entry(protocol, end)
    }

    /// In a table of ends: an end.
    pub fn entry(&self, protocol: Protocol, end: ArenaEnd) -> u64 {
        let first_row = match end.direction {
            Direction::In => 0,
            Direction::Out => u64::from(self.ranks()),
        };
        let row = first_row + u64::from(end.peer.0);
        let wires = u64::from(self.wires(protocol).wires);
        (row * wires + u64::from(end.wire)) * END_BYTES
    }

    /// In a table of ends under Simple to other nodes: one that goes nowhere, after all others. A
    /// kernel may take up any end, whether or not it has a message for it.
    pub fn idle_end(&self) -> u64 {
        self.table_bytes(Protocol::Simple)
    }

    /// In the arena of `owner`: the slots of the wire on which it receives from `peer`.
    fn slots(&self, protocol: Protocol, owner: Rank, peer: Rank, wire: u32) -> u64 {
        // A rank has no wires to itself.
        let place = self.place(peer);
        let peer = if peer < owner { place } else { place.saturating_sub(1) };
        let shape = self.wires(protocol);
        let position = peer * u64::from(shape.wires) + u64::from(wire);
        self.start(protocol) + position * ring_bytes(shape)
    }

    /// All wires under `protocol`.
    pub fn wires(&self, protocol: Protocol) -> WireShape {
        self.capacity.wires(protocol)
    }

    /// The wires of a pair of ranks on two nodes: those for transfers stand behind those for
    /// collectives, as everywhere.
    pub fn inter_node_wires(&self) -> WireShape {
        let shape = self.wires(Protocol::Simple);
        let wires = self.capacity.inter_node_wires + TRANSFER_WIRES;
        WireShape { wires: wires.min(shape.wires), ..shape }
    }

    /// The number of such a wire among all of a pair, whose last ones are for transfers.
    pub fn inter_node_wire(&self, number: u32) -> u32 {
        match number < self.capacity.inter_node_wires {
            true => number,
            false => number + self.capacity.simple.wires - self.inter_node_wires().wires,
        }
    }

    /// Whether wire `wire` of all joins ranks on two nodes as well.
    fn joins_nodes(&self, wire: u32) -> bool {
        let Capacity { simple, inter_node_wires, .. } = self.capacity;
        wire < inter_node_wires || wire + TRANSFER_WIRES >= simple.wires
    }

    fn start(&self, protocol: Protocol) -> u64 {
        let position = Protocol::ALL.iter().position(|&of| of == protocol);
        self.parts[position.unwrap_or(0)]
    }

    /// Bytes of all slots of a rank under `protocol`.
    fn rings_bytes(&self, protocol: Protocol) -> u64 {
        let shape = self.wires(protocol);
        let ranks = self.intra_node.iter().filter(|&&is_here| is_here).count() as u64;
        ranks.saturating_sub(1) * u64::from(shape.wires) * ring_bytes(shape)
    }
}

fn ring_bytes(shape: WireShape) -> u64 {
    u64::from(shape.depth) * u64::from(shape.slot_bytes)
}

/// How a rank sees the arenas of all ranks of its node, its own among them.
#[derive(Clone, Debug)]
pub(super) struct View {
    pub layout: Layout,
    pub me: Rank,
    /// Where each rank's arena begins, by rank; null for ranks elsewhere.
    pub arenas: Vec<DevicePtr>,
    /// Where the ends of wires under Simple to ranks elsewhere lie, in a table of the same layout;
    /// 0 if all ranks are on this node.
    pub inter_node_table: u64,
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
        let ends = [Direction::In, Direction::Out].into_iter().flat_map(|direction| {
            (0..self.layout.ranks()).map(Rank).flat_map(move |peer| {
                (0..wires).map(move |wire| ArenaEnd { owner: self.me, direction, peer, wire })
            })
        });
        ends.map(|end| self.initial(protocol, end)).collect()
    }

    fn initial(&self, protocol: Protocol, end: ArenaEnd) -> WireEnd {
        let ArenaEnd { owner, direction, peer, wire } = end;
        if owner == peer {
            return WireEnd::default();
        }
        if !self.layout.is_intra_node(peer) {
            let place = match protocol {
                Protocol::Simple if self.layout.joins_nodes(wire) => {
                    self.layout.entry(protocol, end)
                }
                // Only messages that are announced by counts can be carried on.
                Protocol::Simple | Protocol::Ll | Protocol::Ll128 => self.layout.idle_end(),
            };
            return WireEnd { far: self.inter_node_table + place, ..WireEnd::default() };
        }
        let (receiver, sender) = match direction {
            Direction::In => (owner, peer),
            Direction::Out => (peer, owner),
        };
        let slots = self.layout.slots(protocol, receiver, sender, wire);
        let far = self.layout.end(protocol, end.other_end());
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

    /// Nothing in an arena overlaps anything else, everything lies inside, and ends know each
    /// other. Every rank is on the node, or, if `scattered`, every other one.
    fn check(ranks: u32, scattered: bool, capacity: Capacity) {
        let owner = Rank(ranks / 2);
        let intra_node = |rank: u32| !scattered || rank % 2 == owner.0 % 2;
        let layout = Layout::new(&(0..ranks).map(intra_node).collect::<Vec<_>>(), capacity);
        let arenas: Vec<_> =
            (0..u64::from(ranks)).map(|rank| DevicePtr((rank + 1) << 40)).collect();
        let view = |me| View {
            layout: layout.clone(),
            me,
            arenas: arenas.clone(),
            inter_node_table: 1 << 50,
        };
        let mut pieces = BTreeMap::new();
        for protocol in Protocol::ALL {
            let shape = capacity.wires(protocol);
            pieces.insert(layout.table(protocol), layout.table_bytes(protocol));
            let table = view(owner).initial_table(protocol);
            for peer in (0..ranks).map(Rank).filter(|&peer| peer != owner) {
                let theirs = view(peer).initial_table(protocol);
                for wire in 0..shape.wires {
                    let at = |direction: u32, peer: Rank| {
                        ((direction * ranks + peer.0) * shape.wires + wire) as usize
                    };
                    let (mine, other) = (table[at(0, peer)], theirs[at(1, owner)]);
                    if !intra_node(peer.0) {
                        let place = match protocol {
                            Protocol::Simple if layout.joins_nodes(wire) => {
                                at(0, peer) as u64 * END_BYTES
                            }
                            _ => layout.idle_end(),
                        };
                        assert_eq!((mine.slots, mine.far), (0, (1 << 50) + place));
                        continue;
                    }
                    let start = view(owner).arena(owner);
                    pieces.insert(mine.slots - start, ring_bytes(shape));
                    assert_eq!(mine.slots, other.slots);
                    let seen = |of: Rank, index: usize| {
                        view(of).table(protocol) + index as u64 * END_BYTES + 16
                    };
                    assert_eq!(mine.far, seen(peer, at(1, owner)));
                    assert_eq!(other.far, seen(owner, at(0, peer)));
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
            for scattered in [false, true] {
                let inter_node_wires = simple.wires;
                let capacity = Capacity {
                    simple,
                    inter_node_wires,
                    ll,
                    ll128,
                    blocks: 1,
                    exports_buffers: false,
                    copy_engines: false,
                    low_latency: true,
                };
                check(ranks, scattered, capacity);
                check(ranks, scattered, Capacity { ll128: ll, ..capacity });
                let simple = WireShape { wires: 40, ..simple };
                check(ranks, scattered, Capacity { simple, inter_node_wires: 3, ..capacity });
            }
        }
    }

    #[test]
    fn inter_node_wires_are_the_first_and_the_last_of_a_pair() {
        let check = |wires, inter_node_wires, expected: &[u32]| {
            let simple = WireShape { wires, depth: 4, slot_bytes: 256 };
            let none = WireShape::default();
            let capacity = Capacity {
                simple,
                inter_node_wires,
                ll: none,
                ll128: none,
                blocks: 1,
                exports_buffers: false,
                copy_engines: false,
                low_latency: true,
            };
            let layout = Layout::new(&[true, false], capacity);
            let numbers = 0..layout.inter_node_wires().wires;
            let found: Vec<_> = numbers.map(|number| layout.inter_node_wire(number)).collect();
            assert_eq!(found, expected);
            let joining: Vec<_> = (0..wires).filter(|wire| layout.joins_nodes(*wire)).collect();
            assert_eq!(joining, expected);
        };
        let first_and_last: Vec<_> = (0..3).chain(24..40).collect();
        check(40, 3, &first_and_last);
        check(20, 4, &(0..20).collect::<Vec<_>>());
    }
}
