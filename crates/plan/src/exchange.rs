//! Point-to-point exchanges: which thread block of which launch moves which part of which transfer.
//!
//! A transfer from rank `s` to rank `d` is cut into equal parts. Part `p` travels over wire `p` of
//! the pair, in messages that fill their slots. How many parts there are, and under which protocol,
//! follows from the number of bytes and the shape of the wires ([`Shape::carriage`]), so both ends
//! agree without a word; nothing else need agree.
//!
//! A *lane* is a thread block that handles one part of all transfers with one peer in one way, in
//! order. All lanes of a launch run at once, and none waits for another lane of its rank.
//!
//! # Why it never deadlocks
//!
//! Transfers that do not fit one launch are spread over several, which run one after another. Let a
//! transfer's *key* be its distance `(d - s) mod ranks` and then its position among the transfers
//! from `s` to `d`. Both ends give it the same key if their groups correspond, that is, hold the
//! same transfers between the two. Each rank sorts by key, and the launches of a group take
//! consecutive keys; no key is split between two launches. Suppose that some transfers never end,
//! and take one whose key is least. All transfers with smaller keys end, on all ranks. So at both
//! of its ends the earlier launches end, the launch that holds it starts, and in each of its lanes
//! the transfers before it end: those have smaller keys. Then both ends work on it at once, over
//! wires that nobody else uses, and it ends.
//!
//! A rank has at most two transfers of one key, one in each way, so a launch that has room for two
//! transfers and for the lanes of both always gets on.

use std::collections::BTreeMap;

use msccl_collective::{Protocol, Rank};

use crate::cut::{self, ALIGNMENT_BYTES};
use crate::launch::{
    self, EXCHANGE_COPIES, EXCHANGE_LANES, EXCHANGE_TRANSFERS, Exchange, Lane, LocalCopy,
    TRANSFER_LL, TRANSFER_OUT,
};
use crate::program::Direction;

/// Transfers of up to so many bytes travel as packets: a fence costs more than twice the bytes.
const LL_MAX_BYTES: u64 = 64 << 10;

/// What makes a further part worth a thread block, by protocol.
const LL_PART_BYTES: u64 = 8 << 10;
const SIMPLE_PART_BYTES: u64 = 64 << 10;

/// More parts than these gain nothing: they fill what connects two GPUs.
pub const PARTS_MAX: u32 = 16;

/// What makes a further thread block worth a copy within the rank.
const COPY_PART_BYTES: u64 = 64 << 10;

/// The wires of every ordered pair of ranks under one protocol.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct WireShape {
    /// How many there are.
    pub wires: u32,
    /// Slots of each, a power of two.
    pub depth: u32,
    /// Bytes of a slot, a multiple of 128.
    pub slot_bytes: u32,
}

/// What the ranks of a communicator have in common; but for `me` and `near`, the same on all of
/// them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Shape<'a> {
    /// This rank.
    pub me: Rank,
    /// All ranks.
    pub ranks: u32,
    /// Thread blocks of a rank that run at once, at least two.
    pub blocks: u32,
    /// The wires under protocol Simple, at least one.
    pub simple: WireShape,
    /// The wires under LL, if there are any.
    pub ll: WireShape,
    /// Which ranks are on this one's node, by rank. Packets reach no others.
    pub near: &'a [bool],
}

/// One half of a transfer with another rank.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Transfer {
    /// The other rank, never this one.
    pub peer: Rank,
    /// Which way it goes.
    pub way: Direction,
    /// Where the bytes lie or go.
    pub address: u64,
    /// How many; the other half has as many.
    pub bytes: u64,
}

/// How a transfer travels.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Carriage {
    /// Over the wires of this protocol.
    pub protocol: Protocol,
    /// In so many parts, at least one.
    pub parts: u32,
}

impl Shape<'_> {
    /// How a transfer with `peer` of `bytes` bytes travels. The same at both of its ends.
    pub fn carriage(&self, peer: Rank, bytes: u64) -> Carriage {
        let near = self.near.get(peer.index()).copied().unwrap_or(false);
        let packets = near && self.ll.wires > 0 && bytes <= LL_MAX_BYTES;
        let (protocol, wires, part_bytes) = match packets {
            true => (Protocol::Ll, self.ll.wires, LL_PART_BYTES),
            false => (Protocol::Simple, self.simple.wires, SIMPLE_PART_BYTES),
        };
        // Of one key there are two transfers, whose lanes run at once.
        let most = wires.min(PARTS_MAX).min(self.lanes_max() / 2).max(1);
        let parts = bytes.div_ceil(part_bytes).clamp(1, u64::from(most));
        Carriage { protocol, parts: parts as u32 }
    }

    fn lanes_max(&self) -> u32 {
        self.blocks.min(EXCHANGE_LANES as u32)
    }

    /// How far the destination of `transfer` is from its source.
    fn distance(&self, transfer: &Transfer) -> u32 {
        let ahead = |from: Rank, to: Rank| (to.0 + self.ranks - from.0) % self.ranks;
        match transfer.way {
            Direction::Out => ahead(self.me, transfer.peer),
            Direction::In => ahead(transfer.peer, self.me),
        }
    }

    /// A launch that moves nothing yet. Addresses and numbers that the communicator knows are 0.
    fn empty(&self) -> Exchange {
        let Self { me: _, ranks, blocks: _, simple, ll, near: _ } = *self;
        Exchange {
            ranks,
            simple_wires: simple.wires,
            simple_depth: simple.depth,
            simple_slot_bytes: simple.slot_bytes,
            ll_wires: ll.wires,
            ll_depth: ll.depth,
            ll_slot_bytes: ll.slot_bytes,
            ..Exchange::default()
        }
    }
}

/// The transfers of `launch`, in order.
pub fn transfers_of(launch: &Exchange) -> impl Iterator<Item = &launch::Transfer> {
    launch.transfers.iter().take_while(|transfer| transfer.traits != 0)
}

/// Whether bulk copies carry some transfer of `launch` where there are any. Then its thread blocks
/// need [`launch::BULK_BUFFER_BYTES`] of shared memory; for others that costs time and gains
/// nothing.
pub fn is_bulky(launch: &Exchange) -> bool {
    let message_bytes = message_bytes(Protocol::Simple, launch.simple_slot_bytes).max(1);
    let bulk_bytes = u64::from(launch::BULK_MESSAGES_MIN) * message_bytes;
    transfers_of(launch).any(|transfer| {
        let parts = transfer.traits & launch::TRANSFER_PARTS_MASK;
        let (start, end) = part(transfer.bytes, parts, 0);
        transfer.traits & TRANSFER_LL == 0 && end - start >= bulk_bytes
    })
}

/// Bytes of part `part` of `bytes` bytes in `parts` parts: from where, and up to where. Kernels
/// compute the same.
pub fn part(bytes: u64, parts: u32, part: u32) -> (u64, u64) {
    let units = bytes.div_ceil(u64::from(parts.max(1))).div_ceil(ALIGNMENT_BYTES);
    let each = units.saturating_mul(ALIGNMENT_BYTES);
    let start = each.saturating_mul(u64::from(part)).min(bytes);
    (start, start.saturating_add(each).min(bytes))
}

/// Bytes of data that a message in a slot of `slot_bytes` bytes carries. Kernels compute the same.
pub fn message_bytes(protocol: Protocol, slot_bytes: u32) -> u64 {
    cut::data_bytes(protocol, u64::from(slot_bytes))
}

/// The launches that make `transfers` and `copies`, to be run in order. The transfers of a group
/// are given in the order of the calls. In each launch the addresses of tables, `control`,
/// `progress`, `call` and what waits need are for the caller to fill; its grid has `lane_count`
/// blocks.
pub fn launches(shape: &Shape<'_>, transfers: &[Transfer], copies: &[LocalCopy]) -> Vec<Exchange> {
    let mut launches = Vec::new();
    let mut at_hand = Batch::new(shape);
    for of_key in by_key(shape, transfers) {
        if !at_hand.has_room(&of_key) {
            launches.push(std::mem::replace(&mut at_hand, Batch::new(shape)).finish());
        }
        of_key.iter().for_each(|transfer| at_hand.take(transfer));
    }
    for copy in copies {
        if !at_hand.has_room_to_copy() {
            launches.push(std::mem::replace(&mut at_hand, Batch::new(shape)).finish());
        }
        at_hand.copies.push(*copy);
    }
    launches.push(at_hand.finish());
    launches.retain(|launch| launch.lane_count > 0);
    let mut first_transfer = 0;
    for launch in &mut launches {
        launch.first_transfer = first_transfer;
        first_transfer += transfers_of(launch).count() as u32;
    }
    launches
}

/// The transfers of each key, in ascending order of keys.
fn by_key(shape: &Shape<'_>, transfers: &[Transfer]) -> Vec<Vec<Transfer>> {
    let mut seen: BTreeMap<(Rank, Direction), u32> = BTreeMap::new();
    let mut keys: BTreeMap<(u32, u32), Vec<Transfer>> = BTreeMap::new();
    for transfer in transfers {
        let position = seen.entry((transfer.peer, transfer.way)).or_default();
        keys.entry((shape.distance(transfer), *position)).or_default().push(*transfer);
        *position += 1;
    }
    keys.into_values().collect()
}

/// The transfers and copies of one launch.
struct Batch<'a> {
    shape: &'a Shape<'a>,
    lists: BTreeMap<(Rank, Direction), List>,
    transfers: usize,
    copies: Vec<LocalCopy>,
}

/// Transfers with one peer in one way.
#[derive(Default)]
struct List {
    transfers: Vec<Transfer>,
    /// The most parts of any of them.
    lanes: u32,
}

impl<'a> Batch<'a> {
    fn new(shape: &'a Shape<'a>) -> Self {
        Self { shape, lists: BTreeMap::new(), transfers: 0, copies: Vec::new() }
    }

    fn lanes(&self) -> u32 {
        self.lists.values().map(|list| list.lanes).sum()
    }

    /// Whether the launch can take `transfers` as well, which are of one key.
    fn has_room(&self, transfers: &[Transfer]) -> bool {
        let further = |transfer: &Transfer| {
            let parts = self.shape.carriage(transfer.peer, transfer.bytes).parts;
            let list = self.lists.get(&(transfer.peer, transfer.way));
            parts.saturating_sub(list.map_or(0, |list| list.lanes))
        };
        let lanes = self.lanes() + transfers.iter().map(further).sum::<u32>();
        let fits = lanes <= self.shape.lanes_max();
        self.lists.is_empty() || fits && self.transfers + transfers.len() <= EXCHANGE_TRANSFERS
    }

    fn take(&mut self, transfer: &Transfer) {
        let list = self.lists.entry((transfer.peer, transfer.way)).or_default();
        list.lanes = list.lanes.max(self.shape.carriage(transfer.peer, transfer.bytes).parts);
        list.transfers.push(*transfer);
        self.transfers += 1;
    }

    fn has_room_to_copy(&self) -> bool {
        self.copies.len() < EXCHANGE_COPIES && self.lanes() < self.shape.lanes_max()
    }

    fn finish(self) -> Exchange {
        let Self { shape, lists, transfers: _, copies } = &self;
        let mut lanes = Vec::new();
        let mut first = 0;
        for list in lists.values() {
            let count = list.transfers.len() as u16;
            lanes.extend((0..list.lanes as u16).map(|part| Lane { first, count, part, copies: 0 }));
            first += count;
        }
        let free = shape.lanes_max().saturating_sub(lanes.len() as u32);
        let copy_parts = copy_parts(copies).min(free);
        let count = copies.len() as u16;
        lanes.extend((0..copy_parts as u16).map(|part| Lane { first: 0, count, part, copies: 1 }));

        let mut launch = Exchange { lane_count: lanes.len() as u32, copy_parts, ..shape.empty() };
        let transfers = lists.values().flat_map(|list| &list.transfers);
        let transfers = transfers.map(|transfer| record(shape, transfer));
        fill(&mut launch.transfers, transfers);
        fill(&mut launch.copies, copies.iter().copied());
        fill(&mut launch.lanes, lanes);
        launch
    }
}

/// Thread blocks that `copies` deserve.
fn copy_parts(copies: &[LocalCopy]) -> u32 {
    let largest = copies.iter().map(|copy| copy.bytes).max().unwrap_or(0);
    largest.div_ceil(COPY_PART_BYTES).min(u64::from(PARTS_MAX)) as u32
}

fn fill<T>(array: &mut [T], with: impl IntoIterator<Item = T>) {
    array.iter_mut().zip(with).for_each(|(to, from)| *to = from);
}

/// A transfer as kernels have it.
fn record(shape: &Shape<'_>, transfer: &Transfer) -> launch::Transfer {
    let Transfer { peer, way, address, bytes } = *transfer;
    let Carriage { protocol, parts } = shape.carriage(peer, bytes);
    let out = if way == Direction::Out { TRANSFER_OUT } else { 0 };
    let ll = if protocol == Protocol::Ll { TRANSFER_LL } else { 0 };
    launch::Transfer { address, bytes, peer: peer.0, traits: parts | out | ll }
}
