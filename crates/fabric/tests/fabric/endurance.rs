//! Connections that outlast a network that is away: by the kernel, and by their owner where the
//! kernel is older.
//!
//! Minutes are few and outages long: `OUTAGES=all` runs them.

use std::env;
use std::io::{ErrorKind, Read, Write, stderr};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command};
use std::thread;
use std::time::{Duration, Instant};

use msccl_fabric::{Endurance, Retransmission};
use msccl_hosts::Hosts;
use msccl_processes::{answer, await_line, playing, result};

const PORT: u16 = 4714;
const LOOK: Duration = Duration::from_millis(300);

/// Not a test by itself: one end of a connection.
#[test]
fn endurance_process() {
    let Ok(role) = env::var("ENDURANCE_ROLE") else { return };
    if role == "echo" {
        let listener = TcpListener::bind(("0.0.0.0", PORT)).unwrap();
        println!("\nready");
        let (stream, _) = listener.accept().unwrap();
        let mut endurance = Endurance::new(&stream, Duration::from_secs(3600)).unwrap();
        while exchange(&stream, &mut endurance, Side::Answers).is_ok() {}
        return answer("over");
    }
    let stream = TcpStream::connect((Hosts::address(0), PORT)).unwrap();
    let limit = Duration::from_secs(env::var("ENDURANCE_LIMIT_S").unwrap().parse().unwrap());
    let endurance = match role.as_str() {
        "best" => Endurance::new(&stream, limit),
        _ => Endurance::by(&stream, limit, Retransmission::Watched),
    };
    let mut endurance = endurance.unwrap();
    answer(&ask(&stream, &mut endurance));
}

#[derive(Clone, Copy, PartialEq)]
enum Side {
    Asks,
    Answers,
}

/// Asks until one question took seconds, or for good: how long it took, or why there was no answer.
fn ask(stream: &TcpStream, endurance: &mut Endurance) -> String {
    exchange(stream, endurance, Side::Asks).unwrap();
    println!("\nready");
    loop {
        let since = Instant::now();
        let exchanged = exchange(stream, endurance, Side::Asks);
        let took = since.elapsed();
        match exchanged {
            Err(error) => return format!("{:.1} {error}", took.as_secs_f64()),
            Ok(()) if took > Duration::from_secs(2) => return format!("{:.1}", took.as_secs_f64()),
            Ok(()) => thread::sleep(Duration::from_millis(50)),
        }
    }
}

/// One byte there and back.
fn exchange(mut stream: &TcpStream, endurance: &mut Endurance, side: Side) -> std::io::Result<()> {
    stream.set_read_timeout(Some(LOOK)).unwrap();
    if side == Side::Asks {
        stream.write_all(&[7])?;
    }
    loop {
        endurance.look_after(stream);
        match stream.read(&mut [0]) {
            Ok(1) if side == Side::Asks => return Ok(()),
            Ok(1) => return stream.write_all(&[8]),
            Ok(_) => return Err(ErrorKind::UnexpectedEof.into()),
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            Err(error) => return Err(error),
        }
    }
}

fn start(hosts: &Hosts, host: u32, role: &str, limit_s: u64) -> Child {
    let mut command: Command = hosts.command(host, env::current_exe().unwrap());
    playing(&mut command, "endurance::endurance_process");
    command.env("ENDURANCE_ROLE", role).env("ENDURANCE_LIMIT_S", limit_s.to_string());
    let mut child = command.spawn().unwrap();
    await_line(&mut child, "ready");
    child
}

/// What whoever asks says after the network was away for `away_s`, for good if that is nothing.
fn outage(role: &str, limit_s: u64, away_s: Option<u64>) -> Option<String> {
    let say = |text: String| stderr().write_all(text.as_bytes()).unwrap();
    if env::var("OUTAGES").is_err() {
        say(format!("SKIPPED: an outage of {away_s:?} s, {role}: OUTAGES=all runs it\n"));
        return None;
    }
    let hosts = match Hosts::new(2) {
        Ok(hosts) => hosts,
        Err(why) => {
            say(format!("SKIPPED: {why}\n"));
            return None;
        }
    };
    let echo = start(&hosts, 0, "echo", 3600);
    let asks = start(&hosts, 1, role, limit_s);
    hosts.lose(1).unwrap();
    if let Some(away_s) = away_s {
        thread::sleep(Duration::from_secs(away_s));
        hosts.find(1).unwrap();
    }
    let said = result(asks);
    say(format!("{role}, limit {limit_s} s, away {away_s:?} s: {said}\n"));
    drop(echo);
    Some(said)
}

/// By itself TCP would be silent from 12.6 s after the beginning until 25.4 s.
#[test]
fn the_owner_of_a_connection_has_it_try_often() {
    let Some(said) = outage("watched", 90, Some(14)) else { return };
    let took: f64 = said.parse().expect(&said);
    assert!((13.5..21.0).contains(&took), "{said}");
}

#[test]
fn the_owner_of_a_connection_gives_it_up_in_time() {
    let Some(said) = outage("watched", 16, None) else { return };
    let (took, why) = said.split_once(' ').expect(&said);
    let took: f64 = took.parse().unwrap();
    assert!((16.0..28.0).contains(&took), "{said}");
    assert!(why.contains("timed out"), "{said}");
}

#[test]
fn the_kernel_tries_often() {
    let Some(said) = outage("best", 90, Some(14)) else { return };
    let took: f64 = said.parse().expect(&said);
    // Where the kernel cannot, the owner does.
    assert!((13.5..21.0).contains(&took), "{said}");
}
