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
fn what_is_refused_does_not_run() {
    let ran = msccl_reading(&["run", "-"], SHORT_RING.as_bytes());
    assert_eq!(ran.code, 1, "{ran}");
    assert!(!ran.stdout.contains("correct"), "{ran}");
}

#[test]
fn absurd_sizes_are_told() {
    crate::check_refusal(
        &["run", "dsl-examples/allreduce/ring.msccl", "--size", "9999TiB"],
        2,
        "more than 1 TiB",
    );
}
