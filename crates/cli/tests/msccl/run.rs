//! `msccl run`.

use crate::{RING, SHORT_RING, msccl, msccl_reading};

#[test]
fn the_first_command_of_a_newcomer() {
    let ran = msccl(&["run", "dsl-examples/allreduce/ring.msccl", "-n", "2"]);
    assert_eq!(ran.code, 0, "{ran}");
    assert!(ran.stdout.starts_with("proved   dsl-examples/allreduce/ring.msccl: ring"), "{ran}");
    assert!(ran.stdout.contains("\ncorrect  "), "{ran}");
    for size in ["1 KiB", "64 KiB", "4 MiB"] {
        assert!(ran.stdout.contains(size), "{size}: {ran}");
    }
}

#[test]
fn json_has_a_row_for_every_size() {
    let args = ["run", "--format", "json", "-n", "1", "--size", "0,1KiB", "--type", "i32", "-"];
    let report = msccl_reading(&args, RING.as_bytes()).json();
    assert_eq!(report["verdict"], "proved");
    assert_eq!(report["correct"], true);
    let runs = report["runs"].as_array().unwrap();
    assert_eq!(runs.len(), 2);
    assert_eq!(runs[0]["count"], 0);
    // 1 KiB over three ranks does not divide: the count is rounded up.
    assert_eq!(runs[1]["count"], 86);
    assert_eq!(runs[1]["bytes"], 86 * 3 * 4);
    assert_eq!(runs[1]["data_type"], "i32");
    assert!(runs[1]["min_us"].as_f64() > Some(0.0));
}

#[test]
fn types_operations_placements_and_counts() {
    let ring = "dsl-examples/allreduce/ring.msccl";
    for data_type in ["i8", "u64", "f16", "bf16", "f64", "f8e4m3"] {
        for op in ["sum", "max", "avg"] {
            let ran =
                msccl(&["run", ring, "--count", "13", "-n", "1", "--type", data_type, "--op", op]);
            assert_eq!(ran.code, 0, "{data_type} {op}: {ran}");
        }
    }
    let outside = msccl(&["run", ring, "--count", "13", "-n", "1", "--placement", "out"]);
    assert_eq!(outside.code, 0, "{outside}");
    assert!(outside.stdout.contains("out of place, on"), "{outside}");
}

#[test]
fn a_refused_algorithm_does_not_run() {
    let ran = msccl_reading(&["run", "-"], SHORT_RING.as_bytes());
    assert_eq!(ran.code, 1, "{ran}");
    assert!(!ran.stdout.contains("correct"), "{ran}");
}

#[test]
fn absurd_sizes_are_reported() {
    crate::check_refusal(
        &["run", "dsl-examples/allreduce/ring.msccl", "--size", "9999TiB"],
        2,
        "larger than 1 TiB",
    );
    // More than the address space, so that no system promises it.
    let huge = ["run", "dsl-examples/allreduce/ring.msccl", "--size", "1TiB", "--ranks", "64"];
    crate::check_refusal(&huge, 2, "takes 256 TiB on 64 ranks, and there is not so much memory");
}

#[test]
fn a_communicator_gives_the_same_results() {
    let programs = ["allreduce/two_shot", "allgather/ring", "reducescatter/direct", "gather/tree"];
    for program in programs {
        for placement in ["in", "out"] {
            let file = format!("dsl-examples/{program}.msccl");
            let overrides = ["--instances", "2", "--protocol", "LL"];
            let terms = ["--count", "0,13,1001", "--type", "f16", "--placement", placement];
            let args =
                [&["run", &file, "--device", "ranks", "-n", "2"], &overrides[..], &terms].concat();
            let ran = msccl(&args);
            assert_eq!(ran.code, 0, "{args:?}: {ran}");
            assert!(ran.stdout.contains("ranks, r0 on host threads"), "{ran}");
        }
    }
}

#[test]
fn custom_collectives_and_finished_algorithms_run_on_communicators() {
    let custom = "dsl-examples/custom/halo.msccl";
    let ran = msccl(&["run", custom, "--device", "ranks", "--format", "json", "-n", "1"]);
    assert_eq!(ran.code, 0, "{ran}");
    let report = ran.json();
    assert_eq!((&report["device"], &report["correct"]), (&"ranks".into(), &true.into()));
    assert!(report["runs"][0]["compared"].as_u64() > Some(0), "{ran}");
    let xml = crate::exchange_xml(2);
    let ran = msccl_reading(&["run", "--device", "ranks", "-n", "1", "-"], xml.as_bytes());
    assert_eq!(ran.code, 0, "{ran}");
    assert!(ran.stdout.contains("on native Simple links"), "{ran}");
}

#[test]
fn sizes_that_an_algorithm_does_not_serve_are_no_wrong_results() {
    let program = RING.replace(" in place", " in place bytes 0..4KiB");
    for device in ["host", "ranks"] {
        let args = ["run", "--device", device, "-n", "1", "--size", "60,6000", "-"];
        let ran = msccl_reading(&args, program.as_bytes());
        assert_eq!(ran.code, 2, "{ran}");
        let expected =
            "expected a --size that the algorithm serves (sizes below 4 KiB), found 5.9 KiB";
        assert!(ran.stderr.contains(expected) && !ran.stdout.contains("wrong"), "{ran}");
    }
}

/// An exchange in place of two ranks, for calls of those sizes.
fn exchange_of(min_bytes: u64, end_bytes: u64) -> String {
    let gpu = |id: u32| {
        let step = |s: u32, kind: &str| {
            format!(
                "<step s=\"{s}\" type=\"{kind}\" srcbuf=\"i\" srcoff=\"0\" dstbuf=\"i\" \
                 dstoff=\"0\" cnt=\"1\" depid=\"-1\" deps=\"-1\" hasdep=\"0\"/>"
            )
        };
        let (peer, steps) = (1 - id, step(0, "s") + &step(1, "rrc"));
        format!(
            "<gpu id=\"{id}\" i_chunks=\"1\" o_chunks=\"1\" s_chunks=\"1\">\
             <tb id=\"0\" send=\"{peer}\" recv=\"{peer}\" chan=\"0\">{steps}</tb></gpu>"
        )
    };
    format!(
        "<algo name=\"exchange\" proto=\"Simple\" nchannels=\"1\" nchunksperloop=\"1\" ngpus=\"2\" \
         coll=\"allreduce\" inplace=\"1\" outofplace=\"0\" minBytes=\"{min_bytes}\" \
         maxBytes=\"{end_bytes}\">{}{}</algo>",
        gpu(0),
        gpu(1)
    )
}

#[test]
fn sizes_are_those_that_the_file_serves() {
    let sizes = |min_bytes, max_bytes, more: &[&str]| {
        let xml = exchange_of(min_bytes, max_bytes);
        let args = [&["run", "-", "-n", "1", "--format", "json"], more].concat();
        let ran = msccl_reading(&args, xml.as_bytes());
        assert_eq!(ran.code, 0, "{min_bytes}..{max_bytes} {more:?}: {ran}");
        let runs = ran.json()["runs"].as_array().unwrap().clone();
        runs.iter().map(|run| run["bytes"].as_u64().unwrap()).collect::<Vec<_>>()
    };
    assert_eq!(sizes(1 << 20, (2 << 20) - 1, &[]), [1 << 20, (2 << 20) - 4]);
    assert_eq!(sizes(1 << 20, (2 << 20) - 1, &["--type", "f64"]), [1 << 20, (2 << 20) - 8]);
    assert_eq!(sizes(32 << 20, 16 << 30, &[]), [32 << 20]);
    assert_eq!(sizes(100, 100, &[]), [100]);
    assert_eq!(sizes(0, 0, &[]), [1 << 10, 64 << 10, 4 << 20]);
    assert_eq!(sizes(1 << 20, (2 << 20) - 1, &["--size", "2097151"]), [(2 << 20) - 4]);
    let none = msccl_reading(&["run", "-"], exchange_of(101, 103).as_bytes());
    assert_eq!(none.code, 2, "{none}");
    assert!(none.stderr.contains("calls have a multiple of 4 bytes"), "{none}");
    let args = ["show", "-", "--stage", "timeline"];
    let shown = msccl_reading(&args, exchange_of(32 << 20, 16 << 30).as_bytes());
    assert!(shown.stdout.contains("32.0 MiB") || shown.stdout.contains("33554432"), "{shown}");
}

#[test]
fn gpus_that_are_not_there_are_reported() {
    let ring = "dsl-examples/allreduce/ring.msccl";
    let ran = msccl(&["run", ring, "--device", "cuda", "--gpus", "4000", "-n", "1"]);
    assert_eq!(ran.code, 2, "{ran}");
    // On a machine without GPUs, and on one with some.
    let without =
        ran.stderr.contains("cannot run on GPUs: ") && ran.stderr.contains("--device host");
    assert!(without || ran.stderr.contains("there is no GPU 4000"), "{ran}");
    crate::check_refusal(&["run", ring, "--gpus", "0"], 2, "which only --device cuda uses");
    let args = ["run", ring, "--device", "ranks", "--threads", "2"];
    crate::check_refusal(&args, 2, "--threads is for --device host");
    let args = ["run", ring, "--device", "ranks", "--target", "msccl"];
    crate::check_refusal(&args, 2, "--target native, or none");
}
