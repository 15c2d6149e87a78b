//! An adversary against live jobs on the host engine: another user in the same network namespace,
//! who knows the protocol and sees what everybody sees, and whoever listens to the network. Every
//! attack is refused with a line in the log; the job's results are right, its memory and its
//! application's descriptors untouched.
//!
//! `ADVERSARY=all` runs every attack; without it a part of them runs, another one each day.

#![deny(unsafe_code)]
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]
#![allow(clippy::print_stderr, reason = "skips and figures are loud")]

#[path = "adversary/attacks.rs"]
mod attacks;
#[path = "adversary/capture.rs"]
mod capture;
#[path = "adversary/job.rs"]
mod job;
mod programs;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use attacks::{AS_OWN_USER, AT_PROXIES, AT_RANKS, AT_ROOT, Attack, Target};
use capture::{Capture, Captured};
use job::{Job, Terms};
use msccl_fabric::OPENING_BYTES;

/// Whom strangers run as.
const NOBODY: u32 = 65_534;

/// How much more memory a rank may have under attack.
const MEMORY_KIB: u64 = 8 << 10;

/// Floods take processors: one test at a time. Takes the adversary's program away when it ends.
struct Alone(#[allow(dead_code, reason = "held")] MutexGuard<'static, ()>);

fn alone() -> Alone {
    static ALONE: Mutex<()> = Mutex::new(());
    Alone(ALONE.lock().unwrap_or_else(PoisonError::into_inner))
}

impl Drop for Alone {
    fn drop(&mut self) {
        // There is none if nothing was attacked.
        let _ = fs::remove_dir_all(program_folder());
    }
}

fn program_folder() -> PathBuf {
    std::env::temp_dir().join(format!("msccl-adversary-{}", std::process::id()))
}

/// As whom an attack runs.
#[derive(Clone, Copy, PartialEq, Eq)]
enum User {
    Other,
    Own,
}

/// A copy of this program that every user can run.
fn program() -> PathBuf {
    let folder = program_folder();
    let program = folder.join("adversary");
    if !program.exists() {
        fs::create_dir_all(&folder).unwrap();
        fs::set_permissions(&folder, fs::Permissions::from_mode(0o755)).unwrap();
        fs::copy(std::env::current_exe().unwrap(), &program).unwrap();
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    }
    program
}

/// Not a test by itself: the adversary's process.
#[test]
fn adversary() {
    let Ok(name) = std::env::var("ADVERSARY_ATTACK") else { return };
    (attacks::find(&name).run)(&target_of(&std::env::var("ADVERSARY_TARGET").unwrap()));
}

/// `port:<rank>:<port>`, `name:<rank>:<name>`, `said:<hexadecimal digits>`, separated by blanks.
fn target_of(text: &str) -> Target {
    let mut target = Target::default();
    for part in text.split(' ').filter(|part| !part.is_empty()) {
        let fields: Vec<_> = part.split(':').collect();
        match fields[..] {
            ["port", rank, port] => {
                target.ports.push((rank.parse().unwrap(), port.parse().unwrap()))
            }
            ["name", rank, name] => target.names.push((rank.parse().unwrap(), name.to_owned())),
            ["said", digits] => {
                let byte = |at| u8::from_str_radix(&digits[at..at + 2], 16).unwrap();
                target.replayed = (0..digits.len()).step_by(2).map(byte).collect();
            }
            _ => panic!("{part}"),
        }
    }
    target
}

fn text_of(target: &Target) -> String {
    let ports = target.ports.iter().map(|(rank, port)| format!("port:{rank}:{port}"));
    let names = target.names.iter().map(|(rank, name)| format!("name:{rank}:{name}"));
    // What was said behind the handshake of a long connection adds nothing.
    let said = target.replayed.iter().take(4096).map(|byte| format!("{byte:02x}"));
    let said = format!("said:{}", said.collect::<String>());
    ports.chain(names).chain([said]).collect::<Vec<_>>().join(" ")
}

/// A process that attacks.
fn attacker(attack: &Attack, target: &Target, user: User) -> Command {
    let mut command = Command::new(program());
    command.args(["adversary", "--exact", "--nocapture"]).stdout(Stdio::null());
    command.env("ADVERSARY_ATTACK", attack.name).env("ADVERSARY_TARGET", text_of(target));
    if user == User::Other {
        if rustix::process::geteuid().is_root() {
            command.uid(NOBODY).gid(NOBODY);
        } else {
            eprintln!("SKIPPED: only root can attack as another user; this one attacks as itself");
        }
    }
    command
}

/// The attacks of `all` that run now.
fn chosen(all: &'static [Attack]) -> Vec<&'static Attack> {
    if std::env::var("ADVERSARY").is_ok_and(|which| which == "all") {
        return all.iter().collect();
    }
    let day = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs() / 86_400;
    let parts = all.len().div_ceil(4);
    let chosen: Vec<_> =
        (0..all.len()).filter(|at| (at + day as usize).is_multiple_of(parts)).collect();
    eprintln!("{} of {} attacks; ADVERSARY=all runs all", chosen.len(), all.len());
    chosen.into_iter().map(|at| &all[at]).collect()
}

/// Lets an attack run; while it does, `meanwhile`. The job has logged what it must.
#[track_caller]
fn attack(
    job: &mut Job,
    attack: &Attack,
    target: &Target,
    user: User,
    meanwhile: impl FnOnce(&mut Job),
) {
    let expected = match user {
        User::Other
            if !rustix::process::geteuid().is_root() && attack.logged == "belongs to user" =>
        {
            attacks::AS_OWN_USER[0].logged
        }
        User::Other | User::Own => attack.logged,
    };
    let before = job.logs().matches(expected).count();
    let started = std::time::Instant::now();
    let mut child = attacker(attack, target, user).spawn().unwrap();
    meanwhile(job);
    let status = child.wait().unwrap();
    assert!(status.success(), "{}: the adversary got what it must not", attack.name);
    job.await_line(expected, before);
    eprintln!("{}: refused, {:.1} s", attack.name, started.elapsed().as_secs_f64());
}

/// The ports that rank `rank` says it listens at: rank 0 the root's, then each its own.
fn bootstrap_ports(job: &Job, rank: usize) -> Vec<u16> {
    let log = job.ranks[rank].log();
    let ports = log.lines().filter_map(|line| {
        let (_, port) = line.split_once("Bootstrap: Using ")?.1.rsplit_once('<')?;
        port.trim_end_matches('>').parse().ok()
    });
    ports.collect()
}

/// Ports of proxies: those that no line of the fabric names.
fn rail_ports(job: &Job) -> Vec<(u32, u16)> {
    let of_rank = |(rank, it): (usize, &job::Rank)| {
        let known = bootstrap_ports(job, rank);
        let ports = it.ports().into_iter().filter(move |port| !known.contains(port));
        ports.map(|port| (rank as u32, port)).collect::<Vec<_>>()
    };
    job.ranks.iter().enumerate().flat_map(of_rank).collect()
}

/// What was said to one of `ports` first, with the rank that listens there.
fn said_to(captured: &Captured, ports: &[(u32, u16)]) -> Option<(u32, u16, Vec<u8>)> {
    captured.iter().find_map(|((_, to), said)| {
        let (rank, port) = ports.iter().find(|(_, port)| port == to)?;
        (said.len() > OPENING_BYTES + 32).then(|| (*rank, *port, said.clone()))
    })
}

fn capture() -> Option<Capture> {
    let capture = Capture::begin();
    capture.inspect_err(|error| eprintln!("SKIPPED replays: nobody listens here: {error}")).ok()
}

/// The token of an id does not cross the wire, nor does anything by which its bytes could be known.
#[track_caller]
fn no_token_crosses(captured: &Captured, id: &str) {
    let byte = |at: usize| u8::from_str_radix(&id[2 * at..2 * at + 2], 16).unwrap();
    // Behind magic, version and kind.
    let token: Vec<u8> = (11..27).map(byte).collect();
    assert!(captured.values().any(|said| said.windows(8).any(|it| it == b"msccl-hi")));
    for (direction, said) in captured {
        assert!(!said.windows(16).any(|it| it == token), "the token goes over {direction:?}");
    }
}

fn terms() -> Terms {
    Terms { ranks: 4, per_host: 2, descriptors: Some(1024), ..Terms::default() }
}

/// What ranks do meanwhile.
fn work(job: &mut Job) {
    job.ask("work 20", "worked");
    let opened = job.ask("open", "opened ");
    for line in &opened {
        let numbers: Vec<_> = line.split(' ').collect();
        assert_eq!(numbers[1], numbers[3], "the application lacks descriptors: {opened:?}");
    }
}

/// What a job needs that nobody attacks, in KiB by rank.
fn quiet() -> Option<Vec<[u64; 2]>> {
    let mut job = Job::start("quiet", &terms())?;
    job.join_all();
    (0..6).for_each(|_| work(&mut job));
    job.ask("all", "worked");
    let memory = job.memory();
    job.end();
    Some(memory)
}

#[track_caller]
fn takes_no_more(memory: &[[u64; 2]], quiet: &[[u64; 2]]) {
    for (rank, (now, quiet)) in memory.iter().zip(quiet).enumerate() {
        for (now, quiet) in now.iter().zip(quiet) {
            assert!(*now <= quiet + MEMORY_KIB, "rank {rank}: {now} KiB, {quiet} KiB in quiet");
        }
    }
    eprintln!("KiB resident now and at most, by rank: {memory:?}; nobody attacked: {quiet:?}");
}

#[test]
fn while_ranks_join() {
    let _alone = alone();
    let Some(quiet) = quiet() else { return };
    let capture = capture();
    let mut job = Job::start("joining", &terms()).unwrap();
    (0..3).for_each(|rank| job.join(rank));
    let root = [(0, bootstrap_ports(&job, 0)[0])];
    std::thread::sleep(std::time::Duration::from_millis(300));
    let captured = capture.as_ref().map(Capture::captured);
    let replayed = captured.and_then(|captured| said_to(&captured, &root)).map(|(_, _, said)| said);
    let target = Target {
        ports: root.to_vec(),
        replayed: replayed.unwrap_or_default(),
        ..Target::default()
    };
    for it in chosen(AT_ROOT) {
        if it.name.contains("replay") && target.replayed.is_empty() {
            eprintln!("SKIPPED {}: nothing was overheard", it.name);
            continue;
        }
        attack(&mut job, it, &target, User::Other, |_| {});
    }
    // The last rank comes into the middle of a flood.
    let flood = attacks::find("root: flood of silence");
    let mut child = attacker(flood, &target, User::Other).spawn().unwrap();
    std::thread::sleep(std::time::Duration::from_millis(100));
    job.join(3);
    let joined = job.receive("joined ");
    let took: u64 = joined[3].strip_prefix("joined ").unwrap().parse().unwrap();
    eprintln!("the last rank joined in {took} ms, in the middle of a flood");
    assert!(child.wait().unwrap().success());
    if let Some(capture) = capture {
        no_token_crosses(&capture.end(), &job.id);
    }
    (0..6).for_each(|_| work(&mut job));
    job.ask("all", "worked");
    takes_no_more(&job.memory(), &quiet);
    job.end();
}

#[test]
fn while_ranks_work() {
    let _alone = alone();
    let Some(quiet) = quiet() else { return };
    let capture = capture();
    let mut job = Job::start("working", &terms()).unwrap();
    job.join_all();
    work(&mut job);
    let own = |rank| Some((rank, *bootstrap_ports(&job, rank as usize).last()?));
    let ranks: Vec<(u32, u16)> = (0..4).filter_map(own).collect();
    assert_eq!(ranks.len(), 4, "{ranks:?}");
    let names: Vec<_> = job
        .ranks
        .iter()
        .enumerate()
        .flat_map(|(rank, it)| it.names().into_iter().map(move |name| (rank as u32, name)))
        .collect();
    // Of each rank one for descriptors, and one for `msccl trace`.
    assert_eq!(names.len(), 8, "{names:?}");
    names_reveal_nothing(&names, &job.id);
    let captured = capture.as_ref().map(Capture::captured).unwrap_or_default();
    let everyone = Target { ports: ranks.clone(), names, replayed: Vec::new() };
    for it in chosen(AT_RANKS) {
        let mut target = everyone.clone();
        if it.name.contains("replay") {
            let Some((rank, port, said)) = said_to(&captured, &ranks) else {
                eprintln!("SKIPPED {}: nothing was overheard", it.name);
                continue;
            };
            (target.ports, target.replayed) = (vec![(rank, port)], said);
        }
        attack(&mut job, it, &target, User::Other, work);
    }
    for it in AS_OWN_USER {
        attack(&mut job, it, &everyone, User::Own, work);
    }
    at_proxies(&mut job, &captured);
    if let Some(capture) = capture {
        no_token_crosses(&capture.end(), &job.id);
    }
    (0..6).for_each(|_| work(&mut job));
    takes_no_more(&job.memory(), &quiet);
    job.end();
}

/// Proxies take connections while they make links: the adversary waits at those of which some are
/// still to be made.
fn at_proxies(job: &mut Job, captured: &Captured) {
    let rails = rail_ports(job);
    let replayed = said_to(captured, &rails);
    let mut attackers = Vec::new();
    for it in AT_PROXIES {
        let mut target = Target { ports: rails.clone(), ..Target::default() };
        if it.name.contains("replay") {
            let Some((_, _, said)) = replayed.clone() else {
                eprintln!("SKIPPED {}: nothing was overheard", it.name);
                continue;
            };
            target.replayed = said;
        }
        attackers.push((it, attacker(it, &target, User::Other).spawn().unwrap()));
    }
    std::thread::sleep(std::time::Duration::from_millis(300));
    // The adversary waits in front of the peers.
    job.ask("all", "worked");
    for (it, mut child) in attackers {
        assert!(child.wait().unwrap().success(), "{}", it.name);
        job.await_line(it.logged, 0);
        eprintln!("{}: refused", it.name);
    }
}

/// Names of sockets are known to everybody. They say nothing, or which process it is.
#[track_caller]
fn names_reveal_nothing(names: &[(u32, String)], id: &str) {
    let is_number = |text: &str| text.chars().all(|it| it.is_ascii_digit() || it == '-');
    for (_, name) in names {
        let is_of_trace = name.strip_prefix("msccl-trace-").is_some_and(is_number);
        let is_random = name.len() == 32 && name.chars().all(|it| it.is_ascii_hexdigit());
        assert!(is_of_trace || is_random, "{name}");
        assert!(!id.contains(name.as_str()));
    }
}
