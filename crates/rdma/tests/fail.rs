//! How rails fail, and what they survive, through the ABI, on the rig's devices.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a test that cannot go on has failed")]

mod rig;

use std::process::Command;
use std::thread::sleep;
use std::time::{Duration, Instant};

use msccl_proxy::rdma::abi;
use rig::{Context, Event, Rail, Setting, pair, pattern, rig};

/// A command of the rig, such as `wire down 1`.
fn change(command: &str) {
    let mut words = command.split(' ');
    let status = Command::new(words.next().unwrap()).args(words).status();
    assert!(status.as_ref().is_ok_and(std::process::ExitStatus::success), "{command}: {status:?}");
}

/// Undoes a command at the end of a test, also of one that fails.
struct Undo(&'static str);

impl Drop for Undo {
    fn drop(&mut self) {
        let mut words = self.0.split(' ');
        let _ = Command::new(words.next().unwrap()).args(words).status();
    }
}

/// A hasty device gives up after 0.5 s; a host may be busy with other things.
const IN_TIME: Duration = Duration::from_secs(20);

fn expect(why: &str, parts: &[&str]) {
    for part in parts {
        assert!(why.contains(part), "`{part}` is not in: {why}");
    }
    println!("{why}");
}

/// Both ends, but each takes the other's address only after `forge` has changed it.
fn forged(bytes: usize, forge: impl FnOnce(&mut abi::Address)) -> (Rail, Rail) {
    let context = Context::open(&Setting::hasty()).unwrap();
    let (mut near, near_address) = context.register(0, bytes).unwrap().rail().unwrap();
    let (mut far, mut far_address) = context.register(1, bytes).unwrap().rail().unwrap();
    forge(&mut far_address);
    near.connect(&far_address).unwrap();
    far.connect(&near_address).unwrap();
    (near, far)
}

#[test]
fn a_gid_that_is_not_there_is_reported_with_those_that_are() {
    let Some(_rig) = rig(2) else { return };
    let context = Context::open(&Setting { gid_index: 77, ..Setting::default() }).unwrap();
    let failed = context.register(0, 64).unwrap().rail().err().unwrap();
    expect(
        &failed.why,
        &["rxe0 port 1", "NCCL_IB_GID_INDEX is 77", "1: 10.8.0.1 (RoCE v2)", "0: fe80::"],
    );
}

#[test]
fn a_gid_that_is_there_is_used() {
    let Some(_rig) = rig(2) else { return };
    let setting = Setting { gid_index: 1, ..Setting::default() };
    let (mut near, mut far) = pair(&setting, 0, 1, 64);
    assert!(near.post(0, 0, 64, 5).unwrap());
    assert_eq!(far.until(|all| !all.is_empty()).unwrap(), [Event::Arrived { tag: 5, bytes: 64 }]);
}

#[test]
fn a_wrong_key_is_refused_by_the_peers_device_and_reported_on_both_sides() {
    let Some(_rig) = rig(2) else { return };
    let (mut near, mut far) = forged(4096, |address| address.bytes[36] ^= 0x55);
    assert!(near.post(0, 0, 100, 1).unwrap());
    let why = near.failure();
    expect(&why, &["REM_ACCESS_ERR (10", "write 1 ", "key is wrong"]);
    expect(&near.describe(), &["rxe0 port 1 (10.8.0.1), queue pair ", "→ rxe1 port 1 (10.8.0.2)"]);
    assert_eq!(near.failure(), why, "a rail fails with its first words for ever");
    assert_eq!(near.post(0, 0, 100, 2).unwrap_err().why, why);
    expect(&far.failure(), &["this side refused a write of the peer"]);
    expect(&far.describe(), &["rxe1 port 1 (10.8.0.2), queue pair "]);
}

#[test]
fn a_write_past_the_end_is_refused_by_the_peers_device() {
    let Some(_rig) = rig(2) else { return };
    // The peer's memory, 4096 bytes, is made to look like 65536.
    let (mut near, mut far) = forged(4096, |address| address.bytes[50] = 1);
    assert!(near.post(0, 4000, 97, 1).unwrap());
    expect(&near.failure(), &["REM_ACCESS_ERR (10", "past the end"]);
    expect(&far.failure(), &["this side refused a write of the peer"]);
}

#[test]
fn a_write_out_of_range_is_refused_at_once() {
    let Some(_rig) = rig(2) else { return };
    let cases = [
        (4000, 0, 97, "at 4000 of this side's memory, which has 4096 bytes"),
        (0, 4000, 97, "at 4000 of the peer's memory, which has 4096 bytes"),
        (usize::MAX, 0, 1, "of this side's memory"),
    ];
    for (from, to, bytes, expected) in cases {
        let (mut near, _far) = pair(&Setting::default(), 0, 1, 4096);
        let failed = near.post(from, to, bytes, 9).unwrap_err();
        assert_eq!(failed.status, abi::FAILED);
        expect(&failed.why, &[expected, "tag 0x9"]);
        expect(&near.failure(), &[expected]);
    }
}

#[test]
fn a_post_before_it_is_connected_is_refused() {
    let Some(_rig) = rig(1) else { return };
    let context = Context::open(&Setting::default()).unwrap();
    let (mut rail, _) = context.register(0, 64).unwrap().rail().unwrap();
    expect(&rail.post(0, 0, 8, 1).unwrap_err().why, &["before it is connected"]);
    assert_eq!(rail.poll(9).unwrap(), []);
    expect(&rail.describe(), &["rxe0 port 1", "not connected"]);
    let nonsense = abi::Address { bytes: [1; 128] };
    expect(&rail.connect(&nonsense).unwrap_err().why, &["the same libmsccl-rdma.so"]);
}

#[test]
fn a_peer_that_does_not_answer_can_be_tried_again() {
    let Some(_rig) = rig(2) else { return };
    let context = Context::open(&Setting::default()).unwrap();
    let (mut near, near_address) = context.register(0, 64).unwrap().rail().unwrap();
    let (mut far, far_address) = context.register(1, 64).unwrap().rail().unwrap();
    change("wire down 1");
    let _undo = Undo("wire up 1");
    // The kernel remembers who answered before.
    change("ip neigh flush dev nic0");
    let failed = near.connect(&far_address).unwrap_err();
    assert_eq!(failed.status, abi::UNANSWERED);
    expect(&failed.why, &["rxe0 port 1", "cannot be connected with rxe1", "timed out"]);
    change("wire up 1");
    let begun = Instant::now();
    while let Err(failed) = near.connect(&far_address) {
        assert_eq!(failed.status, abi::UNANSWERED);
        assert!(begun.elapsed() < IN_TIME, "{}", failed.why);
    }
    far.connect(&near_address).unwrap();
    assert!(near.post(0, 0, 64, 5).unwrap());
    far.until(|all| all.contains(&Event::Arrived { tag: 5, bytes: 64 })).unwrap();
}

/// The process that [`a_killed_peer_is_noticed`] kills; alone it is no test.
#[test]
fn peer_process() {
    let Some((address, answer)) = std::env::var("MSCCL_TEST_PEER")
        .ok()
        .and_then(|places| places.split_once(',').map(|(a, b)| (a.to_owned(), b.to_owned())))
    else {
        return;
    };
    let context = Context::open(&Setting::default()).unwrap();
    let (mut rail, own) = context.register(1, 4096).unwrap().rail().unwrap();
    let peer = std::fs::read(address).unwrap();
    rail.connect(&abi::Address { bytes: peer.try_into().unwrap() }).unwrap();
    std::fs::write(format!("{answer}.part"), own.bytes).unwrap();
    std::fs::rename(format!("{answer}.part"), answer).unwrap();
    let mut echoed = 0;
    rail.until_moved(|rail, happened| {
        for event in happened {
            if let Event::Arrived { tag, .. } = event {
                assert!(rail.post(0, 0, 8, *tag).unwrap());
                echoed += 1;
            }
        }
        echoed == usize::MAX
    });
}

#[test]
fn a_killed_peer_is_noticed() {
    let Some(_rig) = rig(2) else { return };
    let folder = std::env::temp_dir().join(format!("msccl-rdma-test-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let (own, theirs) = (folder.join("own"), folder.join("theirs"));
    let context = Context::open(&Setting::hasty()).unwrap();
    let (mut rail, address) = context.register(0, 4096).unwrap().rail().unwrap();
    std::fs::write(&own, address.bytes).unwrap();
    let mut peer = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "peer_process", "--nocapture"])
        .env("MSCCL_TEST_PEER", format!("{},{}", own.display(), theirs.display()))
        .spawn()
        .unwrap();
    let begun = Instant::now();
    while !theirs.exists() {
        assert!(begun.elapsed() < rig::PATIENCE && peer.try_wait().unwrap().is_none());
        sleep(Duration::from_millis(10));
    }
    let bytes = std::fs::read(&theirs).unwrap().try_into().unwrap();
    rail.connect(&abi::Address { bytes }).unwrap();
    // It lives.
    assert!(rail.post(0, 0, 8, 41).unwrap());
    rail.until(|all| all.contains(&Event::Arrived { tag: 41, bytes: 8 })).unwrap();
    // It dies.
    peer.kill().unwrap();
    peer.wait().unwrap();
    let begun = Instant::now();
    assert!(rail.post(0, 0, 8, 42).unwrap());
    let why = rail.failure();
    expect(&why, &["RETRY_EXC_ERR (12", "its process has ended", "NCCL_IB_TIMEOUT=14", "write 2 "]);
    assert!(begun.elapsed() < IN_TIME, "{:?}", begun.elapsed());
    std::fs::remove_dir_all(folder).unwrap();
}

#[test]
fn a_wire_that_is_pulled_for_two_seconds_is_survived() {
    let Some(_rig) = rig(2) else { return };
    let (mut near, mut far) = pair(&Setting::default(), 0, 1, 100_000);
    let sent = pattern(3, 100_000);
    near.memory.write(0, &sent);
    change("wire down 0");
    let _undo = Undo("wire up 0");
    sleep(Duration::from_millis(300));
    assert!(near.post(0, 0, 100_000, 1).unwrap());
    let begun = Instant::now();
    let mut stories = Vec::new();
    while begun.elapsed() < Duration::from_secs(2) {
        assert_eq!((near.poll(9).unwrap(), far.poll(9).unwrap()), (vec![], vec![]));
        stories.push(near.describe());
        sleep(Duration::from_micros(200));
    }
    expect(stories.last().unwrap(), &["(down for ", "rxe0 port 1"]);
    change("wire up 0");
    let happened = far.until(|all| !all.is_empty()).unwrap();
    assert_eq!(happened, [Event::Arrived { tag: 1, bytes: 100_000 }]);
    assert!(far.memory.read(0, 100_000) == sent);
    assert_eq!(near.until(|all| !all.is_empty()).unwrap(), [Event::Sent]);
    let begun = Instant::now();
    while near.describe().contains("down") {
        assert_eq!(near.poll(9).unwrap(), []);
        assert!(begun.elapsed() < rig::PATIENCE, "{}", near.describe());
    }
}

#[test]
fn a_wire_that_stays_pulled_breaks_the_rail_in_time() {
    let Some(_rig) = rig(2) else { return };
    for pulled in ["0", "1"] {
        let (mut near, mut far) = pair(&Setting::hasty(), 0, 1, 4096);
        change(&format!("wire down {pulled}"));
        let _undo = Undo(if pulled == "0" { "wire up 0" } else { "wire up 1" });
        let begun = Instant::now();
        assert!(near.post(0, 0, 4096, 1).unwrap());
        let why = near.failure();
        assert!(begun.elapsed() < IN_TIME, "{:?}", begun.elapsed());
        expect(&why, &["_ERR ("]);
        let parts = ["rxe0 port 1 (10.8.0.1)", "→ rxe1 port 1 (10.8.0.2), queue pair "];
        expect(&near.describe(), &parts);
        if pulled == "0" {
            expect(&why, &["; rxe0 port 1 has been down for "]);
        } else {
            expect(&why, &["RETRY_EXC_ERR (12", "NCCL_IB_TIMEOUT"]);
        }
        assert_eq!(far.poll(9).unwrap(), []);
        change(&format!("wire up {pulled}"));
        sleep(Duration::from_millis(500));
    }
}

#[test]
fn losses_and_delays_change_nothing_but_time() {
    let Some(_rig) = rig(2) else { return };
    change("wire shape 0 1 2");
    let _undo = (Undo("wire shape 0 0 0"), Undo("wire shape 1 0 0"));
    change("wire shape 1 1 2");
    // A lost last packet is noticed only by the time that has passed: 0.13 s.
    let setting = Setting { timeout: 15, ..Setting::default() };
    let (mut near, mut far) = pair(&setting, 0, 1, 64 * 10_000);
    for round in 0..4 {
        let sent = pattern(round, 64 * 10_000);
        near.memory.write(0, &sent);
        for piece in 0..64 {
            assert!(near.post(piece * 10_000, piece * 10_000, 10_000, piece as u32).unwrap());
        }
        let arrived = far.until(|all| all.len() == 64).unwrap();
        assert!(arrived.into_iter().eq((0..64).map(|tag| Event::Arrived { tag, bytes: 10_000 })));
        assert!(far.memory.read(0, 64 * 10_000) == sent);
        near.until(|all| all.len() == 64).unwrap();
    }
}

#[test]
fn nothing_lands_after_a_rail_was_given_up() {
    let Some(_rig) = rig(2) else { return };
    for round in 0..5_u64 {
        const BYTES: usize = 1 << 20;
        let (mut near, mut far) = pair(&Setting::hasty(), 0, 1, BYTES);
        near.memory.write(0, &pattern(1, BYTES));
        for tag in 0..40 {
            assert!(near.post(0, 0, BYTES, tag).unwrap());
        }
        sleep(Duration::from_millis(3 + 4 * round));
        far.fail();
        let memory = std::sync::Arc::clone(&far.memory);
        memory.write(0, &[0xEE; BYTES]);
        expect(&far.failure(), &["this side has closed it"]);
        expect(&near.failure(), &["RETRY_EXC_ERR (12"]);
        assert!(memory.read(0, BYTES).iter().all(|byte| *byte == 0xEE), "something landed");
        // The device is as good as before.
        let (mut near, mut far) = rig::pair_of(&near.memory, &memory);
        assert!(near.post(0, 0, 8, 1).unwrap());
        far.until(|all| !all.is_empty()).unwrap();
    }
}

/// Both ends; the far one has not looked at 100 writes that have arrived, and its only write has
/// failed.
fn unread() -> (Rail, Rail) {
    let (mut near, mut far) = pair(&Setting::hasty(), 0, 1, 4096);
    (0..100).for_each(|tag| assert!(near.post(0, 0, 1000, tag).unwrap()));
    near.until(|all| all.len() == 100).unwrap();
    near.fail();
    assert!(far.post(0, 0, 8, 1).unwrap());
    // The device gives up before anybody looks.
    sleep(Duration::from_millis(1500));
    (near, far)
}

/// All 100, and then why the rail failed; `meanwhile` is done after every look.
fn read(far: &mut Rail, mut meanwhile: impl FnMut(&mut Rail)) {
    let mut arrived = Vec::new();
    let why = loop {
        match far.poll(7) {
            Ok(happened) => arrived.extend(happened),
            Err(failed) => break failed.why,
        }
        meanwhile(far);
    };
    assert!(arrived.into_iter().eq((0..100).map(|tag| Event::Arrived { tag, bytes: 1000 })));
    expect(&why, &["RETRY_EXC_ERR (12", "write 1 (1 under way)"]);
}

#[test]
fn what_has_arrived_is_reported_before_the_failure() {
    let Some(_rig) = rig(2) else { return };
    let (_near, mut far) = unread();
    read(&mut far, |_| {});
}

/// Whoever posts does not learn of it earlier than whoever polls: it would close the rail and read
/// nothing more.
#[test]
fn what_has_arrived_is_reported_although_more_is_posted() {
    let Some(_rig) = rig(2) else { return };
    let (_near, mut far) = unread();
    read(&mut far, |far| assert!(!far.post(0, 0, 8, 2).unwrap(), "there is no room"));
}
