//! What readers of others find in a real run: Perfetto's own package in its file, Python's json in
//! the profile for Chrome, and a program that computes the report's figures anew in the report.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::bench::ours;
use crate::launch::skip;
use crate::planted::{RING, Run};
use crate::{arg, empty_folder, file, msccl};

/// By which the scripts say that they lack a package.
const NOT_HERE: i32 = 77;

/// A profile as PyTorch writes it, some days before the run.
const PROFILE: &str = r#"{"schemaVersion":1,"deviceProperties":[{"id":0,"name":"a GPU"}],
"baseTimeNanoseconds":1790000000000000000,"displayTimeUnit":"ms","traceEvents":[
{"ph":"X","cat":"cpu_op","name":"aten::mm","pid":7,"tid":7,"ts":1234.567,"dur":2.5,
 "args":{"External id":1}},
{"ph":"M","name":"process_name","pid":7,"tid":0,"args":{"name":"python"}}]}"#;

const RUNS: [Run<'static>; 2] = [
    Run { name: "exported-ring", elements: 50_000, ..RING },
    Run { name: "exported-two-shot", algorithm: "allreduce/two_shot", elements: 1 << 18, ..RING },
];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// A Python with Perfetto's package, if the gate has made one.
fn python() -> PathBuf {
    let own = root().join("target/perfetto/bin/python");
    if own.is_file() { own } else { "python3".into() }
}

/// Runs a script of `tests/torch`, which must find nothing wrong; what it said.
fn checked(script: &str, args: &[&str]) -> Option<String> {
    let script = root().join("tests/torch").join(script);
    let output = Command::new(python()).arg("-B").arg(script).args(args).output();
    let output = match output {
        Ok(output) => output,
        Err(error) => {
            skip(&format!("nobody reads exports and reports anew: python3: {error}"));
            return None;
        }
    };
    let said = [output.stdout, output.stderr].map(|of| String::from_utf8_lossy(&of).into_owned());
    if output.status.code() == Some(NOT_HERE) {
        skip(&said.concat());
        return None;
    }
    assert!(output.status.success(), "{args:?}: {}", said.concat());
    Some(said.concat())
}

/// The folder with the recordings of four ranks that send to each other and receive.
fn record_exchanges(name: &str) -> Option<PathBuf> {
    let library = ours()?;
    let folder = empty_folder(&format!("exported/{name}"));
    let trace = format!("MSCCL_TRACE={}", folder.display());
    let place = ["--device", "host", "--ranks", "4", "--library", arg(&library), "--env", &trace];
    let calls = ["-b", "300000", "-e", "300000", "-n", "5", "-c", "0"];
    let ran = msccl(&[&["bench", "sendrecv"][..], &place, &calls].concat());
    assert_eq!(ran.code, 0, "{ran}");
    Some(folder)
}

/// Perfetto's package and Python find what the recordings in `folder` say in files made of them.
fn check_exports(folder: &Path) {
    let profile = file("exported/torch.json", PROFILE);
    let path = |name: &str| folder.join(name).to_str().unwrap().to_owned();
    let (perfetto, chrome) = (path("run.pftrace"), path("both.json"));
    let convert = ["trace", "convert", arg(folder), "--perfetto", &perfetto];
    let ran = msccl(&[&convert[..], &["--chrome", &chrome, "--merge", arg(&profile)]].concat());
    assert_eq!(ran.code, 0, "{ran}");
    let files = ["--perfetto", &perfetto, "--chrome", &chrome, "--profile", arg(&profile)];
    let said = checked("exports.py", &[&[arg(folder)], &files[..]].concat());
    assert!(said.is_none_or(|said| said.contains("perfetto: ")));
}

/// The figures of a report are those that Python computes of the recordings in `folder`.
fn check_report(folder: &Path, name: &str) {
    let ran = msccl(&["trace", "report", arg(folder), "--format", "json"]);
    assert_eq!(ran.code, 0, "{ran}");
    let report = file(&format!("exported/{name}.json"), ran.stdout);
    let said = checked("reports.py", &[arg(folder), arg(&report)]);
    assert!(said.is_none_or(|said| said.contains(" times; critical path: ")));
}

#[test]
fn readers_of_others_find_every_span_message_and_byte() {
    for run in RUNS {
        let name = format!("perfetto-{}", run.name);
        let Some(folder) = (Run { name: &name, ..run }).record() else { return };
        check_exports(&folder);
    }
    let Some(folder) = record_exchanges("exchanges") else { return };
    check_exports(&folder);
}

#[test]
fn figures_of_a_report_are_those_that_others_compute() {
    for run in RUNS {
        let Some(folder) = run.record() else { return };
        check_report(&folder, run.name);
    }
    let Some(folder) = record_exchanges("reported-exchanges") else { return };
    check_report(&folder, "exchanges");
}
