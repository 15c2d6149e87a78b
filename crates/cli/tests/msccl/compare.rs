//! `msccl compare`, and that all commands estimate alike.

use crate::bench::ours;
use crate::{arg, check_refusal, file, msccl, msccl_reading};

/// Everyone sends everything to everyone, and adds.
const DIRECT: &str = "\
algorithm direct(ranks N = 4) implements allreduce() {
    for r in 0..N { output@r = sum(q in 0..N: input@q) }
}
";

#[test]
fn algorithms_stand_side_by_side() {
    let direct = file("compare/direct.msccl", DIRECT);
    let args = ["compare", arg(&direct), "allreduce/ring", "--ranks", "4", "--sizes", "256M,1K"];
    let ran = msccl(&args);
    assert_eq!(ran.code, 0, "{ran}");
    for expected in [
        "assumes HGX H200 with 4 GPUs; rates of 2 × NVIDIA H200",
        // Each GPU receives all of the three others, or six times a quarter.
        "nvlink 3 (node0.",
        "nvlink 3/2 (node0.",
        "what no schedule can beat",
        "direct.msccl, bytes ..256MiB\n",
        "best: allreduce/ring, bytes 256MiB..\n",
    ] {
        assert!(ran.stdout.contains(expected), "{expected}\n{ran}");
    }
    // Sizes ascend.
    assert!(ran.stdout.find("1 KiB") < ran.stdout.find("256 MiB"), "{ran}");
    let json = msccl(&[&args[..], &["--format", "json"]].concat()).json();
    assert_eq!(json["sizes"], serde_json::json!([1024, 256 << 20]));
    assert_eq!(json["algorithms"][0]["busiest_links"][0]["share"], "3");
    assert_eq!(json["algorithms"][0]["messages_in_chain"], 1);
    assert_eq!(json["algorithms"][1]["messages_in_chain"], 6);
    for at in 0..2 {
        let bound = json["bounds_us"][at].as_f64().unwrap();
        for algorithm in json["algorithms"].as_array().unwrap() {
            assert!(algorithm["times"][at]["us"].as_f64().unwrap() >= bound, "{json}");
        }
    }
}

#[test]
fn a_collective_stands_for_what_is_built_in() {
    let svg = file("compare/all.svg", "");
    let ran = msccl(&["compare", "allgather", "--ranks", "2", "--sizes", "1M", "--svg", arg(&svg)]);
    assert_eq!(ran.code, 0, "{ran}");
    assert!(ran.stdout.contains("allgather/one_block"), "{ran}");
    let picture = std::fs::read_to_string(&svg).unwrap();
    assert!(picture.starts_with("<svg") && picture.contains("allgather/allpairs"), "{picture}");
}

#[test]
fn times_are_measured_where_a_device_is_named() {
    let Some(library) = ours() else { return };
    let direct = file("compare/measured.msccl", DIRECT);
    let device = ["--ranks", "4", "--device", "host", "--library", arg(&library)];
    let args = ["compare", arg(&direct), "allreduce/ring", "--sizes", "1K,64K"];
    let ran = msccl(&[&args[..], &device].concat());
    assert_eq!(ran.code, 0, "{ran}");
    assert!(ran.stdout.starts_with("measured on host threads"), "{ran}");
    assert!(!ran.stdout.contains("bound") && ran.stdout.contains("results compared"), "{ran}");
    let json = msccl(&[&args[..], &device, &["--format", "json"]].concat()).json();
    for algorithm in json["algorithms"].as_array().unwrap() {
        for time in algorithm["times"].as_array().unwrap() {
            assert!(time["us"].as_f64().unwrap() > 0.0, "{json}");
            assert!(time["service"].as_str().unwrap().starts_with("Simple staged"), "{json}");
        }
    }
    // What does not serve says so; another algorithm's time does not count.
    let large =
        file("compare/large.msccl", DIRECT.replace("allreduce()", "allreduce() bytes 64KiB.."));
    let args = ["compare", arg(&large), "allreduce/ring", "--sizes", "1K"];
    let ran = msccl(&[&args[..], &device].concat());
    assert!(ran.stdout.contains("it does not serve such calls; allreduce/"), "{ran}");
    let mixed = ["compare", arg(&direct), "allgather/ring", "--sizes", "1K"];
    check_refusal(&[&mixed[..], &device].concat(), 2, "for one collective");
}

#[test]
fn what_cannot_be_compared_says_why() {
    let other = file("compare/eight.msccl", DIRECT.replace("N = 4", "N = 8"));
    let direct = file("compare/four.msccl", DIRECT);
    check_refusal(&["compare", arg(&other), arg(&direct)], 2, "for as many ranks each");
    let ring = ["compare", "allreduce/ring", "--ranks", "16", "--topo", "hgx-h100-8"];
    check_refusal(&ring, 2, "16 ranks");
    // A ring over two nodes whose rails do not meet has no way.
    let ring = ["compare", "allreduce/ring", "--topo", "ndv5", "--nodes", "2", "--sizes", "1M"];
    let ran = msccl(&ring);
    assert!(ran.stdout.contains("r7 sends to r8, and nothing in the cluster leads"), "{ran}");
}

#[test]
fn a_machine_from_standard_input_is_read_once() {
    let two = b"cluster \"two\"\ngpu * 2\ngpu0 - gpu1 nvlink 100 GB/s 0.5 us\n";
    let rings = ["compare", "allreduce/ring", "allreduce/one_shot", "--sizes", "1K"];
    let show = ["show", "allreduce/ring", "--stage", "timeline"];
    for args in [&rings[..], &show] {
        let ran = msccl_reading(&[args, &["--topo", "-"]].concat(), two);
        assert!(ran.code == 0 && ran.stdout.starts_with("assumes two; "), "{ran}");
    }
}

/// The time of a call by the three commands that estimate, in µs.
fn estimates(algorithm: &str, size: &str, machine: &[&str]) -> [f64; 3] {
    let show = ["show", algorithm, "--stage", "timeline", "--format", "json", "--size", size];
    let show = msccl(&[&show[..], &["--placement", "out"], machine].concat()).json();
    let compare = ["compare", algorithm, "--sizes", size, "--format", "json"];
    let compare = msccl(&[&compare[..], &["--placement", "out"], machine].concat()).json();
    let explain = ["explain", "allreduce", size, "--format", "json"];
    let loaded: &[&str] = if algorithm.ends_with(".msccl") { &[algorithm] } else { &[] };
    let explain = msccl(&[&explain[..], loaded, machine].concat()).json();
    let alternatives = explain["alternatives"].as_array().unwrap();
    let named = alternatives.iter().find(|of| of["algorithm"] == algorithm).unwrap();
    [&show["total_us"], &compare["algorithms"][0]["times"][0]["us"], &named["estimate_us"]]
        .map(|of| of.as_f64().unwrap())
}

#[test]
fn one_question_has_one_answer() {
    let direct = file("compare/one.msccl", DIRECT);
    for (algorithm, topo, ranks) in [
        (arg(&direct), "hgx-h200-8", "8"),
        ("allreduce/ring", "hgx-h200-4", "4"),
        ("allreduce/two_shot", "hgx-h200-8", "8"),
        (arg(&direct), "pcie-4", "4"),
    ] {
        for size in ["1K", "1M", "64M"] {
            let machine = ["--topo", topo, "--ranks", ranks];
            let [show, compare, explain] = estimates(algorithm, size, &machine);
            assert_eq!(show, compare, "{algorithm} {size} on {topo}");
            // Explain rounds to ns.
            assert!((show - explain).abs() < 0.001, "{algorithm} {size}: {show}, {explain}");
        }
    }
}

/// Whether a table names it for the shape, a guess stands for it, or it only could serve.
#[test]
fn one_question_has_one_answer_over_several_nodes() {
    for algorithm in ["allreduce/hierarchical", "allreduce/hierarchical_doubling"] {
        for (ranks, size) in [("16", "4K"), ("16", "4M"), ("12", "1M")] {
            let machine = ["--ranks", ranks, "--per-node", if ranks == "16" { "8" } else { "3" }];
            let [show, compare, explain] = estimates(algorithm, size, &machine);
            assert_eq!(show, compare, "{algorithm} {size} on {ranks} ranks");
            assert!((show - explain).abs() < 0.001, "{algorithm} {size}: {show}, {explain}");
        }
    }
}
