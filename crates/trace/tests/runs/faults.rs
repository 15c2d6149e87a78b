//! Planted faults are named in the first five lines of the report.

use msccl_registry::Shape;
use msccl_testkit::recordings::{ImaginedClock, ImaginedRun, PlantedFault};
use msccl_trace::recording::{PlanDescription, Recording};
use msccl_trace::report::{Culprit, Expectations, Report, report, text};
use msccl_trace::timeline::Timeline;

use crate::plans::{all_reduce, of_text};

const ALGORITHMS: [&str; 4] =
    ["allreduce/ring", "allreduce/two_shot", "allreduce/one_step", "allreduce/double_binary_tree"];

pub fn joined(run: &ImaginedRun) -> Timeline {
    Timeline::join(recordings(run)).unwrap()
}

fn recordings(run: &ImaginedRun) -> Vec<Recording> {
    run.record().iter().map(|file| Recording::read(file).unwrap()).collect()
}

fn reported(run: &ImaginedRun) -> (Report, String) {
    let report = report(&joined(run), &Expectations::default());
    let text = text(&report);
    let head: Vec<&str> = text.lines().take(5).collect();
    (report, head.join("\n"))
}

fn run(plans: Vec<PlanDescription>, chunks: u64) -> ImaginedRun {
    ImaginedRun::new(plans, chunks << 20, chunks).cut_into(1, 4)
}

fn of_built_in(name: &str) -> ImaginedRun {
    run(all_reduce(name, 4), 4)
}

/// The most costly finding is this one.
fn check(run: &ImaginedRun, culprit: Culprit, words: &[&str]) {
    let (report, head) = reported(run);
    assert_eq!(report.findings.first().map(|found| found.culprit), Some(culprit), "{head}");
    for word in words {
        assert!(head.contains(word), "`{word}` is missing:\n{head}");
    }
}

#[test]
fn nothing_is_found_where_nothing_is_wrong() {
    for name in ALGORITHMS {
        for rounds in [1, 4] {
            let run = ImaginedRun::new(all_reduce(name, 4), 4 << 20, 4).cut_into(2, rounds);
            let (report, head) = reported(&run);
            assert_eq!(report.findings, [], "{name}:\n{head}");
            assert!(head.contains("nothing stands out"), "{head}");
        }
    }
}

#[test]
fn a_late_rank_is_named() {
    for name in ALGORITHMS {
        let late = PlantedFault::LateRank { rank: 3, first: 4, last: 6, late_ns: 200_000.0 };
        let run = of_built_in(name).with([late]);
        let words = ["rank 3 is late by", "calls 4 to 6", "3 of 10"];
        check(&run, Culprit::LateRank { rank: 3 }, &words);
        let cost_us = reported(&run).0.findings[0].cost_us;
        assert!((570.0..=610.0).contains(&cost_us), "{name}: {cost_us}");
    }
}

#[test]
fn a_slow_thread_block_is_named_with_its_line() {
    for (name, rank, thread_block) in [("allreduce/ring", 1, 0), ("allreduce/two_shot", 2, 1)] {
        let slow = PlantedFault::SlowBlock { rank, thread_block, factor: 6.0 };
        let run = of_built_in(name).with([slow]);
        let words = [
            &*format!("thread block {thread_block} of rank {rank} is slow at moving"),
            "GB/s against",
            &format!(" of {name}"),
        ];
        check(&run, Culprit::SlowBlock { rank, thread_block }, &words);
    }
}

#[test]
fn a_slow_link_is_named_with_its_line() {
    for name in ["allreduce/ring", "allreduce/two_shot", "allreduce/one_step"] {
        let slow = PlantedFault::SlowLink { from: 0, to: 1, bytes_per_ns: 3.0 };
        let run = of_built_in(name).with([slow]);
        let words = ["link 0→1 is slow: a message takes", &format!(" of {name}")];
        check(&run, Culprit::SlowLink { from: 0, to: 1 }, &words);
    }
}

/// The hierarchical ring without the channel of its last phase: while it waits for the network, the
/// first phase of the next round cannot go on.
#[test]
fn two_phases_in_one_thread_block_are_named_with_their_lines() {
    let program = |channel: &str| {
        format!(
            "import blocks
import groups
import ring
algorithm shared(ranks N = 4, per_node G = 2) implements allreduce(chunks N) in place {{
    let blocks = cut(0..N, G)
    for n in 0..nodes() {{ ring_reducescatter(node_ranks(n), input, blocks) }}
    for l in 0..G {{ ring_allreduce(rail_ranks(l), input, cut(blocks[l], nodes())) }}
    for n in 0..nodes() {channel} {{ ring_allgather(node_ranks(n), input, blocks) }}
}}"
        )
    };
    let run = |channel: &str| {
        let plans = of_text(&program(channel), Shape { ranks: 4, per_node: 2 });
        let mut run = ImaginedRun::new(plans, 16 << 20, 4).cut_into(1, 16);
        run.clocks =
            [0, 0, 1, 1].map(|host| ImaginedClock { host, ..ImaginedClock::exact() }).into();
        let network = [(0, 2), (2, 0), (1, 3), (3, 1)];
        run.with(network.map(|(from, to)| PlantedFault::SlowLink { from, to, bytes_per_ns: 12.0 }))
    };
    let (report, head) = reported(&run(""));
    assert!(matches!(report.findings[0].culprit, Culprit::SharedBlock { .. }), "{head}");
    assert!(head.contains("line 6 waits for line 8 of own.msccl"), "{head}");
    let (report, head) = reported(&run("on channel 1"));
    assert_eq!(report.findings, [], "{head}");
}

/// Four ranks on two GPUs, a process each.
fn on_shared_gpus() -> Vec<Recording> {
    let mut run = of_built_in("allreduce/ring");
    run.clocks = [0, 1, 0, 1]
        .map(|gpu| ImaginedClock {
            gpu: Some(gpu),
            round_trip_ns: 1100.0,
            ..ImaginedClock::exact()
        })
        .into();
    recordings(&run)
}

fn report_of(recordings: Vec<Recording>) -> Report {
    report(&Timeline::join(recordings).unwrap(), &Expectations::default())
}

/// Processes take turns on a GPU, threads of one do not.
#[test]
fn whose_processes_take_turns_is_said_before_findings() {
    let mut recordings = on_shared_gpus();
    let shared = text(&report_of(recordings.clone()));
    let note =
        "note: ranks 0, 2 share a GPU, and so do 1, 3: unless MPS runs, their processes take";
    assert!(shared.lines().nth(1).unwrap().starts_with(note), "{shared}");
    recordings.iter_mut().for_each(|recording| recording.header.process = 100);
    assert_eq!(report_of(recordings), Report { notes: Vec::new(), ..report_of(on_shared_gpus()) });
}

/// What was never launched is not called well, and where nothing happened clocks are not wrong.
#[test]
fn a_run_without_calls_has_clocks_and_no_praise() {
    let mut recordings = on_shared_gpus();
    recordings[2].tracks.clear();
    let of_three = report_of(recordings.clone());
    assert!(of_three.clock.error_us < 2.0, "{:?}", of_three.clock);
    recordings.iter_mut().for_each(|recording| recording.tracks.clear());
    let of_none = report_of(recordings);
    assert!(of_none.clock.error_us < 2.0, "{:?}", of_none.clock);
    let text = text(&of_none);
    assert!(text.contains("note: no call was launched") && !text.contains("stands out"), "{text}");
}
