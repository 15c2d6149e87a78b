//! Profiler plugins of NCCL: what one of each version learns of calls on host threads, and what
//! happens where there is none.

#![deny(unsafe_code)]
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]
#![allow(clippy::print_stderr, reason = "skips are loud")]

mod programs;

use std::collections::BTreeMap;
use std::fs;

use programs::{Written, compile_library, folder, run_all};

/// All kinds of version 6.
const ALL_KINDS: u32 = 0x7fff;

const KERNEL_CH: u32 = 64;

/// What a plugin of the tests wrote.
struct Profile {
    /// Everything, in its order.
    lines: Vec<String>,
    /// By number.
    events: BTreeMap<u64, SeenEvent>,
}

/// An event of which a plugin has learnt.
struct SeenEvent {
    kind: String,
    parent: u64,
    fields: BTreeMap<String, String>,
    start_ns: u64,
    stop_ns: u64,
    states: Vec<String>,
}

impl Profile {
    fn read(text: &str) -> Self {
        let lines: Vec<String> = text.lines().map(str::to_owned).collect();
        let mut events: BTreeMap<u64, SeenEvent> = BTreeMap::new();
        for line in &lines {
            let words: Vec<&str> = line.split(' ').collect();
            let time_ns: u64 = words[0].parse().unwrap();
            let event = words.get(2).and_then(|word| word.parse().ok());
            match (words[1], event) {
                ("start", Some(number)) => {
                    let fields = words[4..].iter().filter_map(|word| word.split_once('='));
                    let fields: BTreeMap<_, _> =
                        fields.map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
                    let parent = fields["in"].parse().unwrap();
                    let kind = words[3].to_owned();
                    let (start_ns, stop_ns, states) = (time_ns, 0, Vec::new());
                    let seen = SeenEvent { kind, parent, fields, start_ns, stop_ns, states };
                    assert!(events.insert(number, seen).is_none());
                }
                ("stop", Some(number)) => {
                    let event = events.get_mut(&number).unwrap();
                    assert_eq!((event.stop_ns, words.len()), (0, 3), "{line}");
                    event.stop_ns = time_ns;
                }
                ("state", Some(number)) => {
                    let event = events.get_mut(&number).unwrap();
                    assert_eq!(event.stop_ns, 0, "{line}");
                    event.states.push(words[3..].join(" "));
                }
                _ => {}
            }
        }
        let unended = events.values().filter(|event| event.stop_ns == 0);
        assert_eq!(unended.count(), 0, "{text}");
        Self { lines, events }
    }

    /// The events of `kind` of rank 0, in their order.
    fn of(&self, kind: &str) -> Vec<&SeenEvent> {
        let own = |event: &&SeenEvent| event.kind == kind && event.fields["rank"] == "0";
        self.events.values().filter(own).collect()
    }

    fn parent(&self, event: &SeenEvent) -> &SeenEvent {
        &self.events[&event.parent]
    }

    fn kinds(&self) -> BTreeMap<&str, usize> {
        let mut kinds = BTreeMap::new();
        let own = self.events.values().filter(|event| event.fields["rank"] == "0");
        own.for_each(|event| *kinds.entry(event.kind.as_str()).or_default() += 1);
        kinds
    }
}

impl SeenEvent {
    fn values<const N: usize>(&self, names: [&str; N]) -> [&str; N] {
        names.map(|name| self.fields[name].as_str())
    }

    fn holds(&self, other: &Self) -> bool {
        self.start_ns <= other.start_ns && other.stop_ns <= self.stop_ns
    }
}

/// The calls of `profiled.c` as a plugin of `version` saw them; nothing without a compiler.
fn profile(version: u32, mask: u32) -> Option<(Profile, Written)> {
    let file = format!("libnccl-profiler-test{version}.so");
    compile_library("profiler_plugin", &file, &[&format!("-DVERSION={version}")])?;
    let to = folder().join(format!("profile-{version}-{mask}"));
    let (name, mask) = (format!("test{version}"), mask.to_string());
    let written = run_all(
        "profiled",
        &[],
        &[
            ("NCCL_PROFILER_PLUGIN", &name),
            ("NCCL_PROFILE_EVENT_MASK", &mask),
            ("PROFILE_TO", to.to_str().unwrap()),
            ("NCCL_DEBUG", "INFO"),
        ],
    )?;
    Some((Profile::read(&fs::read_to_string(&to).unwrap()), written))
}

#[test]
fn every_version_sees_every_call() {
    for version in [5, 6] {
        let Some((profile, written)) = profile(version, ALL_KINDS) else { return };
        assert!(written.output.contains("plugin says text -7 1.50 1234567890123 5 end"));
        // Two communicators of rank 0, whose first has a name.
        let said: Vec<_> =
            profile.lines.iter().filter_map(|line| Some(line.split_once(' ')?.1)).collect();
        let init = "init rank=0 ranks=2 nodes=1 name=tensor parallel id=1";
        assert_eq!(said.iter().filter(|line| **line == init).count(), 2, "{said:?}");
        assert_eq!(said.iter().filter(|line| line.starts_with("finalize")).count(), 4);
        check_calls(&profile);
        check_tasks(&profile);
        check_blocks(&profile);
    }
}

/// What the program calls: two alone, two in a group, a send and a receive, one of no elements, one
/// that is forgotten with its group, one of the second communicator, and one in the group in which
/// that ends.
fn check_calls(profile: &Profile) {
    let calls = profile.of("CollApi");
    let seen: Vec<_> = calls.iter().map(|call| call.values(["func", "count", "type"])).collect();
    let all_reduce = ["AllReduce", "1000", "ncclFloat32"];
    let expected = [
        all_reduce,
        all_reduce,
        ["Broadcast", "1000", "ncclFloat32"],
        ["AllGather", "1000", "ncclFloat32"],
        ["AllReduce", "0", "ncclFloat32"],
        all_reduce,
        all_reduce,
        all_reduce,
    ];
    assert_eq!(seen, expected);
    assert_eq!(calls[2].fields["root"], "1");
    let transfers: Vec<_> = profile.of("P2pApi").iter().map(|of| of.values(["func"])).collect();
    assert_eq!(transfers, [["Send"], ["Recv"]]);
    let groups = profile.of("GroupApi");
    let depths: Vec<_> = groups.iter().map(|group| group.fields["depth"].as_str()).collect();
    assert_eq!(depths, ["1", "1", "3", "2", "1", "2", "1", "2"]);
    for group in groups {
        assert_eq!((group.parent, &group.states[..]), (0, &["23".to_owned(), "24".to_owned()][..]));
    }
    for call in calls.iter().chain(&profile.of("P2pApi")) {
        let group = profile.parent(call);
        assert!(group.kind == "GroupApi" && group.holds(call));
    }
}

/// What is served: not the call of no elements, and not the one that was forgotten.
fn check_tasks(profile: &Profile) {
    let colls = profile.of("Coll");
    let seen: Vec<_> = colls.iter().map(|of| of.values(["func", "number", "count"])).collect();
    let expected = [
        ["AllReduce", "0", "1000"],
        ["AllReduce", "1", "1000"],
        ["Broadcast", "0", "4000"],
        ["AllGather", "0", "4000"],
        ["AllReduce", "0", "1000"],
        ["AllReduce", "1", "1000"],
    ];
    assert_eq!(seen, expected);
    assert_eq!(colls[2].values(["type", "root"]), ["ncclInt8", "1"]);
    for coll in &colls {
        let places = coll.values(["send", "receive", "proto"]);
        assert!(places[..2] == ["1", "1"] && ["LL", "LL128", "SIMPLE"].contains(&places[2]));
        assert!(coll.fields["algo"].contains('/'), "{}", coll.fields["algo"]);
        let api = profile.parent(coll);
        assert_eq!((api.kind.as_str(), &api.fields["func"]), ("CollApi", &coll.fields["func"]));
        // The program's call has returned to the thread when it is served.
        assert!(api.stop_ns <= coll.start_ns && profile.parent(api).holds(coll));
    }
    let p2ps = profile.of("P2p");
    let seen: Vec<_> =
        p2ps.iter().map(|of| of.values(["func", "count", "peer", "buffer"])).collect();
    assert_eq!(seen, [["Send", "1000", "1", "1"], ["Recv", "1000", "1", "1"]]);
    for p2p in &p2ps {
        assert_eq!(profile.parent(p2p).kind, "P2pApi");
    }
    for task in colls.iter().chain(&p2ps) {
        let group = &profile.events[&task.fields["group"].parse().unwrap()];
        assert!(group.kind == "Group" && group.holds(task));
    }
    let launches = profile.of("KernelLaunch");
    assert_eq!((launches.len(), profile.of("Group").len()), (7, 7));
    assert!(launches.iter().all(|launch| profile.parent(launch).kind == "GroupApi"));
}

/// Each thread block of each task begins and ends within it, by the clock of the host.
fn check_blocks(profile: &Profile) {
    for kind in ["Coll", "P2p"] {
        for task in profile.of(kind) {
            let own = |block: &&&SeenEvent| std::ptr::eq(profile.parent(block), task);
            let all = profile.of("KernelCh");
            let blocks: Vec<_> = all.iter().filter(own).collect();
            let mut channels: Vec<u32> =
                blocks.iter().map(|block| block.fields["channel"].parse().unwrap()).collect();
            channels.sort_unstable();
            let expected: u32 = task.fields["channels"].parse().unwrap();
            assert!(expected > 0);
            assert_eq!(channels, (0..expected).collect::<Vec<_>>());
            for block in blocks {
                let begin_ns: u64 = block.fields["timer"].parse().unwrap();
                let [state] = &block.states[..] else { panic!("{:?}", block.states) };
                let (_, took) = state.split_once("took=").unwrap();
                let end_ns = begin_ns + took.parse::<u64>().unwrap();
                assert!(task.start_ns <= begin_ns && end_ns <= task.stop_ns && begin_ns < end_ns);
                assert!(task.holds(block) && state.starts_with("22 timer="));
            }
        }
    }
}

#[test]
fn version_4_sees_what_it_knows() {
    let Some((profile, _)) = profile(4, ALL_KINDS) else { return };
    let kinds = profile.kinds();
    assert_eq!((kinds["Coll"], kinds["P2p"], kinds["Group"]), (6, 2, 7));
    assert_eq!(kinds.keys().copied().collect::<Vec<_>>(), ["Coll", "Group", "KernelCh", "P2p"]);
    for task in profile.of("Coll").iter().chain(&profile.of("P2p")) {
        let group = profile.parent(task);
        assert!(group.kind == "Group" && group.holds(task));
    }
    check_blocks(&profile);
}

/// The parents of what a plugin wants begin, and nothing else.
#[test]
fn a_mask_chooses() {
    let Some((profile, _)) = profile(5, KERNEL_CH) else { return };
    let kinds: Vec<_> = profile.kinds().into_keys().collect();
    assert_eq!(kinds, ["Coll", "CollApi", "Group", "GroupApi", "KernelCh", "P2p", "P2pApi"]);
    let nothing = self::profile(6, 0).unwrap().0;
    assert!(nothing.events.is_empty() && !nothing.lines.is_empty());
}

/// One line says so, and calls go on.
#[test]
fn a_plugin_that_is_missing_or_fails() {
    let said = |name: &str| {
        let written = run_all("profiled", &[], &[("NCCL_PROFILER_PLUGIN", name)])?;
        let lines = written.errors.lines().filter(|line| line.contains("profiler plugin"));
        Some(lines.map(str::to_owned).collect::<Vec<_>>())
    };
    let Some(missing) = said("none-of-this-name") else { return };
    assert!(missing.len() == 1 && missing[0].contains("libnccl-profiler-none-of-this-name.so"));
    let file = "libfails.so";
    compile_library("profiler_plugin", file, &["-DVERSION=6", "-DFAILS"]).unwrap();
    let failed = said(folder().join(file).to_str().unwrap()).unwrap();
    assert!(failed.len() == 1 && failed[0].contains("recorder (v6)"), "{failed:?}");
    // The library is no plugin of its own.
    let other = said(folder().join("libnccl.so.2").to_str().unwrap()).unwrap();
    assert!(other.len() == 1 && other[0].contains("has none of ncclProfiler_v6"), "{other:?}");
    assert_eq!(said("none").unwrap(), [""; 0]);
}
