//! Crews whose workers are tests of this file: those that are ignored are run by the others.

use std::env;
use std::ffi::OsString;
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::time::Instant;

use super::*;

const LONG: Duration = Duration::from_secs(60);

/// A worker pool of processes, with that many ranks each, which behave as the test `role` does.
fn pool(role: &str, groups: &[&[u32]]) -> WorkerPool {
    let role = format!("worker_pool::tests::{role}");
    let arguments = ["--exact", &role, "--ignored", "--test-threads", "1"];
    let arguments = arguments.map(OsString::from).to_vec();
    let program = env::current_exe().unwrap();
    let groups: Vec<_> = groups.iter().map(|group| group.to_vec()).collect();
    WorkerPool::start(&Launch { program, arguments, environment: Vec::new() }, &groups).unwrap()
}

/// What all ranks answer, and what they print on the way, but for what tests print by themselves.
fn ask(pool: &mut WorkerPool, timeout: Duration) -> (Result<Vec<Answer>, Failure>, Vec<String>) {
    let mut lines = Vec::new();
    let mut listener = |rank: u32, line: &str| lines.push(format!("r{rank}: {line}"));
    let answers = pool.ask(|_| Request::MakeId, timeout, &mut listener).verdict();
    lines.retain(|line| line.contains("alas"));
    lines.sort();
    (answers, lines)
}

fn lost(text: &str) -> Failure {
    Failure::Lost(text.to_owned())
}

/// The connections of the workers in this process.
fn connections() -> Vec<UnixStream> {
    let control = io::stdin().as_fd().try_clone_to_owned().unwrap();
    let next = || connection::receive_descriptor(&control).unwrap();
    let connections: Vec<_> = std::iter::from_fn(next).map(UnixStream::from).collect();
    for connection in &connections {
        connection::receive_descriptor(connection).unwrap().unwrap();
    }
    connections
}

/// Gives every request of every connection that answer, the last worker of the process first.
fn answer_all(answer: impl Fn(usize) -> Answer) {
    let connections = connections().into_iter().enumerate().rev();
    let mut open: Vec<_> = connections.map(|(at, it)| (at, BufReader::new(it))).collect();
    while !open.is_empty() {
        open.retain_mut(|(at, lines)| {
            let request: Option<Request> = connection::receive(lines).unwrap();
            let reply = |_| connection::send(lines.get_ref(), &answer(*at)).unwrap();
            request.map(reply).is_some()
        });
    }
}

#[test]
#[ignore = "a worker"]
fn answers() {
    answer_all(|at| Answer::Id { id: at.to_string() });
}

#[test]
#[ignore = "a worker"]
fn refuses() {
    answer_all(|_| Answer::Failed { text: "no memory".to_owned() });
}

#[test]
#[ignore = "a worker"]
fn is_silent() {
    let _connections = connections();
    thread::sleep(Duration::from_secs(1000));
}

#[test]
#[ignore = "a worker"]
fn dies() {
    writeln!(io::stderr(), "\nalas").unwrap();
}

#[test]
fn answers_come_in_the_order_of_ranks() {
    let mut pool = pool("answers", &[&[0, 2], &[1]]);
    let ids = ["0", "0", "1"].map(|id| Answer::Id { id: id.to_owned() });
    for _ in 0..2 {
        assert_eq!(ask(&mut pool, LONG).0, Ok(ids.to_vec()));
    }
    assert_eq!(pool.dismiss(LONG, &mut |_, _| {}).verdict(), Ok(vec![Answer::Gone; 3]));
}

#[test]
fn the_silent_are_named_and_ended() {
    let mut pool = pool("is_silent", &[&[0], &[1]]);
    let begin = Instant::now();
    let (answers, _) = ask(&mut pool, Duration::from_millis(200));
    assert_eq!(answers, Err(lost("no answer from r0, r1 in 0 s")));
    assert!(begin.elapsed() < Duration::from_secs(20));
    assert!(pool.members.is_empty());
}

#[test]
fn the_dead_are_named_with_their_last_words() {
    let mut pool = pool("dies", &[&[0], &[1]]);
    let (answers, lines) = ask(&mut pool, LONG);
    assert_eq!(answers, Err(lost("r0, r1: its process ended (exit status: 0)")));
    assert_eq!(lines, ["r0: alas", "r1: alas"]);
}

#[test]
fn what_all_refuse_leaves_the_pool_alive() {
    let mut pool = pool("refuses", &[&[0, 1], &[2]]);
    for _ in 0..2 {
        let refused = Failure::Refused("r0, r1, r2: no memory".to_owned());
        assert_eq!(ask(&mut pool, LONG).0, Err(refused));
    }
}

#[test]
fn those_who_stay_when_dismissed_are_named_and_ended() {
    let mut pool = pool("is_silent", &[&[0]]);
    let stayed = pool.dismiss(Duration::from_millis(100), &mut |_, _| {});
    assert_eq!(stayed.verdict(), Err(lost("no answer from r0 in 0 s")));
}

#[test]
fn what_cannot_be_started_is_named() {
    let program = PathBuf::from("/no/such/program");
    let launch = Launch { program, arguments: Vec::new(), environment: Vec::new() };
    let refused = WorkerPool::start(&launch, &[vec![0]]).map(|_| ()).unwrap_err();
    assert!(refused.to_string().contains("/no/such/program"));
}
