//! `msccl trace`: recordings in, answers out.

use std::fs;
use std::path::PathBuf;

use msccl_collective::{CallPlacement, CollectiveKind};
use msccl_plan::Plan;
use msccl_registry::{Registry, Shape};
use msccl_testkit::recordings::{ImaginedRun, PlantedFault};
use msccl_trace::record::{Record, RecordKind};
use msccl_trace::recording::{
    Call, CallCut, CallShapeDescription, ClockSample, Engine, Header, KernelDescription,
    LaunchKind, Moment, PlanDescription, Recorder, Work,
};
use msccl_trace::{PlanName, StepGrouping, describe};
use serde_json::Value;

use crate::{arg, check_refusal, file, msccl};

/// The plans of a built-in all-reduce.
fn plans(name: &str, ranks: u32) -> Vec<PlanDescription> {
    let registry = Registry::new(Shape { ranks, per_node: ranks }, &[]);
    let kind = CollectiveKind::AllReduce;
    let entry = registry.built_in_named(kind, CallPlacement::OutOfPlace, name).unwrap();
    let source = entry.source.as_ref().unwrap();
    let name = PlanName { id: 0, algorithm: name, source: Some(&source.name) };
    let plans = Plan::all(&entry.verified).unwrap();
    plans
        .iter()
        .map(|plan| describe(name, plan.program(), StepGrouping::Bundles, |at| source.line(at)))
        .collect()
}

fn imagined() -> ImaginedRun {
    ImaginedRun::new(plans("allreduce/ring", 4), 4 << 20, 4)
}

/// A folder with the recordings of a run, and something else.
fn folder(name: &str, files: &[Vec<u8>]) -> PathBuf {
    let folder = file(&format!("trace/{name}/notes.txt"), "not a recording");
    let folder = folder.parent().unwrap().to_owned();
    for (rank, bytes) in files.iter().enumerate() {
        file(&format!("trace/{name}/rank{rank}.rec"), bytes);
    }
    folder
}

#[test]
fn a_report_names_the_culprit_in_its_first_lines() {
    let late = PlantedFault::LateRank { rank: 3, first: 7, last: 7, late_ns: 200_000.0 };
    let folder = folder("late", &imagined().with([late]).record());
    let ran = msccl(&["trace", "report", arg(&folder)]);
    assert_eq!(ran.code, 0, "{ran}");
    let head: Vec<&str> = ran.stdout.lines().take(5).collect();
    assert!(head[0].starts_with("4 of 4 ranks on 1 host, 10 launches in"), "{ran}");
    assert!(head[1].starts_with("rank 3 is late by 200 µs (call 7; 1 of 10)"), "{ran}");
    let json = msccl(&["trace", "report", arg(&folder), "--format", "json"]).json();
    assert_eq!(json["schema"], "msccl-trace-report/1");
    assert_eq!(json["communicator"], "imagined");
    assert_eq!(
        (&json["findings"][0]["culprit"], &json["findings"][0]["rank"]),
        (&"late_rank".into(), &3.into())
    );
    // One file alone is a report, too.
    let alone = msccl(&["trace", "report", arg(&folder.join("rank0.rec"))]);
    assert!(alone.stdout.contains("1 of 4 ranks"), "{alone}");
    assert!(alone.stdout.contains("note: there is no recording of ranks 1, 2, 3"), "{alone}");
}

#[test]
fn a_page_and_files_for_other_tools_are_written() {
    let folder = folder("files", &imagined().record());
    let path = |name: &str| folder.join(name).to_str().unwrap().to_owned();
    let (page, trace, profile) = (path("report.html"), path("run.pftrace"), path("run.json"));
    let ran = msccl(&["trace", "report", arg(&folder), "--html", &page]);
    assert_eq!(ran.code, 0, "{ran}");
    assert!(fs::read_to_string(&page).unwrap().contains("<svg class=\"chart\""));
    let converts = ["trace", "convert", arg(&folder), "--perfetto", &trace, "--chrome", &profile];
    let ran = msccl(&converts);
    assert_eq!((ran.code, ran.stdout.as_str()), (0, ""), "{ran}");
    assert!(fs::read(&trace).unwrap().starts_with(&[0x0a]));
    let json: Value = serde_json::from_str(&fs::read_to_string(&profile).unwrap()).unwrap();
    assert!(json["traceEvents"].as_array().unwrap().len() > 500);
    let torch = file("trace/torch.json", r#"{"baseTimeNanoseconds":7,"traceEvents":[{"ph":"i"}]}"#);
    let merged = path("merged.json");
    let args = ["trace", "convert", arg(&folder), "--chrome", &merged, "--merge", arg(&torch)];
    let ran = msccl(&args);
    assert_eq!(ran.code, 0, "{ran}");
    let json: Value = serde_json::from_str(&fs::read_to_string(&merged).unwrap()).unwrap();
    assert_eq!(
        (&json["baseTimeNanoseconds"], &json["traceEvents"][0]["ph"]),
        (&7.into(), &"i".into())
    );
}

#[test]
fn two_runs_are_compared() {
    let slow = PlantedFault::SlowLink { from: 1, to: 2, bytes_per_ns: 5.0 };
    let before = folder("before", &imagined().record());
    let after = folder("after", &imagined().with([slow]).record());
    for args in [
        ["trace", "compare", arg(&before), arg(&after)].as_slice(),
        &["trace", "report", arg(&after), "--against", arg(&before)],
    ] {
        let ran = msccl(args);
        assert_eq!(ran.code, 0, "{ran}");
        assert!(ran.stdout.starts_with("new in the second run: link 1→2 is slow"), "{ran}");
        assert!(ran.stdout.contains("allreduce of 4 MiB by allreduce/ring: "), "{ran}");
    }
}

#[test]
fn several_runs_are_compared_with_the_first() {
    let run = |name: &str, factor: f64| {
        let slow = PlantedFault::SlowBlock { rank: 1, thread_block: 0, factor };
        folder(name, &imagined().with([slow]).record())
    };
    let [one, two, three] =
        [("one", 1.0), ("two", 2.0), ("three", 4.0)].map(|(name, factor)| run(name, factor));
    let args = ["trace", "compare", arg(&one), arg(&two), arg(&three)];
    let ran = msccl(&args);
    assert_eq!(ran.code, 0, "{ran}");
    let heads = ran.stdout.lines().filter(|line| line.contains(", then "));
    assert_eq!(heads.count(), 2, "{ran}");
    let json = msccl(&[&args[..], &["--format", "json"]].concat()).json();
    let ratio = |at: usize| {
        let of = &json[at]["groups"][0]["duration_us"];
        of[1].as_f64().unwrap() / of[0].as_f64().unwrap()
    };
    assert!(1.0 < ratio(0) && ratio(0) < ratio(1), "{json}");
    assert_eq!(json[1]["second"], arg(&three));
    check_refusal(&["trace", "compare", arg(&one)], 2, "2 values required");
}

#[test]
fn what_is_no_recording_is_refused() {
    let empty = folder("empty", &[]);
    check_refusal(&["trace", "report", arg(&empty)], 2, "expected recordings, found none in");
    let text = empty.join("notes.txt");
    check_refusal(&["trace", "report", arg(&text)], 2, "expected a recording, which begins with");
    check_refusal(&["trace", "report", "no/such"], 2, "there is no folder no");
    check_refusal(&["trace", "convert", arg(&empty)], 2, "--perfetto <OUT>");
    let run = imagined().record();
    let twice = folder("twice", &[run[0].clone(), run[0].clone()]);
    check_refusal(
        &["trace", "report", arg(&twice)],
        2,
        "found two of rank 0; name those of one run",
    );
    let other = ["trace", "report", arg(&twice), "--communicator", "x"];
    check_refusal(&other, 2, "expected recordings of the communicator x, found none");
}

/// A run that goes exactly as the cost model says has no error, step by step.
#[test]
fn a_run_as_the_model_predicts_has_no_error() {
    for name in ["allreduce/ring", "allreduce/two_shot"] {
        let shown = msccl(&[
            "show", name, "--ranks", "4", "--stage", "timeline", "--size", "1MiB", "--format",
            "json",
        ])
        .json();
        let plans = plans(name, 4);
        let files: Vec<_> = (0..4).map(|rank| recorded(&shown, &plans, rank)).collect();
        let folder = folder(&name.replace('/', "-"), &files);
        let ran = msccl(&["trace", "report", arg(&folder), "--predict", "--format", "json"]);
        assert_eq!(ran.code, 0, "{ran}");
        let json = ran.json();
        let prediction = &json["groups"][0]["prediction"];
        let figure = |field: &str| prediction[field].as_f64().unwrap();
        assert!(prediction["steps"].as_array().unwrap().len() > 10, "{name}: {json}");
        assert!(figure("mean_end_error_us") < 0.01, "{name}: {prediction}");
        assert!(figure("mean_move_error_us") < 0.01, "{name}: {prediction}");
        assert_eq!(prediction["first_deviation"], Value::Null, "{name}");
    }
}

#[test]
fn programs_that_are_not_built_in_are_named_for_predictions() {
    let mut run = imagined();
    for plan in &mut run.plans {
        plan.algorithm = "mine".to_owned();
        plan.source = Some("somewhere/mine.msccl".to_owned());
    }
    let folder = folder("mine", &run.record());
    let ran = msccl(&["trace", "report", arg(&folder), "--predict"]);
    assert_eq!(ran.code, 0, "{ran}");
    assert!(ran.stderr.contains("no prediction for mine"), "{ran}");
    assert!(ran.stderr.contains("--program names its program"), "{ran}");
    let text = msccl(&["list", "allreduce/ring"]).stdout;
    let program = file("trace/mine.msccl", text);
    let ran = msccl(&["trace", "report", arg(&folder), "--predict", "--program", arg(&program)]);
    assert_eq!(ran.code, 0, "{ran}");
    assert!(ran.stdout.contains("  prediction    "), "{ran}");
    assert!(ran.stdout.contains("GB/s of 3"), "the links of the supposed machine: {ran}");
}

/// The recording of a rank that does what `msccl show --stage timeline` has shown.
fn recorded(shown: &Value, plans: &[PlanDescription], rank: u32) -> Vec<u8> {
    let header = Header {
        host: "host".to_owned(),
        process: rank,
        rank,
        ranks: plans.len() as u32,
        communicator: "modelled".to_owned(),
        name: String::new(),
        engine: Engine::Gpu { name: "a GPU".to_owned(), bus_id: String::new() },
        start: Moment { unix_ns: 1_800_000_000_000_000_000, monotonic_ns: 0 },
    };
    let plan = &plans[rank as usize];
    let mut recorder = Recorder::new(Vec::new(), &header, 1 << 30).unwrap();
    recorder.plan(plan).unwrap();
    recorder.call_shape(&shape(shown)).unwrap();
    let launch = LaunchKind::Stream;
    recorder.call(Call { number: 1, shape: 0, launch, enqueue_ns: 0 }).unwrap();
    for time_ns in [0, 1_000_000] {
        let sample = ClockSample { before_ns: time_ns, device_ns: time_ns, after_ns: time_ns };
        recorder.clock(sample).unwrap();
    }
    for row in shown["rows"].as_array().unwrap().iter().filter(|row| row["rank"] == rank) {
        let tb = row["tb"].as_u64().unwrap();
        let steps = &plan.thread_blocks[tb as usize].steps;
        let spans = row["spans"].as_array().unwrap();
        let ns =
            |span: &Value, field: &str| (span[field].as_f64().unwrap() * 1000.0).round() as u64;
        let first_ns = spans.first().map_or(0, |span| ns(span, "wait_us"));
        let record = |time_ns, kind, step| Record { time_ns, kind, step, message: 1 }.pack();
        let mut records = vec![record(first_ns, RecordKind::Begin, 0)];
        for span in spans {
            let last = span["step"].as_u64().unwrap() as u32;
            let is_it = |step: &&msccl_trace::recording::StepDescription| {
                (step.index..step.index + step.bundled).contains(&last)
            };
            let step = steps.iter().find(is_it).unwrap().index;
            records.push(record(ns(span, "start_us"), RecordKind::WaitBlock, step));
            records.push(record(ns(span, "end_us"), RecordKind::Move, step));
        }
        let end_ns = spans.last().map_or(0, |span| ns(span, "end_us"));
        records.push(record(end_ns, RecordKind::End, 0));
        recorder.records(tb as u32, 0, &records).unwrap();
    }
    recorder.finish().unwrap()
}

fn shape(shown: &Value) -> CallShapeDescription {
    // `Simple, 4 × 1 thread blocks of 512 threads`
    let service = shown["service"].as_str().unwrap();
    let instances: u32 = service.split([' ', ',']).find_map(|word| word.parse().ok()).unwrap();
    let part_bytes = (1 << 18) / u64::from(instances);
    let cut = CallCut {
        chunk_bytes: 1 << 18,
        part_bytes,
        slice_bytes: part_bytes,
        rounds: shown["rounds"].as_u64().unwrap() as u32,
        instances,
        chunks_per_message: u32::MAX,
    };
    let kernel = KernelDescription {
        kind: "interpreter".to_owned(),
        protocol: "Simple".to_owned(),
        delivery: "staged".to_owned(),
        threads: 512,
    };
    CallShapeDescription {
        id: 0,
        collective: "allreduce".to_owned(),
        data_type: "f32".to_owned(),
        reduction: Some("sum".to_owned()),
        count: 1 << 18,
        bytes: 1 << 20,
        placement: "out of place".to_owned(),
        reason: String::new(),
        work: Work::Plan { plan: 0, kernel, cut },
    }
}
