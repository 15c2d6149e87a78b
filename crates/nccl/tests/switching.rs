//! Recordings that begin and end while ranks run, on host threads.

#![deny(unsafe_code)]
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]
#![allow(clippy::print_stderr, reason = "skips are loud")]

mod programs;

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use msccl_environment::trace_control::{TraceAnswer, TraceRequest, ask};
use msccl_trace::recording::Recording;
use msccl_trace::timeline::Timeline;

use programs::{compile, folder, run};

/// What the two ranks of the program recorded into `folder`, whole.
fn timeline(folder: &Path) -> Timeline {
    let files = fs::read_dir(folder).unwrap().map(|entry| fs::read(entry.unwrap().path()).unwrap());
    let recordings: Vec<_> = files.map(|bytes| Recording::read(&bytes).unwrap()).collect();
    assert_eq!(recordings.len(), 2, "{}", folder.display());
    let timeline = Timeline::join(recordings).unwrap();
    for rank in &timeline.ranks {
        assert!(rank.tracks.iter().all(|track| (track.lost, track.unassigned) == (0, 0)));
    }
    assert!(timeline.clock.contradictions.is_empty());
    timeline
}

fn emptied(name: &str) -> std::path::PathBuf {
    let folder = folder().join(name);
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).unwrap();
    folder
}

/// The calls between a begin and an end, and no others; each on both ranks.
fn check_parts(folder: &Path) {
    for (part, calls) in [("1", 5), ("2", 11)] {
        let timeline = timeline(&folder.join(part));
        assert_eq!(timeline.launches.len(), calls, "part {part}");
        let is_whole = |of_rank: &[Option<_>]| of_rank.iter().all(Option::is_some);
        assert!(timeline.launches.iter().all(|launch| is_whole(&launch.of_rank)));
        assert!(!timeline.messages.is_empty());
    }
    assert_eq!(fs::read_dir(folder).unwrap().count(), 2);
}

#[test]
fn functions_begin_and_end_recordings() {
    let folder = emptied("by-function");
    let Some(_) = run("switched", &["functions", folder.to_str().unwrap()], &[]) else { return };
    check_parts(&folder);
}

#[test]
fn a_signal_begins_and_ends_recordings() {
    let folder = emptied("by-signal");
    let environment = [("MSCCL_TRACE_ON_SIGNAL", folder.to_str().unwrap())];
    let Some(_) = run("switched", &["signal"], &environment) else { return };
    check_parts(&folder);
}

/// The folder of the environment is left for another one.
#[test]
fn what_is_said_last_counts() {
    let (first, rest) = (emptied("at-begin"), emptied("after-begin"));
    let environment = [("MSCCL_TRACE", first.to_str().unwrap())];
    let arguments = ["functions", rest.to_str().unwrap()];
    let Some(_) = run("switched", &arguments, &environment) else { return };
    assert_eq!(timeline(&first).launches.len(), 3);
    check_parts(&rest);
}

#[test]
fn another_process_begins_and_ends_recordings() {
    let Some(program) = compile("switched") else { return };
    let (folder, stop) = (emptied("by-process"), programs::folder().join("stop"));
    let _ = fs::remove_file(&stop);
    let mut command = Command::new(program);
    command.arg("served").env("STOP", &stop).env("LD_LIBRARY_PATH", programs::folder());
    command.env("MSCCL_DEVICE", "host").env("NCCL_SOCKET_IFNAME", "lo").stdout(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let process = line.trim().parse().unwrap();
    let ask = |request: TraceRequest| ask(process, &request).unwrap();
    let part = folder.join("part").display().to_string();
    assert_eq!(ask(TraceRequest::Start(part.clone())), TraceAnswer::Done);
    await_files(Path::new(&part));
    let refused = ask(TraceRequest::Start("/proc/no/such/folder".to_owned()));
    assert!(matches!(refused, TraceAnswer::Refused(why) if why.contains("/proc/no/such/folder")));
    assert_eq!(ask(TraceRequest::Stop), TraceAnswer::Done);
    fs::write(&stop, "").unwrap();
    assert!(child.wait().unwrap().success());
    // Ranks may begin and end with different calls: nobody stopped them between the same.
    let timeline = timeline(Path::new(&part));
    let both = timeline.launches.iter().filter(|of| of.of_rank.iter().all(Option::is_some));
    assert!(both.count() > 0 && !timeline.messages.is_empty());
}

/// Waits until both ranks have written some.
fn await_files(folder: &Path) {
    let started = Instant::now();
    let written = || {
        let files = fs::read_dir(folder).into_iter().flatten().flatten();
        files.filter(|file| file.metadata().is_ok_and(|of| of.len() > 10_000)).count()
    };
    while written() < 2 {
        assert!(started.elapsed() < Duration::from_secs(60), "nothing is recorded");
        thread::sleep(Duration::from_millis(20));
    }
}
