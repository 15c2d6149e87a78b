//! Recordings are joined to what really happened.

use std::collections::BTreeMap;

use msccl_testkit::recordings::{Execution, ImaginedClock, ImaginedRun};
use msccl_trace::record::RecordKind;
use msccl_trace::recording::Recording;
use msccl_trace::timeline::{Completeness, JoinError, SpanKind, Timeline};

use crate::kernels::leave_numbers_out;
use crate::plans::all_reduce;

const ALGORITHMS: [&str; 5] = [
    "allreduce/ring",
    "allreduce/two_shot",
    "allreduce/one_step",
    "allreduce/one_block",
    "allreduce/double_binary_tree",
];

fn join(files: &[Vec<u8>]) -> Timeline {
    Timeline::join(files.iter().map(|file| Recording::read(file).unwrap()).collect()).unwrap()
}

fn run(name: &str) -> ImaginedRun {
    ImaginedRun::new(all_reduce(name, 4), 4 << 20, 4)
}

/// Spans follow each other, launches do not overlap, and each message that was sent was received.
fn check_structure(timeline: &Timeline, run: &ImaginedRun) {
    assert_eq!(timeline.launches.len(), run.calls as usize);
    for (number, launch) in (1..).zip(&timeline.launches) {
        assert_eq!(launch.call, number);
        assert!(launch.of_rank.iter().all(Option::is_some));
    }
    for rank in &timeline.ranks {
        let mut end_ns = f64::MIN;
        for launch in &rank.launches {
            assert!(end_ns <= launch.begin_ns);
            end_ns = launch.end_ns;
            for part in &rank.parts[launch.parts.clone()] {
                assert_eq!(part.completeness, Completeness::Whole);
                let spans = &rank.spans[part.spans.clone()];
                assert_eq!(spans[0].begin_ns, part.begin_ns);
                assert!(spans.windows(2).all(|two| two[0].end_ns == two[1].begin_ns));
                assert_eq!(spans.last().unwrap().end_ns, part.end_ns);
                assert_eq!(spans.last().unwrap().kind, SpanKind::Finish);
                for span in spans.iter().filter(|span| span.kind.is_move()) {
                    assert!(rank.step(launch, part, span.step).is_some());
                }
            }
        }
        assert!(rank.tracks.iter().all(|track| (track.lost, track.unassigned) == (0, 0)));
    }
    let instances = run.cut.instances * run.cut.rounds * run.calls;
    let steps = run.plans.iter().flat_map(|plan| &plan.thread_blocks);
    let messages: usize = steps.flat_map(|block| &block.steps).map(|step| step.sends.len()).sum();
    assert_eq!(timeline.messages.len(), messages * instances as usize);
}

/// By rank and track, the true times of the ends of spans.
fn true_ends(execution: &Execution, rank: usize, track: u32) -> Vec<f64> {
    let ends = &execution.ends[rank][track as usize];
    let ends = ends.iter().filter(|end| end.kind != RecordKind::Begin);
    ends.map(|end| end.time_ns).collect()
}

/// The largest error of a time, against a clock that is right at the first rank.
fn largest_error_ns(timeline: &Timeline, execution: &Execution) -> f64 {
    let error_of = |rank: usize| {
        let of_rank = &timeline.ranks[rank];
        let mut taken: BTreeMap<u32, usize> = BTreeMap::new();
        let mut errors = Vec::new();
        for part in &of_rank.parts {
            let taken = taken.entry(part.track).or_default();
            let ends = true_ends(execution, rank, part.track);
            for (span, end_ns) in of_rank.spans[part.spans.clone()].iter().zip(&ends[*taken..]) {
                errors.push(span.end_ns - end_ns);
            }
            *taken += part.spans.len();
        }
        errors
    };
    let first: Vec<f64> = error_of(0);
    let base = first.iter().sum::<f64>() / first.len() as f64;
    let ranks = 0..timeline.ranks.len();
    ranks.flat_map(error_of).map(|error| (error - base).abs()).fold(0.0, f64::max)
}

#[test]
fn runs_come_back_span_by_span() {
    for name in ALGORITHMS {
        for (instances, rounds) in [(1, 1), (2, 3)] {
            let run = run(name).cut_into(instances, rounds);
            let timeline = join(&run.record());
            check_structure(&timeline, &run);
            assert!(largest_error_ns(&timeline, &run.execute()) < 2.0, "{name}");
            assert_eq!(timeline.clock.errors_ns, [0.0; 4]);
        }
    }
}

#[test]
fn messages_are_sent_before_they_are_received() {
    for name in ALGORITHMS {
        let timeline = join(&run(name).record());
        for message in &timeline.messages {
            let [sent, received] = [message.send, message.receive].map(|at| *timeline.span(at));
            assert!(sent.begin_ns < received.end_ns && message.bytes == 1 << 20, "{name}");
            let link = timeline.link(message.link);
            assert_eq!((link.from, link.to), (message.send.rank, message.receive.rank));
        }
    }
}

/// Four GPUs of one host: their clocks are off by milliseconds, and drift.
#[test]
fn clocks_of_one_host_agree_within_a_microsecond() {
    for name in ALGORITHMS {
        let mut run = run(name);
        run.calls = 300;
        run.clocks = (0..4)
            .map(|rank| ImaginedClock {
                host: 0,
                gpu: None,
                host_error_ns: 0.0,
                offset_ns: f64::from(rank * rank) * 1.3e6 - 2e6,
                drift: f64::from(rank) * 11e-6 - 15e-6,
                round_trip_ns: 1100.0,
            })
            .collect();
        let timeline = join(&run.record());
        check_structure(&timeline, &run);
        let bound_ns = timeline.clock.errors_ns.iter().fold(0.0, |a: f64, b| a.max(*b));
        let error_ns = largest_error_ns(&timeline, &run.execute());
        assert!(error_ns <= bound_ns && bound_ns <= 1000.0, "{name}: {error_ns} {bound_ns}");
        assert!(timeline.clock.contradictions.is_empty(), "{name}");
    }
}

/// Ranks that share a GPU have its clock, of which each knows what the others have read.
#[test]
fn ranks_of_one_gpu_share_its_clock() {
    for gpus in [[None; 4], [0, 1, 0, 1].map(Some)] {
        let mut run = run("allreduce/ring");
        run.calls = 300;
        run.clocks = (0..4)
            .map(|rank| ImaginedClock {
                host: 0,
                gpu: gpus[rank as usize],
                host_error_ns: 0.0,
                offset_ns: f64::from(rank % 2) * 1.3e6,
                drift: f64::from(rank % 2) * 11e-6,
                round_trip_ns: 1100.0 + f64::from(rank) * 300.0,
            })
            .collect();
        let timeline = join(&run.record());
        check_structure(&timeline, &run);
        let errors_ns = &timeline.clock.errors_ns;
        assert!(largest_error_ns(&timeline, &run.execute()) <= errors_ns[1].max(errors_ns[3]));
        let shares = [errors_ns[2] == 0.0, errors_ns[1] == errors_ns[3]];
        assert_eq!(shares, [gpus[0].is_some(); 2], "{errors_ns:?}");
    }
}

/// Two hosts whose UNIX times differ by 3 ms: messages alone bring them together.
#[test]
fn causality_brings_hosts_together() {
    let mut run = run("allreduce/ring");
    run.calls = 100;
    run.clocks = [0, 0, 1, 1]
        .map(|host| ImaginedClock {
            host,
            gpu: None,
            host_error_ns: f64::from(host) * 3e6,
            offset_ns: f64::from(host) * 5e6,
            drift: 0.0,
            round_trip_ns: 1000.0,
        })
        .to_vec();
    let timeline = join(&run.record());
    check_structure(&timeline, &run);
    let error_ns = largest_error_ns(&timeline, &run.execute());
    let bound_ns = timeline.clock.errors_ns.iter().fold(0.0, |a: f64, b| a.max(*b));
    // A message takes longer than a ring's step lasts, so that is what remains open.
    assert!(error_ns <= bound_ns && bound_ns < 40_000.0, "{error_ns} {bound_ns}");
    assert!(error_ns < 5000.0, "{error_ns} {bound_ns}");
    assert!(timeline.clock.corrections_ns[2] < -2.9e6, "{:?}", timeline.clock);
}

/// A clock that jumped is found: its readings contradict the messages.
#[test]
fn contradictions_are_found() {
    let mut run = run("allreduce/ring");
    run.clocks = vec![ImaginedClock { round_trip_ns: 1000.0, ..ImaginedClock::exact() }; 4];
    let mut recordings: Vec<Recording> =
        run.record().iter().map(|file| Recording::read(file).unwrap()).collect();
    for sample in &mut recordings[2].clock {
        sample.device_ns += 800_000;
    }
    let timeline = Timeline::join(recordings).unwrap();
    let circles = &timeline.clock.contradictions;
    assert!(circles.iter().any(|it| it.circle.iter().any(|of| of.ahead == 2 || of.behind == 2)));
    for message in &timeline.messages {
        let [sent, received] = [message.send, message.receive].map(|at| *timeline.span(at));
        assert!(sent.begin_ns < received.end_ns);
    }
}

/// What was overwritten is counted, and launches keep their ranks together.
#[test]
fn losses_are_counted_and_launches_stay_joined() {
    let run = run("allreduce/two_shot");
    let recordings = run.record().into_iter().map(|file| Recording::read(&file).unwrap());
    let recordings: Vec<Recording> = recordings.collect();
    check_losses(recordings.clone());
    let mut of_kernels = recordings;
    of_kernels.iter_mut().for_each(leave_numbers_out);
    check_losses(of_kernels);
}

fn check_losses(mut recordings: Vec<Recording>) {
    // Rank 1 has lost the begin of everything: calls 1 to 3, and a part of call 4.
    let mut unassigned = 0;
    for track in recordings[1].tracks.values_mut() {
        let piece = &mut track.pieces[0];
        let begins = piece.records.iter().enumerate();
        let begins = begins.filter(|(_, record)| record.kind == RecordKind::Begin);
        let (at, _) = begins.clone().nth(3).unwrap();
        let (next, _) = begins.clone().nth(4).unwrap();
        piece.records.drain(..at + 2);
        piece.first = at as u64 + 2;
        track.lost = at as u64 + 2;
        unassigned += (next - at - 2) as u64;
    }
    // The calls of all ranks have one number, as in the replays of a graph.
    for recording in &mut recordings {
        for record in recording.tracks.values_mut().flat_map(|it| &mut it.pieces[0].records) {
            if record.kind == RecordKind::Begin {
                record.message = 1;
            }
        }
    }
    let timeline = Timeline::join(recordings).unwrap();
    assert_eq!(timeline.launches.len(), 10);
    for (number, launch) in timeline.launches.iter().enumerate() {
        let has_rank_1 = launch.of_rank[1].is_some();
        assert_eq!(has_rank_1, number > 3, "{number}");
        assert!(launch.end_ns - launch.begin_ns < 300_000.0, "{launch:?}");
    }
    let found: u64 = timeline.ranks[1].tracks.iter().map(|track| track.unassigned).sum();
    assert_eq!(found, unassigned);
}

#[test]
fn recordings_that_do_not_belong_together_are_refused() {
    let recordings = |name: &str| -> Vec<Recording> {
        run(name).record().iter().map(|file| Recording::read(file).unwrap()).collect()
    };
    let mut twice = recordings("allreduce/ring");
    twice.extend(recordings("allreduce/ring"));
    assert_eq!(Timeline::join(twice), Err(JoinError::Twice { rank: 0 }));
    assert_eq!(Timeline::join(Vec::new()), Err(JoinError::Nothing));
    let mut mixed = recordings("allreduce/ring");
    mixed[1].header.communicator = "other".to_owned();
    assert!(matches!(Timeline::join(mixed), Err(JoinError::Communicators { .. })));
}
