//! What rails carry, through the ABI, on the rig's devices.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a test that cannot go on has failed")]

mod rig;

use msccl_proxy::rdma::abi;
use rig::{Context, Event, Rail, Setting, pair, pair_of, pattern, rig};

/// Sends `bytes` bytes from here to there and compares.
fn carry(near: &mut Rail, far: &mut Rail, (from, to, bytes): (usize, usize, usize), tag: u32) {
    let sent = pattern(tag as usize, bytes);
    near.memory.write(from, &sent);
    assert!(near.post(from, to, bytes, tag).unwrap());
    let happened = far.until(|all| !all.is_empty()).unwrap();
    assert_eq!(happened, [Event::Arrived { tag, bytes: bytes as u32 }]);
    assert!(far.memory.read(to, bytes) == sent, "{bytes} bytes from {from} to {to} differ");
    assert_eq!(near.until(|all| !all.is_empty()).unwrap(), [Event::Sent]);
}

#[test]
fn writes_of_all_sizes_arrive_whole() {
    let Some(_rig) = rig(2) else { return };
    const MIB: usize = 1 << 20;
    let (mut near, mut far) = pair(&Setting::default(), 0, 1, 17 * MIB);
    let sizes = [
        0,
        1,
        7,
        8,
        63,
        64,
        65,
        255,
        256,
        1023,
        4095,
        4096,
        4097,
        8191,
        12_289,
        65_535,
        65_536,
        65_537,
        1_000_003,
        MIB - 1,
        MIB,
        MIB + 1,
        3 * MIB + 5,
        8 * MIB,
        16 * MIB - 3,
        16 * MIB,
    ];
    for (tag, bytes) in (1..).zip(sizes) {
        carry(&mut near, &mut far, (tag as usize, 3 * tag as usize, bytes), tag);
        carry(&mut far, &mut near, (0, 1, bytes), u32::MAX - tag);
    }
}

#[test]
fn a_write_leaves_its_neighbourhood_alone() {
    let Some(_rig) = rig(2) else { return };
    let (mut near, mut far) = pair(&Setting::default(), 0, 1, 20_000);
    far.memory.write(0, &[0xAA; 20_000]);
    carry(&mut near, &mut far, (13, 5001, 4999), 1);
    assert!(far.memory.read(0, 5001).iter().all(|byte| *byte == 0xAA));
    assert!(far.memory.read(10_000, 10_000).iter().all(|byte| *byte == 0xAA));
}

/// Writes `count` messages of `bytes` each into a ring of slots as fast as there is room, and takes
/// in as many of the peer; checks the order of tags and every message.
fn stream(mut rail: Rail, seed: usize, peer_seed: usize, count: u32, bytes: usize) -> Rail {
    const SLOTS: usize = 8;
    let (mut posted, mut sent, mut arrived, mut granted) = (0, 0, 0, SLOTS as u32);
    let half = rail.memory.bytes() / 2;
    let place = |number: u32| number as usize % SLOTS * bytes;
    rail.until_moved(|rail, happened| {
        for event in happened {
            match event {
                Event::Sent => sent += 1,
                Event::Arrived { tag: CREDIT, bytes: 0 } => granted += 1,
                Event::Arrived { tag, bytes: had } => {
                    assert_eq!((*tag, *had as usize), (arrived, bytes), "out of order");
                    let expected = pattern(peer_seed + arrived as usize, bytes);
                    let found = rail.memory.read(half + place(arrived), bytes);
                    assert!(found == expected, "message {arrived} differs");
                    arrived += 1;
                    assert!(rail.post(0, 0, 0, CREDIT).unwrap(), "a queue this long has room");
                    posted += 1;
                }
            }
        }
        while granted > 0 && posted - arrived < count {
            let number = posted - arrived;
            // A slot is free once the peer has taken what was in it, so what it was sent from is,
            // too.
            rail.memory.write(place(number), &pattern(seed + number as usize, bytes));
            if !rail.post(place(number), half + place(number), bytes, number).unwrap() {
                break;
            }
            (posted, granted) = (posted + 1, granted - 1);
        }
        arrived == count && sent == 2 * count
    });
    rail
}

/// A tag that says that a slot is free.
const CREDIT: u32 = u32::MAX;

#[test]
fn both_directions_at_once() {
    let Some(_rig) = rig(2) else { return };
    for bytes in [8, 100, 5000, 70_001] {
        let (near, far) = pair(&Setting::default(), 0, 1, 16 * bytes);
        let count = if bytes > 50_000 { 60 } else { 1200 };
        let peer = std::thread::spawn(move || stream(far, 7000, 1000, count, bytes));
        let _near = stream(near, 1000, 7000, count, bytes);
        let _far = peer.join().unwrap();
    }
}

#[test]
fn several_rails_of_one_memory_on_four_devices() {
    let Some(_rig) = rig(4) else { return };
    let context = Context::open(&Setting::default()).unwrap();
    const BYTES: usize = 3000;
    let mut threads = Vec::new();
    for (index, (a, b)) in [(0, 1), (2, 3), (1, 2), (3, 0), (0, 0)].into_iter().enumerate() {
        let memory = |device| context.register(device, 16 * BYTES).unwrap();
        let (near, far) = pair_of(&memory(a), &memory(b));
        for (rail, seed, peer_seed) in [(near, index, 500), (far, 500, index)] {
            threads.push(std::thread::spawn(move || stream(rail, seed, peer_seed, 300, BYTES)));
        }
    }
    // A device may report a write before the peer's has: no rail ends before all have received.
    let _rails: Vec<_> = threads.into_iter().map(|thread| thread.join().unwrap()).collect();
}

#[test]
fn two_rails_may_share_one_memory() {
    let Some(_rig) = rig(2) else { return };
    let context = Context::open(&Setting::default()).unwrap();
    let (a, b) = (context.register(0, 8192).unwrap(), context.register(1, 8192).unwrap());
    let ((mut near, mut far), (mut near2, mut far2)) = (pair_of(&a, &b), pair_of(&a, &b));
    carry(&mut near, &mut far, (0, 4096, 4000), 1);
    carry(&mut near2, &mut far2, (4096, 0, 4000), 2);
    carry(&mut far, &mut near, (5, 6, 7), 3);
}

#[test]
fn a_full_queue_says_so_and_goes_on() {
    let Some(_rig) = rig(2) else { return };
    let (mut near, mut far) = pair(&Setting::default(), 0, 1, 8);
    let mut posted = 0_u32;
    while near.post(0, 0, 8, posted).unwrap() {
        posted += 1;
        assert!(posted < 100_000, "a queue without end");
    }
    assert!(posted >= 128, "only {posted} writes fit");
    assert!(!near.post(0, 0, 8, 0).unwrap(), "nothing was polled, so nothing has changed");
    let first = far.until(|all| all.len() == posted as usize).unwrap();
    near.until(|all| all.len() == posted as usize).unwrap();
    assert!(near.post(0, 0, 8, posted).unwrap());
    let last = far.until(|all| !all.is_empty()).unwrap();
    let tags = first.into_iter().chain(last);
    let expected = (0..=posted).map(|tag| Event::Arrived { tag, bytes: 8 });
    assert!(tags.eq(expected));
}

/// The peer does not poll, so its device has no receives left in the end; that is no failure.
#[test]
fn a_peer_that_does_not_look_is_waited_for() {
    let Some(_rig) = rig(2) else { return };
    let (mut near, mut far) = pair(&Setting::default(), 0, 1, 8);
    let (mut posted, mut sent) = (0_u32, 0);
    let begun = std::time::Instant::now();
    while begun.elapsed().as_secs() < 3 {
        sent += near.poll(64).unwrap().len();
        if near.post(0, 0, 8, posted).unwrap() {
            posted += 1;
        }
    }
    assert!((512..1024).contains(&posted), "{posted} posted, {sent} sent");
    let tags = far.until(|all| all.len() == posted as usize).unwrap();
    assert!(tags.into_iter().eq((0..posted).map(|tag| Event::Arrived { tag, bytes: 8 })));
    near.until(|all| all.len() + sent == posted as usize).unwrap();
}

#[test]
fn little_room_for_events_loses_nothing() {
    let Some(_rig) = rig(2) else { return };
    let (mut near, mut far) = pair(&Setting::default(), 0, 1, 8);
    (0..40).for_each(|tag| assert!(near.post(0, 0, 1, tag).unwrap()));
    let (mut sent, mut arrived) = (0, 0);
    let begun = std::time::Instant::now();
    while sent < 40 || arrived < 40 {
        assert_eq!(near.poll(0).unwrap(), []);
        let of_near = near.poll(1).unwrap();
        assert!(of_near.len() <= 1);
        sent += of_near.len();
        arrived += far.poll(3).unwrap().len();
        assert!(begun.elapsed() < rig::PATIENCE);
    }
    assert_eq!((sent, arrived), (40, 40));
}

#[test]
fn devices_are_listed_as_the_test_bed_has_them() {
    let Some(_rig) = rig(4) else { return };
    let context = Context::open(&Setting::default()).unwrap();
    let name = |device: &abi::Device| {
        let name = device.name.split(|byte| *byte == 0).next().unwrap();
        String::from_utf8(name.to_vec()).unwrap()
    };
    let devices = context.devices();
    assert_eq!(devices.iter().map(name).collect::<Vec<_>>(), ["rxe0", "rxe1", "rxe2", "rxe3"]);
    for device in &devices {
        assert_eq!((device.port, device.mtu_bytes, device.ethernet), (1, 4096, 1));
        assert!(device.gbit_per_s > 0);
    }
    // The crate `ibverbs` is another witness of what there is.
    let witness = ibverbs::devices().unwrap();
    let mut witness: Vec<_> =
        witness.iter().map(|device| device.name().unwrap().to_str().unwrap().to_owned()).collect();
    witness.sort();
    assert_eq!(witness, ["rxe0", "rxe1", "rxe2", "rxe3"]);
}

#[test]
fn users_choose_devices() {
    let Some(_rig) = rig(4) else { return };
    for (hca, expected) in
        [("rxe1,rxe3", 2), ("=rxe", 0), ("^rxe1", 3), ("rxe:2", 0), ("^=rxe0:1,rxe2", 2)]
    {
        let opened = Context::open(&Setting { hca: hca.into(), ..Setting::default() });
        match opened {
            Ok(context) => assert_eq!(context.devices().len(), expected, "{hca}"),
            Err(failed) => {
                assert_eq!(expected, 0, "{hca}: {failed:?}");
                assert!(failed.why.contains(&format!("NCCL_IB_HCA is `{hca}`")), "{failed:?}");
            }
        }
    }
}

#[test]
fn a_dma_buf_is_reported_as_unsupported() {
    let Some(_rig) = rig(1) else { return };
    let context = Context::open(&Setting::default()).unwrap();
    let failed = context.try_dmabuf(0).unwrap_err();
    assert_eq!(failed.status, abi::UNSUPPORTED, "{failed:?}");
    assert!(failed.why.contains("rxe0 port 1 does not offer that"), "{failed:?}");
}
