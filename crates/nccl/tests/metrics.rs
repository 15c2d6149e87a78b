//! Metrics for Prometheus: what the file says of calls on host threads, by a reader that knows the
//! format and nothing else.

#![deny(unsafe_code)]
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]
#![allow(clippy::print_stderr, reason = "skips are loud")]

mod programs;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{SystemTime, UNIX_EPOCH};

use programs::{folder, run_all};

/// Bytes of a call of the program.
const BYTES: f64 = 4.0 * 65536.0;

/// A text for Prometheus, read by its rules.
struct Exposition {
    samples: Vec<Sample>,
}

struct Sample {
    name: String,
    labels: BTreeMap<String, String>,
    value: f64,
}

impl Exposition {
    /// Reads `text`, in which each family has a HELP and a TYPE before its samples, which stand
    /// together, and no sample stands twice.
    fn read(text: &str) -> Self {
        assert!(text.ends_with('\n'));
        let (mut samples, mut families, mut seen) = (Vec::new(), BTreeSet::new(), BTreeSet::new());
        let (mut helped, mut current) = (String::new(), (String::new(), String::new()));
        for line in text.lines() {
            if let Some(help) = line.strip_prefix("# HELP ") {
                helped = help.split_once(' ').unwrap().0.to_owned();
            } else if let Some(kind) = line.strip_prefix("# TYPE ") {
                let (name, kind) = kind.split_once(' ').unwrap();
                assert!(["counter", "gauge"].contains(&kind) && name == helped, "{line}");
                assert!(families.insert(name.to_owned()), "{name} stands twice");
                assert_eq!(kind == "counter", name.ends_with("_total"), "{name}");
                current = (name.to_owned(), kind.to_owned());
            } else {
                let sample = Sample::read(line);
                assert_eq!(sample.name, current.0);
                assert!(seen.insert((sample.name.clone(), sample.labels.clone())), "{line}");
                assert!(sample.value.is_finite() && sample.value >= 0.0, "{line}");
                samples.push(sample);
            }
        }
        Self { samples }
    }

    /// The value of the one sample of `name` of `rank` that has the label, if one is given.
    fn value(&self, name: &str, rank: &str, label: Option<(&str, &str)>) -> f64 {
        let has = |sample: &&Sample, name: &str, value: &str| {
            sample.labels.get(name).is_some_and(|found| found == value)
        };
        let all = self.samples.iter().filter(|of| of.name == name && has(of, "rank", rank));
        let own = all.filter(|of| label.is_none_or(|(name, value)| has(of, name, value)));
        let own: Vec<_> = own.collect();
        let [one] = &own[..] else { panic!("{name} of {rank}: {} samples", own.len()) };
        one.value
    }
}

impl Sample {
    /// `name{label="value",…} number`
    fn read(line: &str) -> Self {
        let (name, rest) = line.split_once('{').unwrap();
        let (mut labels, mut rest) = (BTreeMap::new(), rest);
        while !rest.starts_with('}') {
            let (label, behind) = rest.split_once("=\"").unwrap();
            let (value, behind) = Self::quoted(behind);
            assert!(labels.insert(label.to_owned(), value).is_none(), "{line}");
            rest = behind.strip_prefix(',').unwrap_or(behind);
        }
        let value = rest.strip_prefix("} ").unwrap().parse().unwrap();
        Self { name: name.to_owned(), labels, value }
    }

    /// A value up to its quote, and what stands behind that.
    fn quoted(text: &str) -> (String, &str) {
        let (mut value, mut marks) = (String::new(), text.char_indices());
        while let Some((at, mark)) = marks.next() {
            match mark {
                '"' => return (value, &text[at + 1..]),
                '\\' => value.push(match marks.next().unwrap().1 {
                    'n' => '\n',
                    other => other,
                }),
                other => value.push(other),
            }
        }
        panic!("{text}: there is no quote at the end")
    }
}

/// The metrics of the program with `environment`, in a file of this name, and where that is.
fn metrics(name: &str, environment: &[(&str, &str)]) -> Option<(Exposition, PathBuf)> {
    let file = folder().join(name);
    let _ = fs::remove_file(&file);
    let of_file = [("MSCCL_METRICS", file.to_str().unwrap())];
    run_all("metered", &[], &[&of_file[..], environment].concat())?;
    let left = fs::read_dir(folder()).unwrap().map(|entry| entry.unwrap().file_name());
    assert_eq!(left.filter(|name| name.to_string_lossy().ends_with(".tmp")).count(), 0);
    Some((Exposition::read(&fs::read_to_string(&file).unwrap()), file))
}

fn check_calls(found: &Exposition) {
    for rank in ["0", "1"] {
        let of = |name: &str, collective| found.value(name, rank, Some(("collective", collective)));
        // Rank 1 calls once more, alone.
        let more = if rank == "1" { found.value("msccl_failures_total", rank, None) } else { 0.0 };
        assert_eq!(of("msccl_calls_total", "allreduce"), 7.0 + more);
        assert_eq!(of("msccl_bytes_total", "allreduce"), (7.0 + more) * BYTES);
        assert_eq!(of("msccl_timed_calls_total", "allreduce"), 7.0);
        // All that is gathered counts.
        let gathered = ["msccl_calls_total", "msccl_bytes_total"].map(|name| of(name, "allgather"));
        assert_eq!(gathered, [3.0, 3.0 * 2.0 * BYTES]);
        for way in ["send", "recv"] {
            let moved = ["msccl_calls_total", "msccl_timed_bytes_total"].map(|name| of(name, way));
            assert_eq!(moved, [1.0, BYTES]);
        }
        for (collective, factor) in [("allreduce", 1.0), ("allgather", 0.5), ("send", 1.0)] {
            let algbw = of("msccl_algbw_bytes_per_second", collective);
            let busbw = of("msccl_busbw_bytes_per_second", collective);
            assert!(algbw > 1e6 && (busbw / algbw - factor).abs() < 1e-9, "{algbw} {busbw}");
        }
        let bytes = of("msccl_timed_bytes_total", "allreduce");
        let mean = bytes / of("msccl_timed_seconds_total", "allreduce");
        assert!(mean > 1e6, "{mean}");
        let name = Some(("name", "data \"parallel\""));
        assert_eq!(found.value("msccl_rank_info", rank, name), 1.0);
        let began = found.value("msccl_last_call_timestamp_seconds", rank, None);
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs_f64();
        assert!((now - 60.0..now).contains(&began), "{began} {now}");
    }
}

#[test]
fn a_file_for_prometheus() {
    let Some((found, file)) = metrics("at-the-end.prom", &[]) else { return };
    check_calls(&found);
    assert_eq!(found.value("msccl_failures_total", "1", None), 1.0);
    assert_eq!(found.value("msccl_rank_open", "0", None), 0.0);
    let last = Some(("collective", "allreduce"));
    assert_eq!(found.value("msccl_last_call_bytes", "1", last), BYTES);
    assert_eq!(found.value("msccl_block_waiting_seconds_total", "0", None), 0.0);
    check_with_client(&file);
}

/// The official client of Python, where it is installed.
fn check_with_client(file: &Path) {
    let script = "import sys\n\
        try: from prometheus_client.parser import text_string_to_metric_families as families\n\
        except ImportError: sys.exit(77)\n\
        print(sum(len(f.samples) for f in families(open(sys.argv[1]).read())))";
    let python = Command::new("python3").args(["-c", script]).arg(file).output();
    match python {
        Ok(output) if output.status.code() != Some(77) => {
            assert!(output.status.success(), "{}", programs::text(&output.stderr));
            let count: usize = programs::text(&output.stdout).trim().parse().unwrap();
            let own = Exposition::read(&fs::read_to_string(file).unwrap()).samples.len();
            assert_eq!(count, own);
        }
        _ => eprintln!("SKIPPED prometheus_client: Python does not have it"),
    }
}

/// A process that does not end its communicators leaves the file of some seconds before.
#[test]
fn files_are_written_every_few_seconds() {
    let environment = [("WAIT_S", "7"), ("EXIT", "1")];
    let Some((found, _)) = metrics("on-the-way.prom", &environment) else { return };
    check_calls(&found);
    assert_eq!(found.value("msccl_rank_open", "0", None), 1.0);
}

#[test]
fn recorded_calls_say_how_thread_blocks_spend_their_time() {
    let traces = folder().join("metered-traces");
    let environment = [("MSCCL_TRACE", traces.to_str().unwrap())];
    let Some((found, _)) = metrics("recorded.prom", &environment) else { return };
    check_calls(&found);
    let times = ["msccl_block_waiting_seconds_total", "msccl_block_moving_seconds_total"]
        .map(|name| found.value(name, "0", None));
    assert!(times.iter().all(|seconds| *seconds > 0.0), "{times:?}");
}

#[test]
fn a_file_that_cannot_be_written_is_one_line() {
    let nowhere = [("MSCCL_METRICS", "/nowhere/at/all.prom")];
    let Some(written) = run_all("metered", &[], &nowhere) else { return };
    let lines = written.errors.lines().filter(|line| line.contains("MSCCL_METRICS"));
    assert_eq!(lines.count(), 1, "{}", written.errors);
}
