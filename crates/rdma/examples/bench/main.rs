//! How fast a rail is, beside bare verbs on the same devices in the same run.
//!
//! ```sh
//! tests/rdma-rig/run --devices 2 target/debug/examples/bench [--rounds N] [--bars]
//! ```
//!
//! * *Bandwidth*: 16 writes under way from device 0 to device 1. Bare: RDMA writes of which the
//!   peer learns nothing. A rail notifies the peer of each, and the peer takes note, all in one
//!   thread: a second one would compete with the rig's kernel.
//! * *Ping-pong*: a write with immediate of 8 bytes there and another back, by two threads that
//!   poll.
//!
//! Rounds of the two alternate, and each is compared with the one beside it, since a rig's speed
//! varies with its host's load; the median counts. With `--bars` a rail must have 0.9 of the
//! bandwidth at least and take 1.15 of the time at most; what misses its bar is measured once more,
//! with four times the rounds, and the second figure counts.
//!
//! The exit status is 0; 1 if a bar was missed twice; 3 if all stood still for a minute
//! ([`still`]); 101 if something failed. Standard error says which and where.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a measurement that cannot go on is of no use"
)]

mod bare;
#[path = "../../tests/rig/mod.rs"]
mod rig;
mod still;

use std::fmt;
use std::process::ExitCode;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use bare::Bare;
use rig::{Event, Rail, Setting};

/// Writes under way at most, in both ways.
const WINDOW: u32 = 16;
/// Bytes that a round writes.
const ROUND_BYTES: u32 = 4 << 20;
/// Messages there and back in a round.
const ROUND_PINGS: u32 = 100;
const PING_BYTES: u32 = 8;

/// What a rail is compared with bare verbs in.
struct Measure {
    name: &'static str,
    bare: fn() -> f64,
    rail: fn() -> f64,
    bar: Bar,
}

/// Of the rail's figure by that of bare verbs.
#[derive(Clone, Copy, Debug)]
enum Bar {
    AtLeast(f64),
    AtMost(f64),
}

const MEASURES: [Measure; 3] = [
    Measure {
        name: "64 KiB writes, MB/s",
        bare: bare_bandwidth::<{ 64 << 10 }>,
        rail: rail_bandwidth::<{ 64 << 10 }>,
        bar: Bar::AtLeast(0.9),
    },
    Measure {
        name: "1 MiB writes, MB/s",
        bare: bare_bandwidth::<{ 1 << 20 }>,
        rail: rail_bandwidth::<{ 1 << 20 }>,
        bar: Bar::AtLeast(0.9),
    },
    Measure {
        name: "8 B there and back, µs",
        bare: bare_ping,
        rail: rail_ping,
        bar: Bar::AtMost(1.15),
    },
];

fn main() -> ExitCode {
    let arguments: Vec<_> = std::env::args().skip(1).collect();
    let bars = arguments.iter().any(|argument| argument == "--bars");
    let rounds = arguments.iter().skip_while(|argument| *argument != "--rounds").nth(1);
    let rounds = rounds.map_or(41, |count| count.parse().unwrap());
    let Some(_rig) = rig::rig(2) else { return ExitCode::SUCCESS };
    still::watch();
    println!("{:<22} {:>12} {:>12} {:>8}", "median of rounds", "bare verbs", "rail", "ratio");
    let missed: Vec<_> = MEASURES.iter().filter(|measure| !measure.holds(rounds, bars)).collect();
    for Measure { name, bar, .. } in &missed {
        eprintln!("bench: a bar was missed twice: {name}: the ratio must be {bar}");
    }
    ExitCode::from(u8::from(!missed.is_empty()))
}

impl Measure {
    /// Measures and prints; once more if a bar is to be held and is not.
    fn holds(&self, rounds: usize, bars: bool) -> bool {
        let held = self.bar.holds(self.report(rounds)) || !bars;
        held || self.bar.holds(self.report(4 * rounds))
    }

    /// Prints the medians of `rounds` rounds of each, which take turns, and of how the second
    /// compares with the first beside it. Answers the latter.
    fn report(&self, rounds: usize) -> f64 {
        let Self { name, bare, rail, bar: _ } = self;
        let run = |measured: &fn() -> f64, what, round| {
            still::begin(format!("{name}: {what}, round {round} of {rounds}"));
            let figure = measured();
            still::end();
            figure
        };
        let both = |round| (run(bare, "bare verbs", round), run(rail, "rail", round));
        let _warm = both(0);
        let figures: Vec<_> = (1..=rounds).map(both).collect();
        let of = |what: fn(&(f64, f64)) -> f64| median(figures.iter().map(what).collect());
        let (bare, rail) = (of(|round| round.0), of(|round| round.1));
        let ratio = of(|round| round.1 / round.0);
        println!("{name:<22} {bare:>12.1} {rail:>12.1} {ratio:>8.3}");
        ratio
    }
}

impl Bar {
    fn holds(self, ratio: f64) -> bool {
        match self {
            Self::AtLeast(bar) => ratio >= bar,
            Self::AtMost(bar) => ratio <= bar,
        }
    }
}

impl fmt::Display for Bar {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::AtLeast(bar) => write!(out, "at least {bar}"),
            Self::AtMost(bar) => write!(out, "at most {bar}"),
        }
    }
}

fn median(mut figures: Vec<f64>) -> f64 {
    figures.sort_by(f64::total_cmp);
    figures[figures.len() / 2]
}

fn megabytes_per_second(bytes: u32, count: u32, time: Duration) -> f64 {
    f64::from(bytes) * f64::from(count) / 1e6 / time.as_secs_f64()
}

fn bare_pair(bytes: u32) -> (Bare, Bare) {
    let (mut near, mut far) =
        (Bare::new("rxe0", bytes as usize), Bare::new("rxe1", bytes as usize));
    let (near_end, far_end) = (near.end(), far.end());
    near.connect(&far_end);
    far.connect(&near_end);
    (near, far)
}

fn bare_bandwidth<const BYTES: u32>() -> f64 {
    let (mut near, _far) = bare_pair(BYTES);
    let count = ROUND_BYTES / BYTES;
    let begun = Instant::now();
    let (mut posted, mut sent) = (0, 0);
    while sent < count {
        while posted < count && posted - sent < WINDOW {
            near.write(BYTES, None);
            posted += 1;
        }
        sent += near.sent();
        still::NEAR.store(sent, Ordering::Relaxed);
        give_way();
    }
    megabytes_per_second(BYTES, count, begun.elapsed())
}

fn rail_bandwidth<const BYTES: u32>() -> f64 {
    let (mut near, mut far) = rig::pair(&Setting::default(), 0, 1, BYTES as usize);
    let count = ROUND_BYTES / BYTES;
    let begun = Instant::now();
    let (mut posted, mut sent, mut arrived) = (0, 0, 0);
    while sent < count || arrived < count {
        while posted < count && posted - sent < WINDOW {
            assert!(near.post(0, 0, BYTES as usize, posted).unwrap());
            posted += 1;
        }
        let completed = near.poll(64).unwrap().len() as u32;
        sent += completed;
        still::NEAR.store(sent, Ordering::Relaxed);
        if completed > 0 || sent == count {
            arrived += far.poll(64).unwrap().len() as u32;
            still::FAR.store(arrived, Ordering::Relaxed);
        }
        give_way();
    }
    megabytes_per_second(BYTES, count, begun.elapsed())
}

/// The rig's devices are threads of the guest's kernel, which has no processor but those that poll
/// here.
fn give_way() {
    std::thread::yield_now();
}

fn microseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1e6 / f64::from(ROUND_PINGS)
}

fn bare_ping() -> f64 {
    let (mut near, mut far) = bare_pair(PING_BYTES);
    near.receive(64);
    far.receive(64);
    // A receive is posted for each that was used.
    let answer = |bare: &mut Bare, seen: &AtomicU32| {
        while bare.arrived().is_none() {
            bare.sent();
            give_way();
        }
        seen.fetch_add(1, Ordering::Relaxed);
        bare.receive(1);
    };
    let peer = std::thread::spawn(move || {
        for ping in 0..ROUND_PINGS {
            answer(&mut far, &still::FAR);
            far.write(PING_BYTES, Some(ping));
        }
        far
    });
    let begun = Instant::now();
    for ping in 0..ROUND_PINGS {
        near.write(PING_BYTES, Some(ping));
        answer(&mut near, &still::NEAR);
    }
    let time = begun.elapsed();
    let _far = peer.join().unwrap();
    microseconds(time)
}

fn rail_ping() -> f64 {
    let (mut near, mut far) = rig::pair(&Setting::default(), 0, 1, PING_BYTES as usize);
    let answer = |rail: &mut Rail, expected: u32, seen: &AtomicU32| {
        let arrived = Event::Arrived { tag: expected, bytes: PING_BYTES };
        while !rail.poll(8).unwrap().contains(&arrived) {
            give_way();
        }
        seen.fetch_add(1, Ordering::Relaxed);
    };
    let post = |rail: &mut Rail, ping| assert!(rail.post(0, 0, PING_BYTES as usize, ping).unwrap());
    let peer = std::thread::spawn(move || {
        for ping in 0..ROUND_PINGS {
            answer(&mut far, ping, &still::FAR);
            post(&mut far, ping);
        }
        // The last answer may be on its way: the queue pair ends when the other has it.
        far
    });
    let begun = Instant::now();
    for ping in 0..ROUND_PINGS {
        post(&mut near, ping);
        answer(&mut near, ping, &still::NEAR);
    }
    let time = begun.elapsed();
    let _far = peer.join().unwrap();
    microseconds(time)
}
