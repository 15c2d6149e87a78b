//! Files for other tools hold what happened.

use std::collections::HashMap;

use msccl_testkit::recordings::ImaginedRun;
use msccl_trace::export::{chrome, kineto_base_ns, merge_with_profile, perfetto};
use msccl_trace::recording::Recording;
use msccl_trace::timeline::Timeline;

use crate::plans::all_reduce;
use crate::protobuf::{ReadSlice, read};

fn run(name: &str) -> (ImaginedRun, Timeline) {
    let run = ImaginedRun::new(all_reduce(name, 4), 4 << 20, 4).cut_into(2, 2);
    let recordings = run.record().iter().map(|file| Recording::read(file).unwrap()).collect();
    (run, Timeline::join(recordings).unwrap())
}

#[test]
fn perfetto_traces_hold_every_step_without_gaps() {
    for name in ["allreduce/ring", "allreduce/two_shot", "allreduce/one_step"] {
        let (run, timeline) = run(name);
        let trace = read(&perfetto(&timeline, &[]));
        let blocks = trace.tracks.values().filter(|(name, _)| name.starts_with("thread block"));
        let plans = run.plans.iter().map(|plan| plan.thread_blocks.len() * 2);
        assert_eq!(blocks.count(), plans.sum::<usize>(), "{name}");
        for rank in 0..4 {
            check_rank(&run, &trace.tracks, &trace.slices, rank);
        }
        check_flows(&timeline, &trace.slices);
        let parent =
            |track: &u64| trace.tracks[track].1.map(|parent| trace.tracks[&parent].0.clone());
        for (track, _, value) in &trace.counters {
            assert!(trace.tracks[track].0.starts_with("GB/s to rank"));
            assert!((0.0..=200.0).contains(value), "{value}");
            assert!(parent(track).unwrap().starts_with("msccl rank"));
        }
        assert!(trace.counters.iter().any(|(_, _, value)| *value > 30.0), "{name}");
    }
}

/// Within each call, the slices of a thread block follow each other; each belongs to a step.
fn check_rank(
    run: &ImaginedRun,
    tracks: &HashMap<u64, (String, Option<u64>)>,
    slices: &[ReadSlice],
    rank: usize,
) {
    let is_of_rank = |track: u64| {
        let parent = tracks[&track].1.unwrap();
        tracks[&parent].0.starts_with(&format!("msccl rank {rank} "))
    };
    let of = |prefix: &str| {
        let of_track = |slice: &&ReadSlice| tracks[&slice.track].0.starts_with(prefix);
        let mut all: Vec<_> =
            slices.iter().filter(|it| is_of_rank(it.track)).filter(of_track).collect();
        all.sort_by_key(|slice| (slice.track, slice.begin_ns));
        all
    };
    let calls = of("calls");
    assert_eq!(calls.len(), run.calls as usize);
    assert_eq!(calls[0].name, format!("allreduce of 4194304 bytes: {}", run.plans[0].algorithm));
    assert_eq!(calls[0].annotations["why"], "it was imagined");
    for block in of("thread block").chunk_by(|one, other| one.track == other.track) {
        for call in &calls {
            let within = block
                .iter()
                .filter(|slice| call.begin_ns <= slice.begin_ns && slice.end_ns <= call.end_ns);
            let within: Vec<_> = within.collect();
            assert!(!within.is_empty());
            assert!(within.windows(2).all(|two| two[0].end_ns == two[1].begin_ns));
            assert!(within.last().unwrap().name.starts_with("finish"));
        }
        let number: usize = tracks[&block[0].track].0["thread block ".len()..].parse().unwrap();
        let plan = &run.plans[rank].thread_blocks;
        let steps = &plan[number % plan.len()].steps;
        for slice in block.iter().filter(|slice| !slice.name.starts_with("finish")) {
            let index: u32 = slice.annotations["step"].parse().unwrap();
            let step = steps.iter().find(|step| step.index == index).unwrap();
            assert_eq!(slice.annotations["does"], step.text);
            assert_eq!(slice.annotations["line"], step.line.unwrap().to_string());
            assert_eq!(slice.annotations["program"], *run.plans[rank].source.as_ref().unwrap());
        }
        let moves = block.iter().filter(|slice| slice.annotations.contains_key("bytes"));
        assert_eq!(moves.count(), steps.len() * (run.calls * run.cut.rounds) as usize);
    }
}

/// Each message is an arrow from a move that sends to one that receives.
fn check_flows(timeline: &Timeline, slices: &[ReadSlice]) {
    let (mut begins, mut ends) = (HashMap::new(), HashMap::new());
    for slice in slices {
        begins.extend(slice.flows.iter().map(|flow| (*flow, slice)));
        ends.extend(slice.terminating_flows.iter().map(|flow| (*flow, slice)));
    }
    assert_eq!((begins.len(), ends.len()), (timeline.messages.len(), timeline.messages.len()));
    for (flow, begin) in begins {
        assert!(begin.begin_ns < ends[&flow].end_ns && begin.begin_ns <= ends[&flow].begin_ns);
    }
}

#[test]
fn profiles_for_chrome_are_on_the_base_of_kineto() {
    let (_, timeline) = run("allreduce/ring");
    let base_ns = kineto_base_ns(timeline.origin_unix_ns);
    assert!(timeline.origin_unix_ns - base_ns < 90 * 24 * 3600 * 1_000_000_000);
    let profile: serde_json::Value =
        serde_json::from_str(&chrome(&timeline, &[], base_ns)).unwrap();
    assert_eq!(profile["baseTimeNanoseconds"], base_ns);
    let events = profile["traceEvents"].as_array().unwrap();
    let first = events.iter().find(|event| event["ph"] == "X" && event["cat"] == "call").unwrap();
    let us = first["ts"].as_f64().unwrap();
    let expected_ns = (timeline.origin_unix_ns - base_ns) as f64 + timeline.launches[0].begin_ns;
    assert!((us * 1000.0 - expected_ns).abs() < 10.0, "{us} {expected_ns}");
    let count = |phase: &str| events.iter().filter(|event| event["ph"] == phase).count();
    let spans = timeline.ranks.iter().map(|rank| rank.spans.len() + rank.launches.len());
    assert_eq!(count("X"), spans.sum::<usize>());
    assert_eq!((count("s"), count("f")), (timeline.messages.len(), timeline.messages.len()));
    let step = events.iter().find(|event| event["cat"] == "move").unwrap();
    assert!(step["args"]["line"].is_number() && step["args"]["bytes"] == 262_144, "{step}");
}

#[test]
fn profiles_of_pytorch_take_the_events() {
    let (_, timeline) = run("allreduce/ring");
    let base_ns = 1_799_999_000_000_000_000_u64;
    let torch = format!(
        r#"{{"schemaVersion":1,"baseTimeNanoseconds":{base_ns},
            "traceEvents":[{{"ph":"X","name":"aten::mm","pid":7,"tid":7,"ts":1.0,"dur":2.0}}]}}"#
    );
    let merged = merge_with_profile(&timeline, &[], &torch).unwrap();
    let merged: serde_json::Value = serde_json::from_str(&merged).unwrap();
    assert_eq!(
        (&merged["schemaVersion"], &merged["baseTimeNanoseconds"]),
        (&1.into(), &base_ns.into())
    );
    let events = merged["traceEvents"].as_array().unwrap();
    assert_eq!(events[0]["name"], "aten::mm");
    let call = events.iter().find(|event| event["cat"] == "call").unwrap();
    assert!((call["ts"].as_f64().unwrap() - 1e9).abs() < 1e6, "{call}");
    assert!(merge_with_profile(&timeline, &[], "[1]").is_err());
    assert!(merge_with_profile(&timeline, &[], "{").is_err());
}
