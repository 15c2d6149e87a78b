//! The network between hosts goes away and comes back: calls outlast what is shorter than
//! `MSCCL_NETWORK_TIMEOUT_S`, with right results, and what is longer is reported on all ranks.
//!
//! `OUTAGES=all` has outages of 2, 8, 15 and 60 s under a limit of 90 s, and one that is longer;
//! without it short ones do.

#![deny(unsafe_code)]
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]
#![allow(clippy::print_stderr, reason = "figures and skips are loud")]

mod programs;

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdout, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use msccl_hosts::Hosts;

use programs::{compile, folder};

/// Hosts, with a rank each.
const RANKS: u32 = 3;

/// How long the longest call may take beyond the outage: until the next attempt of TCP to send
/// again, and what follows.
const RESUMED_WITHIN: Duration = Duration::from_secs(8);

/// How much later than its limit an outage may be reported.
const REPORTED_WITHIN: Duration = Duration::from_secs(20);

/// One run.
#[derive(Clone, Copy, Debug)]
struct Outage {
    /// How long the network may be away.
    limit: Duration,
    /// How long it is; none for good.
    away: Option<Duration>,
    /// How long ranks pause between calls.
    pause: Duration,
}

const fn survived(away_s: u64, limit_s: u64, pause_ms: u64) -> Outage {
    let (limit, away) = (Duration::from_secs(limit_s), Some(Duration::from_secs(away_s)));
    Outage { limit, away, pause: Duration::from_millis(pause_ms) }
}

const fn fatal(limit_s: u64) -> Outage {
    Outage { limit: Duration::from_secs(limit_s), away: None, pause: Duration::ZERO }
}

struct Rank {
    child: Child,
    lines: BufReader<ChildStdout>,
}

impl Rank {
    fn start(hosts: &Hosts, program: &Path, rank: u32, outage: Outage) -> Self {
        // Rank 0 goes on for a while after the network is back.
        let seconds = outage.away.unwrap_or(outage.limit) + Duration::from_secs(5);
        let mut command = hosts.command(rank, program);
        command.args([rank.to_string(), RANKS.to_string(), seconds.as_secs().to_string()]);
        command.arg(outage.pause.as_millis().to_string());
        command.env("LD_LIBRARY_PATH", folder()).env("MSCCL_DEVICE", "host");
        command.env("NCCL_COMM_ID", format!("{}:4713", Hosts::address(0)));
        command.env("MSCCL_NETWORK_TIMEOUT_S", outage.limit.as_secs().to_string());
        command.stdout(Stdio::piped()).stderr(Stdio::inherit());
        let mut child = command.spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap());
        Self { child, lines }
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.lines.read_line(&mut line).unwrap();
        line.trim_end().to_owned()
    }
}

/// What all ranks say at the end, and how long after rank 1 was cut off; nothing where there can be
/// no hosts.
fn play(outage: Outage) -> Option<Vec<(String, Duration)>> {
    let program = compile("outage")?;
    let hosts = match Hosts::new(RANKS) {
        Ok(hosts) => hosts,
        // Written past the test harness, which keeps back what tests print.
        Err(why) => {
            std::io::stderr().write_all(format!("SKIPPED: {why}\n").as_bytes()).unwrap();
            return None;
        }
    };
    let start = |rank| Rank::start(&hosts, &program, rank, outage);
    let mut ranks: Vec<_> = (0..RANKS).map(start).collect();
    for rank in &mut ranks {
        assert_eq!(rank.line(), "ready");
    }
    thread::sleep(Duration::from_millis(700));
    let since = Instant::now();
    hosts.lose(1).unwrap();
    if let Some(away) = outage.away {
        thread::sleep(away);
        hosts.find(1).unwrap();
    }
    let ended = |rank: &mut Rank| (rank.line(), since.elapsed());
    let said = ranks.iter_mut().map(ended).collect();
    for rank in &mut ranks {
        assert!(rank.child.wait().unwrap().success());
    }
    Some(said)
}

#[track_caller]
fn check(outage: Outage) {
    let Some(said) = play(outage) else { return };
    eprintln!("{outage:?}: {said:?}");
    for (line, after) in said {
        match outage.away {
            Some(away) => {
                let took = line.strip_prefix("right, the longest call took ").unwrap_or(&line);
                let took: f64 = took.trim_end_matches(" s").parse().expect(&line);
                // Whoever pauses may sleep through the beginning, and through the end.
                let least = away.saturating_sub(2 * outage.pause).as_secs_f64() - 0.2;
                assert!(took > least, "{outage:?}: the network was not away: {line}");
                assert!(took < (away + RESUMED_WITHIN).as_secs_f64(), "{outage:?}: {line}");
            }
            None => {
                let names_it = line.contains("r1 ") || line.contains("r0 on host");
                assert!(line.starts_with("failed after ") && names_it, "{outage:?}: {line}");
                assert!(after < outage.limit + REPORTED_WITHIN, "{outage:?} {after:?}: {line}");
            }
        }
    }
}

/// All at once: hosts of different runs do not meet.
fn check_all(outages: &[Outage]) {
    thread::scope(|scope| {
        outages.iter().for_each(|outage| drop(scope.spawn(|| check(*outage))));
    });
}

#[test]
fn a_network_that_comes_back_and_one_that_does_not() {
    if std::env::var("OUTAGES").is_ok_and(|which| which == "all") {
        let long = [survived(15, 90, 0), survived(60, 90, 0), survived(8, 90, 3000), fatal(90)];
        return check_all(&[&long[..], &[survived(2, 90, 0), survived(8, 90, 0)]].concat());
    }
    check_all(&[survived(2, 90, 0), survived(6, 8, 500), fatal(3)]);
}
