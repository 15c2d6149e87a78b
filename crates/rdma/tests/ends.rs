//! What is left when rails end: nothing. And ports whose packets differ in size. On the rig's
//! devices.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a test that cannot go on has failed")]

mod rig;

use std::collections::BTreeMap;
use std::process::Command;

use rig::{Context, Event, Setting, pair, pair_of, rig};

/// What the kernel holds for users, by its own count: queue pairs, completion queues, memory
/// regions, domains, contexts.
fn held() -> BTreeMap<String, u64> {
    let answer = Command::new("rdma").args(["resource", "show"]).output().unwrap();
    assert!(answer.status.success(), "{answer:?}");
    let text = String::from_utf8(answer.stdout).unwrap();
    let mut held = BTreeMap::new();
    for line in text.lines() {
        let words: Vec<_> = line.split_whitespace().skip(2).collect();
        for pair in words.chunks_exact(2) {
            *held.entry(pair[0].to_owned()).or_insert(0) += pair[1].parse::<u64>().unwrap();
        }
    }
    assert!(["qp", "cq", "mr", "pd", "ctx"].iter().all(|kind| held.contains_key(*kind)), "{text}");
    held
}

fn files() -> usize {
    std::fs::read_dir("/proc/self/fd").unwrap().count()
}

#[test]
fn two_hundred_set_ups_leave_nothing() {
    let Some(_rig) = rig(2) else { return };
    let (before, files_before) = (held(), files());
    let context = Context::open(&Setting::default()).unwrap();
    let (a, b) = (context.register(0, 4096).unwrap(), context.register(1, 4096).unwrap());
    let between = held();
    assert_eq!(between["mr"], before["mr"] + 2);
    for round in 0..200 {
        let (mut near, mut far) = pair_of(&a, &b);
        if round % 2 == 0 {
            assert!(near.post(0, 0, 100, round).unwrap());
            far.until(|all| !all.is_empty()).unwrap();
        }
        if round % 5 == 0 {
            near.fail();
        }
        if round % 50 == 0 {
            let during = held();
            assert_eq!(during["qp"], between["qp"] + if round % 5 == 0 { 1 } else { 2 });
        }
    }
    assert_eq!(held(), between, "rails left something");
    drop((a, b));
    drop(context);
    assert_eq!(held(), before, "memory or devices left something");
    assert_eq!(files(), files_before);
}

#[test]
fn whole_contexts_leave_nothing() {
    let Some(_rig) = rig(2) else { return };
    let (before, files_before) = (held(), files());
    for _ in 0..20 {
        let (mut near, far) = pair(&Setting::default(), 0, 1, 4096);
        assert!(near.post(0, 0, 100, 1).unwrap());
        drop(far);
    }
    // A set-up that fails half-way.
    let context = Context::open(&Setting { gid_index: 77, ..Setting::default() }).unwrap();
    assert!(context.register(0, 64).unwrap().rail().is_err());
    drop(context);
    assert_eq!((held(), files()), (before, files_before));
}

fn link_mtu(device: u32, bytes: u32) {
    for link in ["nic", "port"] {
        let link = format!("{link}{device}");
        let bytes = bytes.to_string();
        let status = Command::new("ip").args(["link", "set", &link, "mtu", &bytes]).status();
        assert!(status.unwrap().success(), "{link} {bytes}");
    }
}

#[test]
fn ports_whose_packets_differ_meet_at_the_smaller() {
    let Some(_rig) = rig(2) else { return };
    struct Undo;
    impl Drop for Undo {
        fn drop(&mut self) {
            link_mtu(1, 4500);
        }
    }
    let _undo = Undo;
    link_mtu(1, 1500);
    let context = Context::open(&Setting::default()).unwrap();
    let sizes: Vec<_> = context.devices().iter().take(2).map(|device| device.mtu_bytes).collect();
    assert_eq!(sizes, [4096, 1024]);
    let (mut near, mut far) = pair(&Setting::default(), 0, 1, 50_000);
    assert!(near.describe().contains("1024-byte packets"), "{}", near.describe());
    assert!(far.describe().contains("1024-byte packets"), "{}", far.describe());
    let sent = rig::pattern(4, 50_000);
    near.memory.write(0, &sent);
    far.memory.write(0, &sent);
    assert!(near.post(0, 0, 50_000, 1).unwrap() && far.post(0, 0, 20_000, 2).unwrap());
    let happened = far.until(|all| all.len() == 2).unwrap();
    assert!(happened.contains(&Event::Arrived { tag: 1, bytes: 50_000 }), "{happened:?}");
    near.until(|all| all.len() == 2).unwrap();
    assert!(far.memory.read(0, 50_000) == sent);
}
