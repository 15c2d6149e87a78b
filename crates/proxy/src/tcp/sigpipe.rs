//! Programs in C, other than those in Rust, end by a signal when they write to what nobody reads. A door for `unsafe`: it
//! sets what the process does then, so it runs in one of its own.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::process::Command;
use std::sync::Arc;
use std::thread::sleep;
use std::time::Duration;

use msccl_fabric::{Doorbell, RingShape};

use super::TcpRail;
use crate::rail::{Rail, Write};
use crate::rings;

#[test]
fn a_peer_that_is_gone_is_a_failure_and_no_signal() {
    let mut alone = Command::new(std::env::current_exe().unwrap());
    alone.args(["--exact", "--ignored", "--nocapture", "tcp::sigpipe::a_peer_goes"]);
    let output = alone.output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && text.contains("1 passed"), "{}: {text}", output.status);
}

#[test]
#[ignore = "run in a process of its own by `a_peer_that_is_gone_is_a_failure_and_no_signal`"]
fn a_peer_goes() {
    // SAFETY: the default needs no handler.
    unsafe { libc::signal(libc::SIGPIPE, libc::SIG_DFL) };
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    stream.set_nonblocking(true).unwrap();
    let doorbell = Arc::new(Doorbell::new().unwrap());
    let pair = rings::pair(&[RingShape { depth: 1, slot_bytes: 64 }], &doorbell).unwrap();
    let mut rail = TcpRail::new(stream, pair.ports.memory, "a rail".to_owned());
    drop(listener.accept().unwrap());
    sleep(Duration::from_millis(50));
    // More than one call of the system takes: the peer's host answers the first one that nobody is there.
    for _ in 0..100 {
        rail.post(&Write { from: 0, to: 0, bytes: 8, tag: 0 }).unwrap();
    }
    let broken = rail.poll(&mut Vec::new()).unwrap_err();
    assert_eq!(broken.why, "the peer has closed the connection");
}
