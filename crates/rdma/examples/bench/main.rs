//! How fast a rail is, beside bare verbs on the same devices in the same run.
//!
//! ```sh
//! tests/rdma-rig/run --devices 2 target/debug/examples/bench [--rounds N] [--bars]
//! ```
//!
//! * *Bandwidth*: 16 writes under way from device 0 to device 1. Bare: RDMA writes of which the peer is told
//!   nothing. A rail tells the peer of each, and the peer takes note, all in one thread: a second one would
//!   compete with the rig's kernel.
//! * *Ping-pong*: a write with immediate of 8 bytes there and another back, by two threads that poll.
//!
//! Rounds of the two alternate, and each is compared with the one beside it, since a rig's speed varies with
//! its host's load; the median counts. With `--bars` the exit status is 1 if a rail has less than 0.9 of the
//! bandwidth or more than 1.15 of the time.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a measurement that cannot go on is of no use"
)]

mod bare;
#[path = "../../tests/rig/mod.rs"]
mod rig;

use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
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

const BANDWIDTH_BAR: f64 = 0.9;
const PING_BAR: f64 = 1.15;

fn main() -> ExitCode {
    let arguments: Vec<_> = std::env::args().skip(1).collect();
    let bars = arguments.iter().any(|argument| argument == "--bars");
    let rounds = arguments.iter().skip_while(|argument| *argument != "--rounds").nth(1);
    let rounds = rounds.map_or(41, |count| count.parse().unwrap());
    let Some(_rig) = rig::rig(2) else { return ExitCode::SUCCESS };
    let mut held = true;
    println!("{:<22} {:>12} {:>12} {:>8}", "median of rounds", "bare verbs", "rail", "ratio");
    for bytes in [64 << 10, 1 << 20] {
        let [bare, rail, ratio] =
            alternate(rounds, || bare_bandwidth(bytes), || rail_bandwidth(bytes));
        held &= ratio >= BANDWIDTH_BAR;
        let what = format!("{} KiB writes, MB/s", bytes >> 10);
        println!("{what:<22} {bare:>12.1} {rail:>12.1} {ratio:>8.3}");
    }
    let [bare, rail, ratio] = alternate(rounds, bare_ping, rail_ping);
    held &= ratio <= PING_BAR;
    println!("{:<22} {bare:>12.1} {rail:>12.1} {ratio:>8.3}", "8 B there and back, µs");
    ExitCode::from(u8::from(bars && !held))
}

/// The medians of `rounds` rounds of each, which take turns, and of how the second compares with the first
/// beside it.
fn alternate(
    rounds: usize,
    mut bare: impl FnMut() -> f64,
    mut rail: impl FnMut() -> f64,
) -> [f64; 3] {
    let _warm = (bare(), rail());
    let figures: Vec<_> = (0..rounds).map(|_| (bare(), rail())).collect();
    let of = |what: fn(&(f64, f64)) -> f64| median(figures.iter().map(what).collect());
    [of(|round| round.0), of(|round| round.1), of(|round| round.1 / round.0)]
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

fn bare_bandwidth(bytes: u32) -> f64 {
    let (mut near, _far) = bare_pair(bytes);
    let count = ROUND_BYTES / bytes;
    let begun = Instant::now();
    let (mut posted, mut sent) = (0, 0);
    while sent < count {
        while posted < count && posted - sent < WINDOW {
            near.write(bytes, None);
            posted += 1;
        }
        sent += near.sent();
        give_way();
    }
    megabytes_per_second(bytes, count, begun.elapsed())
}

fn rail_bandwidth(bytes: u32) -> f64 {
    let (mut near, mut far) = rig::pair(&Setting::default(), 0, 1, bytes as usize);
    let count = ROUND_BYTES / bytes;
    let begun = Instant::now();
    let (mut posted, mut sent, mut arrived) = (0, 0, 0);
    while sent < count || arrived < count {
        while posted < count && posted - sent < WINDOW {
            assert!(near.post(0, 0, bytes as usize, posted).unwrap());
            posted += 1;
        }
        let completed = near.poll(64).unwrap().len() as u32;
        sent += completed;
        if completed > 0 {
            arrived += far.poll(64).unwrap().len() as u32;
        }
        give_way();
    }
    megabytes_per_second(bytes, count, begun.elapsed())
}

/// The rig's devices are threads of the guest's kernel, which has no processor but those that poll here.
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
    let answer = |bare: &mut Bare| {
        let begun = Instant::now();
        while bare.arrived().is_none() {
            bare.sent();
            give_way();
            assert!(begun.elapsed() < rig::PATIENCE);
        }
        bare.receive(1);
    };
    let peer = std::thread::spawn(move || {
        for ping in 0..ROUND_PINGS {
            answer(&mut far);
            far.write(PING_BYTES, Some(ping));
        }
        far
    });
    let begun = Instant::now();
    for ping in 0..ROUND_PINGS {
        near.write(PING_BYTES, Some(ping));
        answer(&mut near);
    }
    let time = begun.elapsed();
    let _far = peer.join().unwrap();
    microseconds(time)
}

fn rail_ping() -> f64 {
    let (near, far) = rig::pair(&Setting::default(), 0, 1, PING_BYTES as usize);
    let done = AtomicBool::new(false);
    let answer = |rail: &mut Rail, expected: u32| {
        let begun = Instant::now();
        let arrived = Event::Arrived { tag: expected, bytes: PING_BYTES };
        while !rail.poll(8).unwrap().contains(&arrived) {
            give_way();
            assert!(begun.elapsed() < rig::PATIENCE);
        }
    };
    let post = |rail: &mut Rail, ping| assert!(rail.post(0, 0, PING_BYTES as usize, ping).unwrap());
    let (mut near, mut far) = (near, far);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for ping in 0..ROUND_PINGS {
                answer(&mut far, ping);
                post(&mut far, ping);
            }
            // The last answer is on its way; the queue pair must not end before it has arrived.
            while !done.load(Ordering::Acquire) {
                std::thread::yield_now();
            }
        });
        let begun = Instant::now();
        for ping in 0..ROUND_PINGS {
            post(&mut near, ping);
            answer(&mut near, ping);
        }
        let time = begun.elapsed();
        done.store(true, Ordering::Release);
        microseconds(time)
    })
}
