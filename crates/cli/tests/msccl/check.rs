//! `msccl check`.

use crate::{RING, SHORT_RING, arg, file, msccl, msccl_reading};

#[test]
fn a_right_program_has_no_diagnostics() {
    let ran = msccl_reading(&["check", "--format", "json", "-"], RING.as_bytes());
    assert_eq!(ran.code, 0, "{ran}");
    let found = ran.json();
    assert_eq!(found["ok"], true);
    assert_eq!(found["diagnostics"].as_array().map(Vec::len), Some(0));
}

#[test]
fn diagnostics_are_what_editors_need() {
    let path = file("check/two.msccl", RING.replace("% N)[c] =", "% M)[c] ="));
    let ran = msccl(&["check", "--format", "json", arg(&path)]);
    assert_eq!(ran.code, 2, "{ran}");
    let found = ran.json();
    let first = &found["diagnostics"][0];
    assert_eq!(first["line"], 4, "{found}");
    assert_eq!(first["severity"], "error");
    for key in ["file", "column", "end_line", "end_column", "message", "hints"] {
        assert!(!first[key].is_null(), "{key}: {found}");
    }
}

#[test]
fn a_loop_that_counts_down_is_noted() {
    let text = RING.replacen('{', "{ for i in 3..0 { input@0 = input@1 }", 1);
    for subcommand in ["check", "verify", "compile", "show"] {
        let ran = msccl_reading(&[subcommand, "-"], text.as_bytes());
        assert_eq!(ran.code, 0, "{ran}");
        let note = "<stdin>:2:";
        let said = ran.stderr.lines().find(|line| line.contains(note)).unwrap_or_default();
        assert!(said.starts_with("note: "), "{ran}");
        let expected =
            "3..0 has no elements: it ends before it begins; to count down, write `reverse(a..b)`";
        assert!(said.ends_with(expected), "{ran}");
    }
    let found = msccl_reading(&["check", "--format", "json", "-"], text.as_bytes()).json();
    assert_eq!(found["ok"], true, "{found}");
    let first = &found["diagnostics"][0];
    assert_eq!(first["severity"], "warning", "{found}");
    assert_eq!((first["line"].as_u64(), first["column"].as_u64()), (Some(2), Some(72)), "{found}");
}

#[test]
fn faults_of_the_proof_are_diagnostics() {
    let path = file("check/short.msccl", SHORT_RING);
    let ran = msccl(&["check", "--format", "json", arg(&path)]);
    assert_eq!(ran.code, 1, "{ran}");
    assert!(ran.json()["diagnostics"][0]["line"].as_u64() > Some(0), "{ran}");
    let human = msccl(&["check", arg(&path)]);
    assert!(human.stdout.contains("short.msccl:") && human.stdout.contains('^'), "{human}");
}

#[test]
fn malformed_files_are_located() {
    let xml = crate::exchange_xml(2).replace("type=\"rrc\"", "type=\"dance\"");
    let found = msccl_reading(&["check", "--format", "json", "-"], xml.as_bytes()).json();
    assert_eq!(found["diagnostics"][0]["line"], 6, "{found}");
    let json = "{\n  \"format\": \"msccl-ir\",\n  \"version\": 7\n}";
    let found = msccl_reading(&["check", "--format", "json", "-"], json.as_bytes()).json();
    assert!(found["diagnostics"][0]["line"].as_u64() > Some(1), "{found}");
}

#[test]
fn xml_is_checked_for_the_runtime_that_reads_xml() {
    let ran = msccl_reading(&["check", "-"], crate::stuck_xml().as_bytes());
    assert_eq!(ran.code, 1, "{ran}");
    assert!(ran.stdout.contains("<stdin>:6:7"), "{ran}");
    let ran = msccl_reading(&["check", "--target", "native", "-"], crate::stuck_xml().as_bytes());
    assert_eq!(ran.code, 0, "{ran}");
}
