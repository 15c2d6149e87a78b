//! Random programs over the C interface, on host threads, compared with plain arithmetic: several
//! communicators made of one another, groups of collectives and messages of any of them, in place
//! and not, by several threads that know nothing of how far the others are; blocking and not; in
//! one process, or in several that count as hosts. And on GPUs that are not there (`null_driver`),
//! where nobody waits and nothing is computed: what is tested then is that all calls are taken up.
//!
//! `RANDOM_SECONDS=900 cargo test -p msccl-nccl --test random` goes on for as long, from
//! `RANDOM_START`; `RANDOM_SEED=7 RANDOM_HOSTS=2` runs one program, on GPUs that are not there with
//! no hosts.

#![deny(unsafe_code)]
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]
#![allow(clippy::print_stdout, reason = "what was run is printed")]

#[path = "random/c_api.rs"]
mod c_api;
#[path = "random/data.rs"]
mod data;
mod null_driver;
#[path = "random/program.rs"]
mod program;
#[path = "random/thread.rs"]
mod thread;

use std::fs;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use c_api::UniqueId;
use program::Program;
use thread::{Ids, Meeting, Thread};

/// Programs of one process.
const AT_A_TIME: u64 = 20;

/// How long a process may take, in seconds.
const PATIENCE_S: &str = "300";

fn variable(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|value| value.parse().unwrap())
}

/// One of several processes, which count as hosts and share out the threads of programs.
struct Host {
    number: usize,
    /// How many there are; none stands for one whose GPUs are not there.
    hosts: usize,
    folder: PathBuf,
}

impl Host {
    /// Runs the programs of `seeds`.
    fn run(&self, seeds: Range<u64>) {
        for seed in seeds {
            println!("seed {seed}");
            let program = Program::new(seed);
            let threads = program.threads.len();
            let hosts = self.hosts.clamp(1, threads);
            if self.number >= hosts {
                continue;
            }
            let (ids, meeting) = (self.ids(seed, hosts), Meeting::new(&program, self.hosts == 0));
            let here = (0..threads).filter(|number| number % hosts == self.number);
            std::thread::scope(|scope| {
                let (program, meeting, ids) = (&program, &meeting, &ids);
                for number in here {
                    let thread = Thread::new(program, number, meeting, seed);
                    scope.spawn(move || {
                        let done = catch_unwind(AssertUnwindSafe(|| thread.run(ids)));
                        done.unwrap_or_else(|_| give_up(program, meeting, seed, number));
                    });
                }
            });
        }
    }

    /// By what the ranks find one another: what each of `hosts` hosts makes and leaves in the
    /// folder for the others.
    fn ids(&self, seed: u64, hosts: usize) -> Ids {
        let place = |host: usize| self.folder.join(format!("{seed}-{host}"));
        let own = [c_api::unique_id(), c_api::unique_id()];
        let unfinished = self.folder.join(format!("unfinished-{}", self.number));
        fs::write(&unfinished, own.map(UniqueId::to_bytes).concat()).unwrap();
        fs::rename(unfinished, place(self.number)).unwrap();
        let all: Vec<_> = (0..hosts).map(|host| found(&place(host))).collect();
        Ids { program: all.iter().map(|ids| ids[0]).collect(), meeting: all[0][1] }
    }
}

/// The ids in the file at `place`, as soon as it is there.
fn found(place: &Path) -> [UniqueId; 2] {
    let bytes = loop {
        match fs::read(place) {
            Ok(bytes) => break bytes,
            Err(_) => std::thread::sleep(Duration::from_millis(1)),
        }
    };
    let (first, second) = bytes.split_at(128);
    [first, second].map(|id| UniqueId::from_bytes(id.try_into().unwrap()))
}

/// Prints how far all threads of this process are, and ends it: nobody waits for a thread that has
/// failed.
fn give_up(program: &Program, meeting: &Meeting, seed: u64, number: usize) -> ! {
    println!("of the program of seed {seed}, thread {number} has failed; {program:#?}");
    for (ranks, round) in program.threads.iter().zip(meeting.rounds()) {
        println!("the thread of ranks {ranks:?} is in round {round}");
    }
    std::process::exit(1)
}

/// Runs the programs of `seeds` in processes of their own, `hosts` of them, that compare the
/// arguments of all ranks or do not.
fn run_apart(seeds: Range<u64>, hosts: u64, check: bool) {
    let folder =
        Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("random-{}", std::process::id()));
    fs::create_dir_all(&folder).unwrap();
    let start = |host: u64| {
        let mut itself = Command::new("timeout");
        itself.arg(PATIENCE_S).arg(std::env::current_exe().unwrap());
        itself.args(["--exact", "random_programs", "--nocapture", "--test-threads=1"]);
        itself.env("MSCCL_DEVICE", if hosts == 0 { "cuda" } else { "host" });
        itself.env("NCCL_SOCKET_IFNAME", "lo");
        itself.envs([("MSCCL_TIMEOUT_S", "30"), ("MSCCL_JOIN_TIMEOUT_S", "60")]);
        itself.env("NCCL_DEBUG", "WARN");
        itself.env("MSCCL_CHECK", u64::from(check).to_string());
        itself.env("NCCL_HOSTID", format!("host{host}")).env("RANDOM_FOLDER", &folder);
        let numbers = [("FROM", seeds.start), ("TO", seeds.end), ("HOST", host), ("HOSTS", hosts)];
        itself.envs(numbers.map(|(name, number)| (format!("RANDOM_{name}"), number.to_string())));
        itself.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    };
    let children: Vec<_> = (0..hosts.max(1)).map(start).collect();
    let outputs: Vec<_> =
        children.into_iter().map(Child::wait_with_output).map(Result::unwrap).collect();
    fs::remove_dir_all(&folder).unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let say = |of: &Output| format!("{}\n{}\n{}", of.status, text(&of.stdout), text(&of.stderr));
    let said: Vec<_> = outputs.iter().map(say).collect();
    let fine = outputs.iter().all(|output| output.status.success());
    assert!(fine, "seeds {seeds:?}, {hosts} hosts, check {check}: {}", said.join("\n"));
}

#[test]
fn random_programs() {
    let hosts = variable("RANDOM_HOSTS").unwrap_or(1);
    if let (Some(from), Some(to)) = (variable("RANDOM_FROM"), variable("RANDOM_TO")) {
        let folder = PathBuf::from(std::env::var_os("RANDOM_FOLDER").unwrap());
        let number = variable("RANDOM_HOST").unwrap() as usize;
        return Host { number, hosts: hosts as usize, folder }.run(from..to);
    }
    if let Some(seed) = variable("RANDOM_SEED") {
        return run_apart(seed..seed + 1, hosts, false);
    }
    let (started, long) = (Instant::now(), variable("RANDOM_SECONDS").map(Duration::from_secs));
    let first = variable("RANDOM_START").unwrap_or(0);
    for turn in 0.. {
        let from = first + turn * AT_A_TIME;
        // One process, several, and one without GPUs by turns.
        let hosts = match turn % 3 {
            0 => 1,
            1 => 2 + turn / 3 % 3,
            _ => 0,
        };
        run_apart(from..from + AT_A_TIME, hosts, turn % 2 == 1);
        if long.map_or(turn == 3, |long| started.elapsed() >= long) {
            println!("programs of seeds {first} to {} did as they should", from + AT_A_TIME - 1);
            break;
        }
    }
}
