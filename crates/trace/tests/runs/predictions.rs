//! Reports beside a prediction, and beside another run.

use std::collections::HashMap;

use msccl_testkit::recordings::{ImaginedRun, PlantedFault};
use msccl_trace::export::perfetto;
use msccl_trace::predict::{PlacedPrediction, PredictedStep, Prediction};
use msccl_trace::record::RecordKind;
use msccl_trace::report::{
    Culprit, Expectations, GroupReport, compare, comparison_text, html, report, subjects, text,
};

use crate::faults::joined;
use crate::plans::all_reduce;
use crate::protobuf::read;

fn run() -> ImaginedRun {
    let mut run = ImaginedRun::new(all_reduce("allreduce/two_shot", 4), 4 << 20, 4).cut_into(1, 2);
    run.calls = 3;
    run
}

/// Calls of one name that differ in type or placement: each is compared with its like, whichever
/// takes most time.
#[test]
fn calls_are_compared_with_their_like() {
    let usual = report(&joined(&run()), &Expectations::default());
    let [group] = &usual.groups[..] else { panic!("{} groups", usual.groups.len()) };
    let of = |placement: &str, data_type: &str, calls| GroupReport {
        placement: Some(placement.to_owned()),
        data_type: Some(data_type.to_owned()),
        calls,
        ..group.clone()
    };
    let groups = [of("out of place", "f32", 1), of("in place", "f32", 2), of("in place", "f16", 3)];
    let [mut before, mut after] = [usual.clone(), usual.clone()];
    before.groups = groups.to_vec();
    after.groups = groups.into_iter().rev().collect();
    let found = compare(&before, &after);
    let mut calls: Vec<_> = found.groups.iter().map(|group| group.calls).collect();
    calls.sort_unstable();
    assert_eq!(calls, [[1, 1], [2, 2], [3, 3]]);
    assert!(found.unmatched.is_empty());
    let shown = comparison_text(&found);
    assert!(shown.contains("(2 and 2 calls in place)"), "{shown}");
    after.groups.truncate(2);
    assert_eq!(compare(&before, &after).unmatched.len(), 1);
}

/// What happens in the first call of a run, as if a model had said it.
pub fn prediction(run: &ImaginedRun) -> Prediction {
    let execution = run.execute();
    let mut steps = Vec::new();
    for (rank, tracks) in (0..).zip(&execution.ends) {
        for (thread_block, ends) in (0..).zip(tracks) {
            let (mut rounds, mut before_ns, mut wait_ns) = (HashMap::new(), 0.0, 0.0);
            for end in ends {
                let us = |ns: f64| ns / 1000.0;
                match end.kind {
                    RecordKind::Begin => wait_ns = end.time_ns,
                    RecordKind::End => break,
                    RecordKind::Move => {
                        let round: &mut u32 = rounds.entry(end.step).or_default();
                        steps.push(PredictedStep {
                            rank,
                            thread_block,
                            step: end.step,
                            round: *round,
                            wait_us: us(wait_ns),
                            begin_us: us(before_ns),
                            end_us: us(end.time_ns),
                        });
                        *round += 1;
                        wait_ns = end.time_ns;
                    }
                    RecordKind::WaitRoom
                    | RecordKind::WaitData
                    | RecordKind::WaitBlock
                    | RecordKind::Count => {}
                }
                before_ns = end.time_ns;
            }
        }
    }
    let last_us = steps.iter().map(|step| step.end_us).fold(0.0, f64::max);
    Prediction { assumptions: "an imagined machine".to_owned(), total_us: last_us, steps }
}

pub fn expectations(prediction: Prediction) -> Expectations {
    let pairs = (0..4).flat_map(|from| (0..4).map(move |to| ((from, to), 100.0)));
    Expectations { link_gb_per_s: pairs.collect(), predictions: vec![Some(prediction)] }
}

#[test]
fn a_run_as_predicted_has_no_error() {
    let run = run();
    let timeline = joined(&run);
    let subject = subjects(&timeline)[0].clone().unwrap();
    assert_eq!(subject.algorithm.as_deref(), Some("allreduce/two_shot"));
    assert_eq!((subject.bytes, &*subject.data_type), (4 << 20, "f32"));
    let report = report(&timeline, &expectations(prediction(&run)));
    let found = report.groups[0].prediction.as_ref().unwrap();
    let steps = run.plans.iter().flat_map(|plan| &plan.thread_blocks).flat_map(|of| &of.steps);
    assert_eq!(found.steps.len(), steps.count() * 2);
    assert!(found.mean_move_error_us < 0.01 && found.mean_end_error_us < 0.01, "{found:?}");
    assert_eq!(found.first_deviation, None);
    assert!(report.groups[0].busiest_link.unwrap().can_carry_gb_per_s.is_some());
    assert!(text(&report).contains("GB/s of 100 possible"), "{}", text(&report));
}

#[test]
fn the_first_step_that_deviates_is_named_with_its_line() {
    let slow = PlantedFault::SlowBlock { rank: 2, thread_block: 1, factor: 5.0 };
    let timeline = joined(&run().with([slow]));
    let report = report(&timeline, &expectations(prediction(&run())));
    let found = report.groups[0].prediction.as_ref().unwrap();
    let deviation = found.first_deviation.as_ref().unwrap();
    assert_eq!((deviation.step.rank, deviation.step.thread_block), (2, 1), "{}", deviation.text);
    assert!(deviation.step.line.is_some() && found.mean_move_error_us > 0.1, "{deviation:?}");
    assert!(text(&report).contains("of thread block 1 of rank 2"), "{}", text(&report));
}

#[test]
fn the_prediction_is_a_second_track() {
    let run = run();
    let (timeline, prediction) = (joined(&run), prediction(&run));
    let placed = [PlacedPrediction { launch: 1, prediction: &prediction }];
    let trace = read(&perfetto(&timeline, &placed));
    let predicted: Vec<_> = trace
        .slices
        .iter()
        .filter(|slice| trace.tracks[&slice.track].0.ends_with(", predicted"))
        .collect();
    assert_eq!(predicted.len(), prediction.steps.len());
    let expectations = expectations(prediction);
    let page = html(&report(&timeline, &expectations), &timeline, &expectations);
    assert!(page.contains("<rect class=\"predicted\"") && page.contains(">model</text>"));
}

#[test]
fn reports_are_json() {
    let run = run();
    let report = report(&joined(&run), &expectations(prediction(&run)));
    let json = serde_json::to_value(&report).unwrap();
    assert_eq!(json["schema"], "msccl-trace-report/1");
    let group = &json["groups"][0];
    assert_eq!((&group["calls"], &group["bytes"]), (&3.into(), &(4 << 20).into()));
    assert!(group["by_line"][0]["line"].is_number(), "{}", group["by_line"]);
    assert!(group["prediction"]["steps"][0]["predicted_end_us"].is_number());
}

#[test]
fn two_runs_are_compared() {
    let late = PlantedFault::LateRank { rank: 1, first: 2, last: 2, late_ns: 300_000.0 };
    let expectations = Expectations::default();
    let [before, after] =
        [run(), run().with([late])].map(|run| report(&joined(&run), &expectations));
    let found = compare(&before, &after);
    assert_eq!(found.groups[0].calls, [3, 3]);
    assert!(found.appeared[0].contains("rank 1 is late by"), "{found:?}");
    assert!(found.gone.is_empty() && found.unmatched.is_empty());
    let back = compare(&after, &before);
    assert_eq!((back.gone, back.appeared), (found.appeared.clone(), found.gone.clone()));
    assert!(after.findings.iter().any(|it| it.culprit == Culprit::LateRank { rank: 1 }));
    let shown = comparison_text(&found);
    assert!(shown.starts_with("new in the second run: rank 1 is late by"), "{shown}");
}
