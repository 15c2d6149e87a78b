//! C programs with one-sided transfers and windows, on the host.

#![deny(unsafe_code)]
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]
#![allow(clippy::print_stderr, reason = "skips are loud")]

mod programs;

use programs::run;

#[test]
fn one_sided_transfers() {
    run("one_sided", &["threads"], &[]);
    run("one_sided", &["processes"], &[]);
}

#[test]
fn one_sided_transfers_that_cannot_be() {
    run("one_sided", &["killed"], &[]);
}

#[test]
fn one_sided_transfers_between_hosts() {
    for per_host in ["1", "2", "3"] {
        run("one_sided", &["hosts"], &[("PER_HOST", per_host)]);
    }
    for what in ["meanwhile", "leave", "revoked", "killed"] {
        run("one_sided_hosts", &[what], &[("PER_HOST", "1")]);
    }
    run("one_sided_hosts", &["meanwhile"], &[("PER_HOST", "2")]);
}

#[test]
fn windows_that_are_refused() {
    run("windows", &[], &[]);
}
