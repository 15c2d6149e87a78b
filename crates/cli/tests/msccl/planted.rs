//! Faults that are planted into real runs on host threads: `msccl trace report` alone names each in
//! its first five lines, with its source line.
//!
//! Machines of tests are busy, and what other programs do to a run is in its recording, too. So a
//! run may be repeated; and without the fault it is not found.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, OnceLock, PoisonError};

use serde_json::{Value, json};

use crate::bench::ours;
use crate::launch::skip;
use crate::{arg, empty_folder, file, msccl};

/// How often a run is tried.
const TRIES: usize = 4;

/// The program that calls all-reduces with a fault, and a folder with the library by the name by
/// which the loader looks for it.
fn program() -> Option<&'static Path> {
    static PROGRAM: OnceLock<Option<PathBuf>> = OnceLock::new();
    let program = PROGRAM.get_or_init(|| {
        let program = file("planted/bin/planted", "");
        let folder = program.parent().unwrap();
        let library = folder.join("libnccl.so.2");
        let _ = fs::remove_file(&library);
        std::os::unix::fs::symlink(ours()?, &library).unwrap();
        let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let mut cc = Command::new("cc");
        cc.args(["-std=gnu11", "-O1", "-Wall", "-Wextra", "-Werror", "-pthread"]);
        cc.arg("-I").arg(crates.join("nccl/include")).arg("-I").arg(crates.join("nccl/tests/c"));
        cc.arg(crates.join("cli/tests/msccl/planted.c")).arg("-o").arg(&program);
        cc.arg("-L").arg(folder).arg("-l:libnccl.so.2");
        match cc.status() {
            Ok(status) => assert!(status.success(), "planted.c"),
            Err(error) => {
                skip(&format!("there is no C compiler `cc`, so no fault is planted: {error}"));
                return None;
            }
        }
        Some(program)
    });
    program.as_deref()
}

/// Runs of the program that differ in their fault.
#[derive(Clone, Copy)]
pub struct Run<'a> {
    /// The folder of its recordings.
    pub name: &'a str,
    /// The algorithm, or part of its name.
    pub algorithm: &'a str,
    /// A folder with programs of algorithms.
    pub programs: Option<&'a Path>,
    /// How many ranks a host has; all of them are on one machine.
    pub per_host: u32,
    /// Elements of four bytes.
    pub elements: u32,
    /// What the program takes.
    pub fault: &'a str,
}

impl Run<'_> {
    /// The folder with the recordings of four ranks.
    pub fn record(&self) -> Option<PathBuf> {
        /// Runs beside each other would slow each other down.
        static TURN: Mutex<()> = Mutex::new(());
        let program = program()?;
        let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
        let folder = empty_folder(&format!("planted/{}", self.name));
        let mut command = Command::new("timeout");
        command.arg("100").arg(program).args(["4", &self.elements.to_string(), "24"]);
        command.args(self.fault.split(' '));
        command.env("LD_LIBRARY_PATH", program.parent().unwrap());
        command.env("PER_HOST", self.per_host.to_string()).env("NCCL_SOCKET_IFNAME", "lo");
        command.env("MSCCL_DEVICE", "host").env("MSCCL_ALGO", self.algorithm);
        command.env("MSCCL_TRACE", &folder);
        self.programs.into_iter().for_each(|programs| {
            command.env("MSCCL_ALGO_DIR", programs);
        });
        let output = command.output().unwrap();
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{}: {errors}", self.name);
        Some(folder)
    }

    /// The findings, and the first five lines of the text.
    fn report(&self) -> Option<(Vec<Value>, String)> {
        let folder = self.record()?;
        let text = msccl(&["trace", "report", arg(&folder)]);
        assert_eq!(text.code, 0, "{text}");
        let head: Vec<&str> = text.stdout.lines().take(5).collect();
        let json = msccl(&["trace", "report", arg(&folder), "--format", "json"]).json();
        Some((json["findings"].as_array().unwrap().clone(), head.join("\n")))
    }

    /// In one of some runs, this culprit is among the findings, with a line of the program, and all
    /// words stand in one of the first five lines; what it costs then, in µs.
    #[track_caller]
    fn names(&self, culprit: &Value, words: &[&str]) -> Option<f64> {
        let mut heads = Vec::new();
        for _ in 0..TRIES {
            let (findings, head) = self.report()?;
            let is_said = |line: &str| words.iter().all(|word| line.contains(word));
            let found = findings.iter().find(|of| has(of, culprit));
            let found = found.filter(|of| of["lines"][0]["line"].is_number());
            if let Some(found) = found.filter(|_| head.lines().any(is_said)) {
                return found["cost_us"].as_f64();
            }
            heads.push(head);
        }
        panic!("{words:?} are not in one of the first lines:\n{}", heads.join("\n\n"));
    }

    /// In one of some runs, this culprit is not among the findings, or costs much less than
    /// `planted_us`, which it costs where it is planted: other programs may slow anything down.
    #[track_caller]
    fn does_not_name(&self, culprit: &Value, planted_us: Option<f64>) {
        const MUCH_LESS: f64 = 0.4;
        let (Some(planted_us), mut heads) = (planted_us, Vec::new()) else { return };
        for _ in 0..TRIES {
            let Some((findings, head)) = self.report() else { return };
            let costs = findings.iter().filter(|of| has(of, culprit));
            let cost_us: f64 = costs.filter_map(|of| of["cost_us"].as_f64()).sum();
            if cost_us < MUCH_LESS * planted_us {
                return;
            }
            heads.push(head);
        }
        panic!("{culprit} is found, and was not planted:\n{}", heads.join("\n\n"));
    }
}

/// Whether a finding has all fields of a culprit. Of a late rank, calls that are late: no fewer.
fn has(finding: &Value, culprit: &Value) -> bool {
    culprit.as_object().unwrap().iter().all(|(field, expected)| match field.as_str() {
        "calls" => finding[field].as_u64() >= expected.as_u64(),
        _ => finding[field] == *expected,
    })
}

/// A ring of four ranks on one host, without a fault.
pub const RING: Run<'_> = Run {
    name: "ring",
    algorithm: "allreduce/ring",
    programs: None,
    per_host: 4,
    elements: 1 << 14,
    fault: "none",
};

/// Rank 2 sleeps for 200 µs before every fourth call.
#[test]
fn a_rank_that_sleeps_is_named_with_the_line_at_which_others_wait() {
    let culprit = json!({"culprit": "late_rank", "rank": 2, "calls": 5});
    let late = Run { name: "late", fault: "late 2 200", ..RING };
    let words = ["rank 2 is late by ", " of 24) to ", " of allreduce/ring"];
    let planted_us = late.names(&culprit, &words);
    Run { name: "punctual", ..RING }.does_not_name(&culprit, planted_us);
}

/// What makes a thread block of a GPU slow, too few threads or a busy multiprocessor, has no host
/// thread, which executes all thread blocks of its rank. A thread block is slow there if its memory
/// is: here the quarter of the result that one thread block of rank 2 writes comes page by page,
/// 100 µs each. As on a GPU, that thread block takes longer for all that it moves, and no other one
/// does.
#[test]
fn a_thread_block_with_slow_memory_is_named_with_its_line() {
    let (algorithm, elements) = ("allreduce/two_shot", 1 << 18);
    let run = Run { algorithm, elements, ..RING };
    let culprit = json!({"culprit": "slow_block", "rank": 2, "thread_block": 6});
    let words = ["thread block 6 of rank 2 is slow at moving: ", "line 20 of allreduce/two_shot"];
    let planted_us = Run { name: "cold", fault: "cold 2 4 100", ..run }.names(&culprit, &words);
    Run { name: "warm", ..run }.does_not_name(&culprit, planted_us);
}

/// Each rank is a host, and the proxy of rank 1 sends no more than 50 MB/s: messages of others may
/// take a millisecond on a busy machine.
#[test]
fn a_link_that_a_proxy_paces_is_named_with_its_lines() {
    let run = Run { per_host: 1, elements: 1 << 18, ..RING };
    let culprit = json!({"culprit": "slow_link", "from": 1, "to": 2});
    let words =
        ["link 1→2 is slow: a message takes ", " to arrive, against ", " of allreduce/ring"];
    let planted_us = Run { name: "paced", fault: "paced 1 50", ..run }.names(&culprit, &words);
    Run { name: "unpaced", ..run }.does_not_name(&culprit, planted_us);
}

/// The hierarchical ring, with the last phase in the thread blocks of the first one, and in its
/// own: while it waits for what comes over the network, the first phase of the next round cannot go
/// on.
#[test]
fn two_phases_in_one_thread_block_are_named_with_their_lines() {
    let program = |channel: &str| {
        format!(
            "import blocks
import groups
import ring
algorithm phases(ranks N = 4, per_node G = 2) implements allreduce(chunks N) in place {{
    let blocks = cut(0..N, G)
    for n in 0..nodes() {{ ring_reducescatter(node_ranks(n), input, blocks) }}
    for l in 0..G {{ ring_allreduce(rail_ranks(l), input, cut(blocks[l], nodes())) }}
    for n in 0..nodes(){channel} {{ ring_allgather(node_ranks(n), input, blocks) }}
}}"
        )
    };
    let culprit = json!({"culprit": "shared_block"});
    let words = ["two phases share thread block ", "line 6 waits for line 8 of phases.msccl"];
    let file = |name: &str, channel: &str| {
        file(&format!("planted/of-{name}/phases.msccl"), program(channel))
    };
    let (shared, apart) = (file("shared", ""), file("apart", " on channel 1"));
    let run = Run { algorithm: "phases", per_host: 2, elements: 1 << 22, ..RING };
    let shared = Run { name: "shared", programs: shared.parent(), ..run };
    let planted_us = shared.names(&culprit, &words);
    let apart = Run { name: "apart", programs: apart.parent(), ..run };
    apart.does_not_name(&culprit, planted_us);
}
