//! Programs in C, unlike those in Rust, end by a signal when they write to what nobody reads. An
//! unsafe boundary: it sets what the process does then, so it runs in one of its own.

#![expect(unsafe_code, reason = "sets what the process does at a signal")]

use std::process::Command;
use std::thread::sleep;
use std::time::Duration;

use super::{SharedBytes, connection, rail};
use crate::rail::{Rail, Write};

#[test]
fn a_peer_that_is_gone_is_a_failure_and_no_signal() {
    let mut alone = Command::new(std::env::current_exe().unwrap());
    alone.args(["--exact", "--ignored", "--nocapture", "tcp::tests::sigpipe::a_peer_goes"]);
    let output = alone.output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && text.contains("1 passed"), "{}: {text}", output.status);
}

#[test]
#[ignore = "run in a process of its own by `a_peer_that_is_gone_is_a_failure_and_no_signal`"]
fn a_peer_goes() {
    // SAFETY: the default needs no handler.
    unsafe { libc::signal(libc::SIGPIPE, libc::SIG_DFL) };
    let (near, far) = connection();
    let mut rail = rail(near, &SharedBytes::new());
    drop(far);
    sleep(Duration::from_millis(50));
    // More than one call of the system takes: the peer's host answers the first one that nobody is
    // there.
    for _ in 0..100 {
        rail.post(&Write { from: 0, to: 0, bytes: 8, tag: 0 }).unwrap();
    }
    let broken = rail.poll(&mut Vec::new()).unwrap_err();
    assert_eq!(broken.why, "the peer has closed the connection");
}
