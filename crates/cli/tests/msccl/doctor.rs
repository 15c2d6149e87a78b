//! `msccl doctor` on the machine at hand, and `msccl launch`. Prepared machines are the affair of
//! its unit tests.

use std::fs;

use crate::{arg, check_refusal, file, msccl_with, ran};

/// A file with the functions of another library with NCCL's interface.
const THEIRS: &[u8] = b"\x7fELF\0ncclCommInitRank\0";

#[test]
fn what_is_set_in_the_environment_is_examined() {
    let theirs = file("doctor/libnccl.so.2", THEIRS);
    let folder = arg(theirs.parent().unwrap());
    let variables = [("NCCL_NVLS_ENABLE", "1"), ("LD_LIBRARY_PATH", folder), ("MSCCL_ALGOS", "x")];
    let options = ["doctor", "--python", "no-such-python", "--format", "json"];
    let ran = msccl_with(&variables, &options, b"");
    assert_eq!(ran.code, 1, "{ran}");
    let report = ran.json();
    let findings = report["findings"].as_array().unwrap();
    let check = |topic: &str, severity: &str, parts: &[&str]| {
        let is_meant = |finding: &&serde_json::Value| {
            let message = finding["message"].as_str().unwrap();
            let is_it = finding["topic"] == topic && finding["severity"] == severity;
            is_it && parts.iter().all(|part| message.contains(part))
        };
        assert!(findings.iter().any(|finding| is_meant(&finding)), "no {topic} in {ran}");
    };
    check("variable", "note", &["NCCL_NVLS_ENABLE=1 has no effect"]);
    check("variable", "fails", &["MSCCL_ALGOS", "did you mean MSCCL_ALGO"]);
    check("library", "fails", &["the wrong library is loaded", arg(&theirs)]);
    check("python", "note", &["no Python"]);
    assert_eq!(report["facts"]["python"], serde_json::Value::Null);
}

#[test]
fn people_read_what_to_do() {
    let ran = msccl_with(&[("NCCL_NVLS_ENABLE", "1")], &["doctor"], b"");
    assert!(ran.stdout.contains("note   NCCL_NVLS_ENABLE=1 has no effect"), "{ran}");
    assert!(ran.stdout.contains("to do: unset NCCL_NVLS_ENABLE"), "{ran}");
    let wide = ran.stdout.lines().find(|line| line.chars().count() > 100);
    assert!(wide.is_none_or(|line| !line.trim().contains(' ')), "{wide:?}");
}

/// As `cargo install` leaves it: the command without a library beside it.
#[test]
fn a_command_alone_says_how_to_get_a_library() {
    let folder = file("alone/bin/nothing", "").parent().unwrap().to_owned();
    let program = folder.join("msccl");
    let _ = fs::remove_file(&program);
    fs::hard_link(env!("CARGO_BIN_EXE_msccl"), &program).unwrap();
    let how = "`cargo build --release -p msccl-nccl` in the sources makes";
    for words in [&["launch", "--", "true"][..], &["bench", "allreduce", "--ranks", "2"]] {
        let ran = ran(&program, &[], words, b"");
        assert_eq!(ran.code, 2, "{ran}");
        let said: Vec<_> = ran.stderr.lines().filter(|line| line.contains(how)).collect();
        let [line] = said[..] else { panic!("expected one line, found {ran}") };
        assert!(line.starts_with("error: there is no libnccl.so.2 in "), "{ran}");
    }
    let options = ["doctor", "--python", "no-such-python", "--format", "json"];
    let ran = ran(&program, &[("LD_LIBRARY_PATH", ""), ("LD_PRELOAD", "")], &options, b"");
    let report = ran.json();
    let findings = report["findings"].as_array().unwrap().iter();
    let mut advice = findings.filter_map(|finding| finding["advice"].as_str());
    // A machine on which the library is installed for all has it already.
    let is_meant =
        |advice: &str| advice.starts_with(how) || advice.starts_with("set MSCCL_LIBRARY=");
    assert!(advice.any(is_meant), "{ran}");
}

#[test]
fn a_program_is_started_with_the_library() {
    let library = file("launch/libnccl.so.2", THEIRS).canonicalize().unwrap();
    let script = "echo $LD_PRELOAD $VLLM_NCCL_SO_PATH $1; exit 3";
    let program = ["launch", "--library", arg(&library), "--", "sh", "-c", script, "sh", "-x"];
    let ran = msccl_with(&[("LD_PRELOAD", "")], &program, b"");
    let path = arg(&library);
    assert_eq!((ran.code, ran.stdout), (3, format!("{path} {path} -x\n")));
    let missing = ["launch", "--library", "/no/such.so", "--", "true"];
    check_refusal(&missing, 2, "cannot preload /no/such.so");
    let unknown = ["launch", "--library", arg(&library), "--", "no-such-program"];
    check_refusal(&unknown, 2, "there is no program no-such-program on the path");
}
