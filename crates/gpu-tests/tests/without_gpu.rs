//! The program as `cargo test` runs it: on the host, and where there may be no GPU.

#![allow(clippy::unwrap_used)] // Clippy knows test functions, not what they call.

use std::process::{Command, Output};

fn run(arguments: &[&str]) -> (Option<i32>, String) {
    let Output { status, stdout, stderr } =
        Command::new(env!("CARGO_BIN_EXE_msccl-gpu-tests")).args(arguments).output().unwrap();
    let text = [stdout, stderr].concat();
    (status.code(), String::from_utf8_lossy(&text).into_owned())
}

#[test]
fn on_gpus_where_there_are_any() {
    let (code, text) = run(&["--quick", "--only", "counts"]);
    assert_eq!(code, Some(0), "{text}");
    // Whoever reads the log of the tests shall see what was left out.
    println!("{text}");
    assert!(text.starts_with("SKIPPED: there is no GPU") || text.contains("0 failed"), "{text}");
}

#[test]
fn sections_are_listed_and_chosen() {
    let (code, text) = run(&["--list", "--only", "graph"]);
    assert_eq!((code, text.lines().count()), (Some(0), 1), "{text}");
}

#[test]
fn on_the_host() {
    // Many ranks take long on few cores; the runtime's own tests have them.
    let (code, text) =
        run(&["--device", "host", "--quick", "--ranks", "3", "--skip", "many-ranks"]);
    assert_eq!(code, Some(0), "{text}");
}
