//! Options, files that are not there, exit codes.

use crate::{arg, check_refusal, file, msccl, msccl_reading};

#[test]
fn wrong_options_exit_with_2() {
    check_refusal(&["dance"], 2, "unrecognized subcommand 'dance'");
    check_refusal(&["verify"], 2, "required arguments were not provided");
    check_refusal(
        &["verify", "x", "--target", "moon"],
        2,
        "possible values: msccl, executor, native",
    );
    check_refusal(
        &["run", "x", "-D", "C"],
        2,
        "expected NAME=VALUE, found `C`; write for instance C=4",
    );
    check_refusal(&["run", "x", "--size", "1.5MX"], 2, "is no size; write a number of bytes, KiB");
    check_refusal(&["run", "x", "--type", "f17"], 2, "unknown data type `f17`; expected one of i8");
    check_refusal(&["run", "x", "--timeout", "0"], 2, "is no time span");
    check_refusal(&["run", "x", "--threads", "0"], 2, "expected a whole number from 1 to");
    for ranks in ["0", "4.5", "65537", "many"] {
        let expected =
            format!("'{ranks}' for '--ranks <N>': expected a whole number from 1 to 65536");
        check_refusal(&["verify", "x", "--ranks", ranks], 2, &expected);
        check_refusal(&["explain", "--ranks", ranks], 2, &expected);
    }
    check_refusal(&["specialise", "gossip", "--ranks", "2"], 2, "scatter) or a file, which has");
    check_refusal(&["explain", "gossip"], 2, "a size such as 64KiB, or a file, which has");
    check_refusal(&["explain", "--ranks", "8", "--per-node", "3"], 2, "choose a divisor of 8");
    check_refusal(&["run", "x", "--size", "1", "--count", "1"], 2, "cannot be used with");
}

#[test]
fn help_and_version_exit_with_0() {
    let ran = msccl(&["--help"]);
    assert_eq!(ran.code, 0, "{ran}");
    for word in [
        "compile",
        "verify",
        "run",
        "show",
        "fmt",
        "check",
        "list",
        "explain",
        "bench",
        "completions",
    ] {
        assert!(ran.stdout.contains(word), "{word}");
    }
    assert!(ran.stdout.contains("Exit codes: 0 proved or in order, 1 refused or wrong"));
    assert_eq!(msccl(&["run", "--help"]).code, 0);
    assert!(msccl(&["--version"]).stdout.starts_with("msccl "));
}

#[test]
fn files_that_cannot_be_read_exit_with_2() {
    for command in ["verify", "run", "show", "compile", "fmt", "check"] {
        let missing = msccl(&[command, "no/such.msccl"]);
        assert_eq!(missing.code, 2, "{command}: {missing}");
        let said = format!("{}{}", missing.stdout, missing.stderr);
        assert!(said.contains("cannot read no/such.msccl: there is no folder no"), "{said}");
    }
    check_refusal(&["verify", "crates/nothing.msccl"], 2, "there is no such file");
    check_refusal(&["verify", "crates"], 2, "it is a folder; name a file in it");
    let utf16 = file("usage/utf16.xml", b"\xff\xfe<\0a\0");
    check_refusal(&["verify", arg(&utf16)], 2, "expected UTF-8 text, found UTF-16");
    let named = file("usage/named.xml", "hello");
    check_refusal(
        &["verify", arg(&named)],
        2,
        "named.xml:1:1: expected XML, as the file's name says",
    );
    let empty = file("usage/empty.json", "");
    check_refusal(
        &["run", arg(&empty)],
        2,
        "expected JSON, as the file's name says, found nothing",
    );
    check_refusal(&["verify", ""], 2, "its name is empty");
    let latin = file("usage/latin.msccl", b"// caf\xe9\n");
    check_refusal(&["verify", arg(&latin)], 2, ":1:7: expected UTF-8 text, found the byte 0xe9");
}

#[test]
fn arbitrary_bytes_never_panic() {
    let inputs: [&[u8]; 9] =
        [b"", b"<", b"<algo>", b"{", b"{}", b"[[[[", b"algorithm \"", b"algorithm x", b"\0\0\0"];
    for input in inputs {
        for command in ["verify", "show", "run", "check", "compile"] {
            let ran = msccl_reading(&[command, "-"], input);
            assert_eq!(ran.code, 2, "{command} {input:?}: {ran}");
            assert!(!ran.stderr.contains("panicked"), "{command} {input:?}: {ran}");
        }
    }
}

#[test]
fn completions_exist_for_every_common_shell() {
    for (shell, sign) in
        [("bash", "_msccl()"), ("zsh", "#compdef msccl"), ("fish", "complete -c msccl")]
    {
        let ran = msccl(&["completions", shell]);
        assert_eq!(ran.code, 0, "{ran}");
        assert!(ran.stdout.contains(sign), "{shell}: {ran}");
    }
}

#[test]
fn a_reader_that_leaves_early_is_no_error() {
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_msccl"));
    let mut child = command
        .args(["completions", "bash"])
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0));
    assert!(output.stderr.is_empty(), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn colors_are_for_those_who_ask() {
    let proved = |color: &str| {
        let args = ["verify", "--color", color, "-"];
        msccl_reading(&args, crate::RING.as_bytes()).stdout
    };
    assert!(proved("always").contains('\x1b'));
    assert!(!proved("never").contains('\x1b'));
    assert!(!proved("auto").contains('\x1b'), "a pipe is no terminal");
}

#[test]
fn json_holds_errors_too() {
    for command in ["verify", "compile", "run", "fmt", "check"] {
        let ran = msccl(&[command, "--format", "json", "no/such.msccl"]);
        assert_eq!(ran.code, 2, "{command}: {ran}");
        let said = if command == "compile" { &ran.stderr } else { &ran.stdout };
        assert!(said.contains("cannot read no/such.msccl"), "{command}: {ran}");
        assert!(serde_json::from_str::<serde_json::Value>(said).is_ok(), "{command}: {ran}");
    }
}

#[test]
fn malformed_algorithms_have_no_picture() {
    let made = msccl_reading(&["compile", "--emit", "text", "-"], crate::RING.as_bytes());
    let wild = made.stdout.replace("s0: ", "s0 after tb9 s9: ");
    assert_ne!(wild, made.stdout);
    for args in [
        &["show", "-", "--format", "svg"][..],
        &["verify", "-"],
        &["show", "-", "--stage", "timeline"],
    ] {
        let ran = msccl_reading(args, wild.as_bytes());
        assert!([1, 2].contains(&ran.code), "{args:?}: {ran}");
    }
}
