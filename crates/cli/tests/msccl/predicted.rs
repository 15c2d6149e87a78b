//! Real runs on host threads beside what the cost model predicts for such hosts: every step has its
//! error, and the first that deviates is named.

use std::collections::HashMap;
use std::fs;
use std::path::Path;

use msccl_trace::record::RecordKind;
use msccl_trace::recording::{Recording, Work};
use serde_json::Value;

use crate::planted::{RING, Run};
use crate::{arg, msccl};

const HIERARCHICAL: &str = "allreduce/hierarchical";

#[test]
fn every_step_of_a_run_stands_beside_its_prediction() {
    let runs = [
        Run { name: "predicted-ring", ..RING },
        Run { name: "predicted-two-shot", algorithm: "allreduce/two_shot", ..RING },
        Run { name: "predicted-hierarchical", algorithm: HIERARCHICAL, per_host: 2, ..RING },
    ];
    for run in runs {
        let Some(folder) = run.record() else { return };
        check(&folder, run.algorithm);
    }
}

fn check(folder: &Path, algorithm: &str) {
    let page = folder.join("report.html");
    let args = ["trace", "report", arg(folder), "--predict"];
    let text = msccl(&[&args[..], &["--html", arg(&page)]].concat());
    assert_eq!((text.code, &*text.stderr), (0, ""), "{algorithm}: {text}");
    let json = msccl(&[&args[..], &["--format", "json"]].concat()).json();
    let group = &json["groups"][0];
    assert!(group["name"].as_str().unwrap().ends_with(&format!(" by {algorithm}")), "{group}");
    let prediction = &group["prediction"];
    let assumptions = prediction["assumptions"].as_str().unwrap();
    assert!(assumptions.starts_with("hosts; "), "{assumptions}");
    // What hosts are supposed to have: 3 GB/s within one, 1 GB/s between two.
    let busiest = &group["busiest_link"];
    let [carries, can_carry] =
        ["gb_per_s", "can_carry_gb_per_s"].map(|field| busiest[field].as_f64().unwrap());
    assert!(0.0 < carries && 0.5 < can_carry && can_carry <= 3.0, "{busiest}");
    let steps = prediction["steps"].as_array().unwrap();
    let recordings: Vec<Recording> = recordings(folder);
    check_steps(&recordings, group["shown_call"].as_u64().unwrap(), steps, algorithm);
    check_errors(prediction, steps);
    let deviation = prediction["first_deviation"]["text"].as_str().unwrap();
    assert!(deviation.contains("is the first to deviate: it ends "), "{deviation}");
    let page = fs::read_to_string(&page).unwrap();
    for shown in [&text.stdout, &page] {
        assert!(shown.contains(deviation) && shown.contains(assumptions), "{algorithm}");
    }
    // A second track for each thread block, and what is predicted for each step.
    assert!(page.matches("<rect class=\"predicted\"").count() >= steps.len(), "{algorithm}");
    assert!(page.contains(" deviating\""), "{algorithm}");
}

fn recordings(folder: &Path) -> Vec<Recording> {
    let files = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let files = files.filter(|path| path.extension().is_some_and(|of| of == "recording"));
    files.map(|path| Recording::read(&fs::read(path).unwrap()).unwrap()).collect()
}

/// There is a prediction for every step of the plan in every round, and the last round of each
/// ended when its last record says, counted from the first record of its rank.
fn check_steps(recordings: &[Recording], call: u64, steps: &[Value], algorithm: &str) {
    let key = |of: &Value| {
        ["rank", "thread_block", "step", "round"].map(|field| of[field].as_u64().unwrap() as u32)
    };
    let by_key: HashMap<_, _> = steps.iter().map(|step| (key(step), step)).collect();
    let mut count = 0;
    for recording in recordings {
        let shape = recording.calls.iter().find(|of| of.number == call).unwrap().shape;
        let Work::Plan { plan, cut, .. } = &recording.shapes[&shape].work else { panic!() };
        let plan = &recording.plans[plan];
        count +=
            plan.thread_blocks.iter().map(|of| of.steps.len()).sum::<usize>() * cut.rounds as usize;
        let blocks = (0..).zip(&plan.thread_blocks).map(|(track, _)| track);
        let blocks: Vec<_> = blocks.map(|track| (track, of_call(recording, track, call))).collect();
        let begins = blocks.iter().map(|(_, records)| records[0].time_ns);
        let begin_ns = begins.min().unwrap();
        for (track, records) in &blocks {
            let moves = records.iter().filter(|of| of.kind == RecordKind::Move);
            let last: HashMap<u32, u64> = moves.map(|of| (of.step, of.time_ns)).collect();
            for (step, end_ns) in last {
                let found = by_key[&[recording.header.rank, *track, step, cut.rounds - 1]];
                let end_us = found["measured_end_us"].as_f64().unwrap();
                let expected_us = (end_ns - begin_ns) as f64 / 1000.0;
                assert!((end_us - expected_us).abs() < 1.0, "{algorithm}: {found} {expected_us}");
                assert!(found["line"].is_number(), "{algorithm}: {found}");
            }
        }
    }
    assert_eq!((steps.len(), by_key.len()), (count, count), "{algorithm}");
}

/// The records of a thread block of the first instance in a call.
fn of_call(recording: &Recording, track: u32, call: u64) -> Vec<msccl_trace::record::Record> {
    let records = recording.tracks[&track].pieces.iter().flat_map(|piece| &piece.records);
    let is_begin = |of: &&msccl_trace::record::Record| {
        of.kind == RecordKind::Begin && u64::from(of.message) == call
    };
    let from = records.skip_while(|of| !is_begin(of));
    let mut has_ended = false;
    from.take_while(|of| !std::mem::replace(&mut has_ended, of.kind == RecordKind::End))
        .copied()
        .collect()
}

/// Errors are what measured and predicted times differ by; the first step that deviates ends later
/// by more than a twentieth of the call, and none before it does.
fn check_errors(prediction: &Value, steps: &[Value]) {
    let of = |step: &Value, field: &str| step[field].as_f64().unwrap();
    let moved = |step: &Value, how: &str| {
        of(step, &format!("{how}_end_us")) - of(step, &format!("{how}_begin_us"))
    };
    let errors =
        steps.iter().map(|step| (moved(step, "measured") - moved(step, "predicted")).abs());
    let mean_us = errors.sum::<f64>() / steps.len() as f64;
    let reported_us = of(prediction, "mean_move_error_us");
    assert!((mean_us - reported_us).abs() < 1e-6 * mean_us.max(1.0), "{mean_us} {reported_us}");
    let is_late = |step: &&Value| {
        of(step, "measured_end_us") - of(step, "predicted_end_us")
            > 0.05 * of(prediction, "predicted_us")
    };
    let mut by_end: Vec<&Value> = steps.iter().filter(is_late).collect();
    by_end.sort_by(|a, b| of(a, "predicted_end_us").total_cmp(&of(b, "predicted_end_us")));
    let first = &prediction["first_deviation"];
    assert_eq!(of(first, "predicted_end_us"), of(by_end[0], "predicted_end_us"));
}
