//! Random programs over the C door, on host threads, compared with plain arithmetic: several communicators made of one
//! another, groups of collectives and messages of any of them, in place and not, by several threads that know nothing of
//! how far the others are; blocking and not.
//!
//! `RANDOM_SECONDS=900 cargo test -p msccl-nccl --test random` goes on for as long; `RANDOM_SEED=7` runs one program.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]
#![allow(clippy::print_stdout, reason = "what was run is told")]

#[path = "random/data.rs"]
mod data;
#[path = "random/dice.rs"]
mod dice;
#[path = "random/door.rs"]
mod door;
#[path = "random/program.rs"]
mod program;
#[path = "random/thread.rs"]
mod thread;

use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::Command;
use std::time::{Duration, Instant};

use program::Program;
use thread::{Meeting, Thread};

/// Programs of one process.
const AT_A_TIME: u64 = 20;

/// How long a process may take.
const PATIENCE: Duration = Duration::from_secs(300);

fn variable(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|value| value.parse().unwrap())
}

/// Runs the programs of `seeds` in this process.
fn run(seeds: Range<u64>) {
    for seed in seeds {
        println!("seed {seed}");
        let program = Program::new(seed);
        let id = door::unique_id();
        let meeting = Meeting::new(&program);
        std::thread::scope(|scope| {
            for number in 0..program.threads.len() {
                let thread = Thread::new(&program, number, &meeting, seed);
                let (program, meeting) = (&program, &meeting);
                scope.spawn(move || {
                    let done = catch_unwind(AssertUnwindSafe(|| thread.run(id)));
                    done.unwrap_or_else(|_| give_up(program, meeting, seed, number));
                });
            }
        });
    }
}

/// Tells how far all threads are, and ends the process: nobody waits for a thread that has failed.
fn give_up(program: &Program, meeting: &Meeting, seed: u64, number: usize) -> ! {
    println!("of the program of seed {seed}, thread {number} has failed; {program:#?}");
    for (ranks, round) in program.threads.iter().zip(meeting.rounds()) {
        println!("the thread of ranks {ranks:?} is in round {round}");
    }
    std::process::exit(1)
}

/// Runs this test again in a process for the programs of `seeds`, which compares the arguments of all ranks or not.
fn run_apart(seeds: Range<u64>, check: bool) {
    let mut itself = Command::new("timeout");
    itself.arg(PATIENCE.as_secs().to_string()).arg(std::env::current_exe().unwrap());
    itself.args(["--exact", "random_programs", "--nocapture", "--test-threads=1"]);
    itself.envs([
        ("MSCCL_DEVICE", "host"),
        ("NCCL_SOCKET_IFNAME", "lo"),
        ("MSCCL_TIMEOUT_S", "30"),
    ]);
    itself.env("MSCCL_CHECK", u64::from(check).to_string()).env("NCCL_DEBUG", "WARN");
    itself.env("RANDOM_FROM", seeds.start.to_string()).env("RANDOM_TO", seeds.end.to_string());
    let output = itself.output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(
        output.status.success(),
        "{seeds:?}, check {check}: {}\n{}\n{}",
        output.status,
        text(&output.stdout),
        text(&output.stderr)
    );
}

#[test]
fn random_programs() {
    if let (Some(from), Some(to)) = (variable("RANDOM_FROM"), variable("RANDOM_TO")) {
        return run(from..to);
    }
    if let Some(seed) = variable("RANDOM_SEED") {
        return run_apart(seed..seed + 1, false);
    }
    let (started, long) = (Instant::now(), variable("RANDOM_SECONDS").map(Duration::from_secs));
    let mut from = variable("RANDOM_START").unwrap_or(0);
    loop {
        run_apart(from..from + AT_A_TIME, from / AT_A_TIME % 2 == 1);
        from += AT_A_TIME;
        let enough = long.map_or(from >= 2 * AT_A_TIME, |long| started.elapsed() >= long);
        if enough {
            println!("programs of all seeds below {from} did as they should");
            break;
        }
    }
}
