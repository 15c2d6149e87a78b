//! `msccl compile`.

use std::fs;

use crate::{RING, SHORT_RING, arg, file, msccl, msccl_reading, stuck_xml};

#[test]
fn xml_goes_to_standard_output_and_proves_again() {
    let made = msccl_reading(&["compile", "-"], RING.as_bytes());
    assert_eq!(made.code, 0, "{made}");
    assert!(made.stdout.starts_with("<algo"), "{made}");
    assert!(made.stderr.is_empty(), "{made}");
    let again = msccl_reading(&["verify", "-"], made.stdout.as_bytes());
    assert_eq!(again.code, 0, "{again}");
}

#[test]
fn the_extension_says_what_to_write() {
    let source = file("compile/ring.msccl", RING);
    for (name, sign) in
        [("ring.xml", "<algo"), ("ring.json", "{"), ("ring.txt", "algorithm \"ring\"")]
    {
        let out = source.with_file_name(name);
        let ran = msccl(&["compile", arg(&source), "-o", arg(&out)]);
        assert_eq!(ran.code, 0, "{ran}");
        assert!(ran.stdout.starts_with("proved"), "{ran}");
        assert!(ran.stdout.contains(&format!("written  {}", arg(&out))), "{ran}");
        assert!(fs::read_to_string(&out).unwrap().starts_with(sign), "{name}");
        let again = msccl(&["verify", arg(&out)]);
        assert_eq!(again.code, 0, "{again}");
    }
}

#[test]
fn every_form_can_be_made_from_every_other() {
    let forms = ["xml", "json", "text"];
    for from in forms {
        let made = ["compile", "--emit", from, "--target", "msccl", "-"];
        let first = msccl_reading(&made, RING.as_bytes());
        for to in forms {
            let translate = ["compile", "--emit", to, "--target", "msccl", "-"];
            let second = msccl_reading(&translate, first.stdout.as_bytes());
            assert_eq!(second.code, 0, "{from} to {to}: {second}");
            let direct = msccl_reading(&translate, RING.as_bytes());
            assert_eq!(second.stdout, direct.stdout, "{from} to {to}");
        }
    }
}

#[test]
fn a_refused_algorithm_is_not_written() {
    let wrong = file("compile/short.msccl", SHORT_RING);
    let out = file("compile/kept.xml", "old");
    let ran = msccl(&["compile", arg(&wrong), "-o", arg(&out)]);
    assert_eq!(ran.code, 1, "{ran}");
    assert_eq!(fs::read_to_string(&out).unwrap(), "old");
    let ran = msccl_reading(&["compile", "-"], SHORT_RING.as_bytes());
    assert_eq!((ran.code, ran.stdout.as_str()), (1, ""), "{ran}");
    assert!(ran.stderr.starts_with("refused"), "{ran}");
}

#[test]
fn a_refusal_says_how_to_write_it_all_the_same() {
    const HELP: &str = "help     nothing is written; --no-verify writes it without a proof";
    let ran = msccl_reading(&["compile", "-"], stuck_xml().as_bytes());
    assert_eq!(ran.code, 1, "{ran}");
    assert_eq!(ran.stderr.lines().last(), Some(HELP), "{ran}");
    let ran = msccl_reading(&["compile", "--format", "json", "-"], stuck_xml().as_bytes());
    assert!(ran.code == 1 && !ran.stderr.contains(HELP), "{ran}");
    // A program that breaks its promise never becomes an algorithm.
    let ran = msccl_reading(&["compile", "-"], SHORT_RING.as_bytes());
    assert!(ran.code == 1 && !ran.stderr.contains(HELP), "{ran}");
}

#[test]
fn without_a_proof_says_so() {
    let ran = msccl_reading(&["compile", "--no-verify", "-"], stuck_xml().as_bytes());
    assert_eq!(ran.code, 0, "{ran}");
    assert!(ran.stderr.contains("<stdin> is written without a proof"), "{ran}");
    assert!(ran.stdout.starts_with("<algo"), "{ran}");
}

#[test]
fn json_reports_what_was_written() {
    let source = file("compile/report.msccl", RING);
    let out = source.with_file_name("report.xml");
    let ran = msccl(&["compile", arg(&source), "-o", arg(&out), "--format", "json"]);
    let report = ran.json();
    assert_eq!(report["verdict"], "proved");
    assert_eq!(report["output"], arg(&out));
    assert_eq!(report["bytes"].as_u64(), Some(fs::metadata(&out).unwrap().len()));
}

#[test]
fn a_folder_that_is_not_there_is_reported() {
    let source = file("compile/nowhere.msccl", RING);
    crate::check_refusal(
        &["compile", arg(&source), "-o", "no/such/out.xml"],
        2,
        "cannot write no/such/out.xml: there is no folder no/such; make it first",
    );
    let folder = source.parent().unwrap();
    let expected = "it is a folder; name a file in it";
    crate::check_refusal(&["compile", arg(&source), "-o", arg(folder)], 2, expected);
}

#[test]
fn a_dash_is_standard_output() {
    let source = file("compile/dash.msccl", RING);
    let named = msccl(&["compile", arg(&source), "-o", "-"]);
    let plain = msccl(&["compile", arg(&source)]);
    assert_eq!((named.code, &named.stdout), (0, &plain.stdout), "{named}");
}

#[test]
fn a_program_is_not_written_over() {
    let source = file("compile/mine.msccl", RING);
    crate::check_refusal(
        &["compile", arg(&source), "-o", arg(&source)],
        2,
        "is the file that is read",
    );
    let other = source.with_file_name("other.msccl");
    let expected = "expected .xml, .json, .txt or .et; rename it, or say --emit xml";
    crate::check_refusal(&["compile", arg(&source), "-o", arg(&other)], 2, expected);
    assert!(!other.exists());
    let named = source.with_file_name("named.schedule");
    let ran = msccl(&["compile", arg(&source), "--emit", "xml", "-o", arg(&named)]);
    assert_eq!(ran.code, 0, "{ran}");
    assert_eq!(fs::read_to_string(&source).unwrap(), RING);
}

#[test]
fn traces_are_a_file_for_each_rank() {
    let source = file("traces/ring.msccl", RING);
    let prefix = source.with_file_name("ring");
    let make = ["compile", arg(&source), "--emit", "chakra", "--size", "1MiB", "-o", arg(&prefix)];
    let ran = msccl(&make);
    assert_eq!(ran.code, 0, "{ran}");
    let names = format!("written  {0}.0.et … {0}.2.et, ", arg(&prefix));
    assert!(ran.stdout.contains(&names), "{ran}");
    let read = |rank| fs::read(source.with_file_name(format!("ring.{rank}.et"))).unwrap();
    let traces: Vec<Vec<u8>> = (0..3).map(read).collect();
    // The name of a file says as much, and the report for programs has the size of all.
    let named = source.with_file_name("ring.et");
    let ran =
        msccl(&["compile", arg(&source), "--size", "1MiB", "-o", arg(&named), "--format", "json"]);
    let bytes: usize = traces.iter().map(Vec::len).sum();
    assert_eq!(ran.json()["bytes"].as_u64(), Some(bytes as u64), "{ran}");
    assert_eq!((0..3).map(read).collect::<Vec<_>>(), traces);
    assert!(!named.exists());
    // A rate shows in what nodes take.
    let rate = ["compile", arg(&source), "--size", "1MiB", "--tb-rate", "10", "-o", arg(&named)];
    assert_eq!(msccl(&rate).code, 0);
    assert_ne!(read(0), traces[0]);
}

#[test]
fn what_traces_need_is_said() {
    let source = file("traces/needs.msccl", RING);
    let traces = ["compile", arg(&source), "--emit", "chakra"];
    let check = |more: &[&str], expected| {
        crate::check_refusal(&[&traces[..], more].concat(), 2, expected);
    };
    check(&["--size", "1MiB"], "say -o PREFIX to write PREFIX.0.et, PREFIX.1.et, …");
    check(&["-o", "x"], "traces hold for one size of a call; say which by --size 1MiB");
    check(&["-o", "x", "--size", "0"], "expected a call of one byte or more, found 0 bytes");
    check(&["-o", "x", "--size", "1MiB", "--tb-rate", "0"], "`0` is no rate");
    check(&["-o", "no/such/x", "--size", "1MiB"], "there is no folder no/such; make it first");
    let small = RING.replace(" in place", " in place bytes 0..1MiB");
    let small = file("traces/small.msccl", &small);
    let ran = ["compile", arg(&small), "--emit", "chakra", "-o", "x", "--size", "2MiB"];
    let expected = "expected a size that it serves (sizes below 1 MiB), found 2 MiB";
    crate::check_refusal(&ran, 2, expected);
    let expected = "--size and --tb-rate are for traces; say --emit chakra, or leave them out";
    crate::check_refusal(&["compile", arg(&source), "--size", "1MiB"], 2, expected);
}

#[test]
fn a_part_of_a_set_of_traces_does_not_stay() {
    let source = file("traces/part.msccl", RING);
    let prefix = source.with_file_name("part");
    fs::create_dir_all(source.with_file_name("part.2.et")).unwrap();
    let make = ["compile", arg(&source), "--emit", "chakra", "--size", "1MiB", "-o", arg(&prefix)];
    crate::check_refusal(&make, 2, "it is a folder; name a file in it");
    assert!(!source.with_file_name("part.0.et").exists());
}
