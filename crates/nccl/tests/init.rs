//! Every part of making a communicator ends: ranks are stopped or killed at random moments, lack
//! descriptors, are missing, or have a dead root. All others end within their limit and a second,
//! and say who or what it was.
//!
//! `INIT_RUNS=200` makes as many runs of each kind; without it a few.

#![deny(unsafe_code)]
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]
#![allow(clippy::print_stderr, reason = "figures are loud")]

#[path = "adversary/job.rs"]
#[allow(dead_code, reason = "each test uses its part")]
mod job;
mod programs;

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use job::{Job, Terms};
use rustix::process::{Pid, Signal, kill_process};

/// What ranks have for all of it.
const LIMIT: Duration = Duration::from_secs(3);

/// How much longer they may take.
const GRACE: Duration = Duration::from_secs(1);

/// Times are measured: one test at a time.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

fn runs() -> u64 {
    std::env::var("INIT_RUNS").map_or(4, |runs| runs.parse().unwrap())
}

fn terms(ranks: usize) -> Terms {
    let limit = LIMIT.as_secs().to_string();
    let environment = vec![("MSCCL_JOIN_TIMEOUT_S".to_owned(), limit)];
    Terms { ranks, per_host: ranks, environment, ..Terms::default() }
}

/// Moments spread over `most`, the same in each run of the tests.
fn moment(run: u64, most: Duration) -> Duration {
    let mixed = (run + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    most.mul_f64((mixed >> 11) as f64 / (1_u64 << 53) as f64)
}

/// What `ranks` answer to `join`, and when, counted from `since`.
fn answers(job: &mut Job, ranks: &[usize], since: Instant) -> Vec<(String, Duration)> {
    let mut found: BTreeMap<usize, (String, Duration)> = BTreeMap::new();
    thread::scope(|scope| {
        let waiting = job.ranks.iter_mut().enumerate().filter(|(rank, _)| ranks.contains(rank));
        let threads: Vec<_> = waiting
            .map(|(rank, it)| (rank, scope.spawn(move || (it.receive(), since.elapsed()))))
            .collect();
        for (rank, thread) in threads {
            found.insert(rank, thread.join().unwrap());
        }
    });
    found.into_values().collect()
}

/// All ended in time: they joined, or failed and said one of `culprits`.
#[track_caller]
fn all_ended(answers: &[(String, Duration)], culprits: &[&str]) -> usize {
    for (answer, took) in answers {
        assert!(*took < LIMIT + GRACE, "{took:?}: {answer}");
        let named = culprits.iter().any(|culprit| answer.contains(culprit));
        assert!(
            answer.starts_with("joined") || (answer.starts_with("failed") && named),
            "{answer}"
        );
    }
    answers.iter().filter(|(answer, _)| answer.starts_with("failed")).count()
}

fn signal(job: &Job, rank: usize, signal: Signal) {
    let pid = i32::try_from(job.ranks[rank].child.id()).unwrap();
    kill_process(Pid::from_raw(pid).unwrap(), signal).unwrap();
}

/// Rank `run % 4` gets `what` at a random moment of the joining of four ranks.
fn interrupted(name: &str, what: Signal) {
    let _alone = alone();
    let mut failed = 0;
    let mut longest = Duration::ZERO;
    for run in 0..runs() {
        let Some(mut job) = Job::start(name, &terms(4)) else { return };
        let victim = (run % 4) as usize;
        let since = Instant::now();
        (0..4).for_each(|rank| job.join(rank));
        thread::sleep(moment(run, Duration::from_millis(60)));
        signal(&job, victim, what);
        let others: Vec<_> = (0..4).filter(|rank| *rank != victim).collect();
        let answers = answers(&mut job, &others, since);
        let culprit = format!("rank {victim} ");
        let dead = format!("r{victim} ");
        let mut culprits = vec![culprit.as_str(), dead.as_str()];
        if victim == 0 {
            // The root lives in its process.
            culprits.push("the root of the unique id at");
        }
        failed += all_ended(&answers, &culprits);
        longest = longest.max(answers.iter().map(|(_, took)| *took).max().unwrap());
    }
    let all = runs();
    eprintln!("{name}: {failed} of {} ranks failed, all named it within {longest:?}", 3 * all);
}

#[test]
fn ranks_that_stop() {
    interrupted("stopped", Signal::STOP);
}

#[test]
fn ranks_that_are_killed() {
    interrupted("killed", Signal::KILL);
}

#[test]
fn descriptors_that_are_lacking() {
    let _alone = alone();
    let mut longest = Duration::ZERO;
    let (mut failed, mut ranks) = (0, 0);
    let step = if runs() > 50 { 1 } else { 7 };
    for limit in (12..=64).step_by(step) {
        let few = Terms { descriptors: Some(limit), hard: true, ..terms(2) };
        let Some(mut job) = Job::start("descriptors", &few) else { return };
        if job.id.is_empty() {
            continue;
        }
        let since = Instant::now();
        (0..2).for_each(|rank| job.join(rank));
        let answers = answers(&mut job, &[0, 1], since);
        let culprits = ["file descriptors left", "rank 0 ", "rank 1 ", "r0 ", "r1 ", "the root of"];
        ranks += 2;
        failed += all_ended(&answers, &culprits);
        let names_it = answers.iter().any(|(answer, _)| answer.contains("file descriptors left"));
        let joined = answers.iter().all(|(answer, _)| answer.starts_with("joined"));
        assert!(names_it || joined, "limit {limit}: nobody names descriptors: {answers:?}");
        longest = longest.max(answers.iter().map(|(_, took)| *took).max().unwrap());
    }
    eprintln!("descriptors: {failed} of {ranks} ranks failed, all named it within {longest:?}");
}

/// Jobs that wait at a time: they wait for most of their time.
const AT_ONCE: u64 = 8;

/// Each run is a job of three, of which `absent` says who does not join, and what else befalls it
/// before the others do. They name `culprit`.
fn in_vain(
    name: &str,
    absent: impl Fn(&Job, u64) -> usize + Sync,
    culprit: impl Fn(usize) -> String + Sync,
) {
    let _alone = alone();
    let longest = Mutex::new(Duration::ZERO);
    let play = |run: u64| {
        let Some(mut job) = Job::start(&format!("{name}-{}", run % AT_ONCE), &terms(3)) else {
            return;
        };
        let absent = absent(&job, run);
        let others: Vec<_> = (0..3).filter(|rank| *rank != absent).collect();
        let since = Instant::now();
        others.iter().for_each(|rank| job.join(*rank));
        let found = answers(&mut job, &others, since);
        assert_eq!(all_ended(&found, &[&culprit(absent)]), 2, "{found:?}");
        let mut longest = longest.lock().unwrap();
        *longest = found.iter().map(|(_, took)| *took).fold(*longest, Duration::max);
    };
    for first in (0..runs()).step_by(AT_ONCE as usize) {
        thread::scope(|scope| {
            for run in first..runs().min(first + AT_ONCE) {
                let play = &play;
                scope.spawn(move || play(run));
            }
        });
    }
    let (all, longest) = (2 * runs(), longest.into_inner().unwrap());
    eprintln!("{name}: {all} of {all} ranks failed, all named it within {longest:?}");
}

#[test]
fn ranks_that_are_missing() {
    let absent = |_: &Job, run| (run % 3) as usize;
    in_vain("missing", absent, |rank| format!("rank {rank} of 3 has not connected within 3 s"));
}

#[test]
fn roots_that_are_dead() {
    let absent = |job: &Job, run| {
        signal(job, 0, Signal::KILL);
        // Its socket may outlive it for a moment.
        thread::sleep(moment(run, Duration::from_millis(5)));
        0
    };
    in_vain("rootless", absent, |_| "the root of the unique id at".to_owned());
}
