//! `msccl topo`: of a file, of this machine, and what is no topology.

use crate::{arg, check_refusal, file, msccl};

const ONE_GPU: &[u8] = b"<system version=\"1\"><cpu numaid=\"0\">\
    <pci busid=\"0000:01:00.0\" class=\"0x030200\"><gpu dev=\"0\" sm=\"90\"/></pci>\
    <pci busid=\"0000:02:00.0\" class=\"0x020000\"><nic><net name=\"eth0\" dev=\"0\"/></nic></pci>\
    </cpu></system>";

/// Here there is no GPU, or what is found has some.
#[test]
fn this_machine_has_a_name() {
    let ran = msccl(&["topo", "--topo", "this"]);
    let has_none = ran.code == 2 && ran.stderr.contains("this machine has no GPU; name one");
    assert!(has_none || ran.code == 0 && ran.stdout.contains("gpu"), "{ran}");
}

#[test]
fn a_file_is_shown_and_drawn() {
    let topology = file("topo/one.xml", ONE_GPU);
    let picture = file("topo/one.svg", b"");
    let ran = msccl(&["topo", arg(&topology), "--svg", arg(&picture)]);
    assert_eq!(ran.code, 0, "{ran}");
    assert!(ran.stdout.contains("gpu 0 at 0000:01:00.0, 12.0 GB/s, sm 90"), "{ran}");
    assert!(ran.stdout.contains("gpu0  LOC    PHB 1"), "{ran}");
    assert!(std::fs::read_to_string(picture).unwrap().starts_with("<svg "));
    let json = msccl(&["topo", arg(&topology), "--format", "json"]).json();
    assert_eq!(json["devices"], serde_json::json!(["gpu0", "net0"]));
    assert_eq!(json["paths"][0][1]["type"], "PHB");
}

#[test]
fn what_a_file_says_is_shown_and_the_rest_is_noted() {
    let text = "<system version=\"1\"><cpu numaid=\"0\" affinity=\"0-15\" vendor=\"Cyrix\">\
        <pci busid=\"0000:41:00.0\" class=\"0x030200\"><gpu dev=\"0\"/></pci>\
        <pci busid=\"0000:00:16.0\"/></cpu></system>";
    let topology = file("topo/noted.xml", text.as_bytes());
    let ran = msccl(&["topo", arg(&topology)]);
    assert_eq!(ran.code, 0, "{ran}");
    assert!(ran.stdout.contains("gpu 0 at 0000:41:00.0"), "{ran}");
    assert!(
        ran.stderr.contains("noted.xml, line 1: expected `vendor` of <cpu> to be one of"),
        "{ran}"
    );
    let json = msccl(&["topo", arg(&topology), "--format", "json"]).json();
    assert_eq!(json["notes"].as_array().unwrap().len(), 1);
}

#[test]
fn this_machine_has_a_topology() {
    let ran = msccl(&["topo"]);
    assert_eq!(ran.code, 0, "{ran}");
    assert!(ran.stdout.starts_with("numa "), "{ran}");
}

#[test]
fn a_file_that_is_no_topology_exits_with_2() {
    let algorithm = file("topo/algorithm.xml", b"<algo/>");
    check_refusal(&["topo", arg(&algorithm)], 2, ":1:1: expected <system>, found <algo>");
    check_refusal(&["topo", "crates/nothing.xml"], 2, "there is no such file");
}

#[test]
fn a_machine_is_given_by_name_or_by_file() {
    let topo = |args: &[&str]| {
        let ran = msccl(&[&["topo", "--topo"], args].concat());
        assert_eq!(ran.code, 0, "{args:?}: {ran}");
        ran.stdout
    };
    assert!(topo(&["hgx-h100-8"]).contains("8 GPUs, 1 switch, 8 NICs"));
    let four = topo(&["ndv5*4"]);
    assert!(four.contains("4 nodes, 32 GPUs"), "{four}");
    assert_eq!(four, topo(&["ndv5", "--nodes", "4"]));
    let pairs = topo(&["docs/examples/clusters/pairs.cluster"]);
    assert!(pairs.starts_with("two nodes of two NVLink pairs"), "{pairs}");
    let two = topo(&["docs/examples/topology.xml", "--nodes", "2"]);
    assert!(two.contains("2 nodes, "), "{two}");
}

#[test]
fn a_machine_can_be_degraded() {
    let topo = |args: &[&str]| msccl(&[&["topo", "--topo", "mi300x-8"], args].concat()).stdout;
    let whole = topo(&[]);
    let without = topo(&["--without", "gpu2-gpu3", "--without", "nic1"]);
    let slow = topo(&["--slow", "gpu0-gpu1=0.5"]);
    assert!(without.contains("without links: nic1"), "{without}");
    assert!(!whole.contains("xgmi 24 GB/s") && slow.contains("xgmi 24 GB/s"), "{slow}");
}

#[test]
fn machines_that_cannot_be_are_refused() {
    check_refusal(&["topo", "--topo", "ndv6"], 2, "such as ndv2, ndv4, ndv5, or a file");
    check_refusal(&["topo", "--topo", "moon"], 2, "expected the name of a machine, one of hgx-");
    check_refusal(&["topo", "--topo", "no.cluster"], 2, "no.cluster: there is no such file");
    check_refusal(&["topo", "--topo", "ndv5*x"], 2, "found `x`; write for instance ndv5*4");
    check_refusal(&["topo", "--topo", "ndv5*0"], 2, "expected a number of nodes from 1 to");
    check_refusal(&["topo", "--topo", "ndv5*2", "--nodes", "2"], 2, "leave one of them out");
    check_refusal(&["topo", "--topo", "ndv5", "--slow", "nic1"], 2, "--slow: expected links and");
    check_refusal(&["topo", "--topo", "ndv5", "--without", "gpu9"], 2, "--without: expected the");
    for alone in [["--nodes", "2"], ["--without", "nic0"], ["--slow", "nic0=0.5"]] {
        check_refusal(&["topo", alone[0], alone[1]], 2, "--topo <WHAT>");
    }
    let wrong = file("topo/wrong.cluster", "node {\n    gpu * 2\n    gpu0 - gpu1 string\n}\n");
    check_refusal(&["topo", "--topo", arg(&wrong)], 2, "wrong.cluster:3:");
}

#[test]
fn machines_with_names_are_listed() {
    let ran = msccl(&["topo", "--list"]);
    assert_eq!(ran.code, 0, "{ran}");
    assert!(ran.stdout.contains("dgx-a100         8  DGX A100: 8 GPUs at NVSwitches"), "{ran}");
    let json = msccl(&["topo", "--list", "--format", "json"]).json();
    let all = json.as_array().unwrap();
    assert_eq!(all.len(), ran.stdout.lines().count() - 3);
    let gpus = |name: &str| all.iter().find(|it| it["name"] == name).unwrap()["gpus"].clone();
    assert_eq!(gpus("gb200-nvl72"), 72);
    assert_eq!(all[0]["figures"][0]["basis"], "measured");
    check_refusal(&["topo", "--list", "--topo", "ndv5"], 2, "cannot be used with");
}

#[test]
fn figures_of_a_preset_say_where_they_are_from() {
    let ran = msccl(&["topo", "--topo", "ndv4*2", "--slow", "node0.nic0=0.5"]);
    assert!(ran.stdout.contains("nvlink  240 GB/s  published  12 NVLinks (data sheet)"), "{ran}");
    let own = msccl(&["topo", "--topo", "docs/examples/clusters/pairs.cluster"]);
    assert!(!own.stdout.contains("basis"), "{own}");
}

#[test]
fn a_machine_is_drawn_with_its_links() {
    let picture = file("topo/pairs.svg", b"");
    let pairs = "docs/examples/clusters/pairs.cluster";
    let args = ["topo", "--topo", pairs, "--svg", arg(&picture), "--format", "json"];
    let json = msccl(&args).json();
    let links = json["links"].as_array().unwrap();
    let drawn = std::fs::read_to_string(picture).unwrap();
    // A curve stands for both directions.
    assert_eq!(2 * drawn.matches("<path fill=\"none\"").count(), links.len());
    let vertices = json["vertices"].as_array().unwrap();
    // A box each, a band for each of two nodes and for what is between, and the ground.
    assert_eq!(drawn.matches("<rect ").count(), vertices.len() + 4);
    assert!(drawn.contains("<title>node0.gpu0 - node0.gpu1: nvlink "), "{drawn}");
    let again = file("topo/again.cluster", json["text"].as_str().unwrap());
    let same = msccl(&["topo", "--topo", arg(&again), "--format", "json"]).json();
    assert_eq!(json, same);
}
