//! `msccl bound`: exact bounds, their witnesses in words, and what they mean for sizes.

use crate::{check_refusal, file, msccl};

/// A machine whose bounds are known: `ranks` GPUs with 100 GB/s at one switch.
fn star(ranks: u32) -> String {
    let text = format!(
        "cluster \"a star\"\ngpu * {ranks}\nswitch nvswitch\n\
         gpu* - nvswitch nvlink 100 GB/s 0.5 us\n"
    );
    crate::arg(&file(&format!("bound/star{ranks}.cluster"), text)).to_owned()
}

#[test]
fn an_all_reduce_on_one_switch_has_its_known_bound() {
    let star = star(4);
    let ran = msccl(&["bound", "all_reduce", "--topo", &star, "--size", "64K,1G"]);
    assert_eq!(ran.code, 0, "{ran}");
    for expected in [
        "allreduce over 4 ranks on a star\n",
        // 2 · 3/4 over 100 GB/s.
        "bandwidth  at least 3/200 s/GB (0.015), which is 66.7 GB/s\n",
        "partition into the 4 GPUs: 4 links of 100 GB/s (nvlink) leave them, 2 · (4 − 1) · S must",
        "schedules come as near to it as one likes\n",
        "latency    at least 1 µs\n           by gpu0 > nvswitch > gpu1\n",
        "64 KiB      1.0 µs  latency\n",
        " 1 GiB  16106.1 µs  bandwidth\n",
    ] {
        assert!(ran.stdout.contains(expected), "{expected}\n{ran}");
    }
}

#[test]
fn cuts_are_named_by_their_smaller_side() {
    let star = star(4);
    let bound = |args: &[&str]| msccl(&[&["bound"], args, &["--topo", &star]].concat()).stdout;
    let gather = bound(&["allgather"]);
    let into = "cut {gpu0}: 1 link of 100 GB/s (nvlink) leads into it, 3/4 · S must pass";
    assert!(gather.contains(into), "{gather}");
    let broadcast = bound(&["broadcast", "--root", "2"]);
    assert!(broadcast.contains("at least 1/100 s/GB (0.01), which is 100.0 GB/s"), "{broadcast}");
    let compute = bound(&["allreduce", "--switches", "compute"]);
    assert!(compute.contains("1 link of 100 GB/s (nvlink) leads into it, S must"), "{compute}");
    let all_to_all = bound(&["alltoall"]);
    assert!(all_to_all.contains("not known to be reached: the search tries"), "{all_to_all}");
}

#[test]
fn several_nodes_are_cut_between_them() {
    let pairs = "docs/examples/clusters/pairs.cluster";
    let ran = msccl(&["bound", "allreduce", "--topo", pairs]);
    assert!(ran.stdout.contains("cut {node0.*}: 2 links of "), "{ran}");
    assert!(ran.stdout.contains("(cable) leave it, S must pass"), "{ran}");
    let one = msccl(&["bound", "allgather", "--topo", "dgx-a100"]);
    assert!(one.stdout.contains("`--without 'fabric'` leaves them out"), "{one}");
    assert!(!ran.stdout.contains("--without"), "{ran}");
}

#[test]
fn json_has_the_fraction_and_the_whole_witness() {
    let star = star(3);
    let args = ["bound", "allgather", "--topo", &star, "--size", "3000", "--format", "json"];
    let json = msccl(&args).json();
    assert_eq!(json["bandwidth"]["seconds_per_byte"], "1/150000000000");
    assert_eq!(json["bandwidth"]["optimum"], true);
    let cut = json["bandwidth"]["witness"]["cut"].as_array().unwrap();
    assert_eq!(cut.len(), 3, "{json}");
    assert_eq!(json["latency"]["way"], serde_json::json!(["gpu0", "nvswitch", "gpu1"]));
    assert_eq!(json["sizes"][0]["by"], "latency");
    let json = msccl(&["bound", "alltoall", "--topo", &star, "--format", "json"]).json();
    assert!(json["bandwidth"]["theorem"].is_string(), "{json}");
}

#[test]
fn what_has_no_bound_is_refused() {
    check_refusal(&["bound", "allreduce"], 2, "give --topo, such as --topo hgx-h100-8");
    check_refusal(&["bound", "gossip", "--topo", "ndv5"], 2, "found `gossip`");
    let args = ["bound", "broadcast", "--root", "9", "--topo", "dgx-2", "--without", "nic*"];
    check_refusal(&args, 0, "");
    let args = ["bound", "broadcast", "--root", "16", "--topo", "dgx-2"];
    check_refusal(&args, 2, "expected a root below 16");
    let args = ["bound", "allreduce", "--topo", "hgx-h100-2", "--without", "gpu0"];
    check_refusal(&args, 2, "expected a path from `gpu0` to `gpu1`, found none");
}
