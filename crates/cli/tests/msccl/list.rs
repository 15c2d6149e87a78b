//! `msccl list`.

use crate::{RING, arg, check_refusal, file, msccl};

#[test]
fn examples_and_modules_are_listed() {
    let ran = msccl(&["list", "--format", "json"]);
    assert_eq!(ran.code, 0, "{ran}");
    let offer = ran.json();
    let algorithms = offer["algorithms"].as_array().unwrap();
    assert!(algorithms.len() >= 30, "{}", algorithms.len());
    let ring =
        algorithms.iter().find(|it| it["file"] == "dsl-examples/allreduce/ring.msccl").unwrap();
    assert_eq!(ring["collective"], "allreduce");
    assert_eq!(ring["parameters"][0]["role"], "ranks");
    assert_eq!(ring["summary"], "Ring all-reduce.");
    let modules = offer["modules"].as_array().unwrap();
    assert!(modules.iter().any(|module| module["name"] == "ring"));
}

#[test]
fn a_folder_of_ones_own() {
    let path = file("list/mine/ring.msccl", RING);
    let folder = arg(path.parent().unwrap());
    let ran = msccl(&["list", "--dir", folder]);
    assert!(ran.stdout.contains("allgather") && ran.stdout.contains("ranks N = 3"), "{ran}");
    let none = msccl(&["list", "--dir", folder, "--collective", "alltoall", "--format", "json"]);
    assert_eq!(none.json()["algorithms"].as_array().map(Vec::len), Some(0), "{none}");
    check_refusal(&["list", "--dir", folder, "--collective", "gossip"], 2, "expected allreduce, ");
    check_refusal(&["list", "--dir", "no/such"], 2, "name another folder with --dir");
}

/// Whoever has but the installed command finds programs all the same.
#[test]
fn built_in_programs_are_known_by_their_names() {
    let ran = msccl(&["list", "allreduce/ring"]);
    assert_eq!(ran.code, 0, "{ran}");
    let ring = std::fs::read_to_string("../../dsl-examples/allreduce/ring.msccl").unwrap();
    assert_eq!(ran.stdout, ring);
    assert!(msccl(&["list", "ring"]).stdout.contains("fn ring_allreduce("));
    let ran = msccl(&["verify", "allreduce/ring", "--ranks", "5"]);
    assert_eq!(ran.code, 0, "{ran}");
    assert!(ran.stdout.contains("allreduce over 5 ranks"), "{ran}");
    check_refusal(&["list", "allreduce/rong"], 2, "no built-in program or module allreduce/rong");
    check_refusal(&["verify", "allreduce/rong"], 2, "cannot read allreduce/rong");
}

#[test]
fn without_examples_the_built_in_programs_are_listed() {
    let elsewhere = file("list/empty/note.txt", "");
    let folder = elsewhere.parent().unwrap();
    let listed = std::process::Command::new(env!("CARGO_BIN_EXE_msccl"))
        .args(["list", "--format", "json"])
        .current_dir(folder)
        .output()
        .unwrap();
    assert!(listed.status.success());
    let offer: serde_json::Value = serde_json::from_slice(&listed.stdout).unwrap();
    let files = offer["algorithms"].as_array().unwrap().iter().map(|entry| &entry["file"]);
    assert!(files.clone().any(|file| file == "allreduce/ring"), "{offer}");
    assert!(files.clone().any(|file| file == "alltoall/bruck"), "{offer}");
    let none = msccl(&["list", "--dir", arg(folder)]);
    assert!(none.stdout.starts_with("no algorithms\n"), "{none}");
}

/// What an algorithm of the examples adds in, by the listing of all-reduces.
fn order_of(listing: &serde_json::Value, file: &str) -> serde_json::Value {
    let file = format!("dsl-examples/{file}.msccl");
    let entry = listing["algorithms"].as_array().unwrap().iter().find(|it| it["file"] == *file);
    entry.unwrap_or_else(|| panic!("{file} is not listed")).clone()
}

#[test]
fn the_order_of_additions_is_listed() {
    let reduces = ["list", "--collective", "allreduce", "--order", "--ranks"];
    let listed = |ranks| msccl(&[&reduces[..], &[ranks]].concat());
    let four = listed("4");
    let order = |ran: &crate::Ran, name: &str| {
        let line = ran.stdout.lines().find(|line| line.contains(&format!("/{name}.msccl")));
        let cells = line.unwrap().split("  ").filter(|cell| !cell.is_empty()).map(str::trim);
        cells.collect::<Vec<_>>()[2].to_owned()
    };
    for (name, expected) in [
        ("ring", "several"),
        ("two_shot", "flat"),
        ("two_shot_balanced", "tree"),
        ("dgx1", "not proved"),
    ] {
        assert_eq!(order(&four, name), expected, "{four}");
    }
    let two = listed("2");
    for name in ["ring", "two_shot", "two_shot_balanced"] {
        assert_eq!(order(&two, name), "flat and tree", "{two}");
    }
    // The column is there only for those who ask.
    assert!(!msccl(&["list"]).stdout.lines().next().unwrap().contains("order"));
    check_refusal(&["list", "--ranks", "4"], 2, "--order");
}

#[test]
fn programs_always_learn_the_order() {
    let ran = msccl(&["list", "--format", "json"]);
    let listing = ran.json();
    let two_shot = order_of(&listing, "allreduce/two_shot");
    assert_eq!(two_shot["addition_orders"]["shape"], "flat");
    assert_eq!(two_shot["not_proved"], serde_json::Value::Null);
    let ring = order_of(&listing, "allreduce/ring");
    assert_eq!(ring["addition_orders"]["count"].as_u64().map(|count| count > 1), Some(true));
    let gather = order_of(&listing, "allgather/ring");
    assert_eq!(gather["addition_orders"], serde_json::Value::Null);
    assert!(gather.as_object().unwrap().contains_key("not_proved"));
    let args = ["list", "--order", "--ranks", "3", "--format", "json"];
    let halving = order_of(&msccl(&args).json(), "allreduce/halving_doubling");
    assert_eq!(halving["addition_orders"], serde_json::Value::Null);
    assert!(!halving["not_proved"].as_str().unwrap().is_empty(), "{halving}");
}
