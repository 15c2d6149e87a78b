//! Bootstrap at scale on one machine: many ranks join, gather and meet; prints how long each took.
//!
//! `cargo run --release -p msccl-fabric --example bootstrap -- [RANKS [PROCESSES [IDS]]]`
//!
//! Ranks are threads of several processes, since descriptors and threads of one process are
//! limited. Every rank joins by the same unique ids, gathers 64 bytes of every other one, checks
//! them, and passes a barrier. The figures are those of the slowest rank; memory is that of the
//! largest process.

#![deny(unsafe_code)]
#![allow(clippy::unwrap_used, reason = "a measurement that cannot go on has failed")]
#![allow(clippy::print_stdout, reason = "it is what it is for")]

use std::env;
use std::fs;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use msccl_collective::Rank;
use msccl_fabric::{Group, JoinRequest, Settings, UniqueId};

/// What a rank contributes to the all-gather: about as much as a description of its device.
const CONTRIBUTION_BYTES: usize = 64;

/// Threads here need little.
const STACK_BYTES: usize = 512 << 10;

fn main() {
    let arguments: Vec<String> = env::args().skip(1).collect();
    match arguments.first().map(String::as_str) {
        Some("ranks") => work(&arguments[1..]),
        _ => lead(&arguments),
    }
}

fn settings() -> Settings {
    Settings { join_timeout: Duration::from_secs(600), ..Settings::default() }
}

/// Starts the processes and sums up what they say.
fn lead(arguments: &[String]) {
    let number = |at: usize, usual: u32| arguments.get(at).map_or(usual, |it| it.parse().unwrap());
    let (ranks, processes, ids) = (number(0, 4096), number(1, 16), number(2, 1));
    let ids: Vec<_> =
        (0..ids).map(|_| UniqueId::create(&settings()).unwrap().to_string()).collect();
    let started = Instant::now();
    let share = ranks.div_ceil(processes);
    let children: Vec<_> = (0..processes)
        .map(|process| {
            let (first, end) = (process * share, ((process + 1) * share).min(ranks));
            spawn(first, end, ranks, &ids)
        })
        .collect();
    let mut slowest = [0.0_f64; 4];
    for mut child in children {
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        assert!(child.wait().unwrap().success(), "a process failed");
        for (slowest, figure) in slowest.iter_mut().zip(line.split_whitespace()) {
            *slowest = slowest.max(figure.parse().unwrap());
        }
    }
    let [join, gather, barrier, memory_mib] = slowest;
    let all = started.elapsed().as_secs_f64();
    println!(
        "{ranks} ranks in {processes} processes, {} ids: join {join:.2} s, all-gather {gather:.2} \
         s, barrier {barrier:.2} s, all {all:.2} s; {memory_mib:.0} MiB in the largest process",
        ids.len()
    );
}

fn spawn(first: u32, end: u32, ranks: u32, ids: &[String]) -> Child {
    let mut command = Command::new(env::current_exe().unwrap());
    command.args(["ranks", &first.to_string(), &end.to_string(), &ranks.to_string()]);
    command.args(ids).stdout(Stdio::piped());
    command.spawn().unwrap()
}

/// Runs the ranks of one process and prints its slowest times.
fn work(arguments: &[String]) {
    let number = |at: usize| arguments[at].parse::<u32>().unwrap();
    let (first, end, ranks) = (number(0), number(1), number(2));
    let ids: Vec<_> = arguments[3..].iter().map(|text| text.parse().unwrap()).collect();
    let slowest = thread::scope(|scope| {
        let live = |rank| {
            let builder = thread::Builder::new().stack_size(STACK_BYTES);
            let ids = &ids;
            builder.spawn_scoped(scope, move || live(ids, rank, ranks)).unwrap()
        };
        let threads: Vec<_> = (first..end).map(live).collect();
        let times = threads.into_iter().map(|thread| thread.join().unwrap());
        times.fold([0.0_f64; 3], |slowest, times| std::array::from_fn(|i| slowest[i].max(times[i])))
    });
    let [join, gather, barrier] = slowest;
    println!("{join} {gather} {barrier} {}", peak_memory_mib());
}

/// Seconds to join, to gather, and to meet.
fn live(ids: &[UniqueId], rank: u32, ranks: u32) -> [f64; 3] {
    let mut clock = Clock(Instant::now());
    let facts = vec![("version".to_owned(), "1".to_owned())];
    let description = vec![rank as u8; 32];
    let request = JoinRequest { rank: Rank(rank), ranks, facts, description };
    let group = Group::join(ids, &request, &settings()).unwrap();
    let join = clock.lap();
    let mine = [rank as u8; CONTRIBUTION_BYTES];
    let all = group.all_gather(&mine).unwrap();
    let gather = clock.lap();
    let right =
        (0..ranks).zip(&all).all(|(rank, bytes)| *bytes == [rank as u8; CONTRIBUTION_BYTES]);
    assert!(right && all.len() == ranks as usize);
    drop(all);
    clock.lap();
    group.barrier().unwrap();
    [join, gather, clock.lap()]
}

struct Clock(Instant);

impl Clock {
    fn lap(&mut self) -> f64 {
        let lap = self.0.elapsed().as_secs_f64();
        self.0 = Instant::now();
        lap
    }
}

/// The most that this process ever held.
fn peak_memory_mib() -> f64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kib = peak.and_then(|peak| peak.trim().trim_end_matches("kB").trim().parse::<f64>().ok());
    kib.unwrap_or(0.0) / 1024.0
}
