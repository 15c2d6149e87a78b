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
