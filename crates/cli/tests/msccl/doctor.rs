//! `msccl doctor` on the machine at hand, and `msccl launch`. Prepared machines are the affair of
//! its unit tests.

use crate::{arg, check_refusal, file, msccl_with};

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
