//! Exchanges end, whatever the groups, and move every byte once.

#![deny(unsafe_code)]
#![allow(clippy::unwrap_used)] // Clippy knows test functions, not what they call.

use std::collections::{BTreeMap, BTreeSet};

use msccl_collective::{Protocol, Rank};
use msccl_plan::Direction;
use msccl_plan::exchange::{self, Shape, Transfer, WireShape};
use msccl_plan::launch::{Exchange, LocalCopy, TRANSFER_OUT, TRANSFER_PARTS_MASK};
use proptest::prelude::*;

/// All ranks are on one node.
const NEAR: &[bool] = &[true; 64];

fn shape(me: u32, ranks: u32, blocks: u32) -> Shape<'static> {
    let simple = WireShape { wires: 8, depth: 4, slot_bytes: 4096 };
    let ll = WireShape { wires: 5, depth: 8, slot_bytes: 1024 };
    Shape { me: Rank(me), ranks, blocks, simple, ll, near: NEAR }
}

/// Every rank's half of `calls`, which say from where to where and how many bytes.
fn halves(ranks: u32, calls: &[(u32, u32, u64)]) -> Vec<Vec<Transfer>> {
    let mut halves = vec![Vec::new(); ranks as usize];
    for (address, &(from, to, bytes)) in calls.iter().enumerate() {
        let address = address as u64;
        let half = |peer, way| Transfer { peer: Rank(peer), way, address, bytes };
        halves[from as usize].push(half(to, Direction::Out));
        halves[to as usize].push(half(from, Direction::In));
    }
    halves
}

/// A rank that executes its launches one after another.
struct Runner {
    launches: Vec<Exchange>,
    at: usize,
    /// How far each lane of the launch at hand has come in its list.
    lanes: Vec<usize>,
}

/// A part of a transfer, as both ends see it: from, to, part, the number of the call.
type Piece = (u32, u32, u32, u64);

impl Runner {
    fn new(launches: Vec<Exchange>) -> Self {
        let mut runner = Self { launches, at: 0, lanes: Vec::new() };
        runner.start();
        runner
    }

    fn start(&mut self) {
        let lanes = self.launches.get(self.at).map_or(0, |launch| launch.lane_count as usize);
        self.lanes = vec![0; lanes];
    }

    /// The pieces that rank `me`'s lanes stand at, by lane; skips transfers with fewer parts.
    fn pieces(&mut self, me: u32) -> BTreeMap<usize, Piece> {
        let Some(launch) = self.launches.get(self.at) else { return BTreeMap::new() };
        let mut pieces = BTreeMap::new();
        for (number, lane) in launch.lanes[..launch.lane_count as usize].iter().enumerate() {
            let list = &launch.transfers[lane.first.into()..][..lane.count.into()];
            let step = &mut self.lanes[number];
            let mine = |at: &usize| list[*at].traits & TRANSFER_PARTS_MASK > lane.part.into();
            *step = (*step..list.len()).find(mine).unwrap_or(list.len());
            if let Some(transfer) = list.get(*step) {
                let out = transfer.traits & TRANSFER_OUT != 0;
                let (from, to) = if out { (me, transfer.peer) } else { (transfer.peer, me) };
                pieces.insert(number, (from, to, lane.part.into(), transfer.address));
            }
        }
        pieces
    }
}

/// Runs all ranks with wires that hold nothing: a piece moves only while both ends stand at it.
fn check_ends(ranks: u32, blocks: u32, calls: &[(u32, u32, u64)]) {
    let halves = halves(ranks, calls);
    let launches = |(me, of): (u32, &Vec<Transfer>)| {
        let launches = exchange::launches(&shape(me, ranks, blocks), of, &[]);
        assert!(launches.iter().all(|launch| launch.lane_count <= blocks));
        Runner::new(launches)
    };
    let mut runners: Vec<_> = (0..ranks).zip(&halves).map(launches).collect();
    let mut moved = BTreeSet::new();
    loop {
        let at: Vec<_> = (0..ranks).zip(&mut runners).map(|(me, of)| of.pieces(me)).collect();
        let mut progress = false;
        for (me, runner) in runners.iter_mut().enumerate() {
            for (&lane, piece) in &at[me] {
                let other = if piece.0 == me as u32 { piece.1 } else { piece.0 };
                if at[other as usize].values().any(|theirs| theirs == piece) {
                    runner.lanes[lane] += 1;
                    moved.insert(*piece);
                    progress = true;
                }
            }
            if at[me].is_empty() && runner.at < runner.launches.len() {
                runner.at += 1;
                runner.start();
                progress = true;
            }
        }
        if !progress {
            break;
        }
    }
    assert!(runners.iter().all(|runner| runner.at == runner.launches.len()), "{calls:?}");
    let parts = |call: &(u32, u32, u64)| {
        shape(0, ranks, blocks).carriage(Rank(call.1), call.2).parts as usize
    };
    assert_eq!(moved.len(), calls.iter().map(parts).sum::<usize>());
}

#[test]
fn everyone_with_everyone_ends() {
    for (ranks, blocks) in [(2, 2), (5, 7), (8, 132), (40, 16)] {
        let pairs = (0..ranks).flat_map(|from| (0..ranks).map(move |to| (from, to)));
        let others = pairs.filter(|(from, to)| from != to);
        let calls: Vec<_> = others.map(|(from, to)| (from, to, 1 << 20)).collect();
        check_ends(ranks, blocks, &calls);
    }
}

#[test]
fn more_transfers_than_a_launch_holds_are_spread() {
    let calls: Vec<_> = (0..300).map(|_| [(0, 1, 100), (1, 0, 1 << 17)]).collect();
    check_ends(2, 20, calls.as_flattened());
}

#[test]
fn launches_know_where_their_transfers_begin() {
    let half = |way| Transfer { peer: Rank(1), way, address: 0, bytes: 100 };
    let halves: Vec<_> = (0..150).flat_map(|_| [Direction::Out, Direction::In].map(half)).collect();
    let launches = exchange::launches(&shape(0, 2, 132), &halves, &[]);
    let transfers = |launch: &Exchange| launch.transfers.iter().filter(|of| of.traits != 0).count();
    let mut first = 0;
    for launch in &launches {
        assert_eq!(launch.first_transfer, first);
        first += transfers(launch) as u32;
    }
    assert!(first == 300 && launches.len() > 3);
}

#[test]
fn eight_ranks_fit_one_launch_when_messages_are_short() {
    let halves: Vec<_> = (1..8)
        .flat_map(|peer| {
            let half = |way| Transfer { peer: Rank(peer), way, address: 0, bytes: 30 << 10 };
            [half(Direction::Out), half(Direction::In)]
        })
        .collect();
    let launches = exchange::launches(&shape(0, 8, 132), &halves, &[]);
    let [launch] = launches.as_slice() else { panic!("{} launches", launches.len()) };
    assert_eq!(launch.lane_count, 14 * 4);
}

#[test]
fn copies_get_lanes_of_their_own() {
    let copy = |bytes| LocalCopy { from: 1 << 20, to: 2 << 20, bytes };
    let launches = exchange::launches(&shape(0, 2, 132), &[], &[copy(3 << 16), copy(5)]);
    assert_eq!((launches.len(), launches[0].lane_count, launches[0].copy_parts), (1, 3, 3));
    let launches = exchange::launches(&shape(0, 2, 2), &[], &[copy(7); 20]);
    assert_eq!(launches.len(), 3);
    assert!(exchange::launches(&shape(0, 2, 2), &[], &[]).is_empty());
}

#[test]
fn parts_cover_every_byte_once() {
    for bytes in [0, 1, 16, 17, 1000, 1 << 20, u64::MAX] {
        for parts in [1, 2, 7, 16] {
            let pieces: Vec<_> =
                (0..parts).map(|part| exchange::part(bytes, parts, part)).collect();
            assert_eq!((pieces[0].0, pieces[parts as usize - 1].1), (0, bytes));
            assert!(pieces.windows(2).all(|pair| pair[0].1 == pair[1].0));
            assert!(pieces.iter().all(|piece| piece.0 % 16 == 0 || piece.0 == bytes));
        }
    }
}

#[test]
fn short_transfers_are_packets() {
    let shape = shape(0, 2, 132);
    assert_eq!(shape.carriage(Rank(1), 1).protocol, Protocol::Ll);
    assert_eq!(shape.carriage(Rank(1), 1 << 20).protocol, Protocol::Simple);
    let elsewhere = Shape { near: &[true, false], ..shape };
    assert_eq!(elsewhere.carriage(Rank(1), 1).protocol, Protocol::Simple);
    let without = Shape { ll: WireShape::default(), ..shape };
    assert_eq!(without.carriage(Rank(1), 1).protocol, Protocol::Simple);
    assert_eq!(exchange::message_bytes(Protocol::Ll, 1024), 512);
}

proptest! {
    #[test]
    fn any_group_ends(
        ranks in 2_u32..7,
        blocks in 2_u32..40,
        calls in prop::collection::vec((0_u32..7, 1_u32..7, 1_u64..(1 << 18)), 0..60),
    ) {
        let calls = calls.iter().map(|&(from, by, bytes)| {
            let from = from % ranks;
            (from, (from + 1 + by % (ranks - 1)) % ranks, bytes)
        });
        check_ends(ranks, blocks, &calls.collect::<Vec<_>>());
    }
}

#[test]
fn only_long_transfers_ask_for_the_stage_of_bulk_copies() {
    let simple = WireShape { wires: 8, depth: 4, slot_bytes: 128 << 10 };
    let shape = Shape { simple, ..shape(0, 2, 64) };
    let is_bulky = |sizes: &[u64]| {
        let calls: Vec<_> = sizes.iter().map(|&bytes| (0, 1, bytes)).collect();
        exchange::launches(&shape, &halves(2, &calls)[0], &[]).iter().any(exchange::is_bulky)
    };
    let six_messages_each = 8 * 6 * (128 << 10);
    for sizes in [&[1 << 10][..], &[1 << 20], &[six_messages_each - (1 << 10), 3]] {
        assert!(!is_bulky(sizes), "{sizes:?}");
    }
    for sizes in [&[six_messages_each][..], &[3, 1 << 30], &[1 << 20, 1 << 24]] {
        assert!(is_bulky(sizes), "{sizes:?}");
    }
}
