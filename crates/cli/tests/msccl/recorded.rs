//! Recordings of real calls on host threads: every span has its place, and every message both ends.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use msccl_trace::recording::Recording;
use msccl_trace::timeline::{Completeness, RankLaunch, RankTimeline, SpanKind, Timeline};

use crate::bench::ours;
use crate::{arg, empty_folder, file, msccl};

/// What `ranks` ranks recorded of some calls of `collective` by `algorithm`.
fn recorded(library: &Path, collective: &str, algorithm: &str, ranks: &str) -> Timeline {
    let folder = empty_folder(&format!("recorded/{algorithm}"));
    let (trace, algorithm) =
        (format!("MSCCL_TRACE={}", folder.display()), format!("MSCCL_ALGO={algorithm}"));
    let place = ["--device", "host", "--ranks", ranks, "--library", arg(library)];
    let sizes = ["-b", "1K", "-e", "1M", "-f", "32", "-n", "3", "-w", "1"];
    // Sends and receives have no algorithm.
    let env = ["--env", &trace, "--env", &algorithm];
    let env = &env[..if collective == "sendrecv" { 2 } else { 4 }];
    let ran = msccl(&[&["bench", collective][..], &place, &sizes, env].concat());
    assert_eq!(ran.code, 0, "{ran}");
    let files =
        fs::read_dir(&folder).unwrap().map(|entry| fs::read(entry.unwrap().path()).unwrap());
    let recordings: Vec<_> = files.map(|bytes| Recording::read(&bytes).unwrap()).collect();
    assert_eq!(recordings.len().to_string(), ranks);
    let report = msccl(&["trace", "report", arg(&folder)]);
    let head = format!("{ranks} of {ranks} ranks on 1 host, ");
    assert!(report.code == 0 && report.stdout.starts_with(&head), "{report}");
    assert!(!report.stdout.contains("note: "), "{report}");
    check_independently(&folder);
    Timeline::join(recordings).unwrap()
}

/// A reader that shares nothing with ours finds the same in order.
fn check_independently(folder: &Path) {
    let checker = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/torch/recordings.py");
    let checked = Command::new("python3").arg(checker).arg(folder).output();
    let Ok(Output { status, stdout, stderr }) = checked else {
        return eprintln!("SKIPPED: the independent reader of recordings needs python3");
    };
    let (stdout, stderr) = (String::from_utf8_lossy(&stdout), String::from_utf8_lossy(&stderr));
    assert!(status.success() && !stdout.contains("WRONG"), "{stdout}{stderr}");
}

#[test]
fn every_step_of_a_real_run_has_its_place() {
    let Some(library) = ours() else { return };
    for (collective, algorithm, ranks) in [
        ("allreduce", "allreduce/ring", "4"),
        ("allreduce", "allreduce/two_shot", "8"),
        ("allreduce", "allreduce/double_binary_tree", "4"),
        ("allgather", "allgather/ring_interleaved", "3"),
        ("alltoall", "alltoall/allpairs", "8"),
        ("sendrecv", "transfers", "3"),
    ] {
        let timeline = recorded(&library, collective, algorithm, ranks);
        check_places(&timeline, algorithm);
        check_messages(&timeline, algorithm);
    }
}

/// Every span of a call belongs to a step of its plan, with a line, and there are neither gaps nor
/// overlaps within a thread block.
fn check_places(timeline: &Timeline, algorithm: &str) {
    assert!(timeline.launches.len() > 10, "{algorithm}");
    for launch in &timeline.launches {
        assert!(launch.of_rank.iter().all(Option::is_some), "{algorithm}");
    }
    for rank in &timeline.ranks {
        let lost = rank.tracks.iter().any(|track| (track.lost, track.unassigned) != (0, 0));
        assert!(!lost, "{algorithm}");
        for launch in &rank.launches {
            check_turns(rank, launch, algorithm);
            for part in &rank.parts[launch.parts.clone()] {
                assert_eq!(part.completeness, Completeness::Whole, "{algorithm}");
                let spans = &rank.spans[part.spans.clone()];
                assert!(spans.windows(2).all(|two| two[0].end_ns == two[1].begin_ns));
                assert_eq!(spans.last().map(|span| span.kind), Some(SpanKind::Finish));
                let moves = spans.iter().filter(|span| span.kind.is_move());
                for span in moves.filter(|_| rank.plan(launch).is_some()) {
                    let step = rank.step(launch, part, span.step);
                    assert!(step.is_some_and(|step| step.line.is_some()), "{algorithm}");
                }
            }
        }
    }
}

/// One thread makes all moves of a rank, so that no two overlap.
fn check_turns(rank: &RankTimeline, launch: &RankLaunch, algorithm: &str) {
    let parts = rank.parts[launch.parts.clone()].iter();
    let spans = parts.flat_map(|part| &rank.spans[part.spans.clone()]);
    let mut moves: Vec<_> = spans.filter(|span| span.kind.is_move()).collect();
    moves.sort_by(|one, other| one.begin_ns.total_cmp(&other.begin_ns));
    let in_turn = moves.windows(2).all(|two| two[0].end_ns <= two[1].begin_ns);
    assert!(in_turn || rank.plan(launch).is_none(), "{algorithm}");
}

/// Every message was sent before it was received, and none of either is missing.
fn check_messages(timeline: &Timeline, algorithm: &str) {
    let spans = timeline.ranks.iter().flat_map(|rank| &rank.spans);
    let moved = spans.filter(|span| span.kind.is_move() && span.link.is_some()).count();
    assert!(moved > 0 && timeline.messages.len() >= moved / 2, "{algorithm}");
    for message in &timeline.messages {
        let [sent, received] = [message.send, message.receive].map(|at| *timeline.span(at));
        assert!(sent.begin_ns < received.end_ns && message.bytes > 0, "{algorithm}");
    }
    assert!(timeline.clock.contradictions.is_empty(), "{algorithm}");
}

#[test]
fn a_folder_that_cannot_be_made_is_said() {
    let Some(library) = ours() else { return };
    let taken = file("recorded/taken", "a file");
    let trace = format!("MSCCL_TRACE={}", taken.display());
    let place = ["--device", "host", "--ranks", "2", "--library", arg(&library)];
    let run = ["bench", "allreduce", "-b", "1K", "-e", "1K", "-n", "1", "-w", "0"];
    let ran = msccl(&[&run[..], &place, &["--env", &trace]].concat());
    assert_eq!(ran.code, 0, "{ran}");
    assert!(ran.stderr.contains("MSCCL_TRACE: cannot make the folder"), "{ran}");
    let strict = ["--env", trace.as_str(), "--env", "MSCCL_STRICT=1"];
    let ran = msccl(&[&run[..], &place, &strict].concat());
    assert_eq!(ran.code, 1, "{ran}");
}

#[test]
fn a_process_that_does_not_listen_is_said() {
    let own = std::process::id().to_string();
    let started = msccl(&["trace", "start", "nowhere", "--pid", &own]);
    assert_ne!(started.code, 0, "{started}");
    let why = format!("process {own}: nobody listens there");
    assert!(started.stderr.contains(&why), "{started}");
    let stopped = msccl(&["trace", "stop", "--pid", &own, "--pid", "4294967295"]);
    assert!(stopped.code != 0 && stopped.stderr.contains("process 4294967295: "), "{stopped}");
    let long = msccl(&["trace", "start", "nowhere", "--pid", &own, "--seconds=-1"]);
    assert!(long.stderr.contains("--seconds"), "{long}");
}
