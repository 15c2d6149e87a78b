//! What needs no device; and, in the rig, what only the inside of a rail can bring about.

use super::*;
use crate::machine::Machine;
use crate::verbs::Region;

fn end() -> End {
    End {
        ethernet: true,
        mtu_code: 5,
        pair: 17,
        packet: 1,
        gid: [1; 16],
        lid: 0,
        port: 1,
        key: 7,
        memory: 4096,
        memory_bytes: 1000,
        device: "mlx5_0".into(),
    }
}

fn settings() -> Settings {
    Settings::new("", [-1, -1, -1, 106, 3]).unwrap()
}

#[test]
fn a_write_must_lie_in_both_memories_and_in_a_message() {
    let write = |from, to, bytes| abi::RawWrite { from, to, bytes, tag: 9 };
    let found = |write: abi::RawWrite| check(&write, &end(), &end(), 600).err().unwrap_or_default();
    assert_eq!(found(write(400, 400, 600)), "");
    assert_eq!(found(write(u64::MAX, u64::MAX, 0)), "", "a signal has no place");
    assert!(found(write(401, 0, 600)).contains("at 401 of this side's memory"));
    assert!(found(write(0, 401, 600)).contains("at 401 of the peer's memory"));
    assert!(found(write(u64::MAX, 0, 1)).contains("this side's"));
    assert!(
        found(write(0, 0, 601))
            .contains("a write of 601 bytes (tag 0x9); the port sends at most 600")
    );
}

#[test]
fn ethernet_always_needs_global_addresses_and_infiniband_between_subnets() {
    let route = |own: End, peer: End| route(&settings(), &own, 3, &peer).unwrap();
    let ethernet = route(end(), End { gid: [2; 16], mtu_code: 3, packet: 99, ..end() });
    assert_eq!(ethernet.global, Some(([2; 16], 3)));
    assert_eq!((ethernet.mtu_code, ethernet.packet), (3, 99));
    assert_eq!((ethernet.traffic_class, ethernet.service_level), (106, 3));
    let infiniband = || End { ethernet: false, lid: 5, ..end() };
    assert_eq!(route(infiniband(), End { lid: 8, ..infiniband() }).lid, 8);
    assert_eq!(route(infiniband(), infiniband()).global, None);
    let elsewhere = End { gid: [2; 16], ..infiniband() };
    assert_eq!(route(infiniband(), elsewhere).global, Some(([2; 16], 3)));
}

#[test]
fn two_kinds_of_network_are_refused() {
    let why = route(&settings(), &end(), 3, &End { ethernet: false, lid: 5, ..end() }).unwrap_err();
    assert!(why.contains("is Ethernet, but mlx5_0 port 1 (LID 5)"), "{why}");
    assert!(why.contains("NCCL_IB_HCA"), "{why}");
}

/// Both ends of a rail between the first two devices of the rig; none, said aloud, outside of it.
fn rails() -> Option<(Rail, Rail)> {
    if std::env::var("RDMA_RIG_DEVICES").map_or(0, |count| count.parse().unwrap_or(0)) < 2 {
        println!("SKIPPED: needs tests/rdma-rig/run --devices 2");
        return None;
    }
    let settings = Settings::new("=rxe0,rxe1", [-1, 14, 6, -1, -1]).unwrap();
    let machine = Machine::open(settings.clone()).unwrap();
    let end = |index| {
        let port = Arc::clone(machine.port(index).unwrap());
        let region = Region::of_leaked(port.watch.adapter(), 4096).unwrap();
        Rail::new(&settings, Arc::new(Registration { region, port })).unwrap()
    };
    let (mut near, mut far) = (end(0), end(1));
    near.connect(&far.address()).unwrap();
    far.connect(&near.address()).unwrap();
    Some((near, far))
}

fn failure(rail: &mut Rail) -> String {
    let mut happened = [abi::RawRailEvent { kind: 0, tag: 0, bytes: 0, reserved: 0 }; 8];
    let begun = Instant::now();
    loop {
        if let Err(why) = rail.poll(&mut happened) {
            return why;
        }
        assert!(begun.elapsed() < Duration::from_secs(20), "{}", rail.describe());
    }
}

#[test]
fn a_queue_pair_that_is_forced_into_its_error_state_is_reported() {
    let Some((mut near, mut far)) = rails() else { return };
    let write = abi::RawWrite { from: 0, to: 0, bytes: 8, tag: 1 };
    near.pair.as_mut().unwrap().break_off().unwrap();
    let why = failure(&mut near);
    assert!(why.starts_with("a receive ended with WR_FLUSH_ERR (5"), "{why}");
    assert!(why.contains("in its error state already"), "{why}");
    assert_eq!(near.post(&write).unwrap_err(), why);
    // The peer hears nothing any more.
    assert!(far.post(&write).unwrap());
    let why = failure(&mut far);
    assert!(why.contains("RETRY_EXC_ERR (12") && why.contains("write 1 (1 under way)"), "{why}");
}

/// The reason comes behind a request that was only flushed; it is the reason that is reported.
#[test]
fn a_reason_replaces_its_consequence() {
    let Some((mut near, _far)) = rails() else { return };
    let completion = |status| Completion { request: 3, status, vendor: 0, bytes: 0, tag: 0 };
    for status in [FLUSHED, 10, 12] {
        let completion = completion(status);
        near.begin_to_fail(Cause::Completion { queue: Queue::Sent, completion });
    }
    let why = failure(&mut near);
    assert!(why.starts_with("write 3 (0 under way) ended with REM_ACCESS_ERR (10"), "{why}");
}

/// Drivers refuse posts to a queue pair that has failed; but what this side flushes itself says
/// nothing.
#[test]
fn a_refused_call_gives_way_to_a_reason_and_to_nothing_else() {
    let completion = |status| {
        let completion = Completion { request: 3, status, vendor: 0, bytes: 0, tag: 0 };
        Cause::Completion { queue: Queue::Sent, completion }
    };
    for (status, expected) in
        [(FLUSHED, "ibv_post_send: "), (12, "write 3 (0 under way) ended with")]
    {
        let Some((mut near, _far)) = rails() else { return };
        let error = std::io::Error::from_raw_os_error(22);
        near.begin_to_fail(Cause::Refused(Refused { call: "ibv_post_send", error }));
        near.begin_to_fail(completion(status));
        let why = failure(&mut near);
        assert!(why.starts_with(expected), "{why}");
    }
}
