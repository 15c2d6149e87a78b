//! What reading and reporting take grows with the records, and no faster.

use std::time::{Duration, Instant};

use msccl_registry::Shape;
use msccl_testkit::recordings::{ImaginedClock, ImaginedRun};
use msccl_trace::record::{Record, RecordKind};
use msccl_trace::recording::Recording;
use msccl_trace::report::{Expectations, report};
use msccl_trace::timeline::Timeline;

use crate::kernels::{leave_numbers_out, leave_waits_out};
use crate::plans::{all_reduce, of_text};

/// How many more records the larger run of two has.
const TIMES: u32 = 24;

/// A ring whose last phase is on another channel: its thread blocks wait for one another.
const WITH_SIGNALS: &str = "import blocks
import groups
import ring
algorithm own(ranks N = 4, per_node G = 2) implements allreduce(chunks N) in place {
    let blocks = cut(0..N, G)
    for n in 0..nodes() { ring_reducescatter(node_ranks(n), input, blocks) }
    for l in 0..G { ring_allreduce(rail_ranks(l), input, cut(blocks[l], nodes())) }
    for n in 0..nodes() on channel 1 { ring_allgather(node_ranks(n), input, blocks) }
}";

fn files(run: &ImaginedRun) -> Vec<Recording> {
    run.record().iter().map(|file| Recording::read(file).unwrap()).collect()
}

/// The shortest of several times: what else the machine does can only make them longer.
fn shortest(recordings: &[Recording]) -> Duration {
    let once = || {
        let recordings = recordings.to_vec();
        let begin = Instant::now();
        let timeline = Timeline::join(recordings).unwrap();
        report(&timeline, &Expectations::default());
        begin.elapsed()
    };
    (0..3).map(|_| once()).min().unwrap()
}

/// In proportion, the larger takes `TIMES` as long, and twice that where it leaves the caches; in
/// proportion to the square, `TIMES` as long as that. The bound is far from both.
fn check(what: &str, smaller: &[Recording], larger: &[Recording]) {
    let ratio = shortest(larger).as_secs_f64() / shortest(smaller).as_secs_f64();
    assert!(ratio < f64::from(TIMES * TIMES / 3), "{what}: {ratio:.0} times as long");
}

#[test]
fn time_grows_with_launches() {
    let run = |calls: u32| {
        let mut run = ImaginedRun::new(all_reduce("allreduce/two_shot", 2), 4 << 20, 4);
        run.calls = calls;
        run
    };
    let [smaller, larger] = [40, 40 * TIMES].map(|calls| files(&run(calls)));
    check("host threads", &smaller, &larger);
    let [smaller, larger] = [40, 40 * TIMES].map(|calls| {
        let mut run = run(calls);
        run.clocks = vec![ImaginedClock { round_trip_ns: 1000.0, ..ImaginedClock::exact() }];
        let mut recordings = files(&run);
        recordings.iter_mut().for_each(leave_numbers_out);
        recordings.iter_mut().for_each(leave_waits_out);
        recordings
    });
    check("low-latency kernels", &smaller, &larger);
}

/// Makes the round of each launch `rounds`, of which each begins `period_ns` after the one before.
fn repeat_rounds(recording: &mut Recording, rounds: u32, period_ns: u64) {
    for piece in recording.tracks.values_mut().flat_map(|track| &mut track.pieces) {
        let [begin, round @ .., end] = &piece.records[..] else { panic!("a launch is missing") };
        let mut records = vec![*begin];
        for number in 0..u64::from(rounds) {
            let later = |of: &Record| Record { time_ns: of.time_ns + number * period_ns, ..*of };
            records.extend(round.iter().map(later));
        }
        let time_ns = end.time_ns + u64::from(rounds) * period_ns;
        records.push(Record { time_ns, ..*end });
        piece.records = records;
    }
}

#[test]
fn time_grows_with_the_rounds_of_a_launch() {
    let plans = of_text(WITH_SIGNALS, Shape { ranks: 4, per_node: 2 });
    let mut run = ImaginedRun::new(plans, 4 << 20, 4);
    run.calls = 1;
    let of_round = files(&run);
    let records = || of_round.iter().flat_map(|of| of.tracks.values()).flat_map(|of| &of.pieces);
    assert!(records().flat_map(|of| &of.records).any(|of| of.kind == RecordKind::WaitBlock));
    let times = records().flat_map(|of| &of.records).map(|of| of.time_ns);
    let (first_ns, last_ns) = (times.clone().min().unwrap(), times.max().unwrap());
    let [smaller, larger] = [400, 400 * TIMES].map(|rounds| {
        let mut recordings = of_round.clone();
        recordings.iter_mut().for_each(|of| repeat_rounds(of, rounds, last_ns - first_ns));
        recordings
    });
    check("rounds", &smaller, &larger);
}
