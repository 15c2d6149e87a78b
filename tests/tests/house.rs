//! The house stays in order: who may depend on whom, and habits that a reader counts on.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use msccl_tests::source_tree::{files, root};

/// What each room may see, in the order of the flow: a room sees only rooms above it.
const ROOMS: &[(&str, &[&str])] = &[
    ("collective", &[]),
    ("syntax", &[]),
    ("ir", &["collective"]),
    ("machine", &["collective", "ir"]),
    ("compiler", &["collective", "syntax", "ir"]),
    ("interchange", &["collective", "ir"]),
    ("verify", &["collective", "ir", "machine"]),
    ("picture", &[]),
    ("simulate", &["collective", "ir", "machine", "picture"]),
    ("plan", &["collective", "ir", "verify"]),
    ("fabric", &["collective"]),
    ("topology", &[]),
    ("proxy", &["collective", "fabric", "topology"]),
    ("gpu", &[]),
    ("registry", &["collective", "compiler", "interchange", "ir", "syntax", "verify"]),
    (
        "runtime",
        &[
            "collective",
            "fabric",
            "gpu",
            "ir",
            "kernels",
            "machine",
            "plan",
            "proxy",
            "registry",
            "topology",
            "verify",
        ],
    ),
    ("bench", &["collective", "fabric", "gpu", "interchange", "picture", "runtime"]),
    ("environment", &["collective", "fabric", "registry", "runtime", "topology"]),
    ("nccl", &["collective", "environment", "fabric", "gpu", "proxy", "runtime"]),
];

/// The rooms that meet the world: they may read the environment, print, open files and exit.
const OPEN_ROOMS: &[&str] = &["environment", "nccl"];

/// Programs, tasks of developers, and what tests alone use.
const PROGRAMS: &[&str] = &["cli", "gpu-tests", "hosts", "processes", "xtask"];

/// Outside of the workspace, with a library of the system below them.
const OUTSIDE: &[&str] = &["rdma"];

/// The rooms that `manifest` names between `[dependencies]` and the next section.
fn dependencies(manifest: &str) -> BTreeSet<String> {
    let section = manifest.split("\n[dependencies]\n").nth(1).unwrap_or_default();
    let section = section.split("\n[").next().unwrap();
    let names = section.lines().filter_map(|line| line.strip_prefix("msccl-"));
    names.map(|name| name.split(['.', ' ', '=']).next().unwrap().to_owned()).collect()
}

#[test]
fn rooms_see_only_what_the_flow_allows() {
    for (room, allowed) in ROOMS {
        let manifest = root().join("crates").join(room).join("Cargo.toml");
        let manifest = fs::read_to_string(manifest).unwrap();
        let allowed: BTreeSet<_> = allowed.iter().map(|name| (*name).to_owned()).collect();
        let surplus: Vec<_> = dependencies(&manifest).difference(&allowed).cloned().collect();
        assert!(surplus.is_empty(), "`{room}` must not depend on {surplus:?}");
    }
}

#[test]
fn every_room_is_listed() {
    let listed: BTreeSet<_> = ROOMS.iter().map(|(room, _)| (*room).to_owned()).collect();
    for entry in fs::read_dir(root().join("crates")).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        let elsewhere = PROGRAMS.iter().chain(OUTSIDE).any(|known| *known == name);
        assert!(elsewhere || listed.contains(&name), "crates/{name} is not in ROOMS");
    }
}

/// What of a line reads the environment or files, prints, or ends the process.
fn reaches_out(line: &str) -> Option<&str> {
    const FORBIDDEN: [&str; 9] = [
        "std::env",
        "std::fs",
        "env::var",
        "env::args",
        "print!",
        "println!",
        "dbg!",
        "process::exit",
        "process::abort",
    ];
    let named = FORBIDDEN.into_iter().find(|word| line.contains(word));
    let group = line.split("std::{").nth(1).unwrap_or_default();
    let grouped = group.split([',', '}', ':']).map(str::trim).find(|of| ["env", "fs"].contains(of));
    named.or(grouped)
}

#[test]
fn what_reaches_out_is_seen_however_it_is_written() {
    let seen = [
        "use std::env;",
        "let x = std::env::args();",
        "use std::{env, io};",
        "use std::{io, fs};",
        "use std::{fs::File, io};",
        "print!(\"x\");",
        "eprint!(\"x\");",
        "eprintln!();",
        "dbg!(1);",
        "std::process::exit(1);",
    ];
    assert!(seen.into_iter().all(|line| reaches_out(line).is_some()));
    let fine = [
        "use std::io;",
        "env!(\"PATH\")",
        "msccl_environment::lookup",
        "rustix::fs::open(p)",
        "use std::{io, fmt};",
    ];
    assert!(fine.into_iter().all(|line| reaches_out(line).is_none()));
}

#[test]
fn only_the_doors_read_the_environment_print_or_exit() {
    for (room, _) in ROOMS.iter().filter(|(room, _)| !OPEN_ROOMS.contains(room)) {
        let files = rust_files(&root().join("crates").join(room).join("src"));
        // Tests may say what they measure.
        let is_test = |file: &Path| {
            file.components()
                .any(|part| ["tests", "tests.rs"].contains(&part.as_os_str().to_str().unwrap()))
        };
        for file in files.into_iter().filter(|file| !is_test(file)) {
            let text = fs::read_to_string(&file).unwrap();
            let code = text.split("#[cfg(test)]").next().unwrap();
            for (number, line) in code.lines().enumerate() {
                let code = line.split("//").next().unwrap();
                let found = reaches_out(code);
                let place = format!("{}:{}", file.display(), number + 1);
                assert!(found.is_none(), "{place}: {found:?} belongs to the doors");
            }
        }
    }
}

#[test]
fn no_room_for_odds_and_ends() {
    for file in rust_files(&root().join("crates")) {
        let stem = file.file_stem().unwrap().to_str().unwrap();
        let vague = ["utils", "util", "common", "helpers", "misc", "types"];
        assert!(!vague.contains(&stem), "{}: name it for what it holds", file.display());
    }
}

/// The files that may contain `unsafe`; the first lines of each say what for.
const DOORS: &[&str] = &[
    "crates/gpu/examples/driver_costs.rs",
    "crates/gpu/examples/gpu_selftest/kernel.rs",
    "crates/gpu/examples/gpu_selftest/memory.rs",
    "crates/gpu/examples/gpu_selftest/work.rs",
    "crates/gpu/src/calls.rs",
    "crates/gpu/src/driver.rs",
    "crates/gpu/src/graph.rs",
    "crates/gpu/src/graph_count.rs",
    "crates/gpu/src/graph_mark.rs",
    "crates/gpu/src/handle.rs",
    "crates/gpu/src/launch.rs",
    "crates/gpu/src/library.rs",
    "crates/gpu/src/memory.rs",
    "crates/gpu/src/module.rs",
    "crates/gpu/src/nvrtc.rs",
    "crates/gpu/src/pinned.rs",
    "crates/gpu/src/stream.rs",
    "crates/gpu/tests/driver.rs",
    "crates/bench/src/worker/call.rs",
    "crates/bench/src/worker/communicator.rs",
    "crates/bench/src/worker/device.rs",
    "crates/bench/src/worker/library.rs",
    "crates/environment/src/privileged.rs",
    "crates/fabric/src/endurance/options.rs",
    "crates/fabric/src/ring_buffer/slot.rs",
    "crates/fabric/src/shared/mapping.rs",
    "crates/proxy/src/rdma/calls.rs",
    "crates/proxy/src/rdma/library.rs",
    "crates/proxy/src/rdma/offer.rs",
    "crates/proxy/src/rdma/tests/fake.rs",
    "crates/proxy/src/rdma/tests/loopback.rs",
    "crates/proxy/src/tcp/region.rs",
    "crates/proxy/src/tcp/tests/sigpipe.rs",
    "crates/gpu-tests/src/sections/failure_containment/planting.rs",
    "crates/gpu-tests/src/sections/graphs.rs",
    "crates/gpu-tests/src/sections/interpretation_cost/test_bed/mod.rs",
    "crates/gpu-tests/src/sections/interpretation_cost/test_bed/rank.rs",
    "crates/gpu-tests/src/sections/launch_order.rs",
    "crates/nccl/src/abi/pointer.rs",
    "crates/nccl/src/log/clock.rs",
    "crates/nccl/src/process.rs",
    "crates/nccl/benches/eager.rs",
    "crates/nccl/src/signal.rs",
    "crates/nccl/tests/null.rs",
    "crates/nccl/tests/null_driver/libcuda.rs",
    "crates/nccl/tests/null_driver/libcuda/calls.rs",
    "crates/nccl/tests/null_driver/libcuda/kernels.rs",
    "crates/nccl/tests/null_driver/libcuda/memory.rs",
    "crates/nccl/tests/null_driver/libnvrtc.rs",
    "crates/nccl/tests/null_driver/librdma.rs",
    "crates/nccl/tests/null_driver/mod.rs",
    "crates/nccl/tests/adversary/capture.rs",
    "crates/nccl/tests/random/door.rs",
    "crates/rdma/examples/bench/bare.rs",
    "crates/rdma/src/entry_point.rs",
    "crates/rdma/src/verbs/adapter.rs",
    "crates/rdma/src/verbs/events.rs",
    "crates/rdma/src/verbs/pair.rs",
    "crates/rdma/src/verbs/pair/requests.rs",
    "crates/rdma/src/verbs/region.rs",
    "crates/rdma/tests/rig/mod.rs",
    "crates/runtime/src/host/memory.rs",
    "crates/runtime/src/cuda/kernels.rs",
    "crates/runtime/src/cuda/launch.rs",
    "crates/runtime/src/cuda/links.rs",
    "crates/runtime/src/cuda/stream_order.rs",
    "crates/runtime/src/oracle/link.rs",
    "crates/runtime/src/oracle/memory.rs",
    "crates/runtime/src/oracle/rank_memory.rs",
];

#[test]
fn unsafe_stands_behind_named_doors() {
    for file in rust_files(&root().join("crates")) {
        let relative = file.strip_prefix(root()).unwrap().to_str().unwrap().to_owned();
        let text = fs::read_to_string(&file).unwrap();
        let opens = text.lines().any(|line| {
            let code = line.split("//").next().unwrap();
            code.contains("unsafe {") || code.contains("unsafe impl") || code.contains("unsafe fn")
        });
        assert!(!opens || DOORS.contains(&relative.as_str()), "{relative} is no door for `unsafe`");
    }
}

#[test]
fn doors_say_what_for() {
    for door in DOORS {
        let text =
            fs::read_to_string(root().join(door)).unwrap_or_else(|_| panic!("there is no {door}"));
        assert!(text.contains("unsafe"), "{door} has no `unsafe`; take it off the list");
        let mut head = text.lines().take(12);
        let says_so = |line: &str| line.contains("door") || line.contains("unsafe boundary");
        assert!(head.any(says_so), "{door}: say what for");
    }
}

#[test]
fn files_stay_readable() {
    for file in rust_files(&root().join("crates")) {
        let lines = fs::read_to_string(&file).unwrap().lines().count();
        assert!(lines <= 700, "{} has {lines} lines; split it by subject", file.display());
    }
}

fn rust_files(folder: &Path) -> Vec<PathBuf> {
    files(folder, &["rs"])
}
