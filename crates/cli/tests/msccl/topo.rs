//! `msccl topo`: of a file, of this machine, and what is no topology.

use crate::{arg, check_refusal, file, msccl};

const ONE_GPU: &[u8] = b"<system version=\"1\"><cpu numaid=\"0\">\
    <pci busid=\"0000:01:00.0\" class=\"0x030200\"><gpu dev=\"0\" sm=\"90\"/></pci>\
    <pci busid=\"0000:02:00.0\" class=\"0x020000\"><nic><net name=\"eth0\" dev=\"0\"/></nic></pci>\
    </cpu></system>";

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
