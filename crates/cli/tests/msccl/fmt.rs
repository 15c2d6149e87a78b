//! `msccl fmt`.

use std::fs;

use crate::{RING, arg, file, msccl, msccl_reading};

fn untidy() -> String {
    RING.replace("    ", "  ").replace(" = ", "=")
}

#[test]
fn check_changes_nothing() {
    let path = file("fmt/check.msccl", untidy());
    let ran = msccl(&["fmt", "--check", arg(&path)]);
    assert_eq!(ran.code, 1, "{ran}");
    assert!(ran.stdout.contains("not laid out"), "{ran}");
    assert_eq!(fs::read_to_string(&path).unwrap(), untidy());
}

#[test]
fn formatting_is_done_once() {
    let path = file("fmt/write.msccl", untidy());
    let ran = msccl(&["fmt", "--format", "json", arg(&path)]);
    assert_eq!((ran.code, &ran.json()["changed"]), (0, &true.into()), "{ran}");
    let laid_out = fs::read_to_string(&path).unwrap();
    let ran = msccl(&["fmt", "--check", arg(&path)]);
    assert_eq!(ran.code, 0, "{ran}");
    let piped = msccl_reading(&["fmt", "-"], untidy().as_bytes());
    assert_eq!((piped.code, piped.stdout), (0, laid_out));
}

#[test]
fn mistakes_are_reported_and_nothing_is_changed() {
    let path = file("fmt/broken.msccl", "algorithm {");
    let ran = msccl(&["fmt", arg(&path)]);
    assert_eq!(ran.code, 2, "{ran}");
    assert!(ran.stderr.contains("broken.msccl:1:"), "{ran}");
    assert_eq!(fs::read_to_string(&path).unwrap(), "algorithm {");
}

#[test]
fn a_file_that_is_no_program_is_not_changed() {
    let path = file("fmt/ring.xml", crate::exchange_xml(1));
    crate::check_refusal(
        &["fmt", arg(&path)],
        2,
        "is MSCCL XML; only programs (.msccl) are laid out",
    );
    assert_eq!(fs::read_to_string(&path).unwrap(), crate::exchange_xml(1));
}
