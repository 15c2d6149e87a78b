//! Transfers in every pattern, copies, and scaling.

use msccl_collective::DataType;
use msccl_plan::Direction;
use msccl_plan::exchange::Transfer;

use super::world::{address, run, transfer};
use crate::call::Scalar;
use crate::engine::{Engine, ScaleBy, Scaling};

/// What rank `from` sends rank `to` as its message `number`.
fn sample(from: u32, to: u32, number: u32, length: usize) -> Vec<u8> {
    let seed = from * 31 + to * 17 + number * 7;
    (0..length).map(|at| (at as u32 * 3 + seed) as u8).collect()
}

/// A transfer, by its ends.
#[derive(Clone, Copy, Debug)]
struct Half {
    from: u32,
    to: u32,
    /// Among those from one to the other.
    number: u32,
    length: usize,
}

/// Every rank calls, group by group, its halves of the transfers in `groups`; what arrives is what
/// was sent. Every second rank lists its halves backwards, except that those with one peer and
/// one direction keep their order.
fn check(ranks: u32, groups: &[Vec<Half>]) {
    run(ranks, |place| {
        let me = place.me.0;
        for (call, group) in groups.iter().enumerate() {
            let own = group.iter().filter(|half| half.from == me || half.to == me);
            let mut buffers: Vec<(Half, Vec<u8>)> = own
                .map(|&half| {
                    let Half { from, to, number, length } = half;
                    let sends = from == me;
                    (half, if sends { sample(from, to, number, length) } else { vec![0; length] })
                })
                .collect();
            if me % 2 == 1 {
                buffers.sort_by_key(|(half, _)| std::cmp::Reverse((half.from, half.to)));
            }
            let transfers: Vec<Transfer> = buffers
                .iter_mut()
                .map(|(half, bytes)| match half.from == me {
                    true => transfer(half.to, Direction::Out, bytes),
                    false => transfer(half.from, Direction::In, bytes),
                })
                .collect();
            place.rank.transfers(&transfers, 0, call as u64 + 1).unwrap();
            for (half, bytes) in &buffers {
                let Half { from, to, number, length } = *half;
                assert!(*bytes == sample(from, to, number, length), "{half:?}");
            }
            assert!(place.rank.has_finished(call as u64 + 1));
        }
    });
}

#[test]
fn a_ring_of_long_messages() {
    for ranks in [2, 3, 8] {
        let number = 0;
        let half = |from| Half { from, to: (from + 1) % ranks, number, length: 1_000_003 };
        check(ranks, &[(0..ranks).map(half).collect()]);
    }
}

#[test]
fn everyone_to_everyone_with_unequal_sizes() {
    let ranks = 5;
    let pairs = (0..ranks).flat_map(|from| (0..ranks).map(move |to| (from, to)));
    let half = |(from, to)| {
        let length = 1 + (from * 70_001 + to * 13) as usize;
        Half { from, to, number: 0, length }
    };
    check(ranks, &[pairs.filter(|(from, to)| from != to).map(half).collect()]);
}

#[test]
fn many_sends_to_one_peer_keep_their_order() {
    let half = |number| Half { from: 0, to: 1, number, length: 1 + number as usize * 997 };
    check(2, &[(0..100).map(half).collect()]);
}

#[test]
fn both_ways_at_once_with_more_than_wires_hold() {
    let ranks = 2;
    let length = 4 << 20;
    let halves = [(0, 1, 0), (0, 1, 1), (1, 0, 0), (1, 0, 1)];
    let half = |(from, to, number)| Half { from, to, number, length };
    check(ranks, &[halves.into_iter().map(half).collect()]);
}

#[test]
fn groups_may_be_cut_differently_on_both_sides() {
    // Rank 0 sends in one group what rank 1 receives in two, and the other way round.
    run(2, |place| {
        let lengths = [70_000, 3, 200_000];
        let mut buffers: Vec<_> = (0..3)
            .map(|number| match place.me.0 {
                0 => sample(0, 1, number, lengths[number as usize]),
                _ => vec![0; lengths[number as usize]],
            })
            .collect();
        let way = if place.me.0 == 0 { Direction::Out } else { Direction::In };
        let peer = 1 - place.me.0;
        let transfers: Vec<_> =
            buffers.iter_mut().map(|bytes| transfer(peer, way, bytes)).collect();
        let cut = 1 + place.me.index();
        place.rank.transfers(&transfers[..cut], 0, 1).unwrap();
        place.rank.transfers(&transfers[cut..], 0, 2).unwrap();
        for (number, bytes) in buffers.iter().enumerate() {
            assert!(*bytes == sample(0, 1, number as u32, lengths[number]), "{number}");
        }
    });
}

#[test]
fn an_empty_group_is_done_at_once() {
    run(1, |place| {
        place.rank.transfers(&[], 0, 1).unwrap();
        assert!(place.rank.has_finished(1));
    });
}

#[test]
fn copies_may_overlap() {
    run(1, |place| {
        let mut bytes: Vec<u8> = (0..100).collect();
        let start = address(&mut bytes);
        place.rank.copy(start, start + 10, 90, 0).unwrap();
        let expected: Vec<u8> = (0..10).chain(0..90).collect();
        assert_eq!(bytes, expected);
        place.rank.copy(0, 0, 0, 0).unwrap();
        assert!(place.rank.copy(0, start, 1, 0).is_err());
    });
}

#[test]
fn scaling_reaches_every_element() {
    run(1, |place| {
        let mut from: Vec<u8> =
            (0..10_000).flat_map(|at| (at as f32 + 0.5).to_ne_bytes()).collect();
        let mut to = vec![0; from.len()];
        let mut scalar = 3.0_f32.to_ne_bytes();
        let mut scaling = Scaling {
            from: address(&mut from),
            to: address(&mut to),
            elements: 10_000,
            data_type: DataType::F32,
            by: ScaleBy::Scalar(Scalar::At(address(&mut scalar))),
        };
        place.rank.scale(&scaling, 0).unwrap();
        let expected: Vec<u8> =
            (0..10_000).flat_map(|at| (3.0 * (at as f32 + 0.5)).to_ne_bytes()).collect();
        assert!(to == expected);
        scaling.from = scaling.to;
        let third = Scalar::Immediate(u64::from((1.0_f32 / 3.0).to_bits()));
        scaling.by = ScaleBy::Scalar(third);
        place.rank.scale(&scaling, 0).unwrap();
        let third = |at: u32| (at as f32 + 0.5) * 3.0 * (1.0 / 3.0);
        let expected: Vec<u8> = (0..10_000).flat_map(|at| third(at).to_ne_bytes()).collect();
        assert!(to == expected);
    });
}

#[test]
fn scratch_is_kept() {
    run(1, |place| {
        let first = place.rank.scratch(1000).unwrap();
        assert_eq!(place.rank.scratch(10).unwrap(), first);
        assert_eq!(place.rank.capacity().ll.wires, 0);
        assert_eq!(
            place.rank.describe(),
            "host threads (16 wires of 8 × 65536 bytes from each rank to each other, in shared \
             memory)"
        );
    });
}
